/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/pace.h"

/* Of 1 ns at a millionth of an operation a second. */
#define SCALE ((__int128)1000000000000000)

int64_t pace_intended_ns(const struct pace *pace, uint64_t i)
{
    return pace->begin_ns + (int64_t)((__int128)i * SCALE / pace->rate);
}

/* Number of i with floor(i x SCALE / rate) < t: for whole t the same as i x SCALE / rate < t. */
static uint64_t before(const struct pace *pace, int64_t at_ns)
{
    int64_t t = (at_ns < pace->end_ns ? at_ns : pace->end_ns) - pace->begin_ns;

    return t > 0 ? (uint64_t)(((__int128)t * pace->rate + SCALE - 1) / SCALE) : 0;
}

uint64_t pace_due(const struct pace *pace, int64_t from_ns, int64_t to_ns)
{
    uint64_t from = before(pace, from_ns), to = before(pace, to_ns);

    return to > from ? to - from : 0;
}
