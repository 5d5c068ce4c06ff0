/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule: exact counts, instants like a Poisson process given its count, the published page
 * mix, gaps close to the think times, and the same bytes with every compiler. */
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
#include "tiles/roles/registry.h"
#include "tiles/roles/web/pages.h"

#define S VT_NS_PER_S
#define HASH_OF_SEED_42 "d511bd450ffe11eac723ec04ada4715dcf0e8ef0c2401004bdad5ca84ce0f9b3"
/* Draws of the cases that judge a law: with a sanitizer, a tenth. */
#define DRAWS (SANITIZED ? 100000 : 1000000)
#define EXPECTED_NS (200 * VT_NS_PER_MS)

/* Think times of the published workload. */
static const struct spec_load load = {
    .rate = 180900000,
    .think_mean_ns = 5 * S,
    .think_max_ns = 75 * S,
    .think_share = 920800,
    .expected_ns = EXPECTED_NS,
};
static const double mix[WEB_PAGES] = {0.081081, 0.126126, 0.117117, 0.247748,
                                      0.225225, 0.135135, 0.067568};

static struct schedule draw(int64_t rate, const struct schedule_segment *segments, unsigned n,
                            uint64_t seed)
{
    struct schedule schedule;
    struct vt_error err = VT_ERROR_INIT;
    int code =
        schedule_draw(&web_driver, &load, rate, segments, n, seed, "tile-1/web", &schedule, &err);

    if (code < 0)
        fail_msg("%s", err.text);
    return schedule;
}

static struct schedule draw_flat(int64_t rate, int64_t length_ns, uint64_t seed)
{
    return draw(rate, &(struct schedule_segment){.length_ns = length_ns}, 1, seed);
}

/* Counts by hand: 9.045 x 5 / 2 = 22.6, 9.045 x 5 = 45.2, 9.045 x 60 = 542.7. */
static void test_counts(void **state)
{
    (void)state;
    static const struct schedule_segment segments[] = {
        {.length_ns = 5 * S, .ramp = true}, {.length_ns = 5 * S}, {.length_ns = 60 * S}};
    static const size_t want[] = {23, 45, 543};
    int64_t from_ns = 0;
    size_t at = 0;
    struct schedule schedule = draw(9045000, segments, 3, 1);

    assert_int_equal(schedule.nsteps, 23 + 45 + 543);
    for (unsigned i = 0; i < 3; i++) {
        size_t n = 0;

        for (; at < schedule.nsteps; at++, n++) {
            const struct driver_step *step = &schedule.steps[at];

            if (step->intended_ns >= from_ns + segments[i].length_ns)
                break;
            assert_true(step->intended_ns >= from_ns);
            assert_true(at == 0 || step->intended_ns >= step[-1].intended_ns);
            assert_int_equal(step->sequence, at);
            assert_true(step->session < schedule.nsessions);
            assert_true(step->operation < WEB_PAGES);
            assert_true(step->argument < web_page_forms[step->operation].arguments);
        }
        assert_int_equal(n, want[i]);
        from_ns += segments[i].length_ns;
    }
    schedule_dispose(&schedule);
    schedule = draw_flat(0, 60 * S, 1);
    assert_int_equal(schedule.nsteps, 0);
    schedule_dispose(&schedule);
    schedule = draw_flat(500000, S, 1); /* half an operation is one */
    assert_int_equal(schedule.nsteps, 1);
    schedule_dispose(&schedule);
}

static double uniform_cdf(double x, const void *arg)
{
    return x / *(const double *)arg;
}

static double ramp_cdf(double x, const void *arg)
{
    return uniform_cdf(x, arg) * uniform_cdf(x, arg);
}

/* Twenty seeds: sqrt(n) D must scatter as Kolmogorov says, neither more (not uniform) nor less (too
 * even: the Poisson property is lost). */
