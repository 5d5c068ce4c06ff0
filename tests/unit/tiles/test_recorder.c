/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of bodies, from an answer to the second that is delivered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/load/recorder.h"
#include "tiles/load/schedule.h"

#define S VT_NS_PER_S

static const char *const operations[] = {"page", "download"};
static const struct driver driver = {
    .name = "web", .operations = operations, .noperations = VT_COUNT(operations)};

static void test_rate(void **state)
{
    static const struct {
        uint64_t bytes;
        int64_t transfer_ns, rate;
    } cases[] = {
        {99000, S, 99000},
        {1 << 20, 5 * S / 2, 419430}, /* 1,048,576 / 2.5 = 419,430.4 */
        {94999, S - 1, 94999},        /* 94,999.000095 */
        {1, 3 * S, 0},
        {0, S, 0},
        {7, 0, 7000000000}, /* as if it had taken 1 ns */
        {UINT64_MAX, 1, INT64_MAX},
        {UINT64_MAX, INT64_MAX, 2000000000}, /* (2^64 - 1) / (2^63 - 1) ns, a little above 2 */
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++)
        assert_int_equal(recorder_rate(cases[i].bytes, cases[i].transfer_ns), cases[i].rate);
}

struct seen {
    unsigned pages, downloads;
    struct vt_load_second second; /* of downloads */
    uint64_t rates;
    int64_t min, max;
};

static void take(void *ctx, const struct vt_load_second *second)
{
    struct seen *seen = ctx;

    assert_non_null(second->rate);
    if (!strcmp(second->operation, "page")) {
        seen->pages++;
        assert_int_equal(second->rate->count, 0);
        return;
    }
    seen->downloads++;
    seen->second = *second;
    seen->rates = second->rate->count;
    seen->min = second->rate->min;
    seen->max = second->rate->max;
}

static void answer(struct recorder *recorder, size_t step, int64_t response_ns, int64_t transfer_ns,
                   uint64_t bytes, const char *why)
{
    const struct recorder_figures figures = {.response_ns = response_ns,
                                             .service_ns = response_ns / 2 + transfer_ns / 2,
                                             .transfer_ns = transfer_ns,
                                             .bytes = bytes};

    recorder_answer(recorder, step, &figures, why);
}

/* A page, a good download, a slow one, a wrong one, one that failed. The time spent waiting for a
 * connection and for the answer's first byte is part of the response, not of the rate. */
static void deliver(const struct spec_load *load, struct seen *seen)
{
    static const uint16_t operation[] = {0, 1, 1, 1, 1};
    struct driver_step steps[VT_COUNT(operation)] = {0};
    struct schedule schedule = {.steps = steps, .nsteps = VT_COUNT(steps), .nsessions = 1};
    struct recorder recorder;

    for (uint32_t i = 0; i < VT_COUNT(steps); i++)
        steps[i] = (struct driver_step){
            .sequence = i, .operation = operation[i], .intended_ns = i * VT_NS_PER_MS};
    memset(seen, 0, sizeof(*seen));
    assert_int_equal(recorder_init(&recorder, &schedule, &driver, load, NULL), 0);
    for (size_t i = 0; i < VT_COUNT(steps); i++)
        recorder_pick(&recorder, 0);
    answer(&recorder, 0, S, S, 5000, NULL);
    answer(&recorder, 1, 2 * S, S, 99000, NULL);
    answer(&recorder, 2, 9 * S, 4 * S, 400000, NULL);
    answer(&recorder, 3, S, S, 1, "the checksum of the body is wrong");
    recorder_fail(&recorder, 4, "timed out");
    assert_true(recorder_deliver(&recorder, take, seen));
    assert_false(recorder_deliver(&recorder, take, seen));
    assert_int_equal(seen->pages, 1);
    assert_int_equal(seen->downloads, 1);
    assert_int_equal(seen->second.good, 1);
    assert_int_equal(seen->second.slow, 1);
    assert_int_equal(seen->second.wrong, 1);
    assert_int_equal(seen->second.failed, 1);
    recorder_dispose(&recorder);
}

static void test_delivered(void **state)
{
    static struct spec_load load = {.good_limit_ns = 5 * S, .timeout_ns = 20 * S};
    struct seen seen;

    (void)state;
    deliver(&load, &seen);
    assert_int_equal(seen.rates, 0);
    load.noperations = 1;
    vt_text_copy(load.operations[0].name, sizeof(load.operations[0].name), "download");
    deliver(&load, &seen);
    assert_int_equal(seen.rates, 0);
    for (int i = 0; i < 2; i++) {
        load.operations[0].min_bytes_per_s[i] = 95000;
        load.operations[0].min_bytes_per_s[1 - i] = 0;
        deliver(&load, &seen);
        assert_int_equal(seen.rates, 2);
        assert_int_equal(seen.min, 99000);
        assert_int_equal(seen.max, 100000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_delivered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
