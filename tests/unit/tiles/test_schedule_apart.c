/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule of requests that do not wait for each other, and its parts: exact counts, the times of
 * the schedule with sessions, the same bytes with every compiler, parts that are the whole. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/load/get.h"
#include "tiles/load/schedule.h"
#include "tiles/roles/registry.h"

#define S VT_NS_PER_S
#define HASH_OF_SEED_42 "a0db3537ac889090337e4e9be586db18064c6e84f0c5beb93b2808834e3abd27"

static const struct schedule_segment segments[] = {
    {.length_ns = 5 * S, .ramp = true}, {.length_ns = 5 * S}, {.length_ns = 60 * S}};

static struct schedule draw(int64_t rate, const struct schedule_segment *of, unsigned n,
                            uint64_t seed)
{
    struct schedule schedule;
    struct vt_error err = VT_ERROR_INIT;

    if (schedule_draw_apart(&get_http, rate, of, n, seed, "load", &schedule, &err) < 0)
        fail_msg("%s", err.text);
    return schedule;
}

/* Counts by hand: 9.045 x 5 / 2 = 22.6, 9.045 x 5 = 45.2, 9.045 x 60 = 542.7. */
static void test_counts(void **state)
{
    (void)state;
    static const size_t want[] = {23, 45, 543};
    struct schedule schedule = draw(9045000, segments, VT_COUNT(segments), 1);
    size_t n[3] = {0};

    assert_int_equal(schedule.nsteps, 23 + 45 + 543);
    assert_int_equal(schedule.nsessions, schedule.nsteps);
    for (size_t i = 0; i < schedule.nsteps; i++) {
        const struct driver_step *step = &schedule.steps[i];

        assert_in_range(step->intended_ns, i > 0 ? step[-1].intended_ns : 0, 70 * S - 1);
        assert_int_equal(step->sequence, i);
        assert_int_equal(step->session, i);
        assert_int_equal(step->operation, 0);
        assert_int_equal(step->argument, 0);
        n[step->intended_ns < 5 * S ? 0 : step->intended_ns < 10 * S ? 1 : 2]++;
    }
    assert_memory_equal(n, want, sizeof n);
    schedule_dispose(&schedule);
}

/* They are due when the steps of sessions would be: the law of those times is tested there. */
static void test_times(void **state)
{
    (void)state;
    static const struct spec_load load = {.think_mean_ns = 5 * S,
                                          .think_max_ns = 75 * S,
                                          .think_share = 920800,
                                          .expected_ns = S / 5};
    struct schedule apart = draw(180900000, segments, VT_COUNT(segments), 7), walked;

    assert_int_equal(schedule_draw(&web_driver, &load, 180900000, segments, VT_COUNT(segments), 7,
                                   "load", &walked, NULL),
                     0);
    assert_int_equal(apart.nsteps, walked.nsteps);
    for (size_t i = 0; i < apart.nsteps; i++)
        assert_int_equal(apart.steps[i].intended_ns, walked.steps[i].intended_ns);
    schedule_dispose(&apart);
    schedule_dispose(&walked);
}

/* The bytes of this seed, found with gcc and clang, x86-64, with and without optimisation. */
static void test_hash(void **state)
{
    (void)state;
    struct schedule schedule = draw(9045000, segments, VT_COUNT(segments), 42);
    char hex[65];

    vt_text_hex(schedule.hash, sizeof schedule.hash, hex);
    assert_string_equal(hex, HASH_OF_SEED_42);
    schedule_dispose(&schedule);
}

static void check_parts(const struct schedule *whole, uint32_t n)
{
    size_t total = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct schedule part;

        assert_int_equal(schedule_part(whole, i, n, &part, NULL), 0);
        /* No part has two steps more than another. */
        assert_in_range(part.nsteps, whole->nsteps / n, (whole->nsteps + n - 1) / n);
        assert_int_equal(part.nsessions, part.nsteps);
        for (size_t k = 0; k < part.nsteps; k++) {
            struct driver_step want = whole->steps[k * n + i];

            want.sequence = want.session = (uint32_t)k;
            assert_int_equal(part.steps[k].intended_ns, want.intended_ns);
            assert_int_equal(part.steps[k].sequence, want.sequence);
            assert_int_equal(part.steps[k].session, want.session);
            assert_int_equal(part.steps[k].operation, want.operation);
        }
        total += part.nsteps;
        schedule_dispose(&part);
    }
    assert_int_equal(total, whole->nsteps);
}

static void test_parts(void **state)
{
    (void)state;
    struct schedule schedule = draw(9045000, segments, VT_COUNT(segments), 3);

    for (uint32_t n = 1; n <= 64; n++)
        check_parts(&schedule, n);
    schedule_dispose(&schedule);
    schedule =
        draw(3000000, &(struct schedule_segment){.length_ns = S}, 1, 3); /* fewer than parts */
    assert_int_equal(schedule.nsteps, 3);
    check_parts(&schedule, 8);
    schedule_dispose(&schedule);
    schedule = draw(0, segments, VT_COUNT(segments), 3);
    check_parts(&schedule, 2);
    schedule_dispose(&schedule);
}

static void test_limits(void **state)
{
    (void)state;
    struct schedule schedule;
    struct vt_error err = VT_ERROR_INIT;
    const struct schedule_segment hour = {.length_ns = 3600 * S};

    assert_int_equal(schedule_draw_apart(&get_http, INT64_C(1000000) * 1000000, &hour, 1, 1, "load",
                                         &schedule, &err),
                     -E2BIG);
    assert_int_equal(err.kind, VT_KIND_CONFIG);
    assert_non_null(strstr(err.text, "lower the rate or the length"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts), cmocka_unit_test(test_times),  cmocka_unit_test(test_hash),
        cmocka_unit_test(test_parts),  cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests_name("schedule_apart", tests, NULL, NULL);
}
