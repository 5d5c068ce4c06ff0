/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_reader: how the readers of a record's tables take values out of rows that a stranger may
 * have written. Each returns what it took and remembers the first fault, so that a row is taken
 * whole and checked once.
 */
#ifndef VTILE_RESULTS_RECORD_READER_H
#define VTILE_RESULTS_RECORD_READER_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"

struct record_role_key {
    int64_t tile, id;
    char role[VT_RECORD_NAME_MAX];
};
struct record_reader {
    sqlite3 *db;
    int version;    /* of the record */
    char path[256]; /* for messages */
    /* Ids of roles by tile and name, read when one is first asked for: tables have no index. */
    struct record_role_key *keys;
    size_t nkeys;
};

/* -ENOENT says of itself what is meant. */
int record_find_role(struct record_reader *reader, unsigned tile, const char *role, int64_t *ret,
                     struct vt_error *err);

/* One statement being walked. */
struct record_cursor {
    struct record_reader *reader;
    sqlite3_stmt *statement;
    const char *what;  /* "role", for messages */
    const char *fault; /* first column's fault, NULL: none */
    int column;        /* next one */
};

int record_cursor_open(struct record_cursor *cursor, struct record_reader *reader, const char *what,
                       const char *sql, struct vt_error *err);
/* 1: a row, 0: no more, negative: error. Rewinds to the first column. */
int record_cursor_step(struct record_cursor *cursor, struct vt_error *err);
/* 0, or -EBADMSG naming table and fault. Call after the last column of a row. */
int record_cursor_check(const struct record_cursor *cursor, struct vt_error *err);
void record_cursor_close(struct record_cursor *cursor);

int64_t record_take_int(struct record_cursor *cursor, int64_t min, int64_t max);
double record_take_real(struct record_cursor *cursor); /* NULL: NaN */
/* Borrowed until the next step; "" after a fault. opt: NULL for SQL's NULL. */
const char *record_take_text(struct record_cursor *cursor, size_t max);
const char *record_take_opt_text(struct record_cursor *cursor, size_t max);
/* A name as the writer lets it pass, copied into dst of VT_RECORD_NAME_MAX bytes. */
void record_take_name(struct record_cursor *cursor, char *dst);
const void *record_take_blob(struct record_cursor *cursor, size_t max, size_t *ret_len);

#endif
