/* SPDX-License-Identifier: Apache-2.0 */
#include "results/verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "results/verdict_rules.h"

const char *verdict_grade_name(enum verdict_grade grade)
{
    static const char *const names[] = {"VALID", "DEGRADED", "INVALID"};

    return names[grade];
}

int verdict_add(struct verdict *verdict, enum verdict_grade grade, const char *code, int64_t number,
                struct vt_error *err, const char *fmt, ...)
{
    struct verdict_reason *grown, *reason;
    va_list args;

    if (grade > verdict->grade)
        verdict->grade = grade;
    if (verdict->nreasons == VERDICT_REASONS_MAX) {
        verdict->more++;
        return 0;
    }
    grown = realloc(verdict->reasons, (verdict->nreasons + 1) * sizeof(*grown));
    if (!grown)
        return vt_error_no_memory(err, "find the verdict");
    verdict->reasons = grown;
    reason = &grown[verdict->nreasons++];
    *reason = (struct verdict_reason){.grade = grade, .number = number};
    vt_text_copy(reason->code, sizeof(reason->code), code);
    va_start(args, fmt);
    vsnprintf(reason->text, sizeof(reason->text), fmt, args);
    va_end(args);
    return 0;
}

/* Among the first n reasons. */
static const struct verdict_reason *find(const struct verdict *verdict, size_t n, const char *code)
{
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(verdict->reasons[i].code, code))
            return &verdict->reasons[i];
    }
    return NULL;
}

