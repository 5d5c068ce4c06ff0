/* SPDX-License-Identifier: Apache-2.0 */
#include "results/record_schema.h"

#include "base/scope.h"

/* SQLite keeps the text after the table's name as it is written here, so that the reader can
 * compare byte for byte. No table needs an index of its own: none is made. */
const struct record_table record_tables[] = {
    {"meta", "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"},
    {"role", "CREATE TABLE role(id INTEGER PRIMARY KEY, tile INTEGER NOT NULL, role TEXT NOT NULL,"
             " scored INTEGER NOT NULL, driven INTEGER NOT NULL, loop INTEGER NOT NULL,"
             " rate INTEGER NOT NULL, divisor INTEGER NOT NULL, weight INTEGER NOT NULL,"
             " good_limit_ns INTEGER NOT NULL, error_share_max INTEGER NOT NULL,"
             " wake_lag_p99_max_ns INTEGER NOT NULL) STRICT"},
    {"operation",
     "CREATE TABLE operation(role INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL,"
     " good_limit_ns INTEGER NOT NULL, min_bytes_p95 INTEGER NOT NULL,"
     " min_bytes_p99 INTEGER NOT NULL, PRIMARY KEY(role, id)) STRICT, WITHOUT ROWID"},
    {"limits", "CREATE TABLE limits(role INTEGER NOT NULL, operation INTEGER NOT NULL,"
               " id INTEGER NOT NULL, percentile INTEGER NOT NULL, limit_ns INTEGER NOT NULL,"
               " PRIMARY KEY(role, operation, id)) STRICT, WITHOUT ROWID"},
    {"schedule", "CREATE TABLE schedule(role INTEGER PRIMARY KEY, hash BLOB NOT NULL,"
                 " steps INTEGER NOT NULL, window_steps INTEGER NOT NULL, from_s INTEGER NOT NULL,"
                 " to_s INTEGER NOT NULL) STRICT"},
    {"agent", "CREATE TABLE agent(name TEXT PRIMARY KEY, duty TEXT NOT NULL, tile INTEGER NOT NULL,"
              " clock_offset_ns INTEGER NOT NULL, rtt_ns INTEGER NOT NULL) STRICT, WITHOUT ROWID"},
    {"totals", "CREATE TABLE totals(role INTEGER PRIMARY KEY, intended INTEGER NOT NULL,"
               " good INTEGER NOT NULL, slow INTEGER NOT NULL, wrong INTEGER NOT NULL,"
               " failed INTEGER NOT NULL, connections_opened INTEGER NOT NULL,"
               " connections_failed INTEGER NOT NULL, queue_high INTEGER NOT NULL,"
               " early INTEGER NOT NULL, first_failure TEXT NOT NULL) STRICT"},
    {"event",
     "CREATE TABLE event(id INTEGER PRIMARY KEY, type TEXT NOT NULL, level INTEGER NOT NULL,"
     " time_ns INTEGER NOT NULL, tile INTEGER NOT NULL, role TEXT, phase TEXT, source TEXT,"
     " text TEXT, planned_ns INTEGER NOT NULL, code TEXT, number REAL) STRICT"},
    {"load", "CREATE TABLE load(id INTEGER PRIMARY KEY, tile INTEGER NOT NULL, role TEXT NOT NULL,"
             " second INTEGER NOT NULL, data BLOB NOT NULL) STRICT"},
    {"series", "CREATE TABLE series(id INTEGER PRIMARY KEY, tile INTEGER NOT NULL, role TEXT,"
               " source TEXT, phase TEXT, name TEXT NOT NULL) STRICT"},
    {"sample", "CREATE TABLE sample(id INTEGER PRIMARY KEY, series INTEGER NOT NULL,"
               " time_ns INTEGER NOT NULL, value REAL, why TEXT) STRICT"},
    {"log",
     "CREATE TABLE log(id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, tile INTEGER NOT NULL,"
     " role TEXT, source TEXT, phase TEXT, name TEXT NOT NULL, data BLOB NOT NULL) STRICT"},
};
const size_t record_ntables = VT_COUNT(record_tables);

const char *const record_inserts[RECORD_STATEMENTS] = {
    [RECORD_PUT_META] = "INSERT OR REPLACE INTO meta VALUES(?,?)",
    [RECORD_PUT_ROLE] = "INSERT INTO role VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
    [RECORD_PUT_OPERATION] = "INSERT INTO operation VALUES(?,?,?,?,?,?)",
    [RECORD_PUT_LIMIT] = "INSERT INTO limits VALUES(?,?,?,?,?)",
    [RECORD_PUT_SCHEDULE] = "INSERT INTO schedule VALUES(?,?,?,?,?,?)",
    [RECORD_PUT_AGENT] = "INSERT OR REPLACE INTO agent VALUES(?,?,?,?,?)",
    [RECORD_PUT_TOTALS] = "INSERT INTO totals VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [RECORD_PUT_EVENT] = "INSERT INTO event VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?)",
    [RECORD_PUT_LOAD] = "INSERT INTO load VALUES(?,?,?,?,?)",
    [RECORD_PUT_SERIES] = "INSERT INTO series VALUES(?,?,?,?,?,?)",
    [RECORD_PUT_SAMPLE] = "INSERT INTO sample VALUES(NULL,?,?,?,?)",
    [RECORD_PUT_LOG] = "INSERT INTO log VALUES(NULL,?,?,?,?,?,?,?)",
};
