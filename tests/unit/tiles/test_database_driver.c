/* SPDX-License-Identifier: Apache-2.0 */
/* The database driver without I/O: what it asks, and rows that are right (item and price as
 * PostgreSQL gave them, see test_app_driver.c) or wrong in one field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/load/sql.h"
#include "tiles/roles/registry.h"

enum { READ, WRITE };

static const struct driver_target target = {.tile = 3};
static const struct driver_step steps[] = {
    [READ] = {.sequence = 77, .operation = READ, .argument = 1410631222},
    [WRITE] = {.sequence = 78, .operation = WRITE, .argument = 2363502770},
};

#define COLUMNS_MAX 6
struct row {
    unsigned nrows, ncolumns;
    const char *values[COLUMNS_MAX];
};

static const char *value(const void *result, unsigned row, unsigned column)
{
    const struct row *r = result;

    assert_true(row < r->nrows && column < r->ncolumns);
    return r->values[column];
}

static enum driver_verdict judge(unsigned operation, const struct row *row, bool *acknowledged,
                                 uint64_t *bytes)
{
    VT_AUTO_FREE void *conn = calloc(1, database_driver.conn_bytes);
    const struct sql_rows rows = {row->nrows, row->ncolumns, value, row};
    struct sql_call call;
    const char *why = NULL;
    enum driver_verdict verdict;

    assert_non_null(conn);
    database_driver.conn_init(conn, &target);
    database_driver.sql->call(conn, &steps[operation], &call);
    verdict = database_driver.sql->judge(conn, &rows, &why);
    assert_int_equal(why == NULL, verdict == DRIVER_DONE);
    *acknowledged = database_driver.acknowledges(conn);
    *bytes = database_driver.answer_bytes(conn);
    assert_true(database_driver.keep(conn));
    return verdict;
}

static void test_call(void **state)
{
    VT_AUTO_FREE void *conn = calloc(1, database_driver.conn_bytes);
    struct sql_call call;
    char user[64];

    (void)state;
    assert_non_null(conn);
    database_driver.conn_init(conn, &target);
    database_driver.sql->user(&target, user, sizeof user);
    assert_string_equal(user, "app3");
    database_driver.sql->call(conn, &steps[READ], &call);
    assert_int_equal(call.statement, READ);
    assert_int_equal(call.nvalues, 2);
    assert_string_equal(call.values[0], "77");
    assert_string_equal(call.values[1], "1410631222");
    database_driver.sql->call(conn, &steps[WRITE], &call);
    assert_int_equal(call.statement, WRITE);
    assert_int_equal(call.nvalues, 3);
    assert_string_equal(call.values[0], "78");
    assert_in_range(strtol(call.values[1], NULL, 10), 1, 1000);
    assert_in_range(strtol(call.values[2], NULL, 10), 1, 23);
}

static const struct row right[] = {
    [READ] = {1, 5, {"77", "223", "82224", "1578", "part-0223-5840a64bde2c70c2"}},
    [WRITE] = {1, 3, {"78", "9", "1000"}},
};

static void test_right(void **state)
{
    bool acknowledged;
    uint64_t bytes;

    (void)state;
    assert_int_equal(judge(READ, &right[READ], &acknowledged, &bytes), DRIVER_DONE);
    assert_false(acknowledged);
    assert_int_equal(bytes, 2 + 3 + 5 + 4 + 26);
    assert_int_equal(judge(WRITE, &right[WRITE], &acknowledged, &bytes), DRIVER_DONE);
    assert_true(acknowledged);
    assert_int_equal(bytes, 2 + 1 + 4);
}

/* Each field in turn: null, empty, no number, and one that is another answer's. */
static void test_wrong(void **state)
{
    static const char *const others[][5] = {
        [READ] = {"78", "224", "82225", "-1", "part-0223-5840a64bde2c70c3"},
        [WRITE] = {"77", "0", "0"},
    };
    static const struct row shapes[] = {
        {0, 5, {NULL}},
        {2, 5, {"77", "223", "82224", "1578", "part-0223-5840a64bde2c70c2"}},
        {1, 4, {"77", "223", "82224", "1578"}},
        {1, 6, {"77", "223", "82224", "1578", "part-0223-5840a64bde2c70c2", "1"}},
        {1, 0, {NULL}},
    };
    bool acknowledged;
    uint64_t bytes;

    (void)state;
    for (unsigned o = READ; o <= WRITE; o++) {
        for (unsigned i = 0; i < right[o].ncolumns; i++) {
            const char *const bad[] = {NULL, "", "x1", "1e3", others[o][i]};

            for (size_t b = 0; b < VT_COUNT(bad); b++) {
                struct row row = right[o];

                row.values[i] = bad[b];
                assert_int_equal(judge(o, &row, &acknowledged, &bytes), DRIVER_WRONG);
                assert_false(acknowledged);
            }
        }
    }
    for (size_t i = 0; i < VT_COUNT(shapes); i++)
        assert_int_equal(judge(READ, &shapes[i], &acknowledged, &bytes), DRIVER_WRONG);
}

/* The stated mix, and session ends one in twenty. */
static void test_plan(void **state)
{
    enum { N = 100000 };
    const struct spec_load load = {.expected_ns = VT_NS_PER_MS};
    unsigned written = 0, ended = 0;
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 1, "database", 0);
    for (unsigned i = 0; i < N; i++) {
        uint16_t operation;
        uint32_t argument;
        int64_t gap_ns;

        if (!database_driver.plan(NULL, &rng, &load, false, false, &operation, &argument,
                                  &gap_ns)) {
            ended++;
            continue;
        }
        written += operation == WRITE;
        assert_int_equal(gap_ns, VT_NS_PER_MS);
    }
    /* Five standard deviations of the binomial. */
    assert_in_range(ended, N / 20 - 345, N / 20 + 345);
    assert_in_range(written, (N - ended) / 5 - 620, (N - ended) / 5 + 620);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_plan),
    };

    return cmocka_run_group_tests_name("database_driver", tests, NULL, NULL);
}
