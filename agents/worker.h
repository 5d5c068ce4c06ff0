/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker: one thread beside the loop for what may block, one job at a time, in order. It lives as
 * long as the agent: servers that it starts die with it (PR_SET_PDEATHSIG looks at the thread).
 */
#ifndef VTILE_AGENTS_WORKER_H
#define VTILE_AGENTS_WORKER_H

#include <stdatomic.h>

#include "base/loop.h"

#define WORKER_JOBS_MAX 64

struct worker_job {
    void (*run)(struct worker_job *job);  /* on the thread */
    void (*done)(struct worker_job *job); /* on the loop; the job is the owner's again */
    void (*drop)(struct worker_job *job); /* instead of done, when the worker is closed before */
    struct worker_job *next;              /* private */
};
struct worker;

/* The thread starts with the first job. */
int worker_new(struct vt_loop *loop, struct worker **ret, struct vt_error *err);
int worker_submit(struct worker *worker, struct worker_job *job, struct vt_error *err);
/* Jobs look at it between steps: true once the worker is to end. */
bool worker_stopping(const struct worker *worker);
/* Waits for the job that runs, then drops what has not been told. The worker is gone when the loop
 * has run once more. */
void worker_close(struct worker *worker);

#endif
