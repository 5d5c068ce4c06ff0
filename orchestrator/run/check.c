/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check: after the window every machine is asked once more what it is, guests also for the facts
 * and logs of their role; what the servers say is held against what the client saw. Logs come last,
 * of one guest after the other and no more of them than the record's queue has room for: what finds
 * it full is lost and makes the run INVALID. With them come the bitmaps of what guests have kept,
 * then those of what the client has seen acknowledged (results/kept.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"
#include "results/kept.h"
#include "tiles/load/schedule.h"

#define CHECK_TIMEOUT_NS (120 * VT_NS_PER_S)
#define LOGS_TIMEOUT_NS (30 * VT_NS_PER_S)
#define LOGS_RETRY_NS (50 * VT_NS_PER_MS)
/* Of one guest; a quarter of the queue is left to samples and notes meanwhile. */
#define LOGS_BYTES_MAX (RECORD_QUEUE_BYTES / 2)
#define LOGS_ROOM_BYTES (RECORD_QUEUE_BYTES / 4 * 3)
#define LOGS_MAX 20 /* of a guest: the kernel's and bitmaps too */
#define LOG_BYTES_MIN (64 << 10)

_Static_assert(KEPT_BYTES_MAX == SCHEDULE_STEPS_MAX / 8, "a bitmap has room for every schedule");

struct run_check {
    struct run *run;
    unsigned next_logs; /* index into agents */
    unsigned next_load; /* of the run: what was acknowledged in it */
    struct check_agent {
        struct run_check *check;
        const struct run_vm *vm;
        const char *name;
        bool failed;
    } agents[];
};

static void fetch_next(struct run_check *check);

/* A guest that cannot answer any more is a fact too, not the end of the run. */
static void give_up(struct check_agent *agent, const char *question, const struct vt_error *err)
{
    agent->failed = true;
    if (run_lost_is(agent->check->run, agent->name))
        run_note(agent->check->run, VT_LEVEL_WARNING, "%s: %s: %s", agent->name, question,
                 err->text);
    else
        run_reason(agent->check->run, "check-failed", 1, "%s: %s: %s", agent->name, question,
                   err->text);
}

/* --- the questions --- */

/* Requests that the server itself says went wrong. */
static void warn_of_errors(const struct check_agent *agent, const json_t *answer)
{
    int64_t not_ok = 0;

    vt_json_opt_int(answer, "not_ok", 0, INT64_MAX, &not_ok, NULL);
    if (not_ok > 0)
        run_note(agent->check->run, VT_LEVEL_WARNING,
                 "%s: its server answered %lld requests with an error", agent->name,
                 (long long)not_ok);
}

static void one_less(struct run_check *check)
{
    if (--check->run->waiting == 0)
        fetch_next(check);
}

static void answered(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct check_agent *agent = ctx;

    if (!phases_in(&agent->check->run->phases, run_phase_check.name))
        return;
    if (err) {
        give_up(agent, "check", err);
    } else {
        run_put_answer(agent->check->run, "check.", agent->name, result);
        warn_of_errors(agent, result);
    }
    one_less(agent->check);
}

static void ask_guests(struct run *run)
{
    struct run_check *check = run->check;

    for (unsigned i = 0; i < run->nvms; i++) {
        struct check_agent *agent = &check->agents[i];
        struct vt_error err = VT_ERROR_INIT;

        if (hub_call(run->hub, agent->name, "check", NULL, CHECK_TIMEOUT_NS, answered, agent,
                     &err) < 0)
            answered(agent, NULL, &err);
    }
}

/* --- logs --- */

/* A log that was longer than asked for is told to be. */
static void note_cuts(const struct check_agent *agent, const json_t *result)
{
    const json_t *logs;

    if (vt_json_get_array(result, "logs", LOGS_MAX, &logs, NULL) < 0)
        return;
    for (size_t i = 0; i < json_array_size(logs); i++) {
        const json_t *log = json_array_get(logs, i);
        const char *name = json_string_value(json_object_get(log, "name"));

        if (name && json_is_true(json_object_get(log, "cut")))
            run_note(agent->check->run, VT_LEVEL_WARNING,
                     "%s: its log %.64s is longer than what was kept of it", agent->name, name);
    }
}

static void logs_came(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct check_agent *agent = ctx;

    if (!phases_in(&agent->check->run->phases, run_phase_check.name))
        return;
    if (err)
        give_up(agent, "logs", err);
    else
        note_cuts(agent, result);
    fetch_next(agent->check);
}

/* Of the bitmaps that a guest may send along: an upper bound, without knowing what it keeps. */
static int64_t bitmap_bytes(const struct run *run, unsigned tile)
{
    const struct spec_preset *preset = run->preset;
    int64_t length_ns = preset->ramp_ns + preset->warm_ns + preset->measure_ns, bytes = 0;

    for (unsigned i = 0; i < run->nloads; i++) {
        const struct run_vm *vm = run->loads[i].vm;
        __int128 steps = (__int128)run_load_rate(run, vm) * length_ns / 1000000 / VT_NS_PER_S;

        if (vm->role->driver && vm->role->driver->acknowledges && vm->tile >= tile &&
            vm->tile < tile + ROLE_SHARED_MAX)
            bytes += (int64_t)(steps / 8) + 1;
    }
    return bytes;
}

static int ask_logs(struct check_agent *agent, struct vt_error *err)
{
    const struct role_log *logs = agent->vm->role->guest->logs;
    int64_t room = (int64_t)LOGS_BYTES_MAX - bitmap_bytes(agent->check->run, agent->vm->tile);
    json_t *params;
    int64_t n = 1; /* the kernel's */
    int ret;

    for (; logs && logs->name; logs++)
        n++;
    if (room < n * LOG_BYTES_MIN)
        room = n * LOG_BYTES_MIN;
    params = json_pack("{s:I}", "max_bytes", (json_int_t)room / n);
    if (!params)
        return vt_error_no_memory(err, "ask for logs");
    ret = hub_call(agent->check->run->hub, agent->name, "logs", params, LOGS_TIMEOUT_NS, logs_came,
                   agent, err);
    json_decref(params);
    return ret;
}

/* Of the next guest. False: all have been asked. */
static bool ask_next_guest(struct run_check *check)
{
    struct vt_error err = VT_ERROR_INIT;

    while (check->next_logs < check->run->nvms) {
        struct check_agent *agent = &check->agents[check->next_logs++];

        if (agent->failed)
            continue;
        if (ask_logs(agent, &err) == 0)
            return true;
        give_up(agent, "logs", &err);
        vt_error_clear(&err);
    }
    return false;
}

/* --- what was acknowledged --- */

static void acknowledged_unknown(const struct run_load *load, const struct vt_error *err)
{
    run_reason(load->vm->run, "kept-unknown", 0, "what %s acknowledged is not known: %s",
               load->vm->agent, err->text);
}

static void acknowledged_came(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_load *load = ctx;
    struct run *run = load->vm->run;

    (void)result;
    if (!phases_in(&run->phases, run_phase_check.name))
        return;
    if (err)
        acknowledged_unknown(load, err);
    fetch_next(run->check);
}

/* Of the next load that the client drove. False: of all it was asked. */
static bool ask_next_load(struct run_check *check)
{
    struct run *run = check->run;
    struct vt_error err = VT_ERROR_INIT;

    while (check->next_load < run->nloads) {
        struct run_load *load = &run->loads[check->next_load++];

        if (!load->vm->role->driver || !load->vm->role->driver->acknowledges)
            continue;
        if (run_call_load(run, load, "load.acknowledged", 0, LOGS_TIMEOUT_NS, acknowledged_came,
                          &err) == 0)
            return true;
        acknowledged_unknown(load, &err);
        vt_error_clear(&err);
    }
    return false;
}

bool run_take_bitmap(struct run *run, const struct run_vm *vm, const char *agent, const char *name,
                     const void *data, size_t len)
{
    bool kept = !strncmp(name, VT_RECORD_KEPT, strlen(VT_RECORD_KEPT));
    bool acknowledged = !strncmp(name, VT_RECORD_ACKNOWLEDGED, strlen(VT_RECORD_ACKNOWLEDGED));
    const char *dot = strrchr(name, '.');
    const struct vt_event event = {
        .type = VT_EVENT_LOG,
        .time_ns = vt_clock_now_ns(),
        .tile = vm ? vm->tile : 0,
        .role = vm ? vm->role->name : NULL,
        .source = agent,
        .series = name,
    };

    if ((!kept && !acknowledged) || !dot || strcmp(dot, VT_RECORD_BITS) != 0)
        return false;
    /* Guests tell what they have kept, the client what was acknowledged: nobody speaks for both. */
    if (run->record && kept == (vm != NULL))
        record_put_log(run->record, &event, data, len);
    return true;
}

/* --- one after the other --- */

static void look_again(struct vt_timer *timer, int64_t now_ns)
{
    struct run *run = timer->ctx;

    (void)now_ns;
    if (phases_in(&run->phases, run_phase_check.name))
        fetch_next(run->check);
}

/* The next log or bitmap, once there is room for it. */
static void fetch_next(struct run_check *check)
{
    struct run *run = check->run;
    struct vt_error err = VT_ERROR_INIT;

    if (record_room(run->record) < LOGS_ROOM_BYTES) {
        run->phase_timer.fire = look_again;
        /* A record that is not written any more makes no room. */
        if (record_status(run->record, NULL, &err) < 0 ||
            vt_timer_arm(&run->phase_timer, vt_clock_now_ns() + LOGS_RETRY_NS, &err) < 0)
            phases_done(&run->phases, &err);
        return;
    }
    if (ask_next_guest(check) || ask_next_load(check))
        return;
    run_record_agents(run, &err);
    phases_done(&run->phases, &err);
}

static int start(struct run *run, struct vt_error *err)
{
    struct run_check *check = calloc(1, sizeof(*check) + run->nvms * sizeof(check->agents[0]));

    if (!check)
        return vt_error_no_memory(err, "check");
    run->check = check;
    check->run = run;
    run->waiting = run->nvms;
    for (unsigned i = 0; i < run->nvms; i++) {
        check->agents[i].check = check;
        check->agents[i].vm = &run->vms[i];
        check->agents[i].name = run->vms[i].agent;
    }
    run_ask_config(run, true, ask_guests);
    return 0;
}

static int64_t deadline_ns(const struct run *run)
{
    return 2 * CHECK_TIMEOUT_NS + (run->nvms + run->nloads) * LOGS_TIMEOUT_NS;
}

const struct phase run_phase_check = {
    .name = "check",
    .start = start,
    .deadline_ns = deadline_ns,
};
