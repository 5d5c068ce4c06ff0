/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/load/address.h"
#include "tiles/load/engine_parts.h"

#define CONNECTIONS_MAX 4096
#define REQUEST_BYTES_MAX 65536
/* How often connections that are not open are looked at. */
#define TICK_NS (50 * VT_NS_PER_MS)

static void end_connections(struct engine *e, bool orderly);

/* --- steps --- */

void engine_take_step(struct engine *e, uint32_t step, struct connection *c, int64_t sent_ns)
{
    struct step_record *record = recorder_at(&e->recorder, step);

    c->sent_ns = sent_ns;
    if (sent_ns < engine_due_ns(e, step))
        e->recorder.totals.early++;
    if (record->state == STEP_QUEUED)
        recorder_unqueue(&e->recorder, step);
    record->state = STEP_ACTIVE;
    record->connection = c->index;
}

void engine_dispatch(struct engine *e)
{
    struct recorder *r = &e->recorder;

    if (e->stopping || e->phase != ENGINE_RUNNING)
        return;
    e->sharing->dispatch(e);
    if (r->queued > r->totals.queue_high)
        r->totals.queue_high = r->queued;
}

/* Its session's step before has ended. */
static void let_go(struct engine *e, uint32_t step)
{
    if (e->stopping || !e->sharing->go_on || !e->sharing->go_on(e, step))
        recorder_queue(&e->recorder, step);
}

/* The step has ended and is recorded; the session's next one may have waited for that. */
static void release_waiter(struct engine *e, const struct step_record *record)
{
    uint32_t waiter = record->waiter;

    if (waiter != RECORDER_NONE && recorder_at(&e->recorder, waiter)->state == STEP_WAITING)
        let_go(e, waiter);
}

static void fail_step(struct engine *e, uint32_t step, const char *why)
{
    struct step_record *record = recorder_at(&e->recorder, step);

    if (record->state == STEP_QUEUED) {
        recorder_unqueue(&e->recorder, step);
    } else if (record->state == STEP_ACTIVE) {
        e->connections[record->connection].carrying = false;
        connection_end(&e->connections[record->connection], false);
    }
    recorder_fail(&e->recorder, step, why);
    release_waiter(e, record);
}

static void pick_step(struct engine *e, int64_t now_ns)
{
    uint32_t step = (uint32_t)e->recorder.picked;
    uint32_t *last = &e->last_step[e->config.schedule->steps[step].session];

    recorder_pick(&e->recorder, now_ns - engine_due_ns(e, step));
    self_check_step(&e->check, engine_due_ns(e, step), now_ns);
    if (*last > 0 && recorder_open(&e->recorder, *last - 1))
        recorder_at(&e->recorder, *last - 1)->waiter = step;
    else
        let_go(e, step);
    *last = step + 1;
}

static void take_second(void *ctx, const struct vt_load_second *second)
{
    struct engine *e = ctx;

    if (e->events)
        e->events->second(e->ctx, second);
}

static void deliver(struct engine *e)
{
    while (e->events && recorder_has_second(&e->recorder))
        recorder_deliver(&e->recorder, take_second, e);
}

static const char *late_why(const struct step_record *record)
{
    if (record->state == STEP_WAITING)
        return "timed out, waiting for its session's step before";
    return record->state == STEP_QUEUED ? "timed out, waiting for a free connection" : "timed out";
}

/* All steps have the same time-out, so the oldest that is open is the next to be timed out. */
static void time_out(struct engine *e, int64_t now_ns)
{
    struct recorder *r = &e->recorder;

    while (r->oldest < r->picked &&
           engine_due_ns(e, r->oldest) + e->config.load->timeout_ns <= now_ns)
        fail_step(e, (uint32_t)r->oldest, late_why(recorder_at(r, r->oldest)));
}

/* --- the run --- */

static void end_check(struct engine *e)
{
    struct vt_record_generator *generator = &e->recorder.totals.generator;

    self_check_end(&e->check, vt_clock_now_ns(), generator);
    generator->connections = e->nconnections;
    generator->pooled = e->sharing == &engine_pool;
}

static void finish(struct engine *e)
{
    deliver(e);
    end_check(e);
    e->phase = ENGINE_FINISHED;
    vt_timer_disarm(&e->timer);
    end_connections(e, true);
    if (e->events)
        e->events->finished(e->ctx, &e->recorder.totals);
}

