/* SPDX-License-Identifier: Apache-2.0 */
/* What `vtile load` prints: percentiles against a sorted list, failed requests behind all others,
 * percentiles that the sample cannot support, when the generator is not believed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/scope.h"
#include "orchestrator/load/print.h"
#include "results/qos.h"

#define REQUESTS_MAX 20000

static struct load_options options;
static struct load_result result;
static int64_t sorted[REQUESTS_MAX]; /* of the right ones, then INT64_MAX */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Exponential times of 10 ms, as they come from a queue. */
static void fill(size_t n, size_t wrong, size_t failed)
{
    struct vt_rng rng;

    options = (struct load_options){.rate = 100000000,
                                    .connections = 16,
                                    .threads = 2,
                                    .duration_ns = 10 * VT_NS_PER_S,
                                    .warm_up_ns = VT_NS_PER_S,
                                    .timeout_ns = 10 * VT_NS_PER_S,
                                    .wake_lag_max_ns = 10 * VT_NS_PER_MS,
                                    .seed = 7};
    assert_int_equal(load_url_parse("http://h:81/x", &options.url, NULL), 0);
    vt_text_copy(options.url.target.address, sizeof options.url.target.address, "192.0.2.7");
    result = (struct load_result){.seconds = 10, .lasted_ns = 11 * VT_NS_PER_S};
    load_tally_init(&result.tally);
    assert_true(n <= REQUESTS_MAX);
    vt_rng_seed(&rng, 1, "print", n);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = INT64_MAX;
        vt_hist_record(&result.tally.wake_lag, 1000);
        if (i < wrong + failed)
            continue;
        sorted[i] = vt_rng_exp_ns(&rng, 10 * VT_NS_PER_MS);
        vt_hist_record(&result.tally.response, sorted[i]);
        vt_hist_record(&result.tally.service, sorted[i] / 2);
    }
    qsort(sorted, n, sizeof *sorted, compare);
    result.tally.intended = n;
    result.tally.wrong = wrong;
    result.tally.failed = failed;
    result.tally.good = n - wrong - failed;
    result.totals.intended = n + n / 10;
    result.totals.good = result.totals.right_in_window = result.tally.good;
}

static json_t *printed(void)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 16);
    struct vt_error err = VT_ERROR_INIT;
    json_t *json;

    load_print_json(&options, &result, &out);
    assert_int_equal(vt_buf_check(&out, "print", NULL), 0);
    if (vt_json_read(out.data, out.len, "print", VT_KIND_REFUSED, &json, &err) < 0)
        fail_msg("%s", err.text);
    return json;
}

/* One value or end against the list; the histogram is within 1/256 of it. */
static void check_rank(const json_t *point, const char *key, size_t rank, int64_t share_of)
{
    const json_t *value = json_object_get(point, key);
    int64_t want = rank > 0 ? sorted[rank - 1] : INT64_MAX;

    if (want == INT64_MAX) {
        assert_true(!value || json_is_null(value));
        return;
    }
    assert_true(json_is_integer(value));
    want /= share_of;
    assert_true(fabs((double)json_integer_value(value) - (double)want) <= (double)want / 256 + 1);
}

static void check_points(const json_t *json, const char *key, int64_t share_of, size_t n)
{
    static const double want[] = {50, 75, 90, 95, 99, 99.9, 100};
    const json_t *points = json_object_get(json, key), *point;
    size_t i;

    assert_int_equal(json_array_size(points), VT_COUNT(want));
    json_array_foreach(points, i, point) {
        uint64_t low = 0, high = 0;
        size_t rank = (size_t)ceil(want[i] * (double)n / 100 - 1e-9);

        assert_true(json_number_value(json_object_get(point, "percentile")) == want[i]);
        check_rank(point, "ns", rank, share_of);
        if (want[i] == 100)
            continue;
        qos_interval(n, llround(want[i] * 10000), &low, &high);
        assert_int_equal(json_is_true(json_object_get(point, "supported")), low > 0 && high > 0);
        check_rank(point, "low_ns", low, share_of);
        check_rank(point, "high_ns", high, share_of);
    }
}

