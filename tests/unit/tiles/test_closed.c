/* SPDX-License-Identifier: Apache-2.0 */
/* The closed loop against a small server on the same loop: every request is counted once, as what
 * it was; time-outs, think times, servers that end connections, an early end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/hist.h"
#include "tests/unit/tiles/page_server.h"
#include "tiles/load/closed.h"
#include "tiles/load/get.h"

#define MS VT_NS_PER_MS
/* What a busy machine may add to a time. */
#define SLACK_NS (1000 * MS)

static const struct get_page page = {.host = "web.test", .path = "/"};

struct trial {
    /* what is asked for */
    struct closed_config config;
    enum page_what what, later; /* of the server, and from later_ns on */
    int64_t later_ns, stop_ns, lead_ns;
    bool drop_before_start;

    struct vt_loop loop;
    struct page_server *server;
    struct closed *closed;
    uv_timer_t timer;
    int64_t t0_ns, finished_ns;
    /* what came of it */
    bool opened, finished;
    unsigned server_open_at_t0;
    struct vt_error open_err;
    struct engine_totals totals;
    uint64_t right, wrong, failed, bytes;
    int64_t last_second;
    struct vt_hist service;
};
static struct trial trial;

static struct trial *begin_trial(enum page_what what)
{
    memset(&trial, 0, sizeof trial);
    trial.config = (struct closed_config){
        .driver = &get_http,
        .target = {.address = "127.0.0.1", .server_name = "web.test", .context = &page},
        .connections = 4,
        .timeout_ns = 10 * VT_NS_PER_S,
        .length_ns = 300 * MS,
    };
    trial.what = trial.later = what;
    trial.lead_ns = 20 * MS;
    vt_hist_init(&trial.service);
    return &trial;
}

/* Comes round every 5 ms: what the trial asks for by time. */
static void on_pace(uv_timer_t *timer)
{
    struct trial *t = timer->data;
    int64_t since_ns = vt_clock_now_ns() - t->t0_ns;

    if (!t->opened || !t->closed)
        return;
    if (t->later_ns > 0 && since_ns >= t->later_ns)
        t->server->what = t->later;
    if (t->stop_ns > 0 && since_ns >= t->stop_ns)
        closed_stop(t->closed);
}

static void on_opened(void *ctx, int status, const struct vt_error *err)
{
    struct trial *t = ctx;
    struct vt_error start_err = VT_ERROR_INIT;

    t->opened = status == 0;
    if (status < 0) {
        t->open_err = *err;
        t->closed = closed_free(t->closed);
        return;
    }
    if (t->drop_before_start)
        page_server_drop_all(t->server);
    t->t0_ns = vt_clock_now_ns() + t->lead_ns;
    if (closed_start(t->closed, t->t0_ns, &start_err) < 0)
        fail_msg("%s", start_err.text);
}

static void on_ended(void *ctx, const struct closed_request *request)
{
    struct trial *t = ctx;

    assert_false(t->finished);
    assert_true(request->second >= 0);
    t->last_second = request->second > t->last_second ? request->second : t->last_second;
    t->right += request->outcome == CLOSED_RIGHT;
    t->wrong += request->outcome == CLOSED_WRONG;
    t->failed += request->outcome == CLOSED_FAILED;
    t->bytes += request->bytes;
    vt_hist_record(&t->service, request->service_ns);
}

static void on_finished(void *ctx, const struct engine_totals *totals)
{
    struct trial *t = ctx;

    assert_false(t->finished);
    t->finished = true;
    t->finished_ns = vt_clock_now_ns();
    t->totals = *totals;
    t->closed = closed_free(t->closed);
}

static const struct closed_events events = {
    .opened = on_opened, .ended = on_ended, .finished = on_finished};

static void check_sums(const struct trial *t)
{
    assert_true(t->finished);
    assert_int_equal(t->totals.intended, t->right + t->wrong + t->failed);
    assert_int_equal(t->totals.good, t->right);
    assert_int_equal(t->totals.wrong, t->wrong);
    assert_int_equal(t->totals.failed, t->failed);
    assert_int_equal(t->totals.slow, 0);
    assert_int_equal(t->totals.early, 0);
    assert_true(t->totals.right_in_window <= t->totals.good);
    assert_int_equal(t->server->nrequests, t->totals.intended);
    for (unsigned i = 0; i < t->server->nrequests; i++)
        assert_true(t->server->requests[i].at_ns >= t->t0_ns);
}

static void run_trial(struct trial *t)
{
    struct vt_error err = VT_ERROR_INIT;

    assert_int_equal(vt_loop_init(&t->loop, &err), 0);
    t->server = page_server_start(&t->loop);
    t->server->what = t->what;
    if (t->config.target.port == 0)
        t->config.target.port = t->server->port;
    if (closed_new(&t->loop, &t->config, &events, t, &t->closed, &err) < 0)
        fail_msg("%s", err.text);
    uv_timer_init(&t->loop.uv, &t->timer);
    t->timer.data = t;
    uv_timer_start(&t->timer, on_pace, 5, 5);
    closed_open(t->closed);
    while (t->closed)
        uv_run(&t->loop.uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&t->timer, NULL);
    page_server_stop(t->server);
    vt_loop_dispose(&t->loop);
    if (t->opened)
        check_sums(t);
}

static void end_trial(struct trial *t)
{
    free(t->server);
}

