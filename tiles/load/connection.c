/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/connection_kind.h"

#include <string.h>

#include "base/clock.h"

/* A connection that lasted this long was of use even without an answer: it is opened again at once
 * when the server ends it. */
#define USEFUL_NS VT_NS_PER_S

void connection_init(struct connection *c, void *conversation)
{
    c->state = CONNECTION_CLOSED;
    c->link = NULL;
    c->sql = NULL;
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

/* --- what a kind tells, in the order in which it comes --- */

void connection_opened(struct connection *c)
{
    if (c->state != CONNECTION_OPENING)
        return;
    memset(c->conversation, 0, c->driver->conn_bytes);
    c->driver->conn_init(c->conversation, c->target);
    c->in_conversation = true;
    c->opened_ns = vt_clock_now_ns();
    c->state = CONNECTION_IDLE;
    c->owner->ready(c->ctx, c);
}

void connection_fail(struct connection *c, const char *why)
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
        connection_fail(c, "more was sent than asked for");
        return;
    }
    c->served = true;
    c->state = CONNECTION_IDLE;
    c->owner->ready(c->ctx, c);
}

void connection_whole(struct connection *c, enum driver_verdict verdict, const char *why,
                      bool usable)
{
    if (verdict == DRIVER_WRONG && !why)
        why = "wrong";
    if (c->state == CONNECTION_BUSY)
        answered(c, verdict == DRIVER_WRONG ? why : NULL, usable);
    else if (verdict == DRIVER_WRONG)
        connection_fail(c, why);
    else
        entered(c, usable);
}

void connection_closed(struct connection *c, const struct vt_error *err)
{
    bool was_open = c->in_conversation;

    if (c->in_conversation)
        c->driver->conn_fini(c->conversation);
    c->in_conversation = false;
    c->state = CONNECTION_CLOSED;
    c->since_ns = vt_clock_now_ns();
    c->resting = !was_open || (!c->served && c->since_ns - c->opened_ns < USEFUL_NS);
    c->owner->closed(c->ctx, c, was_open, err);
}

/* --- of bytes: events of the link --- */

static void on_opened(void *ctx)
{
    connection_opened(ctx);
}

static void send_more(struct connection *c)
{
    struct vt_error err = VT_ERROR_INIT;

    if (vt_buf_check(c->out, "request", &err) < 0 ||
        vt_link_send(c->link, c->out->data, c->out->len, &err) < 0)
        connection_fail(c, err.text);
}

static void on_data(void *ctx, const uint8_t *data, size_t len)
{
    struct connection *c = ctx;

    if (c->state == CONNECTION_IDLE)
        connection_end(c, false); /* nothing was asked */
    if (c->timed && c->answer_ns == 0)
        c->answer_ns = vt_clock_now_ns();
    while (connection_awaits_answer(c) && len > 0) {
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
            connection_whole(c, verdict, why, len == 0);
            return;
        case DRIVER_BAD:
            connection_fail(c, why);
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
        connection_fail(c, why ? why : "the connection ended before its session could go on");
    else if (verdict == DRIVER_DONE || verdict == DRIVER_WRONG)
        connection_whole(c, verdict, why, false);
    else
        connection_fail(c, why);
}

static void on_closed(void *ctx, enum vt_link_end end, const struct vt_error *err)
{
    struct connection *c = ctx;

    c->link = NULL;
    if (connection_awaits_answer(c) && end == VT_LINK_FAILED)
        connection_fail(c, err->text);
    else if (connection_awaits_answer(c))
        end_of_stream(c, end == VT_LINK_TRUNCATED);
    connection_closed(c, err);
}

static const struct vt_link_events events = {
    .opened = on_opened,
    .data = on_data,
    .closed = on_closed,
};

/* --- of bytes: what is asked for --- */

static int bytes_open(struct connection *c, struct vt_error *err)
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
    vt_link_open(link);
    return 0;
}

/* Where the peer speaks first there is nothing to send yet. A send takes all or nothing. */
static bool bytes_send(struct connection *c, const struct driver_step *step, bool enter)
{
    vt_buf_reset(c->out);
    if (enter)
        c->driver->enter(c->conversation, step, c->out);
    else
        c->driver->request(c->conversation, step, c->out);
    return !c->out->failed &&
           (c->out->len == 0 || vt_link_send(c->link, c->out->data, c->out->len, NULL) == 0);
}

static void bytes_end(struct connection *c, bool orderly)
{
    if (orderly)
        vt_link_shut(c->link);
    else
        vt_link_close(c->link);
}

static int bytes_fd(const struct connection *c)
{
    return vt_link_fd(c->link);
}

static const struct connection_kind of_bytes = {
    .open = bytes_open,
    .send = bytes_send,
    .end = bytes_end,
    .fd = bytes_fd,
};

/* --- what the owner asks for --- */

static const struct connection_kind *kind_of(const struct connection *c)
{
    return c->driver->sql ? &connection_of_sql : &of_bytes;
}

int connection_fd(const struct connection *c)
{
    return kind_of(c)->fd(c);
}

void connection_open(struct connection *c)
{
    struct vt_error err = VT_ERROR_INIT;

    c->since_ns = vt_clock_now_ns();
    c->served = false;
    if (kind_of(c)->open(c, &err) < 0) {
        c->resting = true; /* out of descriptors or memory: later, perhaps */
        c->owner->closed(c->ctx, c, false, &err);
        return;
    }
    c->state = CONNECTION_OPENING;
}

static bool send_first(struct connection *c, const struct driver_step *step, bool enter)
{
    c->answer_ns = 0;
    if (!kind_of(c)->send(c, step, enter)) {
        connection_end(c, false);
        return false;
    }
    c->state = enter ? CONNECTION_ENTERING : CONNECTION_BUSY;
    return true;
}

bool connection_request(struct connection *c, const struct driver_step *step)
{
    return send_first(c, step, false);
}

bool connection_enter(struct connection *c, const struct driver_step *step)
{
    return send_first(c, step, true);
}

void connection_end(struct connection *c, bool orderly)
{
    if (c->state == CONNECTION_CLOSED)
        return;
    c->state = CONNECTION_ENDING;
    kind_of(c)->end(c, orderly);
}
