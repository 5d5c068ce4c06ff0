/* SPDX-License-Identifier: Apache-2.0 */
/* The engine where each session keeps a connection: whose steps came over which, what a lost one
 * costs, a cap, a server that refuses, and ends at any moment. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/tiles/load_run.h"
#include "tests/unit/tiles/session_server.h"

#define MS VT_NS_PER_MS
#define S VT_NS_PER_S

static struct load_run run;
static struct session_server *server;

static int set_up(void **state)
{
    (void)state;
    server = session_server_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    session_server_stop(server);
    return 0;
}

static void begin(const struct schedule *schedule, int64_t window_ns)
{
    static struct nginx none;

    none.port = server->port;
    load_run_init(&run, &none, &session_driver, schedule, window_ns);
    run.load.connections = 64;
}

static void print_run(const char *what)
{
    print_message("%s: %zu intended, %zu good, %zu slow, %zu wrong, %zu failed; %zu connections, "
                  "queue up to %zu; response p50 %.2f max %.2f ms; %s\n",
                  what, (size_t)run.intended, (size_t)run.good, (size_t)run.slow, (size_t)run.wrong,
                  (size_t)run.failed, (size_t)run.totals.connections_opened,
                  (size_t)run.totals.queue_high,
                  (double)vt_hist_quantile(&run.response, 500000) / 1e6,
                  (double)run.response.max / 1e6, run.totals.first_failure);
}

static uint32_t connections_of(uint32_t session)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < server->nconnections; i++)
        n += server->connections[i].session == session;
    return n;
}

/* Each step came at most once, over a connection of its session; those of the first nsteps that
 * came over none are counted. */
static unsigned check_steps(const struct schedule *schedule)
{
    unsigned missing = 0;

    for (size_t i = 0; i < schedule->nsteps; i++) {
        if (server->steps[i].count == 0) {
            missing++;
            continue;
        }
        assert_int_equal(server->steps[i].count, 1);
        assert_int_equal(server->connections[server->steps[i].connection].session,
                         schedule->steps[i].session);
    }
    return missing;
}

/* 12 of 40 sessions are met in their middle: they are entered before T0, no more than eight at
 * once. Each session has one connection, which begins with its first step. */
static void test_sessions(void **state)
{
    struct schedule schedule = session_schedule(40, 5, 12, 100 * MS, 2 * S);

    (void)state;
    begin(&schedule, 2 * S);
    load_run(&run);
    print_run("sessions");
    assert_int_equal(run.good, schedule.nsteps);
    assert_int_equal(check_steps(&schedule), 0);
    assert_int_equal(server->nconnections, 40);
    assert_int_equal(run.totals.connections_opened, 40);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(server->connections[i].again, i < 12);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(connections_of(i), 1);
    assert_in_range(server->most_greeted, 1, 8);
    /* At 20 a second, 0.5 s each, ten are open at once, and those on their way out. */
    assert_in_range(server->most_open, 12, 30);
    for (size_t i = 0; i < schedule.nsteps; i++)
        assert_int_equal(run.acknowledged[i / 8] >> i % 8 & 1, i % 2);
    assert_int_equal(run.nacknowledged, (schedule.nsteps + 7) / 8);
    schedule_dispose(&schedule);
}

static size_t step_of_session(const struct schedule *schedule, uint32_t session, unsigned nth)
{
    for (size_t i = 0; i < schedule->nsteps; i++)
        if (schedule->steps[i].session == session && nth-- == 0)
            return i;
    fail();
    return 0;
}

/* Of ten sessions: a connection that ends without an answer, one that ends after an answer while
 * nothing is asked, a wrong answer. Only the first and the last cost a step. */
