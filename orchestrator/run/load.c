/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ramp, warm, measure, drain: the client drives all schedules, and guests that make load for
 * themselves work, from one common T0; these phases only follow the clock and wait for the last
 * word of each.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"
#include "results/generator.h"
#include "tiles/load/jobs.h"
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

bool run_load_runs(const struct run *run)
{
    const struct phase *const all[] = {&run_phase_ramp, &run_phase_warm, &run_phase_measure,
                                       &run_phase_drain};

    for (size_t i = 0; i < VT_COUNT(all); i++)
        if (phases_in(&run->phases, all[i]->name))
            return true;
    return false;
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
    /* What its guest was to do is begun again with its VM, or is lost with its agent. */
    if (load->vm->spec->works && !load->vm->up) {
        run_note(run, VT_LEVEL_WARNING, "%s", failure.text);
        return;
    }
    phases_fail(&run->phases, &failure);
}

/* --- load that guests make for themselves --- */

static void work_order(const struct run *run, const struct run_load *load, struct jobs_order *order)
{
    jobs_order_make(order, load->vm->tile, load->vm->spec, run->settings.preset,
                    run->settings.load);
}

int run_prepare_work(struct run *run, const struct run_load *load, struct vt_error *err)
{
    const struct run_vm *vm = load->vm;
    struct jobs_order order;
    json_t *json;
    int ret;

    work_order(run, load, &order);
    json = jobs_order_write(&order, err);
    if (!json)
        return err->code;
    ret = run_record_jobs(run, load, &order, json, err);
    json_decref(json);
    return ret < 0 ? ret : hub_admit_load(run->hub, vm->agent, vm->tile, vm->role->name, err);
}

/* Seconds come in order, each with its operations in the role's. */
bool run_take_second(struct run_load *load, const struct vt_load_second *second)
{
    struct vt_record_totals *told = &load->told;
    unsigned noperations, operation = 0;
    const char *const *operations = role_operations(load->vm->role, &noperations);

    while (operation < noperations && strcmp(operations[operation], second->operation) != 0)
        operation++;
    if (load->noperations > 0 &&
        (second->second < load->second ||
         (second->second == load->second && operation < load->noperations)))
        return !load->vm->spec->works;
    load->second = second->second;
    load->noperations = operation + 1;
    told->intended += second->intended;
    told->good += second->good;
    told->slow += second->slow;
    told->wrong += second->wrong;
    told->failed += second->failed;
    return true;
}

/* from_s: -1 at first, else the first second that has not come whole. */
static int call_work(struct run *run, struct run_load *load, int64_t from_s,
                     void (*done)(void *ctx, const json_t *result, const struct vt_error *err),
                     struct vt_error *err)
{
    const struct run_vm *vm = load->vm;
    int64_t offset_ns = 0, rtt_ns = 0;
    struct jobs_order order;
    json_int_t t0_ns;
    json_t *params;
    int ret;

    if (!hub_agent_clock(run->hub, vm->agent, &offset_ns, &rtt_ns))
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "the clock of %s is not known", vm->agent);
    work_order(run, load, &order);
    t0_ns = run->t0_ns + offset_ns;
    params = json_pack("{s:I, s:o}", "t0_ns", t0_ns, "order", jobs_order_write(&order, err));
    if (!params ||
        (from_s >= 0 && json_object_set_new(params, "from_s", json_integer(from_s)) != 0))
        ret = vt_error_no_memory(err, "start the work of %s", vm->agent);
    else
        ret = hub_call(run->hub, vm->agent, "work", params, CALL_TIMEOUT_NS, done, load, err);
    json_decref(params);
    return ret;
}

static int start_work(struct run *run, struct run_load *load, struct vt_error *err)
{
    return call_work(run, load, -1, call_failed, err);
}

static void not_resumed(struct run_load *load, const struct vt_error *err)
{
    run_note(load->vm->run, VT_LEVEL_WARNING, "%s does not go on with its work: %s",
             load->vm->agent, err->text);
    run_end_load(load);
}

static void resumed(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct run_load *load = ctx;

    (void)result;
    /* Restarted once more: then it is that restart's matter. */
    if (err && !load->finished && !load->vm->restarting)
        not_resumed(load, err);
}

void run_resume_work(struct run_load *load)
{
    bool whole = load->noperations == load->vm->role->noperations;
    struct vt_error err = VT_ERROR_INIT;

    load->resumed = true;
    if (call_work(load->vm->run, load, load->second + whole, resumed, &err) < 0)
        not_resumed(load, &err);
}

static int stop_work(struct run *run, struct run_load *load, struct vt_error *err)
{
    return hub_call(run->hub, load->vm->agent, "work.stop", NULL, CALL_TIMEOUT_NS, call_failed,
                    load, err);
}

/* --- load of the client --- */

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
        if (!run->loads[i].vm->spec->works)
            ret = run_call_load(run, &run->loads[i], op, client_t0_ns, CALL_TIMEOUT_NS, call_failed,
                                err);
    return ret;
}

