/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals of percentiles whose requests are correlated. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/scope.h"
#include "results/qos_batches.h"
#include "results/result.h"

static void test_length(void **state)
{
    static const struct {
        int64_t window_s, length_s;
        unsigned n;
    } cases[] = {
        {60, 0, 0},    {99, 0, 0},    {100, 10, 10},   {109, 10, 10},   {300, 10, 30},
        {310, 20, 15}, {480, 20, 24}, {7200, 240, 30}, {7219, 250, 28}, {1000000, 33340, 29},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        unsigned n = 99;

        assert_int_equal(qos_batch_length(cases[i].window_s, &n), cases[i].length_s);
        assert_int_equal(n, cases[i].n);
    }
}

/* Ten batches of 100, by hand. Shares of 96 and 94 in turn: 10 residuals of 1, a root of
 * 10 x 10 / 9, times 2.262: 7.54 ranks to each side of the 950th. */
static void test_by_hand(void **state)
{
    struct qos_batch batches[QOS_BATCHES_MAX];
    uint64_t low, high;

    (void)state;
    for (unsigned i = 0; i < QOS_BATCHES_MAX; i++)
        batches[i] = (struct qos_batch){100, i % 2 ? 94 : 96};
    qos_batch_interval(batches, 10, 950000, &low, &high);
    assert_int_equal(low, 942);
    assert_int_equal(high, 959);
    /* 30 batches, t = 2.045: 11.4 of 2,850. */
    qos_batch_interval(batches, 30, 950000, &low, &high);
    assert_int_equal(low, 2838);
    assert_int_equal(high, 2863);
    /* All that was late came in one batch of ten: 5 % there are 50 of 50. Residuals of 45 and
     * nine times 5: a root of 2,250 x 10 / 9 = 50, 113 ranks: no upper end among 1,000. */
    for (unsigned i = 0; i < 10; i++)
        batches[i] = (struct qos_batch){100, i == 4 ? 50 : 100};
    qos_batch_interval(batches, 10, 950000, &low, &high);
    assert_int_equal(low, 836);
    assert_int_equal(high, 0);
    /* Without any difference the interval is the rank itself. */
    for (unsigned i = 0; i < 10; i++)
        batches[i].within = 95;
    qos_batch_interval(batches, 10, 950000, &low, &high);
    assert_int_equal(low, 950);
    assert_int_equal(high, 951);
    memset(batches, 0, sizeof(batches));
    qos_batch_interval(batches, 10, 950000, &low, &high);
    assert_true(low == 0 && high == 0);
}

/* --- a queue, in virtual time --- */

#define SERVICE_NS VT_NS_PER_MS
#define UTILISATION 0.9
#define BATCHES 12
#define REPLICATIONS 200

/* Response times of an M/M/1 queue by Lindley's recursion, stationary from the first arrival on:
 * what an arrival meets is nothing with 1 - rho, else it is exponential like the response. One
 * histogram for every QOS_BATCH_S. */
static void simulate(uint64_t seed, struct vt_hist *batches)
{
    const int64_t gap_ns = (int64_t)(SERVICE_NS / UTILISATION);
    const int64_t response_ns = (int64_t)(SERVICE_NS / (1 - UTILISATION));
    int64_t at_ns = 0, waits_ns = 0;
    struct vt_rng rng;

    vt_rng_seed(&rng, seed, "queue", 0);
    for (unsigned i = 0; i < BATCHES; i++)
        vt_hist_init(&batches[i]);
    if (vt_rng_below(&rng, 1000000) < UTILISATION * 1000000)
        waits_ns = vt_rng_exp_ns(&rng, response_ns);
    while (at_ns < BATCHES * QOS_BATCH_S * VT_NS_PER_S) {
        int64_t took_ns = waits_ns + vt_rng_exp_ns(&rng, SERVICE_NS);
        int64_t next_ns = vt_rng_exp_ns(&rng, gap_ns);

        vt_hist_record(&batches[at_ns / (QOS_BATCH_S * VT_NS_PER_S)], took_ns);
        at_ns += next_ns;
        waits_ns = took_ns > next_ns ? took_ns - next_ns : 0;
    }
}

/* Response times of M/M/1 are exponential with mean S / (1 - rho) (any book on queues): p90 is
 * ln 10 of them, 23.03 ms. */
static void test_coverage(void **state)
{
    const double p90_ns = log(10) * SERVICE_NS / (1 - UTILISATION);
    struct vt_hist *hists = calloc(BATCHES + 1, sizeof(*hists)), *all = &hists[BATCHES];
    unsigned plain = 0, batched = 0;

    (void)state;
    assert_non_null(hists);
    for (unsigned i = 0; i < REPLICATIONS; i++) {
        struct qos_batch batches[BATCHES];
        uint64_t low, high;
        int64_t value;

        simulate(i, hists);
        vt_hist_init(all);
        for (unsigned b = 0; b < BATCHES; b++)
            vt_hist_merge(all, &hists[b]);
        value = vt_hist_quantile(all, 900000);
        for (unsigned b = 0; b < BATCHES; b++)
            batches[b] = (struct qos_batch){hists[b].count, vt_hist_count_upto(&hists[b], value)};
        qos_interval(all->count, 900000, &low, &high);
        plain += (double)vt_hist_at_rank(all, low) <= p90_ns &&
                 p90_ns <= (double)vt_hist_at_rank(all, high);
        qos_batch_interval(batches, BATCHES, 900000, &low, &high);
        assert_true(low > 0 && high > 0);
        batched += (double)vt_hist_at_rank(all, low) <= p90_ns &&
                   p90_ns <= (double)vt_hist_at_rank(all, high);
    }
    print_message("p90 of M/M/1 at 0.9: order statistics cover %u, batches %u of %u\n", plain,
                  batched, REPLICATIONS);
    assert_true(batched >= REPLICATIONS * 85 / 100);
    assert_true(plain < REPLICATIONS * 85 / 100);
    free(hists);
}

