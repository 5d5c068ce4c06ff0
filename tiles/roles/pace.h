/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace: operations at a constant rate: number i of a pace is intended floor(i / rate) ns after its
 * beginning; those before its end are due. In whole numbers, so that everybody counts the same.
 */
#ifndef VTILE_TILES_ROLES_PACE_H
#define VTILE_TILES_ROLES_PACE_H

#include <stdint.h>

struct pace {
    int64_t rate; /* a second, millionths; above 0 */
    int64_t begin_ns, end_ns;
};

int64_t pace_intended_ns(const struct pace *pace, uint64_t i);
/* How many are intended in [from, to). */
uint64_t pace_due(const struct pace *pace, int64_t from_ns, int64_t to_ns);

#endif
