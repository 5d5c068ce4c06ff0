/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "results/record.h"
#include "results/record_reader.h"
#include "results/record_schema.h"

#define MILLION 1000000
#define RATE_MAX (INT64_C(1000000000) * MILLION) /* operations a second, millionths */

/* -ENOENT says of itself what is meant: the caller knows whether that is an error. */
int record_read_meta(struct record_reader *reader, const char *key, char **ret,
                     struct vt_error *err)
{
    struct record_cursor cursor;
    char *copy;
    int r =
        record_cursor_open(&cursor, reader, "meta", "SELECT value FROM meta WHERE key = ?", err);

    if (r == 0) {
        sqlite3_bind_text(cursor.statement, 1, key, -1, SQLITE_STATIC);
        r = record_cursor_step(&cursor, err);
    }
    if (r == 1) {
        const char *value = record_take_text(&cursor, RECORD_META_VALUE_MAX);
        r = record_cursor_check(&cursor, err);
        if (r == 0) {
            copy = strdup(value);
            if (copy)
                *ret = copy;
            else
                r = vt_error_no_memory(err, "read record");
        }
    } else if (r == 0) {
        r = -ENOENT;
    }
    record_cursor_close(&cursor);
    return r;
}

int record_walk_meta(struct record_reader *reader,
                     int (*row)(void *ctx, const char *key, const char *value), void *ctx,
                     struct vt_error *err)
{
    struct record_cursor cursor;
    int r = record_cursor_open(&cursor, reader, "meta", "SELECT key, value FROM meta ORDER BY key",
                               err);

    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        const char *key = record_take_text(&cursor, RECORD_META_KEY_MAX - 1);
        const char *value = record_take_text(&cursor, RECORD_META_VALUE_MAX);
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            r = row(ctx, key, value);
    }
    record_cursor_close(&cursor);
    return r;
}

int record_read_lost(struct record_reader *reader, uint64_t *ret, struct vt_error *err)
{
    VT_AUTO_FREE char *text = NULL;
    int64_t lost;
    int r = record_read_meta(reader, RECORD_LOST_KEY, &text, err);

    if (r == -ENOENT) {
        *ret = UINT64_MAX;
        return 0;
    }
    if (r < 0)
        return r;
    if (vt_text_parse_int(text, 0, INT64_MAX, &lost, NULL) < 0)
        return vt_error_refuse(err, "record %s: table meta: " RECORD_LOST_KEY " is no number",
                               reader->path);
    *ret = (uint64_t)lost;
    return 0;
}

int record_walk_agents(struct record_reader *reader,
                       int (*row)(void *ctx, const struct vt_record_agent *agent), void *ctx,
                       struct vt_error *err)
{
    struct record_cursor cursor;
    struct vt_record_agent agent;
    size_t n = 0;
    int r = record_cursor_open(&cursor, reader, "agent",
                               "SELECT name, duty, tile, clock_offset_ns, rtt_ns FROM agent"
                               " ORDER BY name",
                               err);

    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        record_take_name(&cursor, agent.name);
        record_take_name(&cursor, agent.duty);
        agent.tile = (unsigned)record_take_int(&cursor, 0, VT_RECORD_TILES_MAX);
        agent.clock_offset_ns = record_take_int(&cursor, INT64_MIN, INT64_MAX);
        agent.rtt_ns = record_take_int(&cursor, 0, INT64_MAX);
        if (n++ == VT_RECORD_AGENTS_MAX)
            cursor.fault = "too many agents";
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            r = row(ctx, &agent);
    }
    record_cursor_close(&cursor);
    return r;
}

