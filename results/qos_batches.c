/* SPDX-License-Identifier: Apache-2.0 */
#include "results/qos_batches.h"

#include <math.h>
#include <stdlib.h>

#include "base/scope.h"

#define MILLION 1000000

/*
 * The rule. Let x be the value of the q-quantile of all n requests and p_b the share of batch b at
 * or before x. Were batches independent of each other, the share of all would have the variance
 *     B / (B - 1) * sum (within_b - p n_b)^2 / n^2,    p = sum within_b / n
 * (a ratio of sums: W. G. Cochran, Sampling Techniques, 3rd ed., 2.11), whatever goes on inside of
 * a batch. q -+ t * its root, t being Student's with B - 1 degrees of freedom, are the shares whose
 * quantiles are the interval's ends (R. S. Woodruff, "Confidence intervals for medians and other
 * position measures", JASA 47, 1952; batches of quantiles: A. F. Seila, "A batching approach to
 * quantile estimation in regenerative simulations", Management Science 28, 1982). No distribution
 * of response times is assumed.
 */
/* 97.5 % of Student's t with 9 to 29 degrees of freedom (any table). */
static const double student_975[] = {2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                                     2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074,
                                     2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045};

int64_t qos_batch_length(int64_t window_s, unsigned *ret_n)
{
    int64_t units = window_s / QOS_BATCH_S, each;

    *ret_n = 0;
    if (units < QOS_BATCHES_MIN)
        return 0;
    each = (units + QOS_BATCHES_MAX - 1) / QOS_BATCHES_MAX;
    *ret_n = (unsigned)(units / each);
    return each * QOS_BATCH_S;
}

void qos_batch_interval(const struct qos_batch *batches, unsigned n, int64_t percentile,
                        uint64_t *ret_low, uint64_t *ret_high)
{
    double q = (double)percentile / MILLION, total = 0, within = 0, spread = 0, half, low, high;

    *ret_low = *ret_high = 0;
    for (unsigned i = 0; i < n; i++) {
        total += (double)batches[i].n;
        within += (double)batches[i].within;
    }
    if (total <= 0 || n < QOS_BATCHES_MIN || n > QOS_BATCHES_MAX)
        return;
    for (unsigned i = 0; i < n; i++) {
        double apart = (double)batches[i].within - within / total * (double)batches[i].n;

        spread += apart * apart;
    }
    half = student_975[n - QOS_BATCHES_MIN] * sqrt(spread * n / (n - 1)); /* in requests */
    low = floor(total * q - half);
    high = ceil(total * q + half) + 1;
    if (low >= 1)
        *ret_low = (uint64_t)low;
    if (high <= total)
        *ret_high = (uint64_t)high;
}

/* One line's batches, while rows are read. */
struct stretch {
    struct qos_batch batches[QOS_BATCHES_MAX];
};

static bool has_interval(const struct qos_line *line)
{
    return line->kind != QOS_ERRORS && line->n > 0;
}

static void take_batch(const struct qos_line *line, const struct record_sum *sum,
                       struct qos_batch *batch)
{
    const struct record_sum_operation *op = qos_find_operation(sum, line->operation);
    /* Where the percentile itself is a failure, what is right lies before it. */
    int64_t worst = line->kind == QOS_RATE ? 0 : INT64_MAX;
    struct qos_tally tally;

    if (!op)
        return;
    qos_tally_init(&tally, line->kind, line->percentile,
                   line->value == QOS_BEYOND ? worst : line->value);
    qos_tally_add_sum(&tally, op);
    batch->n = tally.n;
    batch->within = qos_tally_within(&tally);
}

static int read_batches(struct record_reader *reader, const struct vt_record_schedule *schedule,
                        const struct qos *qos, size_t first, struct stretch *stretches,
                        struct vt_error *err)
{
    unsigned n = 0;
    int64_t each = qos_batch_length(schedule->to_s - schedule->from_s, &n);
    VT_AUTO_FREE struct record_sum *sum = malloc(sizeof(*sum)); /* 100 KiB and more */

    if (!sum)
        return vt_error_no_memory(err, "judge QoS");
    for (unsigned b = 0; b < n; b++) {
        int64_t from_s = schedule->from_s + b * each;
        int64_t to_s = b + 1 == n ? schedule->to_s : from_s + each;
        int r = record_sum_load(reader, schedule->tile, schedule->role, from_s, to_s, sum, err);

        if (r < 0)
            return r;
        for (size_t i = first; i < qos->nlines; i++) {
            if (has_interval(&qos->lines[i]))
                take_batch(&qos->lines[i], sum, &stretches[i - first].batches[b]);
        }
        record_sum_dispose(sum);
    }
    return 0;
}

/* 0 is a missing end: wider than any. */
static void widen(struct qos_line *line, const struct record_sum *sum,
                  const struct stretch *stretch, unsigned nbatches)
{
    const struct record_sum_operation *op = qos_find_operation(sum, line->operation);
    uint64_t low, high, batch_low, batch_high;

    if (!op)
        return;
    qos_interval(line->n, line->percentile, &low, &high);
    qos_batch_interval(stretch->batches, nbatches, line->percentile, &batch_low, &batch_high);
    if (batch_low < low)
        low = batch_low;
    if (batch_high == 0 || (high != 0 && batch_high > high))
        high = batch_high;
    line->low = low ? qos_value_at(op, line->kind, low) : -1;
    line->high = high ? qos_value_at(op, line->kind, high) : -1;
    if (high == 0 && line->state == QOS_PASS)
        line->state = QOS_UNDECIDED;
}

int qos_widen(struct qos *qos, size_t first, struct record_reader *reader,
              const struct vt_record_schedule *schedule, const struct record_sum *sum,
              struct vt_error *err)
{
    VT_AUTO_FREE struct stretch *stretches = calloc(qos->nlines - first + 1, sizeof(*stretches));
    unsigned n = 0;
    int r = 0;

    if (!stretches)
        return vt_error_no_memory(err, "judge QoS");
    if (qos_batch_length(schedule->to_s - schedule->from_s, &n) > 0)
        r = read_batches(reader, schedule, qos, first, stretches, err);
    for (size_t i = first; r == 0 && i < qos->nlines; i++) {
        struct qos_line *line = &qos->lines[i];

        if (!has_interval(line))
            continue;
        line->low = line->high = -1;
        if (n > 0)
            widen(line, sum, &stretches[i - first], n);
        if (line->state > qos->state)
            qos->state = line->state;
    }
    return r;
}
