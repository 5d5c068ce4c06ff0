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
#include "results/qos.h"
#include "results/record.h"

enum verdict_grade { VERDICT_VALID, VERDICT_DEGRADED, VERDICT_INVALID };
const char *verdict_grade_name(enum verdict_grade grade); /* "VALID", "DEGRADED", "INVALID" */

#define VERDICT_REASONS_MAX 256 /* more are counted, not kept */
/* Agents' clocks: the offset of a load client is known to half its best round trip. Windows are
 * cut in whole seconds; a twentieth of one is where the cut itself becomes visible. */
#define VERDICT_CLOCK_UNCERTAIN_NS INT64_C(50000000)

/* Codes, with the grade each brings:
 * DEGRADED  emulated-cpu, client-on-host, no-stable-storage, wrong-answers, clock-uncertain
 * INVALID   record-overflow, record-unclosed, unfinished, interrupted, failed, generator-late,
 *           offered-off, sent-early, counts-off, agent-lost, no-load, facts-missing
 * A VERDICT event brings its own code and grade. */
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
/* For a record without any driven role. */
int verdict_add_no_load(struct verdict *verdict, struct vt_error *err);
void verdict_dispose(struct verdict *verdict);

/* The program's exit code: 130 interrupted; 4 the infrastructure failed; 2 usage or
 * configuration; 3 INVALID; 1 QoS failed; 3 QoS undecided; 0. code: what the run itself ended with
 * (0, 2, 4 or 130: vt_error_exit_code). */
int verdict_exit_code(int code, enum verdict_grade grade, enum qos_state qos);

#endif
