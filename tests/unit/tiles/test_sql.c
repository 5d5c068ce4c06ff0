/* SPDX-License-Identifier: Apache-2.0 */
/* The engine over libpq against a real PostgreSQL: right answers, and what becomes of statements
 * that fail, hang, answer wrongly or too much, of servers that refuse, end or come back. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tests/unit/tiles/echo.h"
#include "tests/unit/tiles/load_run.h"
#include "tests/unit/tiles/shop.h"
#include "tiles/load/sql.h"
#include "tiles/roles/database/postgres.h"
#include "tiles/roles/registry.h"

#define S VT_NS_PER_S

static struct shop shop;
static struct load_run run;
static bool present;

static int set_up(void **state)
{
    (void)state;
    present = shop_present();
    if (present) {
        shop_init(&shop, 2 << 20, 1);
        shop.database.npeers = 0;
        shop.database.client = "127.0.0.1";
        shop_start(&role_database_guest, &shop.database);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (present)
        shop_fini(&shop);
    return 0;
}

/* --- a driver whose steps' argument says what is to happen --- */

enum { RIGHT, WRONG, FAILS, SLOW, HANGS, LONG, MANY, ENDS, KINDS };

static const char *const statements[KINDS] = {
    [RIGHT] = "SELECT $1::bigint",
    [WRONG] = "SELECT $1::bigint + 1",
    [FAILS] = "SELECT 1 / ($1::bigint - $1::bigint)",
    [SLOW] = "SELECT $1::bigint FROM pg_sleep(0.3)",
    [HANGS] = "SELECT $1::bigint FROM pg_sleep(30)",
    [LONG] = "SELECT $1::bigint, repeat('x', 4000000)",
    [MANY] = "SELECT $1::bigint, repeat('x', 100) FROM generate_series(1, 100000)",
    [ENDS] = "SELECT $1::bigint FROM pg_terminate_backend(pg_backend_pid())",
};
static const char *const unknown_table[] = {"SELECT 1", "SELECT * FROM absent", "SELECT 2"};

struct conn {
    char sequence[16];
};

static void conn_init(void *conn, const struct driver_target *target)
{
    (void)conn, (void)target;
}

static void conn_fini(void *conn)
{
    (void)conn;
}

static void call(void *conn, const struct driver_step *step, struct sql_call *ret)
{
    struct conn *c = conn;

    snprintf(c->sequence, sizeof c->sequence, "%u", step->sequence);
    ret->statement = step->argument;
    ret->nvalues = 1;
    snprintf(ret->values[0], SQL_VALUE_BYTES, "%u", step->sequence);
}

static enum driver_verdict judge(void *conn, const struct sql_rows *rows, const char **why)
{
    const struct conn *c = conn;
    const char *text = rows->nrows == 1 ? rows->value(rows->result, 0, 0) : NULL;

    if (text && strcmp(text, c->sequence) == 0)
        return DRIVER_DONE;
    *why = "another number";
    return DRIVER_WRONG;
}

static uint64_t answer_bytes(const void *conn)
{
    (void)conn;
    return 1;
}

static bool keep(const void *conn)
{
    (void)conn;
    return true;
}

static const char *const operations[] = {"even", "odd"};
static struct driver_sql sql = {.call = call, .judge = judge};
static const struct driver kinds_driver = {
    .name = "kinds",
    .pooled = true,
    .operations = operations,
    .noperations = 2,
    .conn_bytes = sizeof(struct conn),
    .conn_init = conn_init,
    .conn_fini = conn_fini,
    .answer_bytes = answer_bytes,
    .keep = keep,
    .sql = &sql,
};

/* What a test has left behind keeps its place on the server until it is told to end. */
static void wait_for_places(void)
{
    static const char query[] = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                "WHERE usename = current_user AND pid <> pg_backend_pid()";
    int64_t until_ns = vt_clock_now_ns() + 30 * S;
    long n;

    do {
        VT_AUTO_FREE char *text = shop_query(&shop, 3, query);

        n = strtol(text, NULL, 10);
        assert_true(vt_clock_now_ns() < until_ns);
    } while (n > 0);
}

