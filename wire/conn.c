/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "wire/bytes.h"

#define RTTS_KEPT 64
#define PINGS_KEPT 16 /* that may still be answered */

struct round_trip {
    int64_t at_ns, rtt_ns, offset_ns;
};

struct wire_conn {
    struct vt_link *link; /* NULL once closed */
    const struct wire_conn_events *events;
    void *ctx;
    struct vt_buf partial; /* a frame that has not come whole */
    uv_timer_t beat;
    int64_t heard_ns, silence_ns;
    int64_t pings[PINGS_KEPT]; /* times of our pings, 0: answered or none */
    unsigned next_ping;
    struct round_trip trips[RTTS_KEPT];
    unsigned ntrips, next_trip;
    /* Frames allowed: each moves due_ns on by frame_ns; it may be ahead of now by burst_ns. */
    int64_t frame_ns, burst_ns, due_ns;
    size_t payload_max;
    bool ending;  /* nothing is passed on any more */
    bool orderly; /* the user's wire_conn_close */
    struct vt_error err;
};

/* --- the end --- */
static void on_beat_closed(uv_handle_t *handle)
{
    struct wire_conn *conn = handle->data;
    conn->events->closed(conn->ctx, &conn->err);
    vt_buf_dispose(&conn->partial);
    free(conn);
}

static void link_closed(void *ctx, enum vt_link_end end, const struct vt_error *err)
{
    struct wire_conn *conn = ctx;
    conn->link = NULL;
    if (conn->err.code == 0 && !(conn->orderly && end == VT_LINK_EOF)) {
        if (end == VT_LINK_EOF)
            vt_error_set(&conn->err, VT_KIND_INFRA, -ECONNRESET, "the peer ended the connection");
        else
            conn->err = *err;
    }
    conn->ending = true;
    uv_close((uv_handle_t *)&conn->beat, on_beat_closed);
}

static void end_with(struct wire_conn *conn, const struct vt_error *err)
{
    if (conn->ending)
        return;
    conn->ending = true;
    conn->err = *err;
    uv_timer_stop(&conn->beat);
}

void wire_conn_refuse(struct wire_conn *conn, const struct vt_error *err)
{
    if (conn->ending)
        return;
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(8U << 10);
    struct vt_json json;
    vt_json_begin(&json, &text);
    vt_json_object(&json, NULL);
    vt_json_string(&json, "text", err->text);
    vt_json_end(&json);
    wire_conn_send(conn, WIRE_REFUSED, 0, text.data, text.len, NULL); /* may fail: it ends anyway */
    end_with(conn, err);
    vt_link_shut(conn->link);
}

/* --- frames --- */
static int take_ping(struct wire_conn *conn, const struct wire_frame *frame, struct vt_error *err)
{
    uint8_t answer[16];
    if (frame->len != 8)
        return vt_error_refuse(err, "ping of %zu bytes", frame->len);
    memcpy(answer, frame->payload, 8);
    wire_put(answer + 8, (uint64_t)vt_clock_now_ns(), 8);
    /* A peer that does not read its answers is found by its silence. */
    wire_conn_send(conn, WIRE_PONG, 0, answer, sizeof answer, NULL);
    return 0;
}

static int take_pong(struct wire_conn *conn, const struct wire_frame *frame, struct vt_error *err)
{
    int64_t now_ns = vt_clock_now_ns();
    if (frame->len != 16)
        return vt_error_refuse(err, "pong of %zu bytes", frame->len);
    uint64_t sent = wire_get(frame->payload, 8), clock = wire_get(frame->payload + 8, 8);
    if (clock > (uint64_t)WIRE_CLOCK_MAX_NS)
        return vt_error_refuse(err, "pong with an impossible clock");
    for (unsigned i = 0; i < PINGS_KEPT; i++) {
        if (conn->pings[i] == 0 || (uint64_t)conn->pings[i] != sent)
            continue;
        struct round_trip *trip = &conn->trips[conn->next_trip++ % RTTS_KEPT];
        trip->at_ns = now_ns;
        trip->rtt_ns = now_ns - conn->pings[i];
        trip->offset_ns = (int64_t)clock - (conn->pings[i] + trip->rtt_ns / 2);
        if (conn->ntrips < RTTS_KEPT)
            conn->ntrips++;
        conn->pings[i] = 0;
        break; /* else it is too late or made up: of no use, of no harm */
    }
    return 0;
}

