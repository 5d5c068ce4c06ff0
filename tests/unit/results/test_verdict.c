/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of docs/verdict.md at its bound: on it nothing is said, beyond it the reason with its
 * number. */
#include <stdio.h>
#include <string.h>

#include "sample.h"
#include "verdict_case.h"

#include "base/clock.h"
#include "base/scope.h"
#include "results/result.h"

static void test_without_fault(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.rtt_ns = 400000});
}

/* 50 ms and, of a window that ends after 202 s, 0.202 s: what 500 ppm of both clocks make. */
static void test_clock_moved(void **state)
{
    const int64_t bound = 252 * VT_NS_PER_MS, rtt = 400000;

    (void)state;
    assert_nothing(&(struct fault){.rtt_ns = rtt, .client_moved_ns = bound + rtt});
    assert_reason(&(struct fault){.rtt_ns = rtt, .client_moved_ns = bound + rtt + 1},
                  VERDICT_DEGRADED, "clock-moved", bound + 1, "client-1 moved by 0.252 s");
    assert_nothing(&(struct fault){.rtt_ns = rtt, .guest_moved_ns = -(bound + rtt)});
    assert_reason(&(struct fault){.rtt_ns = rtt, .guest_moved_ns = -(bound + rtt) - 1},
                  VERDICT_DEGRADED, "clock-moved", bound + 1, "web-1 moved");
    /* Far ends of what a record can say. */
    assert_reason(&(struct fault){.rtt_ns = 0,
                                  .meta = RECORD_META_CLOCK_BEGIN "infra-1",
                                  .value = "9223372036854775807 0",
                                  .client_moved_ns = INT64_MAX - 1000},
                  VERDICT_DEGRADED, "clock-moved", INT64_MAX - 1000, "client-1 moved");
}

static void test_clock_uncertain(void **state)
{
    struct result result;

    (void)state;
    assert_nothing(&(struct fault){.rtt_ns = 100 * VT_NS_PER_MS});
    assert_reason(&(struct fault){.rtt_ns = 102 * VT_NS_PER_MS}, VERDICT_DEGRADED,
                  "clock-uncertain", 51 * VT_NS_PER_MS, "client-1 is known to 51 ms");
    verdict_judge(&(struct fault){.rtt_ns = 1002 * VT_NS_PER_MS}, &result); /* of both */
    assert_int_equal(result.verdict.nreasons, 2);
    assert_int_equal(result.verdict.reasons[1].number, 501 * VT_NS_PER_MS);
    assert_non_null(strstr(result.verdict.reasons[1].text, "web-1"));
    result_dispose(&result);
}

static void test_samples_lost(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.guest_missing = 10, .host_missing = 10});
    assert_reason(&(struct fault){.guest_missing = 11}, VERDICT_DEGRADED, "samples-lost", 11,
                  "web-1: 11 of 200 seconds");
    assert_reason(&(struct fault){.host_missing = WINDOW_S}, VERDICT_DEGRADED, "samples-lost",
                  WINDOW_S, "host.1: 200 of 200 seconds");
}

/* One cause, one reason: of a VM that was started again its restart is told, by the run. */
static void test_restarted(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.meta = RECORD_META_RESTARTS "web-1",
                                   .value = "1",
                                   .guest_moved_ns = VT_NS_PER_S,
                                   .guest_missing = WINDOW_S});
    assert_reason(&(struct fault){.meta = RECORD_META_RESTARTS "infra-1",
                                  .value = "1",
                                  .guest_missing = WINDOW_S},
                  VERDICT_DEGRADED, "samples-lost", WINDOW_S, "web-1: 200 of 200 seconds");
}

static void test_facts(void **state)
{
    (void)state;
    assert_reason(&(struct fault){.meta = RECORD_META_ACCEL, .value = "tcg"}, VERDICT_DEGRADED,
                  "emulated-cpu", 0, "emulated");
    assert_reason(&(struct fault){.meta = RECORD_META_STORAGE, .value = "tmpfs"}, VERDICT_DEGRADED,
                  "no-stable-storage", 0, "wrote to memory");
    assert_reason(&(struct fault){.meta = RECORD_META_CLIENT, .value = "host"}, VERDICT_DEGRADED,
                  "client-on-host", 0, "shared its CPUs");
    assert_reason(&(struct fault){.meta = RECORD_META_TUNING_DRIFT "cat",
                                  .value = "L3:0=f wanted, ff found, 12.3 s to 20 s"},
                  VERDICT_DEGRADED, "tuning-drifted", 1, "cat: L3:0=f wanted");
}

