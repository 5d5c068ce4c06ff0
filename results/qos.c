/* SPDX-License-Identifier: Apache-2.0 */
#include "results/qos.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"

#define MILLION 1000000

/*
 * The rule. Of n intended requests the q-quantile is the value of rank ceil(q n) (nearest rank);
 * wrong and failed ones rank behind all others. It is held against the limit as it is, by counting
 * the ranks whose value is within; a bucket's middle is within 0.39 % of the true value
 * (base/hist.h).
 *
 * Whether n is enough: the distribution-free interval of a quantile, two order statistics
 * X(low) <= x_q <= X(high), each end missed with at most 2.5 % (W. J. Conover, Practical
 * Nonparametric Statistics, 3rd ed., 3.2; H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed.,
 * 7.1). P(X(n) < x_q) = q^n, so an upper end exists only if q^n <= 0.025: 72 requests for 95 %, 368
 * for 99 %, 3,688 for 99.9 %. Below that no sample, however good, shows that the percentile is
 * small enough: undecided. It may show the contrary: with the lower end beyond the limit it is
 * failed.
 *
 * Rates: ranked from the fastest down, otherwise the same. "95 % at least r" holds if the rate of
 * rank ceil(0.95 n) is at least r.
 *
 * Requests that follow one another are correlated, so the true interval is wider: this one is a
 * floor. qos_batches.c has the wider one.
 */
#define TAIL 0.025
#define ENOUGH_MISSES 4              /* n (1 - q) from which q^n <= exp(-n (1 - q)) <= TAIL */
#define NEGLIGIBLE 1e-22             /* of the mode's probability: far below TAIL even summed up */
#define NORMAL_975 1.959963984540054 /* 97.5 % of a normal distribution */
/* From this variance on (10,000,000 requests have less at 90 %) the binomial distribution is taken
 * for a normal one, as the second book does: summing it up takes as many steps as its deviation is
 * long, which a stranger's record chooses. The ends are then right to two ranks or so of 1,024. */
#define NORMAL_VARIANCE 1048576.0

const int64_t qos_rate_shares[] = {950000, 990000};

const char *qos_state_name(enum qos_state state)
{
    static const char *const names[] = {"pass", "undecided", "fail"};

    return names[state];
}

/* Binomial(n, q) without its constant factor: 1 at the mode, neighbours by their ratio. Only
 * products and quotients of doubles: the same everywhere (IEEE 754). */
struct binomial {
    double n, q;
    uint64_t first, last; /* outside, probabilities are negligible */
    double at_first, at_last;
    double total;
};

static double ratio_up(const struct binomial *b, double i) /* P(i + 1) / P(i) */
{
    return (b->n - i) * b->q / ((i + 1) * (1 - b->q));
}

static struct binomial binomial_make(uint64_t n, double q)
{
    struct binomial b = {.n = (double)n, .q = q};
    uint64_t mode = (uint64_t)((b.n + 1) * q);
    double w = 1;

    if (mode > n)
        mode = n;
    b.total = b.at_first = b.at_last = 1;
    for (b.first = mode; b.first > 0; b.first--) {
        w /= ratio_up(&b, (double)(b.first - 1));
        if (w < NEGLIGIBLE)
            break;
        b.at_first = w;
        b.total += w;
    }
    w = 1;
    for (b.last = mode; b.last < n; b.last++) {
        w *= ratio_up(&b, (double)b.last);
        if (w < NEGLIGIBLE)
            break;
        b.at_last = w;
        b.total += w;
    }
    return b;
}

static void normal_interval(double n, double q, uint64_t *ret_low, uint64_t *ret_high)
{
    double half = NORMAL_975 * sqrt(n * q * (1 - q));

    *ret_low = (uint64_t)floor(n * q - half);
    *ret_high = (uint64_t)ceil(n * q + half) + 1;
}

void qos_interval(uint64_t n, int64_t percentile, uint64_t *ret_low, uint64_t *ret_high)
{
    double q = (double)percentile / MILLION, w, below = 0, above = 0;
    struct binomial b;

    if ((double)n * q * (1 - q) > NORMAL_VARIANCE) {
        normal_interval((double)n, q, ret_low, ret_high);
        return;
    }
    b = binomial_make(n, q);
    w = b.at_first;
    /* low: the largest j with P(fewer than j of n lie below x_q) <= TAIL. */
    *ret_low = b.first;
    for (uint64_t i = b.first; i <= b.last; i++) {
        below += w;
        if (below > TAIL * b.total)
            break;
        *ret_low = i + 1;
        w *= ratio_up(&b, (double)i);
    }
    /* high: the smallest k with P(at least k of n lie below x_q) <= TAIL. */
    *ret_high = b.last < n ? b.last + 1 : 0;
    w = b.at_last;
    for (uint64_t i = b.last; i > 0; i--) {
        above += w;
        if (above > TAIL * b.total)
            break;
        *ret_high = i;
        w /= ratio_up(&b, (double)(i - 1));
    }
}

