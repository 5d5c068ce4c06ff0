/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare: each guest prepares its contents, starts its servers and is asked until it really
 * serves; then the client draws its schedules and opens its connections.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"

#define STEP_TIMEOUT_NS (300 * VT_NS_PER_S)
#define TELL_NS (5 * VT_NS_PER_S) /* between two words of who is waited for */
#define TOLD_MAX 4
#define READY_TIMEOUT_NS (STEP_TIMEOUT_NS - 10 * VT_NS_PER_S)

/* While a link is open (lost.c), what failed may come of the VM's end: that, or that its agent was
 * lost, ends the phase. */
static void end_failed(struct run *run, const struct vt_error *err)
{
    if (run_lost_any(run))
        run_note(run, VT_LEVEL_WARNING, "%s", err->text);
    else
        phases_fail(&run->phases, err);
}

static void fail(struct run *run, const char *what, const char *who, const struct vt_error *err)
{
    struct vt_error failure = *err;

    vt_error_wrap(&failure, "%s %s", what, who);
    end_failed(run, &failure);
}

static void load_opened(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_load *load = ctx;
    struct run *run = load->vm->run;

    (void)result;
    if (!phases_in(&run->phases, run_phase_prepare.name))
        return;
    if (err)
        fail(run, "connect the load to", load->vm->agent, err);
    else if (--run->waiting == 0)
        phases_done(&run->phases, NULL);
}

static void load_prepared(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_load *load = ctx;
    struct run *run = load->vm->run;
    struct vt_error failure = VT_ERROR_INIT;

    if (!phases_in(&run->phases, run_phase_prepare.name))
        return;
    if (err) {
        fail(run, "prepare the load of", load->vm->agent, err);
        return;
    }
    if (run_record_schedule(run, load, result, &failure) < 0 ||
        run_call_load(run, load, "load.open", 0, STEP_TIMEOUT_NS, load_opened, &failure) < 0)
        fail(run, "prepare the load of", load->vm->agent, &failure);
}

static void prepare_loads(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;

    run->waiting = 0;
    for (unsigned i = 0; i < run->nloads; i++) {
        struct run_load *load = &run->loads[i];

        run->waiting += !load->vm->spec->works;
        if (load->vm->spec->works && run_prepare_work(run, load, &err) < 0) {
            fail(run, "prepare the work of", load->vm->agent, &err);
            return;
        }
    }
    if (run->waiting == 0)
        phases_done(&run->phases, NULL);
    for (unsigned i = 0; i < run->nloads; i++) {
        struct run_load *load = &run->loads[i];
        json_t *order;

        if (load->vm->spec->works)
            continue;
        order = run_load_order(run, load, &err);
        if (order && hub_admit_load(run->hub, RUN_CLIENT_AGENT, load->vm->tile,
                                    load->vm->role->name, &err) == 0)
            hub_call(run->hub, RUN_CLIENT_AGENT, "load.prepare", order, STEP_TIMEOUT_NS,
                     load_prepared, load, &err);
        json_decref(order);
        if (err.kind != VT_KIND_NONE) {
            fail(run, "prepare the load of", load->vm->agent, &err);
            return;
        }
    }
}

/* --- guests --- */

static json_t *prepare_params(const struct run_vm *vm)
{
    const struct spec_role_size *size = &vm->spec->size[vm->run->size];
    /* Contents differ by run, tile and role. JSON integers have a sign. */
    uint64_t seed = vm->run->seed ^ ((uint64_t)vm->tile << 32 | vm->role_index);

    return json_pack("{s:I, s:I, s:I, s:b}", "seed", (json_int_t)(seed >> 1), "data_bytes",
                     (json_int_t)size->data_bytes, "vcpus", (json_int_t)size->vcpus, "log_requests",
                     vm->run->preset->log_requests);
}

static json_t *start_params(const struct run_vm *vm)
{
    (void)vm;
    return json_object();
}

static json_t *ready_params(const struct run_vm *vm)
{
    (void)vm;
    return json_pack("{s:I}", "timeout_ns", (json_int_t)READY_TIMEOUT_NS);
}

/* What a guest is asked, in order; run_vm.prepare_step is the next. */
static const struct {
    const char *op;
    json_t *(*params)(const struct run_vm *vm);
    const char *failed, *late; /* for messages: "<failed> web-1", "web-1 <late>" */
} steps[] = {
    {"prepare", prepare_params, "prepare", "is not prepared"},
    {"start", start_params, "start", "has not started its servers"},
    {"ready", ready_params, "wait for", "does not serve"},
};

