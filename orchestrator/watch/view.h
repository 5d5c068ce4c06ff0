/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view: what a run looks like at one moment: small, so that it can be painted and sent each second.
 */
#ifndef VTILE_ORCHESTRATOR_WATCH_VIEW_H
#define VTILE_ORCHESTRATOR_WATCH_VIEW_H

#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "tiles/spec/spec.h"

/* From the best to the worst. */
enum watch_mark { WATCH_UNJUDGED, WATCH_OK, WATCH_UNDECIDED, WATCH_BROKEN };

struct watch_tile {
    unsigned tile;
    enum watch_mark mark; /* of the worst limit so far */
    int64_t score;        /* so far, hundredths of a point; -1: nothing scored yet */
    int64_t rate;         /* operations a second that were due, hundredths */
    int64_t p95_ns;       /* of correct answers; -1: none */
    uint64_t not_good;    /* slow, wrong or failed */
    char tightest[48];    /* the limit that is nearest to being broken, "" when none */
};
struct watch_view {
    char run[16];
    char phase[24];                          /* "" before the first */
    int64_t elapsed_ns;                      /* since the run began */
    int64_t left_ns;                         /* of the phase; -1: open end */
    uint64_t warnings;                       /* and errors */
    unsigned ntiles;                         /* 0: no load yet */
    struct watch_tile tiles[SPEC_TILES_MAX]; /* the worst first */
};

/* {"v":1,"type":"view",...} without newline. */
void watch_view_write(const struct watch_view *view, struct vt_buf *out);
/* Refuses what the function above would not have written. *ret is written only on success. */
int watch_view_read(const json_t *message, struct watch_view *ret, struct vt_error *err);
/* Orders tiles: by mark, then by score, then by number. */
void watch_view_sort(struct watch_view *view);

/* The lines of a terminal of that size, each ended by a newline and shorter than its width: a
 * header, then a line a tile as far as they fit, then how many do not. Returns their number, below
 * rows. colour: with sequences that set and reset it. */
unsigned watch_view_paint(const struct watch_view *view, unsigned columns, unsigned rows,
                          bool colour, struct vt_buf *out);
/* One line without newline, where there is no terminal. */
void watch_view_print(const struct watch_view *view, struct vt_buf *out);

#endif
