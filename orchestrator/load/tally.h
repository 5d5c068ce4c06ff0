/* SPDX-License-Identifier: Apache-2.0 */
/* tally: requests counted, with how long they took. */
#ifndef VTILE_ORCHESTRATOR_LOAD_TALLY_H
#define VTILE_ORCHESTRATOR_LOAD_TALLY_H

#include "base/event.h"
#include "base/hist.h"

/* intended = good + wrong + failed. response and wake_lag: of an open loop alone. */
struct load_tally {
    uint64_t intended, good, wrong, failed, bytes;
    struct vt_hist response, service, wake_lag;
};
void load_tally_init(struct load_tally *tally);
void load_tally_merge(struct load_tally *into, const struct load_tally *from);
void load_tally_add_second(struct load_tally *tally, const struct vt_load_second *second);

#endif