static void guest_done(void *ctx, const json_t *result, const struct vt_error *err);

static void guest_failed(struct run_vm *vm, const struct vt_error *err)
{
    struct vt_error failure = *err;

    vt_error_wrap(&failure, "%s %s", steps[vm->prepare_step].failed, vm->agent);
    vm->prepared(vm, &failure);
}

static void guest_step(struct run_vm *vm)
{
    json_t *params = steps[vm->prepare_step].params(vm);
    struct vt_error err = VT_ERROR_INIT;

    if (!params)
        vt_error_no_memory(&err, "parameters");
    else
        hub_call(vm->run->hub, vm->agent, steps[vm->prepare_step].op, params, STEP_TIMEOUT_NS,
                 guest_done, vm, &err);
    json_decref(params);
    if (err.kind != VT_KIND_NONE)
        guest_failed(vm, &err);
}

static void guest_done(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_vm *vm = ctx;

    (void)result;
    if (err)
        guest_failed(vm, err);
    else if (++vm->prepare_step < VT_COUNT(steps))
        guest_step(vm);
    else
        vm->prepared(vm, NULL);
}

void run_prepare_guest(struct run_vm *vm,
                       void (*prepared)(struct run_vm *vm, const struct vt_error *err))
{
    vm->prepared = prepared;
    vm->prepare_step = 0;
    guest_step(vm);
}

static void guest_serves(struct run_vm *vm, const struct vt_error *err)
{
    struct run *run = vm->run;

    if (!phases_in(&run->phases, run_phase_prepare.name))
        return;
    if (err) {
        end_failed(run, err);
        return;
    }
    run_note(run, VT_LEVEL_INFO, "%s serves", vm->agent);
    if (--run->waiting == 0)
        run_ask_config(run, false, prepare_loads);
    else if (run->next_vm < run->nvms)
        run_prepare_guest(&run->vms[run->next_vm++], guest_serves);
}

/* "web-1 is not prepared, mail-1 does not serve, 3 more" */
static unsigned list_waiting(const struct run *run, char *text, size_t size)
{
    unsigned n = 0;
    size_t len = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < run->nvms; i++) {
        const struct run_vm *vm = &run->vms[i];

        if (vm->prepare_step >= VT_COUNT(steps))
            continue;
        if (n++ < TOLD_MAX && len < size)
            len += (size_t)snprintf(text + len, size - len, "%s%s %s", n > 1 ? ", " : "", vm->agent,
                                    i < run->next_vm ? steps[vm->prepare_step].late : "waits");
    }
    if (n > TOLD_MAX && len < size)
        snprintf(text + len, size - len, ", %u more", n - TOLD_MAX);
    return n;
}

/* Contents and servers take up to minutes. */
static void tell_progress(struct vt_timer *timer, int64_t now_ns)
{
    struct run *run = timer->ctx;
    char text[512];

    if (!phases_in(&run->phases, run_phase_prepare.name))
        return;
    if (list_waiting(run, text, sizeof(text)) == 0)
        snprintf(text, sizeof(text), "the load client draws schedules and connects");
    run_note(run, VT_LEVEL_INFO, "preparing for %lld s: %s",
             (long long)((now_ns - run->prepare_ns) / VT_NS_PER_S), text);
    vt_timer_arm(timer, now_ns + TELL_NS, NULL);
}

static int start(struct run *run, struct vt_error *err)
{
    (void)err;
    run->prepare_ns = vt_clock_now_ns();
    run->phase_timer.fire = tell_progress;
    vt_timer_arm(&run->phase_timer, run->prepare_ns + TELL_NS, NULL);
    run->waiting = run->nvms;
    run->next_vm = run_at_once(run) < run->nvms ? run_at_once(run) : run->nvms;
    for (unsigned i = 0, n = run->next_vm; i < n; i++)
        run_prepare_guest(&run->vms[i], guest_serves);
    return 0;
}

static int64_t deadline_ns(const struct run *run)
{
    return 3 * STEP_TIMEOUT_NS * (run->nvms / run_at_once(run) + 1);
}

static void late(struct run *run, struct vt_error *err)
{
    for (unsigned i = 0; i < run->nvms; i++) {
        const struct run_vm *vm = &run->vms[i];

        if (vm->prepare_step < VT_COUNT(steps)) {
            vt_error_wrap(err, "%s %s", vm->agent, steps[vm->prepare_step].late);
            return;
        }
    }
}

const struct phase run_phase_prepare = {
    .name = "prepare",
    .start = start,
    .deadline_ns = deadline_ns,
    .late = late,
};
