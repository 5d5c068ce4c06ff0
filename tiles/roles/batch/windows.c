/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/batch/windows.h"

#include "base/clock.h"

#define MILLION 1000000
#define JOBS_MAX 100000 /* of a window */

void windows_make(const struct spec_jobs *jobs, const struct role_times *times, struct windows *ret)
{
    int64_t length_ns = jobs->window_ns;
    __int128 n;

    if (length_ns <= 0 || length_ns > times->measure_ns)
        length_ns = times->measure_ns;
    /* rate x length, half up. */
    n = ((__int128)jobs->rate * length_ns + (__int128)MILLION * VT_NS_PER_S / 2) /
        ((__int128)MILLION * VT_NS_PER_S);
    *ret = (struct windows){
        .begin_ns = times->ramp_ns + times->warm_ns,
        .length_ns = length_ns,
        .count = length_ns > 0 ? (uint32_t)(times->measure_ns / length_ns) : 0,
        .jobs = n < BATCH_KINDS ? BATCH_KINDS
                : n > JOBS_MAX  ? JOBS_MAX
                                : (uint32_t)n,
    };
    ret->late_ns =
        ret->begin_ns + (int64_t)((__int128)times->measure_ns * jobs->late_share / MILLION);
}

enum batch_kind windows_kind(uint32_t job)
{
    return job % BATCH_KINDS;
}

uint32_t windows_begun(const struct windows *windows, int64_t at_ns)
{
    uint64_t n;

    if (at_ns <= windows->begin_ns || windows->count == 0)
        return 0;
    n = (uint64_t)((at_ns - windows->begin_ns - 1) / windows->length_ns) + 1;
    return n < windows->count ? (uint32_t)n : windows->count;
}

uint64_t windows_due(const struct spec_jobs *jobs, const struct role_times *times,
                     unsigned operation, int64_t from_ns, int64_t to_ns)
{
    struct windows windows;
    uint64_t from, to;

    windows_make(jobs, times, &windows);
    from = windows_begun(&windows, from_ns);
    to = windows_begun(&windows, to_ns);
    if (to <= from || operation >= BATCH_KINDS)
        return 0;
    return (to - from) * ((windows.jobs + BATCH_KINDS - 1 - operation) / BATCH_KINDS);
}
