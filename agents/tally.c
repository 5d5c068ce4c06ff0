/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tiles/load/recorder.h"

struct tally_done {
    int64_t second;
    struct recorder_result result;
};

static int64_t length_ns(const struct jobs_order *order)
{
    return order->times.ramp_ns + order->times.warm_ns + order->times.measure_ns;
}

int tally_init(struct tally *t, const struct role *role, const struct jobs_order *order,
               struct vt_error *err)
{
    *t = (struct tally){.role = role, .order = *order, .until_ns = length_ns(order)};
    t->bin = malloc(sizeof *t->bin);
    if (!t->bin)
        return vt_error_no_memory(err, "count operations");
    t->totals.tile = order->tile;
    vt_text_copy(t->totals.role, sizeof t->totals.role, order->role);
    pthread_mutex_init(&t->lock, NULL);
    return 0;
}

void tally_skip(struct tally *t, int64_t second)
{
    t->next_second = second;
    t->from_ns = second * VT_NS_PER_S;
}

void tally_dispose(struct tally *t)
{
    if (!t->bin)
        return;
    for (unsigned i = 0; i < SPEC_OPERATIONS_MAX; i++)
        free(t->operations[i].open);
    free(t->bin);
    t->bin = NULL;
    pthread_mutex_destroy(&t->lock);
}

static bool append(struct tally_operation *operation, const struct tally_done *done)
{
    if (operation->nopen == operation->cap) {
        size_t cap = operation->cap ? 2 * operation->cap : 64;
        struct tally_done *grown =
            cap <= TALLY_OPEN_MAX ? realloc(operation->open, cap * sizeof *grown) : NULL;
        if (!grown)
            return false;
        operation->open = grown;
        operation->cap = cap;
    }
    operation->open[operation->nopen++] = *done;
    return true;
}

static void count_total(struct tally *t, const struct tally_done *done, unsigned operation,
                        const char *why)
{
    struct vt_record_totals *totals = &t->totals;
    totals->intended++;
    totals->good += done->result.outcome == STEP_GOOD;
    totals->slow += done->result.outcome == STEP_SLOW;
    totals->wrong += done->result.outcome == STEP_WRONG;
    totals->failed += done->result.outcome == STEP_FAILED;
    if (done->result.outcome < STEP_WRONG || totals->first_failure[0] != '\0')
        return;
    snprintf(totals->first_failure, sizeof totals->first_failure, "%s %s: %s",
             t->role->operations[operation],
             done->result.outcome == STEP_WRONG ? "wrong" : "failed",
             why ? why : "no reason known");
    vt_text_make_plain(totals->first_failure);
}

static enum step_outcome outcome_of(const struct tally *t, const struct role_done *done)
{
    if (done->failed)
        return done->wrong ? STEP_WRONG : STEP_FAILED;
    return done->response_ns <= t->order.good_limit_ns[done->operation] ? STEP_GOOD : STEP_SLOW;
}

void tally_add(struct tally *t, const struct role_done *done)
{
    if (done->operation >= t->role->noperations || done->intended_ns < t->from_ns)
        return;
    const struct tally_done kept = {
        .second = done->intended_ns / VT_NS_PER_S,
        .result = {.lag_ns = done->lag_ns,
                   .answer = {.response_ns = done->response_ns,
                              .service_ns = done->service_ns,
                              .transfer_ns = done->service_ns,
                              .bytes = done->bytes},
                   .outcome = outcome_of(t, done)},
    };
    pthread_mutex_lock(&t->lock);
    if (!t->ended && done->intended_ns < t->until_ns) {
        if (append(&t->operations[done->operation], &kept))
            count_total(t, &kept, done->operation, done->failed);
        else
            t->overflowed = true;
    }
    pthread_mutex_unlock(&t->lock);
}

bool tally_overflowed(struct tally *t)
{
    pthread_mutex_lock(&t->lock);
    bool overflowed = t->overflowed;
    pthread_mutex_unlock(&t->lock);
    return overflowed;
}

/* --- what is due --- */

static uint64_t due_in(const struct tally *t, unsigned operation, int64_t second)
{
    int64_t from_ns = second * VT_NS_PER_S, to_ns = from_ns + VT_NS_PER_S;
    return t->role->due(&t->order.jobs, &t->order.times, operation, from_ns,
                        to_ns < t->until_ns ? to_ns : t->until_ns);
}

static uint64_t told_in(const struct tally_operation *operation, int64_t second)
{
    uint64_t n = 0;
    for (size_t i = 0; i < operation->nopen; i++)
        n += operation->open[i].second == second;
    return n;
}

void tally_end(struct tally *t, int64_t at_ns, const char *why)
{
    pthread_mutex_lock(&t->lock);
    if (at_ns < t->until_ns)
        t->until_ns = at_ns > 0 ? at_ns : 0;
    t->ended = true;
    vt_text_copy(t->why, sizeof t->why, why);
    pthread_mutex_unlock(&t->lock);
}

/* --- delivery --- */

/* Moves a second's operations from the open ones into the bin. What is missing of those due has
 * failed: it is counted here and never kept, since after an early end it may be all of two hours.
 */
static void take_second(struct tally *t, unsigned o, int64_t second, uint64_t due)
{
    const struct tally_done lost = {.second = second, .result = {.outcome = STEP_FAILED}};
    struct tally_operation *operation = &t->operations[o];
    size_t left = 0;
    uint64_t told = 0;
    recorder_bin_begin(t->bin, t->role->operations[o], second);
    for (size_t i = 0; i < operation->nopen; i++) {
        if (operation->open[i].second == second) {
            recorder_bin_add(t->bin, &operation->open[i].result, t->order.rated[o]);
            told++;
        } else {
            operation->open[left++] = operation->open[i];
        }
    }
    operation->nopen = left;
    for (; told < due; told++) {
        recorder_bin_add(t->bin, &lost.result, t->order.rated[o]);
        count_total(t, &lost, o, t->why);
    }
}

/* Whether all that is due in that second, of all operations, has been told or never will be. */
static bool is_complete(const struct tally *t, int64_t second, bool *ret_any)
{
    bool any = false;
    for (unsigned o = 0; o < t->role->noperations; o++) {
        uint64_t due = due_in(t, o, second);
        const struct tally_operation *operation = &t->operations[o];
        if (!t->ended && due > 0 && told_in(operation, second) < due)
            return false;
        any |= due > 0;
    }
    *ret_any = any;
    return true;
}

/* Passes over seconds with nothing due. False: the next one is not complete, or there is none. */
static bool find_second(struct tally *t, int64_t *ret)
{
    bool found = false;
    pthread_mutex_lock(&t->lock);
    while (!found && t->next_second * VT_NS_PER_S < t->until_ns &&
           is_complete(t, t->next_second, &found))
        *ret = t->next_second++;
    pthread_mutex_unlock(&t->lock);
    return found;
}

unsigned tally_deliver(struct tally *t, unsigned max,
                       void (*take)(void *ctx, unsigned operation,
                                    const struct vt_load_second *second),
                       void *ctx)
{
    unsigned n = 0;
    int64_t second = 0;
    for (; n < max && find_second(t, &second); n++) {
        for (unsigned o = 0; o < t->role->noperations; o++) {
            pthread_mutex_lock(&t->lock);
            uint64_t due = due_in(t, o, second);
            if (due > 0)
                take_second(t, o, second, due);
            pthread_mutex_unlock(&t->lock);
            if (due > 0)
                take(ctx, o, &t->bin->second); /* the bin is this thread's alone */
        }
    }
    return n;
}
