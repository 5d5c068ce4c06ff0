/* SPDX-License-Identifier: Apache-2.0 */
/* All threads of `vtile load` together, against a small server on a thread of its own: what was
 * counted is what the schedule says, of a whole run and of one that a signal cut in the middle. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/thread.h"
#include "orchestrator/load/drive.h"

#define PEERS_MAX 64
#define SEED 42

/* --- the server --- */

struct server {
    pthread_t thread;
    uint16_t port;
    int listener, end[2];
    /* What the test asks of it: a SIGINT to this process at that request; 0: never. */
    unsigned interrupt_at;
    atomic_uint nrequests;
};

static bool answer(struct server *s, int fd)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char in[4096];
    ssize_t n = recv(fd, in, sizeof in - 1, 0);

    if (n <= 0)
        return false;
    in[n] = '\0';
    /* One request at a time is under way, and they are small: it comes in one piece. */
    assert_non_null(strstr(in, "\r\n\r\n"));
    if (atomic_fetch_add(&s->nrequests, 1) + 1 == s->interrupt_at)
        kill(getpid(), SIGINT);
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static void *serve(void *ctx)
{
    struct server *s = ctx;
    struct pollfd fds[PEERS_MAX + 2] = {{.fd = s->end[0], .events = POLLIN},
                                        {.fd = s->listener, .events = POLLIN}};
    nfds_t n = 2;

    while (poll(fds, n, -1) >= 0 && !fds[0].revents) {
        for (nfds_t i = n; i-- > 2;) {
            if (fds[i].revents && !answer(s, fds[i].fd)) {
                close(fds[i].fd);
                fds[i] = fds[--n];
            }
        }
        if (fds[1].revents && n < VT_COUNT(fds))
            fds[n++] = (struct pollfd){.fd = accept(s->listener, NULL, NULL), .events = POLLIN};
    }
    while (n > 2)
        close(fds[--n].fd);
    return NULL;
}

static struct server server;

