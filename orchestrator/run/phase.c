/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/run/phase.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/scope.h"

static const struct phase teardown = {.name = "teardown"};

static void advance(struct phases *phases);

static void on_next(uv_timer_t *timer)
{
    advance(timer->data);
}

/* From a clean stack: phases end from deep inside callbacks. */
static void schedule_next(struct phases *phases)
{
    uv_timer_start(&phases->next, on_next, 0, 0);
}

static void end_phase(struct phases *phases)
{
    phases->running = false;
    uv_timer_stop(&phases->deadline);
    schedule_next(phases);
}

static void remember_failure(struct phases *phases, const struct vt_error *err)
{
    if (phases->failure.kind != VT_KIND_NONE)
        return;
    phases->failure = *err;
    phases->events->failed(phases->run, phases->table[phases->current], err);
}

static void on_deadline(uv_timer_t *timer)
{
    struct phases *phases = timer->data;
    const struct phase *phase = phases->table[phases->current];
    struct vt_error err = VT_ERROR_INIT;

    vt_error_set(&err, VT_KIND_INFRA, -ETIMEDOUT, "%s did not end within %lld s", phase->name,
                 (long long)(phase->deadline_ns(phases->run) / VT_NS_PER_S));
    if (phase->late)
        phase->late(phases->run, &err);
    remember_failure(phases, &err);
    end_phase(phases);
}

static bool skipped(const struct phases *phases, const struct phase *phase)
{
    if (phases->interrupts >= 2)
        return true;
    return !phase->always && (phases->failure.kind != VT_KIND_NONE || phases->interrupts > 0);
}

static void start_phase(struct phases *phases)
{
    const struct phase *phase = phases->table[phases->current];
    int64_t deadline_ns = phase->deadline_ns ? phase->deadline_ns(phases->run) : 0;
    struct vt_error err = VT_ERROR_INIT;

    phases->running = true;
    phases->entered[phases->current] = true;
    phases->events->entered(phases->run, phase);
    if (deadline_ns > 0)
        uv_timer_start(&phases->deadline, on_deadline, (uint64_t)(deadline_ns / VT_NS_PER_MS), 0);
    if (phase->start(phases->run, &err) < 0)
        phases_done(phases, &err);
}

static bool has_made_something(const struct phases *phases)
{
    for (unsigned i = 0; i < phases->count; i++)
        if (phases->entered[i] && phases->table[i]->undo)
            return true;
    return false;
}

static void undo_next(struct phases *phases)
{
    if (!phases->undoing) {
        phases->undoing = true;
        phases->current = (int)phases->count;
        if (has_made_something(phases))
            phases->events->entered(phases->run, &teardown);
    }
    while (--phases->current >= 0) {
        const struct phase *phase = phases->table[phases->current];

        if (!phases->entered[phases->current] || !phase->undo)
            continue;
        phases->undo_done = false;
        phase->undo(phases->run);
        return;
    }
    phases->events->ended(phases->run);
}

static void advance(struct phases *phases)
{
    if (phases->running)
        return;
    if (!phases->undoing) {
        while (++phases->current < (int)phases->count) {
            if (skipped(phases, phases->table[phases->current]))
                continue;
            start_phase(phases);
            return;
        }
    }
    undo_next(phases);
}

int phases_start(struct phases *phases, struct vt_error *err)
{
    assert(phases->count <= VT_COUNT(phases->entered));
    memset(phases->entered, 0, sizeof(phases->entered));
    vt_error_clear(&phases->failure);
    phases->interrupts = 0;
    phases->running = phases->undoing = false;
    phases->current = -1;
    if (uv_timer_init(&phases->loop->uv, &phases->deadline) != 0 ||
        uv_timer_init(&phases->loop->uv, &phases->next) != 0)
        return vt_error_no_memory(err, "timers of the phases");
    phases->deadline.data = phases->next.data = phases;
    schedule_next(phases);
    return 0;
}

void phases_done(struct phases *phases, const struct vt_error *err)
{
    if (!phases->running)
        return;
    if (err && err->kind != VT_KIND_NONE)
        remember_failure(phases, err);
    end_phase(phases);
}

void phases_undone(struct phases *phases, const struct vt_error *err)
{
    if (!phases->undoing || phases->undo_done)
        return;
    phases->undo_done = true;
    if (err && err->kind != VT_KIND_NONE)
        phases->events->undo_failed(phases->run, phases->table[phases->current], err);
    schedule_next(phases);
}

bool phases_heed(const struct phases *phases, int64_t now_ns)
{
    return phases->interrupts == 0 || now_ns - phases->interrupted_ns >= PHASES_AGAIN_NS;
}

void phases_interrupt(struct phases *phases, int64_t now_ns)
{
    phases->interrupts++;
    phases->interrupted_ns = now_ns;
    if (!phases->running)
        return;
    if (phases->interrupts == 1 && phases->table[phases->current]->stop)
        phases->table[phases->current]->stop(phases->run);
    else if (phases->interrupts >= 2 || !phases->table[phases->current]->always)
        end_phase(phases);
}

void phases_fail(struct phases *phases, const struct vt_error *err)
{
    if (phases->undoing || phases->current < 0 || phases->current >= (int)phases->count ||
        (phases->running && phases->table[phases->current]->always))
        return;
    remember_failure(phases, err);
    if (phases->running)
        end_phase(phases);
}

bool phases_in(const struct phases *phases, const char *name)
{
    return !phases->undoing && phases->current >= 0 && phases->current < (int)phases->count &&
           !strcmp(phases->table[phases->current]->name, name);
}

void phases_close(struct phases *phases)
{
    if (!uv_is_closing((uv_handle_t *)&phases->deadline))
        uv_close((uv_handle_t *)&phases->deadline, NULL);
    if (!uv_is_closing((uv_handle_t *)&phases->next))
        uv_close((uv_handle_t *)&phases->next, NULL);
}
