/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded schedule: read as it was written, drawn as it was read, and what is none is refused
 * where it stands. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/load/schedule.h"
#include "tiles/load/schedule_replay.h"
#include "tiles/roles/registry.h"

#define S VT_NS_PER_S

static char path[64];

static int make_path(void **state)
{
    int fd;

    (void)state;
    snprintf(path, sizeof path, "/tmp/vtile-replay-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_file(const void *data, size_t len)
{
    assert_int_equal(vt_file_write(path, data, len, 0600, NULL), 0);
}

/* The caller's. */
static int64_t *read_good(const void *data, size_t len, size_t *ret_n)
{
    struct vt_error err = VT_ERROR_INIT;
    int64_t *times = NULL;
    char text[1024];

    write_file(data, len);
    if (schedule_replay_read(path, &times, ret_n, &err) < 0)
        fail_msg("%s", vt_error_print(&err, text, sizeof text));
    return times;
}

static void test_forms(void **state)
{
    static const char text[] = "0\n0.0\n7\n7\n0.000000008\n0.1\n100000000\n1.5\n01.500000001\n"
                               "2000000000\n999999.999999999\n999999999999999";
    static const int64_t want[] = {0,
                                   0,
                                   7,
                                   7,
                                   8,
                                   100000000,
                                   100000000,
                                   1500000000,
                                   1500000001,
                                   2000000000,
                                   999999999999999,
                                   999999999999999};
    size_t n = 0;
    VT_AUTO_FREE int64_t *times = read_good(text, sizeof text - 1, &n);

    (void)state;
    assert_int_equal(n, VT_COUNT(want));
    assert_memory_equal(times, want, sizeof want);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len; /* 0: up to the NUL */
        int line, column;
        const char *why;
    } bad[] = {
        {"", 0, 1, 1, "expected at least one time"},
        {"\n", 0, 1, 1, "expected a time: nanoseconds, or seconds with a point"},
        {"1\n\n2\n", 0, 2, 1, "expected a time"},
        {"1\n-2\n", 0, 2, 1, "expected a time"},
        {"+1\n", 0, 1, 1, "expected a time"},
        {" 1\n", 0, 1, 1, "expected a time"},
        {".5\n", 0, 1, 1, "expected a time"},
        {"# times\n", 0, 1, 1, "expected a time"},
        {"1 \n", 0, 1, 2, "expected a digit, a point or the line's end"},
        {"1\r\n", 0, 1, 2, "expected a digit"},
        {"1s\n", 0, 1, 2, "expected a digit"},
        {"1e9\n", 0, 1, 2, "expected a digit"},
        {"0x1\n", 0, 1, 2, "expected a digit"},
        {"1\n2\0\n", 5, 2, 2, "expected a digit"},
        {"1.\n", 0, 1, 3, "expected a digit behind the point"},
        {"1.", 0, 1, 3, "expected a digit behind the point"},
        {"1.5.\n", 0, 1, 4, "expected a digit, a point"},
        {"1.0000000000\n", 0, 1, 12, "expected at most nine decimals"},
        {"00000000000000001\n", 0, 1, 17, "expected at most 16 digits"},
        {"5\n1000000000000000\n", 0, 2, 1, "expected a time below 1000000 s"},
        {"1000000.0\n", 0, 1, 1, "expected a time below 1000000 s"},
        {"9999999999999999.0\n", 0, 1, 1, "expected a time below 1000000 s"},
        {"1\n3\n2\n", 0, 3, 1, "earlier than the line before"},
        {"1.5\n1499999999\n", 0, 2, 1, "earlier than the line before"},
    };

    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        struct vt_error err = VT_ERROR_INIT;
        int64_t *times = NULL;
        size_t n = 77;

        write_file(bad[i].text, bad[i].len ? bad[i].len : strlen(bad[i].text));
        if (schedule_replay_read(path, &times, &n, &err) == 0)
            fail_msg("taken: %s", bad[i].text);
        if (strcmp(err.file, path) != 0 || err.line != bad[i].line || err.column != bad[i].column ||
            !strstr(err.text, bad[i].why))
            fail_msg("case %zu: %s:%d:%d: %s", i, err.file, err.line, err.column, err.text);
        assert_int_equal(vt_error_exit_code(&err), 2);
        assert_null(times);
        assert_int_equal(n, 77);
    }
}