static void check_instants(bool ramp, double (*cdf)(double, const void *))
{
    enum { SEEDS = 20 };
    double length_ns = 100.0 * S, sum = 0;
    unsigned beyond = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct schedule_segment segment = {.length_ns = 100 * S, .ramp = ramp};
        struct schedule schedule = draw(180900000, &segment, 1, seed);
        VT_AUTO_FREE double *x = calloc(schedule.nsteps, sizeof *x);
        double ks;

        assert_int_equal(schedule.nsteps, ramp ? 9045 : 18090);
        for (size_t i = 0; i < schedule.nsteps; i++)
            x[i] = (double)schedule.steps[i].intended_ns;
        ks = stat_ks(x, schedule.nsteps, cdf, &length_ns);
        sum += ks;
        beyond += ks > KS_UPPER_05;
        schedule_dispose(&schedule);
    }
    print_message("%s: mean of sqrt(n) D %.3f, law %.3f; %u of %d beyond its 5 %% point\n",
                  ramp ? "ramp" : "flat", sum / SEEDS, KS_MEAN, beyond, SEEDS);
    assert_true(fabs(sum / SEEDS - KS_MEAN) < 3 * KS_SD / sqrt(SEEDS));
    assert_true(beyond <= 4); /* binomial(20, 0.05): more with probability 0.003 */
}

static void test_instants(void **state)
{
    (void)state;
    check_instants(false, uniform_cdf);
    check_instants(true, ramp_cdf);
}

/* Counts of a second: given the total they are multinomial, so variance / mean is near 1 (an
 * evenly paced schedule would show 0). With n seconds its deviation is sqrt(2 / n). */
static void test_dispersion(void **state)
{
    (void)state;
    enum { SECONDS = DRAWS / 100 };
    struct schedule schedule = draw_flat(9045000, SECONDS * S, 7);
    VT_AUTO_FREE unsigned *count = calloc(SECONDS, sizeof *count);
    double mean = (double)schedule.nsteps / SECONDS, sum = 0;

    for (size_t i = 0; i < schedule.nsteps; i++)
        count[schedule.steps[i].intended_ns / S]++;
    for (unsigned i = 0; i < SECONDS; i++)
        sum += (count[i] - mean) * (count[i] - mean);
    print_message("variance / mean of counts a second: %.3f\n", sum / SECONDS / mean);
    assert_true(fabs(sum / SECONDS / mean - 1) < 3.3 * sqrt(2.0 / SECONDS));
    schedule_dispose(&schedule);
}

/* web_mix solves the balance of the matrix exactly: visits = fresh sessions at home + visits x
 * matrix, and its shares are the published ones to their last digit. */
static void test_mix_is_exact(void **state)
{
    (void)state;
    uint32_t total = 0;

    for (unsigned to = 0; to < WEB_PAGES; to++) {
        uint32_t sum = to == WEB_HOME ? 100 * web_mix[WEB_DOWNLOAD] : 0;

        for (unsigned from = 0; from < WEB_PAGES; from++)
            sum += web_mix[from] * web_matrix[from][to];
        assert_int_equal(sum, 100 * web_mix[to]);
        total += web_mix[to];
    }
    for (unsigned page = 0; page < WEB_PAGES; page++)
        assert_int_equal(lround(1e6 * web_mix[page] / total), lround(1e6 * mix[page]));
    assert_int_equal(10 * total, 148 * web_mix[WEB_DOWNLOAD]); /* 14.8 pages a session */
}

/* First pages of DRAWS sessions met in mid-session: independent draws, so Pearson's test. */
static void test_mix_of_first_pages(void **state)
{
    (void)state;
    unsigned long count[WEB_PAGES] = {0};
    uint64_t session[8];
    struct vt_rng rng;
    double chi2;

    assert_true(web_driver.session_bytes <= sizeof session);
    vt_rng_seed(&rng, 1, "first pages", 0);
    for (unsigned i = 0; i < DRAWS; i++) {
        uint16_t page;
        uint32_t argument;
        int64_t gap_ns;

        memset(session, 0, sizeof session);
        assert_true(web_driver.plan(session, &rng, &load, true, false, &page, &argument, &gap_ns));
        count[page]++;
    }
    chi2 = stat_chi2(count, mix, WEB_PAGES);
    print_message("chi-square of %d first pages: %.2f (6 degrees, 0.1 %%: %.2f)\n", DRAWS, chi2,
                  CHI2_6_UPPER_001);
    assert_true(chi2 < CHI2_6_UPPER_001);
}

