/* SPDX-License-Identifier: Apache-2.0 */
/* The engine against a real nginx: each intended request exactly once and never early, a stalled
 * server, errors, servers that end connections or go away. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/tiles/echo.h"
#include "tests/unit/tiles/load_run.h"

#define MS VT_NS_PER_MS
#define S VT_NS_PER_S

static struct load_run run;

static int set_up(void **state)
{
    static struct nginx nginx;

    *state = NULL;
    if (!nginx_present())
        return 0;
    echo_clear();
    *state = &nginx;
    return 0;
}

static int tear_down(void **state)
{
    if (*state)
        nginx_fini(*state);
    return 0;
}

static struct nginx *serve(void **state, bool tls, const char *server)
{
    if (!*state)
        skip();
    nginx_init(*state, tls, server);
    nginx_start(*state);
    return *state;
}

static void print_run(const char *what)
{
    print_message("%s: %zu intended, %zu good, %zu slow, %zu wrong, %zu failed; %zu connections, "
                  "queue up to %zu; wake lag p50 %.3f p99 %.3f ms; response p50 %.2f p99 %.2f ms\n",
                  what, (size_t)run.intended, (size_t)run.good, (size_t)run.slow, (size_t)run.wrong,
                  (size_t)run.failed, (size_t)run.totals.connections_opened,
                  (size_t)run.totals.queue_high,
                  (double)vt_hist_quantile(&run.wake_lag, 500000) / 1e6,
                  (double)vt_hist_quantile(&run.wake_lag, 990000) / 1e6,
                  (double)vt_hist_quantile(&run.response, 500000) / 1e6,
                  (double)vt_hist_quantile(&run.response, 990000) / 1e6);
}

/* What was written, by the driver's own clock: each step once, none before its time. */
static void check_written(const struct schedule *schedule)
{
    for (size_t i = 0; i < schedule->nsteps; i++) {
        assert_int_equal(echo_written_count[i], 1);
        assert_true(echo_written_ns[i] >= run.t0_ns + schedule->steps[i].intended_ns);
    }
}

/*
 * The schedule held against the server's log: each request is there exactly once, at or after its
 * time. nginx stamps a request with the time at which it last woke up; one that comes while it is
 * still at work (on a handshake, say) carries an older stamp. So a few may look early by as long
 * as such work takes on a busy machine. check_written() has no such exception.
 */
static void check_log(const struct schedule *schedule, unsigned status_of_argument[3])
{
    size_t n, early = 0;
    VT_AUTO_FREE struct nginx_line *lines = nginx_log(run.nginx, schedule->nsteps, &n);
    VT_AUTO_FREE unsigned *seen = calloc(schedule->nsteps, sizeof *seen);
    double earliest_s = 0;

    assert_int_equal(n, schedule->nsteps);
    for (size_t i = 0; i < n; i++) {
        const struct driver_step *step;
        double after_s;

        assert_true(lines[i].r < schedule->nsteps);
        step = &schedule->steps[lines[i].r];
        seen[lines[i].r]++;
        assert_int_equal(lines[i].status, status_of_argument[step->argument]);
        after_s = lines[i].time_s - (double)(run.wall_t0_ns + step->intended_ns) * 1e-9;
        early += after_s < -0.001; /* the stamp is cut to ms */
        earliest_s = fmin(earliest_s, after_s);
    }
    for (size_t i = 0; i < schedule->nsteps; i++)
        assert_int_equal(seen[i], 1);
    print_message("log: %zu lines, %zu stamped before their time, by up to %.1f ms\n", n, early,
                  -earliest_s * 1e3);
    assert_true(early <= n / 20);
    assert_true(earliest_s > -0.1);
}

/* Nothing was in the generator's way but the machine that the test runs on. */
static void check_generator(int64_t window_ns, unsigned steps)
{
    const struct vt_record_generator *generator = &run.totals.generator;

    assert_true(generator->connections == 16 && generator->pooled == 1);
    assert_int_equal(generator->watched_ns, window_ns);
    assert_int_equal(generator->open, 16000000);
    assert_true(generator->waiting_ns < window_ns / 2);
    assert_int_equal(generator->gaps, steps - 1);
    assert_true(generator->receive_bytes >= 4096 && generator->send_bytes >= 4096);
}

