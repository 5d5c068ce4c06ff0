/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/shape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define MILLION INT64_C(1000000)

typedef unsigned __int128 wide;

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void sort(int64_t *instants, size_t n)
{
    qsort(instants, n, sizeof *instants, compare_ns);
}

/* Uniform in [0, bound): the lowest bits that can hold it, drawn until they do. */
static wide below(struct vt_rng *rng, wide bound)
{
    wide mask = bound, drawn;

    for (unsigned bits = 1; bits < 128; bits *= 2)
        mask |= mask >> bits;
    do {
        drawn = (wide)vt_rng_next(rng) << 64;
        drawn = (drawn | vt_rng_next(rng)) & mask;
    } while (drawn >= bound);
    return drawn;
}

/* --- integrated rates: from the segment's start to t_ns, in any unit; rising --- */

typedef wide (*integral)(const struct shape *shape, uint64_t length_ns, uint64_t t_ns);

/* The time in which the process is on. */
static wide bursty_integral(const struct shape *s, uint64_t length_ns, uint64_t t_ns)
{
    uint64_t on_ns = (uint64_t)s->on_ns, period_ns = on_ns + (uint64_t)s->off_ns;
    uint64_t rest_ns = t_ns % period_ns;

    (void)length_ns;
    return (wide)(t_ns / period_ns) * on_ns + (rest_ns < on_ns ? rest_ns : on_ns);
}

/* a t + (b - a) t^2 / 2L, times 2L. 2^1 x 1e8 x 2^50 x 2^50 is below 2^128. */
static wide ramp_integral(const struct shape *s, uint64_t length_ns, uint64_t t_ns)
{
    uint64_t a = (uint64_t)s->rates[0], b = (uint64_t)s->rates[1];
    wide flat = (wide)(2 * a) * length_ns * t_ns;

    return b > a ? flat + (wide)(b - a) * t_ns * t_ns : flat - (wide)(a - b) * t_ns * t_ns;
}

/* In quarters of a period the rate goes from the mean to the highest, down to the lowest in two,
 * and back. With the lowest rate 1 million, the highest h, d = h - 1 million and x = 4 (t mod P),
 * so that a quarter is P long, the excess over the mean integrates to d x^2 / 4P up to x = P, is
 * antisymmetric about P there, and symmetric about 2P. All times 16P; below 2^119. */
static wide swing_integral(const struct shape *s, uint64_t length_ns, uint64_t t_ns)
{
    uint64_t high = (uint64_t)s->factor, low = (uint64_t)MILLION;
    uint64_t period = (uint64_t)s->period_ns, x = 4 * (t_ns % period);
    wide excess;

    (void)length_ns;
    if (x > 2 * period)
        x = 4 * period - x;
    if (x <= period)
        excess = (wide)x * x;
    else
        excess = (wide)2 * period * period - (wide)(2 * period - x) * (2 * period - x);
    return (wide)8 * (low + high) * period * t_ns + (high - low) * excess;
}

