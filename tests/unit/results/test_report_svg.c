/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates against values worked out by hand: bin i stands at x = 2 i + 1, the top is 0, the
 * bottom 200. */
#include <math.h>
#include <string.h>

#include "sample.h"

#include "base/scope.h"
#include "results/report/svg.h"

static const struct svg_scale to_100 = {.min = 0, .max = 100};

static void assert_path(const float *values, size_t n, const struct svg_scale *scale, size_t join,
                        const char *expected)
{
    struct vt_buf out = VT_BUF_INIT(4096);

    svg_path(&out, values, n, scale, join);
    assert_string_equal(out.data ? out.data : "", expected);
    vt_buf_dispose(&out);
}

/* A quarter of the way up is y = 150. */
static void test_linear_y(void **state)
{
    (void)state;
    assert_int_equal(svg_y(&to_100, 0), 200);
    assert_int_equal(svg_y(&to_100, 25), 150);
    assert_int_equal(svg_y(&to_100, 100), 0);
    assert_int_equal(svg_y(&to_100, 1e9), 0);
    assert_int_equal(svg_y(&to_100, (double)INFINITY), 0);
    assert_int_equal(svg_y(&to_100, -5), 200);
    /* 0.2 of 100 is 0.4 units: the nearest whole one is the bottom; 0.3 rounds up by one. */
    assert_int_equal(svg_y(&to_100, 0.2), 200);
    assert_int_equal(svg_y(&to_100, 0.3), 199);
}

/* Two decades: each is 100 units; the square root of ten is half a decade. */
static void test_log_y(void **state)
{
    const struct svg_scale scale = svg_decades(0.010, 0.9);

    (void)state;
    assert_true(scale.log);
    assert_true(fabs(scale.min - 0.01) < 1e-12 && fabs(scale.max - 1) < 1e-12);
    assert_int_equal(svg_y(&scale, 0.01), 200);
    assert_int_equal(svg_y(&scale, 0.1), 100);
    assert_int_equal(svg_y(&scale, 0.1 * sqrt(10)), 50);
    assert_int_equal(svg_y(&scale, 1), 0);
}

static void test_decades(void **state)
{
    struct svg_scale scale = svg_decades(0.0042, 3.1);

    (void)state;
    assert_true(fabs(scale.min - 0.001) < 1e-12 && fabs(scale.max - 10) < 1e-9);
    scale = svg_decades(0, 0);
    assert_true(scale.max > scale.min && scale.min > 0);
    scale = svg_decades(1, (double)INFINITY);
    assert_true(isfinite(scale.max) && scale.max > scale.min);
}

static void test_round_tops(void **state)
{
    (void)state;
    assert_true(svg_linear(9.3, SVG_PER_SECOND).max == 10);
    assert_true(svg_linear(11, SVG_PER_SECOND).max == 20);
    assert_true(svg_linear(20, SVG_PER_SECOND).max == 20);
    assert_true(svg_linear(0.043, SVG_CPUS).max > 0.0499 &&
                svg_linear(0.043, SVG_CPUS).max < 0.0501);
    assert_true(svg_linear(1025, SVG_BYTES).max == 2048);
    assert_true(svg_linear(0, SVG_PER_SECOND).max == 1);
    assert_true(svg_linear((double)NAN, SVG_PER_SECOND).max == 1);
    assert_true(svg_linear((double)INFINITY, SVG_PER_SECOND).max == 1);
    /* A share of an interval of 1.004 s. */
    assert_true(svg_linear(1.004, SVG_SHARE).max == 1);
    assert_true(svg_linear(3.2, SVG_SHARE).max == 5);
}

/* 0, 50 and 25 of 100: y = 200, 100, 150; moves are relative. */
static void test_path(void **state)
{
    static const float values[] = {0, 50, 25};

    (void)state;
    assert_path(values, 3, &to_100, 0, "M1 200l2 -100 2 50");
}

static void test_gap_breaks(void **state)
{
    static const float values[] = {0, 50, NAN, NAN, 25, 75};

    (void)state;
    assert_path(values, 6, &to_100, 0, "M1 200l2 -100M9 150l2 -100");
    assert_path(values, 6, &to_100, 1, "M1 200l2 -100M9 150l2 -100");
    /* Two missing ones are allowed for: from x = 3 to x = 9. */
    assert_path(values, 6, &to_100, 2, "M1 200l2 -100 6 50 2 -100");
}

static void test_lone_point(void **state)
{
    static const float values[] = {NAN, 50, NAN};

    (void)state;
    assert_path(values, 3, &to_100, 0, "M3 100h0");
    assert_path(values, 1, &to_100, 0, "");
    assert_path(values, 0, &to_100, 0, "");
}

/* Levels keep their ends only: five points at 50, then one at 100. */
static void test_level(void **state)
{
    static const float values[] = {50, 50, 50, 50, 50, 100};

    (void)state;
    assert_path(values, 5, &to_100, 0, "M1 100l8 0");
    assert_path(values, 6, &to_100, 0, "M1 100l8 0 2 -100");
}

/* Failed requests have no time: above all others. */
static void test_infinite(void **state)
{
    static const float values[] = {50, INFINITY};

    (void)state;
    assert_path(values, 2, &to_100, 0, "M1 100l2 -100");
}

static void test_chart(void **state)
{
    static const float values[] = {10, 20, 30, 40};
    static const struct svg_phase phases[] = {{"ramp", -1, 4}, {"measure", 4, 8}};
    static const struct svg_mark marks[] = {{6, 2}};
    const struct samples_axis axis = {.end_s = 8, .bin_s = 2, .bins = 4, .from_s = 4, .to_s = 8};
    struct svg_chart chart = {.title = "a <title>",
                              .axis = &axis,
                              .scale = to_100,
                              .unit = SVG_PER_SECOND,
                              .phases = phases,
                              .nphases = 2,
                              .marks = marks,
                              .nmarks = 1};
    struct vt_buf out = VT_BUF_INIT(1 << 16);

    (void)state;
    chart.lines[chart.nlines++] = (struct svg_line){.label = "one & only", .values = values};
    chart.limits[chart.nlimits++] = (struct svg_limit){"limit", 75};
    svg_chart_write(&out, &chart);
    assert_false(out.failed);
    assert_non_null(strstr(out.data, "viewBox=\"0 0 8 200\""));
    assert_non_null(strstr(out.data, "<path class=\"l0\" d=\"M1 180l2 -20 2 -20 2 -20\"/>"));
    assert_non_null(strstr(out.data, "<path class=\"lim\" d=\"M0 50h8\"/>"));
    /* The window is the second half: x = 4 to 8; the error at second 6 of 8 stands at 6. */
    assert_non_null(strstr(out.data, "<rect class=\"win\" x=\"4.0\" y=\"0\" width=\"4.0\""));
    assert_non_null(strstr(out.data, "<path class=\"ev2\" d=\"M6.0 0v200\"/>"));
    assert_non_null(strstr(out.data, "left:50.0%;width:50.0%\">measure<"));
    assert_non_null(strstr(out.data, "a &lt;title&gt;"));
    assert_non_null(strstr(out.data, "one &amp; only"));
    vt_buf_dispose(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_y),   cmocka_unit_test(test_log_y),
        cmocka_unit_test(test_decades),    cmocka_unit_test(test_round_tops),
        cmocka_unit_test(test_path),       cmocka_unit_test(test_gap_breaks),
        cmocka_unit_test(test_lone_point), cmocka_unit_test(test_level),
        cmocka_unit_test(test_infinite),   cmocka_unit_test(test_chart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
