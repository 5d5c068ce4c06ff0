/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: lets other terminals on this machine follow a run, on a Unix socket that belongs to the
 * run's user alone. A sink of events like any other: what is sent waits in a bounded queue for each
 * reader, and one who does not read is dropped; the run never waits.
 *
 * Lines of JSON, each with "v" and "type". A reader says first what it wants:
 *   {"v":1,"type":"watch","events":false}   notes, phases, agents, verdicts, a view a second
 *   {"v":1,"type":"watch","events":true}    every event, as --json prints it; no views
 * and gets a hello (which run it is), the latest of those lines, what it asked for, and at last
 * result and end. It may say {"v":1,"type":"interrupt","now":false}: what Ctrl-C does in the run's
 * terminal; now: what a second one does.
 */
#ifndef VTILE_ORCHESTRATOR_WATCH_SERVER_H
#define VTILE_ORCHESTRATOR_WATCH_SERVER_H

#include "base/event.h"
#include "base/loop.h"
#include "orchestrator/watch/view.h"

#define WATCH_SOCKET "watch" /* its name in the run's folder */
#define WATCH_READERS_MAX 8
#define WATCH_QUEUE_BYTES (4U << 20) /* of one reader */
#define WATCH_LINE_BYTES (1U << 20)  /* a longer line is not sent */
#define WATCH_REQUEST_BYTES 256      /* a longer request drops its reader */

struct watch_server;

/* folder: where the socket is made; it must be short-lived as the run is, and it removes the file.
 * what: the run in a few words. start_ns: what times are shown from. interrupt may be NULL. */
int watch_server_open(struct vt_loop *loop, const char *folder, const char *run, const char *what,
                      int64_t start_ns, void (*interrupt)(void *ctx, bool now), void *ctx,
                      struct watch_server **ret, struct vt_error *err);
struct vt_sink *watch_server_sink(struct watch_server *server);
/* Once a second, to those who want views. */
void watch_server_show(struct watch_server *server, const struct watch_view *view);
/* The last lines (text, with newlines). Readers are closed once they have them, and all after two
 * seconds; the server is gone then. The sink has been removed. server may be NULL. */
void watch_server_end(struct watch_server *server, const char *lines, size_t len);

/* The address of the socket in folder, however long its path: through *ret_fd, to be kept open
 * until bind or connect is done. */
struct sockaddr_un;
int watch_address(const char *folder, struct sockaddr_un *ret, int *ret_fd, struct vt_error *err);

#endif
