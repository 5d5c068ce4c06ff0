/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"

/* Expected texts: date -u -d @SECONDS +%FT%TZ */
static void wall_times_are_iso_8601(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } table[] = {
        {0, "1970-01-01T00:00:00Z"},
        {INT64_C(1796035541999999999), "2026-11-30T10:45:41Z"},
        {INT64_C(951782400000000000), "2000-02-29T00:00:00Z"},
        {-1, "1969-12-31T23:59:59Z"},
        {INT64_C(-1000000000), "1969-12-31T23:59:59Z"},
        {INT64_MAX, "2262-04-11T23:47:16Z"},
        {INT64_MIN, "1677-09-21T00:12:43Z"},
    };
    char text[21];

    (void)state;
    for (size_t i = 0; i < VT_COUNT(table); i++)
        assert_string_equal(vt_clock_format_wall(table[i].ns, text, sizeof(text)), table[i].text);
    assert_string_equal(vt_clock_format_wall(0, text, 20), "");
}

static void clocks_are_the_kernel_s(void **state)
{
    int64_t before = vt_clock_now_ns(), wall = vt_clock_wall_ns();
    struct timespec ts;

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    assert_true(ts.tv_sec * VT_NS_PER_S + ts.tv_nsec >= before);
    assert_true(ts.tv_sec * VT_NS_PER_S + ts.tv_nsec - before < 60 * VT_NS_PER_S);
    assert_true(llabs(wall / VT_NS_PER_S - (int64_t)time(NULL)) < 60);
    /* A clock that stands would be found by ctest's time-out. */
    while (vt_clock_now_ns() <= before)
        ;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wall_times_are_iso_8601),
        cmocka_unit_test(clocks_are_the_kernel_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
