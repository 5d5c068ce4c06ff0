/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ramp, warm, measure, drain: the client drives all schedules from one common T0; these phases only
 * follow the clock and wait for the client's last word.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"
#include "tiles/load/order.h"
#include "wire/message.h"

#define LEAD_NS VT_NS_PER_S /* from the order to start to T0: longer than any order takes */
#define CALL_TIMEOUT_NS (10 * VT_NS_PER_S)
#define STOP_NS (5 * VT_NS_PER_S)
#define FINISH_NS (15 * VT_NS_PER_S) /* after the drain: the client's last seconds on their way */

struct run_load *run_find_load(struct run *run, unsigned tile, const char *role)
{
    for (unsigned i = 0; i < run->nloads; i++)
        if (run->loads[i].vm->tile == tile && !strcmp(run->loads[i].vm->role->name, role))
            return &run->loads[i];
    return NULL;
}

static bool all_finished(const struct run *run)
{
    for (unsigned i = 0; i < run->nloads; i++)
        if (!run->loads[i].finished)
            return false;
    return true;
}

static void phase_over(struct vt_timer *timer, int64_t now_ns)
{
    struct run *run = timer->ctx;

    (void)now_ns;
    phases_done(&run->phases, NULL);
}

static int end_at(struct run *run, int64_t at_ns, struct vt_error *err)
{
    if (run->nloads == 0) {
        phases_done(&run->phases, NULL);
        return 0;
    }
    run->phase_timer.fire = phase_over;
    return vt_timer_arm(&run->phase_timer, at_ns, err);
}

static void call_failed(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_load *load = ctx;
    struct run *run = load->vm->run;
    struct vt_error failure = VT_ERROR_INIT;

    (void)result;
    if (!err || run->phases.interrupts > 0)
        return;
    failure = *err;
    vt_error_wrap(&failure, "drive %s", load->vm->agent);
    phases_fail(&run->phases, &failure);
}

json_t *run_load_order(const struct run *run, const struct run_load *load, struct vt_error *err)
{
    const struct run_vm *vm = load->vm;
    VT_AUTO_FREE struct load_order *order = calloc(1, sizeof(*order));

    if (!order) {
        vt_error_no_memory(err, "order for %s", vm->agent);
        return NULL;
    }
    order->tile = vm->tile;
    order->seed = run->seed;
    order->rate = run_load_rate(run, vm);
    order->load = vm->spec->load;
    load_order_segments(order, run->preset);
    vt_text_copy(order->role, sizeof(order->role), vm->role->name);
    vt_text_copy(order->address, sizeof(order->address), vm->address);
    vt_text_copy(order->server_name, sizeof(order->server_name), vm->address);
    return load_order_write(order, err);
}

int run_call_load(struct run *run, struct run_load *load, const char *op, int64_t client_t0_ns,
                  int64_t timeout_ns,
                  void (*done)(void *ctx, const json_t *result, const struct vt_error *err),
                  struct vt_error *err)
{
    json_t *params =
        json_pack("{s:i, s:s}", "tile", (int)load->vm->tile, "role", load->vm->role->name);
    int ret;

    if (!params || (client_t0_ns != 0 &&
                    json_object_set_new(params, "t0_ns", json_integer(client_t0_ns)) != 0))
        ret = vt_error_no_memory(err, "%s", op);
    else
        ret = hub_call(run->hub, RUN_CLIENT_AGENT, op, params, timeout_ns, done, load, err);
    json_decref(params);
    return ret;
}

static int call_loads(struct run *run, const char *op, int64_t client_t0_ns, struct vt_error *err)
{
    int ret = 0;

    for (unsigned i = 0; ret == 0 && i < run->nloads; i++)
        ret =
            run_call_load(run, &run->loads[i], op, client_t0_ns, CALL_TIMEOUT_NS, call_failed, err);
    return ret;
}

