/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal: a run for people. On a terminal the last view is repainted in place below the notes: a
 * header and a line a tile. Otherwise plain lines: each phase, and how it goes every ten seconds.
 *
 * Nothing of the terminal's state is changed (no alternate screen, no hidden cursor) and the cursor
 * rests below the last line, so that whatever ends this process leaves the terminal as it should
 * be. A frame is one write.
 */
#ifndef VTILE_ORCHESTRATOR_WATCH_TERMINAL_H
#define VTILE_ORCHESTRATOR_WATCH_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "base/event.h"
#include "orchestrator/watch/view.h"

#define WATCH_NOTES_KEPT 16

struct watch_terminal {
    struct vt_sink sink; /* phases, notes, agents, verdicts */
    int64_t start_ns;    /* what times are shown from; may be set */
    /* private */
    FILE *out;
    bool tty, colour;
    unsigned columns, rows, painted; /* lines of the last frame */
    int64_t next_plain_ns;
    char *notes[WATCH_NOTES_KEPT]; /* a ring, for the screen after its size changed */
    unsigned nnotes;
    struct vt_buf block, frame;
};

void watch_terminal_init(struct watch_terminal *terminal, FILE *out);
/* Takes the painted lines away. */
void watch_terminal_dispose(struct watch_terminal *terminal);
/* Once a second, and when the terminal's size has changed. */
void watch_terminal_show(struct watch_terminal *terminal, const struct watch_view *view);
/* Takes the painted lines away until the next view, for a question or a last word. */
void watch_terminal_clear(struct watch_terminal *terminal);

/* --json: one line an event. */
struct watch_json {
    struct vt_sink sink;
    FILE *out;
    struct vt_buf line;
};
void watch_json_init(struct watch_json *json, FILE *out);
void watch_json_dispose(struct watch_json *json);

#endif