int64_t qos_value_at(const struct record_sum_operation *sum, enum qos_kind kind, uint64_t rank)
{
    const struct vt_hist *hist = kind == QOS_RATE ? &sum->rate : &sum->response;
    uint64_t correct = sum->good + sum->slow;

    if (correct > hist->count)
        correct = hist->count;
    if (rank > correct)
        return QOS_BEYOND;
    return vt_hist_at_rank(hist, kind == QOS_RATE ? hist->count + 1 - rank : rank);
}

static uint64_t nearest_rank(uint64_t n, int64_t percentile)
{
    return (uint64_t)(((unsigned __int128)n * (uint64_t)percentile + MILLION - 1) / MILLION);
}

static int64_t percentile_of(const struct record_sum_operation *sum, enum qos_kind kind,
                             int64_t percentile)
{
    return sum->intended ? qos_value_at(sum, kind, nearest_rank(sum->intended, percentile)) : -1;
}

int64_t qos_percentile(const struct record_sum_operation *sum, int64_t percentile)
{
    return percentile_of(sum, QOS_PERCENTILE, percentile);
}

void qos_tally_init(struct qos_tally *tally, enum qos_kind kind, int64_t share, int64_t limit)
{
    *tally = (struct qos_tally){.kind = kind, .share = share};
    /* What is slower than the limit of a rate is beyond it. */
    vt_hist_cut_init(&tally->cut, kind == QOS_RATE ? limit - 1 : limit);
}

void qos_tally_add(struct qos_tally *tally, const struct vt_load_second *load)
{
    const struct vt_hist *hist = tally->kind == QOS_RATE ? load->rate : load->response;

    tally->n += load->intended;
    if (tally->kind == QOS_ERRORS) {
        tally->correct += load->intended - load->wrong - load->failed;
        return;
    }
    tally->correct += load->good + load->slow;
    if (hist)
        vt_hist_cut_add(&tally->cut, hist);
}

void qos_tally_add_sum(struct qos_tally *tally, const struct record_sum_operation *sum)
{
    const struct vt_load_second load = {.intended = sum->intended,
                                        .good = sum->good,
                                        .slow = sum->slow,
                                        .wrong = sum->wrong,
                                        .failed = sum->failed,
                                        .response = &sum->response,
                                        .rate = &sum->rate};

    qos_tally_add(tally, &load);
}

uint64_t qos_tally_within(const struct qos_tally *tally)
{
    uint64_t n;

    if (tally->kind == QOS_ERRORS)
        return tally->correct;
    n = vt_hist_cut_upto(&tally->cut);
    if (tally->kind == QOS_RATE)
        n = tally->cut.count - n;
    return n < tally->correct ? n : tally->correct;
}

uint64_t qos_allowed(uint64_t n, int64_t share)
{
    return n - nearest_rank(n, share);
}

enum qos_state qos_judge(uint64_t n, int64_t share, uint64_t within)
{
    enum qos_state plain = within < nearest_rank(n, share) ? QOS_FAIL : QOS_PASS;
    uint64_t low = 0, high = 0;

    if (share >= MILLION ||
        (unsigned __int128)n * (uint64_t)(MILLION - share) >= ENOUGH_MISSES * MILLION)
        return plain;
    qos_interval(n, share, &low, &high);
    if (high > 0)
        return plain;
    return within < low ? QOS_FAIL : QOS_UNDECIDED;
}

/* A share of errors is what it is, however few requests there were. */
enum qos_state qos_tally_judge(const struct qos_tally *tally)
{
    uint64_t within = qos_tally_within(tally);

    if (tally->n == 0)
        return QOS_UNDECIDED;
    if (tally->kind == QOS_ERRORS)
        return within < nearest_rank(tally->n, tally->share) ? QOS_FAIL : QOS_PASS;
    return qos_judge(tally->n, tally->share, within);
}

static int add_line(struct qos *qos, const struct qos_line *line, struct vt_error *err)
{
    struct qos_line *grown;
    size_t cap;

    if (qos->nlines == qos->cap) {
        cap = qos->cap ? 2 * qos->cap : 16;
        grown = realloc(qos->lines, cap * sizeof(*grown));
        if (!grown)
            return vt_error_no_memory(err, "judge QoS");
        qos->lines = grown;
        qos->cap = cap;
    }
    if (!qos->nlines || line->state > qos->state)
        qos->state = line->state;
    qos->lines[qos->nlines++] = *line;
    return 0;
}

