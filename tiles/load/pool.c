/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that serve any session: all are opened before T0 and opened again when they end. */
#include <errno.h>

#include "tiles/load/engine_parts.h"

/* A connection that ends while it is in the list stays there until it is taken out. */
static void idle_add(struct engine *e, struct connection *c)
{
    if (c->listed)
        return;
    c->listed = true;
    c->next = e->idle;
    e->idle = c;
}

static struct connection *idle_take(struct engine *e)
{
    struct connection *c;

    while ((c = e->idle)) {
        e->idle = c->next;
        c->listed = false;
        if (c->state == CONNECTION_IDLE)
            return c;
    }
    return NULL;
}

static int make(struct engine *e, struct vt_error *err)
{
    (void)e, (void)err;
    return 0;
}

static void open_all(struct engine *e)
{
    e->open_until_ns = vt_clock_now_ns() + CONNECTION_OPEN_NS;
    for (uint32_t i = 0; i < e->nconnections && e->phase == ENGINE_OPENING; i++)
        engine_open_connection(e, &e->connections[i]);
}

/* Nothing is sent where the connection had ended: the step goes to the next. */
static void send_step(struct engine *e, uint32_t step, struct connection *c)
{
    c->step = step;
    c->sent_ns = vt_clock_now_ns();
    if (connection_request(c, &e->config.schedule->steps[step]))
        engine_take_step(e, step, c, c->sent_ns);
}

static void dispatch(struct engine *e)
{
    struct connection *c;

    while (e->recorder.queued > 0 && (c = idle_take(e)))
        send_step(e, e->recorder.queue_first, c);
}

static bool tick(struct engine *e, int64_t now_ns)
{
    bool again = e->phase == ENGINE_OPENING;

    if (e->phase == ENGINE_OPENING && now_ns >= e->open_until_ns) {
        struct vt_error err = VT_ERROR_INIT;

        vt_error_set(&err, VT_KIND_INFRA, -ETIMEDOUT, "%u of %u connections were open in %d s",
                     e->nopen, e->nconnections, (int)(CONNECTION_OPEN_NS / VT_NS_PER_S));
        engine_report_opened(e, &err);
        return false;
    }
    for (uint32_t i = 0; i < e->nconnections; i++) {
        struct connection *c = &e->connections[i];

        if (c->state == CONNECTION_OPENING && now_ns - c->since_ns >= CONNECTION_OPEN_NS)
            connection_end(c, false);
        else if (c->state == CONNECTION_CLOSED && now_ns - c->since_ns >= CONNECTION_REST_NS)
            engine_open_connection(e, c);
        again |= c->state == CONNECTION_OPENING || c->state == CONNECTION_CLOSED;
    }
    return again;
}

static void on_ready(void *ctx, struct connection *c)
{
    struct engine *e = ctx;

    idle_add(e, c);
    if (!c->counted) {
        engine_note_opened(e, c);
        e->nopen++;
        if (e->phase == ENGINE_OPENING && e->nopen == e->nconnections)
            engine_report_opened(e, NULL);
    }
    engine_dispatch(e);
}

static void on_closed(void *ctx, struct connection *c, bool was_open, const struct vt_error *err)
{
    struct engine *e = ctx;
    bool opening = e->phase == ENGINE_OPENING;

    if (c->counted)
        e->nopen--;
    c->counted = false;
    if (!engine_link_closed(e, was_open))
        return;
    if (opening && !was_open) {
        engine_report_opened(e, err);
    } else if (e->phase != ENGINE_FINISHED) {
        if (!c->resting)
            engine_open_connection(e, c);
        else
            engine_tick_soon(e);
        engine_arm(e);
    }
}

const struct engine_sharing engine_pool = {
    .owner = {.ready = on_ready,
              .answered = engine_answered,
              .failed = engine_failed,
              .closed = on_closed},
    .make = make,
    .open = open_all,
    .dispatch = dispatch,
    .tick = tick,
};