static void test_lost_connections(void **state)
{
    struct schedule schedule = session_schedule(10, 6, 3, 100 * MS, S);
    size_t cut = step_of_session(&schedule, 4, 2), last = step_of_session(&schedule, 5, 2),
           wrong = step_of_session(&schedule, 6, 2), first = step_of_session(&schedule, 7, 0);

    (void)state;
    schedule.steps[cut].argument = SESSION_CUT;
    schedule.steps[last].argument = SESSION_LAST;
    schedule.steps[wrong].argument = SESSION_MISCOUNTED;
    schedule.steps[first].argument = SESSION_CUT; /* a login */
    begin(&schedule, S);
    load_run(&run);
    print_run("lost");
    assert_int_equal(run.good, schedule.nsteps - 3);
    assert_int_equal(run.failed, 2);
    assert_int_equal(run.wrong, 1);
    assert_int_equal(check_steps(&schedule), 0);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(connections_of(i), i == 4 || i == 5 || i == 7 ? 2 : 1);
    assert_true(server->connections[server->steps[cut].connection].nsteps <= 3);
    schedule_dispose(&schedule);
}

/* No answer until the time-out: the step has failed, the next goes on over a new connection. */
static void test_time_out(void **state)
{
    struct schedule schedule = session_schedule(4, 5, 0, 400 * MS, 3 * S);
    size_t silent = step_of_session(&schedule, 1, 1);

    (void)state;
    schedule.steps[silent].argument = SESSION_SILENT;
    begin(&schedule, 3 * S);
    run.load.timeout_ns = 600 * MS; /* the step after it waits by then */
    load_run(&run);
    print_run("time-out");
    assert_int_equal(run.failed, 1);
    assert_int_equal(run.good, schedule.nsteps - 1);
    assert_int_equal(connections_of(1), 2);
    assert_int_equal(check_steps(&schedule), 0);
    assert_true(run.response.max > 150 * MS);
    schedule_dispose(&schedule);
}

/* Three connections for sessions of which eight would be there at once: steps wait for one, none is
 * dropped. */
static void test_cap(void **state)
{
    struct schedule schedule = session_schedule(30, 4, 0, 100 * MS, 900 * MS);

    (void)state;
    begin(&schedule, 900 * MS);
    run.load.connections = 3;
    run.drain_ns = 10 * S;
    run.load.timeout_ns = S;
    load_run(&run);
    print_run("three connections");
    assert_int_equal(run.intended, schedule.nsteps);
    assert_true(run.good + run.slow > 12);
    assert_true(run.failed > 0); /* sessions that the window cuts keep theirs */
    assert_non_null(strstr(run.totals.first_failure, "timed out"));
    assert_in_range(run.totals.queue_high, 5, 30);
    assert_int_equal(server->most_open, 3);
    check_steps(&schedule);
    schedule_dispose(&schedule);
}

/* More are met than there are connections: as many as there are are entered. */
static void test_more_met_than_connections(void **state)
{
    struct schedule schedule = session_schedule(12, 4, 12, 50 * MS, S);

    (void)state;
    begin(&schedule, S);
    run.load.connections = 4;
    load_run(&run);
    print_run("twelve met, four connections");
    assert_int_equal(run.good, schedule.nsteps);
    assert_int_equal(check_steps(&schedule), 0);
    assert_int_equal(server->most_open, 4);
    assert_int_equal(server->nconnections, 12);
    schedule_dispose(&schedule);
}

static void kill_all(struct load_run *r)
{
    (void)r;
    server->kill_all = true;
}

static void refuse(struct load_run *r)
{
    (void)r;
    server->refuse = true;
}

static void accept_again(struct load_run *r)
{
    (void)r;
    server->refuse = false;
}

/* All connections end at once: the sessions go on over new ones. */
static void test_all_are_killed(void **state)
{
    struct schedule schedule = session_schedule(40, 8, 10, 100 * MS, 2 * S);

    (void)state;
    begin(&schedule, 2 * S);
    run.actions[0] = (struct load_action){700 * MS, kill_all};
    run.actions[1] = (struct load_action){1400 * MS, kill_all};
    load_run(&run);
    print_run("killed twice");
    assert_int_equal(run.intended, schedule.nsteps);
    assert_in_range(run.failed, 0, 8);
    assert_int_equal(run.good + run.failed, schedule.nsteps);
    assert_in_range(check_steps(&schedule), 0, run.failed);
    assert_true(server->nconnections > 50);
    schedule_dispose(&schedule);
}

