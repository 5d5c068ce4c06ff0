/* SPDX-License-Identifier: Apache-2.0 */
/* audit_rules: what the files of audit's rules share. */
#ifndef VTILE_RESULTS_AUDIT_RULES_H
#define VTILE_RESULTS_AUDIT_RULES_H

#include "results/audit.h"

/* What the record says, read once. */
struct audit_work {
    struct record_reader *reader;
    const struct audit_given *given;
    struct audit *audit;
    struct vt_record_role *roles;
    size_t nroles;
    char preset[32], load[32], tiles[32], spec[64], seed[32], by_operation[8];
    int64_t load_millionths, ntiles; /* -1: not said */
    struct vt_error *err;
};

void audit_add(struct audit_work *work, const char *rule, bool claim, enum audit_state state,
               const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* audit_spec.c: numbers in force against specs, presets and published figures. */
int audit_numbers(struct audit_work *work);
/* audit_config.c: what is disclosed of the machines, and whether it stayed. */
int audit_configuration(struct audit_work *work);

#endif
