/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * rng: xoshiro256** streams, seeded by (seed, name, index) through splitmix64, so that every use
 * has a stream of its own and adding one changes no other. Integer arithmetic only: the same seed
 * gives the same bytes with every compiler. Source: Blackman, Vigna, "Scrambled linear
 * pseudorandom number generators", 2021. Not for secrets.
 */
#ifndef VT_BASE_RNG_H
#define VT_BASE_RNG_H

#include <stdint.h>

struct vt_rng {
    uint64_t s[4];
};

void vt_rng_seed(struct vt_rng *rng, uint64_t seed, const char *stream, uint64_t index);
uint64_t vt_rng_next(struct vt_rng *rng);
/* Uniform in [0, bound), without modulo bias; bound 0 gives 0. */
uint64_t vt_rng_below(struct vt_rng *rng, uint64_t bound);
/* Exponential with the given mean in ns, rounded to whole ns: -ln U by vt_rng_minus_ln_q64, one
 * draw each. At most 44.4 means (U is at least 2^-64); never negative; mean <= 0 gives 0. */
int64_t vt_rng_exp_ns(struct vt_rng *rng, int64_t mean_ns);
/* -ln(1 - r / 2^64) * 2^64, from integers only: a table of logarithms in fixed point and five
 * terms of the series. Relative error at most 2^-31 (argument in rng.c, tested against logl). */
unsigned __int128 vt_rng_minus_ln_q64(uint64_t r);
/* Index drawn with probability weight[i] / sum; n >= 1, sum > 0, sum fits 63 bits. */
unsigned vt_rng_pick(struct vt_rng *rng, const uint32_t *weight, unsigned n);

#endif
