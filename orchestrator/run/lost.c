/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost: the link to a VM's agent has ended. Either the VM has ended too, which libvirt tells and
 * restart.c takes care of, or it runs and its agent is lost. One cause is one reason in the record,
 * so it waits for libvirt's word: a guest that shuts down ends its agent before its emulator. Who
 * hears nothing in that time asks the host; an agent that comes back shows by itself that its VM
 * ran. What is open when the record is closed counts as lost, unless the run failed, which is
 * reason enough. Before the load a lost agent fails the run: it would be INVALID.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"

#define GRACE_NS (10 * VT_NS_PER_S) /* an emulated guest's way from its last program to its end */

void run_lost_explained(struct run_vm *vm)
{
    vm->lost_ns = 0;
    vm->lost_asked = false;
}

bool run_lost_any(const struct run *run)
{
    for (unsigned i = 0; i < run->nvms; i++)
        if (run->vms[i].lost_ns > 0)
            return true;
    return false;
}

bool run_lost_is(struct run *run, const char *agent)
{
    const struct run_vm *vm = run_find_vm(run, agent);

    return vm ? !vm->up : !run->client_up;
}

static void tell(struct run_vm *vm)
{
    struct run *run = vm->run;
    struct vt_error err = VT_ERROR_INIT;

    run_lost_explained(vm);
    if (!phases_in(&run->phases, run_phase_deploy.name) &&
        !phases_in(&run->phases, run_phase_prepare.name)) {
        run_emit_agent(run, VT_LEVEL_ERROR, vm->agent, vm->lost_why);
        return;
    }
    vt_error_set(&err, VT_KIND_INFRA, -ECONNRESET, "%s: its agent was lost: %s", vm->agent,
                 vm->lost_why);
    phases_fail(&run->phases, &err);
}

static void ask_later(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;
    int64_t first_ns = INT64_MAX;

    for (unsigned i = 0; i < run->nvms; i++) {
        const struct run_vm *vm = &run->vms[i];

        if (vm->lost_ns > 0 && !vm->lost_asked && vm->lost_ns < first_ns)
            first_ns = vm->lost_ns;
    }
    if (first_ns < INT64_MAX && vt_timer_arm(&run->lost_timer, first_ns + GRACE_NS, &err) < 0)
        run_lost_settle(run);
}

static bool runs(const struct run_vm *vm, const struct host_reply *reply)
{
    for (size_t i = 0; i < reply->ndomains; i++)
        if (!strcmp(reply->domains[i].uuid, vm->domain.uuid))
            return reply->domains[i].active;
    return false;
}

/* Of one that does not run the end is on its way. A host that does not answer explains nothing. */
static void domains_came(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run *run = ctx;

    (void)host;
    for (unsigned i = 0; i < run->nvms && !run->phases.undoing; i++) {
        struct run_vm *vm = &run->vms[i];

        if (vm->lost_asked && (reply->code < 0 || runs(vm, reply)))
            tell(vm);
    }
}

void run_lost_ask(struct vt_timer *timer, int64_t now_ns)
{
    struct run *run = timer->ctx;
    struct vt_error err = VT_ERROR_INIT;

    if (run->phases.undoing)
        return;
    for (unsigned i = 0; i < run->nvms; i++) {
        struct run_vm *vm = &run->vms[i];

        if (vm->lost_ns > 0 && vm->lost_ns + GRACE_NS <= now_ns)
            vm->lost_asked = true;
    }
    if (host_list_ours(run->host, run->state.controller, domains_came, run, &err) < 0)
        run_lost_settle(run);
    ask_later(run);
}

void run_lost_link(struct run_vm *vm, const struct vt_error *why)
{
    run_emit_agent(vm->run, VT_LEVEL_WARNING, vm->agent, why->text);
    /* Its VM has ended already, and that is told. */
    if (!vm->up)
        return;
    vm->up = false;
    vm->lost_ns = vt_clock_now_ns();
    vm->lost_asked = false;
    vt_text_copy(vm->lost_why, sizeof(vm->lost_why), why->text);
    ask_later(vm->run);
}

void run_lost_came_back(struct run_vm *vm)
{
    if (vm->lost_ns > 0)
        tell(vm);
}

void run_lost_settle(struct run *run)
{
    for (unsigned i = 0; i < run->nvms; i++)
        if (run->phases.failure.kind == VT_KIND_NONE)
            run_lost_came_back(&run->vms[i]);
        else
            run_lost_explained(&run->vms[i]);
}
