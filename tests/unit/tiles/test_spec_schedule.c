/* SPDX-License-Identifier: Apache-2.0 */
/* The key schedule of a load: what its text says wrong is refused at the word that says it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "tiles/spec/spec.h"

#define LINE 12
#define COLUMN 17 /* of the value */

static int read_with(const char *loop, const char *schedule, struct spec *ret, struct vt_error *err)
{
    char text[1024];
    int n = snprintf(text, sizeof(text),
                     "name: x\ndescription: y\nroles:\n"
                     "  infra: {sizes: {tcg: {memory: 128 MiB, vcpus: 1, data: 0},\n"
                     "    kvm: {memory: 128 MiB, vcpus: 1, data: 0}}}\n"
                     "  web:\n"
                     "    sizes: {tcg: {memory: 128 MiB, vcpus: 1, data: 0},\n"
                     "      kvm: {memory: 128 MiB, vcpus: 1, data: 0}}\n"
                     "    load:\n"
                     "      rate: 1\n"
                     "      loop: %s\n"
                     "      %s%s\n"
                     "      connections: 1\n      timeout: 30 s\n      expected_response: 100 ms\n"
                     "      error_share_max: 1 %%\n      wake_lag_p99_max: 1 ms\n"
                     "      limits: [{share: 99 %%, within: 2 s}]\n",
                     loop, schedule ? "schedule: " : "divisor: 1", schedule ? schedule : "");

    return spec_read_text("s.yaml", text, (size_t)n, ret, err);
}

static void test_good(void **state)
{
    static const struct {
        const char *schedule, *want;
    } good[] = {
        {NULL, ""},
        {"poisson", "poisson"},
        {"bursty:1 s,9 s", "bursty:1 s,9 s"},
        {"'step:1,2,4'", "step:1,2,4"},
        {"swing:16,60s # as the day", "swing:16,60s"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(good); i++) {
        struct vt_error err = VT_ERROR_INIT;
        struct spec spec;

        if (read_with("open", good[i].schedule, &spec, &err) < 0)
            fail_msg("%d:%d: %s", err.line, err.column, err.text);
        assert_string_equal(spec.roles[1].load.schedule, good[i].want);
    }
}

static void expect_refused(const char *loop, const char *schedule, int offset, const char *why)
{
    struct vt_error err = VT_ERROR_INIT;
    struct spec spec;

    if (read_with(loop, schedule, &spec, &err) == 0)
        fail_msg("taken: %s", schedule);
    if (err.line != LINE || err.column != COLUMN + offset || !strstr(err.text, why))
        fail_msg("%s: %d:%d: %s", schedule, err.line, err.column, err.text);
    assert_string_equal(err.file, "s.yaml");
    assert_int_equal(vt_error_exit_code(&err), 2);
}

static void test_bad_words(void **state)
{
    static const struct {
        const char *value;
        int offset;
        const char *why;
    } bad[] = {
        {"swings:16,60s", 0, "unknown schedule \"swings\": did you mean \"swing\"?"},
        {"qqqqqqqqqqqq", 0, "expected one of poisson, uniform, bursty, step, ramp, swing"},
        {":1", 0, "expected one of poisson"},
        {"replay:times.txt", 0, "expected one of poisson"},
        {"poisson:1", 8, "expected poisson"},
        {"bursty", 6, "expected bursty:ON,OFF"},
        {"bursty:1s", 9, "expected bursty:ON,OFF"},
        {"bursty:1s,2s,3s", 13, "expected bursty:ON,OFF"},
        {"bursty:1,2s", 7, "expected a duration with its unit"},
        {"bursty:1s,0s", 10, "from 1 us to 1 h, not \"0s\""},
        {"bursty:61min,1s", 7, "from 1 us to 1 h, not \"61min\""},
        {"bursty:-1s,1s", 7, "expected a duration with its unit"},
        {"step", 4, "expected step:RATE,..."},
        {"step:1,,2", 7, "expected a number"},
        {"step:1,2x", 7, "not \"2x\""},
        {"step:1,101", 7, "from 0 to 100"},
        {"step:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", 44, "at most 16 of them"},
        {"step:0,0", 5, "expected a rate above 0"},
        {"ramp:1", 6, "expected ramp:FROM,TO"},
        {"ramp:0,0.0", 5, "expected a rate above 0"},
        {"ramp:1,-1", 7, "expected a number"},
        {"swing:17,60s", 6, "from 1 to 16, not \"17\""},
        {"swing:0.5,60s", 6, "from 1 to 16"},
        {"swing:16,60", 9, "expected a duration with its unit"},
        {"swing:16,2h", 9, "from 1 ms to 1 h"},
        {"swing:1.0000000,60s", 6, "at most six decimals"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(bad); i++)
        expect_refused("open", bad[i].value, bad[i].offset, bad[i].why);
    /* Where a quoted text has its words is not known: it may hold escapes. */
    expect_refused("open", "'uniform:'", 0, "expected uniform");
    expect_refused("open", "\"step:\"", 0, "expected a number with at most six decimals from 0");
}

static void test_closed_loop(void **state)
{
    (void)state;
    expect_refused("closed", "poisson", 0, "schedule: expected none, for a closed loop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad_words),
        cmocka_unit_test(test_closed_loop),
    };

    return cmocka_run_group_tests_name("spec_schedule", tests, NULL, NULL);
}