static void test_not_a_file(void **state)
{
    (void)state;
    struct vt_error err = VT_ERROR_INIT;
    int64_t *times = NULL;
    size_t n;

    assert_int_equal(unlink(path), 0);
    assert_int_equal(schedule_replay_read(path, &times, &n, &err), -ENOENT);
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(schedule_replay_read(path, &times, &n, &err), -EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
}

/* One line more than any schedule can have. */
static void test_too_many(void **state)
{
    (void)state;
    struct vt_error err = VT_ERROR_INIT;
    size_t len = 2 * ((size_t)SCHEDULE_STEPS_MAX + 1), n = 0;
    VT_AUTO_FREE char *text = malloc(len);
    int64_t *times = NULL;

    assert_non_null(text);
    for (size_t i = 0; i < len; i += 2)
        memcpy(text + i, "0\n", 2);
    write_file(text, len - 2);
    assert_int_equal(schedule_replay_read(path, &times, &n, &err), 0);
    assert_int_equal(n, SCHEDULE_STEPS_MAX);
    free(times);
    write_file(text, len);
    assert_int_equal(schedule_replay_read(path, &times, &n, &err), -EINVAL);
    assert_int_equal(err.line, SCHEDULE_STEPS_MAX + 1);
    assert_non_null(strstr(err.text, "at most 16777216 times"));
}

/* --- as a schedule --- */

static const struct spec_load load = {
    .rate = 180900000,
    .think_mean_ns = 5 * S,
    .think_max_ns = 75 * S,
    .think_share = 920800,
    .expected_ns = 200 * VT_NS_PER_MS,
};

static int draw(const struct shape *shape, int64_t rate, int64_t length_ns, uint64_t seed,
                struct schedule *ret, struct vt_error *err)
{
    const struct schedule_segment segments[] = {{.length_ns = 2 * S},
                                                {.length_ns = length_ns, .shape = shape}};

    return schedule_draw(&web_driver, &load, rate, segments, VT_COUNT(segments), seed, "tile-1/web",
                         ret, err);
}

/* The instants of a drawn schedule, written to a file in both forms in turn, read and replayed:
 * the same instants, whatever the seed of the sessions. */
static void test_replay_is_exact(void **state)
{
    (void)state;
    struct shape swing, replay = {.kind = SHAPE_REPLAY};
    struct schedule drawn, replayed;
    struct vt_error err = VT_ERROR_INIT;
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 20);
    VT_AUTO_FREE int64_t *times = NULL;
    size_t first = 362; /* 180.9 x 2 = 361.8 come before */
    int64_t rate;

    assert_int_equal(shape_parse("swing:16,7s", &swing, NULL, &err), 0);
    assert_int_equal(draw(&swing, 180900000, 30 * S, 1, &drawn, &err), 0);
    for (size_t i = first; i < drawn.nsteps; i++) {
        long long ns = drawn.steps[i].intended_ns - 2 * S;

        if (i % 2)
            vt_buf_printf(&text, "%lld\n", ns);
        else
            vt_buf_printf(&text, "%lld.%09lld\n", ns / S, ns % S);
    }
    times = read_good(text.data, text.len, &replay.nreplayed);
    replay.replayed_ns = times;
    assert_int_equal(replay.nreplayed, 5427); /* 180.9 x 30 */
    rate = shape_rate_of(5427, 30 * S);
    assert_int_equal(rate, 180900000);
    assert_int_equal(draw(&replay, rate, 30 * S, 99, &replayed, &err), 0);
    assert_int_equal(replayed.nsteps, drawn.nsteps);
    for (size_t i = first; i < drawn.nsteps; i++)
        assert_true(replayed.steps[i].intended_ns == drawn.steps[i].intended_ns);
    assert_true(replayed.steps[first - 1].intended_ns != drawn.steps[first - 1].intended_ns);
    schedule_dispose(&replayed);
    schedule_dispose(&drawn);
}

static void test_replay_must_fit(void **state)
{
    (void)state;
    static const int64_t times[] = {0, 5, S - 1}, back[] = {0, 5, 4}, early[] = {-1, 5, 6};
    struct shape replay = {.kind = SHAPE_REPLAY, .replayed_ns = times, .nreplayed = 3};
    struct vt_error err = VT_ERROR_INIT;
    struct schedule schedule;

    assert_int_equal(draw(&replay, 3000000, S, 1, &schedule, &err), 0);
    assert_int_equal(schedule.nsteps, 6 + 3);
    assert_int_equal(schedule.steps[8].intended_ns, 3 * S - 1);
    schedule_dispose(&schedule);
    assert_int_equal(draw(&replay, 4000000, S, 1, &schedule, &err), -EINVAL);
    assert_string_equal(err.text, "schedule of web: the recorded schedule has 3 times, rate and "
                                  "length want 4");
    assert_int_equal(draw(&replay, 3000000, S - 1, 1, &schedule, &err), -ERANGE);
    assert_non_null(strstr(err.text, "time 3 of the recorded schedule, 999999999 ns, is not "
                                     "within the length"));
    replay.replayed_ns = back;
    assert_int_equal(draw(&replay, 3000000, S, 1, &schedule, &err), -ERANGE);
    replay.replayed_ns = early;
    assert_int_equal(draw(&replay, 3000000, S, 1, &schedule, &err), -ERANGE);
}

/* round(rate x length) is the count again, whatever both are. */
static void test_rate_of(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 999, S, 7 * S + 1, 7200 * S, SHAPE_LENGTH_MAX_NS};
    static const uint64_t counts[] = {0, 1, 2, 999, 1000003, SCHEDULE_STEPS_MAX};

    for (size_t l = 0; l < VT_COUNT(lengths); l++) {
        for (size_t c = 0; c < VT_COUNT(counts); c++) {
            int64_t rate = shape_rate_of(counts[c], lengths[l]);
            unsigned __int128 product = (unsigned __int128)rate;

            assert_true(rate >= 0);
            if (rate == INT64_MAX) { /* above 9 a nanosecond */
                assert_true(counts[c] > 9000 * (uint64_t)lengths[l] / 1000);
                continue;
            }
            product = product * (uint64_t)lengths[l] + UINT64_C(500000000000000);
            assert_int_equal((uint64_t)(product / UINT64_C(1000000000000000)), counts[c]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_many),        cmocka_unit_test(test_replay_is_exact),
        cmocka_unit_test(test_replay_must_fit), cmocka_unit_test(test_rate_of),
        cmocka_unit_test(test_not_a_file),
    };

    return cmocka_run_group_tests_name("schedule_replay", tests, make_path, remove_path);
}
