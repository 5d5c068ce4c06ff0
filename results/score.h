/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score: points of roles, tiles and the run, in integers only, so that the same record gives the
 * same digits everywhere. A point is SCORE_POINT; 100 points a tile are the maximum.
 *
 * open:   100 x good / intended; the rate shown is divisor x good / intended
 * closed: 100 x achieved / divisor, achieved = good operations a second of the window
 * tile:   mean of its scored roles by weight; total: sum of the tiles
 */
#ifndef VTILE_RESULTS_SCORE_H
#define VTILE_RESULTS_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"
#include "base/text.h"
#include "results/record.h"

#define SCORE_POINT INT64_C(1000000000)

struct score_role {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX];
    bool scored;
    bool clamped;   /* more than the divisor was achieved: 100 points, never more */
    int64_t points; /* x SCORE_POINT */
    int64_t rate;   /* shown, operations a second, millionths */
    int64_t weight; /* millionths */
    int64_t p95_ns; /* of the role, QOS_BEYOND, -1 without samples; for the result line */
    uint64_t good, intended;
};
struct score_tile {
    unsigned tile;
    int64_t points;
    size_t first, n; /* its roles in score.roles */
};
struct score {
    struct score_role *roles; /* driven ones, by tile */
    size_t nroles;
    struct score_tile *tiles; /* by number */
    size_t ntiles;
    int64_t total; /* x SCORE_POINT */
    size_t worst;  /* index into tiles; meaningless without tiles */
    int loop;      /* enum vt_record_loop; -1: mixed or none */
};

/* Roles must come by tile. window_s: length of the measure window. due: what the schedule has in
 * it, so that a window cut short does not score as if it had been whole; 0: not known. */
int score_add_role(struct score *score, const struct vt_record_role *role,
                   const struct record_sum *sum, int64_t window_s, uint64_t due,
                   struct vt_error *err);
/* Tiles, total, worst; after the last role. */
int score_finish(struct score *score, struct vt_error *err);
void score_dispose(struct score *score);

/* Points of a role whose loop is open; intended > 0. */
int64_t score_open_role(uint64_t good, uint64_t intended);
/* Operations a second, millionths; seconds > 0. */
int64_t score_rate(uint64_t good, int64_t seconds);
/* The closed form from rates alone, in millionths; what `results score --app A --web W --mail M`
 * prints: roles of equal weight, divisors of the built-in SPECvirt-style tile. Returns points. */
int64_t score_closed_role(int64_t achieved, int64_t divisor, bool *ret_clamped);
int64_t score_mean(const int64_t *points, const int64_t *weights, size_t n);

/* Rounded half up to hundredths; one: SCORE_POINT, or a million for rates. Not negative. */
int64_t score_hundredths(int64_t value, int64_t one);
/* "93.71": points with two decimals, half up. */
void score_print_points(int64_t points, struct vt_buf *out);
/* Millionths with two decimals, half up. */
void score_print_rate(int64_t rate, struct vt_buf *out);

#endif