/* Nothing is sent any more; what is open has failed. */
static void finish_early(struct engine *e, const char *why)
{
    e->stopping = true;
    while (e->recorder.oldest < e->recorder.picked)
        fail_step(e, (uint32_t)e->recorder.oldest, why);
    e->recorder.end = e->recorder.picked;
    finish(e);
}

static void run(struct engine *e, int64_t now_ns)
{
    struct recorder *r = &e->recorder;
    int64_t window_end_ns = e->t0_ns + e->config.window_ns;

    while (e->events) {
        time_out(e, now_ns);
        deliver(e);
        if (r->picked == r->end || engine_due_ns(e, r->picked) > now_ns)
            break;
        pick_step(e, now_ns);
        engine_dispatch(e);
        now_ns = vt_clock_now_ns();
    }
    if (!e->events)
        return;
    engine_dispatch(e); /* what a time-out has released */
    if (e->stopping)
        finish_early(e, "the load was stopped");
    else if (r->picked == r->end && now_ns >= window_end_ns + e->config.drain_ns)
        finish_early(e, "still open at the end of drain");
    else if (r->oldest == r->end && now_ns >= window_end_ns)
        finish(e);
}

/* --- connections --- */

void engine_tick_soon(struct engine *e)
{
    if (e->tick_ns == 0)
        e->tick_ns = vt_clock_now_ns() + TICK_NS;
}

void engine_open_connection(struct engine *e, struct connection *c)
{
    e->nlinks++;
    connection_open(c);
    engine_tick_soon(e);
}

void engine_note_opened(struct engine *e, struct connection *c)
{
    c->counted = true;
    e->recorder.totals.connections_opened++;
    self_check_buffers(&e->check, connection_fd(c));
}

static void end_connections(struct engine *e, bool orderly)
{
    for (uint32_t i = 0; i < e->nconnections; i++)
        connection_end(&e->connections[i], orderly && e->connections[i].state == CONNECTION_IDLE);
}

void engine_report_opened(struct engine *e, const struct vt_error *err)
{
    struct vt_error why = err ? *err : (struct vt_error)VT_ERROR_INIT;

    e->phase = err ? ENGINE_FINISHED : ENGINE_READY;
    if (err) {
        end_connections(e, false);
        vt_error_wrap(&why, "connect to %s port %u", e->config.target.address,
                      e->config.target.port);
    }
    if (e->events)
        e->events->opened(e->ctx, why.code, err ? &why : NULL);
}

static void tick(struct engine *e, int64_t now_ns)
{
    if (e->tick_ns == 0 || now_ns < e->tick_ns || e->phase == ENGINE_FINISHED)
        return;
    e->tick_ns = 0;
    if (e->sharing->tick(e, now_ns))
        e->tick_ns = now_ns + TICK_NS;
}

/* The last link or the timer is gone. */
static void release(struct engine *e)
{
    if (e->events || e->nlinks > 0 || !e->timer_closed)
        return;
    recorder_dispose(&e->recorder);
    self_check_dispose(&e->check);
    vt_buf_dispose(&e->out);
    SSL_CTX_free(e->config.tls);
    free(e->last_step);
    free(e->acknowledged);
    free(e->connection_of);
    free(e->met);
    free(e->connections);
    free(e->conversations);
    free(e);
}

static void step_ended(struct engine *e, uint32_t step)
{
    release_waiter(e, recorder_at(&e->recorder, step));
    deliver(e);
    engine_dispatch(e);
    engine_arm(e);
}

void engine_answered(void *ctx, struct connection *c, const char *wrong_why)
{
    struct engine *e = ctx;
    int64_t now_ns = vt_clock_now_ns();

    if (e->acknowledged && connection_acknowledged(c))
        e->acknowledged[c->step / 8] |= (uint8_t)(1U << c->step % 8);
    recorder_answer(&e->recorder, c->step,
                    &(struct recorder_figures){
                        .response_ns = now_ns - engine_due_ns(e, c->step),
                        .service_ns = now_ns - c->sent_ns,
                        .transfer_ns = c->timed ? now_ns - c->answer_ns : 0,
                        .bytes = connection_answer_bytes(c),
                    },
                    wrong_why);
    if (!wrong_why && now_ns < e->t0_ns + e->config.window_ns)
        e->recorder.totals.right_in_window++;
    step_ended(e, c->step);
}