/*
 * DRAWS pages. Pages that follow one another in a session depend on each other, so
 * Pearson's statistic of all pages is not chi-square. Sessions are independent: for session i with
 * N_i pages, n_ij of them page j, the vectors n_ij - share_j N_i are independent with mean zero
 * (over complete sessions by the renewal reward theorem; over the cut ones at the edges because
 * the population is stationary), so Hotelling's statistic of them is chi-square with 6 degrees.
 * shift moves two of the shares, to see that the test would notice.
 */
static double mix_chi2(const struct schedule *schedule, double shift)
{
    VT_AUTO_FREE double(*count)[WEB_PAGES] = calloc(schedule->nsessions, sizeof *count);
    struct stat_vectors vectors = {.dim = WEB_PAGES - 1};
    double share[WEB_PAGES];

    memcpy(share, mix, sizeof share);
    share[WEB_PRODUCT] += shift;
    share[WEB_FILE] -= shift;
    for (size_t i = 0; i < schedule->nsteps; i++)
        count[schedule->steps[i].session][schedule->steps[i].operation]++;
    for (size_t i = 0; i < schedule->nsessions; i++) {
        double pages = 0;

        for (unsigned j = 0; j < WEB_PAGES; j++)
            pages += count[i][j];
        for (unsigned j = 0; j < WEB_PAGES; j++)
            count[i][j] -= share[j] * pages;
        if (pages > 0)
            stat_vectors_add(&vectors, count[i]);
    }
    return stat_vectors_chi2(&vectors);
}

static void test_mix_of_schedule(void **state)
{
    (void)state;
    static const int64_t rates[] = {9045000, 180900000};

    for (unsigned i = 0; i < VT_COUNT(rates); i++) {
        int64_t length_ns = (int64_t)(DRAWS / ((double)rates[i] * 1e-6) * 1e9) + 1000000;
        struct schedule schedule = draw_flat(rates[i], length_ns, 3);
        double chi2, shifted;

        assert_true(schedule.nsteps >= DRAWS);
        chi2 = mix_chi2(&schedule, 0);
        shifted = mix_chi2(&schedule, 0.002);
        print_message("%zu pages at %.3f/s: chi-square %.2f (6 degrees, 0.1 %%: %.2f); with two "
                      "shares 0.2 %% off: %.1f\n",
                      schedule.nsteps, (double)rates[i] * 1e-6, chi2, CHI2_6_UPPER_001, shifted);
        assert_true(chi2 < CHI2_6_UPPER_001);
        if (!SANITIZED) /* so small a shift needs the million */
            assert_true(shifted > 2 * CHI2_6_UPPER_001);
        schedule_dispose(&schedule);
    }
}

/* The mix holds from the first moment on: no session is met at its beginning by preference. The
 * first five seconds of 300 seeds (with a sanitizer 60, too few for the statistic to follow its
 * law); each seed is one independent vector. */
static void test_mix_at_the_beginning(void **state)
{
    (void)state;
    struct stat_vectors vectors = {.dim = WEB_PAGES - 1};
    double chi2;

    for (uint64_t seed = 1; seed <= (SANITIZED ? 60 : 300); seed++) {
        struct schedule schedule = draw_flat(180900000, 5 * S, seed);
        double off[WEB_PAGES];

        for (unsigned j = 0; j < WEB_PAGES; j++)
            off[j] = -mix[j] * (double)schedule.nsteps;
        for (size_t i = 0; i < schedule.nsteps; i++)
            off[schedule.steps[i].operation]++;
        stat_vectors_add(&vectors, off);
        schedule_dispose(&schedule);
    }
    chi2 = stat_vectors_chi2(&vectors);
    print_message("chi-square of the first five seconds: %.2f\n", chi2);
    if (!SANITIZED)
        assert_true(chi2 < CHI2_6_UPPER_001);
}