/* n steps, of this kind where their number ends in a 5. */
static struct schedule make(const struct driver *driver, unsigned n, int64_t window_ns,
                            uint32_t kind)
{
    struct schedule schedule = echo_schedule(n, window_ns, n);

    wait_for_places();
    for (size_t i = 0; i < schedule.nsteps; i++)
        schedule.steps[i].argument = i % 10 == 5 ? kind : RIGHT;
    sql.database = database_driver.sql->database;
    sql.user = database_driver.sql->user;
    sql.statements = statements;
    sql.nstatements = KINDS;
    load_run_init(&run, NULL, driver, NULL, window_ns);
    run.target = (struct driver_target){.tile = 3, .port = POSTGRES_PORT};
    vt_text_copy(run.target.address, sizeof run.target.address, shop.address);
    return schedule;
}

static void drive(struct schedule *schedule)
{
    run.schedule = schedule;
    load_run(&run);
    schedule_dispose(schedule);
    print_message("%llu good, %llu slow, %llu wrong, %llu failed, %llu opened, %llu not: %s\n",
                  (unsigned long long)run.good, (unsigned long long)run.slow,
                  (unsigned long long)run.wrong, (unsigned long long)run.failed,
                  (unsigned long long)run.totals.connections_opened,
                  (unsigned long long)run.totals.connections_failed,
                  run.opened ? run.totals.first_failure : run.open_err.text);
}

/* 400 steps, 40 of them of a kind. */
static void drive_kind(uint32_t kind)
{
    struct schedule schedule = make(&kinds_driver, 400, 2 * S, kind);

    drive(&schedule);
    assert_true(run.opened);
    assert_int_equal(run.intended, 400);
}