/* While the server refuses, a step that needs a connection fails at once; sessions that have one go
 * on. */
static void test_refused(void **state)
{
    struct schedule schedule = session_schedule(40, 5, 10, 100 * MS, 2 * S);
    size_t begun = 0, missing;

    (void)state;
    begin(&schedule, 2 * S);
    run.actions[0] = (struct load_action){700 * MS, refuse};
    run.actions[1] = (struct load_action){1300 * MS, accept_again};
    load_run(&run);
    print_run("refused");
    for (size_t i = 0; i < schedule.nsteps; i++)
        begun += schedule.steps[i].operation == SESSION_LOGIN &&
                 schedule.steps[i].intended_ns > 710 * MS &&
                 schedule.steps[i].intended_ns < 1290 * MS;
    missing = check_steps(&schedule);
    assert_true(begun > 8);
    assert_true(missing >= begun);
    assert_int_equal(run.failed, missing);
    assert_int_equal(run.good, schedule.nsteps - missing);
    assert_true(run.totals.connections_failed >= begun);
    assert_true(run.good > schedule.nsteps / 2);
    /* Refused, or not taken from the queue of the socket that was listening. */
    assert_true(strstr(run.totals.first_failure, "refused") ||
                strstr(run.totals.first_failure, "reset by peer"));
    schedule_dispose(&schedule);
}

static void test_open_fails(void **state)
{
    struct schedule schedule = session_schedule(4, 4, 4, 100 * MS, S);

    (void)state;
    begin(&schedule, S);
    session_server_refuse(server);
    load_run(&run);
    assert_false(run.opened);
    print_message("%s\n", run.open_err.text);
    assert_non_null(strstr(run.open_err.text, "refused"));
    schedule_dispose(&schedule);
}

static void stop_engine(struct load_run *r)
{
    engine_stop(r->engine);
}

/* What waits and what is silent has failed; what was due is counted. */
static void test_stop(void **state)
{
    struct schedule schedule = session_schedule(40, 5, 10, 100 * MS, 3 * S);

    (void)state;
    for (size_t i = 0; i < schedule.nsteps; i += 7)
        schedule.steps[i].argument = SESSION_SILENT;
    begin(&schedule, 3 * S);
    run.actions[0] = (struct load_action){S, stop_engine};
    load_run(&run);
    print_run("stopped");
    assert_in_range(run.intended, schedule.nsteps / 6, schedule.nsteps / 2);
    assert_int_equal(run.intended, run.good + run.failed);
    assert_true(run.failed > 0);
    assert_true(run.finished_ns < run.t0_ns + 2 * S);
    schedule_dispose(&schedule);
}

/* --- ends at any moment --- */

struct ends {
    struct engine *engine;
    bool opened, finished, free_in_second, free_in_finished;
    unsigned nseconds;
    uint64_t intended;
};

static void ends_opened(void *ctx, int status, const struct vt_error *err)
{
    struct ends *ends = ctx;

    (void)err;
    ends->opened = status == 0;
    if (status == 0)
        assert_int_equal(engine_start(ends->engine, vt_clock_now_ns(), NULL), 0);
}

static void ends_second(void *ctx, const struct vt_load_second *second)
{
    struct ends *ends = ctx;

    assert_non_null(ends->engine);
    assert_int_equal(second->intended,
                     second->good + second->slow + second->wrong + second->failed);
    ends->nseconds++;
    if (ends->free_in_second)
        ends->engine = engine_free(ends->engine);
}

