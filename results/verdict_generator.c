/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator's own work: what it says of a role (results/generator.h), whether its counts
 * are possible at all, and what its process and its machine did each second of the window.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "results/generator.h"
#include "results/record_reader.h"
#include "results/verdict_rules.h"

#define MILLION 1000000
#define PERCENT(millionths) ((double)(millionths) / 10000)

/* --- one role --- */

struct of_role {
    struct verdict *verdict;
    const struct vt_record_role *role;
    const struct record_sum_operation *all;
    const struct vt_record_schedule *schedule;
    struct vt_record_generator generator;
    struct vt_error *err;
};

static int add_gaps(const struct of_role *of)
{
    const struct vt_record_generator *generator = &of->generator;

    if (generator->gap_distance <= VERDICT_GAP_DISTANCE)
        return 0;
    return verdict_add(of->verdict, VERDICT_DEGRADED, "gaps-off", generator->gap_distance, of->err,
                       "tile %u, %s: %.1f %% of %" PRId64
                       " gaps between requests were others than drawn, at most %.0f %% are allowed",
                       of->role->tile, of->role->role, PERCENT(generator->gap_distance),
                       generator->gaps, PERCENT(VERDICT_GAP_DISTANCE));
}

static int add_missing(const struct of_role *of)
{
    const struct vt_record_generator *generator = &of->generator;
    int64_t wanted = generator->connections * MILLION, least;

    least = wanted / 100 * VERDICT_CONNECTIONS_OPEN_PERCENT;
    if (!generator->pooled || generator->watched_ns == 0 || generator->open >= least)
        return 0;
    return verdict_add(of->verdict, VERDICT_DEGRADED, "connections-missing",
                       generator->connections - generator->open / MILLION, of->err,
                       "tile %u, %s: %.1f of %" PRId64
                       " connections were open on average, at least %d %% should be",
                       of->role->tile, of->role->role, (double)generator->open / MILLION,
                       generator->connections, VERDICT_CONNECTIONS_OPEN_PERCENT);
}

/* Where answers themselves take too long, more connections would not help: QoS names that. */
static int add_short(const struct of_role *of)
{
    const struct vt_record_generator *generator = &of->generator;
    int64_t bound = generator->watched_ns / 100 * VERDICT_CONNECTIONS_WAIT_PERCENT;

    if (generator->watched_ns == 0 || generator->waiting_ns <= bound ||
        vt_hist_quantile(&of->all->service, 950000) > of->role->good_limit_ns)
        return 0;
    return verdict_add(of->verdict, VERDICT_DEGRADED, "connections-short", generator->waiting_ns,
                       of->err,
                       "tile %u, %s: in %.0f %% of the time a request waited for one of %" PRId64
                       " connections, at most %d %% are allowed",
                       of->role->tile, of->role->role,
                       100.0 * (double)generator->waiting_ns / (double)generator->watched_ns,
                       generator->connections, VERDICT_CONNECTIONS_WAIT_PERCENT);
}

static bool too_small(int64_t bytes, int64_t least)
{
    return bytes > 0 && bytes < least;
}

static int add_buffers(const struct of_role *of)
{
    const struct vt_record_generator *generator = &of->generator;
    bool receive = too_small(generator->receive_bytes, VERDICT_RECEIVE_BYTES_MIN);
    int64_t least = receive ? VERDICT_RECEIVE_BYTES_MIN : VERDICT_SEND_BYTES_MIN;
    int64_t bytes = receive ? generator->receive_bytes : generator->send_bytes;

    if (!too_small(bytes, least))
        return 0;
    return verdict_add(of->verdict, VERDICT_DEGRADED, "buffers-small", bytes, of->err,
                       "tile %u, %s: a connection's buffer to %s had %" PRId64
                       " bytes, at least %" PRId64 " are needed",
                       of->role->tile, of->role->role, receive ? "receive" : "send", bytes, least);
}

/* A connection that serves any session carries one request after the other. Those of the window
 * were sent in it or, having waited, until the slowest had its answer; the time of all answers must
 * fit. An answer cannot have come before it was asked for, nor a request before its time. */
static int add_impossible(const struct of_role *of)
{
    const struct record_sum_operation *all = of->all;
    const uint64_t window_s = (uint64_t)(of->schedule->to_s - of->schedule->from_s);
    unsigned __int128 room = (unsigned __int128)window_s * VT_NS_PER_S;

    if (all->response.max > 0)
        room += (uint64_t)all->response.max;
    room *= (uint64_t)of->generator.connections;
    if (of->generator.pooled && all->service.sum > room)
        return verdict_add(
            of->verdict, VERDICT_INVALID, "impossible-rate", (int64_t)all->service.count, of->err,
            "tile %u, %s: %" PRIu64 " answers took longer in sum than %" PRId64
            " connections have time",
            of->role->tile, of->role->role, all->service.count, of->generator.connections);
    if (all->service.sum > all->response.sum && all->service.count == all->response.count)
        return verdict_add(of->verdict, VERDICT_INVALID, "impossible-rate",
                           (int64_t)all->service.count, of->err,
                           "tile %u, %s: answers took longer from their sending than from their "
                           "intended time",
                           of->role->tile, of->role->role);
    return 0;
}

