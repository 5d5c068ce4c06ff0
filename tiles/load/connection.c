/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/connection.h"

#include <string.h>

#include "base/clock.h"

/* A connection that lasted this long was of use even without an answer: it is opened again at once
 * when the server ends it. */
#define USEFUL_NS VT_NS_PER_S

void connection_init(struct connection *c, void *conversation)
{
    c->state = CONNECTION_CLOSED;
    c->link = NULL;
    c->next = NULL;
    c->resting = c->in_conversation = c->served = false;
    c->conversation = conversation;
}

uint64_t connection_answer_bytes(const struct connection *c)
{
    return c->driver->answer_bytes(c->conversation);
}

bool connection_acknowledged(const struct connection *c)
{
    return c->driver->acknowledges(c->conversation);
}

/* --- events of the link, in the order in which they come --- */

static void on_opened(void *ctx)
{
    struct connection *c = ctx;

    if (c->state != CONNECTION_OPENING)
        return;
    memset(c->conversation, 0, c->driver->conn_bytes);
    c->driver->conn_init(c->conversation, c->target);
    c->in_conversation = true;
    c->opened_ns = vt_clock_now_ns();
    c->state = CONNECTION_IDLE;
    c->owner->ready(c->ctx, c);
}

static void fail(struct connection *c, const char *why)
{
    connection_end(c, false);
    c->owner->failed(c->ctx, c, why ? why : "no reason known");
}

/* The answer is whole. Bytes that follow it were not asked for: nobody can tell what they belong
 * to, so the connection carries no other request. */
static void answered(struct connection *c, const char *wrong_why, bool usable)
{
    c->served = true;
    if (usable && c->driver->keep(c->conversation))
        c->state = CONNECTION_IDLE;
    else
        connection_end(c, usable);
    c->owner->answered(c->ctx, c, wrong_why);
    if (c->state == CONNECTION_IDLE)
        c->owner->ready(c->ctx, c);
}

/* Bytes that follow were not asked for here either. */
static void entered(struct connection *c, bool usable)
{
    if (!usable) {
        fail(c, "more was sent than asked for");
        return;
    }
    c->served = true;
    c->state = CONNECTION_IDLE;
    c->owner->ready(c->ctx, c);
}

static void send_more(struct connection *c)
{
    struct vt_error err = VT_ERROR_INIT;

    if (vt_buf_check(c->out, "request", &err) < 0 ||
        vt_link_send(c->link, c->out->data, c->out->len, &err) < 0)
        fail(c, err.text);
}

static bool awaits_answer(const struct connection *c)
{
    return c->state == CONNECTION_BUSY || c->state == CONNECTION_ENTERING;
}

static void whole(struct connection *c, enum driver_verdict verdict, const char *why, bool usable)
{
    if (verdict == DRIVER_WRONG && !why)
        why = "wrong";
    if (c->state == CONNECTION_BUSY)
        answered(c, verdict == DRIVER_WRONG ? why : NULL, usable);
    else if (verdict == DRIVER_WRONG)
        fail(c, why);
    else
        entered(c, usable);
}

static void on_data(void *ctx, const uint8_t *data, size_t len)
{
    struct connection *c = ctx;

    if (c->state == CONNECTION_IDLE)
        connection_end(c, false); /* nothing was asked */
    if (c->timed && c->answer_ns == 0)
        c->answer_ns = vt_clock_now_ns();
    while (awaits_answer(c) && len > 0) {
        const char *why = NULL;
        size_t used = 0;
        enum driver_verdict verdict;

        vt_buf_reset(c->out);
        verdict = c->driver->on_bytes(c->conversation, data, len, &used, c->out, &why);
        data += used;
        len -= used;
        switch (verdict) {
        case DRIVER_MORE:
            return;
        case DRIVER_SEND:
            send_more(c);
            break;
        case DRIVER_DONE:
        case DRIVER_WRONG:
            whole(c, verdict, why, len == 0);
            return;
        case DRIVER_BAD:
            fail(c, why);
            return;
        }
    }
}

/* The stream ended while an answer was awaited: some answers end that way. */
static void end_of_stream(struct connection *c, bool truncated)
{
    const char *why = NULL;
    enum driver_verdict verdict = c->driver->on_eof(c->conversation, truncated, &why);

    if (c->state == CONNECTION_ENTERING)
        fail(c, why ? why : "the connection ended before its session could go on");
    else if (verdict == DRIVER_DONE || verdict == DRIVER_WRONG)
        whole(c, verdict, why, false);
    else
        fail(c, why);
}

static void on_closed(void *ctx, enum vt_link_end end, const struct vt_error *err)
{
    struct connection *c = ctx;
    bool was_open = c->in_conversation;

    c->link = NULL;
    if (awaits_answer(c) && end == VT_LINK_FAILED)
        fail(c, err->text);
    else if (awaits_answer(c))
        end_of_stream(c, end == VT_LINK_TRUNCATED);
    if (c->in_conversation)
        c->driver->conn_fini(c->conversation);
    c->in_conversation = false;
    c->state = CONNECTION_CLOSED;
    c->since_ns = vt_clock_now_ns();
    c->resting = !was_open || (!c->served && c->since_ns - c->opened_ns < USEFUL_NS);
    c->owner->closed(c->ctx, c, was_open, err);
}

static const struct vt_link_events events = {
    .opened = on_opened,
    .data = on_data,
    .closed = on_closed,
};

/* --- what the owner asks for --- */

static int make_link(struct connection *c, struct vt_error *err)
{
    struct vt_link *tcp, *link;
    int code = vt_link_tcp_new(c->loop, c->address, CONNECTION_QUEUE_BYTES, &tcp, err);

    if (code < 0)
        return code;
    link = tcp;
    if (c->driver->tls) {
        code = vt_link_tls_new(tcp, c->tls, false, c->target->server_name, &link, err);
        if (code < 0) {
            vt_link_set_events(tcp, NULL, NULL);
            vt_link_close(tcp);
            return code;
        }
    }
    vt_link_set_events(link, &events, c);
    c->link = link;
    return 0;
}

void connection_open(struct connection *c)
{
    struct vt_error err = VT_ERROR_INIT;

    c->since_ns = vt_clock_now_ns();
    c->served = false;
    if (make_link(c, &err) < 0) {
        c->resting = true; /* out of descriptors or memory: later, perhaps */
        c->owner->closed(c->ctx, c, false, &err);
        return;
    }
    c->state = CONNECTION_OPENING;
    vt_link_open(c->link);
}

/* Where the peer speaks first there is nothing to send yet. A send takes all or nothing. */
static bool send_first(struct connection *c, enum connection_state next)
{
    if (c->out->failed ||
        (c->out->len > 0 && vt_link_send(c->link, c->out->data, c->out->len, NULL) < 0)) {
        connection_end(c, false);
        return false;
    }
    c->state = next;
    return true;
}

bool connection_request(struct connection *c, const struct driver_step *step)
{
    vt_buf_reset(c->out);
    c->answer_ns = 0;
    c->driver->request(c->conversation, step, c->out);
    return send_first(c, CONNECTION_BUSY);
}

bool connection_enter(struct connection *c, const struct driver_step *step)
{
    vt_buf_reset(c->out);
    c->driver->enter(c->conversation, step, c->out);
    return send_first(c, CONNECTION_ENTERING);
}

void connection_end(struct connection *c, bool orderly)
{
    if (c->state == CONNECTION_CLOSED)
        return;
    c->state = CONNECTION_ENDING;
    if (orderly)
        vt_link_shut(c->link);
    else
        vt_link_close(c->link);
}
