/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of a segment: exact counts whatever the length, the distributions that their formulas
 * give, and the same bytes with every compiler. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/tiles/statistics.h"
#include "tiles/load/schedule.h"
#include "tiles/load/shape.h"
#include "tiles/roles/registry.h"

#define S VT_NS_PER_S
#define SEEDS 20
#define COUNT (SANITIZED ? 4000 : 20000)
#define MANY (SANITIZED ? 100000 : 1000000)

static struct shape shape_of(const char *text)
{
    struct shape shape;
    struct vt_error err = VT_ERROR_INIT;

    if (shape_parse(text, &shape, NULL, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return shape;
}

/* The caller's. */
static int64_t *draw(const struct shape *shape, int64_t length_ns, size_t n, uint64_t seed)
{
    int64_t *instants = calloc(n + 1, sizeof *instants);
    struct vt_rng rng;

    assert_non_null(instants);
    instants[n] = INT64_MIN; /* nothing is written behind them */
    vt_rng_seed(&rng, seed, "shape", 0);
    assert_int_equal(shape_check(shape, length_ns, n, NULL), 0);
    shape_draw(shape, &rng, length_ns, instants, n);
    assert_true(instants[n] == INT64_MIN);
    for (size_t i = 0; i < n; i++) {
        assert_true(instants[i] >= (i ? instants[i - 1] : 0));
        assert_true(instants[i] < length_ns);
    }
    return instants;
}

static const char *const texts[] = {
    "poisson",
    "uniform",
    "bursty:1us,1h",
    "bursty:1h,1us",
    "bursty:3s,2s",
    "step:1",
    "step:0,1,0",
    "step:1,2,4,8",
    "ramp:0,1",
    "ramp:100,0",
    "ramp:1,1",
    "ramp:0.000001,0",
    "swing:1,1ms",
    "swing:16,1ms",
    "swing:16,1h",
    "swing:2,60s",
    "",
    "step:100,0.000001",
};

static void test_any_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = {
        1, 2, 3, 7, 1000, 999999937, S, 3600 * S, 86400 * S + 1, SHAPE_LENGTH_MAX_NS};
    static const size_t counts[] = {0, 1, 2, 3, 17, 1000};

    for (size_t t = 0; t < VT_COUNT(texts); t++) {
        struct shape shape = shape_of(texts[t]);

        for (size_t l = 0; l < VT_COUNT(lengths); l++)
            for (size_t n = 0; n < VT_COUNT(counts); n++)
                free(draw(&shape, lengths[l], counts[n], 1 + l));
    }
}

static void test_texts(void **state)
{
    (void)state;
    struct shape shape = {.nrates = 77};
    size_t at = 77;

    assert_int_equal(shape_parse("uniform:", &shape, &at, NULL), -EINVAL);
    assert_int_equal(at, 8);
    assert_int_equal(shape_parse("step:", &shape, &at, NULL), -EINVAL);
    assert_int_equal(at, 5);
    assert_int_equal(shape.nrates, 77); /* written on success only */
    shape = shape_of("");
    assert_int_equal(shape.kind, SHAPE_POISSON);
    shape = shape_of("bursty:250 ms,3min");
    assert_int_equal(shape.kind, SHAPE_BURSTY);
    assert_int_equal(shape.on_ns, 250000000);
    assert_int_equal(shape.off_ns, 180 * S);
    shape = shape_of("step:1,0.5,100,0");
    assert_int_equal(shape.kind, SHAPE_STEP);
    assert_int_equal(shape.nrates, 4);
    assert_int_equal(shape.rates[1], 500000);
    assert_int_equal(shape.rates[2], 100000000);
    assert_int_equal(shape.rates[3], 0);
    shape = shape_of("ramp:0,2.5");
    assert_int_equal(shape.kind, SHAPE_RAMP);
    assert_int_equal(shape.rates[0], 0);
    assert_int_equal(shape.rates[1], 2500000);
    shape = shape_of("swing:16,60s");
    assert_int_equal(shape.kind, SHAPE_SWING);
    assert_int_equal(shape.factor, 16000000);
    assert_int_equal(shape.period_ns, 60 * S);
}

/* --- laws: each distribution function from its formula, in doubles --- */

struct law {
    const char *text;
    double length; /* seconds */
    double (*cdf)(double x_ns, const void *law);
    double a, b;
};

static double bursty_cdf(double x_ns, const void *arg)
{
    const struct law *law = arg;
    double x = x_ns * 1e-9, period = law->a + law->b;
    double cycles = floor(x / period), whole = floor(law->length / period);
    double on = cycles * law->a + fmin(x - cycles * period, law->a);

    return on / (whole * law->a + fmin(law->length - whole * period, law->a));
}

static double ramp_cdf(double x_ns, const void *arg)
{
    const struct law *law = arg;
    double x = x_ns * 1e-9 / law->length;

    return (law->a * x + (law->b - law->a) * x * x / 2) / ((law->a + law->b) / 2);
}

/* The triangle wave as asin(sin), integrated by Simpson's rule between its corners. */
static double swing_rate(const struct law *law, double t)
{
    double swing = (law->a - 1) / (law->a + 1);

    return 1 + swing * asin(sin(2 * M_PI * t / law->b)) / (M_PI / 2);
}

static double swing_integral(const struct law *law, double x)
{
    double quarter = law->b / 4, from = floor(x / law->b) * law->b, sum = from;

    while (from < x) {
        double to = fmin(from + quarter, x);

        sum += (to - from) / 6 *
               (swing_rate(law, from) + 4 * swing_rate(law, (from + to) / 2) + swing_rate(law, to));
        from = to;
    }
    return sum;
}

static double swing_cdf(double x_ns, const void *arg)
{
    const struct law *law = arg;

    return swing_integral(law, x_ns * 1e-9) / swing_integral(law, law->length);
}

static double uniform_cdf(double x, const void *arg)
{
    return x / *(const double *)arg;
}

/* sqrt(n) D over seeds must scatter as Kolmogorov's law says, neither more nor less. */
static void judge(const char *what, double sum, unsigned beyond)
{
    print_message("%s: mean of sqrt(n) D %.3f, law %.3f; %u of %d beyond its 5 %% point\n", what,
                  sum / SEEDS, KS_MEAN, beyond, SEEDS);
    assert_true(fabs(sum / SEEDS - KS_MEAN) < 3 * KS_SD / sqrt(SEEDS));
    assert_true(beyond <= 4); /* binomial(20, 0.05): more with probability 0.003 */
}

static void test_laws(void **state)
{
    (void)state;
    static const struct law laws[] = {
        {"bursty:1s,9s", 100, bursty_cdf, 1, 9},
        {"bursty:3s,2s", 61, bursty_cdf, 3, 2},
        {"bursty:10ms,30ms", 1.005, bursty_cdf, 0.01, 0.03},
        {"ramp:0,1", 60, ramp_cdf, 0, 1},
        {"ramp:1,0", 60, ramp_cdf, 1, 0},
        {"ramp:0.25,2", 7200, ramp_cdf, 0.25, 2},
        {"ramp:100,1", 1e6, ramp_cdf, 100, 1}, /* the greatest sums */
        {"ramp:1,100", 1e6, ramp_cdf, 1, 100},
        {"swing:16,60s", 240, swing_cdf, 16, 60},
        {"swing:4,7s", 60, swing_cdf, 4, 7},
        {"swing:16,60s", 40, swing_cdf, 16, 60},
        {"swing:16,1h", 1e6, swing_cdf, 16, 3600},
        {"swing:1,1s", 10, swing_cdf, 1, 1},
    };

    for (size_t l = 0; l < VT_COUNT(laws); l++) {
        struct shape shape = shape_of(laws[l].text);
        double sum = 0;
        unsigned beyond = 0;

        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            VT_AUTO_FREE int64_t *instants =
                draw(&shape, (int64_t)llround(laws[l].length * 1e9), COUNT, seed);
            VT_AUTO_FREE double *x = calloc(COUNT, sizeof *x);
            double ks;

            for (size_t i = 0; i < COUNT; i++)
                x[i] = (double)instants[i];
            ks = stat_ks(x, COUNT, laws[l].cdf, &laws[l]);
            sum += ks;
            beyond += ks > KS_UPPER_05;
        }
        judge(laws[l].text, sum, beyond);
    }
}