static void check_replay(void **state, const struct driver *driver)
{
    enum { SECONDS = SANITIZED ? 1 : 2, STEPS = 500 * SECONDS };
    struct schedule schedule = echo_schedule(STEPS, SECONDS * S, 1);
    unsigned statuses[] = {200, 503, 444};

    load_run_init(&run, serve(state, driver->tls, echo_server), driver, &schedule, SECONDS * S);
    load_run(&run);
    print_run(driver->tls ? "TLS" : "plain");
    assert_int_equal(run.good, STEPS);
    assert_int_equal(run.nseconds, 2 * SECONDS); /* of two operations each */
    assert_true(run.finished_ns >= run.t0_ns + run.window_ns);
    assert_int_equal(run.totals.connections_opened, 16);
    assert_string_equal(run.totals.first_failure, "");
    check_generator(SECONDS * S, STEPS);
    check_written(&schedule);
    check_log(&schedule, statuses);
    schedule_dispose(&schedule);
}

static void test_replay(void **state)
{
    check_replay(state, &echo_driver);
}

static void test_replay_tls(void **state)
{
    check_replay(state, &echo_tls_driver);
}

/*
 * The server is stopped for S in a window of T: whatever is due then waits, so the response times
 * from the intended time are uniform on [0, S] for the share S / T of the requests, and
 * p_q = S - (1 - q) T. Measured from sending, the stop would hide in as many requests as there are
 * connections.
 */
static void test_stall(void **state)
{
    static const uint32_t q[] = {900000, 950000, 990000};
    enum { STEPS = SANITIZED ? 1000 : 2000 };
    const int64_t window_ns = STEPS * S / 400;
    struct schedule schedule = echo_schedule(STEPS, window_ns, 2);
    double stop_s;

    load_run_init(&run, serve(state, false, echo_server), &echo_driver, &schedule, window_ns);
    run.actions[0] = (struct load_action){window_ns * 20 / 100, load_run_stall};
    run.actions[1] = (struct load_action){window_ns * 44 / 100, load_run_resume};
    load_run(&run);
    print_run("stall");
    stop_s = (double)(run.resumed_ns - run.stalled_ns) * 1e-9;
    for (unsigned i = 0; i < VT_COUNT(q); i++) {
        double want_s = stop_s - (1 - q[i] * 1e-6) * (double)window_ns * 1e-9;
        double got_s = (double)vt_hist_quantile(&run.response, q[i]) * 1e-9;

        print_message("p%.0f: %.3f s, S - (1-q)T = %.3f s (S = %.3f s)\n", q[i] * 1e-4, got_s,
                      want_s, stop_s);
        /* Counts of the stop scatter (Poisson, sqrt(480) of 2000 is 0.055 s); draining 480 takes
         * a while on a busy machine. */
        assert_true(got_s > want_s * 0.9 - 0.06);
        assert_true(got_s < want_s * 1.1 + 0.25);
    }
    assert_int_equal(run.good + run.slow, STEPS);
    /* All but the 16 under way saw a quick server. */
    assert_true(vt_hist_quantile(&run.service, 980000) <
                vt_hist_quantile(&run.response, 980000) / 4);
    assert_true(run.totals.queue_high > STEPS / 10);
    /* From when the 16 were taken until the backlog was worked off. */
    assert_true((double)run.totals.generator.waiting_ns * 1e-9 > stop_s * 0.9 - 0.1);
    assert_true((double)run.totals.generator.waiting_ns * 1e-9 < stop_s * 1.1 + 0.5);
    check_written(&schedule);
    schedule_dispose(&schedule);
}

/* One per cent of errors, half of them answers with another status, half connections that end
 * without an answer: each is counted as what it is, and costs no other request. */
static void test_errors(void **state)
{
    struct schedule schedule = echo_schedule(1000, S, 3);
    unsigned statuses[] = {200, 503, 444};

    for (size_t i = 50; i < schedule.nsteps; i += 100)
        schedule.steps[i].argument = i / 100 % 2 ? ECHO_WRONG : ECHO_CUT;
    load_run_init(&run, serve(state, false, echo_server), &echo_driver, &schedule, S);
    load_run(&run);
    print_run("errors");
    print_message("first failure: %s\n", run.totals.first_failure);
    assert_int_equal(run.good, 990);
    assert_int_equal(run.wrong, 5);
    assert_int_equal(run.failed, 5);
    assert_int_equal(run.totals.connections_opened, 16 + 5);
    assert_non_null(strstr(run.totals.first_failure, "50 failed: "));
    check_written(&schedule);
    check_log(&schedule, statuses);
    schedule_dispose(&schedule);
}