static int take_refused(const struct wire_frame *frame, struct vt_error *err)
{
    json_t *json = NULL;
    const char *text = "without a reason";
    if (vt_json_read((const char *)frame->payload, frame->len, "refusal", VT_KIND_REFUSED, &json,
                     NULL) == 0)
        vt_json_get_string(json, "text", &text, NULL);
    int rc = vt_error_set(err, VT_KIND_REFUSED, -EACCES, "refused by the peer: %.400s", text);
    json_decref(json);
    return rc;
}

static int count_frame(struct wire_conn *conn, struct vt_error *err)
{
    int64_t now_ns = vt_clock_now_ns();
    if (conn->frame_ns == 0)
        return 0;
    if (conn->due_ns < now_ns)
        conn->due_ns = now_ns;
    conn->due_ns += conn->frame_ns;
    if (conn->due_ns - now_ns <= conn->burst_ns)
        return 0;
    return vt_error_set(err, VT_KIND_REFUSED, -ENOBUFS, "more than %lld frames a second",
                        (long long)(VT_NS_PER_S / conn->frame_ns));
}

static void take_frame(struct wire_conn *conn, const struct wire_frame *frame)
{
    struct vt_error err = VT_ERROR_INIT;
    int rc = count_frame(conn, &err);
    if (rc < 0) {
        wire_conn_refuse(conn, &err);
        return;
    }
    if (frame->type == WIRE_REFUSED) {
        take_refused(frame, &err);
        end_with(conn, &err);
        vt_link_shut(conn->link);
        return;
    }
    if (frame->type == WIRE_PING)
        rc = take_ping(conn, frame, &err);
    else if (frame->type == WIRE_PONG)
        rc = take_pong(conn, frame, &err);
    else
        rc = conn->events->frame(conn->ctx, frame, &err);
    if (rc < 0)
        wire_conn_refuse(conn, &err);
}

/* Takes the whole frames at the front of data; returns the bytes they had. */
static size_t take_frames(struct wire_conn *conn, const uint8_t *data, size_t len)
{
    size_t done = 0;
    while (!conn->ending) {
        struct vt_error err = VT_ERROR_INIT;
        struct wire_frame frame;
        size_t used;
        int rc = wire_frame_read(data + done, len - done, conn->payload_max, &frame, &used, &err);
        if (rc < 0)
            wire_conn_refuse(conn, &err);
        if (rc <= 0)
            break;
        take_frame(conn, &frame);
        done += used;
    }
    return done;
}

static void link_data(void *ctx, const uint8_t *data, size_t len)
{
    struct wire_conn *conn = ctx;
    if (conn->ending)
        return;
    conn->heard_ns = vt_clock_now_ns();
    if (conn->partial.len == 0) {
        size_t done = take_frames(conn, data, len);
        if (!conn->ending)
            vt_buf_add(&conn->partial, data + done, len - done);
    } else {
        vt_buf_add(&conn->partial, data, len);
        vt_buf_consume(&conn->partial,
                       take_frames(conn, (uint8_t *)conn->partial.data, conn->partial.len));
    }
    struct vt_error err = VT_ERROR_INIT;
    if (!conn->ending && vt_buf_check(&conn->partial, "receive a frame", &err) < 0)
        wire_conn_refuse(conn, &err);
}

static void link_opened(void *ctx)
{
    struct wire_conn *conn = ctx;
    if (!conn->ending && conn->events->opened)
        conn->events->opened(conn->ctx);
}

static void link_drained(void *ctx)
{
    struct wire_conn *conn = ctx;
    if (!conn->ending && conn->events->drained)
        conn->events->drained(conn->ctx);
}

static const struct vt_link_events link_events = {
    .opened = link_opened,
    .data = link_data,
    .drained = link_drained,
    .closed = link_closed,
};

/* --- heartbeat --- */
static void on_beat(uv_timer_t *timer)
{
    struct wire_conn *conn = timer->data;
    int64_t now_ns = vt_clock_now_ns();
    if (conn->ending)
        return;
    if (now_ns - conn->heard_ns > conn->silence_ns) {
        struct vt_error err = VT_ERROR_INIT;
        vt_error_set(&err, VT_KIND_INFRA, -ETIMEDOUT, "nothing was heard for %.1f s",
                     (double)(now_ns - conn->heard_ns) / 1e9);
        end_with(conn, &err);
        vt_link_close(conn->link);
        return;
    }
    uint8_t payload[8];
    wire_put(payload, (uint64_t)now_ns, 8);
    if (wire_conn_send(conn, WIRE_PING, 0, payload, sizeof payload, NULL) == 0)
        conn->pings[conn->next_ping++ % PINGS_KEPT] = now_ns;
}