static void test_percentiles(void **state)
{
    (void)state;
    static const struct {
        size_t n, wrong, failed;
    } cases[] = {{1, 0, 0},      {2, 0, 0},     {5, 0, 0},       {10, 0, 0},     {999, 0, 0},
                 {1000, 0, 0},   {1000, 1, 0},  {1000, 0, 10},   {1000, 5, 6},   {1000, 250, 251},
                 {20000, 0, 20}, {20000, 0, 0}, {1000, 1000, 0}, {1000, 0, 1000}};

    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        fill(cases[i].n, cases[i].wrong, cases[i].failed);
        json_t *json = printed();
        check_points(json, "response", 1, cases[i].n);
        check_points(json, "service", 2, cases[i].n);
        assert_int_equal(json_integer_value(json_object_get(json, "intended")), cases[i].n);
        json_decref(json);
    }
}

static void fill_text(struct vt_buf *out)
{
    vt_buf_reset(out);
    load_print_text(&options, &result, out);
    assert_int_equal(vt_buf_check(out, "print", NULL), 0);
}

static bool says(const struct vt_buf *out, const char *words)
{
    return strstr(out->data, words) != NULL;
}

static void test_text(void **state)
{
    (void)state;
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 16);

    fill(1000, 1, 2);
    fill_text(&out);
    assert_true(says(&out, "http://h:81/x at 192.0.2.7\n"));
    assert_true(says(&out, "open loop, 100 requests a second, seed 7; 16 connections, 2 threads"));
    assert_true(says(&out, "1000 intended: 997 right, 1 wrong, 2 failed\n"));
    assert_true(says(&out, "offered 100.0/s, right 90.6/s\n")); /* 997 in 11 s */
    assert_true(says(&out, "slowest      failed "));
    assert_true(says(&out, "99.9 %           -  (too few requests)\n"));
    assert_false(says(&out, "hidden") || says(&out, "INVALID") || says(&out, "interrupted"));
    options.closed = true;
    fill_text(&out);
    assert_true(says(&out, "closed loop, think time 0 s; "));
    assert_true(says(&out, "service ms  95 % interval (stalls are hidden"));
    assert_false(says(&out, "offered") || says(&out, "response") || says(&out, "wake lag"));
    fill(5, 0, 0);
    fill_text(&out);
    assert_true(says(&out, "   75 %           -  (too few requests)\n"));
    assert_true(says(&out, "   99 %           -  (too few requests)\n"));
}

static void check_judged(int code, const char *why)
{
    json_t *json = printed();
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 16);

    fill_text(&out);
    assert_int_equal(load_exit_code(&options, &result), code);
    assert_int_equal(json_is_true(json_object_get(json, "valid")), !why);
    assert_int_equal(says(&out, "INVALID"), why != NULL);
    if (why) {
        assert_non_null(strstr(json_string_value(json_object_get(json, "why")), why));
        assert_true(says(&out, why));
    }
    json_decref(json);
}

static void test_judged(void **state)
{
    (void)state;
    fill(1000, 0, 0);
    check_judged(0, NULL);
    fill(1000, 1, 0);
    check_judged(1, NULL);
    fill(1000, 0, 1);
    check_judged(1, NULL);
    fill(1000, 1, 1);
    for (unsigned i = 0; i < 11; i++) /* 1.1 % are late */
        vt_hist_record(&result.tally.wake_lag, 20 * VT_NS_PER_MS);
    check_judged(3, "the generator was late");
    options.closed = true; /* it has no times to be late for */
    check_judged(1, NULL);
    fill(1000, 0, 0);
    result.totals.early = 1;
    check_judged(3, "1 requests were sent before their time");
    fill(0, 0, 0);
    check_judged(3, "nothing was asked");
    fill(0, 0, 0);
    result.seconds = 0;
    check_judged(3, "no whole second was measured");
    fill(1000, 1, 1);
    result.interrupted = true;
    check_judged(130, NULL);
}

/* What the kernel does not tell is not made up. */
static void test_run_delay(void **state)
{
    (void)state;
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 16);
    json_t *json;

    fill(1000, 0, 0);
    result.run_delay_ns = 1500 * VT_NS_PER_MS;
    json = printed();
    assert_int_equal(json_integer_value(json_object_get(json, "run_delay_ns")), 1500000000);
    json_decref(json);
    fill_text(&out);
    assert_true(says(&out, "1.50 s without a CPU"));
    result.run_delay_ns = -1;
    json = printed();
    assert_true(json_is_null(json_object_get(json, "run_delay_ns")));
    json_decref(json);
    fill_text(&out);
    assert_false(says(&out, "without a CPU"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_judged),
        cmocka_unit_test(test_run_delay),
    };

    return cmocka_run_group_tests_name("load_print", tests, NULL, NULL);
}
