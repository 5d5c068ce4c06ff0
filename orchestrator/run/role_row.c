/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/run/role_row.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "tiles/load/jobs.h"

_Static_assert(SPEC_LIMITS_MAX <= VT_RECORD_LIMITS_MAX &&
                   SPEC_OPERATIONS_MAX <= VT_RECORD_OPERATIONS_MAX &&
                   SPEC_TILES_MAX <= VT_RECORD_TILES_MAX &&
                   SPEC_SCHEDULE_MAX <= VT_RECORD_SCHEDULE_MAX,
               "what a spec can hold has room in the record");

static size_t copy_limits(const struct spec_limit *from, size_t n, struct vt_record_limit *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (struct vt_record_limit){from[i].percentile, from[i].limit_ns};
    return n;
}

/* What is due in the measure phase: of jobs in windows no rate tells that. */
static int64_t work_rate(const struct spec_role *spec, unsigned tile, int preset, int64_t load)
{
    struct jobs_order order;
    int64_t from_ns;
    uint64_t due;

    jobs_order_make(&order, tile, spec, preset, load);
    from_ns = order.times.ramp_ns + order.times.warm_ns;
    due = jobs_order_due(&order, from_ns, from_ns + order.times.measure_ns);
    return (int64_t)((__int128)due * 1000000 * VT_NS_PER_S / order.times.measure_ns);
}

void run_role_row(const struct spec_role *spec, unsigned tile, int preset, int64_t share,
                  struct vt_record_role *ret)
{
    const struct spec_load *load = &spec->load;

    memset(ret, 0, sizeof(*ret));
    ret->tile = tile;
    vt_text_copy(ret->role, sizeof(ret->role), spec->name);
    ret->scored = spec->scored;
    ret->driven = spec->driven;
    if (!ret->driven)
        return;
    ret->loop = load->loop == SPEC_LOOP_CLOSED ? VT_RECORD_LOOP_CLOSED : VT_RECORD_LOOP_OPEN;
    if (strcmp(load->schedule, "poisson") != 0)
        vt_text_copy(ret->schedule, sizeof(ret->schedule), load->schedule);
    ret->rate = (int64_t)((__int128)load->rate * share / 1000000);
    ret->divisor = (int64_t)((__int128)load->divisor * share / 1000000);
    if (spec->works)
        ret->rate = ret->divisor = work_rate(spec, tile, preset, share);
    ret->weight = load->weight;
    ret->good_limit_ns = load->good_limit_ns;
    ret->error_share_max = load->error_share_max;
    ret->wake_lag_p99_max_ns = load->wake_lag_p99_max_ns;
    ret->nlimits = copy_limits(load->limits, load->nlimits, ret->limits);
    for (size_t i = 0; i < load->noperations && i < VT_RECORD_OPERATIONS_MAX; i++) {
        const struct spec_operation *from = &load->operations[i];
        struct vt_record_operation *to = &ret->operations[ret->noperations++];

        vt_text_copy(to->name, sizeof(to->name), from->name);
        to->nlimits = copy_limits(from->limits, from->nlimits, to->limits);
        to->good_limit_ns = from->good_limit_ns;
        to->min_bytes_per_s[0] = from->min_bytes_per_s[0];
        to->min_bytes_per_s[1] = from->min_bytes_per_s[1];
    }
}