static int call_guests(struct run *run,
                       int (*call)(struct run *run, struct run_load *load, struct vt_error *err),
                       struct vt_error *err)
{
    int ret = 0;

    for (unsigned i = 0; ret == 0 && i < run->nloads; i++)
        if (run->loads[i].vm->spec->works)
            ret = call(run, &run->loads[i], err);
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
    ret = record_put_meta(run->record, RECORD_META_T0, t0, err);
    if (ret == 0)
        ret = run_record_clocks(run, err);
    if (ret == 0)
        ret = call_loads(run, "load.start", run->t0_ns + offset_ns, err);
    if (ret == 0)
        ret = call_guests(run, start_work, err);
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

/* A guest that is not back by now says nothing more of its work. */
static void drain_over(struct vt_timer *timer, int64_t now_ns)
{
    struct run *run = timer->ctx;

    (void)now_ns;
    for (unsigned i = 0; i < run->nloads; i++)
        if ((run->loads[i].vm->restarting || !run->loads[i].vm->up) &&
            run->loads[i].vm->spec->works)
            run_end_load(&run->loads[i]);
}

static int start_drain(struct run *run, struct vt_error *err)
{
    if (all_finished(run)) {
        phases_done(&run->phases, NULL);
        return 0;
    }
    run->phase_timer.fire = drain_over;
    return vt_timer_arm(&run->phase_timer, vt_clock_now_ns() + run->preset->drain_ns, err);
}

static void late_drain(struct run *run, struct vt_error *err)
{
    for (unsigned i = 0; i < run->nloads; i++) {
        const struct run_load *load = &run->loads[i];

        if (load->finished)
            continue;
        vt_error_wrap(err, "%s did not report the end of the load of %s",
                      load->vm->spec->works ? "its guest" : "the load client", load->vm->agent);
        return;
    }
}

/* After Ctrl-C: what the client has seen so far is still waited for, a few seconds. */
static void stop(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;

    run->phase_timer.fire = phase_over;
    if (all_finished(run) || call_loads(run, "load.stop", 0, &err) < 0 ||
        call_guests(run, stop_work, &err) < 0 ||
        vt_timer_arm(&run->phase_timer, vt_clock_now_ns() + STOP_NS, &err) < 0)
        phases_done(&run->phases, &err);
}

/* An operation that found no room to be counted is not in the figures. */
static bool is_whole(struct run *run, const struct run_load *load, const json_t *data)
{
    const char *why = "";

    vt_json_opt_string(data, "why", &why, NULL);
    if (*why)
        run_note(run, VT_LEVEL_WARNING, "%s: %s", load->vm->agent, why);
    return !json_is_true(json_object_get(data, "overflowed"));
}

void run_end_load(struct run_load *load)
{
    struct run *run = load->vm->run;

    if (load->finished)
        return;
    load->finished = true;
    if (!all_finished(run) ||
        (!phases_in(&run->phases, run_phase_drain.name) && run->phases.interrupts == 0))
        return;
    vt_timer_disarm(&run->phase_timer);
    phases_done(&run->phases, NULL);
}

/* Load that guests make by themselves has no generator that could be in its own way. */
static int put_generator(struct run *run, const struct run_load *load, const json_t *data,
                         struct vt_error *err)
{
    struct vt_record_generator generator;
    int ret;

    if (load->vm->spec->works)
        return 0;
    ret = vt_record_generator_read(json_object_get(data, "generator"), &generator, err);
    if (ret < 0)
        return ret;
    return generator_put(run->record, load->vm->tile, load->vm->role->name, &generator, err);
}

void run_load_finished(struct run *run, const char *agent, const json_t *data)
{
    struct vt_record_totals totals;
    struct vt_error err = VT_ERROR_INIT;
    struct run_load *load;

    if (wire_totals_read(json_object_get(data, "totals"), &totals, &err) < 0) {
        phases_fail(&run->phases, &err);
        return;
    }
    load = run_find_load(run, totals.tile, totals.role);
    /* Each role's end is told by who makes its load. */
    if (!load || load->finished ||
        strcmp(agent, load->vm->spec->works ? load->vm->agent : RUN_CLIENT_AGENT) != 0)
        return;
    if (load->resumed) { /* its guest knows what it did since */
        struct vt_record_totals since = totals;

        totals = load->told;
        totals.tile = since.tile;
        vt_text_copy(totals.role, sizeof(totals.role), since.role);
        vt_text_copy(totals.first_failure, sizeof(totals.first_failure), since.first_failure);
    }
    if (!is_whole(run, load, data))
        run_reason(run, "counts-lost", 1, "%s could not count all that it did", agent);
    if (run->record && (record_put_totals(run->record, &totals, &err) < 0 ||
                        put_generator(run, load, data, &err) < 0))
        phases_fail(&run->phases, &err);
    run_end_load(load);
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
