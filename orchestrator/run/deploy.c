/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deploy: config disks, domains, load client; ends when every agent has come. Not all VMs boot at
 * once: the next is started when one of those that boot has come up, so tiles follow each other as
 * fast as the host lets them. Undo ends client and domains.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"
#include "orchestrator/host/xml.h"
#include "orchestrator/run/steps.h"

/* A loaded machine that emulates CPUs boots 24 VMs in three minutes. */
#define BOOT_DEADLINE_NS (180 * VT_NS_PER_S)
#define BOOT_DEADLINE_VM_NS (30 * VT_NS_PER_S)

/* A boot is one busy thread, and for a while waits for disks and for libvirt: two a CPU leave none
 * idle. A tile at least, since its VMs may wait for each other. */
#define BUSY_VMS_A_CPU 2

unsigned run_at_once(const struct run *run)
{
    unsigned n = host_info(run->host)->cpus * BUSY_VMS_A_CPU;

    return n > run->spec.nroles ? n : (unsigned)run->spec.nroles;
}

static void domain_started(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run_vm *vm = ctx;
    struct run *run = vm->run;
    struct vt_error err = VT_ERROR_INIT;

    (void)host;
    vm->started = reply->code == 0 && vm->ordered;
    if (reply->code < 0) {
        vm->ordered = false;
        err = reply->err;
        vt_error_wrap(&err, "start %s", vm->domain.name);
    } else {
        vt_journal_mark(run->journal, vm->journal_id, VT_JOURNAL_APPLIED, NULL, &err);
    }
    if (err.kind != VT_KIND_NONE)
        phases_fail(&run->phases, &err);
}

static int intend_domains(struct run *run, struct vt_error *err)
{
    char value[VT_PATH_MAX + 64];
    int ret = 0;

    for (unsigned i = 0; ret == 0 && i < run->nvms; i++) {
        struct run_vm *vm = &run->vms[i];

        snprintf(value, sizeof(value), "%s %s", vm->domain.uuid, run->uri);
        ret = vt_journal_intent(run->journal, UNDO_DOMAIN, vm->domain.name, "", value,
                                &vm->journal_id, err);
        if (i == 0)
            run->deploy_journal_id = vm->journal_id;
    }
    return ret < 0 ? ret : vt_journal_sync(run->journal, err);
}

/* The VM's own config disk, which nobody else is to read, goes to whom its emulator runs as. */
static int give_config(const struct run *run, const struct run_vm *vm, struct vt_error *err)
{
    const struct host_info *info = host_info(run->host);

    if (info->user_known && chown(vm->config_path, info->user, info->group) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "give %s to QEMU's user (uid %u)",
                              vm->config_path, (unsigned)info->user);
    return 0;
}

int run_start_domain(struct run_vm *vm, host_done done, struct vt_error *err)
{
    const struct host_info *info = host_info(vm->run->host);
    const struct xml_host host = {info->emulator, info->user_known, info->user, info->group};
    VT_AUTO_FREE char *xml = NULL;
    int ret = xml_write_domain(&vm->domain, &host, &xml, err);

    if (ret == 0)
        ret = host_define_start(vm->run->host, xml, done, vm, err);
    if (ret < 0)
        return vt_error_wrap(err, "start %s", vm->domain.name);
    vm->ordered = true; /* its end may be told before its start */
    return 0;
}

/* The load client runs on this machine, in this process's network namespace. */
static int start_client(struct run *run, struct vt_error *err)
{
    const char *const argv[] = {run->agent_path, "--client", "--config", run->client_config, NULL};
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    char value[64];
    uint64_t id = 0;
    int ret;

    ret = vt_journal_intent(run->journal, UNDO_PROCESS, RUN_CLIENT_AGENT, "", "", &id, err);
    if (ret == 0)
        ret = vt_journal_sync(run->journal, err);
    if (ret < 0)
        return ret;
    spec.argv = argv;
    spec.stderr_fd = VT_PROC_INHERIT;
    spec.own_group = true; /* Ctrl-C on a terminal is for vtile, which tells the client to stop */
    ret = vt_proc_spawn(&spec, &run->client_pid, err);
    if (ret == 0)
        ret = undo_process_value(run->client_pid, value, sizeof(value));
    if (ret < 0)
        return vt_error_wrap(err, "start the load client");
    return vt_journal_mark(run->journal, id, VT_JOURNAL_APPLIED, value, err);
}

