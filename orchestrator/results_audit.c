/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit: opens an archive and gives its rules what this program knows of specs, presets and the
 * published tile.
 */
#include "orchestrator/results_audit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "orchestrator/results_compare.h"
#include "orchestrator/run/role_row.h"
#include "results/audit.h"
#include "tiles/spec/spec.h"

#define EXIT_INVALID 3
#define FULL_PRESET "standard" /* as long as the source's measurement, 7,200 s */
#define PRESETS_MAX 8

const struct audit_divisor results_published[RESULTS_PUBLISHED] = {
    {"app", 178100000}, {"web", 180900000}, {"mail", 139600000}};

struct recorded {
    char *spec_name, *spec_text, *load, *preset;
};

static int read_recorded(struct record_reader *reader, struct recorded *ret, struct vt_error *err)
{
    const struct {
        const char *key;
        char **to;
    } texts[] = {
        {RECORD_META_SPEC_NAME, &ret->spec_name},
        {RECORD_META_SPEC_TEXT, &ret->spec_text},
        {RECORD_META_LOAD, &ret->load},
        {RECORD_META_PRESET, &ret->preset},
    };

    for (size_t i = 0; i < VT_COUNT(texts); i++) {
        int r = record_read_meta(reader, texts[i].key, texts[i].to, err);

        if (r < 0 && r != -ENOENT)
            return r;
    }
    return 0;
}

static void recorded_dispose(struct recorded *recorded)
{
    free(recorded->spec_name);
    free(recorded->spec_text);
    free(recorded->load);
    free(recorded->preset);
}

static int find_preset(const char *name)
{
    for (int i = 0; name && spec_preset_names[i]; i++) {
        if (!strcmp(spec_preset_names[i], name))
            return i;
    }
    return -1;
}

/* The rows that this text gives at the run's load; without any ret->why says why. */
static void make_rows(const char *name, const char *text, const struct recorded *recorded,
                      struct audit_spec *ret)
{
    VT_AUTO_FREE struct spec *spec = calloc(1, sizeof(*spec));
    struct vt_error why = VT_ERROR_INIT;
    int preset = find_preset(recorded->preset);
    double load = 0;

    if (!text || !spec) {
        snprintf(ret->why, sizeof(ret->why), "there is no text of a spec '%.60s'", name);
        return;
    }
    if (preset < 0 || !recorded->load ||
        vt_text_parse_double(recorded->load, 0, 1, &load, &why) < 0) {
        snprintf(ret->why, sizeof(ret->why), "the record says neither preset nor load");
        return;
    }
    if (spec_read_text(name, text, strlen(text), spec, &why) < 0) {
        char line[AUDIT_SAW_MAX];

        snprintf(ret->why, sizeof(ret->why), "%s", vt_error_print(&why, line, sizeof(line)));
        return;
    }
    ret->roles = calloc(spec->nroles, sizeof(*ret->roles));
    if (!ret->roles) {
        snprintf(ret->why, sizeof(ret->why), "out of memory");
        return;
    }
    ret->nroles = spec->nroles;
    for (size_t i = 0; i < spec->nroles; i++)
        run_role_row(&spec->roles[i], 1, preset, (int64_t)(load * 1e6 + 0.5), &ret->roles[i]);
}

static size_t make_presets(struct audit_preset presets[PRESETS_MAX])
{
    size_t n;
    const struct spec_preset *all = spec_presets(&n);

    if (n > PRESETS_MAX)
        n = PRESETS_MAX;
    for (size_t i = 0; i < n; i++)
        presets[i] = (struct audit_preset){.name = all[i].name,
                                           .ramp_s = all[i].ramp_ns / VT_NS_PER_S,
                                           .warm_s = all[i].warm_ns / VT_NS_PER_S,
                                           .measure_s = all[i].measure_ns / VT_NS_PER_S,
                                           .by_operation = all[i].limits_by_operation};
    return n;
}

static int judge(struct record_reader *reader, struct audit_given *given, struct audit *audit,
                 struct vt_error *err)
{
    struct audit_preset presets[PRESETS_MAX];
    struct recorded recorded = {0};
    const char *builtin;
    int r = read_recorded(reader, &recorded, err);

    if (r == 0) {
        builtin = recorded.spec_name ? spec_builtin(recorded.spec_name) : NULL;
        given->presets = presets;
        given->npresets = make_presets(presets);
        given->full_preset = FULL_PRESET;
        given->divisors = results_published;
        given->ndivisors = RESULTS_PUBLISHED;
        given->same_text = builtin && recorded.spec_text && !strcmp(builtin, recorded.spec_text);
        make_rows("in the record", recorded.spec_text, &recorded, &given->text);
        make_rows(recorded.spec_name ? recorded.spec_name : "", builtin, &recorded,
                  &given->builtin);
        r = audit_record(reader, given, audit, err);
    }
    free(given->text.roles);
    free(given->builtin.roles);
    recorded_dispose(&recorded);
    return r;
}

static int print(const struct audit *audit, const char *run, bool json, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 16);
    int r;

    if (json) {
        audit_write_json(audit, run, &out);
        vt_buf_adds(&out, "\n");
    } else {
        audit_write_text(audit, &out);
    }
    r = vt_buf_check(&out, "print the audit", err);
    if (r == 0)
        fwrite(out.data, 1, out.len, stdout);
    return r;
}

int results_audit(const char *name, const struct results_access *access, bool json,
                  struct vt_error *err)
{
    VT_AUTO_FREE struct audit *audit = calloc(1, sizeof(*audit));
    VT_AUTO_FREE struct audit_given *given = calloc(1, sizeof(*given));
    struct vt_error compared = VT_ERROR_INIT;
    VT_AUTO_BUF struct vt_buf told = VT_BUF_INIT(8U << 20);
    struct results_archive archive;
    struct record_reader *reader = NULL;
    struct result result = {0};
    int r = results_archive_open(&archive, name, access, &reader, err);

    if (r == 0 && (!audit || !given))
        r = vt_error_no_memory(err, "audit");
    if (r == 0)
        r = result_compute(reader, &result, err);
    if (r == 0) {
        given->signer = archive.report.fingerprint;
        given->own = archive.own;
        given->nparts = archive.report.nparts;
        given->nrecipients = archive.report.nrecipients;
        given->result = &result;
        if (results_compare(&archive.report.manifest, &result, false, &told, &compared) < 0)
            given->compared = compared.text;
        else if (told.len)
            given->other_rules = told.data;
        r = judge(reader, given, audit, err);
    }
    if (r == 0)
        r = print(audit, archive.report.run, json, err);
    if (r == 0)
        r = audit_failed(audit, false) + audit_failed(audit, true) ? EXIT_INVALID : 0;
    result_dispose(&result);
    record_reader_close(reader);
    results_archive_dispose(&archive);
    return r;
}