/* --- moments --- */

struct moments {
    double mean, variance, fourth; /* the last two about the mean */
};

static struct moments moments_of(const char *text, double length, size_t n)
{
    struct shape shape = shape_of(text);
    VT_AUTO_FREE int64_t *instants = draw(&shape, (int64_t)llround(length * 1e9), n, 5);
    struct moments m = {0};

    for (size_t i = 0; i < n; i++)
        m.mean += (double)instants[i] * 1e-9 / (double)n;
    for (size_t i = 0; i < n; i++) {
        double off = (double)instants[i] * 1e-9 - m.mean;

        m.variance += off * off / (double)n;
        m.fourth += off * off * off * off / (double)n;
    }
    return m;
}

/* Each within 3.3 of its standard errors (two-sided 0.1 %). */
static void check_moments(const char *text, double length, double mean, double variance)
{
    size_t n = MANY;
    struct moments m = moments_of(text, length, n);
    double mean_error = sqrt(variance / (double)n);
    double variance_error = sqrt((m.fourth - variance * variance) / (double)n);

    print_message("%s: mean %.5f (%.5f +- %.5f), variance %.5f (%.5f +- %.5f)\n", text, m.mean,
                  mean, mean_error, m.variance, variance, variance_error);
    assert_true(fabs(m.mean - mean) < 3.3 * mean_error);
    assert_true(fabs(m.variance - variance) < 3.3 * variance_error);
}