static int start_ramp(struct run *run, struct vt_error *err)
{
    int64_t offset_ns = 0, rtt_ns = 0;
    char t0[24];
    int ret;

    if (run->nloads > 0 && !hub_agent_clock(run->hub, RUN_CLIENT_AGENT, &offset_ns, &rtt_ns))
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "the load client's clock is not known");
    run->t0_ns = vt_clock_now_ns() + LEAD_NS;
    snprintf(t0, sizeof(t0), "%lld", (long long)run->t0_ns);
    ret = record_put_meta(run->record, "load.t0_ns", t0, err);
    if (ret == 0)
        ret = call_loads(run, "load.start", run->t0_ns + offset_ns, err);
    if (ret == 0)
        ret = run_samples_start(run, err);
    return ret < 0 ? ret : end_at(run, run->t0_ns + run->preset->ramp_ns, err);
}

static int start_warm(struct run *run, struct vt_error *err)
{
    return end_at(run, run->t0_ns + run->preset->ramp_ns + run->preset->warm_ns, err);
}

static int start_measure(struct run *run, struct vt_error *err)
{
    return end_at(
        run, run->t0_ns + run->preset->ramp_ns + run->preset->warm_ns + run->preset->measure_ns,
        err);
}

static int start_drain(struct run *run, struct vt_error *err)
{
    (void)err;
    if (all_finished(run))
        phases_done(&run->phases, NULL);
    return 0;
}

static void late_drain(struct run *run, struct vt_error *err)
{
    (void)run;
    vt_error_wrap(err, "the load client did not report its end");
}

/* After Ctrl-C: what the client has seen so far is still waited for, a few seconds. */
static void stop(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;

    run->phase_timer.fire = phase_over;
    if (all_finished(run) || call_loads(run, "load.stop", 0, &err) < 0 ||
        vt_timer_arm(&run->phase_timer, vt_clock_now_ns() + STOP_NS, &err) < 0)
        phases_done(&run->phases, &err);
}

void run_load_finished(struct run *run, const json_t *data)
{
    struct vt_record_totals totals;
    struct vt_error err = VT_ERROR_INIT;
    struct run_load *load;

    if (wire_totals_read(json_object_get(data, "totals"), &totals, &err) < 0) {
        phases_fail(&run->phases, &err);
        return;
    }
    load = run_find_load(run, totals.tile, totals.role);
    if (!load || load->finished)
        return;
    load->finished = true;
    if (run->record && record_put_totals(run->record, &totals, &err) < 0)
        phases_fail(&run->phases, &err);
    if (all_finished(run) &&
        (phases_in(&run->phases, run_phase_drain.name) || run->phases.interrupts > 0)) {
        vt_timer_disarm(&run->phase_timer);
        phases_done(&run->phases, NULL);
    }
}

static int64_t ramp_ns(const struct run *run)
{
    return LEAD_NS + run->preset->ramp_ns;
}

static int64_t warm_ns(const struct run *run)
{
    return run->preset->warm_ns;
}

static int64_t measure_ns(const struct run *run)
{
    return run->preset->measure_ns;
}

static int64_t drain_ns(const struct run *run)
{
    return run->preset->drain_ns;
}

static int64_t drain_deadline_ns(const struct run *run)
{
    return run->preset->drain_ns + FINISH_NS;
}

const struct phase run_phase_ramp = {
    .name = "ramp", .start = start_ramp, .stop = stop, .planned_ns = ramp_ns};
const struct phase run_phase_warm = {
    .name = "warm", .start = start_warm, .stop = stop, .planned_ns = warm_ns};
const struct phase run_phase_measure = {
    .name = "measure", .start = start_measure, .stop = stop, .planned_ns = measure_ns};
const struct phase run_phase_drain = {.name = "drain",
                                      .start = start_drain,
                                      .stop = stop,
                                      .planned_ns = drain_ns,
                                      .deadline_ns = drain_deadline_ns,
                                      .late = late_drain};
