/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver: the client side of a role's protocol, without I/O. The engine owns loops, sockets, TLS,
 * time and histograms; a driver draws what to do, writes requests into a buffer and looks at bytes.
 * So drivers are pure, replayable and can be fuzzed.
 *
 * Order of calls: plan* (all steps of the window, before it begins) ; then for each connection
 * conn_init -> [enter -> on_bytes*] -> (request -> on_bytes* )* -> conn_fini. on_eof stands for
 * on_bytes where the peer ended the stream while an answer was awaited.
 *
 * A driver with statements (sql.h) has call -> judge in the place of request and on_bytes.
 *
 * Where the peer speaks first, request and enter may append nothing: on_bytes then sees the
 * greeting and answers with DRIVER_SEND.
 */
#ifndef VTILE_TILES_LOAD_DRIVER_H
#define VTILE_TILES_LOAD_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "tiles/spec/spec.h"

/* What on_bytes says of the bytes so far. */
enum driver_verdict {
    DRIVER_MORE,  /* the answer is not whole yet */
    DRIVER_SEND,  /* out holds bytes to send, then more */
    DRIVER_DONE,  /* whole and right */
    DRIVER_WRONG, /* whole, but status or contents are not as they must be; connection usable */
    DRIVER_BAD,   /* the stream cannot be followed any more: the connection ends */
};

/* One planned step of one session, in the order of its session. */
struct driver_step {
    uint32_t sequence;   /* of the window, 0.. in order of intended time; stands in the request */
    uint32_t session;    /* 0.. */
    uint16_t operation;  /* index into operations */
    uint32_t argument;   /* the driver's: which file, which product */
    int64_t intended_ns; /* since T0 of the load */
};

struct driver_target {
    unsigned tile;
    char address[46];
    uint16_t port;
    char server_name[256]; /* checked against the certificate */
    const void *context;   /* the driver's own, which outlives its connections; NULL: of roles */
};

struct driver_sql;

/* For plan: the expected response time and, in the load's share of the steps, a think time. */
int64_t driver_draw_gap_ns(struct vt_rng *rng, const struct spec_load *load);

struct driver {
    const char *name; /* "web" */
    bool tls;
    /* Any connection serves any session. Else a session keeps one of its own from its first step
     * to its last: operation 0 begins it on a new connection, the last operation ends it. */
    bool pooled;
    uint16_t port;
    const char *const *operations;
    unsigned noperations;

    /* Next step of a session: sets *operation, *argument and *gap_ns, the time from the intended
     * time of the step before (expected response and think time). fresh: the session begins at its
     * start; else it is met in the middle (stationary population). Returns false when the session
     * has ended instead. state: session_bytes, zeroed before the first call. */
    size_t session_bytes;
    bool (*plan)(void *state, struct vt_rng *rng, const struct spec_load *load, bool first,
                 bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns);

    /* State of a connection; conn_bytes, zeroed. */
    size_t conn_bytes;
    void (*conn_init)(void *conn, const struct driver_target *target);
    void (*conn_fini)(void *conn);
    /* Not pooled only: brings a new connection to where a session goes on whose next step is not
     * operation 0: one met in the middle, before T0, or one whose connection was lost. Not counted
     * as an operation. */
    void (*enter)(void *conn, const struct driver_step *step, struct vt_buf *out);
    /* Appends the request; remembers in conn what the answer must be. */
    void (*request)(void *conn, const struct driver_step *step, struct vt_buf *out);
    /* *used <= len: bytes taken. why: with WRONG and BAD a text that lasts as long
     * as conn, until its next call. */
    enum driver_verdict (*on_bytes)(void *conn, const uint8_t *data, size_t len, size_t *used,
                                    struct vt_buf *out, const char **why);
    enum driver_verdict (*on_eof)(void *conn, bool truncated, const char **why);
    /* Body bytes of the answer just finished; false: the server wants the connection closed. */
    uint64_t (*answer_bytes)(const void *conn);
    bool (*keep)(const void *conn);
    /* Whether that answer acknowledged something that must be kept from then on: found again after
     * the window under the step's sequence number. NULL: it never does. */
    bool (*acknowledges)(const void *conn);
    /* Not NULL: it speaks in statements and rows (sql.h). enter, request, on_bytes and on_eof are
     * then NULL, and pooled is set. */
    const struct driver_sql *sql;
};

#endif
