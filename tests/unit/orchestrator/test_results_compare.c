/* SPDX-License-Identifier: Apache-2.0 */
/* What was sealed against what comes out now: by the same rules a difference is an error, by others
 * it is told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "orchestrator/results_compare.h"

#define RUN \
    "\"run\":\"R1\",\"started\":\"2026-01-01T00:00:00Z\",\"spec\":\"web\",\"preset\":\"smoke\""
#define LATE "{\"code\":\"generator-late\",\"grade\":\"INVALID\",\"number\":7,\"text\":\"late\"}"
#define GONE \
    "{\"code\":\"old-rule\",\"grade\":\"DEGRADED\",\"number\":0,\"text\":\"\\u001b[2Jgone\"}"

static struct verdict_reason late = {VERDICT_INVALID, "generator-late", 7, "late"};

static struct result made(void)
{
    struct result result = {.run = "R1",
                            .wall_start = "2026-01-01T00:00:00Z",
                            .spec = "web",
                            .preset = "smoke",
                            .qos = {.state = QOS_PASS},
                            .verdict = {VERDICT_INVALID, &late, 1, 0}};

    return result;
}

/* Returns what results_compare does; what it told stands in told. */
static int compare(const char *sealed, bool json, char told[4096], struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf manifest = VT_BUF_INIT(1 << 16);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4095);
    struct result result = made();
    int r;

    vt_buf_printf(&manifest, "{\"v\":1,\"result\":{%s}}", sealed);
    r = results_compare(&manifest, &result, json, &out, err);
    snprintf(told, 4096, "%s", out.len ? out.data : "");
    return r;
}

static void same_rules_bear_no_difference(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    char told[4096], own[200];

    (void)state;
    snprintf(own, sizeof(own), RUN ",\"rules\":%d,\"verdict\":\"INVALID\"", RESULT_RULES);
    assert_int_equal(compare(own, false, told, &err), 0);
    assert_string_equal(told, "");
    snprintf(own, sizeof(own), RUN ",\"rules\":%d,\"verdict\":\"DEGRADED\"", RESULT_RULES);
    assert_int_equal(compare(own, false, told, &err), -EBADMSG);
    assert_true(err.kind == VT_KIND_REFUSED);
    assert_non_null(strstr(err.text, "another 'verdict' than was sealed"));
    snprintf(own, sizeof(own), RUN ",\"rules\":%d,\"reasons\":[]", RESULT_RULES);
    assert_int_equal(compare(own, false, told, &err), -EBADMSG);
}

static void other_rules_are_told(void **state)
{
    static const char *const sealed[] = {
        RUN ",\"verdict\":\"DEGRADED\",\"qos\":\"pass\",\"score\":98.5,\"reasons\":[" GONE "]",
        RUN ",\"rules\":99,\"verdict\":\"DEGRADED\",\"qos\":\"pass\",\"score\":98.5,"
            "\"reasons\":[" GONE "]"};
    struct vt_error err = VT_ERROR_INIT;
    char told[4096], wanted[4096];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(compare(sealed[i], false, told, &err), 0);
        snprintf(
            wanted, sizeof(wanted),
            "sealed   by rules %d for verdict, QoS and score: DEGRADED, QoS pass, score 98.50\n"
            "  now also INVALID generator-late: late\n"
            "  no more  DEGRADED old-rule: \\x1b[2Jgone\n"
            "now      by rules %d, those of this vtile:\n",
            i ? 99 : 0, RESULT_RULES);
        assert_string_equal(told, wanted);
    }
    assert_int_equal(compare(sealed[0], true, told, &err), 0);
    assert_string_equal(told, "{\"v\":1,\"type\":\"sealed\",\"run\":\"R1\",\"rules\":0,"
                              "\"verdict\":\"DEGRADED\",\"qos\":\"pass\",\"score\":98.50,"
                              "\"added\":[{\"code\":\"generator-late\",\"grade\":\"INVALID\","
                              "\"text\":\"late\"}],\"dropped\":[{\"code\":\"old-rule\","
                              "\"grade\":\"DEGRADED\",\"text\":\"\\u001b[2Jgone\"}]}\n");
}

/* Older rules that gave the same are no news. */
static void same_result_is_not_told(void **state)
{
    char told[4096];

    (void)state;
    assert_int_equal(
        compare(RUN ",\"verdict\":\"INVALID\",\"reasons\":[" LATE "]", false, told, NULL), 0);
    assert_string_equal(told, "");
    assert_int_equal(compare(RUN ",\"rules\":99,\"verdict\":\"INVALID\"", false, told, NULL), 0);
    assert_string_equal(told, "");
}

static void no_rule_changes_the_run(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    char told[4096];

    (void)state;
    assert_int_equal(compare("\"run\":\"R2\",\"verdict\":\"INVALID\"", false, told, &err),
                     -EBADMSG);
    assert_non_null(strstr(err.text, "another 'run'"));
    assert_int_equal(compare("\"run\":\"R1\",\"preset\":\"standard\"", false, told, &err),
                     -EBADMSG);
    assert_true(compare(RUN ",\"rules\":-1", false, told, &err) < 0);
    assert_true(compare(RUN ",\"rules\":\"1\"", false, told, &err) < 0);
    assert_true(compare(RUN ",\"rules\":0,\"reasons\":3", false, told, &err) == 0);
    assert_non_null(strstr(told, "now also INVALID generator-late"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_rules_bear_no_difference),
        cmocka_unit_test(other_rules_are_told),
        cmocka_unit_test(same_result_is_not_told),
        cmocka_unit_test(no_rule_changes_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
