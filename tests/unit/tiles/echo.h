/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP driver for engine tests: nginx answers with the sequence it was asked for. It notes
 * when each request was written, so that a test can hold that against the schedule.
 *   argument 0: right; ECHO_WRONG: status 503; ECHO_CUT: the server closes without an answer
 */
#ifndef VTILE_TESTS_UNIT_TILES_ECHO_H
#define VTILE_TESTS_UNIT_TILES_ECHO_H

#include "tiles/load/schedule.h"

enum { ECHO_RIGHT, ECHO_WRONG, ECHO_CUT };

extern const struct driver echo_driver;     /* plain TCP */
extern const struct driver echo_tls_driver; /* the same over TLS */
/* Directives of nginx's server block that answer it. */
extern const char echo_server[];

/* Times of requests by sequence, 0: never; how many were made of each. Cleared by echo_clear. */
#define ECHO_STEPS_MAX 20000
extern int64_t echo_written_ns[ECHO_STEPS_MAX];
extern unsigned echo_written_count[ECHO_STEPS_MAX];
void echo_clear(void);

/* n steps of two operations, spread as a Poisson process would be over window_ns, each a session
 * of its own. schedule_dispose() it. */
struct schedule echo_schedule(size_t n, int64_t window_ns, uint64_t seed);

#endif
