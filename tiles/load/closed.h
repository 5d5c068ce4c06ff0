/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closed: a closed loop: each connection asks again as soon as its answer is whole, or a think time
 * later. For finding out what a server can do at most. It says nothing of how long users would
 * wait: while the server stands still nothing is asked, so a stall is one slow answer a connection.
 *
 * Counted in the second in which a request ends, since start: response = service = from the first
 * byte written to the answer's last. Nothing is counted before start and after the end. Order:
 * closed_new -> closed_open -> opened -> closed_start -> second* -> finished -> closed_free.
 */
#ifndef VTILE_TILES_LOAD_CLOSED_H
#define VTILE_TILES_LOAD_CLOSED_H

#include "tiles/load/engine.h"

struct closed_config {
    const struct driver *driver; /* pooled, of one operation */
    struct driver_target target;
    SSL_CTX *tls; /* when driver->tls; referenced */
    uint32_t connections;
    int64_t timeout_ns, think_ns, length_ns;
};

struct closed;
/* events: totals have no queue and nothing early; finished tells of what was counted. */
int closed_new(struct vt_loop *loop, const struct closed_config *config,
               const struct engine_events *events, void *ctx, struct closed **ret,
               struct vt_error *err);
void closed_open(struct closed *closed);
int closed_start(struct closed *closed, int64_t t0_ns, struct vt_error *err);
void closed_stop(struct closed *closed);
struct closed *closed_free(struct closed *closed); /* NULL ok; returns NULL */

#endif
