/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check: after the window every guest is asked for facts and for its logs; what the servers say is
 * held against what the client saw.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"

#define CHECK_TIMEOUT_NS (120 * VT_NS_PER_S)

static void one_less(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;

    if (--run->waiting > 0)
        return;
    run_record_agents(run, &err);
    phases_done(&run->phases, &err);
}

/* A guest that cannot answer any more is a fact too, not the end of the run. */
static void missing(const struct run_vm *vm, const char *what, const struct vt_error *err)
{
    run_reason(vm->run, "check-failed", 1, "%s: %s: %s", vm->agent, what, err->text);
}

static void logs_sent(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_vm *vm = ctx;

    (void)result;
    if (err)
        missing(vm, "logs", err);
    one_less(vm->run);
}

/* Facts of a role go into the record as "check.<agent>.<fact>". */
static void keep_facts(const struct run_vm *vm, const json_t *facts)
{
    const char *key;
    const json_t *value;

    json_object_foreach((json_t *)facts, key, value) {
        char name[RECORD_META_KEY_MAX], number[32];
        const char *text = json_string_value(value);

        if (!text) {
            if (json_is_integer(value))
                snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
            else
                vt_text_copy(number, sizeof(number), json_is_true(value) ? "true" : "false");
            text = number;
        }
        if (snprintf(name, sizeof(name), "check.%s.%s", vm->agent, key) < (int)sizeof(name))
            record_put_meta(vm->run->record, name, text, NULL);
    }
}

static void facts_came(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_vm *vm = ctx;
    struct vt_error failure = VT_ERROR_INIT;
    int64_t not_ok = 0;

    if (err) {
        missing(vm, "facts", err);
        one_less(vm->run);
        return;
    }
    keep_facts(vm, result);
    vt_json_opt_int(result, "not_ok", 0, INT64_MAX, &not_ok, NULL);
    if (not_ok > 0)
        run_note(vm->run, VT_LEVEL_WARNING, "%s: its server answered %lld requests with an error",
                 vm->agent, (long long)not_ok);
    if (hub_call(vm->run->hub, vm->agent, "logs", NULL, CHECK_TIMEOUT_NS, logs_sent, vm, &failure) <
        0) {
        missing(vm, "logs", &failure);
        one_less(vm->run);
    }
}

static int start(struct run *run, struct vt_error *err)
{
    (void)err;
    run->waiting = run->nvms + 1;
    for (unsigned i = 0; i < run->nvms; i++) {
        struct run_vm *vm = &run->vms[i];
        struct vt_error failure = VT_ERROR_INIT;

        if (hub_call(run->hub, vm->agent, "check", NULL, CHECK_TIMEOUT_NS, facts_came, vm,
                     &failure) < 0) {
            missing(vm, "facts", &failure);
            run->waiting--;
        }
    }
    one_less(run);
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
