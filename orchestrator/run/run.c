/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vtile run: settings in, phases, result out.
 */
#include "orchestrator/run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/command.h"
#include "orchestrator/run/show.h"
#include "orchestrator/run/steps.h"

#define FULL_BYTES (1U << 20) /* less free space than this explains any failure */

static const struct phase *const table[] = {
    &run_phase_plan,   &run_phase_preflight, &run_phase_open,    &run_phase_tune_host,
    &run_phase_deploy, &run_phase_tune_live, &run_phase_prepare, &run_phase_ramp,
    &run_phase_warm,   &run_phase_measure,   &run_phase_drain,   &run_phase_check,
    &run_phase_score,  &run_phase_seal,
};

void run_note(struct run *run, enum vt_event_level level, const char *fmt, ...)
{
    char text[VT_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    vt_bus_note(&run->bus, level, "%s", text);
}

void run_reason(struct run *run, const char *code, double number, const char *fmt, ...)
{
    char text[VT_ERROR_TEXT_MAX];
    struct vt_event event = {
        .type = VT_EVENT_VERDICT,
        .level = VT_LEVEL_ERROR,
        .time_ns = vt_clock_now_ns(),
        .source = "controller",
        .series = code,
        .value = number,
        .text = text,
    };
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    vt_bus_emit(&run->bus, &event);
}

static void entered(struct run *run, const struct phase *phase)
{
    struct vt_event event = {
        .type = VT_EVENT_PHASE,
        .time_ns = vt_clock_now_ns(),
        .source = "controller",
        .phase = phase->name,
        .planned_ns = phase->planned_ns ? phase->planned_ns(run) : 0,
    };

    if (!run_load_runs(run)) /* the host is sampled while it does */
        run_samples_stop(run);
    if (phase->always && !run->record && !run->scored)
        return; /* nothing to score or to seal */
    vt_bus_emit(&run->bus, &event);
    show_entered(run, phase);
}

/* Programs that ran out of space seldom say so: libvirt then finds no emulator, for one. */
static void tell_full_folders(struct run *run)
{
    const char *const folders[] = {run->state.folder, run->state.runtime};

    for (size_t i = 0; i < VT_COUNT(folders); i++) {
        struct statvfs fs;

        if (statvfs(folders[i], &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < FULL_BYTES)
            run_note(run, VT_LEVEL_ERROR, "no space is left in %s: free some, and try again",
                     folders[i]);
    }
}

static void failed(struct run *run, const struct phase *phase, const struct vt_error *err)
{
    run_note(run, VT_LEVEL_ERROR, "%s failed: %s", phase->name, err->text);
    tell_full_folders(run);
}

static void undo_failed(struct run *run, const struct phase *phase, const struct vt_error *err)
{
    run->left_behind = true;
    run_note(run, VT_LEVEL_ERROR, "undo of %s: %s; `vtile clean` tries again", phase->name,
             err->text);
}

/* Of the run as it has ended. */
static int exit_code(const struct run *run)
{
    int code = run->phases.interrupts > 0 ? 130 : vt_error_exit_code(&run->phases.failure);

    if (!run->sealed)
        return code ? code : 4;
    code = verdict_exit_code(code, run->result.verdict.grade, run->result.qos.state);
    return run->left_behind && code != 130 ? 4 : code;
}

/* Who looks for a result must know that there is none, and what became of its record. */
static void tell_unsealed(struct run *run)
{
    const char *why = run->phases.interrupts >= 2 ? "it was told to stop at once" : "it failed";

    if (run->sealed || (!run->recorded && run->phases.interrupts == 0))
        return;
    if (!run->recorded)
        run_note(run, VT_LEVEL_WARNING, "no archive: run %s ended before its record began",
                 run->id);
    else if (access(run->record_path, F_OK) < 0)
        run_note(run, VT_LEVEL_WARNING,
                 "no archive: %s, and the record was removed with all else of run %s", why,
                 run->id);
    else
        run_note(run, VT_LEVEL_WARNING,
                 "no archive: %s; the record is left in %s, until `vtile clean` removes what is "
                 "left of run %s",
                 why, run->record_path, run->id);
}

static void ended(struct run *run)
{
    tell_unsealed(run);
    phases_close(&run->phases);
    run_samples_close(run);
    vt_timer_close(&run->phase_timer, NULL);
    vt_timer_close(&run->lost_timer, NULL);
    show_end(run, exit_code(run));
}

static const struct phases_events phase_events = {entered, failed, undo_failed, ended};

static int make_id(struct run *run, struct vt_error *err)
{
    uint8_t random[6];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return vt_error_errno(err, VT_KIND_INFRA, errno, "draw the run's id");
    vt_text_hex(random, sizeof(random), run->id);
    return 0;
}

/* The agent stands beside this program. */
static int find_agent(struct run *run, struct vt_error *err)
{
    char program[VT_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (n < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "find this program's folder");
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    if (snprintf(run->agent_path, sizeof(run->agent_path), "%s/vtile-agent", program) >=
        (int)sizeof(run->agent_path))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "the path %s is too long", program);
    if (access(run->agent_path, X_OK) < 0)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "%s must stand beside vtile",
                              run->agent_path);
    return 0;
}

/* The spec as it was read, for the record. */
static int keep_spec_text(struct run *run, struct vt_error *err)
{
    const char *builtin = spec_builtin(run->settings.spec);

    if (!builtin)
        return vt_file_read(run->settings.spec, VT_KIND_CONFIG, &run->spec_text, err);
    vt_buf_adds(&run->spec_text, builtin);
    return vt_buf_check(&run->spec_text, run->settings.spec, err);
}

static int set_up(struct run *run, struct vt_error *err)
{
    size_t npresets;
    int ret;

    run->preset = &spec_presets(&npresets)[run->settings.preset];
    run->seed = run->settings.seed;
    ret = keep_spec_text(run, err);
    if (ret == 0)
        ret = settings_export(&run->settings, err);
    if (ret == 0)
        ret = state_open(&run->state, err);
    if (ret == 0)
        ret = make_id(run, err);
    if (ret == 0)
        ret = find_agent(run, err);
    if (ret == 0)
        ret = vt_loop_init(&run->loop, err);
    if (ret == 0)
        ret = vt_timer_init(&run->phase_timer, &run->loop, NULL, run, err);
    if (ret == 0)
        ret = vt_timer_init(&run->lost_timer, &run->loop, run_lost_ask, run, err);
    return ret;
}

/* The last word: result, archive, exit code. */
static int tell_result(struct run *run, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 20);
    int ret;

    if (!run->sealed)
        return exit_code(run);
    if (run->settings.json) {
        result_write_json(&run->result, run->archive_path, &out);
        vt_buf_adds(&out, "\n");
    } else {
        result_write_text(&run->result, &out);
        run_print_places(run, &out);
    }
    ret = vt_buf_check(&out, "print the result", err);
    if (ret < 0)
        return ret;
    fwrite(out.data, 1, out.len, stdout);
    return exit_code(run);
}

