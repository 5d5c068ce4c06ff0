/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape: how the instants of one segment of a schedule lie, given how many there are. A shape moves
 * operations within the segment and never changes their number, so the mean rate is the load's
 * whatever the shape. All but uniform and replay are Poisson processes given their count, of a rate
 * that changes with time: independent draws with the rate as density, by the inverse of the
 * integrated rate, sorted. Integers only: a seed gives the same bytes with every compiler.
 *
 * As text, NAME[:ARG,...]:
 *   poisson            one rate throughout
 *   uniform            equal gaps, to a nanosecond; where the first one begins is drawn
 *   bursty:ON,OFF      so long at one rate, so long nothing, from the segment's start on
 *   step:RATE,...      equal parts of the segment, at rates in that relation to each other; each
 *                      part has its own fixed count
 *   ramp:FROM,TO       the rate changes linearly, between rates in that relation
 *   swing:FACTOR,PERIOD  the rate goes up and down linearly, the highest FACTOR times the lowest;
 *                      it begins at the mean, rising
 * A recorded schedule (SHAPE_REPLAY) has no text here: who reads the file knows its name.
 */
#ifndef VTILE_TILES_LOAD_SHAPE_H
#define VTILE_TILES_LOAD_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/rng.h"

#define SHAPE_RATES_MAX 16
#define SHAPE_LENGTH_MAX_NS INT64_C(1000000000000000) /* of its segment: eleven days */

enum shape_kind {
    SHAPE_POISSON,
    SHAPE_UNIFORM,
    SHAPE_BURSTY,
    SHAPE_STEP,
    SHAPE_RAMP,
    SHAPE_SWING,
    SHAPE_REPLAY,
};

/* What its kind has no use for is 0. */
struct shape {
    enum shape_kind kind;
    int64_t on_ns, off_ns;          /* bursty */
    int64_t rates[SHAPE_RATES_MAX]; /* step, ramp: relative, millionths */
    unsigned nrates;
    int64_t factor, period_ns; /* swing; factor: millionths */
    /* replay: since the segment's start, sorted; borrowed, and as many as the segment wants. */
    const int64_t *replayed_ns;
    size_t nreplayed;
};

/* "" is poisson. An error is of kind CONFIG, without a position; *ret_at (may be NULL) is then the
 * index in text at which the word stands that cannot be. */
int shape_parse(const char *text, struct shape *ret, size_t *ret_at, struct vt_error *err);

/* Whether it can have so many instants in a segment of that length. */
int shape_check(const struct shape *shape, int64_t length_ns, uint64_t count, struct vt_error *err);
/* All count of them, sorted, in [0, length_ns). shape_check has passed. */
void shape_draw(const struct shape *shape, struct vt_rng *rng, int64_t length_ns,
                int64_t *ret_instants, size_t count);
/* The same of a ramp from nothing: the density rises linearly from 0. */
void shape_draw_start(struct vt_rng *rng, int64_t length_ns, int64_t *ret_instants, size_t count);
/* How many of count are expected, rounded, in the window of that length that has most of them. */
uint64_t shape_busiest(const struct shape *shape, int64_t length_ns, uint64_t count,
                       int64_t window_ns);

/* The rate, operations a second in millionths, at which a segment of that length, at most
 * SHAPE_LENGTH_MAX_NS, wants exactly count of them: for a replay. INT64_MAX, which no schedule
 * takes, where the rate has no room in 64 bits. */
int64_t shape_rate_of(uint64_t count, int64_t length_ns);

#endif