static void test_ends(void **state)
{
    (void)state;
    assert_reason(&(struct fault){.meta = RECORD_META_ENDED, .value = "interrupted"},
                  VERDICT_INVALID, "interrupted", 0, "interrupted");
    assert_reason(&(struct fault){.meta = RECORD_META_ENDED, .value = "failed: no space"},
                  VERDICT_INVALID, "failed", 0, "no space");
    assert_reason(&(struct fault){.meta = RECORD_META_ENDED, .value = "?"}, VERDICT_INVALID,
                  "unfinished", 0, "'?'");
}

static void test_events(void **state)
{
    struct fault lost = {.event = {.type = VT_EVENT_AGENT,
                                   .level = VT_LEVEL_ERROR,
                                   .tile = 1,
                                   .source = "web-1",
                                   .text = "silent for 10 s"}};
    struct fault own = {.event = {.type = VT_EVENT_VERDICT,
                                  .level = VT_LEVEL_ERROR,
                                  .series = "lost-acknowledged",
                                  .value = 3,
                                  .text = "3 acknowledged orders are missing"}};

    (void)state;
    assert_reason(&lost, VERDICT_INVALID, "agent-lost", 0, "web-1: silent for 10 s");
    assert_reason(&own, VERDICT_INVALID, "lost-acknowledged", 3, "3 acknowledged orders");
    own.event.level = VT_LEVEL_WARNING;
    assert_reason(&own, VERDICT_DEGRADED, "lost-acknowledged", 3, "3 acknowledged orders");
}

/* What only the run itself sees; docs/verdict.md has the list. */
static void test_reasons_of_the_run(void **state)
{
    static const char *const codes[] = {"vm-gone", "counts-lost", "check-failed", "server-died"};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(codes); i++) {
        const struct fault fault = {.event = {.type = VT_EVENT_VERDICT,
                                              .level = VT_LEVEL_ERROR,
                                              .tile = 1,
                                              .source = "web-1",
                                              .series = codes[i],
                                              .value = 2,
                                              .text = "web-1: seen"}};

        assert_reason(&fault, VERDICT_INVALID, codes[i], 2, "web-1: seen");
    }
}

static void test_each_event_counts(void **state)
{
    const struct fault fault = {.event = {.type = VT_EVENT_VERDICT,
                                          .level = VT_LEVEL_ERROR,
                                          .series = "vm-restarted",
                                          .value = 1,
                                          .text = "mail-1: ended"},
                                .second = "database-1: ended"};
    struct result result;

    (void)state;
    verdict_judge(&fault, &result);
    assert_int_equal(result.verdict.nreasons, 2);
    assert_string_equal(result.verdict.reasons[0].text, "mail-1: ended");
    assert_string_equal(result.verdict.reasons[1].text, "database-1: ended");
    result_dispose(&result);
}

/* The sums of one role, apart from any record. */
static void test_role(void **state)
{
    struct vt_record_role role = {.tile = 1, .role = "web", .wake_lag_p99_max_ns = VT_NS_PER_MS};
    struct vt_record_schedule schedule = {.tile = 1, .window_steps = 100, .from_s = 2, .to_s = 6};
    struct vt_record_totals totals = {.intended = 5, .good = 2, .early = 4};
    struct record_sum *sum = calloc(1, sizeof(*sum));
    struct verdict verdict = {0};
    const char *const wanted[] = {"offered-off",    "counts-off", "wrong-answers",
                                  "generator-late", "sent-early", "counts-off"};
    const int64_t numbers[] = {-2, 3, 1, 0, 4, 3};

    (void)state;
    assert_non_null(sum);
    sum->all.intended = 98;
    sum->all.good = 94;
    sum->all.wrong = 1;
    vt_hist_init(&sum->all.wake_lag);
    for (int i = 0; i < 98; i++)
        vt_hist_record(&sum->all.wake_lag, i < 96 ? 1000 : 3 * VT_NS_PER_MS);
    assert_ok(verdict_add_role(&verdict, &role, sum, &schedule, &totals, OK_ERR));
    assert_int_equal(verdict.nreasons, VT_COUNT(wanted));
    for (size_t i = 0; i < VT_COUNT(wanted); i++) {
        assert_string_equal(verdict.reasons[i].code, wanted[i]);
        if (numbers[i])
            assert_int_equal(verdict.reasons[i].number, numbers[i]);
    }
    assert_int_equal(verdict.grade, VERDICT_INVALID);
    /* 3 ms by a histogram whose error is at most 1/256. */
    assert_in_range(verdict.reasons[3].number, 2988000, 3012000);
    verdict_dispose(&verdict);
    free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_fault),
        cmocka_unit_test(test_clock_moved),
        cmocka_unit_test(test_clock_uncertain),
        cmocka_unit_test(test_samples_lost),
        cmocka_unit_test(test_restarted),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_reasons_of_the_run),
        cmocka_unit_test(test_each_event_counts),
        cmocka_unit_test(test_role),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
