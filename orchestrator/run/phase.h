/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phase: a run is a table of phases, walked in order on the loop's thread.
 *
 * start begins a phase; it ends by phases_done, at once or later. A failure, a deadline that
 * passes, or the first interrupt goes on with the next phase marked always (score, seal); the
 * second interrupt skips those too. Then every phase that was entered is undone, last one first;
 * an undo that fails is remembered and the next goes on. Order of calls for one phase:
 * start -> (stop | late)? -> undo, each at most once.
 */
#ifndef VTILE_ORCHESTRATOR_RUN_PHASE_H
#define VTILE_ORCHESTRATOR_RUN_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"

struct run;
struct phases;

struct phase {
    const char *name;
    /* An error here is the same as phases_done with it. */
    int (*start)(struct run *run, struct vt_error *err);
    /* The user interrupts: end soon, by phases_done. NULL: the phase is left where it is. */
    void (*stop)(struct run *run);
    /* Takes back what start made; ends by phases_undone, at once or later. NULL: nothing. */
    void (*undo)(struct run *run);
    /* Planned length for people, and the time after which it has failed; 0: none. NULL: 0. */
    int64_t (*planned_ns)(const struct run *run);
    int64_t (*deadline_ns)(const struct run *run);
    /* Says in *err what was still missing when the deadline passed. NULL: a plain text. */
    void (*late)(struct run *run, struct vt_error *err);
    bool always; /* also after a failure or the first interrupt */
};

struct phases_events {
    void (*entered)(struct run *run,
                    const struct phase *phase); /* phase "teardown": undoing something */
    /* The first failure, as it happens. */
    void (*failed)(struct run *run, const struct phase *phase, const struct vt_error *err);
    void (*undo_failed)(struct run *run, const struct phase *phase, const struct vt_error *err);
    void (*ended)(struct run *run);
};

struct phases {
    /* the caller fills */
    struct vt_loop *loop;
    const struct phase *const *table;
    unsigned count;
    const struct phases_events *events;
    struct run *run;
    /* to be read */
    struct vt_error failure; /* the first; kind NONE when all went well */
    unsigned interrupts;
    bool undoing;
    int current; /* index into table, -1 before and after */
    /* private */
    int64_t interrupted_ns; /* the last one */
    bool entered[32];
    bool running, undo_done;
    uv_timer_t deadline, next;
};

/* Walks the table; events->ended comes when all is done and undone. */
int phases_start(struct phases *phases, struct vt_error *err);
/* The current phase has ended; err NULL or kind NONE: well. A call when no phase runs (it was
 * left after an interrupt) does nothing. */
void phases_done(struct phases *phases, const struct vt_error *err);
void phases_undone(struct phases *phases, const struct vt_error *err);
/* Whether a signal at now_ns is another Ctrl-C: one may come twice, when `timeout` or a shell
 * passes on what the whole group has got. Nobody has read the answer to the first by then. */
#define PHASES_AGAIN_NS (VT_NS_PER_S / 2)
bool phases_heed(const struct phases *phases, int64_t now_ns);
/* Ctrl-C, at now_ns. */
void phases_interrupt(struct phases *phases, int64_t now_ns);
/* A failure seen outside the current phase (an agent lost, a host lost): ends it. */
void phases_fail(struct phases *phases, const struct vt_error *err);
/* True while table[current] is the phase of that name. */
bool phases_in(const struct phases *phases, const char *name);
/* Closes the two timers; the loop must run once more. */
void phases_close(struct phases *phases);

#endif