/* A ramp of rates a to b over T: E t = T (a + 2 b) / 3 (a + b), E t^2 = T^2 (a + 3 b) / 6 (a + b).
 * k bursts of A every P: a burst's number and the place in it are independent and uniform.
 * k whole swings of period P, s = (f - 1) / (f + 1): by parts E t = k P / 2 - s P / 8, and
 * E t^2 = (k P)^2 / 3 - s k P^2 / 8. */
static void test_moments(void **state)
{
    (void)state;
    double a = 0.25, b = 2, t = 60, k = 6, on = 3, p = 10, s = 15 / 17.0, mean;

    mean = t * (a + 2 * b) / (3 * (a + b));
    check_moments("ramp:0.25,2", t, mean, t * t * (a + 3 * b) / (6 * (a + b)) - mean * mean);
    mean = t / 3;
    check_moments("ramp:1,0", t, mean, t * t / 18);
    mean = (k - 1) / 2 * p + on / 2;
    check_moments("bursty:3s,7s", k * p, mean, p * p * (k * k - 1) / 12 + on * on / 12);
    mean = k * p / 2 - s * p / 8;
    check_moments("swing:16,10s", k * p, mean, k * p * k * p / 3 - s * k * p * p / 8 - mean * mean);
    check_moments("poisson", t, t / 2, t * t / 12);
}

/* --- counts in windows --- */

/* Variance over mean of the counts in the windows of that length. */
static double dispersion(const struct shape *shape, int64_t length_ns, size_t n, int64_t window_ns)
{
    size_t windows = (size_t)(length_ns / window_ns);
    VT_AUTO_FREE int64_t *instants = draw(shape, length_ns, n, 3);
    VT_AUTO_FREE double *count = calloc(windows, sizeof *count);
    double mean = (double)n / (double)windows, sum = 0;

    assert_int_equal(length_ns % window_ns, 0);
    for (size_t i = 0; i < n; i++)
        count[instants[i] / window_ns]++;
    for (size_t i = 0; i < windows; i++)
        sum += (count[i] - mean) * (count[i] - mean);
    return sum / (double)windows / mean;
}