struct gaps {
    double *x;
    size_t n;
    double mean;
};

/* Gaps that begin in [from, to); every one of them ends before the schedule does. */
static struct gaps gaps_of(const struct schedule *schedule, int64_t from_ns, int64_t to_ns)
{
    VT_AUTO_FREE int64_t *last = malloc(schedule->nsessions * sizeof *last);
    struct gaps gaps = {calloc(schedule->nsteps, sizeof(double)), 0, 0};

    assert_true(last && gaps.x);
    for (uint32_t i = 0; i < schedule->nsessions; i++)
        last[i] = -1;
    for (size_t i = 0; i < schedule->nsteps; i++) {
        const struct driver_step *step = &schedule->steps[i];
        int64_t begin_ns = last[step->session];

        if (begin_ns >= from_ns && begin_ns < to_ns) {
            gaps.x[gaps.n] = (double)(step->intended_ns - begin_ns) * 1e-9;
            gaps.mean += gaps.x[gaps.n++];
        }
        last[step->session] = step->intended_ns;
    }
    gaps.mean /= (double)gaps.n;
    qsort(gaps.x, gaps.n, sizeof *gaps.x, stat_compare_double);
    return gaps;
}

/* What the plan asks for: expected response, and think time on a share of the steps. */
static double wanted_cdf(double x, const void *arg)
{
    double think = x - (double)EXPECTED_NS * 1e-9;

    (void)arg;
    if (think < 0)
        return 0;
    return think >= 75 ? 1 : 1 - 0.9208 * exp(-think / 5);
}

/* The gap before a session's first step is one between sessions, and so is not among these; it is
 * drawn alike. */
static void check_gaps(const char *what, int64_t rate, const struct schedule *schedule,
                       int64_t from_ns, int64_t to_ns, double mean_off, double distance_max)
{
    struct gaps gaps = gaps_of(schedule, from_ns, to_ns);
    double off = gaps.mean / (0.9208 * 5 + 0.2) - 1;
    double distance = stat_ks(gaps.x, gaps.n, wanted_cdf, NULL) / sqrt((double)gaps.n);

    print_message("gaps, %s at %.3f/s: mean %+.2f %%, largest distance %.3f, p50 %.3f s (3.25), "
                  "p95 %.3f s (14.77), least %.4f s (0.2)\n",
                  what, (double)rate * 1e-6, 100 * off, distance, gaps.x[gaps.n / 2],
                  gaps.x[gaps.n * 95 / 100], gaps.x[0]);
    assert_true(gaps.x[gaps.n / 100] >= 0.2);
    assert_true(fabs(off) < mean_off);
    assert_true(distance < distance_max);
    free(gaps.x);
}

/*
 * Gaps are what this schedule bends: the instant goes to the session due longest, so a gap ends
 * somewhat before or after it was meant to. The mean is kept; the distribution is off by the
 * distances below (largest difference of the two distribution functions). Gaps without think time
 * (8 % of them) make most of that: they have one length in the plan and scatter here. Hardly any is
 * shorter than the expected response.
 */
static void test_gaps(void **state)
{
    (void)state;
    static const struct {
        int64_t rate, length_ns;
        double distance;
    } wanted[] = {
        {9045000, DRAWS / 25 * S, 0.085},
        {180900000, DRAWS / 500 * S, 0.085},
        {4522500000, 300 * S, 0.085}, /* long beside the 90 s left out at the end */
    };

    for (unsigned i = 0; i < VT_COUNT(wanted) - SANITIZED; i++) {
        int64_t rate = wanted[i].rate, length_ns = wanted[i].length_ns;
        struct schedule schedule = draw_flat(rate, length_ns, 11);

        check_gaps("steady", rate, &schedule, 0, length_ns - 90 * S, 0.02, wanted[i].distance);
        schedule_dispose(&schedule);
    }
}