int record_walk_events(struct record_reader *reader,
                       int (*row)(void *ctx, const struct vt_event *event), void *ctx,
                       struct vt_error *err)
{
    struct record_cursor cursor;
    int r = record_cursor_open(&cursor, reader, "event",
                               "SELECT type, level, time_ns, tile, role, phase, source, text,"
                               " planned_ns, code, number FROM event ORDER BY id",
                               err);

    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        struct vt_event event = {0};
        const char *type = record_take_text(&cursor, RECORD_TEXT_MAX);
        event.level = (enum vt_event_level)record_take_int(&cursor, 0, VT_LEVEL_ERROR);
        event.time_ns = record_take_int(&cursor, INT64_MIN, INT64_MAX);
        event.tile = (unsigned)record_take_int(&cursor, 0, VT_RECORD_TILES_MAX);
        event.role = record_take_opt_text(&cursor, RECORD_TEXT_MAX);
        event.phase = record_take_opt_text(&cursor, RECORD_TEXT_MAX);
        event.source = record_take_opt_text(&cursor, RECORD_TEXT_MAX);
        event.text = record_take_opt_text(&cursor, RECORD_TEXT_MAX);
        event.planned_ns = record_take_int(&cursor, INT64_MIN, INT64_MAX);
        event.series = record_take_opt_text(&cursor, RECORD_TEXT_MAX);
        event.value = record_take_real(&cursor);
        if (!vt_event_type_find(type, &event.type))
            cursor.fault = "an unknown type of event";
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            r = row(ctx, &event);
    }
    record_cursor_close(&cursor);
    return r;
}

/* --- roles --- */

static int read_limits(struct record_reader *reader, int64_t role, int64_t operation,
                       struct vt_record_limit *limits, size_t *ret_n, struct vt_error *err)
{
    struct record_cursor cursor;
    size_t n = 0;
    int r = record_cursor_open(&cursor, reader, "limits",
                               "SELECT id, percentile, limit_ns FROM limits"
                               " WHERE role = ? AND operation = ? ORDER BY id",
                               err);

    if (r == 0) {
        sqlite3_bind_int64(cursor.statement, 1, role);
        sqlite3_bind_int64(cursor.statement, 2, operation);
    }
    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        record_take_int(&cursor, (int64_t)n, (int64_t)n);
        int64_t percentile = record_take_int(&cursor, 1, MILLION - 1);
        int64_t limit_ns = record_take_int(&cursor, 1, INT64_MAX);
        if (n == VT_RECORD_LIMITS_MAX)
            cursor.fault = "too many limits";
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            limits[n++] = (struct vt_record_limit){percentile, limit_ns};
    }
    record_cursor_close(&cursor);
    *ret_n = n;
    return r;
}

static int read_operations(struct record_reader *reader, int64_t id, struct vt_record_role *role,
                           struct vt_error *err)
{
    struct record_cursor cursor;
    int r = record_cursor_open(&cursor, reader, "operation",
                               "SELECT id, name, good_limit_ns, min_bytes_p95, min_bytes_p99"
                               " FROM operation WHERE role = ? ORDER BY id",
                               err);

    if (r == 0)
        sqlite3_bind_int64(cursor.statement, 1, id);
    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        struct vt_record_operation op = {0};
        record_take_int(&cursor, (int64_t)role->noperations + 1, (int64_t)role->noperations + 1);
        record_take_name(&cursor, op.name);
        op.good_limit_ns = record_take_int(&cursor, 0, INT64_MAX);
        op.min_bytes_per_s[0] = record_take_int(&cursor, 0, INT64_MAX);
        op.min_bytes_per_s[1] = record_take_int(&cursor, 0, INT64_MAX);
        if (role->noperations == VT_RECORD_OPERATIONS_MAX)
            cursor.fault = "too many operations";
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            r = read_limits(reader, id, (int64_t)role->noperations + 1, op.limits, &op.nlimits,
                            err);
        if (r == 0)
            role->operations[role->noperations++] = op;
    }
    record_cursor_close(&cursor);
    return r;
}

/* The shape stands in meta, so that a record of Poisson schedules is as it was before there were
 * others. */
static int read_shape(struct record_reader *reader, struct vt_record_role *role,
                      struct vt_error *err)
{
    VT_AUTO_FREE char *text = NULL;
    char key[RECORD_META_KEY_MAX];
    int r;