static struct qos_line start_line(const struct vt_record_role *role,
                                  const struct record_sum_operation *sum)
{
    struct qos_line line = {.tile = role->tile,
                            .n = sum->intended,
                            .wrong = sum->wrong,
                            .failed = sum->failed,
                            .low = -1,
                            .high = -1};

    vt_text_copy(line.role, sizeof(line.role), role->role);
    vt_text_copy(line.operation, sizeof(line.operation), sum->name);
    return line;
}

/* One limit of time or of rate. */
static int add_limit(struct qos *qos, const struct vt_record_role *role,
                     const struct record_sum_operation *sum, enum qos_kind kind, int64_t percentile,
                     int64_t limit, struct vt_error *err)
{
    struct qos_line line = start_line(role, sum);
    uint64_t low = 0, high = 0;
    struct qos_tally tally;

    qos_tally_init(&tally, kind, percentile, limit);
    qos_tally_add_sum(&tally, sum);
    line.kind = kind;
    line.percentile = percentile;
    line.limit = limit;
    line.value = percentile_of(sum, kind, percentile);
    line.beyond = line.n - qos_tally_within(&tally);
    if (line.n)
        qos_interval(line.n, percentile, &low, &high);
    if (low)
        line.low = qos_value_at(sum, kind, low);
    if (high)
        line.high = qos_value_at(sum, kind, high);
    line.state = qos_tally_judge(&tally);
    return add_line(qos, &line, err);
}

static int add_limits(struct qos *qos, const struct vt_record_role *role,
                      const struct record_sum_operation *sum, const struct vt_record_limit *limits,
                      size_t n, struct vt_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_limit(qos, role, sum, QOS_PERCENTILE, limits[i].percentile, limits[i].limit_ns,
                      err);
    return r;
}

static int add_rates(struct qos *qos, const struct vt_record_role *role,
                     const struct record_sum_operation *sum, const struct vt_record_operation *op,
                     struct vt_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < VT_COUNT(qos_rate_shares); i++) {
        if (op->min_bytes_per_s[i] > 0)
            r = add_limit(qos, role, sum, QOS_RATE, qos_rate_shares[i], op->min_bytes_per_s[i],
                          err);
    }
    return r;
}

static int add_errors(struct qos *qos, const struct vt_record_role *role,
                      const struct record_sum_operation *sum, struct vt_error *err)
{
    struct qos_line line = start_line(role, sum);
    unsigned __int128 errors = (unsigned __int128)(sum->wrong + sum->failed) * MILLION;
    struct qos_tally tally;

    qos_tally_init(&tally, QOS_ERRORS, MILLION - role->error_share_max, 0);
    qos_tally_add_sum(&tally, sum);
    line.kind = QOS_ERRORS;
    line.limit = role->error_share_max;
    line.beyond = sum->wrong + sum->failed;
    line.value = line.n ? (int64_t)(errors / line.n) : -1;
    line.state = qos_tally_judge(&tally);
    return add_line(qos, &line, err);
}

const struct record_sum_operation *qos_find_operation(const struct record_sum *sum,
                                                      const char *name)
{
    if (!*name)
        return &sum->all;
    for (size_t i = 0; i < sum->noperations; i++) {
        if (!strcmp(sum->operations[i].name, name))
            return &sum->operations[i];
    }
    return NULL;
}

/* An operation with limits that never came up stands in no row: it is undecided, not absent. */
int qos_add_role(struct qos *qos, const struct vt_record_role *role, const struct record_sum *sum,
                 bool by_operation, struct vt_error *err)
{
    static const struct record_sum_operation none = {.response = {.min = INT64_MAX, .max = -1},
                                                     .rate = {.min = INT64_MAX, .max = -1}};
    bool has_rates = sum->has_rates;
    int r = add_limits(qos, role, &sum->all, role->limits, role->nlimits, err);

    for (size_t i = 0; r == 0 && by_operation && i < role->noperations; i++) {
        const struct vt_record_operation *op = &role->operations[i];
        const struct record_sum_operation *found = qos_find_operation(sum, op->name);
        size_t first = qos->nlines;

        if (!found)
            found = &none;
        r = add_limits(qos, role, found, op->limits, op->nlimits, err);
        if (r == 0 && has_rates)
            r = add_rates(qos, role, found, op, err);
        for (size_t k = first; k < qos->nlines; k++)
            vt_text_copy(qos->lines[k].operation, VT_RECORD_NAME_MAX, op->name);
    }
    if (r == 0)
        r = add_errors(qos, role, &sum->all, err);
    return r;
}

void qos_dispose(struct qos *qos)
{
    free(qos->lines);
    qos->lines = NULL;
    qos->nlines = qos->cap = 0;
}
