/* SPDX-License-Identifier: Apache-2.0 */
/* When jobs and paced operations are due, against counts made by hand and one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/roles/batch/windows.h"
#include "tiles/roles/pace.h"
#include "tiles/roles/storage/streams.h"

#define S VT_NS_PER_S
#define MIN (60 * S)

static const struct role_times standard = {300 * S, 600 * S, 7200 * S};
static const struct role_times smoke = {5 * S, 5 * S, 60 * S};

/* Two hours are eight windows of 15 minutes. */
static void test_windows_of_a_standard_run(void **state)
{
    const struct spec_jobs jobs = {.rate = 20000, .window_ns = 15 * MIN, .late_share = 750000};
    struct windows windows;

    (void)state;
    windows_make(&jobs, &standard, &windows);
    assert_int_equal(windows.begin_ns, 900 * S);
    assert_int_equal(windows.length_ns, 15 * MIN);
    assert_int_equal(windows.count, 8);
    assert_int_equal(windows.jobs, 18);                    /* 0.02/s x 900 s */
    assert_int_equal(windows.late_ns, 900 * S + 90 * MIN); /* three quarters of 120 min */
    assert_int_equal(windows_due(&jobs, &standard, BATCH_COMPRESS, 0, 8100 * S), 8 * 9);
    assert_int_equal(windows_due(&jobs, &standard, BATCH_COMPILE, 0, 8100 * S), 8 * 9);
    assert_int_equal(windows_due(&jobs, &standard, BATCH_COMPILE + 1, 0, 8100 * S), 0);
    /* All of a window stand in its first second. */
    assert_int_equal(windows_due(&jobs, &standard, 0, 0, 900 * S), 0);
    assert_int_equal(windows_due(&jobs, &standard, 0, 900 * S, 901 * S), 9);
    assert_int_equal(windows_due(&jobs, &standard, 0, 901 * S, 1800 * S), 0);
    assert_int_equal(windows_due(&jobs, &standard, 0, 1800 * S, 1801 * S), 9);
}

/* Where a restarted guest goes on: with the first window that it sees from its beginning. */
static void test_windows_begun(void **state)
{
    static const struct {
        int64_t at_ns;
        uint32_t begun;
    } cases[] = {
        {-S, 0},         {0, 0},      {10 * S, 0},     {10 * S + 1, 1}, {25 * S, 1},   {30 * S, 1},
        {30 * S + 1, 2}, {50 * S, 2}, {50 * S + 1, 3}, {70 * S, 3},     {9999 * S, 3},
    };
    const struct spec_jobs jobs = {.rate = 1000000, .window_ns = 20 * S};
    struct windows windows;

    (void)state;
    windows_make(&jobs, &smoke, &windows); /* at 10, 30 and 50 s */
    for (size_t i = 0; i < VT_COUNT(cases); i++)
        assert_int_equal(windows_begun(&windows, cases[i].at_ns), cases[i].begun);
}

static void test_windows_that_do_not_fit(void **state)
{
    static const struct {
        int64_t rate, window_ns;
        uint32_t count, jobs;
        uint64_t compress, compile;
    } cases[] = {
        {1, 15 * MIN, 1, 2, 1, 1},      /* longer than the measure phase: as long as that */
        {50000, 60 * S, 1, 3, 2, 1},    /* 0.05/s x 60 s; compress takes the odd one */
        {100000, 25 * S, 2, 3, 4, 2},   /* 2.5, half up; ten seconds are left over */
        {1000000, 7 * S, 8, 7, 32, 24}, /* 8 windows of 4 and 3 */
        {0, 0, 1, 2, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        const struct spec_jobs jobs = {.rate = cases[i].rate, .window_ns = cases[i].window_ns};
        struct windows windows;

        windows_make(&jobs, &smoke, &windows);
        assert_int_equal(windows.count, cases[i].count);
        assert_int_equal(windows.jobs, cases[i].jobs);
        assert_int_equal(windows_due(&jobs, &smoke, BATCH_COMPRESS, 0, 70 * S), cases[i].compress);
        assert_int_equal(windows_due(&jobs, &smoke, BATCH_COMPILE, 0, 70 * S), cases[i].compile);
    }
}

/* Each interval by looking at every operation's time. */
static void test_pace_counts_what_it_intends(void **state)
{
    static const int64_t rates[] = {1000000, 3000000, 7000000, 333333, 999999937, 1500000};
    static const int64_t cuts_ns[] = {0,          S - 1,     S,         S + 1,        2 * S,
                                      2345678901, 3 * S - 1, 3 * S + 1, 4 * S - 12345};

    (void)state;
    for (size_t r = 0; r < VT_COUNT(rates); r++) {
        const struct pace pace = {rates[r], S, 4 * S};

        for (size_t a = 0; a < VT_COUNT(cuts_ns); a++) {
            for (size_t b = a; b < VT_COUNT(cuts_ns); b++) {
                uint64_t n = 0;
                int64_t at_ns;

                for (uint64_t i = 0; (at_ns = pace_intended_ns(&pace, i)) < 4 * S; i++)
                    n += at_ns >= cuts_ns[a] && at_ns < cuts_ns[b];
                assert_int_equal(pace_due(&pace, cuts_ns[a], cuts_ns[b]), n);
            }
        }
    }
}

static void test_streams_are_whole_accesses_a_second(void **state)
{
    const struct spec_jobs jobs = {.rate = 100000000, .read_share = 700000, .block_bytes = 4096};
    struct stream stream;

    (void)state;
    assert_true(stream_make(&jobs, &smoke, STREAM_READ, &stream));
    assert_int_equal(stream.pace.rate, 70000000);
    assert_int_equal(stream.total, 70 * 65); /* warm and measure */
    assert_int_equal(streams_due(&jobs, &smoke, STREAM_WRITE, 10 * S, 70 * S), 30 * 60);
    assert_int_equal(streams_due(&jobs, &smoke, STREAM_WRITE, 0, 5 * S), 0);
    assert_false(stream_make(&jobs, &smoke, STREAM_SEQUENTIAL, &stream));
    assert_int_equal(streams_due(&jobs, &smoke, STREAM_SEQUENTIAL, 0, 70 * S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_of_a_standard_run),
        cmocka_unit_test(test_windows_begun),
        cmocka_unit_test(test_windows_that_do_not_fit),
        cmocka_unit_test(test_pace_counts_what_it_intends),
        cmocka_unit_test(test_streams_are_whole_accesses_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
