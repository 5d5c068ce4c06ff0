/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score and seal: closes the record and makes the archive of it, before anything is torn down and
 * also when the run failed or was interrupted.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/results_report.h"
#include "orchestrator/run/steps.h"

static int put_end(struct run *run, struct vt_error *err)
{
    char text[VT_ERROR_TEXT_MAX + 32];

    if (run->phases.failure.kind != VT_KIND_NONE)
        snprintf(text, sizeof(text), "failed: %s", run->phases.failure.text);
    else
        vt_text_copy(text, sizeof(text), run->phases.interrupts > 0 ? "interrupted" : "complete");
    return record_put_meta(run->record, RECORD_META_ENDED, text, err);
}

static int start_score(struct run *run, struct vt_error *err)
{
    struct record_reader *reader = NULL;
    int ret;

    if (!run->record) {
        phases_done(&run->phases, NULL);
        return 0;
    }
    run_lost_settle(run);
    for (unsigned i = 0; i < run->nvms; i++)
        run_keep_console(&run->vms[i]);
    ret = put_end(run, err);
    vt_bus_remove(&run->bus, record_sink(run->record));
    if (ret == 0)
        ret = record_close(run->record, err);
    else
        record_close(run->record, NULL);
    run->record = NULL;
    if (ret == 0)
        ret = record_open_read(run->record_path, &reader, err);
    if (ret == 0)
        ret = result_compute(reader, &run->result, err);
    record_reader_close(reader);
    if (ret < 0)
        return vt_error_wrap(err, "score the run");
    run->scored = true;
    phases_done(&run->phases, NULL);
    return 0;
}

/* What is encrypted for others stays readable here, without a second copy of it. */
static int add_own_reader(struct run *run, const char *folder, struct vt_error *err)
{
    struct archive_key *reader = NULL;
    int ret;

    if (archive_recipients_count(run->recipients) == 0)
        return 0;
    ret = archive_key_load_reader(folder, true, &reader, err);
    if (ret == 0)
        ret = archive_recipients_add_key(run->recipients, reader, err);
    archive_key_free(reader);
    return ret;
}

/* The archive holds all of it: a run without its report has lost nothing. What is encrypted for
 * others gets none in plain text beside it. */
static void write_report(struct run *run, const struct archive_key *key)
{
    struct record_reader *reader = NULL;
    struct vt_error err = VT_ERROR_INIT;
    char path[VT_PATH_MAX];
    int ret;

    if (archive_recipients_count(run->recipients) > 0 ||
        !results_report_path(run->archive_path, path, sizeof(path)))
        return;
    ret = record_open_read(run->record_path, &reader, &err);
    if (ret == 0)
        ret = results_report_write(reader, run->archive_path, archive_key_fingerprint(key), path,
                                   &err);
    record_reader_close(reader);
    if (ret < 0)
        run_note(run, VT_LEVEL_WARNING, "no report: %s", err.text);
    else
        vt_text_copy(run->report_path, sizeof(run->report_path), path);
}

void run_print_places(const struct run *run, struct vt_buf *out)
{
    if (*run->report_path)
        vt_buf_printf(out, "report:  %s\n", run->report_path);
    vt_buf_printf(out, "archive: %s\n", run->archive_path);
}

static int start_seal(struct run *run, struct vt_error *err)
{
    struct archive_key *key = NULL;
    char folder[VT_PATH_MAX + 16];
    int ret;

    if (!run->scored) {
        phases_done(&run->phases, NULL);
        return 0;
    }
    snprintf(folder, sizeof(folder), "%s/keys", run->state.folder);
    ret = archive_key_load(folder, true, &key, err);
    if (ret == 0)
        ret = add_own_reader(run, folder, err);
    if (ret == 0)
        ret = archive_seal(run->record_path, run->archive_path, key, run->recipients, err);
    if (ret == 0)
        write_report(run, key);
    archive_key_free(key);
    if (ret < 0)
        return vt_error_wrap(err, "seal the archive");
    run->sealed = true;
    phases_done(&run->phases, NULL);
    return 0;
}

const struct phase run_phase_score = {.name = "score", .start = start_score, .always = true};
const struct phase run_phase_seal = {.name = "seal", .start = start_seal, .always = true};
