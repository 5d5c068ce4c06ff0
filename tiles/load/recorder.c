/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Most steps between the oldest that can still be on its way when a step is due and that step: an
 * older one has timed out, and so has its whole second. */
static size_t steps_at_once(const struct schedule *schedule, int64_t timeout_ns)
{
    size_t most = 1, from = 0;

    for (size_t i = 0; i < schedule->nsteps; i++) {
        int64_t after_ns = schedule->steps[i].intended_ns - timeout_ns - VT_NS_PER_S;

        while (schedule->steps[from].intended_ns < after_ns)
            from++;
        if (i - from + 1 > most)
            most = i - from + 1;
    }
    return most;
}

static void take_limits(struct recorder *r, unsigned operation, const struct spec_load *load)
{
    const struct spec_operation *own = spec_find_operation(load, r->driver->operations[operation]);

    if (own && own->good_limit_ns > 0)
        r->good_limit_ns[operation] = own->good_limit_ns;
    else
        r->good_limit_ns[operation] =
            load->good_limit_ns > 0 ? load->good_limit_ns : load->timeout_ns;
    r->rated[operation] = own && (own->min_bytes_per_s[0] > 0 || own->min_bytes_per_s[1] > 0);
}

static void find_second_end(struct recorder *r)
{
    if (r->delivered < r->schedule->nsteps)
        r->second_end_ns =
            (r->schedule->steps[r->delivered].intended_ns / VT_NS_PER_S + 1) * VT_NS_PER_S;
}

int recorder_init(struct recorder *r, const struct schedule *schedule, const struct driver *driver,
                  const struct spec_load *load, struct vt_error *err)
{
    size_t capacity = 1, needed = steps_at_once(schedule, load->timeout_ns);

    *r = (struct recorder){
        .schedule = schedule,
        .driver = driver,
        .end = schedule->nsteps,
        .queue_first = RECORDER_NONE,
        .queue_last = RECORDER_NONE,
    };
    if (driver->noperations < 1 || driver->noperations > SPEC_OPERATIONS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG,
                            "driver %s has %u operations, it must be 1 to %d", driver->name,
                            driver->noperations, SPEC_OPERATIONS_MAX);
    while (capacity < needed)
        capacity *= 2;
    for (unsigned i = 0; i < driver->noperations; i++)
        take_limits(r, i, load);
    r->mask = (uint32_t)capacity - 1;
    r->ring = calloc(capacity, sizeof *r->ring);
    r->bins = calloc(driver->noperations, sizeof *r->bins);
    find_second_end(r);
    if (r->ring && r->bins)
        return 0;
    recorder_dispose(r);
    return vt_error_no_memory(err, "record %zu operations", needed);
}

void recorder_dispose(struct recorder *r)
{
    free(r->ring);
    free(r->bins);
    r->ring = NULL;
    r->bins = NULL;
}

bool recorder_notes_rates(const struct recorder *r)
{
    for (unsigned i = 0; i < r->driver->noperations; i++)
        if (r->rated[i])
            return true;
    return false;
}

bool recorder_open(const struct recorder *r, size_t step)
{
    return step >= r->oldest && recorder_at(r, step)->state != STEP_ENDED;
}

struct step_record *recorder_pick(struct recorder *r, int64_t lag_ns)
{
    struct step_record *record = recorder_at(r, r->picked);

    *record = (struct step_record){
        .result = {.lag_ns = lag_ns, .outcome = STEP_FAILED},
        .waiter = RECORDER_NONE,
        .earlier = RECORDER_NONE,
        .later = RECORDER_NONE,
        .connection = RECORDER_NONE,
        .state = STEP_WAITING,
    };
    r->picked++;
    r->totals.intended++;
    return record;
}

/* --- the queue --- */

void recorder_queue(struct recorder *r, uint32_t step)
{
    struct step_record *record = recorder_at(r, step);

    record->state = STEP_QUEUED;
    record->earlier = r->queue_last;
    record->later = RECORDER_NONE;
    if (r->queue_last != RECORDER_NONE)
        recorder_at(r, r->queue_last)->later = step;
    else
        r->queue_first = step;
    r->queue_last = step;
    r->queued++;
}

void recorder_unqueue(struct recorder *r, uint32_t step)
{
    const struct step_record *record = recorder_at(r, step);

    if (record->earlier != RECORDER_NONE)
        recorder_at(r, record->earlier)->later = record->later;
    else
        r->queue_first = record->later;
    if (record->later != RECORDER_NONE)
        recorder_at(r, record->later)->earlier = record->earlier;
    else
        r->queue_last = record->earlier;
    r->queued--;
}

