/* SPDX-License-Identifier: Apache-2.0 */
/* One run of an engine on a loop of its own, with what it delivered added up and checked: seconds
 * in order, each operation of a second once, the counters' equations. */
#ifndef VTILE_TESTS_UNIT_TILES_LOAD_RUN_H
#define VTILE_TESTS_UNIT_TILES_LOAD_RUN_H

#include "tests/unit/tiles/nginx.h"
#include "tiles/load/engine.h"

#define LOAD_RUN_ACTIONS_MAX 4

struct load_run {
    /* caller fills */
    struct nginx *nginx;         /* NULL: target is filled instead */
    struct driver_target target; /* else of nginx */
    const struct driver *driver;
    const struct schedule *schedule;
    struct spec_load load;
    int64_t window_ns, drain_ns;
    /* Called at a time after T0; it may stop the engine or the server. */
    struct load_action {
        int64_t at_ns;
        void (*act)(struct load_run *run);
    } actions[LOAD_RUN_ACTIONS_MAX];

    /* what came of it */
    struct engine *engine;
    struct vt_loop loop;
    uv_timer_t pace; /* so that the loop comes round in time for an action */
    int64_t t0_ns, wall_t0_ns, stalled_ns, resumed_ns, finished_ns;
    bool opened, finished;
    struct vt_error open_err;
    struct engine_totals totals;
    uint8_t acknowledged[2048];                          /* a bit a step */
    size_t nacknowledged;                                /* bytes */
    uint64_t intended, good, slow, wrong, failed, bytes; /* sums of the seconds */
    int64_t last_second;
    unsigned nseconds;
    struct vt_hist response, service, wake_lag, rate;
};

/* Defaults: the echo driver's needs, 16 connections, time-out 20 s, good within 10 s. */
void load_run_init(struct load_run *run, struct nginx *nginx, const struct driver *driver,
                   const struct schedule *schedule, int64_t window_ns);
/* Runs to the end of the engine and of the loop. */
void load_run(struct load_run *run);

void load_run_stall(struct load_run *run); /* actions */
void load_run_resume(struct load_run *run);

#endif
