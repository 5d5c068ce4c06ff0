/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "results/record.h"
#include "results/record_reader.h"
#include "results/record_row.h"
#include "results/record_schema.h"

static void clear(struct vt_hist *hist)
{
    if (hist->count)
        vt_hist_init(hist);
}

static void clear_operation(struct record_sum_operation *op)
{
    op->intended = op->good = op->slow = op->wrong = op->failed = op->bytes = 0;
    clear(&op->response);
    clear(&op->service);
    clear(&op->wake_lag);
    clear(&op->rate);
}

static void start(struct record_sum *sum, const struct record_reader *reader)
{
    memset(sum, 0, sizeof(*sum));
    vt_hist_init(&sum->all.response);
    vt_hist_init(&sum->all.service);
    vt_hist_init(&sum->all.wake_lag);
    vt_hist_init(&sum->all.rate);
    sum->has_rates = reader->version >= RECORD_VERSION_RATES;
}

void record_sum_clear(struct record_sum *sum)
{
    for (size_t i = 0; i < sum->noperations; i++)
        clear_operation(&sum->operations[i]);
    clear_operation(&sum->all);
    sum->seconds = 0;
}

void record_sum_dispose(struct record_sum *sum)
{
    free(sum->operations);
    sum->operations = NULL;
    sum->noperations = 0;
}

static void sum_up(struct record_sum *sum)
{
    struct record_sum_operation *all = &sum->all;

    for (size_t i = 0; i < sum->noperations; i++) {
        const struct record_sum_operation *op = &sum->operations[i];
        all->intended += op->intended;
        all->good += op->good;
        all->slow += op->slow;
        all->wrong += op->wrong;
        all->failed += op->failed;
        all->bytes += op->bytes;
        vt_hist_merge(&all->response, &op->response);
        vt_hist_merge(&all->service, &op->service);
        vt_hist_merge(&all->wake_lag, &op->wake_lag);
        vt_hist_merge(&all->rate, &op->rate);
    }
}

static int open_rows(struct record_cursor *cursor, struct record_reader *reader, unsigned tile,
                     const char *role, int64_t from_s, int64_t to_s, struct vt_error *err)
{
    int64_t id = 0;
    int r = record_find_role(reader, tile, role, &id, err);

    *cursor = (struct record_cursor){.reader = reader, .what = "load"};
    if (r == -ENOENT)
        from_s = to_s = 0; /* no rows */
    if (r == 0 || r == -ENOENT)
        r = record_cursor_open(cursor, reader, "load",
                               "SELECT id, tile, role, second, data FROM load"
                               " WHERE id >= (?1 << 20) + ?2 AND id < (?1 << 20) + ?3 ORDER BY id",
                               err);
    if (r < 0)
        return r;
    sqlite3_bind_int64(cursor->statement, 1, id);
    sqlite3_bind_int64(cursor->statement, 2, from_s);
    sqlite3_bind_int64(cursor->statement, 3, to_s);
    return 0;
}

struct row {
    int64_t second;
    const void *data;
    size_t len;
};

/* 1: a row, 0: no more. */
static int take_row(struct record_cursor *cursor, unsigned tile, const char *role, struct row *ret,
                    struct vt_error *err)
{
    int r = record_cursor_step(cursor, err);

    if (r != 1)
        return r;
    int64_t id = record_take_int(cursor, 0, INT64_MAX);
    int64_t row_tile = record_take_int(cursor, 1, VT_RECORD_TILES_MAX);
    const char *row_role = record_take_text(cursor, VT_RECORD_NAME_MAX - 1);
    ret->second = record_take_int(cursor, 0, VT_RECORD_SECONDS_MAX - 1);
    ret->data = record_take_blob(cursor, RECORD_BLOB_MAX, &ret->len);
    if (row_tile != (int64_t)tile || strcmp(row_role, role) ||
        ret->second != (id & ((1 << RECORD_SECOND_BITS) - 1)))
        cursor->fault = "a row does not stand where its number says";
    r = record_cursor_check(cursor, err);
    return r < 0 ? r : 1;
}

static int add_row(struct record_sum *sum, const struct record_cursor *cursor, unsigned tile,
                   const char *role, const struct row *row, struct vt_error *err)
{
    if (record_row_sum(row->data, row->len, sum, err) == 0)
        return 0;
    return vt_error_wrap(err, "record %s: tile %u, %s, second %" PRId64, cursor->reader->path, tile,
                         role, row->second);
}

int record_sum_load(struct record_reader *reader, unsigned tile, const char *role, int64_t from_s,
                    int64_t to_s, struct record_sum *ret, struct vt_error *err)
{
    struct record_cursor cursor;
    struct row row;
    int r;

    start(ret, reader);
    r = open_rows(&cursor, reader, tile, role, from_s, to_s, err);
    while (r == 0 && (r = take_row(&cursor, tile, role, &row, err)) == 1)
        r = add_row(ret, &cursor, tile, role, &row, err);
    record_cursor_close(&cursor);
    if (r < 0) {
        record_sum_dispose(ret);
        return r;
    }
    sum_up(ret);
    return 0;
}

int record_walk_load(struct record_reader *reader, unsigned tile, const char *role, int64_t from_s,
                     int64_t to_s, int64_t bin_s,
                     int (*bin)(void *ctx, int64_t number, struct record_sum *sum), void *ctx,
                     struct vt_error *err)
{
    struct record_cursor cursor;
    struct record_sum *sum = malloc(sizeof(*sum)); /* 100 KiB and more */
    int64_t number = -1;
    struct row row;
    int r;

    if (!sum)
        return vt_error_no_memory(err, "read load of %s", role);
    start(sum, reader);
    r = open_rows(&cursor, reader, tile, role, from_s, to_s, err);
    while (r == 0 && (r = take_row(&cursor, tile, role, &row, err)) == 1) {
        r = number >= 0 && row.second / bin_s != number ? bin(ctx, number, sum) : 0;
        number = row.second / bin_s;
        if (r == 0)
            r = add_row(sum, &cursor, tile, role, &row, err);
    }
    if (r == 0 && number >= 0)
        r = bin(ctx, number, sum);
    record_cursor_close(&cursor);
    record_sum_dispose(sum);
    free(sum);
    return r;
}

int record_read_load_end(struct record_reader *reader, unsigned tile, const char *role,
                         int64_t *ret_end_s, struct vt_error *err)
{
    struct record_cursor cursor;
    int64_t id;
    int r = record_find_role(reader, tile, role, &id, err);

    if (r == -ENOENT) {
        *ret_end_s = 0;
        return 0;
    }
    if (r < 0)
        return r;
    r = record_cursor_open(&cursor, reader, "load",
                           "SELECT second FROM load WHERE id >= (?1 << 20)"
                           " AND id < ((?1 + 1) << 20) ORDER BY id DESC LIMIT 1",
                           err);
    if (r < 0)
        return r;
    sqlite3_bind_int64(cursor.statement, 1, id);
    r = record_cursor_step(&cursor, err);
    if (r >= 0)
        *ret_end_s = r == 1 ? record_take_int(&cursor, 0, VT_RECORD_SECONDS_MAX - 1) + 1 : 0;
    if (r == 1)
        r = record_cursor_check(&cursor, err);
    record_cursor_close(&cursor);
    return r;
}
