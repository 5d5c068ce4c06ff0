/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qos: response times, rates and errors of the measure window against the limits that stand in the
 * record. Wrong and failed requests count as beyond every limit. Pure.
 */
#ifndef VTILE_RESULTS_QOS_H
#define VTILE_RESULTS_QOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event.h"
#include "base/hist.h"
#include "base/record_rows.h"
#include "results/record.h"

enum qos_state { QOS_PASS, QOS_UNDECIDED, QOS_FAIL }; /* the worse of two is the greater */
const char *qos_state_name(enum qos_state state);     /* "pass", "undecided", "fail" */

enum qos_kind {
    QOS_PERCENTILE, /* response time: at most */
    QOS_RATE,       /* bytes of body a second: at least */
    QOS_ERRORS,
};

#define QOS_BEYOND INT64_MAX /* the rank falls among wrong and failed requests */

struct qos_line {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX], operation[VT_RECORD_NAME_MAX]; /* operation "": whole role */
    enum qos_kind kind;
    int64_t percentile; /* millionths; RATE: of the requests that are to be so fast; not ERRORS */
    int64_t limit;      /* ns, bytes a second, or millionths of errors */
    int64_t value;      /* like limit; -1 without samples; not ERRORS: QOS_BEYOND */
    /* Its 95 % interval, the better end first; -1 where an end is missing. By qos_add_role alone it
     * is what independent requests would have (qos_batches.h). */
    int64_t low, high;
    uint64_t n, beyond; /* requests intended; beyond the limit, or wrong + failed */
    uint64_t wrong, failed;
    enum qos_state state;
};
struct qos {
    struct qos_line *lines;
    size_t nlines, cap;
    enum qos_state state; /* worst line; undecided without lines */
};

/* Adds the lines of one role: its own limits, those of its operations (of time and of rate) when
 * by_operation, its share of errors. Rates only where the sum has them. */
int qos_add_role(struct qos *qos, const struct vt_record_role *role, const struct record_sum *sum,
                 bool by_operation, struct vt_error *err);
void qos_dispose(struct qos *qos);

/* How requests stand against one limit. It adds up: seconds seen one after the other are judged as
 * their sum is. */
struct qos_tally {
    enum qos_kind kind;
    int64_t share; /* of the requests, millionths, that must be within; of ERRORS correct */
    uint64_t n;    /* requests intended */
    uint64_t correct;
    struct vt_hist_cut cut; /* of PERCENTILE and RATE */
};
/* limit: ns, bytes a second; not of ERRORS. */
void qos_tally_init(struct qos_tally *tally, enum qos_kind kind, int64_t share, int64_t limit);
void qos_tally_add(struct qos_tally *tally, const struct vt_load_second *load);
void qos_tally_add_sum(struct qos_tally *tally, const struct record_sum_operation *sum);
/* Not wrong, not failed, and as fast. */
uint64_t qos_tally_within(const struct qos_tally *tally);
/* The state of a line: undecided without requests. */
enum qos_state qos_tally_judge(const struct qos_tally *tally);
/* How many of n requests may be beyond a limit that a share of them must keep. */
uint64_t qos_allowed(uint64_t n, int64_t share);
/* That of a quantile, n > 0: of n requests so many are within, and that share must be. */
enum qos_state qos_judge(uint64_t n, int64_t share, uint64_t within);

/* Of the downloads of an operation that has limits of rate, in the order of min_bytes_per_s. */
extern const int64_t qos_rate_shares[2];

/* Nearest rank among all that were intended: QOS_BEYOND where it falls among wrong and failed
 * requests, -1 when nothing was intended. */
int64_t qos_percentile(const struct record_sum_operation *sum, int64_t percentile);

/* Value of a rank among all intended, the best first; QOS_BEYOND as above. */
int64_t qos_value_at(const struct record_sum_operation *sum, enum qos_kind kind, uint64_t rank);
/* name "": all of them. NULL: it never came up. */
const struct record_sum_operation *qos_find_operation(const struct record_sum *sum,
                                                      const char *name);

/* Order statistics (1-based ranks among n) that enclose the q-quantile with 95 %; 0 where there is
 * none. See qos.c for rule and source. */
void qos_interval(uint64_t n, int64_t percentile, uint64_t *ret_low, uint64_t *ret_high);

#endif
