/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small server that keeps sessions, in a process of its own, and the driver for it. It greets
 * first; then a line a request:
 *   login SESSION         begins a session, or names the one that goes on
 *   again                 it goes on
 *   step SEQUENCE WHAT    answered with how many steps this connection has had, this one included
 *   bye SEQUENCE          the last step
 * WHAT is the step's argument. What came over which connection is kept in shared memory.
 */
#ifndef VTILE_TESTS_UNIT_TILES_SESSION_SERVER_H
#define VTILE_TESTS_UNIT_TILES_SESSION_SERVER_H

#include "tiles/load/schedule.h"

enum session_what {
    SESSION_RIGHT,
    SESSION_CUT,        /* ends the connection without an answer */
    SESSION_LAST,       /* answers, then ends the connection */
    SESSION_MISCOUNTED, /* answers with another number */
    SESSION_SILENT,     /* never answers */
};
enum { SESSION_LOGIN, SESSION_STEP, SESSION_BYE }; /* operations */

/* argument of a login: as of any step. Every right step of odd sequence acknowledges. */
extern const struct driver session_driver;

#define SESSION_CONNECTIONS_MAX 4096
#define SESSION_STEPS_MAX 16384
struct session_server {
    int pid;
    uint16_t port;
    /* what the test asks of it */
    volatile bool refuse;   /* connections are refused; refusing follows */
    volatile bool kill_all; /* ends all connections, once */
    volatile bool hold_greetings;
    /* what it saw */
    volatile bool refusing;
    volatile unsigned nconnections, most_open, most_greeted; /* greeted, but not logged in */
    struct session_seen {
        uint32_t session, nsteps;
        bool again;
    } connections[SESSION_CONNECTIONS_MAX];
    struct {
        uint32_t connection, count; /* the last one it came over; how often it came */
    } steps[SESSION_STEPS_MAX];
};
/* In shared memory. */
struct session_server *session_server_start(void);
void session_server_refuse(struct session_server *server); /* returns when it does */
void session_server_stop(struct session_server *server);

/* nsessions of nsteps each (login, steps, bye), begun at even distances over window_ns, their steps
 * gap_ns apart; what lies behind the window is cut. The first nmet are met after their login. */
struct schedule session_schedule(uint32_t nsessions, uint32_t nsteps, uint32_t nmet, int64_t gap_ns,
                                 int64_t window_ns);

#endif
