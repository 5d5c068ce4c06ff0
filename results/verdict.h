/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict: may the figures of this record be believed? Apart from QoS. Found from the record
 * alone: its meta keys, agents, schedules and rows of load, and the VERDICT events in it.
 */
#ifndef VTILE_RESULTS_VERDICT_H
#define VTILE_RESULTS_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"
#include "results/kept.h"
#include "results/qos.h"
#include "results/record.h"

enum verdict_grade { VERDICT_VALID, VERDICT_DEGRADED, VERDICT_INVALID };
const char *verdict_grade_name(enum verdict_grade grade); /* "VALID", "DEGRADED", "INVALID" */

#define VERDICT_REASONS_MAX 256 /* more are counted, not kept */
/* Agents' clocks: the offset of a load client is known to half its best round trip. Windows are
 * cut in whole seconds; a twentieth of one is where the cut itself becomes visible. */
#define VERDICT_CLOCK_UNCERTAIN_NS INT64_C(50000000)
/* A guest's samples are of a second: half of one is where they fall into the wrong one. */
#define VERDICT_CLOCK_UNCERTAIN_GUEST_NS INT64_C(500000000)
/* Beyond what a clock may be slewed while the run lasts (verdict_clock.c), as above. */
#define VERDICT_CLOCK_MOVED_NS VERDICT_CLOCK_UNCERTAIN_NS
/* Of the window's seconds. A busy guest is a moment late now and then, and the edges cut one off
 * each: three of the minute of smoke. What is lost beyond that hides what happened. */
#define VERDICT_SAMPLES_LOST_PERCENT 5
#define VERDICT_SAMPLES_LOST_MIN 2
/* The load generator, docs/verdict.md says why. Gaps: Kolmogorov-Smirnov distance, millionths. */
#define VERDICT_GAP_DISTANCE 100000
#define VERDICT_CONNECTIONS_OPEN_PERCENT 90 /* of those wanted, on average: less are missing */
#define VERDICT_CONNECTIONS_WAIT_PERCENT 50 /* of the time in which a request waits for one */
#define VERDICT_RECEIVE_BYTES_MIN 65536     /* of a socket's buffer */
#define VERDICT_SEND_BYTES_MIN 16384
#define VERDICT_GENERATOR_CPU_PERCENT 80  /* of one CPU; its loop is one thread */
#define VERDICT_GENERATOR_DELAY_PERCENT 5 /* of a second, ready to run without a CPU */
#define VERDICT_STEAL_PERCENT 5           /* of all its machine's CPU time in the window */

/* docs/verdict.md lists the codes: grade, rule and source of each. A VERDICT event brings its own
 * code and grade. */
struct verdict_reason {
    enum verdict_grade grade;
    char code[VT_RECORD_NAME_MAX];
    int64_t number; /* what was found: a count, ns, ...; 0 where there is none */
    char text[200];
};
struct verdict {
    enum verdict_grade grade;
    struct verdict_reason *reasons;
    size_t nreasons;
    size_t more; /* reasons past VERDICT_REASONS_MAX */
};

/* What the whole record says. */
int verdict_add_record(struct verdict *verdict, struct record_reader *reader, struct vt_error *err);
/* What one driven role's window and totals say. schedule, totals: NULL where there are none. */
int verdict_add_role(struct verdict *verdict, const struct vt_record_role *role,
                     const struct record_sum *sum, const struct vt_record_schedule *schedule,
                     const struct vt_record_totals *totals, struct vt_error *err);
/* Whether its load could be made as it should be, and whether its figures are possible. */
int verdict_add_generator(struct verdict *verdict, struct record_reader *reader,
                          const struct vt_record_role *role, const struct record_sum *sum,
                          const struct vt_record_schedule *schedule, struct vt_error *err);
/* Samples of guests, host and load client in the window of that schedule. */
int verdict_add_samples(struct verdict *verdict, struct record_reader *reader,
                        const struct vt_record_schedule *schedule, struct vt_error *err);
/* What was acknowledged and is not kept, or not known to be. */
int verdict_add_kept(struct verdict *verdict, const struct kept *kept, struct vt_error *err);
/* For a record without any driven role. */
int verdict_add_no_load(struct verdict *verdict, struct vt_error *err);
void verdict_dispose(struct verdict *verdict);

/* The program's exit code: 130 interrupted; 4 the infrastructure failed; 2 usage or
 * configuration; 3 INVALID; 1 QoS failed; 3 QoS undecided; 0. code: what the run itself ended with
 * (0, 2, 4 or 130: vt_error_exit_code). */
int verdict_exit_code(int code, enum verdict_grade grade, enum qos_state qos);

#endif