/* --- of a record --- */

/* Every second has answers of 1 to 20 ms: all batches are equal, and order statistics give the
 * wider interval. 95 % of 20 n. */
static void test_record(void **state)
{
    static const struct sample_role roles[] = {
        {"web", VT_RECORD_LOOP_OPEN, true, 20000000, 1000000, 20, 0, 0, 0},
    };
    const int64_t windows[] = {99, 100};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct sample sample = {1, roles, 1, windows[i], "complete", "kvm"};
        const char *path = sample_path(i ? "long" : "short");
        struct record_reader *reader = NULL;
        struct result result = {0};
        const struct qos_line *line;

        sample_record_write(path, &sample);
        assert_ok(record_open_read(path, &reader, OK_ERR));
        assert_ok(result_compute(reader, &result, OK_ERR));
        line = &result.qos.lines[0];
        assert_int_equal(line->percentile, 950000);
        assert_int_equal(line->state, QOS_PASS);
        assert_in_range(line->value, 19 * VT_NS_PER_MS - 74219, 19 * VT_NS_PER_MS + 74219);
        if (i == 0) {
            assert_true(line->low == -1 && line->high == -1);
        } else {
            assert_in_range(line->low, 18926000, 19075000);  /* the 1,880th of 2,000 is one of 19 */
            assert_in_range(line->high, 19921000, 20079000); /* the 1,920th: 20 */
        }
        result_dispose(&result);
        record_reader_close(reader);
    }
}

/* One second in ten of the same 200 has answers of 3 s: p95 is one of them in any case; were they
 * 4 % and all in one batch, no upper end could be told. */
static struct qos_line judge_stall(int64_t from_s, int64_t to_s, unsigned each)
{
    const char *path = sample_path("stall");
    struct record_reader *reader = NULL;
    struct result result = {0};
    struct record *record;
    struct qos_line line;
    struct vt_hist *hist = calloc(2, sizeof(*hist));
    struct vt_record_role role = {.tile = 1,
                                  .role = "web",
                                  .driven = true,
                                  .scored = true,
                                  .divisor = 1,
                                  .weight = 1,
                                  .good_limit_ns = 5 * VT_NS_PER_S,
                                  .limits = {{950000, VT_NS_PER_S}},
                                  .nlimits = 1};
    struct vt_record_schedule schedule = {.tile = 1, .role = "web", .to_s = 200};

    assert_non_null(hist);
    remove(path);
    assert_ok(record_create(path, &record, OK_ERR));
    assert_ok(record_put_role(record, &role, OK_ERR));
    assert_ok(record_put_schedule(record, &schedule, OK_ERR));
    for (int64_t second = 0; second < 200; second++) {
        struct vt_load_second load = {.operation = "home",
                                      .second = second,
                                      .intended = each,
                                      .good = each,
                                      .response = &hist[0],
                                      .service = &hist[0],
                                      .wake_lag = &hist[1]};
        struct vt_event event = {.type = VT_EVENT_LOAD, .tile = 1, .role = "web", .load = &load};

        vt_hist_init(&hist[0]);
        vt_hist_init(&hist[1]);
        for (unsigned i = 0; i < each; i++) {
            bool stalled = second >= from_s && second < to_s;

            vt_hist_record(&hist[0], stalled ? 3 * VT_NS_PER_S : VT_NS_PER_MS);
            vt_hist_record(&hist[1], 0);
        }
        record_sink(record)->take(record_sink(record), &event);
    }
    assert_ok(record_close(record, OK_ERR));
    free(hist);
    assert_ok(record_open_read(path, &reader, OK_ERR));
    assert_ok(result_compute(reader, &result, OK_ERR));
    line = result.qos.lines[0];
    assert_int_equal(result.qos.state, line.state);
    result_dispose(&result);
    record_reader_close(reader);
    return line;
}

static void test_stall(void **state)
{
    struct qos_line line = judge_stall(0, 0, 10);

    (void)state;
    assert_int_equal(line.state, QOS_PASS);
    /* 8 of 200 s: within the limit, and by order statistics that is sure (1,900 + 20 < 1,920). But
     * it is one event, and the next 200 s may have one of 12 s. */
    line = judge_stall(60, 68, 10);
    assert_int_equal(line.state, QOS_UNDECIDED);
    assert_int_equal(line.beyond, 80);
    assert_int_equal(line.high, -1);
    /* 12 of 200 s are beyond the limit whatever else might have been. */
    line = judge_stall(60, 72, 10);
    assert_int_equal(line.state, QOS_FAIL);
    assert_int_equal(line.beyond, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length),   cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_coverage), cmocka_unit_test(test_record),
        cmocka_unit_test(test_stall),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
