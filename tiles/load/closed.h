/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closed: a closed loop: each connection asks again as soon as its answer is whole, or a think time
 * later. For finding out what a server can do at most. It says nothing of how long users would
 * wait: while the server stands still nothing is asked, so a stall is one slow answer a connection.
 *
 * With a think time the first requests are spread evenly over it. After length_ns nothing is asked
 * any more, and what is under way may take until its time-out. Time-outs are looked at every 50 ms.
 *
 * Order: closed_new -> closed_open -> opened -> closed_start -> ended* -> finished -> closed_free.
 * closed_stop ends early: what is under way has failed, finished still comes (from the loop). After
 * opened with a status < 0 only closed_free is left. All calls are allowed inside the events.
 */
#ifndef VTILE_TILES_LOAD_CLOSED_H
#define VTILE_TILES_LOAD_CLOSED_H

#include "tiles/load/engine.h"

struct closed_config {
    const struct driver *driver; /* pooled, of one operation */
    struct driver_target target;
    SSL_CTX *tls;         /* when driver->tls; referenced */
    uint32_t connections; /* at least 1 */
    int64_t timeout_ns, think_ns, length_ns;
};

enum closed_outcome { CLOSED_RIGHT, CLOSED_WRONG, CLOSED_FAILED };
struct closed_request {
    int64_t second; /* since start, in which it was asked */
    enum closed_outcome outcome;
    int64_t service_ns; /* right ones: from the first byte written to the answer's last */
    uint64_t bytes;     /* of body */
};
struct closed_events {
    /* status < 0: not all connections could be opened; err says why. */
    void (*opened)(void *ctx, int status, const struct vt_error *err);
    void (*ended)(void *ctx, const struct closed_request *request);
    /* intended: asked. No queue, nothing slow or early. */
    void (*finished)(void *ctx, const struct engine_totals *totals);
};

struct closed;
int closed_new(struct vt_loop *loop, const struct closed_config *config,
               const struct closed_events *events, void *ctx, struct closed **ret,
               struct vt_error *err);
void closed_open(struct closed *closed);
int closed_start(struct closed *closed, int64_t t0_ns, struct vt_error *err);
void closed_stop(struct closed *closed);
struct closed *closed_free(struct closed *closed); /* NULL ok; returns NULL */

#endif