void engine_failed(void *ctx, struct connection *c, const char *why)
{
    struct engine *e = ctx;

    recorder_fail(&e->recorder, c->step, why);
    step_ended(e, c->step);
}

bool engine_link_closed(struct engine *e, bool was_open)
{
    e->nlinks--;
    if (!was_open)
        e->recorder.totals.connections_failed++;
    if (e->events)
        return true;
    release(e);
    return false;
}

/* --- the timer --- */

static int64_t earlier_of(int64_t a_ns, int64_t b_ns)
{
    return a_ns == 0 || (b_ns != 0 && b_ns < a_ns) ? b_ns : a_ns;
}

/* When something is to be done next; 0: nothing. */
static int64_t next_ns(const struct engine *e)
{
    const struct recorder *r = &e->recorder;
    int64_t at_ns = e->tick_ns, window_end_ns = e->t0_ns + e->config.window_ns;

    if (e->phase == ENGINE_FINISHED)
        return 0;
    if (e->phase != ENGINE_RUNNING)
        return at_ns;
    if (e->stopping)
        return 1;
    if (r->oldest < r->picked)
        at_ns = earlier_of(at_ns, engine_due_ns(e, r->oldest) + e->config.load->timeout_ns);
    if (r->picked < r->end)
        return earlier_of(at_ns, engine_due_ns(e, r->picked));
    if (r->oldest < r->end)
        window_end_ns += e->config.drain_ns;
    return earlier_of(at_ns, window_end_ns);
}

void engine_arm(struct engine *e)
{
    int64_t at_ns = e->events ? next_ns(e) : 0;
    bool waiting = e->recorder.queued > 0;

    if (e->phase == ENGINE_RUNNING && self_check_changed(&e->check, e->nopen, waiting))
        self_check_change(&e->check, e->nopen, waiting, vt_clock_now_ns());
    if (at_ns == 0)
        vt_timer_disarm(&e->timer);
    else if (vt_timer_arm(&e->timer, at_ns, NULL) < 0 && e->phase == ENGINE_RUNNING)
        finish_early(e, "no timer can be armed");
}

static void on_timer(struct vt_timer *timer, int64_t now_ns)
{
    struct engine *e = timer->ctx;

    if (e->phase == ENGINE_RUNNING)
        run(e, now_ns);
    if (e->events)
        tick(e, now_ns);
    engine_arm(e);
}

/* --- interface --- */

static int check_config(const struct engine_config *config, struct vt_error *err)
{
    const struct driver *driver = config->driver;
    const struct spec_load *load = config->load;
    const struct schedule *schedule = config->schedule;

    if (!driver->pooled && !driver->enter)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "load of %s: its sessions cannot be entered", driver->name);
    if (load->connections < 1 || load->connections > CONNECTIONS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -ERANGE,
                            "load of %s: %lld connections, it must be 1 to %d", driver->name,
                            (long long)load->connections, CONNECTIONS_MAX);
    if (load->timeout_ns <= 0 || config->drain_ns < 0 || (driver->tls && !config->tls))
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "load of %s: a time-out, a drain and TLS settings are needed",
                            driver->name);
    if (schedule->nsteps > 0 &&
        schedule->steps[schedule->nsteps - 1].intended_ns >= config->window_ns)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "load of %s: the schedule is longer than its window", driver->name);
    return 0;
}

static size_t acknowledged_bytes(const struct engine *e)
{
    return (e->config.schedule->nsteps + 7) / 8;
}