int verdict_was_restarted(struct record_reader *reader, const char *agent, struct vt_error *err)
{
    VT_AUTO_FREE char *times = NULL;
    char key[RECORD_META_KEY_MAX];
    int r;

    snprintf(key, sizeof(key), RECORD_META_RESTARTS "%s", agent);
    r = record_read_meta(reader, key, &times, err);
    return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

/* --- the whole record --- */

static int add_ending(struct verdict *verdict, struct record_reader *reader, bool *ret_complete,
                      struct vt_error *err)
{
    static const char failed[] = "failed: ";
    VT_AUTO_FREE char *ended = NULL;
    int r = record_read_meta(reader, RECORD_META_ENDED, &ended, err);

    *ret_complete = false;
    if (r == -ENOENT)
        return verdict_add(verdict, VERDICT_INVALID, "unfinished", 0, err,
                           "the record does not say how the run ended");
    if (r < 0)
        return r;
    *ret_complete = !strcmp(ended, "complete");
    if (*ret_complete)
        return 0;
    if (!strcmp(ended, "interrupted"))
        return verdict_add(verdict, VERDICT_INVALID, "interrupted", 0, err,
                           "the run was interrupted");
    if (!strncmp(ended, failed, strlen(failed)))
        return verdict_add(verdict, VERDICT_INVALID, "failed", 0, err, "%s",
                           ended + strlen(failed));
    return verdict_add(verdict, VERDICT_INVALID, "unfinished", 0, err, "the run ended as '%s'",
                       ended);
}

static int add_lost(struct verdict *verdict, struct record_reader *reader, struct vt_error *err)
{
    uint64_t lost;
    int r = record_read_lost(reader, &lost, err);

    if (r < 0 || lost == 0)
        return r;
    if (lost == UINT64_MAX)
        return verdict_add(verdict, VERDICT_INVALID, "record-unclosed", 0, err,
                           "the record was not closed: its end is missing");
    return verdict_add(verdict, VERDICT_INVALID, "record-overflow", (int64_t)lost, err,
                       "%" PRIu64 " things were lost on their way into the record", lost);
}

/* A value that makes figures weaker than they look. A complete run states all of these facts. */
static int add_fact(struct verdict *verdict, struct record_reader *reader, bool complete,
                    const char *key, const char *weak, const char *code, const char *text,
                    struct vt_error *err)
{
    VT_AUTO_FREE char *value = NULL;
    int r = record_read_meta(reader, key, &value, err);

    if (r == -ENOENT && complete)
        return verdict_add(verdict, VERDICT_INVALID, "facts-missing", 0, err,
                           "the record does not state '%s'", key);
    if (r == -ENOENT)
        return 0;
    if (r < 0 || strcmp(value, weak) != 0)
        return r;
    return verdict_add(verdict, VERDICT_DEGRADED, code, 0, err, "%s", text);
}

struct walk {
    struct verdict *verdict;
    size_t nfound; /* reasons that were found in the record's facts, before its events */
    int64_t drifts;
    struct vt_error *err;
};

static int on_event(void *ctx, const struct vt_event *event)
{
    struct walk *walk = ctx;
    const char *text = event->text ? event->text : "";
    const struct verdict_reason *known;
    enum verdict_grade grade;

    if (event->type == VT_EVENT_AGENT && event->level == VT_LEVEL_ERROR)
        return verdict_add(walk->verdict, VERDICT_INVALID, "agent-lost", 0, walk->err, "%s: %s",
                           event->source ? event->source : "agent", text);
    if (event->type != VT_EVENT_VERDICT || event->level == VT_LEVEL_INFO)
        return 0;
    grade = event->level == VT_LEVEL_ERROR ? VERDICT_INVALID : VERDICT_DEGRADED;
    /* The run itself may have announced what was found above. */
    known = find(walk->verdict, walk->nfound, event->series ? event->series : "");
    if (known && known->grade >= grade && event->tile == 0)
        return 0;
    return verdict_add(
        walk->verdict, grade, event->series && *event->series ? event->series : "unnamed",
        isfinite(event->value) && fabs(event->value) < 9e15 ? (int64_t)event->value : 0, walk->err,
        "%s", text);
}

/* Whoever keeps watch over a tuned host notes what did not stay as it was set. */
static int on_meta(void *ctx, const char *key, const char *value)
{
    struct walk *walk = ctx;
    size_t len = strlen(RECORD_META_TUNING_DRIFT);

    if (strncmp(key, RECORD_META_TUNING_DRIFT, len) != 0)
        return verdict_add_wrong_fact(walk->verdict, key, value, walk->err);
    return verdict_add(walk->verdict, VERDICT_DEGRADED, "tuning-drifted", ++walk->drifts, walk->err,
                       "%s: %.140s", key + len, value);
}

int verdict_add_record(struct verdict *verdict, struct record_reader *reader, struct vt_error *err)
{
    struct walk walk = {.verdict = verdict, .err = err};
    bool complete;
    int r = add_ending(verdict, reader, &complete, err);

    if (r == 0)
        r = add_lost(verdict, reader, err);
    if (r == 0)
        r = add_fact(verdict, reader, complete, RECORD_META_ACCEL, "tcg", "emulated-cpu",
                     "emulated CPU: guests ran without hardware virtualization", err);
    if (r == 0)
        r = add_fact(verdict, reader, complete, RECORD_META_STORAGE, "tmpfs", "no-stable-storage",
                     "no stable storage: guests wrote to memory", err);
    if (r == 0)
        r = add_fact(verdict, reader, complete, RECORD_META_CLIENT, "host", "client-on-host",
                     "client on the host: load and guests shared its CPUs", err);
    if (r == 0)
        r = verdict_add_clocks(verdict, reader, err);
    if (r == 0)
        r = record_walk_meta(reader, on_meta, &walk, err);
    walk.nfound = verdict->nreasons;
    if (r == 0)
        r = record_walk_events(reader, on_event, &walk, err);
    return r;
}

/* --- one role --- */

static int add_window(struct verdict *verdict, const struct vt_record_role *role,
                      const struct record_sum_operation *all,
                      const struct vt_record_schedule *schedule, struct vt_error *err)
{
    uint64_t ended = all->good + all->slow + all->wrong + all->failed;
    int r = 0;

    if (all->intended != schedule->window_steps)
        r = verdict_add(verdict, VERDICT_INVALID, "offered-off",
                        (int64_t)(all->intended - schedule->window_steps), err,
                        "tile %u, %s: %" PRIu64 " requests stand in the window, %" PRIu64
                        " were drawn",
                        role->tile, role->role, all->intended, schedule->window_steps);
    if (r == 0 && ended != all->intended)
        r = verdict_add(verdict, VERDICT_INVALID, "counts-off", (int64_t)(all->intended - ended),
                        err, "tile %u, %s: %" PRIu64 " of %" PRIu64 " requests have an end",
                        role->tile, role->role, ended, all->intended);
    if (r == 0 && all->wrong)
        r = verdict_add(verdict, VERDICT_DEGRADED, "wrong-answers", (int64_t)all->wrong, err,
                        "tile %u, %s: %" PRIu64 " answers had a wrong status or wrong contents",
                        role->tile, role->role, all->wrong);
    return r;
}

/* A generator that wakes too late measures itself. */
static int add_wake_lag(struct verdict *verdict, const struct vt_record_role *role,
                        const struct record_sum_operation *all, struct vt_error *err)
{
    int64_t lag_ns = vt_hist_quantile(&all->wake_lag, 990000);

    if (role->wake_lag_p99_max_ns == 0 || lag_ns <= role->wake_lag_p99_max_ns)
        return 0;
    return verdict_add(
        verdict, VERDICT_INVALID, "generator-late", lag_ns, err,
        "tile %u, %s: the generator woke late by %.3f ms (99 %%), at most %.3f ms are allowed",
        role->tile, role->role, (double)lag_ns / VT_NS_PER_MS,
        (double)role->wake_lag_p99_max_ns / VT_NS_PER_MS);
}

static int add_totals(struct verdict *verdict, const struct vt_record_role *role,
                      const struct vt_record_totals *totals, struct vt_error *err)
{
    uint64_t ended = totals->good + totals->slow + totals->wrong + totals->failed;
    int r = 0;

    if (totals->early)
        r = verdict_add(verdict, VERDICT_INVALID, "sent-early", (int64_t)totals->early, err,
                        "tile %u, %s: %" PRIu64 " requests were sent before their time", role->tile,
                        role->role, totals->early);
    if (r == 0 && ended != totals->intended)
        r = verdict_add(verdict, VERDICT_INVALID, "counts-off", (int64_t)(totals->intended - ended),
                        err, "tile %u, %s: the generator ended %" PRIu64 " of %" PRIu64 " requests",
                        role->tile, role->role, ended, totals->intended);
    return r;
}

int verdict_add_role(struct verdict *verdict, const struct vt_record_role *role,
                     const struct record_sum *sum, const struct vt_record_schedule *schedule,
                     const struct vt_record_totals *totals, struct vt_error *err)
{
    int r = 0;

    if (!schedule || schedule->to_s == schedule->from_s || !sum->all.intended)
        r = verdict_add(verdict, VERDICT_INVALID, "no-load", 0, err,
                        "tile %u, %s: no load stands in the measure window", role->tile,
                        role->role);
    if (r == 0 && schedule)
        r = add_window(verdict, role, &sum->all, schedule, err);
    if (r == 0 && sum->all.wake_lag.count)
        r = add_wake_lag(verdict, role, &sum->all, err);
    if (r == 0 && totals)
        r = add_totals(verdict, role, totals, err);
    return r;
}

int verdict_add_no_load(struct verdict *verdict, struct vt_error *err)
{
    return verdict_add(verdict, VERDICT_INVALID, "no-load", 0, err,
                       "the record has no driven role");
}

void verdict_dispose(struct verdict *verdict)
{
    free(verdict->reasons);
    *verdict = (struct verdict){0};
}

int verdict_exit_code(int code, enum verdict_grade grade, enum qos_state qos)
{
    if (code == 130 || code == 4 || code == 2)
        return code;
    if (grade == VERDICT_INVALID)
        return 3;
    if (qos == QOS_FAIL)
        return 1;
    if (qos == QOS_UNDECIDED)
        return 3;
    return code;
}
