/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agents: what the hub tells of a run's agents, turned into events of the run and progress of its
 * phases; and who is still missing when they do not come.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/confdisk.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"

#define HUB_PORT 7700
#define RUN_MARGIN_NS (3600 * VT_NS_PER_S) /* of certificates, for deploy and teardown */

void run_emit_agent(struct run *run, enum vt_event_level level, const char *agent, const char *text)
{
    const struct run_vm *vm = run_find_vm(run, agent);
    const struct vt_event event = {
        .type = VT_EVENT_AGENT,
        .level = level,
        .time_ns = vt_clock_now_ns(),
        .tile = vm ? vm->tile : 0,
        .role = vm ? vm->role->name : NULL,
        .source = agent,
        .text = text,
    };

    vt_bus_emit(&run->bus, &event);
}

static bool all_up(const struct run *run)
{
    for (unsigned i = 0; i < run->nvms; i++)
        if (!run->vms[i].up)
            return false;
    return run->client_up;
}

static void agent_up(void *ctx, const char *agent)
{
    struct run *run = ctx;
    struct run_vm *vm = run_find_vm(run, agent);

    if (vm) {
        vm->up = true;
        run_lost_came_back(vm);
    } else {
        run->client_up = true;
    }
    run_emit_agent(run, VT_LEVEL_INFO, agent, "up");
    if (vm && phases_in(&run->phases, run_phase_deploy.name))
        run_deploy_came(vm);
    else if (vm)
        run_vm_came_back(vm);
    if (phases_in(&run->phases, run_phase_deploy.name) && all_up(run))
        phases_done(&run->phases, NULL);
}

static void agent_lost(void *ctx, const char *agent, const struct vt_error *err)
{
    struct run *run = ctx;
    struct run_vm *vm = run_find_vm(run, agent);
    struct vt_error failure = *err;

    if (run->phases.undoing)
        return;
    if (vm) {
        run_lost_link(vm, err);
        return;
    }
    run->client_up = false;
    /* The failure is the reason: one is enough. */
    run_emit_agent(run, VT_LEVEL_WARNING, agent, err->text);
    vt_error_wrap(&failure, "the load client is gone");
    phases_fail(&run->phases, &failure);
}

static void agent_event(void *ctx, const char *agent, const char *kind, const char *text,
                        const json_t *data)
{
    struct run *run = ctx;

    if (!strcmp(kind, "load.finished") || !strcmp(kind, "work.finished"))
        run_load_finished(run, agent, data);
    else if (!strcmp(kind, "server_died") && !run->phases.undoing)
        run_reason(run, "server-died", 1, "%s: %s", agent, text);
    else
        run_note(run, VT_LEVEL_INFO, "%s: %s: %s", agent, kind, text);
}

static void sample(void *ctx, const char *agent, int64_t time_ns, const char *series, double value)
{
    struct run *run = ctx;
    const struct run_vm *vm = run_find_vm(run, agent);
    /* An emulated CPU counts no time that others take: its zeroes say nothing. */
    bool blind = vm && run->accel == VT_ACCEL_TCG && !strcmp(series, "cpu.steal");
    const struct vt_event event = {
        .type = VT_EVENT_SAMPLE,
        .time_ns = time_ns,
        .tile = vm ? vm->tile : 0,
        .role = vm ? vm->role->name : NULL,
        .source = agent,
        .series = series,
        .value = blind ? NAN : value,
        .text = blind ? "not available, because the CPU is emulated" : NULL,
    };

    vt_bus_emit(&run->bus, &event);
}

static void load_second(void *ctx, const char *agent, unsigned tile, const char *role,
                        const struct vt_load_second *second)
{
    struct run *run = ctx;
    struct run_load *load = run_find_load(run, tile, role);
    const struct vt_event event = {
        .type = VT_EVENT_LOAD,
        .time_ns = vt_clock_now_ns(),
        .tile = tile,
        .role = role,
        .source = agent,
        .load = second,
    };

    if (load && run_take_second(load, second))
        vt_bus_emit(&run->bus, &event);
}

static void guest_log(void *ctx, const char *agent, const char *name, const uint8_t *data,
                      size_t len)
{
    struct run *run = ctx;
    const struct run_vm *vm = run_find_vm(run, agent);

    if (!run_take_bitmap(run, vm, agent, name, data, len))
        run_emit_log(run, vm, agent, name, (const char *)data, len);
}

static void refused(void *ctx, const char *peer, const struct vt_error *err)
{
    run_note(ctx, VT_LEVEL_WARNING, "turned away %s: %s", peer, err->text);
}

static const struct hub_events events = {
    .agent_up = agent_up,
    .agent_lost = agent_lost,
    .agent_event = agent_event,
    .sample = sample,
    .load = load_second,
    .log = guest_log,
    .refused = refused,
};

int run_open_hub(struct run *run, struct vt_error *err)
{
    char folder[VT_PATH_MAX + 16];
    struct hub_config config = {
        .loop = &run->loop,
        .address = NET_CONTROLLER,
        .port = HUB_PORT,
        .run_ns = run->preset->ramp_ns + run->preset->warm_ns + run->preset->measure_ns +
                  run->preset->drain_ns + RUN_MARGIN_NS,
    };
    int ret;

    snprintf(folder, sizeof(folder), "%s/ca", run->state.folder);
    ret = vt_file_make_folders(folder, 0700, VT_KIND_INFRA, err);
    if (ret == 0)
        ret = vt_ca_open(folder, &run->ca, err);
    if (ret < 0)
        return ret;
    config.ca = run->ca;
    return hub_new(&config, &events, run, &run->hub, err);
}