/* The good limit decides between good and slow; an operation's own comes first. */
static void test_slow(void **state)
{
    struct schedule schedule = echo_schedule(400, S, 4);
    size_t odd = 0;

    for (size_t i = 0; i < schedule.nsteps; i++)
        odd += schedule.steps[i].operation;
    load_run_init(&run, serve(state, false, echo_server), &echo_driver, &schedule, S);
    run.load.noperations = 1;
    vt_text_copy(run.load.operations[0].name, sizeof run.load.operations[0].name, "odd");
    run.load.operations[0].good_limit_ns = 1;
    load_run(&run);
    assert_int_equal(run.slow, odd);
    assert_int_equal(run.good, 400 - odd);
    schedule_dispose(&schedule);
}

/* A server that ends each connection after five requests: "Connection: close" on the last. */
static void test_connections_end(void **state)
{
    struct schedule schedule = echo_schedule(500, S, 5);
    unsigned statuses[] = {200, 503, 444};

    load_run_init(
        &run, serve(state, true, "location /0 { return 200 \"$arg_r\\n\"; } keepalive_requests 5;"),
        &echo_tls_driver, &schedule, S);
    load_run(&run);
    print_run("five requests a connection");
    assert_int_equal(run.good, 500);
    assert_in_range(run.totals.connections_opened, 100, 116);
    check_log(&schedule, statuses);
    schedule_dispose(&schedule);
}

/* nginx ends a connection that has been silent for a second. It is opened again, and no request is
 * lost on it: those used last are used first, so that only they are old enough to end. */
static void test_idle_connections_end(void **state)
{
    struct schedule schedule = echo_schedule(40, 4 * S, 6);

    load_run_init(
        &run,
        serve(state, false, "location /0 { return 200 \"$arg_r\\n\"; } client_header_timeout 1s;"),
        &echo_driver, &schedule, 4 * S);
    run.load.connections = 4;
    load_run(&run);
    print_run("silent for a second");
    assert_int_equal(run.good, 40);
    assert_in_range(run.totals.connections_opened, 4 + 3, 4 + 3 * 4);
    schedule_dispose(&schedule);
}

/* The server is stopped for longer than the time-out: what was due more than that before its end
 * has failed, the rest is good or slow, and then all goes on on fresh connections. */
static void test_time_out(void **state)
{
    struct schedule schedule = echo_schedule(1000, 2 * S, 7);
    size_t lost = 0, kept = 0;

    load_run_init(&run, serve(state, false, echo_server), &echo_driver, &schedule, 2 * S);
    run.load.timeout_ns = 500 * MS;
    run.actions[0] = (struct load_action){300 * MS, load_run_stall};
    run.actions[1] = (struct load_action){1400 * MS, load_run_resume};
    load_run(&run);
    print_run("time-out");
    for (size_t i = 0; i < schedule.nsteps; i++) {
        int64_t due_ns = run.t0_ns + schedule.steps[i].intended_ns;

        lost += due_ns > run.stalled_ns && due_ns + run.load.timeout_ns < run.resumed_ns;
        kept += due_ns + 50 * MS < run.stalled_ns || due_ns > run.resumed_ns;
    }
    assert_true(lost > 200);
    assert_in_range(run.failed, lost, 1000 - kept);
    assert_true(run.good >= kept);
    assert_true(strstr(run.totals.first_failure, "failed: timed out") != NULL);
    assert_true(vt_hist_quantile(&run.response, 1000000) <= 500 * MS + 50 * MS);
    schedule_dispose(&schedule);
}

static void kill_server(struct load_run *r)
{
    nginx_kill(r->nginx, SIGKILL);
    r->stalled_ns = vt_clock_now_ns();
}

static void start_server(struct load_run *r)
{
    nginx_start(r->nginx);
    r->resumed_ns = vt_clock_now_ns();
}

/* The server dies and comes back: only what was under way fails; what is due meanwhile waits. */
static void test_server_restarts(void **state)
{
    struct schedule schedule = echo_schedule(1000, 2 * S, 8);

    load_run_init(&run, serve(state, true, echo_server), &echo_tls_driver, &schedule, 2 * S);
    run.actions[0] = (struct load_action){500 * MS, kill_server};
    run.actions[1] = (struct load_action){1200 * MS, start_server};
    load_run(&run);
    print_run("restart");
    assert_int_equal(run.good + run.failed, 1000);
    assert_in_range(run.failed, 0, 16);
    assert_true(run.totals.connections_opened >= 32);
    assert_true(run.totals.connections_failed > 0);
    schedule_dispose(&schedule);
}

