/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn: frames over a link, with heartbeat and clock offset. Both sides ping every second; a peer
 * silent for silence_ns is lost. Offset = peer's monotonic clock - ours, from the ping with the
 * shortest round trip of the last 64; error <= rtt / 2.
 */
#ifndef VTILE_WIRE_CONN_H
#define VTILE_WIRE_CONN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/link.h"
#include "wire/frame.h"

struct wire_conn;
struct wire_conn_events {
    void (*opened)(void *ctx);
    /* A frame that is not PING, PONG or REFUSED. A negative return tells the peer err's text in a
     * REFUSED frame and ends the connection with err. */
    int (*frame)(void *ctx, const struct wire_frame *frame, struct vt_error *err);
    void (*drained)(void *ctx); /* all that was queued has been written; may be NULL */
    /* Exactly once; the conn is gone afterwards. err->code 0: orderly, after wire_conn_close. */
    void (*closed)(void *ctx, const struct vt_error *err);
};

/* Takes over link (on error it stays the caller's). Heartbeat starts with wire_conn_heartbeat. */
int wire_conn_new(struct vt_loop *loop, struct vt_link *link, const struct wire_conn_events *events,
                  void *ctx, struct wire_conn **ret, struct vt_error *err);
void wire_conn_open(struct wire_conn *conn);
int wire_conn_heartbeat(struct wire_conn *conn, int64_t every_ns, int64_t silence_ns,
                        struct vt_error *err);
/* More frames than that (of any type), or longer ones, end the connection as refused. */
void wire_conn_limit(struct wire_conn *conn, unsigned frames_per_s, unsigned burst,
                     size_t payload_max);
int wire_conn_send(struct wire_conn *conn, enum wire_type type, uint16_t stream, const void *data,
                   size_t len, struct vt_error *err);
/* json: borrowed. */
int wire_conn_send_json(struct wire_conn *conn, enum wire_type type, uint16_t stream,
                        const json_t *json, struct vt_error *err);
/* Tells the peer why in a REFUSED frame and ends the connection with err. */
void wire_conn_refuse(struct wire_conn *conn, const struct vt_error *err);
/* False until a first round trip. */
bool wire_conn_clock(const struct wire_conn *conn, int64_t *ret_offset_ns, int64_t *ret_rtt_ns);
/* The newest round trip, and when it ended. False until a first one. */
bool wire_conn_last_trip(const struct wire_conn *conn, int64_t *ret_at_ns, int64_t *ret_rtt_ns);
struct vt_link *wire_conn_link(struct wire_conn *conn);
/* Bytes that wait to be written. */
size_t wire_conn_queued(const struct wire_conn *conn);
void wire_conn_close(struct wire_conn *conn); /* orderly: sends what is queued */
void wire_conn_abort(struct wire_conn *conn);

#endif
