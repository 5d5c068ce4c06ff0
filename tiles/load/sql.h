/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql: what a driver of a PostgreSQL server gives instead of bytes: statements, their values, and
 * its judgement of the rows. As pure as other drivers; the engine owns the library and its sockets.
 */
#ifndef VTILE_TILES_LOAD_SQL_H
#define VTILE_TILES_LOAD_SQL_H

#include "tiles/load/driver.h"

#define SQL_STATEMENTS_MAX 16
#define SQL_VALUES_MAX 8 /* of a statement */
#define SQL_VALUE_BYTES 32
/* Of one answer, as it travels, looked at between reads: one read takes at most what the kernel's
 * receive buffer holds. */
#define SQL_ANSWER_BYTES_MAX (1U << 20)

/* One execution of a statement; values as texts. */
struct sql_call {
    unsigned statement, nvalues;
    char values[SQL_VALUES_MAX][SQL_VALUE_BYTES];
};
/* Rows of an answer, good during judge(). */
struct sql_rows {
    unsigned nrows, ncolumns;
    /* Its text; NULL: SQL's null. row < nrows, column < ncolumns. */
    const char *(*value)(const void *result, unsigned row, unsigned column);
    const void *result;
};

struct driver_sql {
    const char *database;
    void (*user)(const struct driver_target *target, char *user, size_t size);
    /* Prepared on each connection when it opens. */
    const char *const *statements;
    unsigned nstatements;
    /* Instead of request(). */
    void (*call)(void *conn, const struct driver_step *step, struct sql_call *ret);
    /* DRIVER_DONE or DRIVER_WRONG, with why. A statement that failed comes not here: it is wrong,
     * with the server's words. */
    enum driver_verdict (*judge)(void *conn, const struct sql_rows *rows, const char **why);
};

#endif
