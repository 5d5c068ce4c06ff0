/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire: what controller and agents say to each other, over any link (base/link.h).
 *
 * frame: 8 bytes of header, big endian: length of payload (4), type (1), flags (1, must be 0),
 * stream (2: the call a frame belongs to, 0 = none); then the payload: JSON for control, packed
 * for load and logs. A frame that is too long, of unknown type or with flags set ends the
 * connection.
 */
#ifndef VTILE_WIRE_FRAME_H
#define VTILE_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

#define WIRE_VERSION 2
#define WIRE_HEADER_BYTES 8
#define WIRE_PAYLOAD_MAX (256U << 10)
/* Of a peer's monotonic clock: more than a century of uptime is made up. */
#define WIRE_CLOCK_MAX_NS (INT64_C(100) * 366 * 24 * 3600 * VT_NS_PER_S)

enum wire_type {
    WIRE_ENROL = 1, /* agent: {"v":1,"min":1,"agent":name,"token":...,"csr":PEM} on a connection
                       without certificate */
    WIRE_ENROLLED,  /* controller: {"cert":PEM}; HELLO follows, later connections come with it */
    WIRE_HELLO,     /* agent: {"v":1,"min":1,"agent":name,"duty":"guest|client|host",...} */
    WIRE_WELCOME,   /* controller: {"v":chosen,"heartbeat_ns":...,"silence_ns":...} */
    WIRE_REFUSED,   /* either: {"text":...}; the connection ends. Handled by wire/conn.h */
    WIRE_PING,      /* either: 8 bytes sender's monotonic clock */
    WIRE_PONG,      /* 8 bytes of the ping, 8 bytes own clock */
    WIRE_CALL,      /* controller: {"op":...,"params":{...}}, stream != 0 */
    WIRE_REPLY,     /* agent: {"ok":true,"result":{...}}, or false and "error", "code", "kind" */
    WIRE_EVENT,     /* agent: {"kind":...,"text":...} */
    WIRE_LOAD,      /* client or working guest: a packed second, wire/message.h */
    WIRE_SAMPLE,    /* agent: {"t_ns":..., "series":{name: number}} */
    WIRE_LOG,       /* agent: u8 name length, name, bytes; stream: the call that asked */
    WIRE_TYPE_END,
};

struct wire_frame {
    enum wire_type type;
    uint16_t stream;
    const uint8_t *payload; /* borrowed, valid inside the callback */
    size_t len;
};

/* Appends header and payload. -EMSGSIZE when the payload is too long. */
int wire_frame_write(struct vt_buf *out, enum wire_type type, uint16_t stream, const void *payload,
                     size_t len, struct vt_error *err);
/* Looks at the front of data: 1 and *ret, *ret_used when a whole frame is there, 0 when more is
 * needed, -EBADMSG when this can never become a frame with a payload of at most payload_max. */
int wire_frame_read(const void *data, size_t len, size_t payload_max, struct wire_frame *ret,
                    size_t *ret_used, struct vt_error *err);

#endif
