/* SPDX-License-Identifier: Apache-2.0 */
/* When limits were broken, counted by hand from loads that are the same each second. */
#include <string.h>

#include "sample.h"

#include "base/scope.h"
#include "results/breach.h"
#include "results/result.h"

static void find(const char *name, const struct sample *sample, struct result *result,
                 struct breaches *breaches)
{
    struct record_reader *reader = NULL;

    sample_record_write(sample_path(name), sample);
    assert_ok(record_open_read(sample_path(name), &reader, OK_ERR));
    assert_ok(result_compute(reader, result, OK_ERR));
    assert_ok(breach_find(reader, &result->qos, breaches, OK_ERR));
    record_reader_close(reader);
}

/* Nearest rank: of 160, the value of rank 152 must be within, 8 may be beyond. */
static void test_allowed(void **state)
{
    struct qos_line line = {.kind = QOS_PERCENTILE, .percentile = 950000};

    (void)state;
    assert_int_equal(breach_allowed(&line, 160), 8);
    assert_int_equal(breach_allowed(&line, 161), 8); /* ceil(152.95) = 153 */
    assert_int_equal(breach_allowed(&line, 19), 0);
    assert_int_equal(breach_allowed(&line, 0), 0);
    line = (struct qos_line){.kind = QOS_ERRORS, .limit = 10000};
    assert_int_equal(breach_allowed(&line, 100), 1);
    assert_int_equal(breach_allowed(&line, 199), 1);
}

/* 16 requests a second, one of them slow, for ten seconds from second 2: the first second breaks
 * it (none of 16 may be slow), and the ninth slow one, in second 10, is more than 8 of 160. */
static void test_percentile(void **state)
{
    static const struct sample_role role = {
        "web", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 15, 1, 0, 0};
    const struct sample sample = {1, &role, 1, 10, "complete", "kvm"};
    struct result result = {0};
    struct breaches breaches = {0};

    (void)state;
    find("percentile", &sample, &result, &breaches);
    assert_true(breaches.n >= 1);
    assert_int_equal(breaches.all[0].line.kind, QOS_PERCENTILE);
    assert_int_equal(breaches.first, 1);
    assert_int_equal(breaches.all[breaches.n - 1].line.percentile, 950000);
    assert_int_equal(breaches.all[breaches.n - 1].allowed, 8);
    assert_int_equal(breaches.all[breaches.n - 1].began_s, 2);
    assert_int_equal(breaches.all[breaches.n - 1].spent_s, 10);
    breach_dispose(&breaches);
    result_dispose(&result);
}

/* Tile 2 has an error in each of its 11 requests a second: 1 of 110 is allowed, so the second one,
 * in second 3, is too many. Tile 1 keeps its limits. */
static void test_errors(void **state)
{
    static const struct sample_role roles[] = {
        {"app", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 15, 0, 0, 0},
        {"mail", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 10, 0, 0, 1},
    };
    const struct sample sample = {2, roles, VT_COUNT(roles), 10, "complete", "kvm"};
    struct result result = {0};
    struct breaches breaches = {0};
    static const struct breach none;
    const struct breach *errors = &none;

    (void)state;
    find("errors", &sample, &result, &breaches);
    for (size_t i = 0; i < breaches.n; i++) {
        assert_string_equal(breaches.all[i].line.role, "mail");
        if (breaches.all[i].line.kind == QOS_ERRORS && breaches.all[i].line.tile == 2)
            errors = &breaches.all[i];
        if (i > 0)
            assert_true((uint64_t)breaches.all[i - 1].spent_s <= (uint64_t)breaches.all[i].spent_s);
    }
    assert_int_equal(errors->allowed, 1);
    assert_int_equal(errors->began_s, 2);
    assert_int_equal(errors->spent_s, 3);
    breach_dispose(&breaches);
    result_dispose(&result);
}

/* Two tiles that are alike break in the same second: neither is the first. */
static void test_together(void **state)
{
    static const struct sample_role role = {
        "web", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 15, 1, 0, 0};
    const struct sample sample = {2, &role, 1, 10, "complete", "kvm"};
    struct result result = {0};
    struct breaches breaches = {0};

    (void)state;
    find("together", &sample, &result, &breaches);
    assert_int_equal(breaches.first, 2);
    assert_int_equal(breaches.all[0].line.tile, 1);
    assert_int_equal(breaches.all[1].line.tile, 2);
    assert_int_equal(breaches.all[0].spent_s, breaches.all[1].spent_s);
    breach_dispose(&breaches);
    result_dispose(&result);
}

static void test_none(void **state)
{
    static const struct sample_role role = {
        "web", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 15, 0, 0, 0};
    const struct sample sample = {1, &role, 1, 10, "complete", "kvm"};
    struct result result = {0};
    struct breaches breaches = {0};

    (void)state;
    find("none", &sample, &result, &breaches);
    assert_int_equal(breaches.n, 0);
    assert_int_equal(breaches.first, 0);
    breach_dispose(&breaches);
    result_dispose(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allowed), cmocka_unit_test(test_percentile),
        cmocka_unit_test(test_errors),  cmocka_unit_test(test_together),
        cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
