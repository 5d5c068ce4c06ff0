/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_schema: the tables of a record, as text: the writer makes them, the reader accepts a file
 * with exactly these. A change here is a new RECORD_VERSION.
 */
#ifndef VTILE_RESULTS_RECORD_SCHEMA_H
#define VTILE_RESULTS_RECORD_SCHEMA_H

#include <stddef.h>

#define RECORD_LOST_KEY "record.lost" /* in meta; written by record_close alone */
#define RECORD_OWN_PREFIX "record."   /* keys of meta that callers may not set */

#define RECORD_TEXT_MAX 4096      /* a text column, meta values and logs apart */
#define RECORD_BLOB_MAX (1 << 20) /* a row of load, a chunk of log */

/* load.id: number of the role << 20 | second; see VT_RECORD_SECONDS_MAX. */
#define RECORD_SECOND_BITS 20

enum record_statement {
    RECORD_PUT_META,
    RECORD_PUT_ROLE,
    RECORD_PUT_OPERATION,
    RECORD_PUT_LIMIT,
    RECORD_PUT_SCHEDULE,
    RECORD_PUT_AGENT,
    RECORD_PUT_TOTALS,
    RECORD_PUT_EVENT,
    RECORD_PUT_LOAD,
    RECORD_PUT_SERIES,
    RECORD_PUT_SAMPLE,
    RECORD_PUT_LOG,
    RECORD_STATEMENTS,
};

struct record_table {
    const char *name, *sql;
};
extern const struct record_table record_tables[];
extern const size_t record_ntables;
extern const char *const record_inserts[RECORD_STATEMENTS];

#endif
