/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally: counts the operations that a guest has done for itself into seconds of intended time, as
 * the load engine's recorder counts a driver's (tiles/load/recorder.h): the same outcomes from the
 * same limits, the same four histograms. A second is delivered once all that is due in it has been
 * told, so seconds come in order, each with all of its operations.
 */
#ifndef VTILE_AGENTS_TALLY_H
#define VTILE_AGENTS_TALLY_H

#include <pthread.h>

#include "base/event.h"
#include "base/record_rows.h"
#include "tiles/load/jobs.h"

struct recorder_bin;

#define TALLY_OPEN_MAX (1U << 20) /* operations told and not delivered: 48 MiB */

struct tally {
    const struct role *role;
    struct jobs_order order;
    int64_t from_ns, until_ns; /* since T0: what is intended before or after is not counted */
    struct vt_record_totals totals;
    /* private */
    pthread_mutex_t lock; /* of all below and of totals */
    bool overflowed;
    bool ended; /* nothing more is told; why: of what was not */
    char why[sizeof((struct vt_record_totals *)0)->first_failure];
    int64_t next_second; /* to be delivered */
    struct tally_operation {
        struct tally_done *open;
        size_t nopen, cap;
    } operations[SPEC_OPERATIONS_MAX];
    struct recorder_bin *bin;
};

int tally_init(struct tally *tally, const struct role *role, const struct jobs_order *order,
               struct vt_error *err);
/* Before anything was told: leaves out the seconds before that one. */
void tally_skip(struct tally *tally, int64_t second);
void tally_dispose(struct tally *tally);
/* From any thread. */
void tally_add(struct tally *tally, const struct role_done *done);
/* All that was due before at_ns and has not been told has failed, and is counted so as its second
 * is delivered; nothing later is due, nothing more is taken. */
void tally_end(struct tally *tally, int64_t at_ns, const char *why);
/* Calls take for each operation of at most max seconds that are complete; returns how many. */
unsigned tally_deliver(struct tally *tally, unsigned max,
                       void (*take)(void *ctx, unsigned operation,
                                    const struct vt_load_second *second),
                       void *ctx);
/* Something was told that found no room: the figures are wrong. */
bool tally_overflowed(struct tally *tally);

#endif