static void test_right(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_RIGHT);

    run_trial(t);
    print_message("%zu requests in 0.3 s\n", (size_t)t->right);
    assert_true(t->right > 4);
    assert_int_equal(t->right, t->totals.intended);
    assert_int_equal(t->bytes, 5 * t->right);
    assert_int_equal(t->last_second, 0);
    assert_int_equal(t->totals.connections_opened, 4);
    assert_true(t->totals.right_in_window + 4 >=
                t->right); /* no more than one a connection after */
    assert_in_range(t->finished_ns - t->t0_ns, 300 * MS, 300 * MS + SLACK_NS);
    assert_string_equal(t->totals.first_failure, "");
    end_trial(t);
}

static void test_wrong(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_WRONG);

    run_trial(t);
    assert_true(t->wrong > 4);
    assert_int_equal(t->wrong, t->totals.intended);
    assert_int_equal(t->totals.connections_opened, 4); /* they stay usable */
    assert_string_equal(t->totals.first_failure, "get wrong: the status is 503");
    end_trial(t);
}

/* Two requests a connection: the second begins once the first has timed out, at 0.2 s, and times
 * out after the end, at 0.4 s or soon after. A tick is 50 ms. */
static void test_time_out(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_SILENT);

    t->config.timeout_ns = 200 * MS;
    run_trial(t);
    assert_int_equal(t->failed, t->totals.intended);
    assert_in_range(t->failed, 4, 8);
    assert_true(t->service.min >= 200 * MS);
    assert_in_range(t->service.max, 200 * MS, 250 * MS + SLACK_NS);
    assert_in_range(t->finished_ns - t->t0_ns, 300 * MS, 550 * MS + SLACK_NS);
    assert_string_equal(t->totals.first_failure, "get failed: timed out");
    assert_int_equal(t->totals.right_in_window, 0);
    end_trial(t);
}

/* A stall of the server is one slow answer a connection. */
static void test_stall(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_RIGHT);

    t->config.timeout_ns = 500 * MS;
    t->config.length_ns = 400 * MS;
    t->later = PAGE_SILENT;
    t->later_ns = 100 * MS;
    run_trial(t);
    assert_int_equal(t->failed, 4);
    assert_true(t->right > 4);
    assert_int_equal(t->right + 4, t->totals.intended);
    end_trial(t);
}

static void test_server_closes(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_LAST);

    run_trial(t);
    print_message("%zu requests, a connection each\n", (size_t)t->right);
    assert_true(t->right > 4);
    assert_int_equal(t->right, t->totals.intended);
    assert_in_range(t->totals.connections_opened, t->right, t->right + 4);
    end_trial(t);
}

/* A connection that ends without an answer soon after it was opened rests for 100 ms. */
static void test_server_cuts(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_CUT);

    run_trial(t);
    assert_int_equal(t->failed, t->totals.intended);
    assert_in_range(t->failed, 4, 4 * 3);
    assert_non_null(strstr(t->totals.first_failure, "get failed: "));
    end_trial(t);
}

/* The first requests are spread over the think time; later ones follow an answer by it at least. */
static void test_think(void **state)
{
    (void)state;
    enum { THINK_MS = 100 };
    struct trial *t = begin_trial(PAGE_RIGHT);
    int64_t last_ns[4] = {0};
    unsigned n[4] = {0};

    t->config.think_ns = THINK_MS * MS;
    t->config.length_ns = 1000 * MS;
    run_trial(t);
    assert_int_equal(t->right, t->totals.intended);
    assert_in_range(t->right, 4, 4 * 10);
    for (unsigned i = 0; i < t->server->nrequests; i++) {
        const struct page_request *request = &t->server->requests[i];
        unsigned c = request->connection;

        assert_true(c < 4);
        if (n[c]++ > 0)
            assert_true(request->at_ns - last_ns[c] >= THINK_MS * MS);
        last_ns[c] = request->at_ns;
        if (i < 4) /* one a quarter of the think time */
            assert_true(request->at_ns - t->t0_ns >= THINK_MS / 4 * MS * i);
    }
    for (unsigned c = 0; c < 4; c++)
        assert_true(n[c] >= 1);
    end_trial(t);
}

static void test_stop(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_SILENT);

    t->config.length_ns = 3600 * VT_NS_PER_S;
    t->stop_ns = 100 * MS;
    run_trial(t);
    assert_int_equal(t->totals.intended, 4);
    assert_int_equal(t->failed, 4);
    assert_in_range(t->finished_ns - t->t0_ns, 100 * MS, 100 * MS + SLACK_NS);
    assert_string_equal(t->totals.first_failure, "get failed: the load was stopped");
    end_trial(t);
}

/* All connections end between their opening and T0: they are opened again, and the loop does not
 * spin meanwhile (a turn every 5 ms of the trial's own, and a tick every 50 ms). */
static void test_lost_before_start(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_RIGHT);

    t->drop_before_start = true;
    t->config.length_ns = 600 * MS;
    run_trial(t);
    assert_true(t->right > 4);
    assert_int_equal(t->right, t->totals.intended);
    assert_int_equal(t->totals.connections_opened, 8);
    end_trial(t);
}

static void test_refused(void **state)
{
    (void)state;
    struct trial *t = begin_trial(PAGE_RIGHT);

    t->config.target.port = 1; /* nobody listens there */
    run_trial(t);
    assert_false(t->opened);
    assert_int_equal(t->open_err.kind, VT_KIND_INFRA);
    assert_non_null(strstr(t->open_err.text, "connect to 127.0.0.1 port 1"));
    assert_int_equal(t->server->nrequests, 0);
    end_trial(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_time_out),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_server_closes),
        cmocka_unit_test(test_server_cuts),
        cmocka_unit_test(test_think),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_lost_before_start),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("closed", tests, NULL, NULL);
}
