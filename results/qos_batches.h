/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qos_batches: the interval of a percentile whose requests are correlated, from how much its share
 * differs from one stretch of the window to the next. Pure; two passes over a role's rows and a few
 * hundred bytes, however long the run.
 */
#ifndef VTILE_RESULTS_QOS_BATCHES_H
#define VTILE_RESULTS_QOS_BATCHES_H

#include "results/qos.h"

/* A batch is a whole multiple of that. */
#define QOS_BATCH_S 10
/* Fewer say too little of how they differ; more would only make them shorter and less independent
 * (B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research
 * 30, 1982: 10 to 30). */
#define QOS_BATCHES_MIN 10
#define QOS_BATCHES_MAX 30

struct qos_batch {
    uint64_t n, within; /* requests; of them at or before the percentile's value */
};

/* How long the batches of a window are; *ret_n: how many, the last one takes what is left over. 0:
 * the window has too few. */
int64_t qos_batch_length(int64_t window_s, unsigned *ret_n);
/* Ranks as of qos_interval; none unless n is QOS_BATCHES_MIN to QOS_BATCHES_MAX. */
void qos_batch_interval(const struct qos_batch *batches, unsigned n, int64_t percentile,
                        uint64_t *ret_low, uint64_t *ret_high);

/* Gives the lines from `first` on, those of one role whose sum is given, the wider of both
 * intervals. Without enough batches they have none. Without an upper end none has passed. */
int qos_widen(struct qos *qos, size_t first, struct record_reader *reader,
              const struct vt_record_schedule *schedule, const struct record_sum *sum,
              struct vt_error *err);

#endif
