/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/load_run.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"

void load_run_init(struct load_run *run, struct nginx *nginx, const struct driver *driver,
                   const struct schedule *schedule, int64_t window_ns)
{
    memset(run, 0, sizeof *run);
    run->nginx = nginx;
    run->driver = driver;
    run->schedule = schedule;
    run->window_ns = window_ns;
    run->drain_ns = 30 * VT_NS_PER_S;
    run->load.connections = 16;
    run->load.timeout_ns = 20 * VT_NS_PER_S;
    run->load.good_limit_ns = 10 * VT_NS_PER_S;
}

void load_run_stall(struct load_run *run)
{
    nginx_kill(run->nginx, SIGSTOP);
    run->stalled_ns = vt_clock_now_ns();
}

void load_run_resume(struct load_run *run)
{
    nginx_kill(run->nginx, SIGCONT);
    run->resumed_ns = vt_clock_now_ns();
}

static void on_opened(void *ctx, int status, const struct vt_error *err)
{
    struct load_run *run = ctx;
    struct vt_error start_err = VT_ERROR_INIT;

    run->opened = status == 0;
    if (status < 0) {
        run->open_err = *err;
        run->engine = engine_free(run->engine);
        return;
    }
    run->t0_ns = vt_clock_now_ns() + 20 * VT_NS_PER_MS;
    run->wall_t0_ns = vt_clock_wall_ns() + (run->t0_ns - vt_clock_now_ns());
    if (engine_start(run->engine, run->t0_ns, &start_err) < 0)
        fail_msg("%s", start_err.text);
}

static void on_second(void *ctx, const struct vt_load_second *second)
{
    struct load_run *run = ctx;

    assert_true(second->second >= run->last_second);
    run->last_second = second->second;
    run->nseconds++;
    assert_true(second->intended > 0);
    assert_int_equal(second->intended,
                     second->good + second->slow + second->wrong + second->failed);
    assert_int_equal(second->response->count, second->good + second->slow);
    assert_int_equal(second->service->count, second->good + second->slow);
    assert_int_equal(second->wake_lag->count, second->intended);
    run->intended += second->intended;
    run->good += second->good;
    run->slow += second->slow;
    run->wrong += second->wrong;
    run->failed += second->failed;
    run->bytes += second->bytes;
    vt_hist_merge(&run->response, second->response);
    vt_hist_merge(&run->service, second->service);
    vt_hist_merge(&run->wake_lag, second->wake_lag);
    vt_hist_merge(&run->rate, second->rate);
}

static void on_finished(void *ctx, const struct engine_totals *totals)
{
    struct load_run *run = ctx;
    const uint8_t *bits = engine_acknowledged(run->engine, &run->nacknowledged);

    assert_false(run->finished);
    assert_true(run->nacknowledged <= sizeof run->acknowledged);
    if (bits)
        memcpy(run->acknowledged, bits, run->nacknowledged);
    run->finished = true;
    run->finished_ns = vt_clock_now_ns();
    run->totals = *totals;
    run->engine = engine_free(run->engine);
}

static const struct engine_events events = {
    .opened = on_opened,
    .second = on_second,
    .finished = on_finished,
};

static void on_pace(uv_timer_t *timer)
{
    (void)timer;
}

/* Drives the loop and the actions until nothing is left of the engine. */
static void turn(struct load_run *run)
{
    unsigned next = 0;

    uv_timer_init(&run->loop.uv, &run->pace);
    while (run->engine) {
        const struct load_action *action = &run->actions[next];
        int64_t now_ns = vt_clock_now_ns();

        if (run->opened && next < LOAD_RUN_ACTIONS_MAX && action->act) {
            int64_t at_ns = run->t0_ns + action->at_ns;

            if (now_ns >= at_ns) {
                next++;
                action->act(run);
                continue;
            }
            uv_update_time(&run->loop.uv);
            uv_timer_start(&run->pace, on_pace, (uint64_t)((at_ns - now_ns) / VT_NS_PER_MS) + 1, 0);
        }
        uv_run(&run->loop.uv, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&run->pace, NULL);
}

static void check_sums(const struct load_run *run)
{
    const struct engine_totals *totals = &run->totals;

    assert_true(run->finished);
    assert_int_equal(run->intended, totals->intended);
    assert_int_equal(run->good, totals->good);
    assert_int_equal(run->slow, totals->slow);
    assert_int_equal(run->wrong, totals->wrong);
    assert_int_equal(run->failed, totals->failed);
    assert_int_equal(totals->early, 0);
}

void load_run(struct load_run *run)
{
    const struct driver_target of_nginx = {.tile = 1,
                                           .address = "127.0.0.1",
                                           .port = run->nginx ? run->nginx->port : 0,
                                           .server_name = "web.test"};
    struct engine_config config = {
        .driver = run->driver,
        .load = &run->load,
        .schedule = run->schedule,
        .target = run->nginx ? of_nginx : run->target,
        .tls = run->driver->tls ? nginx_client_context(run->nginx) : NULL,
        .drain_ns = run->drain_ns,
        .window_ns = run->window_ns,
    };
    struct vt_error err = VT_ERROR_INIT;

    vt_hist_init(&run->response);
    vt_hist_init(&run->service);
    vt_hist_init(&run->wake_lag);
    vt_hist_init(&run->rate);
    assert_int_equal(vt_loop_init(&run->loop, &err), 0);
    if (engine_new(&run->loop, &config, &events, run, &run->engine, &err) < 0)
        fail_msg("%s", err.text);
    SSL_CTX_free(config.tls);
    engine_open(run->engine);
    turn(run);
    vt_loop_dispose(&run->loop);
    if (run->opened)
        check_sums(run);
}
