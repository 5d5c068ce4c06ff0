/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record rows: what a run's plan puts into its record, as values free of specs and of SQLite. The
 * orchestrator fills them from spec and plan; results reads them back and judges by them alone.
 * Rates, divisors, weights and shares are integers in millionths.
 */
#ifndef VT_BASE_RECORD_ROWS_H
#define VT_BASE_RECORD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_RECORD_NAME_MAX 32 /* role, operation, agent, phase names; with NUL */
#define VT_RECORD_TILES_MAX 256
#define VT_RECORD_ROLES_MAX (VT_RECORD_TILES_MAX * 16)
#define VT_RECORD_OPERATIONS_MAX 16
#define VT_RECORD_LIMITS_MAX 8
#define VT_RECORD_SCHEDULE_MAX 128 /* bytes of a shape's text, with NUL */
#define VT_RECORD_AGENTS_MAX 16384
#define VT_RECORD_SECONDS_MAX 1000000 /* of one role's load: 11 days */

/* Logs that are bitmaps of a role's steps: <one of both><role>.<tile>.bits; docs/record.md. */
#define VT_RECORD_ACKNOWLEDGED "acknowledged."
#define VT_RECORD_KEPT "kept."
#define VT_RECORD_BITS ".bits"

enum vt_record_loop { VT_RECORD_LOOP_OPEN, VT_RECORD_LOOP_CLOSED };

struct vt_record_limit {
    int64_t percentile; /* millionths: 950000 = 95 % */
    int64_t limit_ns;   /* of response time from the intended time */
};
struct vt_record_operation {
    char name[VT_RECORD_NAME_MAX];
    int64_t good_limit_ns; /* effective, never 0 */
    struct vt_record_limit limits[VT_RECORD_LIMITS_MAX];
    size_t nlimits;
    int64_t min_bytes_per_s[2]; /* 0: none */
};
/* One role of one tile, with the limits and divisors that are in force. */
struct vt_record_role {
    unsigned tile; /* 1-based */
    char role[VT_RECORD_NAME_MAX];
    bool scored, driven;
    int loop; /* enum vt_record_loop */
    /* How operations lie in the window ("swing:16,60s"); "": poisson. Of all tiles alike. */
    char schedule[VT_RECORD_SCHEDULE_MAX];
    int64_t rate;    /* operations a second that this run offers */
    int64_t divisor; /* operations a second that count as 100 points */
    int64_t weight;  /* in the tile's mean */
    int64_t good_limit_ns;
    int64_t error_share_max; /* wrong + failed over intended */
    int64_t wake_lag_p99_max_ns;
    struct vt_record_limit limits[VT_RECORD_LIMITS_MAX]; /* of the whole role */
    size_t nlimits;
    struct vt_record_operation operations[VT_RECORD_OPERATIONS_MAX];
    size_t noperations;
};
/* What was drawn ahead for one role. The window is [from_s, to_s) in seconds of intended time
 * since T0: the measure phase. */
struct vt_record_schedule {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX];
    uint8_t hash[32];
    uint64_t steps;        /* all segments */
    uint64_t window_steps; /* intended in the window: must be found in the rows of load */
    int64_t from_s, to_s;
};
struct vt_record_agent {
    char name[VT_RECORD_NAME_MAX]; /* "web-1", "client" */
    char duty[VT_RECORD_NAME_MAX]; /* "guest", "client", "host" */
    unsigned tile;                 /* 0: none */
    int64_t clock_offset_ns;       /* agent - controller */
    int64_t rtt_ns;                /* of the best exchange: the offset is good to half of it */
};
/* The generator's own totals of one role over all segments. */
struct vt_record_totals {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX];
    uint64_t intended, good, slow, wrong, failed;
    uint64_t connections_opened, connections_failed, queue_high, early;
    char first_failure[160];
};

#endif