void run_close_hub(struct run *run, void (*closed)(void *ctx))
{
    if (run->hub)
        hub_close(run->hub, closed, run);
    else
        closed(run);
}

static int fill_peers(const struct run *run, const struct run_vm *vm, struct vt_confdisk *conf,
                      struct vt_error *err)
{
    for (unsigned i = 0; i < run->nvms; i++) {
        const struct run_vm *peer = &run->vms[i];
        struct vt_confdisk_peer *to = &conf->peers[conf->n_peers];

        if (!run_vm_knows(vm, peer))
            continue;
        if (conf->n_peers == VT_CONFDISK_PEERS_MAX)
            return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "tile %u has too many VMs", vm->tile);
        vt_text_copy(to->name, sizeof(to->name),
                     run_vm_serves(peer, vm->tile) ? peer->role->name : peer->agent);
        vt_text_copy(to->address, sizeof(to->address), peer->address);
        conf->n_peers++;
    }
    return 0;
}

static void add_param(struct vt_confdisk *conf, const char *name, const char *value)
{
    struct vt_confdisk_param *param = &conf->params[conf->n_params++];

    vt_text_copy(param->name, sizeof(param->name), name);
    vt_text_copy(param->value, sizeof(param->value), value);
}

/* What the guest must know before anyone can ask it anything. */
static void fill_params(const struct run_vm *vm, struct vt_confdisk *conf)
{
    char number[16];

    if (vm->data_disk)
        add_param(conf, IMAGE_PARAM_DATA, "1");
    snprintf(number, sizeof(number), "%u", vm->ntiles);
    if (vm->ntiles > 1)
        add_param(conf, "tiles", number);
    if (vm->spec->driven && vm->role->driver)
        add_param(conf, "client", NET_CONTROLLER);
}

int run_expect_agent(struct run *run, struct run_vm *vm, struct vt_error *err)
{
    VT_AUTO_FREE struct vt_confdisk *conf = calloc(1, sizeof(*conf));
    VT_AUTO_BUF struct vt_buf pem = VT_BUF_INIT(sizeof(conf->ca) - 1);
    const char *agent = vm ? vm->agent : RUN_CLIENT_AGENT;
    struct hub_expected expected = {
        .agent = agent,
        .duty = vm ? HUB_GUEST : HUB_CLIENT,
        .address = vm ? vm->address : NET_CONTROLLER,
    };
    int ret;

    if (!conf)
        return vt_error_no_memory(err, "configuration of %s", agent);
    ret = vt_cert_write(vt_ca_cert(run->ca), &pem, err);
    if (ret == 0)
        ret = hub_make_token(conf->token, err);
    if (ret < 0)
        return ret;
    expected.token = conf->token;
    vt_text_copy(conf->ca, sizeof(conf->ca), pem.data);
    vt_text_copy(conf->run, sizeof(conf->run), run->id);
    vt_text_copy(conf->agent, sizeof(conf->agent), agent);
    vt_text_copy(conf->hostname, sizeof(conf->hostname), agent);
    vt_text_copy(conf->role, sizeof(conf->role), vm ? vm->role->name : "client");
    snprintf(conf->controller, sizeof(conf->controller), "%s:%d", NET_CONTROLLER, HUB_PORT);
    if (vm) {
        conf->tile = vm->tile;
        vt_text_copy(conf->mac, sizeof(conf->mac), vm->domain.nics[0].mac);
        snprintf(conf->address, sizeof(conf->address), "%s/%d", vm->address, NET_PREFIX);
        fill_params(vm, conf);
        ret = fill_peers(run, vm, conf, err);
    }
    if (ret == 0)
        ret = hub_expect(run->hub, &expected, err);
    if (ret == 0)
        ret = vt_confdisk_write(vm ? vm->config_path : run->client_config, conf, err);
    return ret;
}

void run_explain_missing(struct run *run, struct vt_error *err)
{
    char text[VT_ERROR_TEXT_MAX] = "";
    unsigned silent = 0, missing = 0;
    size_t at = 0;

    for (unsigned i = 0; i < run->nvms; i++) {
        const struct run_vm *vm = &run->vms[i];
        bool booted, link;

        if (vm->up)
            continue;
        booted = run_console_shows_init(vm);
        link = net_link_is_up(vm->domain.nics[0].tap);
        missing++;
        silent += booted && link;
        if (at + 160 < sizeof(text))
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s (%s)", at ? ", " : "",
                                   vm->agent,
                                   !vm->started ? "not started"
                                   : !booted    ? "did not boot"
                                   : !link      ? "booted, but its link is down"
                                                : "booted, link up, agent silent");
    }
    if (!run->client_up && at + 80 < sizeof(text))
        snprintf(text + at, sizeof(text) - at, "%sthe load client", at ? ", " : "");
    if (missing > 0 && silent == missing)
        vt_error_set(err, VT_KIND_INFRA, -ETIMEDOUT,
                     "the agents are silent although their VMs booted and their links are up: %s; "
                     "does a firewall drop bridged frames (bridge-nf-call-iptables = 1 with a "
                     "FORWARD policy of DROP)? `vtile host check` looks",
                     text);
    else
        vt_error_set(err, VT_KIND_INFRA, -ETIMEDOUT, "still missing: %s; consoles are in %s", text,
                     run->folder);
}