static int add_values(const struct of_role *of)
{
    const struct record_sum_operation *all = of->all;
    const uint64_t correct = all->good + all->slow;
    const struct {
        const char *what;
        const struct vt_hist *hist;
        uint64_t count;
    } kinds[] = {
        {"response time", &all->response, correct},
        {"service time", &all->service, correct},
        {"wake lag", &all->wake_lag, all->intended},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < VT_COUNT(kinds); i++) {
        const struct vt_hist *hist = kinds[i].hist;

        if (hist->count != kinds[i].count)
            r = verdict_add(of->verdict, VERDICT_INVALID, "values-lost",
                            (int64_t)(kinds[i].count - hist->count), of->err,
                            "tile %u, %s: %" PRIu64 " requests, %" PRIu64 " values of %s",
                            of->role->tile, of->role->role, kinds[i].count, hist->count,
                            kinds[i].what);
        if (r == 0 && hist->clipped)
            r = verdict_add(of->verdict, VERDICT_DEGRADED, "values-clipped", (int64_t)hist->clipped,
                            of->err, "tile %u, %s: %" PRIu64 " values of %s were above %.0f s",
                            of->role->tile, of->role->role, hist->clipped, kinds[i].what,
                            (double)VT_HIST_MAX_VALUE / VT_NS_PER_S);
    }
    return r;
}

int verdict_add_generator(struct verdict *verdict, struct record_reader *reader,
                          const struct vt_record_role *role, const struct record_sum *sum,
                          const struct vt_record_schedule *schedule, struct vt_error *err)
{
    struct of_role of = {verdict, role, &sum->all, schedule, {0}, err};
    int r = add_values(&of);

    if (r == 0)
        r = generator_read(reader, role->tile, role->role, &of.generator, err);
    if (r < 0) /* none: a guest makes that load itself */
        return r == -ENOENT ? 0 : r;
    r = add_gaps(&of);
    if (r == 0)
        r = add_missing(&of);
    if (r == 0)
        r = add_short(&of);
    if (r == 0)
        r = add_buffers(&of);
    if (r == 0)
        r = add_impossible(&of);
    return r;
}

/* --- its process and its machine --- */

enum series { AGENT_CPU, AGENT_DELAY, CPU_USER, CPU_SYSTEM, CPU_IDLE, CPU_IOWAIT, CPU_STEAL, ALL };
static const char *const series_names[ALL] = {
    [AGENT_CPU] = "agent.cpu",   [AGENT_DELAY] = "agent.run_delay", [CPU_USER] = "cpu.user",
    [CPU_SYSTEM] = "cpu.system", [CPU_IDLE] = "cpu.idle",           [CPU_IOWAIT] = "cpu.iowait",
    [CPU_STEAL] = "cpu.steal",
};

struct seconds {
    char source[VT_RECORD_NAME_MAX];
    int64_t samples[ALL], beyond[ALL];
    double sum[ALL];
};
struct of_client {
    struct verdict *verdict;
    int64_t window_s;
    struct seconds *found;
    size_t n;
    struct vt_error *err;
};

/* By source. */
static int take_row(struct of_client *of, struct record_cursor *cursor)
{
    const char *source = record_take_text(cursor, VT_RECORD_NAME_MAX - 1);
    const char *name = record_take_text(cursor, RECORD_META_KEY_MAX - 1);
    int64_t samples = record_take_int(cursor, 0, INT64_MAX);
    double sum = record_take_real(cursor);
    int64_t beyond = record_take_int(cursor, 0, INT64_MAX);
    int r = record_cursor_check(cursor, of->err);
    struct seconds *last = of->n > 0 ? &of->found[of->n - 1] : NULL;

    if (r < 0)
        return r;
    if (!last || strcmp(last->source, source) != 0) {
        last = realloc(of->found, (of->n + 1) * sizeof(*last));
        if (!last)
            return vt_error_no_memory(of->err, "find the verdict");
        of->found = last;
        last = &of->found[of->n++];
        *last = (struct seconds){0};
        vt_text_copy(last->source, sizeof(last->source), source);
    }
    for (size_t i = 0; i < ALL; i++) {
        if (strcmp(series_names[i], name) != 0)
            continue;
        last->samples[i] = samples;
        last->sum[i] = sum;
        last->beyond[i] = beyond;
    }
    return 0;
}