/* What is open at the end of drain has failed, and the end is not waited for longer. */
static void test_drain_ends(void **state)
{
    struct schedule schedule = echo_schedule(500, S, 9);

    load_run_init(&run, serve(state, false, echo_server), &echo_driver, &schedule, S);
    run.drain_ns = 500 * MS;
    run.actions[0] = (struct load_action){500 * MS, load_run_stall};
    load_run(&run);
    print_run("drain");
    assert_int_equal(run.intended, 500);
    assert_in_range(run.failed, 150, 350);
    assert_int_equal(run.good + run.failed, 500);
    assert_true(run.finished_ns >= run.t0_ns + 1500 * MS);
    assert_true(run.finished_ns < run.t0_ns + 5 * S);
    assert_non_null(strstr(run.totals.first_failure, "still open at the end of drain"));
    schedule_dispose(&schedule);
}

static void stop_engine(struct load_run *r)
{
    engine_stop(r->engine);
}

static void test_stop(void **state)
{
    struct schedule schedule = echo_schedule(2000, 4 * S, 10);

    load_run_init(&run, serve(state, false, echo_server), &echo_driver, &schedule, 4 * S);
    run.actions[0] = (struct load_action){500 * MS, load_run_stall};
    run.actions[1] = (struct load_action){1500 * MS, stop_engine};
    load_run(&run);
    print_run("stopped at 1.5 s");
    assert_in_range(run.intended, 600, 1990);
    assert_true(run.failed > 300);
    assert_int_equal(run.intended, run.good + run.failed);
    assert_true(run.finished_ns < run.t0_ns + 4 * S);
    schedule_dispose(&schedule);
}

static void free_engine(struct load_run *r)
{
    r->engine = engine_free(r->engine);
    r->opened = false;
}

/* Freed in the middle: nothing is called any more and nothing is left. */
static void test_free_early(void **state)
{
    struct schedule schedule = echo_schedule(1000, 4 * S, 11);

    load_run_init(&run, serve(state, true, echo_server), &echo_tls_driver, &schedule, 4 * S);
    run.actions[0] = (struct load_action){300 * MS, free_engine};
    load_run(&run);
    assert_false(run.finished);
    assert_null(engine_free(NULL));
    schedule_dispose(&schedule);
}

static void test_open_fails(void **state)
{
    struct schedule schedule = echo_schedule(10, S, 12);
    struct nginx *nginx = serve(state, false, echo_server);

    nginx_kill(nginx, SIGKILL);
    load_run_init(&run, nginx, &echo_driver, &schedule, S);
    load_run(&run);
    assert_false(run.opened);
    print_message("%s\n", run.open_err.text);
    assert_non_null(strstr(run.open_err.text, "connect to 127.0.0.1 port "));
    assert_non_null(strstr(run.open_err.text, "refused"));
    schedule_dispose(&schedule);
}

/* Two steps of one session at once: the second waits, and its response counts the wait. */
static void test_session_waits(void **state)
{
    struct schedule schedule = echo_schedule(20, S, 13);

    for (size_t i = 0; i < schedule.nsteps; i++) {
        schedule.steps[i].intended_ns = 100 * MS;
        schedule.steps[i].session = 0;
    }
    load_run_init(&run, serve(state, false, echo_server), &echo_driver, &schedule, S);
    load_run(&run);
    assert_int_equal(run.good, 20);
    for (size_t i = 1; i < schedule.nsteps; i++)
        assert_true(echo_written_ns[i] > echo_written_ns[i - 1]);
    assert_true(run.totals.queue_high <= 1);
    /* From the intended time they add up, from sending they are alike. */
    assert_true(run.response.max > 3 * run.service.min);
    assert_int_equal(run.totals.connections_opened, 16);
    schedule_dispose(&schedule);
}

/* A server of the test's own in a process of its own. */
struct fork_server {
    struct nginx nginx; /* its port, for load_run_init() */
    pid_t pid;
};

static void fork_server_start(struct fork_server *server, void (*serve_one)(int listener))
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t parent = getpid();

    *server = (struct fork_server){0};
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    server->nginx.port = ntohs(address.sin_port);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            serve_one(listener);
        _exit(0);
    }
    close(listener);
}

