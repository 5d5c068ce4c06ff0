/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record: spec and plan as rows of the record: with the limits, divisors and rates in force, so
 * that all after it needs no spec.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/role_row.h"
#include "orchestrator/run/steps.h"
#include "tiles/load/schedule.h"

int64_t run_load_rate(const struct run *run, const struct run_vm *vm)
{
    return (int64_t)((__int128)vm->spec->load.rate * run->settings.load / 1000000);
}

struct settings_put {
    struct record *record;
    struct vt_error *err;
    int code;
};

static void put_setting(void *ctx, const char *name, const char *value, const char *source)
{
    struct settings_put *put = ctx;
    char key[RECORD_META_KEY_MAX];

    snprintf(key, sizeof(key), SETTINGS_META "%s", name);
    if (put->code == 0)
        put->code = record_put_meta(put->record, key, value, put->err);
    snprintf(key, sizeof(key), SETTINGS_META "%s" SETTINGS_META_SOURCE, name);
    if (put->code == 0)
        put->code = record_put_meta(put->record, key, source, put->err);
}

/* Each setting that is in force, and where it came from. */
static int record_settings(struct run *run, struct vt_error *err)
{
    static const struct settings_use use = {.run = true};
    struct settings_put put = {.record = run->record, .err = err};

    settings_walk(&run->settings, &use, put_setting, &put);
    return put.code;
}

int run_record_plan(struct run *run, struct vt_error *err)
{
    char seed[24], load[24], tiles[24], wall[32];
    const struct {
        const char *key, *value;
    } meta[] = {
        {RECORD_META_RUN, run->id},
        {RECORD_META_CONTROLLER, "vtile " VTILE_VERSION},
        {RECORD_META_SPEC_NAME, run->spec.name},
        {RECORD_META_SPEC_TEXT, run->spec_text.data},
        {RECORD_META_SEED, seed},
        {RECORD_META_PRESET, run->preset->name},
        {RECORD_META_LOAD, load},
        {RECORD_META_TILES, tiles},
        {RECORD_META_HOST, run->uri},
        {RECORD_META_CLIENT, "host"},
        {RECORD_META_BY_OPERATION, run->preset->limits_by_operation ? "1" : "0"},
        {RECORD_META_WALL_START, vt_clock_format_wall(vt_clock_wall_ns(), wall, sizeof(wall))},
        {"image.key", run->image.key},
        {"image.kernel", run->image.kernel_version},
    };
    int ret = 0;

    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)run->seed);
    snprintf(tiles, sizeof(tiles), "%lld", (long long)run->settings.tiles);
    snprintf(load, sizeof(load), "%lld.%06lld", (long long)run->settings.load / 1000000,
             (long long)run->settings.load % 1000000);
    for (size_t i = 0; ret == 0 && i < VT_COUNT(meta); i++)
        ret = record_put_meta(run->record, meta[i].key, meta[i].value, err);
    if (ret == 0)
        ret = record_settings(run, err);
    if (ret == 0)
        ret = run_record_storage(run, err);
    for (unsigned i = 0; ret == 0 && i < run->nvms; i++) {
        struct vt_record_role role;

        run_role_row(run->vms[i].spec, run->vms[i].tile, run->settings.preset, run->settings.load,
                     &role);
        ret = record_put_role(run->record, &role, err);
    }
    return ret;
}

int run_record_clocks(struct run *run, struct vt_error *err)
{
    char key[RECORD_META_KEY_MAX], value[64];
    int64_t offset_ns, rtt_ns;
    int ret = 0;

    for (unsigned i = 0; ret == 0 && i <= run->nvms; i++) {
        const char *agent = i < run->nvms ? run->vms[i].agent : RUN_CLIENT_AGENT;

        if (!hub_agent_clock(run->hub, agent, &offset_ns, &rtt_ns))
            continue;
        snprintf(key, sizeof(key), RECORD_META_CLOCK_BEGIN "%s", agent);
        snprintf(value, sizeof(value), "%lld %lld", (long long)offset_ns, (long long)rtt_ns);
        ret = record_put_meta(run->record, key, value, err);
    }
    return ret;
}