/*
 * The mean count of a window is m. Poisson: 1. On and off: a share of p = on / (on + off) of the
 * windows has m / p, the rest none, so the variance is m + m^2 (1 - p) / p and the index
 * 1 + m (1 - p) / p; in windows of whole periods it is 1 again. Triangle of relative height s in
 * windows of a K-th of a quarter: means of windows are the rates in their middles, of which the
 * variance is s^2 (1 / 3 - 1 / 12 K^2). Equal gaps: none. All within 5 % with some thousands of
 * windows, but for the last.
 */
static void test_dispersion(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t window_ns;
        double expected;
    } cases[] = {
        {"poisson", S, 1},
        {"bursty:2s,8s", S, 1 + 20 * (0.8 / 0.2)},
        {"bursty:2s,8s", 2 * S, 1 + 40 * (0.8 / 0.2)},
        {"bursty:2s,8s", 10 * S, 1},
        {"swing:16,40s", 2 * S, 1 + 40 * (15 / 17.0) * (15 / 17.0) * (1 / 3.0 - 1 / 300.0)},
        {"swing:16,40s", 40 * S, 1},
        {"swing:1,40s", S, 1},
        {"ramp:1,1", S, 1},
    };
    struct shape uniform = shape_of("uniform");

    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct shape shape = shape_of(cases[i].text);
        double windows = 40000.0 * 1e9 / (double)cases[i].window_ns;
        double index = dispersion(&shape, 40000 * S, 800000, cases[i].window_ns);
        double allowed = fmax(0.05, 3.3 * sqrt(2 / windows));

        print_message("%s in windows of %lld s: index of dispersion %.3f (%.3f)\n", cases[i].text,
                      (long long)(cases[i].window_ns / S), index, cases[i].expected);
        assert_true(fabs(index / cases[i].expected - 1) < allowed);
    }
    assert_true(dispersion(&uniform, 40000 * S, 800000, S) < 0.01);
}

/* --- exact ones --- */

static void test_uniform(void **state)
{
    (void)state;
    static const struct {
        int64_t length_ns;
        size_t n;
    } cases[] = {{60 * S, 543}, {60 * S, 1}, {1000, 999}, {SHAPE_LENGTH_MAX_NS, 1000}, {7, 3}};
    struct shape uniform = shape_of("uniform");
    double gap = 1e9, first[1000];

    for (size_t c = 0; c < VT_COUNT(cases); c++) {
        VT_AUTO_FREE int64_t *t = draw(&uniform, cases[c].length_ns, cases[c].n, c);
        int64_t least = cases[c].length_ns / (int64_t)cases[c].n;

        for (size_t i = 1; i < cases[c].n; i++)
            assert_in_range(t[i] - t[i - 1], least, least + 1);
        assert_true(t[0] <= least);
    }
    /* Where the first stands is drawn. */
    for (size_t i = 0; i < VT_COUNT(first); i++) {
        VT_AUTO_FREE int64_t *t = draw(&uniform, 60 * S, 60, i);

        first[i] = (double)t[0];
    }
    qsort(first, VT_COUNT(first), sizeof *first, stat_compare_double);
    assert_true(stat_ks(first, VT_COUNT(first), uniform_cdf, &gap) < KS_UPPER_05);
}

/* Parts of 25 s at 1 : 2 : 0 : 4 of 1001: 143, 286, 0, 572; of 10: 1.43, 4.29, 4.29, 10 rounded. */
static void test_step(void **state)
{
    (void)state;
    static const size_t want[2][4] = {{143, 286, 0, 572}, {1, 3, 0, 6}};
    static const size_t counts[2] = {1001, 10};
    struct shape step = shape_of("step:1,2,0,4");
    double part = 25e9, sum = 0;
    unsigned beyond = 0;

    for (size_t c = 0; c < 2; c++) {
        VT_AUTO_FREE int64_t *t = draw(&step, 100 * S, counts[c], 9);
        size_t got[4] = {0};

        for (size_t i = 0; i < counts[c]; i++)
            got[t[i] / (25 * S)]++;
        assert_memory_equal(got, want[c], sizeof got);
    }
    /* Within its part each is uniform. */
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        VT_AUTO_FREE int64_t *t = draw(&step, 100 * S, COUNT, seed);
        VT_AUTO_FREE double *x = calloc(COUNT, sizeof *x);
        double ks;

        for (size_t i = 0; i < COUNT; i++)
            x[i] = (double)(t[i] % (25 * S));
        qsort(x, COUNT, sizeof *x, stat_compare_double);
        ks = stat_ks(x, COUNT, uniform_cdf, &part);
        sum += ks;
        beyond += ks > KS_UPPER_05;
    }
    judge("step, within parts", sum, beyond);
}

