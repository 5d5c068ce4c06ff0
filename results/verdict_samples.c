/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seconds of the measure window in which a guest or the host left no sample: what happened in them
 * nobody can tell later. One series stands for all of a source: each comes with the same message.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "results/record_reader.h"
#include "results/verdict_rules.h"

#define SERIES "cpu.user" /* of guests and of a host that is sampled here */
#define SOURCES_MAX (VT_RECORD_AGENTS_MAX + 64)

struct source {
    char name[VT_RECORD_NAME_MAX];
    int64_t samples;
};
struct sources {
    struct record_reader *reader;
    struct source *all;
    size_t n;
    int64_t window_s;
    struct verdict *verdict;
    struct vt_error *err;
};

static int add_source(struct sources *sources, const char *name, int64_t samples,
                      struct vt_error *err)
{
    struct source *grown;

    if (sources->n == SOURCES_MAX)
        return vt_error_refuse(err, "the record has too many sources of samples");
    grown = realloc(sources->all, (sources->n + 1) * sizeof(*grown));
    if (!grown)
        return vt_error_no_memory(err, "find the verdict");
    sources->all = grown;
    grown[sources->n] = (struct source){.samples = samples};
    vt_text_copy(grown[sources->n++].name, VT_RECORD_NAME_MAX, name);
    return 0;
}

static int count_samples(struct record_reader *reader, int64_t from_ns, int64_t to_ns,
                         struct sources *sources, struct vt_error *err)
{
    struct record_cursor cursor;
    char sql[512];
    int r;

    snprintf(sql, sizeof(sql),
             "SELECT s.source, COUNT(x.id) FROM series s LEFT JOIN sample x ON x.series = s.id"
             " AND x.time_ns >= %" PRId64 " AND x.time_ns < %" PRId64 " WHERE s.name = '" SERIES
             "' AND s.source IS NOT NULL"
             " AND (s.tile = 0 OR s.source NOT LIKE 'host.%%') GROUP BY s.source",
             from_ns, to_ns);
    r = record_cursor_open(&cursor, reader, "sample", sql, err);
    if (r < 0)
        return r;
    while ((r = record_cursor_step(&cursor, err)) == 1) {
        const char *name = record_take_text(&cursor, VT_RECORD_NAME_MAX - 1);
        int64_t samples = record_take_int(&cursor, 0, INT64_MAX);

        r = record_cursor_check(&cursor, err);
        if (r == 0)
            r = add_source(sources, name, samples, err);
        if (r < 0)
            break;
    }
    record_cursor_close(&cursor);
    return r;
}

int64_t verdict_seconds_allowed(int64_t window_s)
{
    int64_t bound = window_s * VERDICT_SAMPLES_LOST_PERCENT / 100;

    return bound < VERDICT_SAMPLES_LOST_MIN ? VERDICT_SAMPLES_LOST_MIN : bound;
}

int verdict_add_samples_lost(struct verdict *verdict, const char *name, int64_t missing,
                             int64_t window_s, struct vt_error *err)
{
    return verdict_add(verdict, VERDICT_DEGRADED, "samples-lost", missing, err,
                       "%s: %" PRId64 " of %" PRId64
                       " seconds of the measurement have no sample, at most %" PRId64
                       " are allowed",
                       name, missing, window_s, verdict_seconds_allowed(window_s));
}

static int judge(struct sources *sources, const char *name, int64_t samples)
{
    int64_t missing = sources->window_s - samples;
    int r;

    if (missing <= verdict_seconds_allowed(sources->window_s))
        return 0;
    r = verdict_was_restarted(sources->reader, name, sources->err);
    if (r != 0)
        return r < 0 ? r : 0;
    return verdict_add_samples_lost(sources->verdict, name, missing, sources->window_s,
                                    sources->err);
}

/* Every guest samples itself. */
static int on_agent(void *ctx, const struct vt_record_agent *agent)
{
    struct sources *sources = ctx;

    if (strcmp(agent->duty, "guest") != 0)
        return 0;
    for (size_t i = 0; i < sources->n; i++) {
        if (!strcmp(sources->all[i].name, agent->name))
            return judge(sources, agent->name, sources->all[i].samples);
    }
    return judge(sources, agent->name, 0);
}

static int judge_all(struct record_reader *reader, struct sources *sources)
{
    int r = record_walk_agents(reader, on_agent, sources, sources->err);

    for (size_t i = 0; r == 0 && i < sources->n; i++) {
        if (!strncmp(sources->all[i].name, "host.", 5))
            r = judge(sources, sources->all[i].name, sources->all[i].samples);
    }
    return r;
}

int verdict_add_samples(struct verdict *verdict, struct record_reader *reader,
                        const struct vt_record_schedule *schedule, struct vt_error *err)
{
    struct sources sources = {.reader = reader,
                              .verdict = verdict,
                              .err = err,
                              .window_s = schedule->to_s - schedule->from_s};
    VT_AUTO_FREE char *t0 = NULL;
    int64_t t0_ns = 0, from_ns, to_ns;
    int r = record_read_meta(reader, RECORD_META_T0, &t0, err);

    if (r == -ENOENT)
        return 0; /* no load was started */
    if (r == 0 && vt_text_parse_int(t0, 0, INT64_MAX / 4, &t0_ns, NULL) < 0)
        r = vt_error_refuse(err, "meta '" RECORD_META_T0 "' is no time");
    from_ns = t0_ns + schedule->from_s * VT_NS_PER_S;
    to_ns = t0_ns + schedule->to_s * VT_NS_PER_S;
    if (r == 0)
        r = count_samples(reader, from_ns, to_ns, &sources, err);
    if (r == 0)
        r = judge_all(reader, &sources);
    if (r == 0)
        r = verdict_add_clients(verdict, reader, from_ns, to_ns, err);
    free(sources.all);
    return r;
}