    snprintf(key, sizeof(key), RECORD_META_SCHEDULE "%s", role->role);
    r = record_read_meta(reader, key, &text, err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    vt_text_make_plain(text);
    if (!vt_text_copy(role->schedule, sizeof(role->schedule), text))
        return vt_error_refuse(err, "record %s: table meta: %s is too long", reader->path, key);
    return 0;
}

static void take_role(struct record_cursor *cursor, struct vt_record_role *role)
{
    role->tile = (unsigned)record_take_int(cursor, 1, VT_RECORD_TILES_MAX);
    record_take_name(cursor, role->role);
    if (!strcmp(role->role, "tile") || !strcmp(role->role, "score"))
        cursor->fault = "a role has the name of something else";
    role->scored = record_take_int(cursor, 0, 1) != 0;
    role->driven = record_take_int(cursor, 0, 1) != 0;
    role->loop = (int)record_take_int(cursor, VT_RECORD_LOOP_OPEN, VT_RECORD_LOOP_CLOSED);
    role->rate = record_take_int(cursor, 0, RATE_MAX);
    role->divisor = record_take_int(cursor, 0, RATE_MAX);
    role->weight = record_take_int(cursor, 0, INT64_C(1000) * MILLION);
    role->good_limit_ns = record_take_int(cursor, 0, INT64_MAX);
    role->error_share_max = record_take_int(cursor, 0, MILLION);
    role->wake_lag_p99_max_ns = record_take_int(cursor, 0, INT64_MAX);
}

static bool is_known(const struct vt_record_role *roles, size_t n,
                     const struct vt_record_role *role)
{
    for (size_t i = 0; i < n; i++) {
        if (roles[i].tile == role->tile && !strcmp(roles[i].role, role->role))
            return true;
    }
    return false;
}

int record_read_roles(struct record_reader *reader, struct vt_record_role **ret, size_t *ret_n,
                      struct vt_error *err)
{
    struct record_cursor cursor;
    struct vt_record_role *roles = NULL, *grown;
    size_t n = 0, cap = 0;
    int r = record_cursor_open(&cursor, reader, "role",
                               "SELECT id, tile, role, scored, driven, loop, rate, divisor, weight,"
                               " good_limit_ns, error_share_max, wake_lag_p99_max_ns FROM role"
                               " ORDER BY tile, id LIMIT 4097", /* one more than is taken */
                               err);

    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        struct vt_record_role role = {0};
        int64_t id = record_take_int(&cursor, 1, VT_RECORD_ROLES_MAX);
        take_role(&cursor, &role);
        if (n == VT_RECORD_ROLES_MAX || is_known(roles, n, &role))
            cursor.fault = "a role twice, or too many";
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            r = read_limits(reader, id, 0, role.limits, &role.nlimits, err);
        if (r == 0)
            r = read_operations(reader, id, &role, err);
        if (r == 0 && role.driven)
            r = read_shape(reader, &role, err);
        if (r < 0)
            break;
        if (n == cap) {
            cap = cap ? 2 * cap : 16;
            grown = realloc(roles, cap * sizeof(*roles));
            if (!grown) {
                r = vt_error_no_memory(err, "read roles of record");
                break;
            }
            roles = grown;
        }
        roles[n++] = role;
    }
    record_cursor_close(&cursor);
    if (r < 0) {
        free(roles);
        return r;
    }
    *ret = roles;
    *ret_n = n;
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    const struct record_role_key *x = a, *y = b;
    int order = (x->tile > y->tile) - (x->tile < y->tile);

    return order ? order : strcmp(x->role, y->role);
}

static int read_keys(struct record_reader *reader, struct vt_error *err)
{
    struct record_role_key *keys = calloc(VT_RECORD_ROLES_MAX, sizeof(*keys));
    struct record_cursor cursor;
    size_t n = 0;
    int r;

    if (!keys)
        return vt_error_no_memory(err, "read roles of record");
    r = record_cursor_open(&cursor, reader, "role", "SELECT id, tile, role FROM role", err);
    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        struct record_role_key key = {.id = record_take_int(&cursor, 1, VT_RECORD_ROLES_MAX)};
        key.tile = record_take_int(&cursor, 1, VT_RECORD_TILES_MAX);
        record_take_name(&cursor, key.role);
        if (n == VT_RECORD_ROLES_MAX)
            cursor.fault = "too many roles";
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            keys[n++] = key;
    }
    record_cursor_close(&cursor);
    if (r < 0) {
        free(keys);
        return r;
    }
    qsort(keys, n, sizeof(*keys), compare_keys);
    reader->keys = keys;
    reader->nkeys = n;
    return 0;
}

