/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs: the load that a guest makes for itself: runs the role's work on a thread of its own, so
 * that every other call is still answered, and sends what it counts as seconds of load.
 */
#ifndef VTILE_AGENTS_JOBS_H
#define VTILE_AGENTS_JOBS_H

#include <stdatomic.h>

#include "agents/tally.h"
#include "agents/uplink.h"

struct jobs {
    /* the owner fills */
    struct vt_loop *loop;
    const struct role *role;
    struct uplink *uplink;
    /* to be read, once it has ended: facts of the work for the record; NULL: none */
    json_t *facts;
    /* private */
    enum { JOBS_NONE, JOBS_RUNNING, JOBS_TELLING } state;
    struct role_guest guest; /* a copy, for the thread */
    struct role_work work;
    struct tally tally;
    pthread_t thread;
    struct vt_error err; /* the thread's */
    atomic_bool stopping;
    int64_t stopped_ns; /* since T0; INT64_MAX: not */
    uv_async_t ended;
    uv_timer_t tick;
};

int jobs_init(struct jobs *jobs, struct vt_error *err);
/* The parameters of a call of work; answers nothing. */
int jobs_start(struct jobs *jobs, const struct role_guest *guest, const json_t *params,
               struct vt_error *err);
/* What was due until now is counted; work.finished still comes. */
void jobs_stop(struct jobs *jobs);
/* Waits for the thread. The loop must run once more. */
void jobs_close(struct jobs *jobs);

#endif