static void holds(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

/* --- the role's own driver --- */

static void test_role(void **state)
{
    enum { N = 1000 };
    struct schedule schedule;
    struct vt_rng rng;
    unsigned written = 0, acknowledged = 0;
    json_t *facts;

    (void)state;
    if (!present)
        skip();
    schedule = make(&database_driver, N, 2 * S, RIGHT);
    vt_rng_seed(&rng, 5, "arguments", 0);
    for (size_t i = 0; i < N; i++) {
        schedule.steps[i].argument = (uint32_t)vt_rng_below(&rng, UINT64_C(1) << 32);
        written += schedule.steps[i].operation == 1;
    }
    drive(&schedule);
    assert_int_equal(run.good, N);
    assert_int_equal(run.totals.connections_opened, 16);
    assert_true(run.bytes > N * 6);
    facts = shop_check(&shop);
    shop_nothing_wrong(facts);
    assert_int_equal(shop_fact(facts, "work_orders"), written);
    json_decref(facts);
    for (uint32_t i = 0; i < N; i++) {
        bool set = run.acknowledged[i / 8] >> i % 8 & 1;

        acknowledged += set;
        assert_int_equal(set, shop_keeps(&shop, 3, i));
    }
    assert_int_equal(acknowledged, written);
}

/* --- answers that are not as they should be --- */

static void test_wrong(void **state)
{
    (void)state;
    if (!present)
        skip();
    drive_kind(WRONG);
    assert_int_equal(run.good, 360);
    assert_int_equal(run.wrong, 40);
    holds(run.totals.first_failure, "another number");
    assert_int_equal(run.totals.connections_opened, 16);
}

/* The server's words; the connection goes on. 22012: division_by_zero of PostgreSQL's manual. */
static void test_statement_error(void **state)
{
    (void)state;
    if (!present)
        skip();
    drive_kind(FAILS);
    assert_int_equal(run.good, 360);
    assert_int_equal(run.wrong, 40);
    holds(run.totals.first_failure, "22012: division by zero");
    assert_int_equal(run.totals.connections_opened, 16);
}

static void test_slow(void **state)
{
    (void)state;
    struct schedule schedule;

    if (!present)
        skip();
    schedule = make(&kinds_driver, 400, 2 * S, SLOW);
    run.load.good_limit_ns = 200 * VT_NS_PER_MS;
    drive(&schedule);
    assert_int_equal(run.wrong + run.failed, 0);
    assert_true(run.slow >= 40);
    /* One in ten takes 300 ms and more, so the slowest tenth does; a histogram is 0.4 % off. */
    assert_true(vt_hist_quantile(&run.service, 950000) >= 297 * VT_NS_PER_MS);
    assert_true(vt_hist_quantile(&run.service, 500000) < 297 * VT_NS_PER_MS);
}

/* Each connection that hangs is closed and opened again. */
static void test_time_out(void **state)
{
    (void)state;
    struct schedule schedule;

    if (!present)
        skip();
    schedule = make(&kinds_driver, 100, 2 * S, HANGS);
    run.load.timeout_ns = S;
    drive(&schedule);
    assert_int_equal(run.failed, 10);
    assert_int_equal(run.good, 90);
    holds(run.totals.first_failure, "timed out");
    assert_in_range(run.totals.connections_opened, 17, 26);
    assert_true(run.finished_ns < run.t0_ns + 5 * S);
}

/* One row of 4 MB, and as much in small rows. */
static void test_too_long(void **state)
{
    (void)state;
    for (uint32_t kind = LONG; kind <= MANY; kind++) {
        if (!present)
            skip();
        drive_kind(kind);
        assert_int_equal(run.failed, 40);
        assert_int_equal(run.good, 360);
        holds(run.totals.first_failure, "the answer is too long");
    }
}

/* 57P01: admin_shutdown of PostgreSQL's manual. */
static void test_backend_ends(void **state)
{
    (void)state;
    if (!present)
        skip();
    drive_kind(ENDS);
    assert_int_equal(run.failed, 40);
    assert_int_equal(run.good, 360);
    holds(run.totals.first_failure, "57P01: terminating connection");
    assert_true(run.totals.connections_opened >= 16 + 30);
}

/* --- servers that are not there --- */

static void kill_server(struct load_run *r)
{
    (void)r;
    shop_kill(&shop.database, SIGKILL);
}

/* It recovers beside the load. */
static void start_server(struct load_run *r)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)r;
    if (role_database_guest.start(&shop.database, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_killed(void **state)
{
    (void)state;
    struct schedule schedule;

    if (!present)
        skip();
    schedule = make(&kinds_driver, 1200, 15 * S, RIGHT);
    run.load.timeout_ns = 300 * VT_NS_PER_MS;
    run.actions[0] = (struct load_action){S, kill_server};
    run.actions[1] = (struct load_action){S * 3 / 2, start_server};
    drive(&schedule);
    assert_int_equal(run.good + run.failed, 1200);
    /* 80 a second: for half a second there is no server, a time-out of 0.3 s bridges some of it. */
    assert_in_range(run.failed, 8, 1200 - 60);
    assert_true(run.totals.connections_opened > 16);
    assert_true(run.totals.connections_failed > 0);
}

static void test_refused(void **state)
{
    (void)state;
    struct schedule schedule;

    if (!present)
        skip();
    schedule = make(&kinds_driver, 10, S, RIGHT);
    run.target.port = 1;
    drive(&schedule);
    assert_false(run.opened);
    holds(run.open_err.text, "port 1");
    holds(run.open_err.text, "Connection refused");
}

/* Users and statements that the server does not take, and more connections than it has. SQLSTATEs:
 * invalid_authorization_specification, undefined_table, too_many_connections. */
static void test_not_opened(void **state)
{
    (void)state;
    struct schedule schedule;

    if (!present)
        skip();
    schedule = make(&kinds_driver, 10, S, RIGHT);
    run.target.tile = 9;
    drive(&schedule);
    assert_false(run.opened);
    holds(run.open_err.text, "no pg_hba.conf entry");

    schedule = make(&kinds_driver, 10, S, RIGHT);
    sql.statements = unknown_table;
    sql.nstatements = VT_COUNT(unknown_table);
    drive(&schedule);
    assert_false(run.opened);
    holds(run.open_err.text, "42P01: relation \"absent\" does not exist");

    schedule = make(&kinds_driver, 10, S, RIGHT);
    run.load.connections = 30;
    drive(&schedule);
    assert_false(run.opened);
    holds(run.open_err.text, "remaining connection slots are reserved");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_role),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_statement_error),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_time_out),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_backend_ends),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_opened),
    };

    return cmocka_run_group_tests_name("sql", tests, set_up, tear_down);
}