static int make_connections(struct engine *e, struct vt_error *err)
{
    size_t bytes = e->config.driver->conn_bytes > 0 ? e->config.driver->conn_bytes : 1;
    size_t stride = (bytes + 63) / 64 * 64;

    e->nconnections = (uint32_t)e->config.load->connections;
    e->connections = calloc(e->nconnections, sizeof *e->connections);
    e->conversations = calloc(e->nconnections, stride);
    e->last_step = calloc(e->config.schedule->nsessions + 1, sizeof *e->last_step);
    if (e->config.driver->acknowledges)
        e->acknowledged = calloc(acknowledged_bytes(e) + 1, 1);
    if (!e->connections || !e->conversations || !e->last_step ||
        (e->config.driver->acknowledges && !e->acknowledged))
        return vt_error_no_memory(err, "%u connections", e->nconnections);
    for (uint32_t i = 0; i < e->nconnections; i++) {
        struct connection *c = &e->connections[i];

        *c = (struct connection){
            .loop = e->loop,
            .driver = e->config.driver,
            .target = &e->config.target,
            .address = (struct sockaddr *)&e->address,
            .tls = e->config.tls,
            .timed = recorder_notes_rates(&e->recorder),
            .out = &e->out,
            .owner = &e->sharing->owner,
            .ctx = e,
            .index = i,
        };
        connection_init(c, e->conversations + i * stride);
    }
    return e->sharing->make(e, err);
}

int engine_new(struct vt_loop *loop, const struct engine_config *config,
               const struct engine_events *events, void *ctx, struct engine **ret,
               struct vt_error *err)
{
    struct engine *e;
    int code = check_config(config, err);

    if (code < 0)
        return code;
    e = calloc(1, sizeof *e);
    if (!e)
        return vt_error_no_memory(err, "make a load engine");
    e->loop = loop;
    e->config = *config;
    e->sharing = config->driver->pooled ? &engine_pool : &engine_sessions;
    e->out = (struct vt_buf)VT_BUF_INIT(REQUEST_BYTES_MAX);
    if (config->tls)
        SSL_CTX_up_ref(config->tls);
    code = load_parse_address(&config->target, &e->address, err);
    if (code == 0)
        code = recorder_init(&e->recorder, config->schedule, config->driver, config->load, err);
    if (code == 0)
        code = self_check_init(&e->check, err);
    if (code == 0)
        code = make_connections(e, err);
    if (code == 0)
        code = vt_timer_init(&e->timer, loop, on_timer, e, err);
    if (code < 0) {
        e->timer_closed = true;
        release(e);
        return vt_error_wrap(err, "load of %s", config->driver->name);
    }
    e->events = events;
    e->ctx = ctx;
    *ret = e;
    return 0;
}

void engine_open(struct engine *e)
{
    if (e->phase != ENGINE_NEW)
        return;
    e->phase = ENGINE_OPENING;
    e->sharing->open(e);
    engine_arm(e);
}

/* From that time on; steps are sorted. */
static size_t steps_from(const struct schedule *schedule, int64_t from_ns)
{
    size_t first = 0;

    while (first < schedule->nsteps && schedule->steps[first].intended_ns < from_ns)
        first++;
    return schedule->nsteps - first;
}

static void start_at(struct engine *e, int64_t t0_ns)
{
    e->t0_ns = t0_ns;
    e->phase = ENGINE_RUNNING;
    self_check_start(&e->check, t0_ns + e->config.measure_from_ns, t0_ns + e->config.window_ns,
                     steps_from(e->config.schedule, e->config.measure_from_ns), e->nopen);
}

int engine_start(struct engine *e, int64_t t0_ns, struct vt_error *err)
{
    if (e->phase != ENGINE_READY)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "start the load of %s: not ready",
                            e->config.driver->name);
    start_at(e, t0_ns);
    engine_arm(e);
    return 0;
}

void engine_stop(struct engine *e)
{
    if (e->phase == ENGINE_NEW || e->phase == ENGINE_FINISHED)
        return;
    if (e->phase != ENGINE_RUNNING) { /* without a T0 nothing is due */
        start_at(e, vt_clock_now_ns());
        e->recorder.end = e->recorder.picked;
    }
    e->stopping = true;
    engine_arm(e);
}

static void on_timer_closed(struct vt_timer *timer)
{
    struct engine *e = timer->ctx;

    e->timer_closed = true;
    release(e);
}

struct engine *engine_free(struct engine *e)
{
    if (!e)
        return NULL;
    e->events = NULL;
    e->phase = ENGINE_FINISHED;
    end_connections(e, false);
    vt_timer_close(&e->timer, on_timer_closed);
    return NULL;
}

const uint8_t *engine_acknowledged(const struct engine *e, size_t *ret_bytes)
{
    *ret_bytes = e->acknowledged ? acknowledged_bytes(e) : 0;
    return e->acknowledged;
}
