/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of its own for each session, from its first step to its last. Connections are slots
 * of the cap: a closed one is free, and is given to the session of the step that has waited
 * longest. What a step's connection costs, to open it and to bring it to where its session goes
 * on, is in that step's times; so is a connection that cannot be had that step's failure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "tiles/load/engine_parts.h"

/* At once, before T0: an emulated server makes some tens of TLS handshakes a second. */
#define OPENING_MAX 8

static const struct driver_step *step_of(const struct engine *e, uint32_t step)
{
    return &e->config.schedule->steps[step];
}

/* --- slots --- */

static void free_add(struct engine *e, struct connection *c)
{
    c->next = e->idle;
    e->idle = c;
}

static struct connection *free_take(struct engine *e)
{
    struct connection *c = e->idle;

    if (c)
        e->idle = c->next;
    return c;
}

static void give(struct engine *e, uint32_t step, struct connection *c)
{
    c->step = step;
    c->session = step_of(e, step)->session;
    c->entered = c->carrying = false;
    e->connection_of[c->session] = c->index;
}

/* Where a session's first step is not the one that begins it, it is met in its middle. As many are
 * entered before T0 as there are connections. */
static int make(struct engine *e, struct vt_error *err)
{
    const struct schedule *schedule = e->config.schedule;
    VT_AUTO_FREE bool *seen = calloc(schedule->nsessions + 1, sizeof *seen);

    e->connection_of = malloc((schedule->nsessions + 1) * sizeof *e->connection_of);
    e->met = calloc(e->nconnections, sizeof *e->met);
    if (!seen || !e->connection_of || !e->met)
        return vt_error_no_memory(err, "connections of %u sessions", schedule->nsessions);
    memset(e->connection_of, 0xff, (schedule->nsessions + 1) * sizeof *e->connection_of);
    for (size_t i = 0; i < schedule->nsteps && e->nmet < e->nconnections; i++) {
        const struct driver_step *step = &schedule->steps[i];

        if (!seen[step->session] && step->operation != 0)
            e->met[e->nmet++] = (uint32_t)i;
        seen[step->session] = true;
    }
    for (uint32_t i = e->nconnections; i > 0; i--)
        free_add(e, &e->connections[i - 1]);
    return 0;
}

/* --- before T0 --- */

static void enter_next(struct engine *e)
{
    struct connection *c;

    while (e->phase == ENGINE_OPENING && e->next_met < e->nmet &&
           e->next_met - e->nopen < OPENING_MAX && (c = free_take(e))) {
        give(e, e->met[e->next_met++], c);
        engine_open_connection(e, c);
    }
}

/* What is told of it comes from the loop, also where there is nothing to open. */
static void open_met(struct engine *e)
{
    enter_next(e);
    engine_tick_soon(e);
}

static void one_is_open(struct engine *e)
{
    if (e->phase != ENGINE_OPENING)
        return;
    e->nopen++;
    if (e->nopen == e->nmet)
        engine_report_opened(e, NULL);
    else
        enter_next(e);
}

static void opening_failed(struct engine *e, const char *why)
{
    struct vt_error err = VT_ERROR_INIT;

    vt_error_set(&err, VT_KIND_INFRA, -EPROTO, "session %u of %u: %s", e->nopen + 1, e->nmet, why);
    engine_report_opened(e, &err);
}

/* --- steps --- */

static bool go_on(struct engine *e, uint32_t step)
{
    uint32_t session = step_of(e, step)->session, index = e->connection_of[session];
    struct connection *c = index == RECORDER_NONE ? NULL : &e->connections[index];
    int64_t now_ns;

    if (!c || c->session != session || c->state != CONNECTION_IDLE || !c->entered)
        return false;
    now_ns = vt_clock_now_ns();
    if (!connection_request(c, step_of(e, step)))
        return false;
    c->step = step;
    c->carrying = true;
    engine_take_step(e, step, c, now_ns);
    return true;
}

/* A connection that cannot even be begun ends its step at once, inside the loop here: what that
 * dispatches in turn is left to this loop. */
static void dispatch(struct engine *e)
{
    struct connection *c;

    if (e->dispatching)
        return;
    e->dispatching = true;
    while (e->phase == ENGINE_RUNNING && !e->stopping && e->recorder.queued > 0 &&
           (c = free_take(e))) {
        uint32_t step = e->recorder.queue_first;

        give(e, step, c);
        c->carrying = true;
        engine_take_step(e, step, c, vt_clock_now_ns());
        engine_open_connection(e, c);
    }
    e->dispatching = false;
}

/* --- events of a connection, in the order in which they come --- */

static void fail_carried(struct engine *e, struct connection *c, const char *why)
{
    c->carrying = false;
    engine_failed(e, c, why);
}

static void send_carried(struct engine *e, struct connection *c)
{
    c->entered = true;
    if (!c->carrying)
        one_is_open(e);
    else if (!connection_request(c, step_of(e, c->step)))
        fail_carried(e, c, "the connection ended before the request was sent");
}

static void on_ready(void *ctx, struct connection *c)
{
    struct engine *e = ctx;

    if (!c->counted) {
        engine_note_opened(e, c);
        if (c->carrying && step_of(e, c->step)->operation == 0)
            send_carried(e, c);
        else
            connection_enter(c, step_of(e, c->step)); /* else closed tells */
    } else if (!c->entered) {
        send_carried(e, c);
    }
}

static void on_answered(void *ctx, struct connection *c, const char *wrong_why)
{
    struct engine *e = ctx;

    c->carrying = false;
    if (c->state == CONNECTION_IDLE &&
        step_of(e, c->step)->operation + 1U == e->config.driver->noperations)
        connection_end(c, true);
    engine_answered(e, c, wrong_why);
}

static void on_failed(void *ctx, struct connection *c, const char *why)
{
    struct engine *e = ctx;

    if (c->carrying)
        fail_carried(e, c, why);
    else if (e->phase == ENGINE_OPENING)
        opening_failed(e, why);
}

static void on_closed(void *ctx, struct connection *c, bool was_open, const struct vt_error *err)
{
    struct engine *e = ctx;
    bool unused = !c->entered;

    c->counted = false;
    if (!engine_link_closed(e, was_open))
        return;
    if (e->connection_of[c->session] == c->index)
        e->connection_of[c->session] = RECORDER_NONE;
    free_add(e, c);
    if (c->carrying)
        fail_carried(e, c, err ? err->text : NULL);
    else if (e->phase == ENGINE_OPENING && unused)
        opening_failed(e, err ? err->text : "the connection ended");
    engine_dispatch(e);
    engine_arm(e);
}

static bool tick(struct engine *e, int64_t now_ns)
{
    bool again = false;

    if (e->phase == ENGINE_OPENING && e->nopen == e->nmet) {
        engine_report_opened(e, NULL);
        return false;
    }
    for (uint32_t i = 0; i < e->nconnections; i++) {
        struct connection *c = &e->connections[i];

        if (c->state != CONNECTION_OPENING && c->state != CONNECTION_ENTERING)
            continue;
        again = true;
        if (now_ns - c->since_ns < CONNECTION_OPEN_NS)
            continue;
        connection_end(c, false);
        on_failed(e, c, "no connection for too long");
    }
    return again && e->phase != ENGINE_FINISHED;
}

const struct engine_sharing engine_sessions = {
    .owner = {.ready = on_ready, .answered = on_answered, .failed = on_failed, .closed = on_closed},
    .make = make,
    .open = open_met,
    .go_on = go_on,
    .dispatch = dispatch,
    .tick = tick,
};
