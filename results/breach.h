/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breach: when each failed limit of QoS was broken. Pure, from record and QoS.
 */
#ifndef VTILE_RESULTS_BREACH_H
#define VTILE_RESULTS_BREACH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"
#include "results/qos.h"
#include "results/record.h"

#define BREACH_MAX 64 /* failed limits that are followed; more are counted */

/* Seconds are of intended time since T0, -1 where that never came. */
struct breach {
    struct qos_line line;
    uint64_t allowed; /* of the window's requests, beyond the limit without failing it */
    int64_t began_s;  /* from here to the end of the window, the limit was broken by what there was
                         so far: what a display that runs along would have shown */
    int64_t spent_s;  /* more than allowed were beyond: nothing after could mend it */
};
struct breaches {
    struct breach *all; /* the first spent first, then the first begun */
    size_t n;
    size_t first; /* so many at the front came in the same seconds: none of them is the first */
    size_t more;
};

/* How many of n requests may be beyond that line's limit. */
uint64_t breach_allowed(const struct qos_line *line, uint64_t n);
/* *ret zeroed. Roles as record_read_roles has them. */
int breach_find(struct record_reader *reader, const struct qos *qos, struct breaches *ret,
                struct vt_error *err);
void breach_dispose(struct breaches *breaches);

#endif
