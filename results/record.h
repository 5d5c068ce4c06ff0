/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results: what a run saw, and all that follows from it: record -> QoS -> score, verdict ->
 * archive -> report. Everything after `record` is pure, reads the record alone and can be repeated
 * offline. Knows neither tiles, tuning nor hypervisors.
 *
 * record: one SQLite file a run, written by one thread with a bounded queue, a transaction a
 * second. What does not fit into the queue is lost, counted, and makes the run INVALID.
 * docs/record.md has the tables.
 *
 * Order: record_create -> (put | sink's take)* -> record_close -> record_open_read. Create, put,
 * take and close are called from one thread (the loop's).
 */
#ifndef VTILE_RESULTS_RECORD_H
#define VTILE_RESULTS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/event.h"
#include "base/hist.h"
#include "base/record_rows.h"

#define RECORD_APPLICATION_ID 0x7674696c /* "vtil" */
#define RECORD_VERSION 2
#define RECORD_VERSION_MIN 1   /* still read */
#define RECORD_VERSION_RATES 2 /* the first whose rows of load hold rates */
#define RECORD_META_KEY_MAX 64
#define RECORD_META_VALUE_MAX (1U << 20)

/* Keys of meta that results or people look for; others are kept and shown too. */
#define RECORD_META_RUN "run"               /* id of the run */
#define RECORD_META_CONTROLLER "controller" /* program and version */
#define RECORD_META_SPEC_NAME "spec.name"
#define RECORD_META_SPEC_TEXT "spec.text" /* as it was read */
#define RECORD_META_SEED "seed"
#define RECORD_META_PRESET "preset"
#define RECORD_META_LOAD "load"
#define RECORD_META_TILES "tiles"
#define RECORD_META_HOST "host"             /* URI */
#define RECORD_META_ACCEL "accel"           /* "kvm", "tcg", "xen", "test": tcg degrades */
#define RECORD_META_STORAGE "storage"       /* of kept data: "tmpfs" degrades, "disk" does not */
#define RECORD_META_CLIENT "client"         /* "host": load comes from the host; degrades */
#define RECORD_META_WALL_START "wall_start" /* "2026-11-30T10:45:41Z" */
#define RECORD_META_BY_OPERATION "limits_by_operation" /* "1": by operation too, "0": by role */
#define RECORD_META_T0 "load.t0_ns" /* of the load, controller's monotonic clock */
/* And "<who>.<name>": what a machine is, before the load; the same after it. */
#define RECORD_META_CONFIG "config."
#define RECORD_META_CONFIG_END "config_end."
/* And an agent's name: "<offset_ns> <rtt_ns>" of its clock when load begins; the table of agents
 * has them at the end. */
#define RECORD_META_CLOCK_BEGIN "clock.begin."
/* And an agent's name: how often its VM was started again while load ran. */
#define RECORD_META_RESTARTS "restarts."
/* And "<role>.<tile>": what a load client said of its own work, results/generator.h. */
#define RECORD_META_GENERATOR "generator."
/* And a role's name: how its operations lie in the window; absent: poisson. */
#define RECORD_META_SCHEDULE "schedule."
/* And a knob's name: what did not stay as tuning had set it, and when; each degrades. */
#define RECORD_META_TUNING_DRIFT "tuning.drift."
/* "complete", "interrupted", "failed: why"; absent: unfinished */
#define RECORD_META_ENDED "ended"

struct record;

/* path must not exist; made 0600. */
int record_create(const char *path, struct record **ret, struct vt_error *err);
/* Takes NOTE, PHASE, AGENT, LOAD, SAMPLE, LOG and VERDICT events; lives as long as the record.
 * VERDICT events: series = reason's code, value = its number, text, level WARNING: DEGRADED,
 * ERROR: INVALID. AGENT events of level ERROR say that the agent was lost. */
struct vt_sink *record_sink(struct record *record);

/* A second of 26 tiles with seven operations a role is half a MiB; the rest is for logs. Two of
 * these exist: one fills while the other is written, once a second or when it is half full. */
#define RECORD_QUEUE_BYTES ((size_t)8 << 20)
/* Bytes that the queue takes now; who fetches logs holds back while this is small. */
size_t record_room(struct record *record);

/* Queued; -ENOBUFS when the queue is full (and the run INVALID). A later value of a key wins. */
int record_put_meta(struct record *record, const char *key, const char *value,
                    struct vt_error *err);
/* As a LOG event is taken, but for its text: bytes, which may be anything. What finds no room is
 * counted as lost. */
void record_put_log(struct record *record, const struct vt_event *event, const void *bytes,
                    size_t len);
int record_put_role(struct record *record, const struct vt_record_role *role, struct vt_error *err);
int record_put_schedule(struct record *record, const struct vt_record_schedule *schedule,
                        struct vt_error *err);
int record_put_agent(struct record *record, const struct vt_record_agent *agent,
                     struct vt_error *err);
int record_put_totals(struct record *record, const struct vt_record_totals *totals,
                      struct vt_error *err);

/* 0, or what stopped the writer (disk full, I/O). *ret_lost (may be NULL): things that found the
 * queue full. Any time before close. */
int record_status(struct record *record, uint64_t *ret_lost, struct vt_error *err);
/* Writes all that is queued, marks the record as whole, ends the thread, leaves one file without
 * side files, frees record also on error. NULL: 0. */
int record_close(struct record *record, struct vt_error *err);

/* Reading. Records come from strangers too: opened read-only and immutable, application id,
 * version and schema must be exactly ours, every text, number and blob is checked and bounded;
 * anything else is VT_KIND_REFUSED. */
struct record_reader;
int record_open_read(const char *path, struct record_reader **ret, struct vt_error *err);
struct record_reader *record_reader_close(struct record_reader *reader); /* NULL ok; NULL */

/* RECORD_VERSION_MIN to RECORD_VERSION. */
int record_reader_version(const struct record_reader *reader);
/* *ret is the caller's (free). -ENOENT without text in *err when the key is absent. */
int record_read_meta(struct record_reader *reader, const char *key, char **ret,
                     struct vt_error *err);
/* Each calls row(ctx, ...) in the order of the record's keys; a row that returns non-zero ends the
 * walk with that code. Pointers live until row returns. */
int record_walk_meta(struct record_reader *reader,
                     int (*row)(void *ctx, const char *key, const char *value), void *ctx,
                     struct vt_error *err);
int record_walk_agents(struct record_reader *reader,
                       int (*row)(void *ctx, const struct vt_record_agent *agent), void *ctx,
                       struct vt_error *err);
int record_walk_events(struct record_reader *reader,
                       int (*row)(void *ctx, const struct vt_event *event), void *ctx,
                       struct vt_error *err); /* NOTE, PHASE, AGENT, VERDICT in order of arrival */
/* By tile, then in the order they were put. *ret is the caller's (free). */
int record_read_roles(struct record_reader *reader, struct vt_record_role **ret, size_t *ret_n,
                      struct vt_error *err);
/* -ENOENT without text when that role has none. */
int record_read_schedule(struct record_reader *reader, unsigned tile, const char *role,
                         struct vt_record_schedule *ret, struct vt_error *err);
int record_read_totals(struct record_reader *reader, unsigned tile, const char *role,
                       struct vt_record_totals *ret, struct vt_error *err);
/* What the writer lost; UINT64_MAX when the record was never closed. */
int record_read_lost(struct record_reader *reader, uint64_t *ret, struct vt_error *err);

/* The load of one role, summed over seconds [from_s, to_s) of intended time. */
struct record_sum_operation {
    char name[VT_RECORD_NAME_MAX];
    uint64_t intended, good, slow, wrong, failed, bytes;
    struct vt_hist response, service, wake_lag, rate;
};
struct record_sum {
    bool has_rates; /* false: of a version that had none, so they cannot be judged */
    struct record_sum_operation all; /* name "" */
    struct record_sum_operation *operations;
    size_t noperations;
    uint64_t seconds; /* rows found */
};
int record_sum_load(struct record_reader *reader, unsigned tile, const char *role, int64_t from_s,
                    int64_t to_s, struct record_sum *ret, struct vt_error *err);
void record_sum_dispose(struct record_sum *sum);
/* Bin i is [i * bin_s, (i + 1) * bin_s). For each that has rows, bin is called when its load has
 * been added to the operations of *sum (not to `all`). It may clear them: what it sees is the sum
 * since then. */
int record_walk_load(struct record_reader *reader, unsigned tile, const char *role, int64_t from_s,
                     int64_t to_s, int64_t bin_s,
                     int (*bin)(void *ctx, int64_t number, struct record_sum *sum), void *ctx,
                     struct vt_error *err);
void record_sum_clear(struct record_sum *sum);
/* The second after that role's last row; 0 where it has none. */
int record_read_load_end(struct record_reader *reader, unsigned tile, const char *role,
                         int64_t *ret_end_s, struct vt_error *err);

/* One value of one series. A series ends with its phase: the same tile, source and name may come
 * again. */
struct record_sample {
    unsigned tile;
    const char *role, *source, *name; /* role, source: may be NULL */
    int64_t time_ns;
    double value;    /* NaN: not available */
    const char *why; /* then; may be NULL */
};
#define RECORD_SERIES_MAX 1000000 /* of a record that is read */
/* In order of arrival. series: a number below RECORD_SERIES_MAX for each series, by which row
 * may keep what it found out about it. */
int record_walk_samples(struct record_reader *reader,
                        int (*row)(void *ctx, size_t series, const struct record_sample *sample),
                        void *ctx, struct vt_error *err);

#endif
