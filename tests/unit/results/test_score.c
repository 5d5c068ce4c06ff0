/* SPDX-License-Identifier: Apache-2.0 */
/* Points against the published run and against fractions worked out by hand. */
#include <string.h>

#include "sample.h"

#include "base/scope.h"
#include "results/qos.h"
#include "results/score.h"

#define MILLION 1000000

static const char *points(int64_t value)
{
    static struct vt_buf buf = VT_BUF_INIT(64);

    vt_buf_reset(&buf);
    score_print_points(value, &buf);
    return buf.data;
}

/* Tile 1 of the published run at 26 tiles: app 167.05 of 178.1, web 173.62 of 180.9, mail 127.53 of
 * 139.6; (0.93796 + 0.95976 + 0.91354) / 3 x 100 = 93.71. */
static void test_published_tile(void **state)
{
    const int64_t achieved[] = {167050000, 173620000, 127530000};
    const int64_t divisor[] = {178100000, 180900000, 139600000};
    const int64_t weight[] = {MILLION, MILLION, MILLION};
    int64_t each[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        each[i] = score_closed_role(achieved[i], divisor[i], NULL);
    /* 93.796, 95.976, 91.354 in the source. */
    assert_int_equal((each[0] + SCORE_POINT / 2000) / (SCORE_POINT / 1000), 93796);
    assert_int_equal((each[1] + SCORE_POINT / 2000) / (SCORE_POINT / 1000), 95976);
    assert_int_equal((each[2] + SCORE_POINT / 2000) / (SCORE_POINT / 1000), 91354);
    assert_string_equal(points(score_mean(each, weight, 3)), "93.71");
}

static void test_never_above_100(void **state)
{
    bool clamped = false;

    (void)state;
    assert_int_equal(score_closed_role(200 * MILLION, 100 * MILLION, &clamped), 100 * SCORE_POINT);
    assert_true(clamped);
    assert_int_equal(score_closed_role(100 * MILLION, 100 * MILLION, &clamped), 100 * SCORE_POINT);
    assert_false(clamped);
    assert_int_equal(score_closed_role(5, 0, &clamped), 0);
    assert_int_equal(score_closed_role(0, 5, &clamped), 0);
    assert_int_equal(score_closed_role(INT64_MAX / 2, INT64_MAX, &clamped) / SCORE_POINT, 50);
}

static void add_due(struct score *score, unsigned tile, const char *name, int loop, bool scored,
                    int64_t weight, uint64_t good, uint64_t intended, uint64_t due)
{
    struct vt_record_role role = {
        .tile = tile, .scored = scored, .loop = loop, .divisor = 180900000, .weight = weight};
    struct record_sum *sum = calloc(1, sizeof(*sum));

    assert_non_null(sum);
    vt_text_copy(role.role, sizeof(role.role), name);
    vt_hist_init(&sum->all.response);
    sum->all.good = good;
    sum->all.intended = intended;
    assert_ok(score_add_role(score, &role, sum, 60, due, OK_ERR));
    free(sum);
}

static void add(struct score *score, unsigned tile, const char *name, int loop, bool scored,
                int64_t weight, uint64_t good, uint64_t intended)
{
    add_due(score, tile, name, loop, scored, weight, good, intended, 0);
}

/* A window that was cut short: 100 of 400 due requests were offered, all good: a quarter. */
static void test_window_cut_short(void **state)
{
    struct score score = {0};

    (void)state;
    add_due(&score, 1, "web", VT_RECORD_LOOP_OPEN, true, MILLION, 100, 100, 400);
    assert_ok(score_finish(&score, OK_ERR));
    assert_int_equal(score.total, 25 * SCORE_POINT);
    assert_int_equal(score.roles[0].intended, 400);
    score_dispose(&score);
}

/* 542 requests were due, 519 good: 95.7564575... points, 173.2234317... a second of 180.9. */
static void test_open_loop(void **state)
{
    struct score score = {0};
    struct vt_buf rate = VT_BUF_INIT(64);

    (void)state;
    add(&score, 1, "web", VT_RECORD_LOOP_OPEN, true, MILLION, 519, 542);
    assert_ok(score_finish(&score, OK_ERR));
    assert_int_equal(score.total, 95756457565);
    assert_int_equal(score.loop, VT_RECORD_LOOP_OPEN);
    score_print_rate(score.roles[0].rate, &rate);
    assert_string_equal(rate.data, "173.22");
    assert_int_equal(score.roles[0].p95_ns, QOS_BEYOND);
    vt_buf_dispose(&rate);
    score_dispose(&score);
}

/* Weights 1, 2 and 1; what is not scored does not count; the total is the sum over tiles. */
static void test_tiles(void **state)
{
    struct score score = {0};

    (void)state;
    add(&score, 1, "app", VT_RECORD_LOOP_OPEN, true, MILLION, 1, 2);
    add(&score, 1, "web", VT_RECORD_LOOP_OPEN, true, 2 * MILLION, 9, 10);
    add(&score, 1, "mail", VT_RECORD_LOOP_OPEN, true, MILLION, 1, 1);
    add(&score, 1, "extra", VT_RECORD_LOOP_OPEN, false, MILLION, 0, 7);
    add(&score, 3, "web", VT_RECORD_LOOP_OPEN, true, MILLION, 1, 3);
    assert_ok(score_finish(&score, OK_ERR));
    assert_int_equal(score.ntiles, 2);
    assert_int_equal(score.tiles[0].points, 82500000000); /* (50 + 2 x 90 + 100) / 4 */
    assert_int_equal(score.tiles[1].points, 33333333333);
    assert_int_equal(score.tiles[1].tile, 3);
    assert_int_equal(score.total, 115833333333);
    assert_int_equal(score.worst, 1);
    score_dispose(&score);
}

static void test_closed_loop_and_mixed(void **state)
{
    struct score score = {0};

    (void)state;
    /* 10,417 good in 60 s: 173.6166.../s of 180.9. */
    add(&score, 1, "web", VT_RECORD_LOOP_CLOSED, true, MILLION, 10417, 10500);
    assert_int_equal(score.roles[0].rate, 173616667);
    assert_string_equal(points(score.roles[0].points), "95.97");
    assert_int_equal(score.loop, VT_RECORD_LOOP_CLOSED);
    add(&score, 1, "app", VT_RECORD_LOOP_OPEN, true, MILLION, 1, 2);
    assert_int_equal(score.loop, -1);
    assert_ok(score_finish(&score, OK_ERR));
    score_dispose(&score);
}

static void test_nothing(void **state)
{
    struct score score = {0};

    (void)state;
    add(&score, 1, "web", VT_RECORD_LOOP_OPEN, true, MILLION, 0, 0);
    assert_ok(score_finish(&score, OK_ERR));
    assert_int_equal(score.total, 0);
    assert_int_equal(score.roles[0].p95_ns, -1);
    score_dispose(&score);
}

static void test_rounding(void **state)
{
    (void)state;
    assert_string_equal(points(0), "0.00");
    assert_string_equal(points(SCORE_POINT / 200), "0.01"); /* half goes up */
    assert_string_equal(points(SCORE_POINT / 200 - 1), "0.00");
    assert_string_equal(points(2438 * SCORE_POINT), "2438.00");
    assert_string_equal(points(100 * SCORE_POINT - 1), "100.00");
    /* 9223372036854.775807 */
    assert_int_equal(score_hundredths(INT64_MAX, MILLION), 922337203685478);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_tile), cmocka_unit_test(test_never_above_100),
        cmocka_unit_test(test_open_loop),      cmocka_unit_test(test_window_cut_short),
        cmocka_unit_test(test_tiles),          cmocka_unit_test(test_closed_loop_and_mixed),
        cmocka_unit_test(test_nothing),        cmocka_unit_test(test_rounding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
