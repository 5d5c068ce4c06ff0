/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs: the order of load that a guest makes for itself: all that what is due depends on, and what
 * makes an operation good. As JSON:
 *   {"tile","role","ramp_ns","warm_ns","measure_ns",
 *    "jobs":{"rate","window_ns",...},
 *    "operations":[{"name","good_limit_ns","rated"}]}
 * The operations are all of the role's, in its order. jobs holds the numbers of struct spec_jobs.
 */
#ifndef VTILE_TILES_LOAD_JOBS_H
#define VTILE_TILES_LOAD_JOBS_H

#include <jansson.h>

#include "tiles/roles/role.h"

struct jobs_order {
    unsigned tile;
    char role[16];
    struct role_times times;
    struct spec_jobs jobs; /* rates and bytes_per_s scaled by --load, the window in force */
    int64_t good_limit_ns[SPEC_OPERATIONS_MAX];
    bool rated[SPEC_OPERATIONS_MAX]; /* has a least rate: rates are noted */
};

/* Of a role with jobs. preset: index into spec_preset_names; load: millionths. */
void jobs_order_make(struct jobs_order *order, unsigned tile, const struct spec_role *spec,
                     int preset, int64_t load);
json_t *jobs_order_write(const struct jobs_order *order, struct vt_error *err); /* the caller's */
/* From a peer: every number bounded, the role known and one that works, operations those of it. */
int jobs_order_read(const json_t *json, struct jobs_order *ret, struct vt_error *err);
/* What is due of all operations in [from, to) ns since T0. */
uint64_t jobs_order_due(const struct jobs_order *order, int64_t from_ns, int64_t to_ns);
/* SHA-256 over the order's JSON, compact, keys in the order above. */
int jobs_order_hash(const struct jobs_order *order, uint8_t hash[32], struct vt_error *err);

#endif
