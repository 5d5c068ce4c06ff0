/* SPDX-License-Identifier: Apache-2.0 */
/* The load generator's own work, at each bound: on it nothing is said, beyond it the reason. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"
#include "verdict_case.h"

#include "base/clock.h"
#include "base/scope.h"
#include "results/generator.h"

/* What a client says of a window of 200 s, with one number changed. */
static const char *with(const char *key, int64_t value)
{
    static char text[2][512];
    static unsigned turn;
    struct vt_record_generator generator;
    json_t *json = json_loads(verdict_generator_whole, 0, NULL);
    char *dumped;

    assert_non_null(json);
    assert_non_null(json_object_get(json, key));
    json_object_set_new(json, key, json_integer(value));
    assert_ok(vt_record_generator_read(json, &generator, OK_ERR));
    dumped = json_dumps(json, JSON_COMPACT);
    turn ^= 1;
    vt_text_copy(text[turn], sizeof(text[turn]), dumped);
    free(dumped);
    json_decref(json);
    return text[turn];
}

static void test_gaps(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.generator = with("gap_distance", 100000)});
    assert_reason(&(struct fault){.generator = with("gap_distance", 100001)}, VERDICT_DEGRADED,
                  "gaps-off", 100001, "10.0 % of 1799 gaps");
}

/* 90 % of 64 are 57.6. */
static void test_connections_missing(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.generator = with("open", 57600000)});
    assert_reason(&(struct fault){.generator = with("open", 57599999)}, VERDICT_DEGRADED,
                  "connections-missing", 7, "57.6 of 64 connections");
}

/* Half of 200 s. Where sessions keep their connections it is judged as well. */
static void test_connections_short(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.generator = with("waiting_ns", 100 * VT_NS_PER_S)});
    assert_reason(&(struct fault){.generator = with("waiting_ns", 100 * VT_NS_PER_S + 1)},
                  VERDICT_DEGRADED, "connections-short", 100 * VT_NS_PER_S + 1,
                  "waited for one of 64 connections");
}

static void test_buffers(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.generator = with("receive_bytes", 65536)});
    assert_nothing(&(struct fault){.generator = with("receive_bytes", 0)}); /* not known */
    assert_reason(&(struct fault){.generator = with("receive_bytes", 4096)}, VERDICT_DEGRADED,
                  "buffers-small", 4096, "buffer to receive had 4096 bytes");
    assert_reason(&(struct fault){.generator = with("receive_bytes", 65535)}, VERDICT_DEGRADED,
                  "buffers-small", 65535, "at least 65536");
    assert_nothing(&(struct fault){.generator = with("send_bytes", 16384)});
    assert_reason(&(struct fault){.generator = with("send_bytes", 16383)}, VERDICT_DEGRADED,
                  "buffers-small", 16383, "buffer to send");
}

/* 5 % of 200 s. */
static void test_process(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.seconds = 10, .cpu = 0.99, .delay = 0.9});
    assert_nothing(&(struct fault){.seconds = 200, .cpu = 0.8, .delay = 0.05});
    assert_reason(&(struct fault){.seconds = 11, .cpu = 0.81}, VERDICT_DEGRADED, "generator-busy",
                  11, "more than 80 % of a CPU in 11 of 200 seconds");
    assert_reason(&(struct fault){.seconds = 11, .delay = 0.051}, VERDICT_DEGRADED,
                  "generator-waited", 11, "for more than 5 % of the time in 11 of 200 seconds");
}

/* Of 2 CPUs. */
static void test_steal(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.steal = 0.0999});
    assert_reason(&(struct fault){.steal = 0.102}, VERDICT_DEGRADED, "generator-stolen", 51000,
                  "client-1: 5.1 %");
}

static void test_client_samples(void **state)
{
    (void)state;
    assert_nothing(&(struct fault){.client_missing = 10});
    assert_reason(&(struct fault){.client_missing = 11}, VERDICT_DEGRADED, "samples-lost", 11,
                  "client-1: 11 of 200 seconds");
    assert_reason(&(struct fault){.client_missing = WINDOW_S}, VERDICT_DEGRADED, "samples-lost",
                  WINDOW_S, "client-1: 200 of 200 seconds");
}

/* Strangers' records. */
static void test_hostile(void **state)
{
    static const char *const texts[] = {
        "", "[]", "{}", "{\"connections\":64}", "{\"connections\":64,\"connections\":64}", "null",
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(texts); i++) {
        struct record_reader *reader = NULL;
        struct vt_record_generator generator;
        struct vt_error err = VT_ERROR_INIT;

        assert_ok(record_open_read(verdict_record(&(struct fault){.generator = texts[i]}), &reader,
                                   OK_ERR));
        assert_int_equal(generator_read(reader, 1, "web", &generator, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "generator.web.1"));
        assert_int_equal(generator_read(reader, 2, "web", &generator, NULL), -ENOENT);
        record_reader_close(reader);
    }
    for (int i = 0; i < 2; i++) {
        json_t *json = json_loads(verdict_generator_whole, 0, NULL);
        struct vt_record_generator generator;

        json_object_set_new(json, "gap_distance", json_integer(i ? 1000001 : -1));
        assert_int_equal(vt_record_generator_read(json, &generator, NULL), -EBADMSG);
        json_decref(json);
    }
}