/* With a note for each tile that is whole, where there are more. */
static void tell_tile(struct run *run, unsigned tile)
{
    unsigned up = 0;

    for (unsigned i = 0; i < run->nvms; i++) {
        up += run->vms[i].up;
        if (run_vm_serves(&run->vms[i], tile) && !run->vms[i].up)
            return;
    }
    if (run->settings.tiles > 1)
        run_note(run, VT_LEVEL_INFO, "tile %u is up, %u of %u VMs are", tile, up, run->nvms);
}

static int start_more(struct run *run, struct vt_error *err)
{
    unsigned booting = 0;
    int ret = 0;

    for (unsigned i = 0; i < run->next_vm; i++)
        booting += !run->vms[i].up;
    for (; ret == 0 && run->next_vm < run->nvms && booting < run_at_once(run); booting++)
        ret = run_start_domain(&run->vms[run->next_vm++], domain_started, err);
    return ret;
}

void run_deploy_came(struct run_vm *vm)
{
    struct run *run = vm->run;
    struct vt_error err = VT_ERROR_INIT;

    tell_tile(run, vm->tile);
    if (start_more(run, &err) < 0)
        phases_fail(&run->phases, &err);
}

static int start(struct run *run, struct vt_error *err)
{
    int ret = run_make_disks(run, err);

    for (unsigned i = 0; ret == 0 && i < run->nvms; i++)
        if ((ret = run_expect_agent(run, &run->vms[i], err)) == 0)
            ret = give_config(run, &run->vms[i], err);
    if (ret == 0)
        ret = intend_domains(run, err);
    run->next_vm = 0;
    if (ret == 0)
        ret = start_more(run, err);
    if (ret == 0 && run->nloads > 0) {
        ret = run_expect_agent(run, NULL, err);
        if (ret == 0)
            ret = start_client(run, err);
    } else {
        run->client_up = true;
    }
    return ret;
}

static void undone(void *ctx, size_t left, const struct vt_error *err)
{
    struct run *run = ctx;

    (void)left;
    run->client_pid = 0;
    phases_undone(&run->phases, err);
}

static struct host *host_of(void *ctx, const char *uri, struct vt_error *err)
{
    struct run *run = ctx;

    if (run->host && !strcmp(uri, run->uri))
        return run->host;
    vt_error_set(err, VT_KIND_INFRA, -ENOTCONN, "no connection to %s", uri);
    return NULL;
}

static void undo(struct run *run)
{
    const struct undo_context context = {
        .host = host_of, .ctx = run, .outer_mnt_fd = run->embed.outer_mnt_fd};
    struct vt_error err = VT_ERROR_INIT;

    if (run->deploy_journal_id == 0) {
        phases_undone(&run->phases, NULL);
        return;
    }
    if (undo_start(&run->loop, run->journal, run->deploy_journal_id, &context, undone, run, &err) <
        0)
        phases_undone(&run->phases, &err);
}

static int64_t deadline_ns(const struct run *run)
{
    if (run->settings.boot_timeout_ns > 0)
        return run->settings.boot_timeout_ns;
    return BOOT_DEADLINE_NS + (int64_t)run->nvms * BOOT_DEADLINE_VM_NS;
}

const struct phase run_phase_deploy = {
    .name = "deploy",
    .start = start,
    .undo = undo,
    .deadline_ns = deadline_ns,
    .late = run_explain_missing,
};
