/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule: what is due when, drawn ahead of the window from the seed alone and blind to
 * completions. The number of requests in [from, from + length) is round(rate x length); their
 * times are sorted independent uniform draws (a Poisson process given its count), or lie as the
 * segment's shape says (tiles/load/shape.h). Each time goes
 * to the session that has been due longest, out of a stationary population whose members are met
 * in mid-session (one whose step before is closer than an expected response is passed over); a
 * session that ends is replaced by a fresh one. See docs/load.md for what that keeps exact (count,
 * times, page mix) and what it bends (gaps within a session).
 */
#ifndef VTILE_TILES_LOAD_SCHEDULE_H
#define VTILE_TILES_LOAD_SCHEDULE_H

#include "tiles/load/driver.h"
#include "tiles/load/shape.h"

#define SCHEDULE_STEPS_MAX (16U << 20)
#define SCHEDULE_SESSIONS_MAX (1U << 18) /* at once */

struct schedule {
    struct driver_step *steps; /* sorted by intended_ns, sequence = index */
    size_t nsteps;
    uint32_t nsessions; /* above every step's session; not each number below occurs */
    uint8_t hash[32];   /* SHA-256 over the steps, each as fixed little-endian fields */
};

/* rate: operations a second, millionths, already scaled by --load. stream: names the rng streams
 * ("tile-1/web"). segments: ramp (rate rises linearly from 0), warm, measure, one after the other
 * from T0; each has its own fixed count; sessions run across them. There are as many sessions as
 * the busiest time of any segment wants. */
struct schedule_segment {
    int64_t length_ns;
    bool ramp;
    const struct shape *shape; /* NULL: poisson; a ramp has none */
};
int schedule_draw(const struct driver *driver, const struct spec_load *load, int64_t rate,
                  const struct schedule_segment *segments, unsigned nsegments, uint64_t seed,
                  const char *stream, struct schedule *ret, struct vt_error *err);
/* The same counts and times for a driver of one operation, each step a session of its own: none
 * waits for another. */
int schedule_draw_apart(const struct driver *driver, int64_t rate,
                        const struct schedule_segment *segments, unsigned nsegments, uint64_t seed,
                        const char *stream, struct schedule *ret, struct vt_error *err);
/* Part i of n, 0-based, of one drawn apart: each n-th step, at its time, numbered anew. The parts
 * together are the whole. No hash. */
int schedule_part(const struct schedule *schedule, uint32_t i, uint32_t n, struct schedule *ret,
                  struct vt_error *err);
void schedule_dispose(struct schedule *schedule);

#endif