int wire_conn_heartbeat(struct wire_conn *conn, int64_t every_ns, int64_t silence_ns,
                        struct vt_error *err)
{
    if (every_ns < VT_NS_PER_MS || silence_ns < every_ns)
        return vt_error_set(err, VT_KIND_REFUSED, -EINVAL, "heartbeat: impossible times");
    if (conn->ending)
        return vt_error_set(err, VT_KIND_INFRA, -EPIPE, "heartbeat: the connection is ending");
    conn->heard_ns = vt_clock_now_ns();
    conn->silence_ns = silence_ns;
    uint64_t every_ms = (uint64_t)(every_ns / VT_NS_PER_MS);
    uv_timer_start(&conn->beat, on_beat, 0, every_ms);
    return 0;
}

bool wire_conn_clock(const struct wire_conn *conn, int64_t *ret_offset_ns, int64_t *ret_rtt_ns)
{
    const struct round_trip *best = NULL;
    for (unsigned i = 0; i < conn->ntrips; i++)
        if (!best || conn->trips[i].rtt_ns < best->rtt_ns)
            best = &conn->trips[i];
    if (!best)
        return false;
    *ret_offset_ns = best->offset_ns;
    *ret_rtt_ns = best->rtt_ns;
    return true;
}

bool wire_conn_last_trip(const struct wire_conn *conn, int64_t *ret_at_ns, int64_t *ret_rtt_ns)
{
    const struct round_trip *last = &conn->trips[(conn->next_trip - 1) % RTTS_KEPT];
    if (conn->ntrips == 0)
        return false;
    *ret_at_ns = last->at_ns;
    *ret_rtt_ns = last->rtt_ns;
    return true;
}

/* --- operations --- */
void wire_conn_limit(struct wire_conn *conn, unsigned frames_per_s, unsigned burst,
                     size_t payload_max)
{
    conn->payload_max = payload_max;
    conn->frame_ns = VT_NS_PER_S / frames_per_s;
    conn->burst_ns = conn->frame_ns * burst;
}

int wire_conn_new(struct vt_loop *loop, struct vt_link *link, const struct wire_conn_events *events,
                  void *ctx, struct wire_conn **ret, struct vt_error *err)
{
    struct wire_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return vt_error_no_memory(err, "make a connection");
    *conn = (struct wire_conn){
        .link = link,
        .events = events,
        .ctx = ctx,
        .payload_max = WIRE_PAYLOAD_MAX,
        /* One frame that is not whole, and what one read brings. */
        .partial = VT_BUF_INIT(WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX + VT_LOOP_READ_BYTES),
    };
    uv_timer_init(&loop->uv, &conn->beat);
    conn->beat.data = conn;
    vt_link_set_events(link, &link_events, conn);
    *ret = conn;
    return 0;
}

void wire_conn_open(struct wire_conn *conn)
{
    vt_link_open(conn->link);
}

int wire_conn_send(struct wire_conn *conn, enum wire_type type, uint16_t stream, const void *data,
                   size_t len, struct vt_error *err)
{
    if (conn->ending)
        return vt_error_set(err, VT_KIND_INFRA, -EPIPE, "send: the connection is ending");
    VT_AUTO_BUF struct vt_buf frame = VT_BUF_INIT(WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX);
    int rc = wire_frame_write(&frame, type, stream, data, len, err);
    return rc < 0 ? rc : vt_link_send(conn->link, frame.data, frame.len, err);
}

int wire_conn_send_json(struct wire_conn *conn, enum wire_type type, uint16_t stream,
                        const json_t *json, struct vt_error *err)
{
    VT_AUTO_FREE char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (!text)
        return vt_error_no_memory(err, "write JSON");
    return wire_conn_send(conn, type, stream, text, strlen(text), err);
}

struct vt_link *wire_conn_link(struct wire_conn *conn)
{
    return conn->link;
}

size_t wire_conn_queued(const struct wire_conn *conn)
{
    return conn->link ? vt_link_queued(conn->link) : 0;
}

void wire_conn_close(struct wire_conn *conn)
{
    if (conn->ending)
        return;
    conn->ending = true;
    conn->orderly = true;
    uv_timer_stop(&conn->beat);
    vt_link_shut(conn->link);
}

void wire_conn_abort(struct wire_conn *conn)
{
    if (!conn->ending) {
        conn->ending = true;
        vt_error_set(&conn->err, VT_KIND_INFRA, -ECANCELED, "the connection was closed");
        uv_timer_stop(&conn->beat);
    }
    vt_link_close(conn->link);
}
