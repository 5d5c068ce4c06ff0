/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles, their intervals and what is made of them. */
#include <string.h>

#include "sample.h"

#include "base/clock.h"
#include "base/scope.h"
#include "results/qos.h"

#define MILLION 1000000
#define MS VT_NS_PER_MS

/* Ranks by exact fractions of binomial sums (Python's fractions and math.comb); those of the median
 * stand in textbooks: n = 6: 1st and 6th, n = 10: 2nd and 9th. */
static void test_interval(void **state)
{
    static const struct {
        uint64_t n;
        int64_t percentile;
        uint64_t low, high;
    } cases[] = {
        {5, 500000, 0, 0},        {6, 500000, 1, 6},       {10, 500000, 2, 9},
        {1000, 500000, 469, 532}, {71, 950000, 63, 0},     {72, 950000, 64, 72},
        {100, 950000, 90, 100},   {542, 950000, 505, 525}, {1000, 950000, 936, 964},
        {367, 990000, 359, 0},    {368, 990000, 360, 368}, {542, 990000, 532, 542},
        {2000, 999000, 1995, 0},  {3687, 999000, 3679, 0}, {3688, 999000, 3680, 3688},
        {3, 50000, 0, 2},         {1, 999999, 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        uint64_t low = 99, high = 99;
        qos_interval(cases[i].n, cases[i].percentile, &low, &high);
        if (low != cases[i].low || high != cases[i].high)
            fail_msg("n %lu, q %ld: %lu and %lu", (unsigned long)cases[i].n,
                     (long)cases[i].percentile, (unsigned long)low, (unsigned long)high);
    }
}

/* For large n the ends come near n q -+ 1.96 sqrt(n q (1 - q)). */
static void test_interval_large(void **state)
{
    uint64_t low = 0, high = 0;

    (void)state;
    qos_interval(10000000, 950000, &low, &high);
    assert_in_range(low, 9500000 - 1351 - 2, 9500000 - 1351 + 2);
    assert_in_range(high, 9500000 + 1351 - 1, 9500000 + 1351 + 3);
}

/* Both ways of counting meet at a variance of 2^20, n = 4 x 2^20 of 50 %: 2^21 -+ 1.96 x 1,024. A
 * record may claim 2^44 requests; that costs no more, and its ends stay within its ranks. */
static void test_interval_huge(void **state)
{
    const uint64_t n = UINT64_C(1) << 44;
    uint64_t low[2] = {0}, high[2] = {0};

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        qos_interval((1U << 22) + 8 * i, 500000, &low[i], &high[i]);
    assert_in_range(low[0], (1U << 21) - 2007 - 2, (1U << 21) - 2007 + 2);
    assert_in_range(low[1], low[0] + 4 - 2, low[0] + 4 + 2);
    assert_in_range(high[1], high[0] + 4 - 2, high[0] + 4 + 2);
    /* sqrt(2^44 x 0.25) = 2^21; 1.96 of them are 4,110,350. */
    qos_interval(n, 500000, &low[0], &high[0]);
    assert_in_range(n / 2 - low[0], 4110340, 4110360);
    assert_in_range(high[0] - n / 2, 4110340, 4110360);
    for (int64_t percentile = 1; percentile < MILLION; percentile += 999998) {
        qos_interval(n, percentile, &low[0], &high[0]);
        assert_true(low[0] > 0 && low[0] < high[0] && high[0] <= n);
    }
}

/* n correct answers of 1..n ms, all good. */
static struct record_sum *make_sum(unsigned n, unsigned wrong, unsigned failed)
{
    struct record_sum *sum = calloc(1, sizeof(*sum));

    assert_non_null(sum);
    vt_hist_init(&sum->all.response);
    for (unsigned i = 1; i <= n; i++)
        vt_hist_record(&sum->all.response, i * MS);
    sum->all.good = n;
    sum->all.wrong = wrong;
    sum->all.failed = failed;
    sum->all.intended = n + wrong + failed;
    return sum;
}

static struct vt_record_role make_role(int64_t percentile, int64_t limit_ns)
{
    struct vt_record_role role = {.tile = 1,
                                  .role = "web",
                                  .driven = true,
                                  .error_share_max = 10000,
                                  .limits = {{percentile, limit_ns}},
                                  .nlimits = 1};
    return role;
}

/* Line of one limit, with the errors' line behind it dropped. */
static struct qos_line judge(unsigned n, unsigned wrong, unsigned failed, int64_t percentile,
                             int64_t limit_ns)
{
    struct vt_record_role role = make_role(percentile, limit_ns);
    struct record_sum *sum = make_sum(n, wrong, failed);
    struct qos_line line;
    struct qos qos = {0};

    assert_ok(qos_add_role(&qos, &role, sum, false, OK_ERR));
    assert_int_equal(qos.nlines, 2);
    line = qos.lines[0];
    qos_dispose(&qos);
    free(sum);
    return line;
}

static void assert_near(int64_t value, int64_t expected)
{
    assert_in_range(value, expected - expected / 256, expected + expected / 256);
}

static void test_pass_and_fail(void **state)
{
    struct qos_line line = judge(1000, 0, 0, 950000, 960 * MS);

    (void)state;
    assert_int_equal(line.state, QOS_PASS);
    assert_near(line.value, 950 * MS);
    assert_near(line.low, 936 * MS);
    assert_near(line.high, 964 * MS);
    line = judge(1000, 0, 0, 950000, 940 * MS);
    assert_int_equal(line.state, QOS_FAIL);
    assert_in_range(line.beyond, 60 - 8, 60 + 8); /* bucket of 940 ms: 7.3 ms wide */
}

/* 1,000 answers of at most 1 s; 60 requests more failed: rank 1,007 of 1,060 is none of the
 * answers, whatever the limit. With 40 the 95th percentile is the 988th answer. */
static void test_failures_are_beyond(void **state)
{
    struct qos_line line = judge(1000, 0, 60, 950000, 3600 * VT_NS_PER_S);

    (void)state;
    assert_int_equal(line.state, QOS_FAIL);
    assert_int_equal(line.value, QOS_BEYOND);
    assert_int_equal(line.beyond, 60);
    line = judge(1000, 40, 0, 950000, 3600 * VT_NS_PER_S);
    assert_int_equal(line.state, QOS_PASS);
    assert_near(line.value, 988 * MS);
}

static void test_too_few(void **state)
{
    (void)state;
    assert_int_equal(judge(71, 0, 0, 950000, 3600 * VT_NS_PER_S).state, QOS_UNDECIDED);
    assert_int_equal(judge(72, 0, 0, 950000, 3600 * VT_NS_PER_S).state, QOS_PASS);
    assert_int_equal(judge(100, 0, 0, 999000, 3600 * VT_NS_PER_S).state, QOS_UNDECIDED);
    assert_int_equal(judge(0, 0, 0, 950000, VT_NS_PER_S).state, QOS_UNDECIDED);
    assert_int_equal(judge(0, 0, 0, 950000, VT_NS_PER_S).value, -1);
    /* Few, but all beyond: that much is known. */
    assert_int_equal(judge(0, 0, 20, 950000, VT_NS_PER_S).state, QOS_FAIL);
    assert_int_equal(judge(50, 0, 0, 950000, MS / 2).state, QOS_FAIL);
}

static void test_errors(void **state)
{
    struct vt_record_role role = make_role(950000, VT_NS_PER_S);
    static const struct {
        unsigned good, wrong, failed;
        enum qos_state state;
        int64_t value;
    } cases[] = {
        {990, 5, 5, QOS_PASS, 10000}, /* exactly 1 % */
        {989, 6, 5, QOS_FAIL, 11000}, {100, 0, 0, QOS_PASS, 0},
        {0, 0, 0, QOS_UNDECIDED, -1}, {0, 0, 3, QOS_FAIL, MILLION},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct record_sum *sum = make_sum(cases[i].good, cases[i].wrong, cases[i].failed);
        struct qos qos = {0};
        assert_ok(qos_add_role(&qos, &role, sum, false, OK_ERR));
        assert_int_equal(qos.lines[1].kind, QOS_ERRORS);
        assert_int_equal(qos.lines[1].state, cases[i].state);
        assert_int_equal(qos.lines[1].value, cases[i].value);
        qos_dispose(&qos);
        free(sum);
    }
}

/* By operation: an operation of the plan that never came up is undecided. */
static void test_by_operation(void **state)
{
    struct vt_record_role role = make_role(950000, VT_NS_PER_S);
    struct record_sum *sum = make_sum(1000, 0, 0);
    struct qos qos = {0};

    (void)state;
    role.noperations = 2;
    for (int i = 0; i < 2; i++) {
        vt_text_copy(role.operations[i].name, VT_RECORD_NAME_MAX, i ? "download" : "home");
        role.operations[i].limits[0] = (struct vt_record_limit){950000, (1 - i) * 940 * MS + MS};
        role.operations[i].nlimits = 1;
    }
    sum->operations = calloc(1, sizeof(*sum->operations));
    assert_non_null(sum->operations);
    sum->operations[0] = sum->all;
    vt_text_copy(sum->operations[0].name, VT_RECORD_NAME_MAX, "home");
    sum->noperations = 1;

    assert_ok(qos_add_role(&qos, &role, sum, false, OK_ERR));
    assert_int_equal(qos.nlines, 2);
    assert_int_equal(qos.state, QOS_PASS);
    qos_dispose(&qos);
    memset(&qos, 0, sizeof(qos));

    assert_ok(qos_add_role(&qos, &role, sum, true, OK_ERR));
    assert_int_equal(qos.nlines, 4);
    assert_string_equal(qos.lines[1].operation, "home");
    assert_int_equal(qos.lines[1].state, QOS_FAIL);
    assert_string_equal(qos.lines[2].operation, "download");
    assert_int_equal(qos.lines[2].state, QOS_UNDECIDED);
    assert_int_equal(qos.state, QOS_FAIL);
    qos_dispose(&qos);
    record_sum_dispose(sum);
    free(sum);
}

/* --- rates --- */

/* One operation, n correct downloads of 1..n bytes a second (below 256 a bucket is one value), and
 * some that failed. */
static void judge_rates(unsigned n, unsigned failed, int64_t limit_95, int64_t limit_99,
                        struct qos *ret)
{
    struct vt_record_role role = {.tile = 1, .role = "web", .noperations = 1};
    struct record_sum *sum = calloc(1, sizeof(*sum));

    assert_non_null(sum);
    sum->has_rates = true;
    sum->operations = calloc(1, sizeof(*sum->operations));
    assert_non_null(sum->operations);
    sum->noperations = 1;
    vt_text_copy(role.operations[0].name, VT_RECORD_NAME_MAX, "download");
    vt_text_copy(sum->operations[0].name, VT_RECORD_NAME_MAX, "download");
    role.operations[0].min_bytes_per_s[0] = limit_95;
    role.operations[0].min_bytes_per_s[1] = limit_99;
    vt_hist_init(&sum->operations[0].response);
    vt_hist_init(&sum->operations[0].rate);
    for (unsigned i = 1; i <= n; i++)
        vt_hist_record(&sum->operations[0].rate, i);
    sum->operations[0].good = n;
    sum->operations[0].failed = failed;
    sum->operations[0].intended = n + failed;
    memset(ret, 0, sizeof(*ret));
    assert_ok(qos_add_role(ret, &role, sum, true, OK_ERR));
    record_sum_dispose(sum);
    free(sum);
}

static struct qos_line judge_rate(unsigned n, unsigned failed, int64_t limit)
{
    struct qos_line line;
    struct qos qos;

    judge_rates(n, failed, limit, 0, &qos);
    assert_int_equal(qos.nlines, 2); /* and the share of errors */
    line = qos.lines[0];
    assert_int_equal(line.kind, QOS_RATE);
    assert_int_equal(line.percentile, 950000);
    qos_dispose(&qos);
    return line;
}

/* Of 100, the 95th from the fastest has 6; its interval goes from the 90th to the 100th. */
static void test_rates(void **state)
{
    struct qos_line line = judge_rate(100, 0, 6);

    (void)state;
    assert_string_equal(line.operation, "download");
    assert_int_equal(line.state, QOS_PASS);
    assert_int_equal(line.value, 6);
    assert_int_equal(line.low, 11);
    assert_int_equal(line.high, 1);
    assert_int_equal(line.n, 100);
    assert_int_equal(line.beyond, 5);
    line = judge_rate(100, 0, 7);
    assert_int_equal(line.state, QOS_FAIL);
    assert_int_equal(line.beyond, 6);
}

/* Those that failed are slower than all others: 5 of 100 may, 6 may not. */
static void test_rates_of_failures(void **state)
{
    struct qos_line line = judge_rate(95, 5, 1);

    (void)state;
    assert_int_equal(line.state, QOS_PASS);
    assert_int_equal(line.value, 1);
    assert_int_equal(line.high, QOS_BEYOND);
    assert_int_equal(line.beyond, 5);
    line = judge_rate(94, 6, 1);
    assert_int_equal(line.state, QOS_FAIL);
    assert_int_equal(line.value, QOS_BEYOND);
}

/* 72 for 95 %, as with times: the 69th of 72 has 4. */
static void test_rates_too_few(void **state)
{
    (void)state;
    assert_int_equal(judge_rate(71, 0, 1).state, QOS_UNDECIDED);
    assert_int_equal(judge_rate(72, 0, 4).state, QOS_PASS);
    assert_int_equal(judge_rate(72, 0, 5).state, QOS_FAIL);
    assert_int_equal(judge_rate(0, 0, 1).state, QOS_UNDECIDED);
    assert_int_equal(judge_rate(0, 0, 1).value, -1);
    assert_int_equal(judge_rate(50, 0, 51).state, QOS_FAIL);
    assert_int_equal(judge_rate(0, 20, 1).state, QOS_FAIL);
}

static void test_two_limits_of_rate(void **state)
{
    struct qos qos;

    (void)state;
    judge_rates(200, 0, 11, 2, &qos); /* 190th: 11; 198th: 3, too few to tell */
    assert_int_equal(qos.nlines, 3);
    assert_int_equal(qos.lines[0].state, QOS_PASS);
    assert_int_equal(qos.lines[1].kind, QOS_RATE);
    assert_int_equal(qos.lines[1].percentile, 990000);
    assert_int_equal(qos.lines[1].value, 3);
    assert_int_equal(qos.lines[1].state, QOS_UNDECIDED);
    assert_int_equal(qos.state, QOS_UNDECIDED);
    qos_dispose(&qos);
}

/* Not where limits stand for the whole role only, nor of a record that had no rates. */
static void test_rates_not_judged(void **state)
{
    struct vt_record_role role = make_role(950000, VT_NS_PER_S);
    struct record_sum *sum = make_sum(100, 0, 0);

    (void)state;
    role.noperations = 1;
    vt_text_copy(role.operations[0].name, VT_RECORD_NAME_MAX, "download");
    role.operations[0].min_bytes_per_s[0] = 99000;
    for (int i = 0; i < 3; i++) {
        struct qos qos = {0};

        sum->has_rates = i > 0;
        assert_ok(qos_add_role(&qos, &role, sum, i != 1, OK_ERR));
        assert_int_equal(qos.nlines, i < 2 ? 2 : 3);
        /* Here it never came up. */
        assert_int_equal(qos.state, i < 2 ? QOS_PASS : QOS_UNDECIDED);
        qos_dispose(&qos);
    }
    free(sum);
}

/* Merged before it is ranked: 1,000 answers of 10 ms in one second and 10 of 2 s in another have
 * p95 10 ms and p99.5 2 s, which no mean of the seconds' percentiles is. */
static void test_merge(void **state)
{
    struct record_sum *sum = calloc(1, sizeof(*sum));
    struct vt_hist *second = malloc(sizeof(*second));

    (void)state;
    assert_true(sum && second);
    vt_hist_init(&sum->all.response);
    vt_hist_init(second);
    for (int i = 0; i < 1000; i++)
        vt_hist_record(&sum->all.response, 10 * MS);
    for (int i = 0; i < 10; i++)
        vt_hist_record(second, 2 * VT_NS_PER_S);
    vt_hist_merge(&sum->all.response, second);
    sum->all.good = 1000;
    sum->all.slow = 10;
    sum->all.intended = 1010;
    assert_near(qos_percentile(&sum->all, 950000), 10 * MS);
    assert_near(qos_percentile(&sum->all, 995000), 2 * VT_NS_PER_S);
    free(second);
    free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_interval_large),
        cmocka_unit_test(test_interval_huge),
        cmocka_unit_test(test_pass_and_fail),
        cmocka_unit_test(test_failures_are_beyond),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_by_operation),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_rates_of_failures),
        cmocka_unit_test(test_rates_too_few),
        cmocka_unit_test(test_two_limits_of_rate),
        cmocka_unit_test(test_rates_not_judged),
        cmocka_unit_test(test_merge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
