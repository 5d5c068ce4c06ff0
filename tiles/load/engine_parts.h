/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the engine's files: engine.c (steps, time, life), pool.c (connections that serve any
 * session), sessions.c (a connection of its own for each session).
 */
#ifndef VTILE_TILES_LOAD_ENGINE_PARTS_H
#define VTILE_TILES_LOAD_ENGINE_PARTS_H

#include "tiles/load/connection.h"
#include "tiles/load/engine.h"
#include "tiles/load/recorder.h"
#include "tiles/load/self_check.h"

enum engine_phase {
    ENGINE_NEW,
    ENGINE_OPENING, /* connections open; opened() is still to come */
    ENGINE_READY,
    ENGINE_RUNNING,
    ENGINE_FINISHED,
};

/* How sessions share connections. */
struct engine_sharing {
    struct connection_owner owner; /* ctx: the engine */
    int (*make)(struct engine *engine, struct vt_error *err);
    void (*open)(struct engine *engine); /* what is to be open before T0 */
    /* Sends a step whose session has a connection; false: it must wait for one. NULL: none has. */
    bool (*go_on)(struct engine *engine, uint32_t step);
    /* Brings the steps that wait and connections together. */
    void (*dispatch)(struct engine *engine);
    /* Connections that take too long to open, or have rested for long enough. True: look again. */
    bool (*tick)(struct engine *engine, int64_t now_ns);
};
extern const struct engine_sharing engine_pool, engine_sessions;

struct engine {
    struct vt_loop *loop;
    struct engine_config config;
    const struct engine_events *events; /* NULL once freed */
    void *ctx;

    enum engine_phase phase;
    struct vt_timer timer;
    int64_t open_until_ns, t0_ns;
    int64_t tick_ns; /* 0: no tick */
    bool stopping;
    struct recorder recorder;
    struct self_check check;
    uint32_t *last_step;   /* of each session: its last picked step + 1 */
    uint8_t *acknowledged; /* a bit a step; NULL where the driver never acknowledges */

    struct sockaddr_storage address;
    struct vt_buf out;
    struct connection *connections;
    uint8_t *conversations;
    uint32_t nconnections, nopen, nlinks; /* nlinks: not closed */
    const struct engine_sharing *sharing;
    struct connection *idle; /* pool: used last first, the others may end unnoticed. sessions: the
                                closed ones */
    bool timer_closed;

    /* sessions only */
    uint32_t *connection_of; /* of each session: the one it was last given, or RECORDER_NONE */
    uint32_t *met;           /* first steps of sessions to be entered before T0 */
    uint32_t nmet, next_met;
    bool dispatching;
};

static inline int64_t engine_due_ns(const struct engine *e, size_t step)
{
    return e->t0_ns + e->config.schedule->steps[step].intended_ns;
}
/* The step is under way on that connection from now on. */
void engine_take_step(struct engine *engine, uint32_t step, struct connection *connection,
                      int64_t sent_ns);
void engine_dispatch(struct engine *engine);
void engine_open_connection(struct engine *engine, struct connection *connection);
/* err NULL: all are open. */
void engine_report_opened(struct engine *engine, const struct vt_error *err);
void engine_tick_soon(struct engine *engine);
/* It is of use now, for the first time since it was opened. */
void engine_note_opened(struct engine *engine, struct connection *connection);
/* The common part of the owner's events. */
void engine_answered(void *ctx, struct connection *connection, const char *wrong_why);
void engine_failed(void *ctx, struct connection *connection, const char *why);
/* False: the engine has been freed, and may be gone now. */
bool engine_link_closed(struct engine *engine, bool was_open);
void engine_arm(struct engine *engine);

#endif
