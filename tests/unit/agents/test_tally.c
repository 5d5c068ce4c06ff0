/* SPDX-License-Identifier: Apache-2.0 */
/* The tally of a guest's own work, against the load engine's recorder for the same events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agents/tally.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/scope.h"
#include "tiles/load/recorder.h"

#define S VT_NS_PER_S
#define RATE 40 /* a second, each of two operations */
#define SECONDS 5
#define OFTEN 200 /* a second */

static const char *const operations[] = {"left", "right"};

/* Evenly spaced, both operations alike. */
static uint64_t due(const struct spec_jobs *jobs, const struct role_times *times,
                    unsigned operation, int64_t from_ns, int64_t to_ns)
{
    uint64_t n = 0;

    (void)jobs;
    (void)operation;
    for (int64_t at = 0; at < times->measure_ns; at += S / RATE)
        n += at >= from_ns && at < to_ns;
    return n;
}

static uint64_t due_often(const struct spec_jobs *jobs, const struct role_times *times,
                          unsigned operation, int64_t from_ns, int64_t to_ns)
{
    (void)jobs;
    (void)times;
    (void)operation;
    return (uint64_t)(to_ns - from_ns) / (S / OFTEN);
}

static const struct role role = {
    .name = "batch", .operations = operations, .noperations = 2, .due = due};
static const struct jobs_order order = {.tile = 1,
                                        .role = "batch",
                                        .times = {0, 0, SECONDS *S},
                                        .good_limit_ns = {S, 2 * S},
                                        .rated = {false, true}};

struct event {
    struct role_done done;
    bool answered;
};

static void draw(struct event events[2 * RATE * SECONDS])
{
    struct vt_rng rng;

    vt_rng_seed(&rng, 1, "tally", 0);
    for (unsigned i = 0; i < 2 * RATE * SECONDS; i++) {
        uint64_t kind = vt_rng_below(&rng, 10);

        events[i].done = (struct role_done){
            .operation = i % 2,
            .intended_ns = i / 2 * (S / RATE),
            .lag_ns = (int64_t)vt_rng_below(&rng, 1000000),
            .response_ns = (int64_t)vt_rng_below(&rng, 3 * S),
            .service_ns = (int64_t)vt_rng_below(&rng, S),
            .bytes = kind == 0 ? 0 : vt_rng_below(&rng, 100000),
            .failed = kind < 2 ? "it broke" : NULL,
            .wrong = kind == 1,
        };
    }
}

/* What a sink sees, in one buffer: the same bytes, the same seconds. */
static void write_second(struct vt_buf *out, const struct vt_load_second *s)
{
    vt_buf_printf(
        out, "%s %lld: %llu %llu %llu %llu %llu %llu\n", s->operation, (long long)s->second,
        (unsigned long long)s->intended, (unsigned long long)s->good, (unsigned long long)s->slow,
        (unsigned long long)s->wrong, (unsigned long long)s->failed, (unsigned long long)s->bytes);
    vt_hist_encode(s->response, out);
    vt_hist_encode(s->service, out);
    vt_hist_encode(s->wake_lag, out);
    vt_hist_encode(s->rate, out);
}

struct seen {
    struct vt_buf of[2];
    int64_t last[2];
    unsigned n;
};

static void see(struct seen *seen, unsigned operation, const struct vt_load_second *second)
{
    assert_true(second->second > seen->last[operation]);
    seen->last[operation] = second->second;
    write_second(&seen->of[operation], second);
    seen->n++;
}

static void take_recorded(void *ctx, const struct vt_load_second *second)
{
    see(ctx, !strcmp(second->operation, "right"), second);
}

static void take_tallied(void *ctx, unsigned operation, const struct vt_load_second *second)
{
    assert_string_equal(second->operation, operations[operation]);
    see(ctx, operation, second);
}

static void init_seen(struct seen *seen)
{
    *seen = (struct seen){.last = {-1, -1}};
    for (unsigned i = 0; i < 2; i++)
        seen->of[i] = (struct vt_buf)VT_BUF_INIT(1U << 20);
}

static void dispose_seen(struct seen *seen)
{
    for (unsigned i = 0; i < 2; i++)
        vt_buf_dispose(&seen->of[i]);
}

static void record(const struct event *events, unsigned n, struct seen *seen,
                   struct engine_totals *totals)
{
    static const struct driver driver = {
        .name = "batch", .operations = operations, .noperations = 2};
    struct spec_load load = {.good_limit_ns = S, .timeout_ns = 60 * S, .noperations = 1};
    struct driver_step *steps = calloc(n, sizeof(*steps));
    struct schedule schedule = {.steps = steps, .nsteps = n, .nsessions = 1};
    struct recorder recorder;

    load.operations[0].good_limit_ns = 2 * S;
    load.operations[0].min_bytes_per_s[0] = 1;
    vt_text_copy(load.operations[0].name, sizeof(load.operations[0].name), "right");
    for (uint32_t i = 0; i < n; i++)
        steps[i] = (struct driver_step){.sequence = i,
                                        .operation = (uint16_t)events[i].done.operation,
                                        .intended_ns = events[i].done.intended_ns};
    assert_int_equal(recorder_init(&recorder, &schedule, &driver, &load, NULL), 0);
    for (unsigned i = 0; i < n; i++)
        recorder_pick(&recorder, events[i].done.lag_ns);
    for (unsigned i = 0; i < n; i++) {
        const struct role_done *done = &events[i].done;

        if (done->failed && !done->wrong)
            recorder_fail(&recorder, i, done->failed);
        else
            recorder_answer(&recorder, i,
                            &(struct recorder_figures){.response_ns = done->response_ns,
                                                       .service_ns = done->service_ns,
                                                       .transfer_ns = done->service_ns,
                                                       .bytes = done->bytes},
                            done->failed);
    }
    while (recorder_deliver(&recorder, take_recorded, seen))
        ;
    *totals = recorder.totals;
    recorder_dispose(&recorder);
    free(steps);
}