/* Nothing is due while the process is off, and the highest rate is the stated multiple of the
 * lowest: a hundredth of a period about each. */
static void test_off_and_extremes(void **state)
{
    (void)state;
    struct shape bursty = shape_of("bursty:1ms,3ms"), swing = shape_of("swing:16,100s");
    VT_AUTO_FREE int64_t *t = draw(&bursty, 10 * S, COUNT, 1);
    VT_AUTO_FREE int64_t *u = draw(&swing, 100 * S, MANY, 1);
    double high = 0, low = 0, most = MANY / 100.0 * 31.85 / 17, least = MANY / 100.0 * 2.15 / 17;

    for (size_t i = 0; i < COUNT; i++)
        assert_true(t[i] % (4 * VT_NS_PER_MS) < VT_NS_PER_MS);
    for (size_t i = 0; i < MANY; i++) {
        high += llabs(u[i] - 25 * S) < S / 2;
        low += llabs(u[i] - 75 * S) < S / 2;
    }
    /* From 32 / 17 to 2 / 17 of the mean in 50 s: 0.25 s away, on average, it is 0.15 / 17. */
    print_message("swing: %.0f a second at its highest (%.0f), %.0f at its lowest (%.0f)\n", high,
                  most, low, least);
    assert_true(fabs(high - most) < 3.3 * sqrt(most));
    assert_true(fabs(low - least) < 3.3 * sqrt(least));
}

/* Where each has most of its operations, by hand. */
static void test_busiest(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double window;
        double share;
    } cases[] = {
        {"poisson", 5, 0.05},
        {"uniform", 5, 0.05},
        {"bursty:1s,9s", 5, 0.1},
        {"bursty:1s,9s", 0.5, 0.05},
        {"bursty:1s,9s", 10.5, 0.15},
        {"step:1,3", 10, 0.15},
        {"step:0,1,0,0", 10, 0.4},
        {"step:0,1,0,0", 90, 1},
        {"ramp:0,1", 10, 1 - 0.9 * 0.9},
        {"ramp:1,0", 10, 1 - 0.9 * 0.9},
        /* In 2 s about the highest point: 2 x (the rate there, 32 / 17, less 1 / 40 x 30 / 17). */
        {"swing:16,20s", 2, 0.02 * (32 - 30 / 20.0) / 17},
        {"swing:16,20s", 20, 0.2},
        {"swing:16,20s", 100, 1},
        {"swing:16,20s", 0, 0},
    };

    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct shape shape = shape_of(cases[i].text);
        uint64_t n =
            shape_busiest(&shape, 100 * S, 1000000, (int64_t)llround(cases[i].window * 1e9));

        if (fabs((double)n - 1e6 * cases[i].share) > 1e6 * 0.0005)
            fail_msg("%s: %llu in %g s, expected %.0f", cases[i].text, (unsigned long long)n,
                     cases[i].window, 1e6 * cases[i].share);
    }
}

/* --- as a schedule --- */

static const struct spec_load load = {
    .rate = 180900000,
    .think_mean_ns = 5 * S,
    .think_max_ns = 75 * S,
    .think_share = 920800,
    .expected_ns = 200 * VT_NS_PER_MS,
};

static struct schedule schedule_of(const struct shape *shape, int64_t rate, int64_t length_ns)
{
    const struct schedule_segment segments[] = {
        {.length_ns = 5 * S, .ramp = true},
        {.length_ns = 5 * S},
        {.length_ns = length_ns, .shape = shape},
    };
    struct schedule schedule;
    struct vt_error err = VT_ERROR_INIT;

