/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "results/record.h"
#include "results/record_reader.h"
#include "results/record_schema.h"

struct series {
    int64_t id;
    unsigned tile;
    char *role, *source, *name; /* role, source: NULL where there is none */
};
struct table {
    struct series *series;
    size_t n, cap;
};

static void dispose(struct table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        free(table->series[i].role);
        free(table->series[i].source);
        free(table->series[i].name);
    }
    free(table->series);
}

static int add(struct table *table, const struct series *from, struct vt_error *err)
{
    struct series *grown, *to;

    if (table->n == table->cap) {
        size_t cap = table->cap ? 2 * table->cap : 256;
        grown = realloc(table->series, cap * sizeof(*grown));
        if (!grown)
            return vt_error_no_memory(err, "read series");
        table->series = grown;
        table->cap = cap;
    }
    to = &table->series[table->n++];
    *to = (struct series){.id = from->id, .tile = from->tile, .name = strdup(from->name)};
    to->role = from->role ? strdup(from->role) : NULL;
    to->source = from->source ? strdup(from->source) : NULL;
    if (!to->name || (from->role && !to->role) || (from->source && !to->source))
        return vt_error_no_memory(err, "read series");
    return 0;
}

/* Ids ascend: they are searched by halves. */
static int read_series(struct record_reader *reader, struct table *table, struct vt_error *err)
{
    struct record_cursor cursor;
    int r = record_cursor_open(&cursor, reader, "series",
                               "SELECT id, tile, role, source, name FROM series ORDER BY id", err);

    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        struct series series = {.id = record_take_int(&cursor, INT64_MIN, INT64_MAX)};
        series.tile = (unsigned)record_take_int(&cursor, 0, VT_RECORD_TILES_MAX);
        series.role = (char *)record_take_opt_text(&cursor, RECORD_TEXT_MAX);
        series.source = (char *)record_take_opt_text(&cursor, RECORD_TEXT_MAX);
        series.name = (char *)record_take_text(&cursor, RECORD_TEXT_MAX);
        if (table->n == RECORD_SERIES_MAX)
            cursor.fault = "too many series";
        r = record_cursor_check(&cursor, err);
        if (r == 0)
            r = add(table, &series, err);
    }
    record_cursor_close(&cursor);
    return r;
}

static int compare(const void *key, const void *series)
{
    int64_t a = *(const int64_t *)key, b = ((const struct series *)series)->id;

    return (a > b) - (a < b);
}

static int take_sample(struct record_cursor *cursor, const struct table *table, size_t *ret_series,
                       struct record_sample *ret, struct vt_error *err)
{
    int64_t id = record_take_int(cursor, INT64_MIN, INT64_MAX);
    const struct series *series;

    ret->time_ns = record_take_int(cursor, INT64_MIN, INT64_MAX);
    ret->value = record_take_real(cursor);
    ret->why = record_take_opt_text(cursor, RECORD_TEXT_MAX);
    series =
        table->n ? bsearch(&id, table->series, table->n, sizeof(*table->series), compare) : NULL;
    if (!series) {
        cursor->fault = "a sample of a series that is not there";
        return record_cursor_check(cursor, err);
    }
    ret->tile = series->tile;
    ret->role = series->role;
    ret->source = series->source;
    ret->name = series->name;
    *ret_series = (size_t)(series - table->series);
    return record_cursor_check(cursor, err);
}

int record_walk_samples(struct record_reader *reader,
                        int (*row)(void *ctx, size_t series, const struct record_sample *sample),
                        void *ctx, struct vt_error *err)
{
    struct record_cursor cursor;
    struct table table = {0};
    struct record_sample sample;
    size_t series = 0;
    int r = read_series(reader, &table, err);

    if (r < 0) {
        dispose(&table);
        return r;
    }
    r = record_cursor_open(&cursor, reader, "sample",
                           "SELECT series, time_ns, value, why FROM sample ORDER BY id", err);
    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        r = take_sample(&cursor, &table, &series, &sample, err);
        if (r == 0)
            r = row(ctx, series, &sample);
    }
    record_cursor_close(&cursor);
    dispose(&table);
    return r;
}