/* The first instant by whose end more than mass of the rate has passed. */
static uint64_t inverse(integral of, const struct shape *shape, uint64_t length_ns, wide mass)
{
    uint64_t low = 0, high = length_ns - 1;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (of(shape, length_ns, middle + 1) > mass)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void draw_by(integral of, const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                    int64_t *instants, size_t n)
{
    wide whole = of(shape, length_ns, length_ns);

    for (size_t i = 0; i < n; i++)
        instants[i] = (int64_t)inverse(of, shape, length_ns, below(rng, whole));
    sort(instants, n);
}

/* --- one function a shape --- */

static void draw_poisson(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                         int64_t *instants, size_t n)
{
    (void)shape;
    for (size_t i = 0; i < n; i++)
        instants[i] = (int64_t)vt_rng_below(rng, length_ns);
    sort(instants, n);
}

/* Without the drawn start all roles of all tiles would be due in the same nanosecond. */
static void draw_uniform(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                         int64_t *instants, size_t n)
{
    uint64_t start = vt_rng_below(rng, length_ns);

    (void)shape;
    for (size_t i = 0; i < n; i++)
        instants[i] = (int64_t)(((wide)i * length_ns + start) / n);
}

static void draw_bursty(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                        int64_t *instants, size_t n)
{
    draw_by(bursty_integral, shape, rng, length_ns, instants, n);
}

/* Operations before part i: rounded from the whole, so that they add up to it. */
static size_t count_before(const struct shape *shape, unsigned part, size_t n)
{
    uint64_t before = 0, all = 0;

    for (unsigned i = 0; i < shape->nrates; i++) {
        all += (uint64_t)shape->rates[i];
        before += i < part ? (uint64_t)shape->rates[i] : 0;
    }
    return (size_t)(((wide)n * before * 2 + all) / (2 * all));
}

static void draw_step(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                      int64_t *instants, size_t n)
{
    for (unsigned part = 0; part < shape->nrates; part++) {
        size_t first = count_before(shape, part, n), last = count_before(shape, part + 1, n);
        uint64_t from_ns = length_ns * part / shape->nrates;
        uint64_t to_ns = length_ns * (part + 1) / shape->nrates;

        for (size_t i = first; i < last; i++)
            instants[i] = (int64_t)(from_ns + vt_rng_below(rng, to_ns - from_ns));
        sort(instants + first, last - first);
    }
}

static void draw_ramp(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                      int64_t *instants, size_t n)
{
    draw_by(ramp_integral, shape, rng, length_ns, instants, n);
}

static void draw_swing(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                       int64_t *instants, size_t n)
{
    draw_by(swing_integral, shape, rng, length_ns, instants, n);
}

static void copy_replay(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                        int64_t *instants, size_t n)
{
    (void)rng, (void)length_ns;
    memcpy(instants, shape->replayed_ns, n * sizeof *instants);
}

void shape_draw(const struct shape *shape, struct vt_rng *rng, int64_t length_ns,
                int64_t *ret_instants, size_t count)
{
    static void (*const draw[])(const struct shape *shape, struct vt_rng *rng, uint64_t length_ns,
                                int64_t *instants, size_t n) = {
        [SHAPE_POISSON] = draw_poisson, [SHAPE_UNIFORM] = draw_uniform,
        [SHAPE_BURSTY] = draw_bursty,   [SHAPE_STEP] = draw_step,
        [SHAPE_RAMP] = draw_ramp,       [SHAPE_SWING] = draw_swing,
        [SHAPE_REPLAY] = copy_replay,
    };

    if (count > 0)
        draw[shape->kind](shape, rng, (uint64_t)length_ns, ret_instants, count);
}

/* The larger of two uniform draws has the density 2 t / T^2. */
void shape_draw_start(struct vt_rng *rng, int64_t length_ns, int64_t *ret_instants, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t t = vt_rng_below(rng, (uint64_t)length_ns);
        uint64_t other = vt_rng_below(rng, (uint64_t)length_ns);

        ret_instants[i] = (int64_t)(other > t ? other : t);
    }
    sort(ret_instants, count);
}

/* --- what a segment needs --- */

static int check_replay(const struct shape *shape, int64_t length_ns, uint64_t count,
                        struct vt_error *err)
{
    if (shape->nreplayed != count)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "the recorded schedule has %zu times, rate and length want %llu",
                            shape->nreplayed, (unsigned long long)count);
    for (size_t i = 0; i < shape->nreplayed; i++) {
        int64_t before_ns = i ? shape->replayed_ns[i - 1] : 0;

        if (shape->replayed_ns[i] < before_ns || shape->replayed_ns[i] >= length_ns)
            return vt_error_set(err, VT_KIND_CONFIG, -ERANGE,
                                "time %zu of the recorded schedule, %lld ns, is %s", i + 1,
                                (long long)shape->replayed_ns[i],
                                shape->replayed_ns[i] < before_ns ? "earlier than the one before"
                                                                  : "not within the length");
    }
    return 0;
}