/* Of clients alone, so there are no more sources than agents. */
static int count(struct of_client *of, struct record_reader *reader, int64_t from_ns, int64_t to_ns)
{
    struct record_cursor cursor;
    char sql[768];
    int r;

    snprintf(sql, sizeof(sql),
             "SELECT s.source, s.name, COUNT(x.value), TOTAL(x.value), COUNT(CASE WHEN x.value >"
             " CASE s.name WHEN 'agent.cpu' THEN %d ELSE %d END / 100.0 THEN 1 END)"
             " FROM sample x JOIN series s ON s.id = x.series JOIN agent a ON a.name = s.source"
             " WHERE a.duty = 'client' AND s.tile = 0 AND s.name IN ('agent.cpu',"
             " 'agent.run_delay', 'cpu.user', 'cpu.system', 'cpu.idle', 'cpu.iowait', 'cpu.steal')"
             " AND x.time_ns >= %" PRId64 " AND x.time_ns < %" PRId64
             " GROUP BY s.source, s.name ORDER BY s.source",
             VERDICT_GENERATOR_CPU_PERCENT, VERDICT_GENERATOR_DELAY_PERCENT, from_ns, to_ns);
    r = record_cursor_open(&cursor, reader, "sample", sql, of->err);
    if (r < 0)
        return r;
    while ((r = record_cursor_step(&cursor, of->err)) == 1) {
        r = take_row(of, &cursor);
        if (r < 0)
            break;
    }
    record_cursor_close(&cursor);
    return r;
}

/* So many seconds may be beyond a bound. */
static int64_t seconds_allowed(const struct of_client *of)
{
    return verdict_seconds_allowed(of->window_s);
}

static int add_seconds(const struct of_client *of, const char *name, const struct seconds *found)
{
    int64_t allowed = seconds_allowed(of), beyond = found->beyond[AGENT_CPU];
    int r = 0;

    if (beyond > allowed)
        r = verdict_add(of->verdict, VERDICT_DEGRADED, "generator-busy", beyond, of->err,
                        "%s took more than %d %% of a CPU in %" PRId64 " of %" PRId64
                        " seconds, at most %" PRId64 " are allowed",
                        name, VERDICT_GENERATOR_CPU_PERCENT, beyond, of->window_s, allowed);
    beyond = found->beyond[AGENT_DELAY];
    if (r == 0 && beyond > allowed)
        r = verdict_add(of->verdict, VERDICT_DEGRADED, "generator-waited", beyond, of->err,
                        "%s waited for a CPU for more than %d %% of the time in %" PRId64
                        " of %" PRId64 " seconds, at most %" PRId64 " are allowed",
                        name, VERDICT_GENERATOR_DELAY_PERCENT, beyond, of->window_s, allowed);
    return r;
}

static int add_steal(const struct of_client *of, const char *name, const struct seconds *found)
{
    double all = 0, share;

    for (int i = CPU_USER; i <= CPU_STEAL; i++)
        all += found->sum[i];
    share = all > 0 ? found->sum[CPU_STEAL] / all : 0;
    if (!(share > VERDICT_STEAL_PERCENT / 100.0))
        return 0;
    return verdict_add(of->verdict, VERDICT_DEGRADED, "generator-stolen",
                       (int64_t)(share < 1 ? share * MILLION : MILLION), of->err,
                       "%s: %.1f %% of its machine's CPU time were stolen, at most %d %% are "
                       "allowed",
                       name, 100 * share, VERDICT_STEAL_PERCENT);
}

static int on_agent(void *ctx, const struct vt_record_agent *agent)
{
    static const struct seconds none = {0};
    const struct of_client *of = ctx;
    const struct seconds *found = &none;
    int64_t missing;
    int r = 0;

    if (strcmp(agent->duty, "client") != 0)
        return 0;
    for (size_t i = 0; i < of->n; i++) {
        if (!strcmp(of->found[i].source, agent->name))
            found = &of->found[i];
    }
    missing = of->window_s - found->samples[AGENT_CPU];
    if (missing > seconds_allowed(of))
        r = verdict_add_samples_lost(of->verdict, agent->name, missing, of->window_s, of->err);
    if (r == 0)
        r = add_seconds(of, agent->name, found);
    return r < 0 ? r : add_steal(of, agent->name, found);
}

int verdict_add_clients(struct verdict *verdict, struct record_reader *reader, int64_t from_ns,
                        int64_t to_ns, struct vt_error *err)
{
    struct of_client of = {
        .verdict = verdict, .window_s = (to_ns - from_ns) / VT_NS_PER_S, .err = err};
    int r = count(&of, reader, from_ns, to_ns);

    if (r == 0)
        r = record_walk_agents(reader, on_agent, &of, err);
    free(of.found);
    return r;
}