    if (schedule_draw(&web_driver, &load, rate, segments, 3, 42, "tile-1/web", &schedule, &err) < 0)
        fail_msg("%s", err.text);
    return schedule;
}

/* Counts as without a shape, 23 + 45 + 543 at 9.045 a second; the bytes were found with gcc and
 * clang, x86-64, with and without optimisation. */
static void test_hashes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hash;
    } cases[] = {
        {"poisson", "d511bd450ffe11eac723ec04ada4715dcf0e8ef0c2401004bdad5ca84ce0f9b3"},
        {"uniform", "2a0aa4ba5137820d8aaf1cf11538c83bd34a8df226800109772bb94cea6ed427"},
        {"bursty:1s,9s", "fe65d715f4b341994ee73448dec25bdea29e32605dde1bde37aef4efa0d73fa2"},
        {"step:1,2,4,8", "dd87bede31ad08ea8598811e080ee9f589feacb31ecf6614f6c755612b32e953"},
        {"ramp:0.25,2", "a3e12cc7f48dec404b104b3fc56696b035b26f1a55c7f91983e923aff350f165"},
        {"swing:16,60s", "eb9816ec44a9403ef4bf9d7bc33740ca146f4d589516e37d93391f97036355ef"},
    };

    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct shape shape = shape_of(cases[i].text);
        struct schedule schedule = schedule_of(&shape, 9045000, 60 * S);
        char hex[65];

        assert_int_equal(schedule.nsteps, 23 + 45 + 543);
        assert_true(schedule.steps[23 + 45 - 1].intended_ns < 10 * S);
        assert_true(schedule.steps[23 + 45].intended_ns >= 10 * S);
        vt_text_hex(schedule.hash, sizeof schedule.hash, hex);
        assert_string_equal(hex, cases[i].hash);
        schedule_dispose(&schedule);
    }
}

/* However the rate changes, hardly any step comes before its session can have an answer. */
static void test_gaps_keep_their_response(void **state)
{
    (void)state;
    static const char *const shapes[] = {"poisson",  "uniform",      "swing:16,60s", "ramp:0,1",
                                         "ramp:1,0", "bursty:1s,9s", "step:1,16,1"};

    for (size_t i = 0; i < VT_COUNT(shapes); i++) {
        struct shape shape = shape_of(shapes[i]);
        struct schedule schedule = schedule_of(&shape, 180900000, 300 * S);
        VT_AUTO_FREE int64_t *last = malloc(schedule.nsessions * sizeof *last);
        size_t gaps = 0, soon = 0;
        double sum = 0;

        for (uint32_t k = 0; k < schedule.nsessions; k++)
            last[k] = -1;
        for (size_t k = 0; k < schedule.nsteps; k++) {
            const struct driver_step *step = &schedule.steps[k];
            int64_t gap_ns = step->intended_ns - last[step->session];

            if (last[step->session] >= 0) {
                gaps++;
                soon += gap_ns < load.expected_ns;
                sum += (double)gap_ns * 1e-9;
            }
            last[step->session] = step->intended_ns;
        }
        print_message("%s: mean gap %.3f s, %zu of %zu gaps under the expected response\n",
                      shapes[i], sum / (double)gaps, soon, gaps);
        assert_true(soon * 200 <= gaps);
        schedule_dispose(&schedule);
    }
}

static void test_too_long(void **state)
{
    (void)state;
    struct shape swing = shape_of("swing:16,60s"), poisson = shape_of("poisson");
    struct vt_error err = VT_ERROR_INIT;

    assert_int_equal(shape_check(&swing, SHAPE_LENGTH_MAX_NS + 1, 1, &err), -ERANGE);
    assert_int_equal(shape_check(&swing, SHAPE_LENGTH_MAX_NS, 1, &err), 0);
    assert_int_equal(shape_check(&poisson, SHAPE_LENGTH_MAX_NS + 1, 1, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_any_length),
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_dispersion),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_off_and_extremes),
        cmocka_unit_test(test_busiest),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_gaps_keep_their_response),
        cmocka_unit_test(test_too_long),
    };

    return cmocka_run_group_tests_name("shape", tests, NULL, NULL);
}