static void dispose(struct run *run)
{
    result_dispose(&run->result);
    vt_ca_free(run->ca);
    free(run->vms);
    free(run->loads);
    free(run->check);
    free(run->configs[0]);
    free(run->configs[1]);
    archive_recipients_free(run->recipients);
    free(run->samples);
    vt_buf_dispose(&run->spec_text);
}

static int run_all(struct run *run, int detach_fd, struct vt_error *err)
{
    int ret = set_up(run, err);

    if (ret < 0)
        return ret;
    run->phases = (struct phases){.loop = &run->loop,
                                  .table = table,
                                  .count = VT_COUNT(table),
                                  .events = &phase_events,
                                  .run = run};
    ret = show_open(run, detach_fd, err);
    if (ret == 0)
        ret = phases_start(&run->phases, err);
    if (ret == 0)
        uv_run(&run->loop.uv, UV_RUN_DEFAULT);
    vt_loop_dispose(&run->loop);
    show_dispose(run);
    return ret < 0 ? ret : tell_result(run, err);
}

static int take_detach(void *ctx, const char *value, struct vt_error *err)
{
    (void)value;
    (void)err;
    *(bool *)ctx = true;
    return 0;
}

static const struct settings_option own[] = {
    {"detach", NULL, "go on in the background once the host is taken; `vtile attach` follows",
     take_detach}};
const struct settings_use run_use = {
    .usage = "vtile run [OPTION]...", .run = true, .options = own, .noptions = VT_COUNT(own)};

int command_run(int argc, char **argv, struct vt_error *err)
{
    VT_AUTO_FREE struct run *run = calloc(1, sizeof(*run));
    struct settings_use use = run_use;
    bool detach = false;
    int detach_fd = -1, ret, code = 0;

    if (!run)
        return vt_error_no_memory(err, "run");
    use.ctx = &detach;
    run->embed.lock_fd = run->embed.outer_mnt_fd = -1;
    run->net.outer_net_fd = run->net.range_fd = -1;
    run->spec_text = (struct vt_buf)VT_BUF_INIT(VT_YAML_BYTES_MAX);
    ret = settings_load(argc, argv, &use, &run->settings, &run->spec, NULL, err);
    if (ret < 0)
        return ret;
    if (run->settings.help) {
        settings_help(&run_use, stdout);
        return 0;
    }
    if (run->settings.print_config)
        return settings_print(&run->settings, &run_use, stdout, err);
    if (detach) {
        ret = run_detach(run->settings.json, &detach_fd, &code, err);
        if (ret != 0)
            return ret < 0 ? ret : code;
    }
    ret = run_all(run, detach_fd, err);
    dispose(run);
    return ret;
}
