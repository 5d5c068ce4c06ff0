/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive: drives a URL with some threads, a loop and an engine each. The schedule is drawn once and
 * dealt out step by step, so the requests of all threads together are those of one.
 */
#ifndef VTILE_ORCHESTRATOR_LOAD_DRIVE_H
#define VTILE_ORCHESTRATOR_LOAD_DRIVE_H

#include "base/hist.h"
#include "orchestrator/load/options.h"

/* Of seconds that are complete. */
struct load_tally {
    uint64_t intended, good, wrong, failed, bytes;
    struct vt_hist response, service, wake_lag;
};
struct load_result {
    struct load_tally tally; /* after the warm-up */
    uint64_t seconds;        /* of it, that were driven */
    uint64_t connections_opened, connections_failed, queue_high, early;
    char first_failure[160];
    char schedule_hash[65]; /* "": closed */
    /* Of the threads, from T0 to their end, warm-up included. */
    uint64_t all_requests;
    int64_t cpu_ns, run_delay_ns; /* run_delay: runnable, without a CPU; -1: not told */
    bool interrupted;
};

/* With complete seconds, those of the warm-up too; on the caller's thread, once a second. since:
 * what came since the call before. */
typedef void (*load_progress)(void *ctx, int64_t since_start_ns, const struct load_tally *since);

/* Blocks. SIGINT and SIGTERM end it early. *ret is filled where 0 is returned. */
int load_drive(const struct load_options *options, load_progress progress, void *ctx,
               struct load_result *ret, struct vt_error *err);

#endif
