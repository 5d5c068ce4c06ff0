/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check: after the window every agent is asked what machine it ran on, guests also for the facts
 * and logs of their role; what the servers say is held against what the client saw.
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

/* The questions, in order; the client has only the first. */
static const struct {
    const char *op, *prefix; /* answers stand in the record as "<prefix>.<agent>.<name>" */
} questions[] = {{"config", "config"}, {"check", "check"}, {"logs", NULL}};

/* One agent's way through them. */
struct run_check {
    struct run *run;
    const struct run_vm *vm; /* NULL: the client */
    const char *agent;
    unsigned next;
};

static void ask_next(struct run_check *check);

static void one_less(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;

    if (--run->waiting > 0)
        return;
    run_record_agents(run, &err);
    phases_done(&run->phases, &err);
}

static void keep_answer(const struct run_check *check, const char *prefix, const json_t *answer)
{
    const char *key;
    const json_t *value;

    json_object_foreach((json_t *)answer, key, value) {
        char name[RECORD_META_KEY_MAX], number[32];
        const char *text = json_string_value(value);

        if (!text) {
            if (json_is_integer(value))
                snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
            else
                vt_text_copy(number, sizeof(number), json_is_true(value) ? "true" : "false");
            text = number;
        }
        if (snprintf(name, sizeof(name), "%s.%s.%s", prefix, check->agent, key) < (int)sizeof(name))
            record_put_meta(check->run->record, name, text, NULL);
    }
}

/* Requests that the server itself says went wrong. */
static void warn_of_errors(const struct run_check *check, const json_t *answer)
{
    int64_t not_ok = 0;

    vt_json_opt_int(answer, "not_ok", 0, INT64_MAX, &not_ok, NULL);
    if (not_ok > 0)
        run_note(check->run, VT_LEVEL_WARNING,
                 "%s: its server answered %lld requests with an error", check->agent,
                 (long long)not_ok);
}

static void answered(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_check *check = ctx;
    unsigned question = check->next - 1;

    if (!phases_in(&check->run->phases, run_phase_check.name))
        return;
    if (err) {
        /* A guest that cannot answer any more is a fact too, not the end of the run. */
        run_reason(check->run, "check-failed", 1, "%s: %s: %s", check->agent,
                   questions[question].op, err->text);
        one_less(check->run);
        return;
    }
    if (questions[question].prefix) {
        keep_answer(check, questions[question].prefix, result);
        warn_of_errors(check, result);
    }
    ask_next(check);
}

static void ask_next(struct run_check *check)
{
    struct vt_error err = VT_ERROR_INIT;

    if (check->next == (check->vm ? VT_COUNT(questions) : 1)) {
        one_less(check->run);
        return;
    }
    check->next++;
    if (hub_call(check->run->hub, check->agent, questions[check->next - 1].op, NULL,
                 CHECK_TIMEOUT_NS, answered, check, &err) < 0)
        answered(check, NULL, &err);
}

static int start(struct run *run, struct vt_error *err)
{
    unsigned n = run->nvms + (run->nloads > 0);

    run->checks = calloc(n, sizeof(*run->checks));
    if (!run->checks)
        return vt_error_no_memory(err, "check");
    run->waiting = n;
    for (unsigned i = 0; i < n; i++) {
        struct run_check *check = &run->checks[i];

        check->run = run;
        check->vm = i < run->nvms ? &run->vms[i] : NULL;
        check->agent = check->vm ? check->vm->agent : RUN_CLIENT_AGENT;
        ask_next(check);
    }
    return 0;
}

static int64_t deadline_ns(const struct run *run)
{
    (void)run;
    return 3 * CHECK_TIMEOUT_NS;
}

const struct phase run_phase_check = {
    .name = "check",
    .start = start,
    .deadline_ns = deadline_ns,
};
