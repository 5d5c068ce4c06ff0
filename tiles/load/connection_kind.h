/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection_kind: what lies below a connection's states: a link that carries a driver's bytes
 * (connection.c), or a library that owns its socket (connection_sql.c). Owners do not see it.
 *
 * open -> connection_opened -> (send -> connection_whole | connection_fail)* -> connection_closed,
 * exactly once after an open that returned 0, also after end. All of these come from the loop.
 * After each of them the kind looks at nothing of the connection before it is called again: its
 * owner may have sent another request, or ended it.
 */
#ifndef VTILE_TILES_LOAD_CONNECTION_KIND_H
#define VTILE_TILES_LOAD_CONNECTION_KIND_H

#include "tiles/load/connection.h"

struct connection_kind {
    int (*open)(struct connection *connection, struct vt_error *err);
    /* The step's request; enter: instead, what brings the connection to where the step's session
     * goes on. False: it had ended, nothing was sent. */
    bool (*send)(struct connection *connection, const struct driver_step *step, bool enter);
    void (*end)(struct connection *connection, bool orderly); /* may be called twice */
    int (*fd)(const struct connection *connection);
};
extern const struct connection_kind connection_of_sql;

static inline bool connection_awaits_answer(const struct connection *c)
{
    return c->state == CONNECTION_BUSY || c->state == CONNECTION_ENTERING;
}
void connection_opened(struct connection *connection);
/* DRIVER_DONE or DRIVER_WRONG, and why. usable: nothing follows the answer. */
void connection_whole(struct connection *connection, enum driver_verdict verdict, const char *why,
                      bool usable);
/* What is awaited will not come; ends the connection. */
void connection_fail(struct connection *connection, const char *why);
void connection_closed(struct connection *connection, const struct vt_error *err);

#endif