int run_record_agents(struct run *run, struct vt_error *err)
{
    int ret = 0;

    for (unsigned i = 0; ret == 0 && i <= run->nvms; i++) {
        const struct run_vm *vm = i < run->nvms ? &run->vms[i] : NULL;
        struct vt_record_agent agent = {.tile = vm ? vm->tile : 0};

        vt_text_copy(agent.name, sizeof(agent.name), vm ? vm->agent : RUN_CLIENT_AGENT);
        vt_text_copy(agent.duty, sizeof(agent.duty), vm ? "guest" : "client");
        if (hub_agent_clock(run->hub, agent.name, &agent.clock_offset_ns, &agent.rtt_ns))
            ret = record_put_agent(run->record, &agent, err);
    }
    return ret;
}

int run_record_schedule(struct run *run, const struct run_load *load, const json_t *result,
                        struct vt_error *err)
{
    struct vt_record_schedule schedule = {.tile = load->vm->tile};
    int64_t steps = 0, window_steps = 0;
    const char *hash;
    int ret = vt_json_get_string(result, "hash", &hash, err);

    if (ret == 0)
        ret = vt_json_get_int(result, "steps", 0, SCHEDULE_STEPS_MAX, &steps, err);
    if (ret == 0)
        ret = vt_json_get_int(result, "window_steps", 0, SCHEDULE_STEPS_MAX, &window_steps, err);
    if (ret < 0)
        return ret;
    if (!vt_text_unhex(hash, schedule.hash, sizeof(schedule.hash)))
        return vt_error_refuse(err, "hash of the schedule: '%.80s'", hash);
    vt_text_copy(schedule.role, sizeof(schedule.role), load->vm->role->name);
    schedule.steps = (uint64_t)steps;
    schedule.window_steps = (uint64_t)window_steps;
    schedule.from_s = (run->preset->ramp_ns + run->preset->warm_ns) / VT_NS_PER_S;
    schedule.to_s = schedule.from_s + run->preset->measure_ns / VT_NS_PER_S;
    return record_put_schedule(run->record, &schedule, err);
}

int run_record_jobs(struct run *run, const struct run_load *load, const struct jobs_order *order,
                    const json_t *json, struct vt_error *err)
{
    const struct role_times *times = &order->times;
    int64_t from_ns = times->ramp_ns + times->warm_ns, to_ns = from_ns + times->measure_ns;
    struct vt_record_schedule schedule = {
        .tile = load->vm->tile,
        .steps = jobs_order_due(order, 0, to_ns),
        .window_steps = jobs_order_due(order, from_ns, to_ns),
        .from_s = from_ns / VT_NS_PER_S,
        .to_s = to_ns / VT_NS_PER_S,
    };
    VT_AUTO_FREE char *text = json_dumps(json, JSON_COMPACT);
    char key[RECORD_META_KEY_MAX];
    int ret;

    if (!text)
        return vt_error_no_memory(err, "keep an order");
    vt_text_copy(schedule.role, sizeof(schedule.role), load->vm->role->name);
    snprintf(key, sizeof(key), "jobs.%s", load->vm->agent);
    ret = record_put_meta(run->record, key, text, err);
    if (ret == 0)
        ret = jobs_order_hash(order, schedule.hash, err);
    return ret < 0 ? ret : record_put_schedule(run->record, &schedule, err);
}

void run_emit_log(struct run *run, const struct run_vm *vm, const char *source, const char *name,
                  const char *data, size_t len)
{
    VT_AUTO_FREE char *text = malloc(len + 1);
    const struct vt_event event = {
        .type = VT_EVENT_LOG,
        .time_ns = vt_clock_now_ns(),
        .tile = vm ? vm->tile : 0,
        .role = vm ? vm->role->name : NULL,
        .source = source,
        .series = name,
        .text = text,
    };

    if (!text)
        return;
    for (size_t i = 0; i < len; i++)
        text[i] = data[i] ? data[i] : '?';
    text[len] = '\0';
    vt_bus_emit(&run->bus, &event);
}