static int set_up(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;

    *state = &server;
    server = (struct server){.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (bind(server.listener, (struct sockaddr *)&address, len) < 0 ||
        listen(server.listener, PEERS_MAX) < 0 ||
        getsockname(server.listener, (struct sockaddr *)&address, &len) < 0 || pipe(server.end) < 0)
        return -1;
    server.port = ntohs(address.sin_port);
    return vt_thread_start(&server.thread, serve, &server);
}

static int tear_down(void **state)
{
    (void)state;
    if (write(server.end[1], "", 1) != 1)
        return -1;
    pthread_join(server.thread, NULL);
    close(server.listener);
    close(server.end[0]);
    close(server.end[1]);
    return 0;
}

/* --- the load --- */

static struct load_options options;
static struct load_result result;

static void set_options(bool closed)
{
    char url[64];

    snprintf(url, sizeof url, "http://127.0.0.1:%u/", server.port);
    options = (struct load_options){.closed = closed,
                                    .rate = closed ? 0 : 300000000,
                                    .connections = 8,
                                    .threads = 3,
                                    .warm_up_ns = VT_NS_PER_S,
                                    .duration_ns = 2 * VT_NS_PER_S,
                                    .timeout_ns = 10 * VT_NS_PER_S,
                                    .seed = SEED};
    assert_int_equal(load_url_parse(url, &options.url, NULL), 0);
    assert_int_equal(load_url_resolve(&options.url, NULL), 0);
}

static unsigned nshown;
static uint64_t shown;

static void on_progress(void *ctx, int64_t since_start_ns, const struct load_tally *since)
{
    assert_ptr_equal(ctx, &options);
    assert_true(since_start_ns > 0);
    assert_int_equal(since->intended, since->good + since->wrong + since->failed);
    nshown++;
    shown += since->intended;
}

static void drive(void)
{
    struct vt_error err = VT_ERROR_INIT;

    nshown = 0;
    shown = 0;
    if (load_drive(&options, on_progress, &options, &result, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(result.tally.intended,
                     result.tally.good + result.tally.wrong + result.tally.failed);
    assert_int_equal(result.tally.service.count, result.tally.good);
    assert_int_equal(result.totals.early, 0);
    assert_int_equal(result.totals.connections_failed, 0);
    assert_int_equal(result.totals.connections_opened, 8);
    /* What was due at an interruption, or under way, need not have come. */
    assert_true(server.nrequests <= result.totals.intended);
    assert_true(server.nrequests + (result.interrupted ? 100 : 0) >= result.totals.intended);
    assert_true(shown <= result.totals.intended);
    assert_true(result.cpu_ns > 0);
}

/* How many are due in [from, to) seconds, by the schedule itself. */
static uint64_t due_in(int64_t from, int64_t to, char hash[65])
{
    const struct schedule_segment segments[] = {{.length_ns = options.warm_up_ns},
                                                {.length_ns = options.duration_ns}};
    struct schedule schedule;
    uint64_t n = 0;

    assert_int_equal(
        schedule_draw_apart(&get_http, options.rate, segments, 2, SEED, "load", &schedule, NULL),
        0);
    for (size_t i = 0; i < schedule.nsteps; i++)
        n += schedule.steps[i].intended_ns >= from * VT_NS_PER_S &&
             schedule.steps[i].intended_ns < to * VT_NS_PER_S;
    vt_text_hex(schedule.hash, sizeof schedule.hash, hash);
    schedule_dispose(&schedule);
    return n;
}

static void test_open(void **state)
{
    (void)state;
    char hash[65];

    set_options(false);
    drive();
    assert_false(result.interrupted);
    assert_int_equal(result.seconds, 2);
    assert_int_equal(result.lasted_ns, 3 * VT_NS_PER_S);
    assert_int_equal(result.totals.intended, 900);
    assert_int_equal(result.tally.intended, 600);
    assert_int_equal(result.tally.good, 600);
    assert_int_equal(due_in(1, 3, hash), 600);
    assert_string_equal(result.schedule_hash, hash);
    assert_int_equal(result.tally.response.count, 600);
    assert_int_equal(result.tally.wake_lag.count, 600);
    assert_string_equal(result.totals.first_failure, "");
    assert_in_range(nshown, 1, 4);
}

/* Request 700 of 900 is due in the third second: the second one counts, the cut one does not. */
static void test_interrupted(void **state)
{
    (void)state;
    char hash[65];

    set_options(false);
    server.interrupt_at = 700;
    drive();
    print_message("interrupted after %.3f s\n", (double)result.lasted_ns / 1e9);
    assert_true(result.interrupted);
    assert_in_range(result.totals.intended, 700, 900);
    assert_int_equal(result.seconds, result.lasted_ns / VT_NS_PER_S - 1);
    assert_in_range(result.seconds, 1, 2);
    assert_int_equal(result.tally.intended, due_in(1, 1 + (int64_t)result.seconds, hash));
    /* All were answered at once; those of the last moment are in the cut second. */
    assert_int_equal(result.tally.good, result.tally.intended);
}

static void test_interrupted_in_warm_up(void **state)
{
    (void)state;
    set_options(false);
    options.warm_up_ns = 10 * VT_NS_PER_S;
    server.interrupt_at = 20;
    drive();
    assert_true(result.interrupted);
    assert_int_equal(result.seconds, 0);
    assert_int_equal(result.tally.intended, 0);
    assert_in_range(result.totals.intended, 20, 3000);
}

static void test_closed(void **state)
{
    (void)state;
    set_options(true);
    drive();
    print_message("%zu requests in all\n", (size_t)result.totals.intended);
    assert_int_equal(result.seconds, 2);
    assert_int_equal(result.tally.good, result.tally.intended);
    assert_true(result.tally.good > 8);
    assert_true(result.totals.intended > result.tally.intended); /* the warm-up */
    assert_int_equal(result.tally.response.count, 0);
    assert_string_equal(result.schedule_hash, "");
}

static void test_closed_interrupted(void **state)
{
    (void)state;
    set_options(true);
    options.think_ns = 20 * VT_NS_PER_MS;
    options.warm_up_ns = 0;
    options.duration_ns = 100 * VT_NS_PER_S;
    server.interrupt_at = 600; /* 8 connections, 50 a second each at most: above 1.5 s */
    drive();
    print_message("interrupted after %.3f s\n", (double)result.lasted_ns / 1e9);
    assert_true(result.interrupted);
    assert_true(result.lasted_ns >= 1480 * VT_NS_PER_MS);
    assert_int_equal(result.seconds, result.lasted_ns / VT_NS_PER_S);
    assert_true(result.seconds >= 1);
    assert_true(result.tally.intended < result.totals.intended);
    assert_int_equal(result.tally.failed, 0);
}

/* One thread's error ends all of them. */
static void test_refused(void **state)
{
    (void)state;
    struct vt_error err = VT_ERROR_INIT;

    set_options(false);
    options.url.target.port = 1;
    assert_true(load_drive(&options, NULL, NULL, &result, &err) < 0);
    assert_int_equal(err.kind, VT_KIND_INFRA);
    assert_non_null(strstr(err.text, "connect to 127.0.0.1 port 1"));
    assert_int_equal(server.nrequests, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_open),   TEST(test_interrupted),        TEST(test_interrupted_in_warm_up),
        TEST(test_closed), TEST(test_closed_interrupted), TEST(test_refused),
    };

    return cmocka_run_group_tests_name("load_drive", tests, NULL, NULL);
}