/* A ramp takes its sessions in as the rate grows, so the seconds after it are like all others. */
static void test_gaps_after_ramp(void **state)
{
    (void)state;
    static const struct schedule_segment segments[] = {{.length_ns = 30 * S, .ramp = true},
                                                       {.length_ns = 200 * S}};
    const int64_t rate = SANITIZED ? 904500000 : 4522500000;
    struct schedule schedule = draw(rate, segments, 2, 12);

    check_gaps("last third of the ramp", rate, &schedule, 20 * S, 30 * S, 0.03, 0.085);
    check_gaps("10 s after the ramp", rate, &schedule, 30 * S, 40 * S, 0.03, 0.085);
    schedule_dispose(&schedule);
}

/* The bytes of this seed, found with gcc and clang, x86-64, with and without optimisation. */
static void test_hash(void **state)
{
    (void)state;
    static const struct schedule_segment segments[] = {
        {.length_ns = 5 * S, .ramp = true}, {.length_ns = 5 * S}, {.length_ns = 60 * S}};
    struct schedule one = draw(9045000, segments, 3, 42), two;
    struct vt_error err = VT_ERROR_INIT;
    char hex[65];

    vt_text_hex(one.hash, sizeof one.hash, hex);
    assert_string_equal(hex, HASH_OF_SEED_42);
    two = draw(9045000, segments, 3, 42);
    assert_int_equal(two.nsteps, one.nsteps);
    assert_memory_equal(two.hash, one.hash, sizeof one.hash);
    schedule_dispose(&two);
    two = draw(9045000, segments, 3, 43);
    assert_memory_not_equal(two.hash, one.hash, sizeof one.hash);
    schedule_dispose(&two);
    assert_int_equal(
        schedule_draw(&web_driver, &load, 9045000, segments, 3, 42, "tile-2/web", &two, &err), 0);
    assert_memory_not_equal(two.hash, one.hash, sizeof one.hash);
    schedule_dispose(&two);
    schedule_dispose(&one);
}

static bool plan_nothing(void *session, struct vt_rng *rng, const struct spec_load *l, bool first,
                         bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns)
{
    (void)session, (void)rng, (void)l, (void)first, (void)fresh;
    (void)operation, (void)argument, (void)gap_ns;
    return false;
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct driver nothing = {.name = "nothing", .plan = plan_nothing};
    static const struct schedule_segment day = {.length_ns = 86400 * S}, minus = {.length_ns = -1};
    struct spec_load slow = load;
    struct schedule schedule = {.nsteps = 77};
    struct vt_error err = VT_ERROR_INIT;

    assert_int_equal(
        schedule_draw(&web_driver, &load, 180900000000, &day, 1, 1, "s", &schedule, &err), -E2BIG);
    assert_int_equal(schedule_draw(&web_driver, &load, -1, &day, 1, 1, "s", &schedule, &err),
                     -ERANGE);
    assert_int_equal(schedule_draw(&web_driver, &load, 1, &minus, 1, 1, "s", &schedule, &err),
                     -ERANGE);
    assert_int_equal(schedule_draw(&nothing, &load, 1, &day, 1, 1, "s", &schedule, &err), -EINVAL);
    slow.think_mean_ns = slow.think_max_ns = 86400 * S;
    assert_int_equal(schedule_draw(&web_driver, &slow, 180900000, &day, 1, 1, "s", &schedule, &err),
                     -E2BIG);
    assert_non_null(strstr(err.text, "sessions at once"));
    assert_int_equal(schedule.nsteps, 77); /* written on success only */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_instants),
        cmocka_unit_test(test_dispersion),
        cmocka_unit_test(test_mix_is_exact),
        cmocka_unit_test(test_mix_of_first_pages),
        cmocka_unit_test(test_mix_of_schedule),
        cmocka_unit_test(test_mix_at_the_beginning),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_gaps_after_ramp),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