/* --- ends --- */

static void end_step(struct recorder *r, size_t step, enum step_outcome outcome, const char *why)
{
    struct step_record *record = recorder_at(r, step);

    record->state = STEP_ENDED;
    record->result.outcome = outcome;
    switch (outcome) {
    case STEP_GOOD:
        r->totals.good++;
        break;
    case STEP_SLOW:
        r->totals.slow++;
        break;
    case STEP_WRONG:
        r->totals.wrong++;
        break;
    case STEP_FAILED:
        r->totals.failed++;
        break;
    }
    if (outcome >= STEP_WRONG && r->totals.first_failure[0] == '\0')
        snprintf(r->totals.first_failure, sizeof r->totals.first_failure, "%s %zu %s: %s",
                 r->driver->operations[r->schedule->steps[step].operation], step,
                 outcome == STEP_WRONG ? "wrong" : "failed", why ? why : "no reason known");
    while (r->oldest < r->picked && recorder_at(r, r->oldest)->state == STEP_ENDED)
        r->oldest++;
}

void recorder_answer(struct recorder *r, size_t step, const struct recorder_figures *answer,
                     const char *why)
{
    struct step_record *record = recorder_at(r, step);
    int64_t limit_ns = r->good_limit_ns[r->schedule->steps[step].operation];

    record->result.answer = *answer;
    if (why)
        end_step(r, step, STEP_WRONG, why);
    else
        end_step(r, step, answer->response_ns <= limit_ns ? STEP_GOOD : STEP_SLOW, NULL);
}

void recorder_fail(struct recorder *r, size_t step, const char *why)
{
    end_step(r, step, STEP_FAILED, why);
}

/* --- delivery --- */

int64_t recorder_rate(uint64_t bytes, int64_t transfer_ns)
{
    unsigned __int128 rate = (unsigned __int128)bytes * (uint64_t)VT_NS_PER_S;

    rate /= (uint64_t)(transfer_ns > 0 ? transfer_ns : 1);
    return rate > INT64_MAX ? INT64_MAX : (int64_t)rate;
}

void recorder_bin_begin(struct recorder_bin *bin, const char *operation, int64_t second)
{
    vt_hist_init(&bin->response);
    vt_hist_init(&bin->service);
    vt_hist_init(&bin->wake_lag);
    vt_hist_init(&bin->rate);
    bin->second = (struct vt_load_second){
        .operation = operation,
        .second = second,
        .response = &bin->response,
        .service = &bin->service,
        .wake_lag = &bin->wake_lag,
        .rate = &bin->rate,
    };
}

void recorder_bin_add(struct recorder_bin *bin, const struct recorder_result *result, bool rated)
{
    struct vt_load_second *second = &bin->second;

    second->intended++;
    second->bytes += result->answer.bytes;
    second->good += result->outcome == STEP_GOOD;
    second->slow += result->outcome == STEP_SLOW;
    second->wrong += result->outcome == STEP_WRONG;
    second->failed += result->outcome == STEP_FAILED;
    vt_hist_record(&bin->wake_lag, result->lag_ns);
    if (result->outcome == STEP_GOOD || result->outcome == STEP_SLOW) {
        vt_hist_record(&bin->response, result->answer.response_ns);
        vt_hist_record(&bin->service, result->answer.service_ns);
        if (rated)
            vt_hist_record(&bin->rate,
                           recorder_rate(result->answer.bytes, result->answer.transfer_ns));
    }
}

bool recorder_deliver(struct recorder *r,
                      void (*take)(void *ctx, const struct vt_load_second *second), void *ctx)
{
    const struct driver_step *steps = r->schedule->steps;
    bool used[SPEC_OPERATIONS_MAX] = {false};
    int64_t second = r->second_end_ns / VT_NS_PER_S - 1;
    size_t to = r->delivered;

    if (!recorder_has_second(r))
        return false;
    while (to < r->oldest && steps[to].intended_ns < r->second_end_ns)
        to++;
    for (size_t i = r->delivered; i < to; i++) {
        unsigned operation = steps[i].operation;

        if (!used[operation])
            recorder_bin_begin(&r->bins[operation], r->driver->operations[operation], second);
        used[operation] = true;
        recorder_bin_add(&r->bins[operation], &recorder_at(r, i)->result, r->rated[operation]);
    }
    r->delivered = to;
    find_second_end(r);
    for (unsigned i = 0; i < r->driver->noperations; i++)
        if (used[i])
            take(ctx, &r->bins[i].second);
    return true;
}
