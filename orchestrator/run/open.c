/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open: takes the host for this run: journal, network (on the embedded host with its lock and
 * namespaces), record, connection to libvirt, hub. Namespaces come first, since they must be
 * entered before any thread exists. Undo closes all and takes back what is still open in the
 * journal.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/vir_loop.h"
#include "orchestrator/run/show.h"
#include "orchestrator/run/steps.h"

static int make_folder(const char *path, struct vt_error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make folder %s", path);
    return 0;
}

static int open_journal(struct run *run, struct vt_error *err)
{
    char path[VT_PATH_MAX + 64];
    uint64_t id = 0;
    int ret;

    snprintf(path, sizeof(path), "%s/%s" STATE_JOURNAL_SUFFIX, run->state.journals, run->id);
    ret = vt_journal_open(path, &run->journal, err);
    if (ret == 0)
        ret = vt_journal_intent(run->journal, UNDO_TREE, run->folder, "", "", &id, err);
    if (ret == 0)
        ret = vt_journal_intent(run->journal, UNDO_TREE, run->record_folder, "", "", &id, err);
    if (ret == 0 && run_has_disks(run))
        ret = vt_journal_intent(run->journal, UNDO_TREE, run->disk_folder, "", "", &id, err);
    if (ret == 0)
        ret = vt_journal_sync(run->journal, err);
    if (ret == 0)
        ret = make_folder(run->folder, err);
    if (ret == 0 && chmod(run->folder, run->place->folder_mode) < 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "open folder %s", run->folder);
    if (ret == 0)
        ret = make_folder(run->results, err);
    return ret < 0 ? ret : make_folder(run->record_folder, err);
}

static int add_taps(struct run *run, struct vt_error *err)
{
    const char *taps[RUN_VMS_MAX];

    for (unsigned i = 0; i < run->nvms; i++)
        taps[i] = run->vms[i].domain.nics[0].tap;
    return net_add_taps(&run->net, run->journal, taps, run->nvms, err);
}

static int take_embedded(struct run *run, struct vt_error *err)
{
    int ret = embed_open(run->state.embed, run->id, &run->embed, err);

    if (ret == 0)
        ret = net_enter(run->id, run->journal, &run->net, err);
    if (ret == 0)
        ret = add_taps(run, err);
    if (ret == 0)
        ret = embed_enter(&run->embed, err);
    return ret < 0 ? vt_error_wrap(err, "set up the embedded host") : 0;
}

/* The daemon's QEMUs are in the machine's namespaces, so this run is, too. */
static int take_system(struct run *run, struct vt_error *err)
{
    int ret = net_share(run->id, run->journal, &run->net, err);

    return ret < 0 ? ret : add_taps(run, err);
}

static void embedded_pids(const struct run *run, char *path, size_t size)
{
    snprintf(path, size, "%s/run/qemu", run->state.embed);
}

/* Of virtqemud and of libvirtd alike. */
static void system_pids(const struct run *run, char *path, size_t size)
{
    (void)run;
    snprintf(path, size, "/run/libvirt/qemu");
}

static const struct run_place places[] = {
    {host_uri_is_embed, 0700, take_embedded, embedded_pids},
    {host_uri_is_system, 0711, take_system, system_pids},
};

const struct run_place *run_find_place(const char *uri)
{
    for (size_t i = 0; i < VT_COUNT(places); i++)
        if (places[i].is(uri))
            return &places[i];
    return NULL;
}

static int open_record(struct run *run, struct vt_error *err)
{
    int ret = record_create(run->record_path, &run->record, err);

    if (ret < 0)
        return ret;
    run->recorded = true;
    vt_bus_add(&run->bus, record_sink(run->record));
    return run_record_plan(run, err);
}

static void host_opened(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run *run = ctx;
    struct vt_error err = VT_ERROR_INIT;

    (void)host;
    /* After an interrupt the record may be closed already. */
    if (!phases_in(&run->phases, run_phase_open.name))
        return;
    if (reply->code < 0) {
        phases_done(&run->phases, &reply->err);
        return;
    }
    if (reply->info->accel != run->accel)
        vt_error_set(&err, VT_KIND_INFRA, -EINVAL,
                     "the host runs VMs by %s, the plan was made for %s",
                     vt_accel_name(reply->info->accel), vt_accel_name(run->accel));
    else if (record_put_meta(run->record, RECORD_META_ACCEL, vt_accel_name(run->accel), &err) == 0)
        run_note(run, VT_LEVEL_INFO, "host %s: libvirt %lu.%lu, %s %lu.%lu, %u CPUs, %s", run->uri,
                 reply->info->libvirt_version / 1000000, reply->info->libvirt_version / 1000 % 1000,
                 reply->info->driver, reply->info->hypervisor_version / 1000000,
                 reply->info->hypervisor_version / 1000 % 1000, reply->info->cpus,
                 run->accel == VT_ACCEL_TCG ? "TCG (emulated CPU)" : vt_accel_name(run->accel));
    if (err.kind == VT_KIND_NONE)
        run_ask_facts(run, &err);
    phases_done(&run->phases, &err);
}

static int start(struct run *run, struct vt_error *err)
{
    const struct host_settings settings = {.uri = run->uri, .stopped = run_vm_stopped, .ctx = run};
    int ret = open_journal(run, err);

    if (ret == 0)
        ret = show_listen(run, err);
    if (ret == 0)
        ret = run->place->take(run, err);
    if (ret == 0)
        ret = open_record(run, err);
    if (ret == 0)
        ret = run_open_hub(run, err);
    if (ret == 0)
        ret = vir_loop_init(&run->loop, err);
    if (ret == 0)
        ret = host_open(&run->loop, &settings, host_opened, run, &run->host, err);
    return ret;
}

static void undone(void *ctx, size_t left, const struct vt_error *err)
{
    struct run *run = ctx;
    char path[VT_PATH_MAX + 64];

    net_leave(&run->net);
    embed_close(&run->embed);
    if (left == 0 && vt_journal_all_undone(run->journal)) {
        snprintf(path, sizeof(path), "%s/%s" STATE_JOURNAL_SUFFIX, run->state.journals, run->id);
        unlink(path);
    }
    run->journal = vt_journal_close(run->journal);
    phases_undone(&run->phases, err);
}

static void host_closed(void *ctx)
{
    struct run *run = ctx;
    const struct undo_context context = {.outer_mnt_fd = run->embed.outer_mnt_fd};
    struct vt_error err = VT_ERROR_INIT;

    run->host = NULL;
    vir_loop_dispose();
    if (!run->journal) {
        phases_undone(&run->phases, NULL);
        return;
    }
    if (undo_start(&run->loop, run->journal, 0, &context, undone, run, &err) < 0)
        undone(run, 1, &err);
}

static void hub_closed(void *ctx)
{
    struct run *run = ctx;

    run->hub = NULL;
    if (run->host)
        host_close(run->host, host_closed, run);
    else
        host_closed(run);
}

static void undo(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;

    if (run->record)
        vt_bus_remove(&run->bus, record_sink(run->record));
    if (record_close(run->record, &err) < 0)
        run_note(run, VT_LEVEL_ERROR, "record: %s", err.text);
    run->record = NULL;
    run_close_hub(run, hub_closed);
}

static int64_t deadline_ns(const struct run *run)
{
    (void)run;
    return HOST_OPEN_DEADLINE_NS + 30 * VT_NS_PER_S;
}

const struct phase run_phase_open = {
    .name = "open",
    .start = start,
    .undo = undo,
    .deadline_ns = deadline_ns,
};
