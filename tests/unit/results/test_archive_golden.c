/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One archive of each version of the record stands in golden/ for ever: <version>.vtar, and beside
 * it the fingerprint of the key that signed it and was then forgotten. What was once good stays
 * good and gives the digits that were sealed. "sealed" is encrypted, its key lies beside it.
 * VTILE_MAKE_GOLDEN=FILE makes one of today's version, for VTILE_MAKE_GOLDEN_FOR=CERT where that is
 * set.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sample.h"

#include "base/clock.h"
#include "base/scope.h"
#include "results/result.h"

static const char *const versions[] = {"v1", "v2", "sealed"};

static const struct sample_role roles[] = {
    {"web", VT_RECORD_LOOP_OPEN, true, 9045000, 1000000, 39, 2, 1, 0},
};
static const struct sample sample = {2, roles, VT_COUNT(roles), 4, "complete", "tcg"};

static void golden_path(const char *version, const char *suffix, char path[512])
{
    snprintf(path, 512, "%s/tests/unit/results/golden/%s%s", VTILE_SOURCE, version, suffix);
}

/* Every kind of row that a record can have. */
static void make(const char *path)
{
    struct record *record = sample_record_open(sample_path("golden.record"), &sample);
    struct vt_sink *sink = record_sink(record);
    struct vt_record_agent agent = {"client", "client", 0, -1234, 400000};
    struct vt_record_totals totals = {.tile = 1,
                                      .role = "web",
                                      .intended = 294,
                                      .good = 273,
                                      .slow = 14,
                                      .wrong = 7,
                                      .connections_opened = 8,
                                      .queue_high = 3,
                                      .first_failure = "status 503"};
    struct vt_event events[] = {
        {.type = VT_EVENT_NOTE, .level = VT_LEVEL_WARNING, .source = "controller", .text = "late"},
        {.type = VT_EVENT_AGENT, .tile = 1, .role = "web", .source = "web-1", .text = "came"},
        {.type = VT_EVENT_VERDICT,
         .level = VT_LEVEL_WARNING,
         .source = "controller",
         .series = "own-code",
         .value = 7,
         .text = "a reason of the run's own"},
        {.type = VT_EVENT_SAMPLE,
         .tile = 1,
         .role = "web",
         .source = "web-1",
         .series = "cpu.user",
         .value = 0.25},
        {.type = VT_EVENT_LOG,
         .tile = 1,
         .role = "web",
         .source = "web-1",
         .series = "nginx.access",
         .text = "GET / 200\n"},
    };
    const char *recipient = getenv("VTILE_MAKE_GOLDEN_FOR");
    struct archive_recipients *recipients = NULL;
    struct archive_key *key = NULL;
    char pinned[300];

    for (size_t i = 0; i < VT_COUNT(events); i++)
        sink->take(sink, &events[i]);
    assert_ok(record_put_meta(record, RECORD_META_BY_OPERATION, "1", OK_ERR));
    assert_ok(record_put_agent(record, &agent, OK_ERR));
    assert_ok(record_put_totals(record, &totals, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    assert_ok(archive_key_load(sample_path("golden-keys"), true, &key, OK_ERR));
    assert_ok(archive_recipients_new(&recipients, OK_ERR));
    if (recipient)
        assert_ok(archive_recipients_add(recipients, recipient, OK_ERR));
    assert_ok(archive_seal(sample_path("golden.record"), path, key, recipients, OK_ERR));
    archive_recipients_free(recipients);
    snprintf(pinned, sizeof(pinned), "%s.fingerprint", path);
    sample_write_file(pinned, archive_key_fingerprint(key), ARCHIVE_FINGERPRINT_TEXT - 1);
    archive_key_free(key);
}

/* Every value of sealed stands in again. */
static void assert_contains(json_t *again, json_t *sealed)
{
    const char *key;
    json_t *value;
    size_t i;

    if (json_is_object(sealed)) {
        json_object_foreach(sealed, key, value)
            assert_contains(json_object_get(again, key), value);
    } else if (json_is_array(sealed)) {
        assert_int_equal(json_array_size(again), json_array_size(sealed));
        json_array_foreach(sealed, i, value)
            assert_contains(json_array_get(again, i), value);
    } else {
        assert_true(json_equal(again, sealed));
    }
}

/* Other rules may find other reasons; figures stay. */
static json_t *sealed_result(json_t *manifest)
{
    static const char *const of_rules[] = {"rules", "verdict", "reasons"};
    json_t *sealed = json_object_get(manifest, "result");

    for (size_t i = 0; json_integer_value(json_object_get(sealed, "rules")) != RESULT_RULES &&
                       i < VT_COUNT(of_rules);
         i++)
        json_object_del(sealed, of_rules[i]);
    return sealed;
}

static void check(const char *version)
{
    char path[512], pin[512], fingerprint[ARCHIVE_FINGERPRINT_TEXT] = "";
    const char *trusted = fingerprint;
    struct archive_trust trust = {&trusted, 1};
    struct archive_report report = {0};
    struct archive_readers *readers = NULL;
    struct record_reader *reader = NULL;
    struct result result = {0};
    struct vt_buf text = VT_BUF_INIT(1 << 20);
    json_t *manifest, *again;
    size_t len = 0;
    uint8_t *data;

    golden_path(version, ".vtar", path);
    golden_path(version, ".fingerprint", pin);
    data = sample_read_file(pin, &len);
    assert_int_equal(len, ARCHIVE_FINGERPRINT_TEXT - 1);
    memcpy(fingerprint, data, len);
    free(data);
    assert_ok(archive_readers_new(&readers, OK_ERR));
    golden_path(version, ".key", pin);
    if (access(pin, F_OK) == 0)
        assert_ok(archive_readers_add(readers, pin, OK_ERR));
    assert_ok(
        archive_open_record(path, &trust, readers, sample_folder(), &report, &reader, OK_ERR));
    archive_readers_free(readers);
    assert_ok(result_compute(reader, &result, OK_ERR));
    result_write_json(&result, NULL, &text);
    manifest = json_loadb(report.manifest.data, report.manifest.len, 0, NULL);
    again = json_loadb(text.data, text.len, 0, NULL);
    assert_true(manifest && again);
    assert_contains(again, sealed_result(manifest));
    json_decref(manifest);
    json_decref(again);
    vt_buf_dispose(&text);
    result_dispose(&result);
    record_reader_close(reader);
    archive_report_dispose(&report);
}

static void test_golden(void **state)
{
    const char *path = getenv("VTILE_MAKE_GOLDEN");

    (void)state;
    if (path)
        make(path);
    for (size_t i = 0; i < VT_COUNT(versions); i++)
        check(versions[i]);
}

/* The caller's. */
static json_t *read_manifest(const char *version)
{
    char path[512];
    size_t len = 0;
    uint8_t *data;
    json_t *manifest;
    char *at;

    golden_path(version, ".vtar", path);
    data = sample_read_file(path, &len);
    at = memmem(data, len, "{\"v\":1,\"format\"", 15);
    assert_non_null(at);
    manifest = json_loadb(at, strcspn(at, "\n"), 0, NULL);
    assert_non_null(manifest);
    free(data);
    return manifest;
}

/* 39 good of 42 in each second of each of two tiles: 92.857... points a tile, in whole 185.71. */
static void check_digits(const char *version)
{
    json_t *manifest = read_manifest(version);
    const json_t *result = json_object_get(manifest, "result");

    assert_true(json_real_value(json_object_get(result, "score")) == 185.71);
    assert_string_equal(json_string_value(json_object_get(result, "verdict")), "DEGRADED");
    /* 1 of 42 wrong is 2.4 %, more than 1 %. */
    assert_string_equal(json_string_value(json_object_get(result, "qos")), "fail");
    json_decref(manifest);
}

static void test_digits(void **state)
{
    (void)state;
    for (size_t i = 0; i < VT_COUNT(versions); i++)
        check_digits(versions[i]);
}

/* 19 downloads a second, the slowest of 2,048,000 / 19 bytes a second, so 76 in each tile: enough
 * for 95 % of them (72), too few for 99 % (368). */
static void test_rates(void **state)
{
    json_t *manifest = read_manifest("v2");
    const json_t *missed = json_object_get(json_object_get(manifest, "result"), "missed"), *line;
    size_t i, n = 0;

    (void)state;
    json_array_foreach(missed, i, line) {
        if (!json_object_get(line, "limit_bytes_per_s"))
            continue;
        n++;
        assert_string_equal(json_string_value(json_object_get(line, "operation")), "first");
        assert_string_equal(json_string_value(json_object_get(line, "state")), "undecided");
        assert_true(json_real_value(json_object_get(line, "percentile")) == 99);
        assert_int_equal(json_integer_value(json_object_get(line, "n")), 76);
        assert_int_equal(json_integer_value(json_object_get(line, "limit_bytes_per_s")), 95000);
        assert_int_equal(json_integer_value(json_object_get(line, "value_bytes_per_s")), 107789);
    }
    assert_int_equal(n, 2);
    json_decref(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_digits),
                                       cmocka_unit_test(test_rates)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
