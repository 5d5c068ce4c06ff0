/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart: a VM whose emulator ends while the load runs is started again, on its data disk where it
 * has one, and its role prepared as at first; the load never stops. Libvirt tells the end at once;
 * the silence of the agent would tell it half a minute later. A run in which that happened scores
 * an accident, hence INVALID; it goes on so that what was acknowledged before can be looked for.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "orchestrator/run/steps.h"

#define RESTARTS_MAX 3 /* of one VM: what fails a fourth time fails for a reason */

/* Load that the guest makes by itself, while more of it is to come; NULL: there is none. */
static struct run_load *find_work(struct run_vm *vm)
{
    struct run_load *load = run_find_load(vm->run, vm->tile, vm->role->name);

    return load && vm->spec->works && !load->finished ? load : NULL;
}

/* Such load ends with its guest: what was due later is missing in the record, as the verdict says;
 * nothing is to be waited for. */
static void end_work(struct run_vm *vm)
{
    struct run_load *load = find_work(vm);

    if (load)
        run_end_load(load);
}

static void give_up(struct run_vm *vm, const char *what, const struct vt_error *err)
{
    vm->restarting = false;
    end_work(vm);
    run_reason(vm->run, "vm-gone", (double)vm->restarts, "%s: %s: %s", vm->agent, what, err->text);
}

static void serves(struct run_vm *vm, const struct vt_error *err)
{
    /* Not up: its emulator ended once more, which began anew. */
    if (!vm->restarting || (err && !vm->up))
        return;
    if (err) {
        give_up(vm, "it does not serve after its restart", err);
        return;
    }
    vm->restarting = false;
    run_note(vm->run, VT_LEVEL_WARNING, "%s serves again, %.1f s after its emulator ended",
             vm->agent, (double)(vt_clock_now_ns() - vm->ended_ns) / VT_NS_PER_S);
    run_samples_ask(vm);
    if (find_work(vm))
        run_resume_work(find_work(vm));
}

static void started(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run_vm *vm = ctx;

    (void)host;
    if (reply->code < 0 && vm->restarting)
        give_up(vm, "start it again", &reply->err);
    if (reply->code < 0)
        vm->ordered = false;
    vm->started = reply->code == 0 && vm->ordered;
}

/* The config disk is as it was; its token is good once more. */
static int begin(struct run_vm *vm, struct vt_error *err)
{
    int ret = hub_rearm(vm->run->hub, vm->agent, err);

    return ret < 0 ? ret : run_start_domain(vm, started, err);
}

/* For who reads the record: what a machine that began anew shows is no fault of its own. */
static void note_restart(const struct run_vm *vm)
{
    char key[RECORD_META_KEY_MAX], times[16];

    snprintf(key, sizeof(key), RECORD_META_RESTARTS "%s", vm->agent);
    snprintf(times, sizeof(times), "%u", vm->restarts);
    if (vm->run->record)
        record_put_meta(vm->run->record, key, times, NULL);
}

/* Before the load that is a failed deployment; after it, what it kept can no longer be looked at.
 */
static void ended_without_load(const struct run_vm *vm)
{
    struct run *run = vm->run;
    struct vt_error err = VT_ERROR_INIT;
    char text[RUN_CONSOLE_END_MAX];

    vt_error_set(&err, VT_KIND_INFRA, -ECONNRESET, "%s: its emulator ended; its console ends: %s",
                 vm->agent, run_console_end(vm, text));
    if (phases_in(&run->phases, run_phase_check.name))
        run_reason(run, "vm-gone", (double)vm->restarts, "%s", err.text);
    else
        phases_fail(&run->phases, &err);
}

void run_vm_stopped(void *ctx, const char *uuid)
{
    struct run *run = ctx;
    struct run_vm *vm = run->vms;
    struct vt_error err = VT_ERROR_INIT;

    while (vm < run->vms + run->nvms && strcmp(vm->domain.uuid, uuid) != 0)
        vm++;
    if (vm == run->vms + run->nvms || !vm->ordered || run->phases.undoing)
        return;
    vm->ordered = vm->started = vm->up = false;
    run_lost_explained(vm);
    run_keep_console(vm); /* the next emulator begins that file anew */
    if (!run_load_runs(run)) {
        ended_without_load(vm);
        return;
    }
    vm->ended_ns = vt_clock_now_ns();
    if (run->phases.interrupts > 0 || !vm->role->resumes)
        end_work(vm);
    if (run->phases.interrupts > 0)
        return;
    if (vm->restarts == RESTARTS_MAX) {
        vt_error_set(&err, VT_KIND_INFRA, -ECONNRESET, "it was restarted %d times already",
                     RESTARTS_MAX);
        give_up(vm, "its emulator ended", &err);
        return;
    }
    vm->restarts++;
    vm->restarting = true;
    run_reason(run, "vm-restarted", (double)vm->restarts,
               "%s: its emulator ended while the load ran; it is started again (%u of %d)",
               vm->agent, vm->restarts, RESTARTS_MAX);
    note_restart(vm);
    if (begin(vm, &err) < 0)
        give_up(vm, "start it again", &err);
}

void run_vm_came_back(struct run_vm *vm)
{
    if (vm->restarting)
        run_prepare_guest(vm, serves);
    else
        run_samples_ask(vm);
}
