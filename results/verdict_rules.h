/* SPDX-License-Identifier: Apache-2.0 */
/* verdict_rules: what the files of the verdict's rules share. */
#ifndef VTILE_RESULTS_VERDICT_RULES_H
#define VTILE_RESULTS_VERDICT_RULES_H

#include "results/verdict.h"

int verdict_add(struct verdict *verdict, enum verdict_grade grade, const char *code, int64_t number,
                struct vt_error *err, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* 1 where that agent's VM was started again while load ran, which a reason of its own says: its
 * clock began anew and its samples have a gap for that alone. */
int verdict_was_restarted(struct record_reader *reader, const char *agent, struct vt_error *err);

/* Clocks of agents: known well enough, and the same at the begin and the end of the load. */
int verdict_add_clocks(struct verdict *verdict, struct record_reader *reader, struct vt_error *err);

/* Seconds of the window that may lack or be beyond something. */
int64_t verdict_seconds_allowed(int64_t window_s);
int verdict_add_samples_lost(struct verdict *verdict, const char *name, int64_t missing,
                             int64_t window_s, struct vt_error *err);
/* What load clients and their machines did, second by second, in that time of the controller's
 * clock. */
int verdict_add_clients(struct verdict *verdict, struct record_reader *reader, int64_t from_ns,
                        int64_t to_ns, struct vt_error *err);

/* A fact of meta, if it is a guest's of what must be zero and is not. */
int verdict_add_wrong_fact(struct verdict *verdict, const char *key, const char *value,
                           struct vt_error *err);

#endif