int shape_check(const struct shape *shape, int64_t length_ns, uint64_t count, struct vt_error *err)
{
    if (shape->kind != SHAPE_POISSON && length_ns > SHAPE_LENGTH_MAX_NS)
        return vt_error_set(err, VT_KIND_CONFIG, -ERANGE,
                            "a schedule of any shape but poisson lasts at most %lld s",
                            (long long)(SHAPE_LENGTH_MAX_NS / VT_NS_PER_S));
    return shape->kind == SHAPE_REPLAY ? check_replay(shape, length_ns, count, err) : 0;
}

static uint64_t busiest_replayed(const struct shape *shape, int64_t window_ns)
{
    size_t most = 0;

    for (size_t first = 0, last = 0; last < shape->nreplayed; last++) {
        while (shape->replayed_ns[last] - shape->replayed_ns[first] >= window_ns)
            first++;
        if (last + 1 - first > most)
            most = last + 1 - first;
    }
    return most;
}

/* Windows that begin at each of so many places of a period, of the whole where there is none. */
#define WINDOWS 256

static uint64_t busiest_by(integral of, const struct shape *shape, uint64_t length_ns,
                           uint64_t count, uint64_t window_ns, uint64_t period_ns)
{
    uint64_t span_ns = length_ns - window_ns;
    wide most = 0, whole = of(shape, length_ns, length_ns);
    unsigned shift = 0;

    if (period_ns && period_ns < span_ns)
        span_ns = period_ns;
    for (unsigned i = 0; i <= WINDOWS; i++) {
        uint64_t from_ns = span_ns / WINDOWS * i + span_ns % WINDOWS * i / WINDOWS;
        wide mass = of(shape, length_ns, from_ns + window_ns) - of(shape, length_ns, from_ns);

        most = mass > most ? mass : most;
    }
    while (whole >> shift >> 64)
        shift++;
    whole >>= shift;
    return (uint64_t)(((most >> shift) * count + whole / 2) / whole);
}

/* That of the highest rate, for as long as it lasts. */
static uint64_t busiest_step(const struct shape *shape, uint64_t length_ns, uint64_t count,
                             uint64_t window_ns)
{
    size_t most = 0;
    uint64_t n;

    for (unsigned part = 0; part < shape->nrates; part++) {
        size_t of_part =
            count_before(shape, part + 1, (size_t)count) - count_before(shape, part, (size_t)count);

        most = of_part > most ? of_part : most;
    }
    n = (uint64_t)(((wide)most * shape->nrates * window_ns + length_ns / 2) / length_ns);
    return n < count ? n : count;
}

uint64_t shape_busiest(const struct shape *shape, int64_t length_ns, uint64_t count,
                       int64_t window_ns)
{
    uint64_t length = (uint64_t)length_ns, window = (uint64_t)window_ns;

    if (window == 0 || window >= length)
        return window ? count : 0;
    switch (shape->kind) {
    case SHAPE_BURSTY:
        return busiest_by(bursty_integral, shape, length, count, window,
                          (uint64_t)(shape->on_ns + shape->off_ns));
    case SHAPE_STEP:
        return busiest_step(shape, length, count, window);
    case SHAPE_RAMP:
        return busiest_by(ramp_integral, shape, length, count, window, 0);
    case SHAPE_SWING:
        return busiest_by(swing_integral, shape, length, count, window, (uint64_t)shape->period_ns);
    case SHAPE_REPLAY:
        return busiest_replayed(shape, window_ns);
    case SHAPE_POISSON:
    case SHAPE_UNIFORM:
        break;
    }
    return (uint64_t)(((wide)count * window + length / 2) / length);
}

int64_t shape_rate_of(uint64_t count, int64_t length_ns)
{
    wide unit = (wide)MILLION * VT_NS_PER_S;
    wide rate = (count * unit + (uint64_t)length_ns / 2) / (uint64_t)length_ns;

    return rate < INT64_MAX ? (int64_t)rate : INT64_MAX;
}
