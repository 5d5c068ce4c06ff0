/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/scope.h"

/* Published with the reference implementation's port (rand_xoshiro, vectors from
 * xoshiro256starstar.c seeded with 1, 2, 3, 4). */
static void outputs_are_those_of_the_reference(void **state)
{
    static const uint64_t want[] = {
        11520,
        0,
        1509978240,
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct vt_rng rng = {{1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(want); i++)
        assert_true(vt_rng_next(&rng) == want[i]);
}

/* First three outputs of streams, from an implementation in Python of the seeding in rng.c:
 * splitmix64(seed) ^ fnv1a64(name), splitmix64 of that ^ index, then four outputs of splitmix64. */
static void streams_are_fixed_for_all_time(void **state)
{
    static const struct {
        uint64_t seed;
        const char *name;
        uint64_t index, want[3];
    } table[] = {
        {1,
         "web",
         0,
         {UINT64_C(0x17d65cfc8d4ba29d), UINT64_C(0xd812f1c41c67f03b),
          UINT64_C(0x5648f0b4cf5a714d)}},
        {1,
         "web",
         1,
         {UINT64_C(0x65f7e87614e7acb8), UINT64_C(0xdfacc2f6f74b2d39),
          UINT64_C(0x76b324db1ee9d24f)}},
        {0,
         "",
         0,
         {UINT64_C(0x9d7e73b48d3b7936), UINT64_C(0x81c2adf31b4eb398),
          UINT64_C(0xfd8e8416c6817a4c)}},
        {UINT64_MAX,
         "infra/filler",
         UINT64_MAX,
         {UINT64_C(0xa2f8ba6d0e944a6b), UINT64_C(0x55b239adf901ec9b),
          UINT64_C(0xbcd5887503408db4)}},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(table); i++) {
        struct vt_rng rng;

        vt_rng_seed(&rng, table[i].seed, table[i].name, table[i].index);
        for (int k = 0; k < 3; k++)
            assert_true(vt_rng_next(&rng) == table[i].want[k]);
    }
}

/* --- the logarithm --- */

/* -ln(1 - r / 2^64) by the C library; log1p where 1 - r / 2^64 would lose r's low bits. */
static long double minus_ln(uint64_t r)
{
    if (r < UINT64_C(1) << 63)
        return -log1pl(-ldexpl((long double)r, -64));
    return -logl(ldexpl((long double)(uint64_t)-r, -64));
}

static long double relative_error(uint64_t r)
{
    unsigned __int128 q = vt_rng_minus_ln_q64(r);
    long double got =
        ldexpl((long double)(uint64_t)(q >> 64), 0) + ldexpl((long double)(uint64_t)q, -64);
    long double want = minus_ln(r);

    return fabsl(got - want) / want;
}

static void logarithm_keeps_its_bound(void **state)
{
    const long double bound = ldexpl(1, -31);
    struct vt_rng rng;

    (void)state;
    assert_true(LDBL_MANT_DIG >= 64); /* else this test proves nothing */
    assert_true(vt_rng_minus_ln_q64(0) == 0);
    assert_true(vt_rng_minus_ln_q64(1) == 1);
    /* All powers of two and all of the table's edges, from either side. */
    for (unsigned shift = 0; shift < 64; shift++) {
        for (uint64_t i = 0; i <= 128; i++) {
            uint64_t m = ((128 + i) << 56) >> shift; /* i = 128, shift = 0: 2^64 = 0 */

            for (int near = -2; near <= 2; near++) {
                uint64_t r = -(m + (uint64_t)near);

                if (r != 0)
                    assert_true(relative_error(r) <= bound);
            }
        }
        assert_true(relative_error(UINT64_C(1) << shift) <= bound);
    }
    /* Where terms of the series just vanish in the fixed point: the worst region. */
    for (uint64_t r = UINT64_C(6074000900); r < UINT64_C(6074001100); r++)
        assert_true(relative_error(r) <= bound);
    vt_rng_seed(&rng, 7, "ln", 0);
    for (unsigned n = 0; n < 1000000; n++) {
        uint64_t r = vt_rng_next(&rng) >> (n & 63);

        if (r != 0)
            assert_true(relative_error(n & 64 ? r : -r) <= bound);
    }
}

static void logarithm_never_falls(void **state)
{
    unsigned __int128 last = 0;
    uint64_t r = 0;

    (void)state;
    /* Steps over the whole range, and one by one over the table's edges. */
    for (unsigned n = 0; n < 500000; n++) {
        unsigned __int128 now = vt_rng_minus_ln_q64(r);

        assert_true(now >= last);
        last = now;
        r += UINT64_C(36893488147419);
    }
    for (uint64_t i = 129; i < 256; i++) {
        r = -(i << 56) - 100;
        last = 0;
        for (int n = 0; n < 200; n++, r++) {
            assert_true(vt_rng_minus_ln_q64(r) >= last);
            last = vt_rng_minus_ln_q64(r);
        }
    }
}

static void exponential_draws_are_exact_and_bounded(void **state)
{
    /* round(-ln(1 - r / 2^64) * 10^9) of stream (1, "web", 0), with mpmath at 200 bits. */
    static const int64_t want[] = {97739268,  1858149743, 411056430,
                                   586916517, 866986250,  590859621};
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 1, "web", 0);
    for (size_t i = 0; i < VT_COUNT(want); i++)
        assert_true(vt_rng_exp_ns(&rng, 1000000000) == want[i]);
    assert_true(vt_rng_exp_ns(&rng, 0) == 0);
    assert_true(vt_rng_exp_ns(&rng, -5) == 0);
    for (int i = 0; i < 1000; i++) {
        int64_t v = vt_rng_exp_ns(&rng, INT64_MAX);

        assert_true(v >= 0);
        v = vt_rng_exp_ns(&rng, INT64_MAX / 64);
        assert_true(v >= 0 && v < INT64_MAX);
    }
    /* 64 ln 2 is the largest that exists. */
    assert_true((uint64_t)(vt_rng_minus_ln_q64(UINT64_MAX) >> 64) == 44);
}

/* --- distributions, fixed seeds: the bounds are 0.1 % points of their laws --- */

static double chi_square(const uint64_t *seen, const double *expected, unsigned n)
{
    double sum = 0;

    for (unsigned i = 0; i < n; i++) {
        double d = (double)seen[i] - expected[i];

        sum += d * d / expected[i];
    }
    return sum;
}

static void uniform_bytes(void **state)
{
    enum { DRAWS = 400000 };
    double expected[256];
    struct vt_rng rng;

    (void)state;
    for (int i = 0; i < 256; i++)
        expected[i] = DRAWS / 256.0;
    for (unsigned byte = 0; byte < 8; byte++) {
        uint64_t seen[256] = {0};
        double x;

        vt_rng_seed(&rng, 3, "bytes", byte);
        for (int n = 0; n < DRAWS; n++)
            seen[vt_rng_next(&rng) >> 8 * byte & 255]++;
        x = chi_square(seen, expected, 256);
        assert_true(x < 330.52 && x > 190.87); /* 99.9 % and 0.1 % at 255 degrees */
    }
}

static void below_is_uniform_for_awkward_bounds(void **state)
{
    enum { DRAWS = 300000 };
    static const uint64_t bounds[] = {3, 10, UINT64_C(0xc000000000000000), UINT64_MAX};
    static const double critical[] = {13.816, 27.877, 13.816, 13.816}; /* 2, 9 degrees */
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 4, "below", 0);
    assert_true(vt_rng_below(&rng, 0) == 0);
    assert_true(vt_rng_below(&rng, 1) == 0);
    for (size_t b = 0; b < VT_COUNT(bounds); b++) {
        unsigned cells = bounds[b] == 10 ? 10 : 3;
        uint64_t seen[10] = {0};
        double expected[10];

        for (unsigned i = 0; i < cells; i++)
            expected[i] = (double)DRAWS / cells;
        for (int n = 0; n < DRAWS; n++) {
            uint64_t v = vt_rng_below(&rng, bounds[b]);

            assert_true(v < bounds[b]);
            seen[(unsigned)((unsigned __int128)v * cells / bounds[b])]++;
        }
        assert_true(chi_square(seen, expected, cells) < critical[b]);
    }
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void exponential_passes_kolmogorov_smirnov(void **state)
{
    enum { DRAWS = 200000 };
    VT_AUTO_FREE double *u = calloc(DRAWS, sizeof(*u));
    struct vt_rng rng;
    double sum = 0, squares = 0, worst = 0;

    (void)state;
    assert_non_null(u);
    vt_rng_seed(&rng, 5, "exp", 0);
    for (int i = 0; i < DRAWS; i++) {
        double x = (double)vt_rng_exp_ns(&rng, 50000000) / 50000000;

        sum += x;
        squares += x * x;
        u[i] = -expm1(-x);
    }
    /* Mean 1, deviation 1; x^2: mean 2, deviation sqrt(20). 3.3 deviations. */
    assert_true(fabs(sum / DRAWS - 1) < 3.3 / sqrt(DRAWS));
    assert_true(fabs(squares / DRAWS - 2) < 3.3 * sqrt(20.0 / DRAWS));
    qsort(u, DRAWS, sizeof(*u), compare_double);
    for (int i = 0; i < DRAWS; i++) {
        worst = fmax(worst, (i + 1.0) / DRAWS - u[i]);
        worst = fmax(worst, u[i] - (double)i / DRAWS);
    }
    assert_true(worst * sqrt(DRAWS) < 1.9495 && worst * sqrt(DRAWS) > 0.30);
}

static void picks_follow_their_weights(void **state)
{
    enum { DRAWS = 500000 };
    static const uint32_t weight[] = {0, 811, 1, 0, 4294967295U, 2147483648U, 1000000000, 0};
    uint64_t seen[VT_COUNT(weight)] = {0};
    const double total = 811 + 1 + 4294967295.0 + 2147483648.0 + 1e9;
    double x = 0;
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 6, "pick", 0);
    for (int n = 0; n < DRAWS; n++) {
        unsigned i = vt_rng_pick(&rng, weight, VT_COUNT(weight));

        assert_true(i < VT_COUNT(weight));
        seen[i]++;
    }
    assert_true(seen[0] == 0 && seen[3] == 0 && seen[7] == 0);
    assert_true(seen[1] + seen[2] < 5); /* 0.05 expected */
    for (size_t i = 4; i < 7; i++) {
        double e = (double)weight[i] * DRAWS / total, d = (double)seen[i] - e;

        x += d * d / e;
    }
    assert_true(x < 13.816);
    assert_int_equal(vt_rng_pick(&rng, &weight[1], 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_those_of_the_reference),
        cmocka_unit_test(streams_are_fixed_for_all_time),
        cmocka_unit_test(logarithm_keeps_its_bound),
        cmocka_unit_test(logarithm_never_falls),
        cmocka_unit_test(exponential_draws_are_exact_and_bounded),
        cmocka_unit_test(uniform_bytes),
        cmocka_unit_test(below_is_uniform_for_awkward_bounds),
        cmocka_unit_test(exponential_passes_kolmogorov_smirnov),
        cmocka_unit_test(picks_follow_their_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
