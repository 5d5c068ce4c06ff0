/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/jobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/thread.h"
#include "wire/message.h"

#define TICK_MS 250
#define SECONDS_PER_TICK 50 /* with a few operations each: below what is taken of one agent */

/* --- on the thread --- */
static bool stopping(void *ctx)
{
    return atomic_load(&((struct jobs *)ctx)->stopping);
}

static void done(void *ctx, const struct role_done *done)
{
    tally_add(&((struct jobs *)ctx)->tally, done);
}

static void *work(void *arg)
{
    struct jobs *jobs = arg;
    int rc = jobs->role->guest->work(&jobs->guest, &jobs->work, &jobs->err);
    if (rc == 0)
        vt_error_clear(&jobs->err);
    else if (jobs->err.code == 0)
        vt_error_set(&jobs->err, VT_KIND_INFRA, rc, "%s", strerror(-rc));
    uv_async_send(&jobs->ended);
    return NULL;
}

/* --- on the loop --- */
static void send_second(void *ctx, unsigned operation, const struct vt_load_second *second)
{
    struct jobs *jobs = ctx;
    VT_AUTO_BUF struct vt_buf payload = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    /* A second that could not be packed is missed by the controller: what is due is known there. */
    if (wire_load_write(&payload, jobs->tally.order.tile, jobs->tally.order.role, operation, second,
                        NULL) == 0)
        uplink_send(jobs->uplink, WIRE_LOAD, 0, payload.data, payload.len);
}

static void finish(struct jobs *jobs)
{
    json_t *totals = wire_totals_write(&jobs->tally.totals);
    vt_text_make_plain(jobs->err.text);
    uv_timer_stop(&jobs->tick);
    jobs->state = JOBS_NONE;
    uplink_event(jobs->uplink, "work.finished", jobs->role->name,
                 json_pack("{s:o, s:b, s:s}", "totals", totals, "overflowed",
                           tally_overflowed(&jobs->tally), "why", jobs->err.text));
    tally_dispose(&jobs->tally);
}

static void on_tick(uv_timer_t *timer)
{
    struct jobs *jobs = timer->data;
    unsigned sent = tally_deliver(&jobs->tally, SECONDS_PER_TICK, send_second, jobs);
    if (jobs->state == JOBS_TELLING && sent < SECONDS_PER_TICK)
        finish(jobs);
}

static void on_ended(uv_async_t *async)
{
    struct jobs *jobs = async->data;
    if (jobs->state != JOBS_RUNNING)
        return;
    pthread_join(jobs->thread, NULL);
    jobs->state = JOBS_TELLING;
    tally_end(&jobs->tally, jobs->stopped_ns,
              jobs->err.code ? jobs->err.text : "it was not done when the work ended");
}

int jobs_init(struct jobs *jobs, struct vt_error *err)
{
    int rc = uv_async_init(&jobs->loop->uv, &jobs->ended, on_ended);
    if (rc < 0)
        return vt_error_set(err, VT_KIND_INFRA, rc, "prepare for jobs: %s", uv_strerror(rc));
    uv_timer_init(&jobs->loop->uv, &jobs->tick);
    jobs->ended.data = jobs->tick.data = jobs;
    return 0;
}

int jobs_start(struct jobs *jobs, const struct role_guest *guest, const json_t *params,
               struct vt_error *err)
{
    struct jobs_order order;
    const json_t *json = NULL;
    int64_t t0_ns = 0, from_s = 0;
    bool resumed = false;
    if (jobs->state != JOBS_NONE)
        return vt_error_set(err, VT_KIND_INFRA, -EBUSY, "%s is at work", jobs->role->name);
    int rc = wire_work_read(params, &t0_ns, &resumed, &from_s, err);
    if (rc == 0)
        rc = vt_json_get_object(params, "order", &json, err);
    if (rc == 0)
        rc = jobs_order_read(json, &order, err);
    if (rc == 0 && strcmp(order.role, jobs->role->name) != 0)
        rc = vt_error_refuse(err, "an order for %s, this is %s", order.role, jobs->role->name);
    if (rc == 0)
        rc = tally_init(&jobs->tally, jobs->role, &order, err);
    if (rc < 0)
        return rc;
    tally_skip(&jobs->tally, from_s);
    json_decref(jobs->facts);
    jobs->facts = json_object();
    jobs->guest = *guest;
    jobs->stopped_ns = INT64_MAX;
    atomic_store(&jobs->stopping, false);
    vt_error_clear(&jobs->err);
    jobs->work = (struct role_work){
        .t0_ns = t0_ns,
        .resumed = resumed,
        .from_ns = from_s * VT_NS_PER_S,
        .times = order.times,
        .jobs = &jobs->tally.order.jobs,
        .facts = jobs->facts,
        .stopping = stopping,
        .done = done,
        .ctx = jobs,
    };
    rc = vt_thread_start(&jobs->thread, work, jobs);
    if (rc != 0) {
        tally_dispose(&jobs->tally);
        return vt_error_errno(err, VT_KIND_INFRA, rc, "start the work");
    }
    jobs->state = JOBS_RUNNING;
    uv_timer_start(&jobs->tick, on_tick, TICK_MS, TICK_MS);
    return 0;
}

void jobs_stop(struct jobs *jobs)
{
    if (jobs->state != JOBS_RUNNING || atomic_load(&jobs->stopping))
        return;
    jobs->stopped_ns = vt_clock_now_ns() - jobs->work.t0_ns;
    atomic_store(&jobs->stopping, true);
}

void jobs_close(struct jobs *jobs)
{
    if (jobs->state == JOBS_RUNNING) {
        atomic_store(&jobs->stopping, true);
        pthread_join(jobs->thread, NULL);
    }
    if (jobs->state != JOBS_NONE)
        tally_dispose(&jobs->tally);
    jobs->state = JOBS_NONE;
    json_decref(jobs->facts);
    jobs->facts = NULL;
    uv_close((uv_handle_t *)&jobs->tick, NULL);
    uv_close((uv_handle_t *)&jobs->ended, NULL);
}
