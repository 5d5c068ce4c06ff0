/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection: one kept connection of an engine: opens, carries one request at a time, opens again
 * after its end. It knows the driver; what carries its requests is connection_kind.h's matter, what
 * they stand for its owner's.
 *
 *   CLOSED -> OPENING -> IDLE <-> BUSY -> ENDING -> CLOSED (resting a while if it did not go well)
 *                        IDLE <-> ENTERING (at most once: a session goes on where it was)
 */
#ifndef VTILE_TILES_LOAD_CONNECTION_H
#define VTILE_TILES_LOAD_CONNECTION_H

#include "base/clock.h"
#include "base/link.h"
#include "tiles/load/driver.h"

#define CONNECTION_QUEUE_BYTES 65536 /* of requests, as they travel */
/* After a connection that could not be opened, or that ended before it was of use. */
#define CONNECTION_REST_NS (100 * VT_NS_PER_MS)
/* To open, TLS included. */
#define CONNECTION_OPEN_NS (30 * VT_NS_PER_S)

enum connection_state {
    CONNECTION_CLOSED,
    CONNECTION_OPENING,
    CONNECTION_IDLE,
    CONNECTION_ENTERING,
    CONNECTION_BUSY,
    CONNECTION_ENDING,
};

struct connection;
/* How a request ended: whole (wrong_why NULL: right), or failed, as entering may. Called from the
 * loop. */
struct connection_owner {
    void (*ready)(void *ctx, struct connection *connection); /* opened, entered, or idle again */
    void (*answered)(void *ctx, struct connection *connection, const char *wrong_why);
    void (*failed)(void *ctx, struct connection *connection, const char *why);
    /* It is closed now. err: why; of a connection that never opened, the reason. */
    void (*closed)(void *ctx, struct connection *connection, bool was_open,
                   const struct vt_error *err);
};

struct connection {
    /* caller fills */
    struct vt_loop *loop;
    const struct driver *driver;
    const struct driver_target *target;
    const struct sockaddr *address;
    SSL_CTX *tls;
    bool timed;         /* when an answer begins to come is to be known */
    struct vt_buf *out; /* shared scratch */
    const struct connection_owner *owner;
    void *ctx;
    /* shared */
    uint32_t index, step; /* the owner's; step: of the request under way */
    int64_t sent_ns;
    int64_t answer_ns;       /* timed: when the answer began to come; 0: not yet */
    struct connection *next; /* in the owner's list of idle ones */
    bool listed, counted;    /* the owner's */
    /* The owner's, where a session keeps its connection: whose it is, whether it is where the
     * session goes on, whether step waits for it or is under way on it. */
    uint32_t session;
    bool entered, carrying;
    enum connection_state state;
    int64_t since_ns; /* when it entered CLOSED or OPENING */
    bool resting;     /* CLOSED: not before since_ns + CONNECTION_REST_NS again */
    /* private */
    struct vt_link *link;    /* that carries a driver's bytes, */
    struct sql_session *sql; /* or that of a driver with statements */
    void *conversation;      /* the driver's */
    bool in_conversation, served;
    int64_t opened_ns;
};

/* conversation: driver->conn_bytes, owned by the caller. */
void connection_init(struct connection *connection, void *conversation);
void connection_open(struct connection *connection);
/* Only when idle. False: the connection had ended, nothing was sent and nothing is reported. */
bool connection_request(struct connection *connection, const struct driver_step *step);
/* Before the first request, with the step that the session goes on with. False as above. */
bool connection_enter(struct connection *connection, const struct driver_step *step);
/* Ends it; a request under way is forgotten without a call of failed. orderly: TLS and TCP say
 * goodbye, which takes up to VT_LINK_LINGER_MS; may be followed by a call with false. */
void connection_end(struct connection *connection, bool orderly);
/* Of its answer, within answered: body bytes, and whether it acknowledged something. */
uint64_t connection_answer_bytes(const struct connection *connection);
bool connection_acknowledged(const struct connection *connection);
int connection_fd(const struct connection *connection); /* of its socket, while it is open; -1 */

#endif