int record_find_role(struct record_reader *reader, unsigned tile, const char *role, int64_t *ret,
                     struct vt_error *err)
{
    struct record_role_key key = {.tile = tile};
    const struct record_role_key *found;
    int r = reader->keys ? 0 : read_keys(reader, err);

    if (r < 0)
        return r;
    if (!vt_text_copy(key.role, sizeof(key.role), role))
        return -ENOENT;
    found = bsearch(&key, reader->keys, reader->nkeys, sizeof(key), compare_keys);
    if (!found)
        return -ENOENT;
    *ret = found->id;
    return 0;
}

/* Opens sql with the role's id bound and steps once: 1, or -ENOENT, or an error. */
static int open_of_role(struct record_cursor *cursor, struct record_reader *reader,
                        const char *what, const char *sql, unsigned tile, const char *role,
                        struct vt_error *err)
{
    int64_t id;
    int r = record_find_role(reader, tile, role, &id, err);

    *cursor = (struct record_cursor){.reader = reader, .what = what};
    if (r == 0)
        r = record_cursor_open(cursor, reader, what, sql, err);
    if (r < 0)
        return r;
    sqlite3_bind_int64(cursor->statement, 1, id);
    r = record_cursor_step(cursor, err);
    return r == 0 ? -ENOENT : r;
}

int record_read_schedule(struct record_reader *reader, unsigned tile, const char *role,
                         struct vt_record_schedule *ret, struct vt_error *err)
{
    struct vt_record_schedule schedule = {.tile = tile};
    struct record_cursor cursor;
    size_t len;
    int r = open_of_role(&cursor, reader, "schedule",
                         "SELECT hash, steps, window_steps, from_s, to_s FROM schedule"
                         " WHERE role = ?",
                         tile, role, err);

    if (r == 1) {
        const void *hash = record_take_blob(&cursor, sizeof(schedule.hash), &len);
        schedule.steps = (uint64_t)record_take_int(&cursor, 0, INT64_MAX);
        schedule.window_steps = (uint64_t)record_take_int(&cursor, 0, INT64_MAX);
        schedule.from_s = record_take_int(&cursor, 0, VT_RECORD_SECONDS_MAX);
        schedule.to_s = record_take_int(&cursor, schedule.from_s, VT_RECORD_SECONDS_MAX);
        if (len != sizeof(schedule.hash))
            cursor.fault = "a hash is cut";
        else
            memcpy(schedule.hash, hash, len);
        r = record_cursor_check(&cursor, err);
        vt_text_copy(schedule.role, sizeof(schedule.role), role);
        if (r == 0)
            *ret = schedule;
    }
    record_cursor_close(&cursor);
    return r;
}

int record_read_totals(struct record_reader *reader, unsigned tile, const char *role,
                       struct vt_record_totals *ret, struct vt_error *err)
{
    struct vt_record_totals totals = {.tile = tile};
    uint64_t *const counts[] = {&totals.intended,
                                &totals.good,
                                &totals.slow,
                                &totals.wrong,
                                &totals.failed,
                                &totals.connections_opened,
                                &totals.connections_failed,
                                &totals.queue_high,
                                &totals.early};
    struct record_cursor cursor;
    int r = open_of_role(&cursor, reader, "totals",
                         "SELECT intended, good, slow, wrong, failed, connections_opened,"
                         " connections_failed, queue_high, early, first_failure FROM totals"
                         " WHERE role = ?",
                         tile, role, err);

    if (r == 1) {
        for (size_t i = 0; i < VT_COUNT(counts); i++)
            *counts[i] = (uint64_t)record_take_int(&cursor, 0, INT64_C(1) << 60);
        vt_text_copy(totals.first_failure, sizeof(totals.first_failure),
                     record_take_text(&cursor, RECORD_TEXT_MAX));
        vt_text_copy(totals.role, sizeof(totals.role), role);
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            *ret = totals;
    }
    record_cursor_close(&cursor);
    return r;
}
