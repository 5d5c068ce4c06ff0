/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit: is the run that stands in this record a valid claim? Each rule says what it saw. What
 * specs and presets say is given as data by the caller; all else is in the record. docs/audit.md
 * lists the rules.
 */
#ifndef VTILE_RESULTS_AUDIT_H
#define VTILE_RESULTS_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"
#include "base/text.h"
#include "results/record.h"
#include "results/result.h"

enum audit_state { AUDIT_PASS, AUDIT_FAIL, AUDIT_NOT_APPLICABLE };
const char *audit_state_name(enum audit_state state); /* "pass", "fail", "not applicable" */

#define AUDIT_SAW_MAX 400
#define AUDIT_LINES_MAX 32
struct audit_line {
    const char *rule;
    enum audit_state state;
    bool claim; /* not of a sound run, but of one that claims the full score */
    char saw[AUDIT_SAW_MAX];
};
struct audit {
    struct audit_line lines[AUDIT_LINES_MAX];
    size_t n;
};

/* The rows that a spec gives for one tile at the run's load. */
struct audit_spec {
    struct vt_record_role *roles; /* the caller's; NULL: there are none, why says so */
    size_t nroles;
    char why[AUDIT_SAW_MAX];
};
struct audit_preset {
    const char *name;
    int64_t ramp_s, warm_s, measure_s;
    bool by_operation;
};
/* Of a published tile: operations a second that count as 100 points, millionths. */
struct audit_divisor {
    const char *role;
    int64_t divisor;
};
struct audit_given {
    const char *signer; /* fingerprint */
    bool own;           /* this installation's; else pinned by --trust */
    unsigned nparts, nrecipients;
    const char *compared;        /* NULL: what was sealed came out again; else what did not */
    const char *other_rules;     /* NULL, or what was sealed by other rules than RESULT_RULES */
    const struct result *result; /* of this record */
    struct audit_spec text;      /* by the spec text in the record */
    struct audit_spec builtin;   /* by the built-in spec of that name */
    bool same_text;              /* both are the same text */
    const struct audit_preset *presets;
    size_t npresets;
    const char *full_preset; /* the one that a full claim was measured by */
    const struct audit_divisor *divisors;
    size_t ndivisors;
};

/* Zeroed *ret is filled. An error is of the record or of memory; a rule that fails is none. */
int audit_record(struct record_reader *reader, const struct audit_given *given, struct audit *ret,
                 struct vt_error *err);
size_t audit_failed(const struct audit *audit, bool claim); /* rules of that kind */

/* One object; a text for people. */
void audit_write_json(const struct audit *audit, const char *run, struct vt_buf *out);
void audit_write_text(const struct audit *audit, struct vt_buf *out);

#endif
