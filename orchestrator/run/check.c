/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check: after the window every machine is asked once more what it is, guests also for the facts
 * and logs of their role; what the servers say is held against what the client saw. Logs come last,
 * of one guest after the other and no more of them than the record's queue has room for: what finds
 * it full is lost and makes the run INVALID.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"

#define CHECK_TIMEOUT_NS (120 * VT_NS_PER_S)
#define LOGS_TIMEOUT_NS (30 * VT_NS_PER_S)
#define LOGS_RETRY_NS (50 * VT_NS_PER_MS)
/* Of one guest; a quarter of the queue is left to samples and notes meanwhile. */
#define LOGS_BYTES_MAX (RECORD_QUEUE_BYTES / 2)
#define LOGS_ROOM_BYTES (RECORD_QUEUE_BYTES / 4 * 3)
#define LOGS_MAX 16 /* of a guest, the kernel's too */

struct run_check {
    struct run *run;
    unsigned next_logs; /* index into agents */
    struct check_agent {
        struct run_check *check;
        const struct run_vm *vm;
        const char *name;
        bool failed;
    } agents[];
};

static void fetch_logs(struct run_check *check);

/* A guest that cannot answer any more is a fact too, not the end of the run. */
static void give_up(struct check_agent *agent, const char *question, const struct vt_error *err)
{
    agent->failed = true;
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
        fetch_logs(check);
}

static void answered(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct check_agent *agent = ctx;

    if (!phases_in(&agent->check->run->phases, run_phase_check.name))
        return;
    if (err) {
        give_up(agent, "check", err);
    } else {
        run_put_answer(agent->check->run, "check", agent->name, result);
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
    fetch_logs(agent->check);
}

static int ask_logs(struct check_agent *agent, struct vt_error *err)
{
    const struct role_log *logs = agent->vm->role->guest->logs;
    json_t *params;
    int64_t n = 1; /* the kernel's */
    int ret;

    for (; logs && logs->name; logs++)
        n++;
    params = json_pack("{s:I}", "max_bytes", (json_int_t)LOGS_BYTES_MAX / n);
    if (!params)
        return vt_error_no_memory(err, "ask for logs");
    ret = hub_call(agent->check->run->hub, agent->name, "logs", params, LOGS_TIMEOUT_NS, logs_came,
                   agent, err);
    json_decref(params);
    return ret;
}

static void look_again(struct vt_timer *timer, int64_t now_ns)
{
    struct run *run = timer->ctx;

    (void)now_ns;
    if (phases_in(&run->phases, run_phase_check.name))
        fetch_logs(run->check);
}

/* Of the next guest, once there is room. */
static void fetch_logs(struct run_check *check)
{
    struct run *run = check->run;
    struct vt_error err = VT_ERROR_INIT;

    for (; check->next_logs < run->nvms; check->next_logs++) {
        struct check_agent *agent = &check->agents[check->next_logs];

        if (agent->failed)
            continue;
        if (record_room(run->record) < LOGS_ROOM_BYTES) {
            run->phase_timer.fire = look_again;
            /* A record that is not written any more makes no room. */
            if (record_status(run->record, NULL, &err) < 0 ||
                vt_timer_arm(&run->phase_timer, vt_clock_now_ns() + LOGS_RETRY_NS, &err) < 0)
                phases_done(&run->phases, &err);
            return;
        }
        if (ask_logs(agent, &err) == 0) {
            check->next_logs++;
            return;
        }
        give_up(agent, "logs", &err);
        vt_error_clear(&err);
    }
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
    return 2 * CHECK_TIMEOUT_NS + run->nvms * LOGS_TIMEOUT_NS;
}

const struct phase run_phase_check = {
    .name = "check",
    .start = start,
    .deadline_ns = deadline_ns,
};