static void test_same_as_the_recorder(void **state)
{
    static struct event events[2 * RATE * SECONDS];
    const unsigned n = VT_COUNT(events);
    struct seen recorded, tallied;
    struct engine_totals totals;
    struct tally tally;

    (void)state;
    draw(events);
    init_seen(&recorded);
    init_seen(&tallied);
    record(events, n, &recorded, &totals);
    assert_int_equal(tally_init(&tally, &role, &order, NULL), 0);
    /* In another order, as work on several threads ends. */
    for (unsigned i = 0; i < n; i++)
        tally_add(&tally, &events[i * 7 % n].done);
    while (tally_deliver(&tally, 2, take_tallied, &tallied) == 2)
        ;
    assert_int_equal(recorded.n, 2 * SECONDS);
    assert_int_equal(tallied.n, recorded.n);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(tallied.of[i].len, recorded.of[i].len);
        assert_memory_equal(tallied.of[i].data, recorded.of[i].data, recorded.of[i].len);
    }
    assert_int_equal(tally.totals.intended, totals.intended);
    assert_int_equal(tally.totals.good, totals.good);
    assert_int_equal(tally.totals.slow, totals.slow);
    assert_int_equal(tally.totals.wrong, totals.wrong);
    assert_int_equal(tally.totals.failed, totals.failed);
    assert_true(totals.good > 0 && totals.slow > 0 && totals.wrong > 0 && totals.failed > 0);
    assert_false(tally_overflowed(&tally));
    tally_dispose(&tally);
    dispose_seen(&recorded);
    dispose_seen(&tallied);
}

/* A second waits for all that is due in it; the end makes of what is missing a failure. */
static void test_what_is_not_told_has_failed(void **state)
{
    static struct event events[2 * RATE * SECONDS];
    struct seen seen;
    struct tally tally;

    (void)state;
    draw(events);
    init_seen(&seen);
    assert_int_equal(tally_init(&tally, &role, &order, NULL), 0);
    for (unsigned i = 1; i < 2 * RATE * 2; i++)
        tally_add(&tally, &events[i].done);
    /* "left" lacks its very first. */
    assert_int_equal(tally_deliver(&tally, 100, take_tallied, &seen), 0);
    tally_add(&tally, &events[0].done);
    assert_int_equal(tally_deliver(&tally, 1, take_tallied, &seen), 1);
    assert_int_equal(seen.last[0], 0);
    assert_int_equal(seen.last[1], 0);
    /* The next second is whole; of the one after that only "left" is. */
    for (unsigned i = 2 * RATE * 2; i < 2 * RATE * 3; i += 2)
        tally_add(&tally, &events[i].done);
    assert_int_equal(tally_deliver(&tally, 100, take_tallied, &seen), 1);
    assert_int_equal(seen.last[1], 1);
    tally_end(&tally, 5 * S / 2, "stopped");
    tally_add(&tally, &events[2 * RATE * 3].done); /* of the fourth second: after the end */
    assert_int_equal(tally_deliver(&tally, 100, take_tallied, &seen), 1);
    assert_int_equal(seen.last[0], 2);
    assert_int_equal(seen.last[1], 2);
    assert_int_equal(tally.totals.intended, 2 * (2 * RATE + RATE / 2) + RATE / 2);
    assert_int_equal(tally.totals.good + tally.totals.slow + tally.totals.wrong +
                         tally.totals.failed,
                     tally.totals.intended);
    assert_true(tally.totals.failed >= RATE / 2);
    tally_dispose(&tally);
    dispose_seen(&seen);
}

static void count_failed(void *ctx, unsigned operation, const struct vt_load_second *second)
{
    assert_int_equal(operation, 0);
    assert_int_equal(second->intended, OFTEN);
    *(uint64_t *)ctx += second->failed;
}

/* Two hours of which little was told, more than may be open at once, in no time; and why, as JSON
 * can carry it. */
static void test_ends_early(void **state)
{
    const struct jobs_order long_order = {
        .tile = 1, .role = "batch", .times = {0, 0, 7200 * S}, .good_limit_ns = {S, S}};
    const struct role_done told = {.intended_ns = 3 * S, .response_ns = S / 2};
    uint64_t failed = 0;
    const struct role often = {
        .name = "batch", .operations = operations, .noperations = 1, .due = due_often};
    struct tally tally;

    (void)state;
    assert_int_equal(tally_init(&tally, &often, &long_order, NULL), 0);
    assert_true(7200 * OFTEN > TALLY_OPEN_MAX);
    tally_add(&tally, &told);
    tally_end(&tally, INT64_MAX, "cut in a caf\xc3");
    tally_add(&tally, &told); /* after the end */
    assert_int_equal(tally_deliver(&tally, 10000, count_failed, &failed), 7200);
    assert_int_equal(failed, 7200 * OFTEN - 1);
    assert_int_equal(tally.totals.failed, failed);
    assert_int_equal(tally.totals.good, 1);
    assert_int_equal(tally.totals.intended, 7200 * OFTEN);
    assert_string_equal(tally.totals.first_failure, "left failed: cut in a caf?");
    assert_false(tally_overflowed(&tally));
    tally_dispose(&tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_recorder),
        cmocka_unit_test(test_what_is_not_told_has_failed),
        cmocka_unit_test(test_ends_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
