/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder: what became of each step, from the moment it was due until its second has been
 * delivered. A ring holds every step that can be on its way at once, so nothing is allocated after
 * recorder_init: a step ends at its time-out at the latest, and steps are picked in the order of
 * their intended times. Histograms are made when a second is delivered, of its steps' results.
 */
#ifndef VTILE_TILES_LOAD_RECORDER_H
#define VTILE_TILES_LOAD_RECORDER_H

#include "base/event.h"
#include "tiles/load/engine.h"

#define RECORDER_NONE UINT32_MAX

enum step_state {
    STEP_WAITING, /* for its session's step before */
    STEP_QUEUED,  /* for a connection */
    STEP_ACTIVE,  /* on a connection */
    STEP_ENDED,
};
enum step_outcome { STEP_GOOD, STEP_SLOW, STEP_WRONG, STEP_FAILED };

/* One operation of one second, as it is told. Rates are noted of operations with a least rate. */
struct recorder_bin {
    struct vt_load_second second;
    struct vt_hist response, service, wake_lag, rate;
};
/* Bytes of body a second while the answer came, rounded down; INT64_MAX at most. */
int64_t recorder_rate(uint64_t bytes, int64_t transfer_ns);

/* Of a whole answer. transfer_ns: from its first bytes to its last. */
struct recorder_figures {
    int64_t response_ns, service_ns, transfer_ns;
    uint64_t bytes;
};
struct recorder_result {
    int64_t lag_ns;
    struct recorder_figures answer;
    enum step_outcome outcome;
};
void recorder_bin_begin(struct recorder_bin *bin, const char *operation, int64_t second);
void recorder_bin_add(struct recorder_bin *bin, const struct recorder_result *result, bool rated);

struct step_record {
    struct recorder_result result; /* once it has ended; lag_ns at once */
    uint32_t waiter;               /* the session's next step, which waits for this one */
    uint32_t earlier, later;       /* neighbours in the queue */
    uint32_t connection;           /* while active */
    uint8_t state;
};

struct recorder {
    const struct schedule *schedule;
    const struct driver *driver;
    int64_t good_limit_ns[SPEC_OPERATIONS_MAX];
    bool rated[SPEC_OPERATIONS_MAX]; /* has a least rate: rates are noted */
    struct step_record *ring;
    uint32_t mask;
    /* [0, delivered) are gone, [delivered, oldest) have ended, [oldest, picked) are on their way
     * or have ended, [picked, end) are not due yet; end shrinks when the load stops early. */
    size_t delivered, oldest, picked, end;
    int64_t second_end_ns; /* of the second of step delivered */
    /* Steps that wait for a connection, in the order in which they came to wait. */
    uint32_t queue_first, queue_last, queued;
    struct engine_totals totals;
    struct recorder_bin *bins; /* one an operation */
};

int recorder_init(struct recorder *recorder, const struct schedule *schedule,
                  const struct driver *driver, const struct spec_load *load, struct vt_error *err);
void recorder_dispose(struct recorder *recorder);

static inline struct step_record *recorder_at(const struct recorder *recorder, size_t step)
{
    return &recorder->ring[step & recorder->mask];
}
bool recorder_notes_rates(const struct recorder *recorder); /* of any operation */
/* Whether that step, picked before, is still on its way. */
bool recorder_open(const struct recorder *recorder, size_t step);
/* The next step has been looked at, lag_ns after its time. Seconds whose steps are all older than
 * a time-out must have been delivered. */
struct step_record *recorder_pick(struct recorder *recorder, int64_t lag_ns);
void recorder_queue(struct recorder *recorder, uint32_t step);
void recorder_unqueue(struct recorder *recorder, uint32_t step);
/* A whole answer came. Good or slow is decided here. why: of a wrong one, else NULL. */
void recorder_answer(struct recorder *recorder, size_t step, const struct recorder_figures *answer,
                     const char *why);
void recorder_fail(struct recorder *recorder, size_t step, const char *why);

/* Whether recorder_deliver has a second to give. */
static inline bool recorder_has_second(const struct recorder *recorder)
{
    return recorder->delivered < recorder->end &&
           (recorder->oldest == recorder->end ||
            recorder->schedule->steps[recorder->oldest].intended_ns >= recorder->second_end_ns);
}
/* Calls take for the operations of the next second all of whose steps have ended; false when there
 * is none. Seconds without a step are passed over. */
bool recorder_deliver(struct recorder *recorder,
                      void (*take)(void *ctx, const struct vt_load_second *second), void *ctx);

#endif
