/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order: what a load client is told to drive: one role of one tile, with all that its schedule and
 * its engine depend on, so that whoever has the order can draw the same schedule again. As JSON:
 *   {"tile","role","seed","rate","segments":[{"length_ns","ramp"}],"drain_ns","window_from_ns",
 *    "target":{"address","server_name"},
 *    "load":{"loop","schedule","connections","timeout_ns","think_mean_ns","think_max_ns","think_share",
 *            "expected_ns","good_limit_ns",
 *            "operations":[{"name","good_limit_ns","min_bytes_per_s_95","min_bytes_per_s_99"}]}}
 * The seed is decimal text: JSON's integers have a sign. "schedule" is the shape of what is
 * measured, as tiles/load/shape.h has it.
 */
#ifndef VTILE_TILES_LOAD_ORDER_H
#define VTILE_TILES_LOAD_ORDER_H

#include <jansson.h>

#include "tiles/load/schedule.h"

#define ORDER_SEGMENTS_MAX 8

struct load_order {
    unsigned tile;
    char role[16];
    uint64_t seed;
    int64_t rate; /* operations a second, millionths, as scaled by --load */
    struct schedule_segment segments[ORDER_SEGMENTS_MAX];
    unsigned nsegments;
    int64_t drain_ns;
    int64_t window_from_ns; /* the last segment: what is measured begins here */
    char address[46];
    char server_name[64];  /* checked against the server's certificate */
    struct spec_load load; /* only what the header lists is carried */
};

/* Ramp, warm, measure of a preset. */
void load_order_segments(struct load_order *order, const struct spec_preset *preset);
json_t *load_order_write(const struct load_order *order, struct vt_error *err); /* caller's */
/* From a peer: every number bounded, the role known and driven, operations those of its driver. */
int load_order_read(const json_t *json, struct load_order *ret, struct vt_error *err);

/* The schedule of an order: always the same. ret_window_steps: intended at or after
 * window_from_ns; may be NULL. */
int load_order_draw(const struct load_order *order, struct schedule *ret,
                    uint64_t *ret_window_steps, struct vt_error *err);

#endif