/* --- figures that cannot be --- */

/* 200 s in which 64 connections gave n answers of service_ns each, asked for at their time. */
static struct record_sum *make_sum(unsigned n, int64_t service_ns)
{
    struct record_sum *sum = calloc(1, sizeof(*sum));

    assert_non_null(sum);
    vt_hist_init(&sum->all.response);
    vt_hist_init(&sum->all.service);
    vt_hist_init(&sum->all.wake_lag);
    for (unsigned i = 0; i < n; i++) {
        vt_hist_record(&sum->all.response, service_ns);
        vt_hist_record(&sum->all.service, service_ns);
        vt_hist_record(&sum->all.wake_lag, 0);
    }
    sum->all.intended = sum->all.good = n;
    return sum;
}

/* code NULL: nothing. Takes sum. */
static void assert_sum(struct record_sum *sum, enum verdict_grade grade, const char *code,
                       int64_t number)
{
    static const struct vt_record_role role = {
        .tile = 1, .role = "web", .good_limit_ns = 2 * VT_NS_PER_S};
    static const struct vt_record_schedule schedule = {.from_s = 2, .to_s = 2 + WINDOW_S};
    struct record_reader *reader = NULL;
    struct verdict verdict = {0};

    assert_ok(record_open_read(verdict_record(&(struct fault){0}), &reader, OK_ERR));
    assert_ok(verdict_add_generator(&verdict, reader, &role, sum, &schedule, OK_ERR));
    record_reader_close(reader);
    free(sum);
    assert_int_equal(verdict.nreasons, code ? 1 : 0);
    if (code) {
        assert_string_equal(verdict.reasons[0].code, code);
        assert_int_equal(verdict.reasons[0].grade, grade);
        assert_int_equal(verdict.reasons[0].number, number);
    }
    verdict_dispose(&verdict);
}

/* Of one second each: 64 connections have time for 64 x 201 of them. */
static void test_impossible(void **state)
{
    struct record_sum *sum;

    (void)state;
    assert_sum(make_sum(64 * (WINDOW_S + 1), VT_NS_PER_S), VERDICT_VALID, NULL, 0);
    assert_sum(make_sum(64 * (WINDOW_S + 1) + 1, VT_NS_PER_S), VERDICT_INVALID, "impossible-rate",
               64 * (WINDOW_S + 1) + 1);
    sum = make_sum(100, VT_NS_PER_MS);
    sum->all.service.sum++;
    assert_sum(sum, VERDICT_INVALID, "impossible-rate", 100);
}

static void test_values(void **state)
{
    struct record_sum *sum = make_sum(100, VT_NS_PER_MS);

    (void)state;
    vt_hist_record(&sum->all.wake_lag, VT_HIST_MAX_VALUE);
    sum->all.intended++;
    sum->all.failed++;
    assert_sum(sum, VERDICT_VALID, NULL, 0);
    sum = make_sum(100, VT_NS_PER_MS);
    vt_hist_record(&sum->all.wake_lag, VT_HIST_MAX_VALUE + 1);
    sum->all.intended++;
    sum->all.failed++;
    assert_sum(sum, VERDICT_DEGRADED, "values-clipped", 1);
    for (int i = 0; i < 3; i++) {
        sum = make_sum(100, VT_NS_PER_MS);
        *(i == 0   ? &sum->all.response.count
          : i == 1 ? &sum->all.service.count
                   : &sum->all.wake_lag.count) -= 3;
        assert_sum(sum, VERDICT_INVALID, "values-lost", 3);
    }
}

/* As slow as that an answer is, no more connections would help. */
static void test_slow_server(void **state)
{
    static const struct vt_record_schedule schedule = {.from_s = 2, .to_s = 2 + WINDOW_S};
    const struct fault fault = {.generator = with("waiting_ns", 150 * VT_NS_PER_S)};
    struct record_reader *reader = NULL;

    (void)state;
    assert_ok(record_open_read(verdict_record(&fault), &reader, OK_ERR));
    for (int i = 0; i < 2; i++) {
        struct vt_record_role role = {.tile = 1, .role = "web", .good_limit_ns = VT_NS_PER_S - i};
        struct record_sum *sum = make_sum(100, VT_NS_PER_S);
        struct verdict verdict = {0};

        assert_ok(verdict_add_generator(&verdict, reader, &role, sum, &schedule, OK_ERR));
        assert_int_equal(verdict.nreasons, 1 - i);
        verdict_dispose(&verdict);
        free(sum);
    }
    record_reader_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_connections_missing),
        cmocka_unit_test(test_connections_short),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_steal),
        cmocka_unit_test(test_client_samples),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_impossible),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_slow_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
