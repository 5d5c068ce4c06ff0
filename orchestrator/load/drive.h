/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive: drives a URL with some threads, a loop and an engine each. The schedule is drawn once and
 * dealt out step by step, so the requests of all threads together are those of one.
 */
#ifndef VTILE_ORCHESTRATOR_LOAD_DRIVE_H
#define VTILE_ORCHESTRATOR_LOAD_DRIVE_H

#include "orchestrator/load/options.h"
#include "orchestrator/load/tally.h"
#include "tiles/load/engine.h"

struct load_result {
    struct load_tally tally; /* of whole seconds after the warm-up */
    uint64_t seconds;        /* so many */
    /* Of all threads, from T0 to the last answer. queue_high: the threads' sum. */
    struct engine_totals totals;
    int64_t lasted_ns;            /* warm-up and duration, or what an interruption left of them */
    int64_t cpu_ns, run_delay_ns; /* run_delay: runnable, without a CPU; -1: not told */
    char schedule_hash[65];       /* "": closed */
    bool interrupted;
};

/* On the caller's thread, once a second. since: what was counted since the call before, the warm-up
 * too. */
typedef void (*load_progress)(void *ctx, int64_t since_start_ns, const struct load_tally *since);

/* Blocks. SIGINT and SIGTERM end it early. *ret is filled where 0 is returned. */
int load_drive(const struct load_options *options, load_progress progress, void *ctx,
               struct load_result *ret, struct vt_error *err);

#endif
