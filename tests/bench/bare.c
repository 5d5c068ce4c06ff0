/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare FOLDER SPEC: what the same QEMUs look like when started by hand: plans one tile of a spec,
 * writes config disks that let the guests serve without a controller, and prints a line for
 * the bridge and, for each VM, its tap and libvirt's own command line for its domain:
 *   bridge NAME ADDRESS/PREFIX
 *   vm ROLE ADDRESS TAP COMMAND...
 */
#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/confdisk.h"
#include "base/log.h"
#include "base/scope.h"
#include "orchestrator/host/xml.h"
#include "orchestrator/run/run.h"

#define RUN_ID "ba5eba5eba5e"

static void *turn_events(void *arg)
{
    for (;;)
        virEventRunDefaultImpl();
    return arg;
}

static void add_param(struct vt_confdisk *conf, const char *name, unsigned long long value)
{
    struct vt_confdisk_param *param = &conf->params[conf->n_params++];

    vt_text_copy(param->name, sizeof(param->name), name);
    snprintf(param->value, sizeof(param->value), "%llu", value);
}

static int write_config(const struct run *run, const struct run_vm *vm, struct vt_error *err)
{
    VT_AUTO_FREE struct vt_confdisk *conf = calloc(1, sizeof(*conf));

    if (!conf)
        return vt_error_set(err, VT_KIND_INFRA, -ENOMEM, "config disk");
    vt_text_copy(conf->run, sizeof(conf->run), run->id);
    vt_text_copy(conf->agent, sizeof(conf->agent), vm->agent);
    vt_text_copy(conf->hostname, sizeof(conf->hostname), vm->agent);
    vt_text_copy(conf->role, sizeof(conf->role), vm->role->name);
    vt_text_copy(conf->mac, sizeof(conf->mac), vm->domain.nics[0].mac);
    snprintf(conf->address, sizeof(conf->address), "%s/%d", vm->address, NET_PREFIX);
    conf->tile = vm->tile;
    conf->unattended = true;
    add_param(conf, "seed", 1);
    add_param(conf, "data_bytes", vm->spec->size[run->size].data_bytes);
    add_param(conf, "vcpus", (unsigned long long)vm->spec->size[run->size].vcpus);
    add_param(conf, "log_requests", 1);
    for (unsigned i = 0; i < run->nvms; i++) {
        vt_text_copy(conf->peers[i].name, sizeof(conf->peers[i].name), run->vms[i].role->name);
        vt_text_copy(conf->peers[i].address, sizeof(conf->peers[i].address), run->vms[i].address);
        conf->n_peers++;
    }
    return vt_confdisk_write(vm->config_path, conf, err);
}

static int print_vm(const struct run *run, const struct run_vm *vm, virConnectPtr conn,
                    struct vt_error *err)
{
    VT_AUTO_FREE char *xml = NULL;
    VT_AUTO_FREE char *native = NULL;
    int ret = write_config(run, vm, err);

    if (ret == 0)
        ret = xml_write_domain(&vm->domain, NULL, &xml, err);
    if (ret < 0)
        return ret;
    native = virConnectDomainXMLToNative(conn, "qemu-argv", xml, 0);
    if (!native)
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "command line of %s: %s", vm->domain.name,
                            virGetLastErrorMessage());
    for (char *at = native; *at; at++)
        if (*at == '\n' || *at == '\\')
            *at = ' ';
    printf("vm %s %s %s %s\n", vm->role->name, vm->address, vm->domain.nics[0].tap, native);
    return 0;
}

static int print_plan(struct run *run, const char *folder, const char *spec, struct vt_error *err)
{
    char bridge[VT_IFNAME_MAX], uri[VT_PATH_MAX + 64];
    pthread_t thread;
    virConnectPtr conn;
    int ret = spec_load(spec, &run->spec, err);

    if (ret == 0)
        ret = image_find(NULL, &run->image, err);
    if (ret == 0)
        ret = embed_open(run->state.embed, RUN_ID, &run->embed, err);
    if (ret == 0)
        ret = embed_enter(&run->embed, err);
    if (ret < 0)
        return ret;
    run->settings.tiles = 1;
    run->accel = host_kvm_runs("/dev/kvm", NULL, 0) ? VT_ACCEL_KVM : VT_ACCEL_TCG;
    run->size = run->accel == VT_ACCEL_KVM ? SPEC_SIZE_KVM : SPEC_SIZE_TCG;
    vt_text_copy(run->id, sizeof(run->id), RUN_ID);
    vt_text_copy(run->state.runtime, sizeof(run->state.runtime), folder);
    ret = run_plan(run, err);
    if (ret < 0)
        return ret;
    virEventRegisterDefaultImpl();
    pthread_create(&thread, NULL, turn_events, NULL);
    snprintf(uri, sizeof(uri), "qemu:///embed?root=%s", run->state.embed);
    conn = virConnectOpen(uri);
    if (!conn)
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "open %s: %s", uri, virGetLastErrorMessage());
    net_name_bridge(run->id, bridge, err);
    printf("bridge %s %s/%d\n", bridge, NET_CONTROLLER, NET_PREFIX);
    for (unsigned i = 0; ret == 0 && i < run->nvms; i++)
        ret = print_vm(run, &run->vms[i], conn, err);
    return ret;
}

int main(int argc, char **argv)
{
    struct vt_error err = VT_ERROR_INIT;
    struct run *run = calloc(1, sizeof(*run));

    vt_log_init("bare", VT_LOG_INFO);
    if (argc != 3 || !run)
        return 2;
    if (state_open(&run->state, &err) < 0 || print_plan(run, argv[1], argv[2], &err) < 0) {
        vt_log_error(&err);
        return 1;
    }
    fflush(stdout);
    _exit(0); /* libvirt's threads go with us */
}
