/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board: what a run looks like so far, from its events: for each tile its score, its rate, and how
 * each limit of the spec stands, judged as QoS of the record is (results/qos.h). Only counts are
 * kept (how many answers were within a limit), and one histogram a tile. For people: what the run
 * comes to is read from the record.
 *
 * Figures are of the segment of the load (ramp, warm, measure) whose seconds came last; a second
 * comes when all its requests have ended.
 */
#ifndef VTILE_ORCHESTRATOR_WATCH_BOARD_H
#define VTILE_ORCHESTRATOR_WATCH_BOARD_H

#include "base/event.h"
#include "orchestrator/watch/view.h"

struct watch_board {
    struct vt_sink sink;
    /* private */
    char run[16], phase[24];
    int64_t start_ns, phase_start_ns, phase_planned_ns;
    uint64_t warnings;
    int64_t segment_s[4]; /* where ramp, warm, measure begin, and where measure ends */
    int segment;          /* of the figures; -1: none yet */
    bool by_operation;
    unsigned ntiles, nroles; /* nroles: driven, of one tile */
    struct board_role *roles;
    struct board_tile *tiles;
};

/* The spec must outlive the board. tiles: how many. */
int watch_board_init(struct watch_board *board, const struct spec *spec,
                     const struct spec_preset *preset, unsigned tiles, struct vt_error *err);
void watch_board_dispose(struct watch_board *board);
void watch_board_name(struct watch_board *board, const char *run);
void watch_board_view(const struct watch_board *board, int64_t now_ns, struct watch_view *ret);

/* Calls say once for each limit that the measure window, as far as it went, breaks; at most 16 a
 * call. Once a second. */
void watch_board_warn(struct watch_board *board, void (*say)(void *ctx, const char *text),
                      void *ctx);

#endif