static void fork_server_stop(struct fork_server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
}

/* Answers the requests of one connection after the other, and after each answer sends one more that
 * nobody asked for. */
static void serve_twice(int listener)
{
    char text[512];
    unsigned r;
    int fd = accept(listener, NULL, NULL);

    while (fd >= 0) {
        ssize_t n = recv(fd, text, sizeof text - 1, 0); /* a request comes whole on loopback */

        if (n <= 0)
            break;
        text[n] = '\0';
        if (sscanf(text, "GET /0?r=%u ", &r) != 1)
            break;
        n = snprintf(text, sizeof text,
                     "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%03u\n"
                     "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%03u\n",
                     r, r);
        if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
            break;
    }
    if (fd >= 0)
        close(fd);
}

/* An answer that nobody asked for is not taken for that of the next request: the connection ends,
 * and each request goes to a fresh one. */
static void test_unasked_answers(void **state)
{
    struct schedule schedule = echo_schedule(30, S, 14);
    struct fork_server server;

    (void)state;
    for (size_t i = 0; i < schedule.nsteps; i++) /* three digits, as the server writes them */
        schedule.steps[i].sequence += 100;
    fork_server_start(&server, serve_twice);
    load_run_init(&run, &server.nginx, &echo_driver, &schedule, S);
    run.load.connections = 1;
    load_run(&run);
    print_run("unasked answers");
    assert_int_equal(run.good, 30);
    assert_in_range(run.totals.connections_opened, 30, 31);
    fork_server_stop(&server);
    schedule_dispose(&schedule);
}

/* One connection's answers, each of four bytes: the first three after 300 ms, the last 100 ms
 * later. */
static void serve_in_two(int listener)
{
    enum { THINK_MS = 300, PAUSE_MS = 100 };
    int fd = accept(listener, NULL, NULL), on = 1;
    char text[512];
    unsigned r;

    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (fd >= 0) {
        ssize_t n = recv(fd, text, sizeof text - 1, 0);

        if (n <= 0)
            break;
        text[n] = '\0';
        if (sscanf(text, "GET /0?r=%u ", &r) != 1)
            break;
        n = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%03u", r);
        poll(NULL, 0, THINK_MS);
        if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
            break;
        poll(NULL, 0, PAUSE_MS);
        if (send(fd, "\n", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    if (fd >= 0)
        close(fd);
}

/* A rate is that of the transfer: 4 bytes in 0.1 s, 40 a second; with the time to the first byte it
 * would be 10. Between the two stands what a busy machine adds. */
static void test_rate_of_a_transfer(void **state)
{
    struct schedule schedule = echo_schedule(4, S, 15);
    struct fork_server server;

    (void)state;
    for (size_t i = 0; i < schedule.nsteps; i++)
        schedule.steps[i].sequence += 100;
    fork_server_start(&server, serve_in_two);
    load_run_init(&run, &server.nginx, &echo_driver, &schedule, S);
    run.load.connections = 1;
    run.load.noperations = 2;
    for (size_t i = 0; i < 2; i++)
        run.load.operations[i] =
            (struct spec_operation){.good_limit_ns = 10 * S, .min_bytes_per_s = {1, 1}};
    vt_text_copy(run.load.operations[0].name, sizeof run.load.operations[0].name, "even");
    vt_text_copy(run.load.operations[1].name, sizeof run.load.operations[1].name, "odd");
    load_run(&run);
    print_run("a transfer in two");
    assert_int_equal(run.good, 4);
    assert_int_equal(run.rate.count, 4);
    assert_true(run.service.min >= 390 * VT_NS_PER_MS);
    assert_true(run.rate.max >= 15);
    assert_true(run.rate.min <= 80);
    fork_server_stop(&server);
    schedule_dispose(&schedule);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_replay),
        TEST(test_replay_tls),
        TEST(test_stall),
        TEST(test_errors),
        TEST(test_slow),
        TEST(test_connections_end),
        TEST(test_idle_connections_end),
        TEST(test_time_out),
        TEST(test_server_restarts),
        TEST(test_drain_ends),
        TEST(test_stop),
        TEST(test_free_early),
        TEST(test_open_fails),
        TEST(test_session_waits),
        cmocka_unit_test(test_unasked_answers),
        cmocka_unit_test(test_rate_of_a_transfer),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
