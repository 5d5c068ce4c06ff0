/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_check: what a load generator can say of itself, as a few sums over the measure window: were
 * steps looked at in the rhythm in which they were drawn, were its connections open, did steps wait
 * for one. What they mean is judged elsewhere, from the record. In the steady state it reads no
 * clock and allocates nothing.
 */
#ifndef VTILE_TILES_LOAD_SELF_CHECK_H
#define VTILE_TILES_LOAD_SELF_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hist.h"
#include "base/record_generator.h"

struct self_check {
    int64_t from_ns, to_ns; /* the window, absolute */
    /* Gaps from step to step: as drawn, and between the moments at which steps were looked at.
     * Those that differ by no more than the tolerance count as drawn. */
    struct vt_hist *drawn, *seen;
    int64_t tolerance_ns;
    int64_t last_due_ns, last_seen_ns; /* 0: none yet */
    int64_t since_ns;                  /* of what follows */
    uint32_t open;
    bool waiting;
    unsigned __int128 open_sum_ns; /* of connections */
    int64_t waiting_ns, watched_ns;
    int64_t receive_bytes, send_bytes; /* the least of any connection; 0: none */
};

int self_check_init(struct self_check *check, struct vt_error *err);
void self_check_dispose(struct self_check *check); /* also zeroed; may be called twice */
/* Before the first step is due. nsteps: in the window. */
void self_check_start(struct self_check *check, int64_t from_ns, int64_t to_ns, size_t nsteps,
                      uint32_t open);
void self_check_step(struct self_check *check, int64_t due_ns, int64_t seen_ns);
/* How many connections are open and whether a step waits for one, from now on. */
void self_check_change(struct self_check *check, uint32_t open, bool waiting, int64_t now_ns);
static inline bool self_check_changed(const struct self_check *check, uint32_t open, bool waiting)
{
    return check->open != open || check->waiting != waiting;
}
/* The socket's buffers; where they cannot be had nothing is noted. */
void self_check_buffers(struct self_check *check, int fd);
/* All but connections and pooled. */
void self_check_end(struct self_check *check, int64_t now_ns, struct vt_record_generator *ret);

/* Kolmogorov-Smirnov distance of two histograms of as many values, in millionths: the largest
 * difference of their distribution functions, at the edges of buckets. 0 when empty. */
int64_t self_check_distance(const struct vt_hist *a, const struct vt_hist *b);

#endif
