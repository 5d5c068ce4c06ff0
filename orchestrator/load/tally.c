/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/tally.h"

void load_tally_init(struct load_tally *tally)
{
    tally->intended = tally->good = tally->wrong = tally->failed = tally->bytes = 0;
    vt_hist_init(&tally->response);
    vt_hist_init(&tally->service);
    vt_hist_init(&tally->wake_lag);
}

void load_tally_merge(struct load_tally *into, const struct load_tally *from)
{
    into->intended += from->intended;
    into->good += from->good;
    into->wrong += from->wrong;
    into->failed += from->failed;
    into->bytes += from->bytes;
    vt_hist_merge(&into->response, &from->response);
    vt_hist_merge(&into->service, &from->service);
    vt_hist_merge(&into->wake_lag, &from->wake_lag);
}

void load_tally_add_second(struct load_tally *tally, const struct vt_load_second *second)
{
    tally->intended += second->intended;
    tally->good += second->good + second->slow;
    tally->wrong += second->wrong;
    tally->failed += second->failed;
    tally->bytes += second->bytes;
    vt_hist_merge(&tally->response, second->response);
    vt_hist_merge(&tally->service, second->service);
    vt_hist_merge(&tally->wake_lag, second->wake_lag);
}