static void ends_finished(void *ctx, const struct engine_totals *totals)
{
    struct ends *ends = ctx;

    assert_non_null(ends->engine);
    assert_int_equal(totals->intended,
                     totals->good + totals->slow + totals->wrong + totals->failed);
    ends->finished = true;
    ends->intended = totals->intended;
    if (ends->free_in_finished)
        ends->engine = engine_free(ends->engine);
}

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Runs an engine and, after_ms later, stops or frees it. The loop must run out of handles. */
static void end_after(const struct schedule *schedule, uint64_t after_ms, bool stop,
                      struct ends *ends)
{
    static const struct engine_events events = {
        .opened = ends_opened, .second = ends_second, .finished = ends_finished};
    struct spec_load load = {.connections = 32, .timeout_ns = S, .good_limit_ns = S};
    struct engine_config config = {.driver = &session_driver,
                                   .load = &load,
                                   .schedule = schedule,
                                   .target = {.tile = 1, .address = "127.0.0.1"},
                                   .drain_ns = 0,
                                   .window_ns = 2 * S};
    struct engine *engine;
    struct vt_loop loop;
    uv_timer_t timer;
    bool due = false;

    config.target.port = server->port;
    assert_int_equal(vt_loop_init(&loop, NULL), 0);
    assert_int_equal(engine_new(&loop, &config, &events, ends, &engine, NULL), 0);
    ends->engine = engine;
    engine_open(engine);
    uv_timer_init(&loop.uv, &timer);
    timer.data = &due;
    uv_timer_start(&timer, on_time, after_ms, 0);
    while (!due && ends->engine && !ends->finished)
        uv_run(&loop.uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    if (stop && ends->engine) {
        engine_stop(ends->engine);
        while (ends->engine && !ends->finished)
            uv_run(&loop.uv, UV_RUN_ONCE);
    }
    ends->engine = engine_free(ends->engine);
    uv_run(&loop.uv, UV_RUN_DEFAULT);
    vt_loop_dispose(&loop);
}

static void test_ends_at_any_moment(void **state)
{
    struct schedule schedule = session_schedule(60, 6, 20, 50 * MS, 2 * S);

    (void)state;
    for (size_t i = 5; i < schedule.nsteps; i += 9)
        schedule.steps[i].argument = SESSION_CUT;
    for (uint64_t after_ms = 0; after_ms < 90; after_ms += 3) {
        struct ends freed = {0}, stopped = {0};

        end_after(&schedule, after_ms, false, &freed);
        assert_false(freed.finished);
        end_after(&schedule, after_ms, true, &stopped);
        assert_true(stopped.finished);
    }
    schedule_dispose(&schedule);
}

/* The server takes connections and says nothing: ends while sessions are being entered. */
static void test_ends_while_entering(void **state)
{
    struct schedule schedule = session_schedule(20, 6, 20, 50 * MS, 2 * S);
    struct ends freed = {0}, stopped = {0};

    (void)state;
    server->hold_greetings = true;
    end_after(&schedule, 30, false, &freed);
    assert_false(freed.opened);
    assert_in_range(server->most_open, 1, 8);
    end_after(&schedule, 30, true, &stopped);
    assert_false(stopped.opened);
    assert_true(stopped.finished);
    assert_int_equal(stopped.intended, 0);
    schedule_dispose(&schedule);
}

static void test_freed_inside_events(void **state)
{
    struct schedule schedule = session_schedule(30, 4, 10, 50 * MS, 2 * S);
    struct ends second = {.free_in_second = true}, finished = {.free_in_finished = true};

    (void)state;
    end_after(&schedule, 10000, false, &second);
    assert_int_equal(second.nseconds, 1);
    assert_false(second.finished);
    end_after(&schedule, 10000, false, &finished);
    assert_true(finished.finished);
    schedule_dispose(&schedule);
}

static void test_nothing_due(void **state)
{
    struct driver_step none;
    struct schedule schedule = {&none, 0, 0, {0}};

    (void)state;
    begin(&schedule, 100 * MS);
    load_run(&run);
    assert_true(run.opened);
    assert_int_equal(run.intended, 0);
    assert_int_equal(server->nconnections, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_sessions),
        TEST(test_lost_connections),
        TEST(test_time_out),
        TEST(test_cap),
        TEST(test_more_met_than_connections),
        TEST(test_all_are_killed),
        TEST(test_refused),
        TEST(test_open_fails),
        TEST(test_stop),
        TEST(test_ends_at_any_moment),
        TEST(test_ends_while_entering),
        TEST(test_freed_inside_events),
        TEST(test_nothing_due),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
