/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine: drives one schedule against one target on one loop: one absolute timerfd, a bounded due
 * queue, connections up to a cap, pre-opened before T0: all of them where they serve any session,
 * else those of the sessions that are met in their middle (driver.h: pooled). A step is sent at its
 * intended time or as soon after it as a connection and its session's step before allow; it is
 * never dropped, skipped or moved. Response time counts from the intended time, service time from
 * the first byte written; wake lag (picked - due) is the generator's own fault and stands apart.
 *
 * For every second of intended time and every operation:
 *   intended = good + slow + wrong + failed,  response.count = service.count = good + slow,
 *   wake_lag.count = intended
 * What has no whole answer timeout_ns after its intended time, or at the end of drain, has failed.
 * A request is sent once: one whose connection ends before its answer has failed, and the
 * connection is opened again. A step waits for its session's step before to end. Where a session
 * keeps a connection of its own, the step that needs one opened (its first, or the next after it
 * was lost) waits for a free one of the cap; its service time counts from the opening's beginning,
 * and it fails when the opening does.
 *
 * Order: engine_new -> engine_open (connects) -> opened -> engine_start(T0) -> second* ->
 * finished -> engine_free. engine_stop ends early: what is due by then is counted, what is open
 * has failed, second* and finished still come (from the loop). After opened with a status < 0 only
 * engine_free is left. All calls are allowed inside the events.
 */
#ifndef VTILE_TILES_LOAD_ENGINE_H
#define VTILE_TILES_LOAD_ENGINE_H

#include <openssl/ssl.h>

#include "base/event.h"
#include "base/loop.h"
#include "base/record_generator.h"
#include "tiles/load/schedule.h"

struct engine_config {
    const struct driver *driver;
    const struct spec_load *load;
    const struct schedule *schedule; /* outlives the engine */
    struct driver_target target;
    SSL_CTX *tls;            /* when driver->tls; referenced */
    int64_t drain_ns;        /* after the last segment */
    int64_t window_ns;       /* sum of the segments */
    int64_t measure_from_ns; /* of it, what is measured: from here to its end */
};
struct engine_totals {
    uint64_t intended, good, slow, wrong, failed;
    uint64_t right_in_window; /* good or slow answers that came before the window's end */
    uint64_t connections_opened, connections_failed;
    uint64_t queue_high;     /* most steps due at once without a connection */
    uint64_t early;          /* sent before the intended time: must be 0 */
    char first_failure[160]; /* text of the first wrong or failed step, "" */
    struct vt_record_generator generator;
};
struct engine_events {
    /* status < 0: not all connections could be opened; err says why. */
    void (*opened)(void *ctx, int status, const struct vt_error *err);
    /* One operation of a second that is complete: every step intended in it has ended. In order
     * of seconds; a second or operation without a step is left out. */
    void (*second)(void *ctx, const struct vt_load_second *second);
    void (*finished)(void *ctx, const struct engine_totals *totals);
};

struct engine;
int engine_new(struct vt_loop *loop, const struct engine_config *config,
               const struct engine_events *events, void *ctx, struct engine **ret,
               struct vt_error *err);
void engine_open(struct engine *engine);
/* A T0 in the past makes the first steps late (wake lag). */
int engine_start(struct engine *engine, int64_t t0_ns, struct vt_error *err);
void engine_stop(struct engine *engine); /* at once; open steps fail at their age */
/* A bit a step (of byte i / 8, from the lowest): its answer acknowledged something, driver.h. NULL
 * where the driver never does. Good until engine_free. */
const uint8_t *engine_acknowledged(const struct engine *engine, size_t *ret_bytes);
struct engine *engine_free(struct engine *engine); /* NULL ok; returns NULL */

#endif
