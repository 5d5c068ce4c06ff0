/* SPDX-License-Identifier: Apache-2.0 */
/* A record's result from end to end, and the exit code that follows. */
#include <jansson.h>
#include <string.h>

#include "sample.h"

#include "base/scope.h"
#include "results/result.h"

static void compute(struct result *result)
{
    struct record_reader *reader = NULL;

    memset(result, 0, sizeof(*result));
    assert_ok(record_open_read(sample_path("record"), &reader, OK_ERR));
    assert_ok(result_compute(reader, result, OK_ERR));
    record_reader_close(reader);
}

static double real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    assert_true(json_is_real(value));
    return json_real_value(value);
}

/* In each second: app 15 good of 16, web 24 of 25, mail 10 of 11. (93.75 + 96 + 90.9090...) / 3 =
 * 93.553; rates are these shares of 178.1, 180.9 and 139.6. */
static void test_json(void **state)
{
    static const char head[] =
        "{\"v\":1,\"type\":\"result\",\"run\":\"0123456789ab\","
        "\"archive\":\"a.vtar\",\"rules\":2,\"verdict\":\"DEGRADED\",\"reasons\":[";
    struct vt_buf text = VT_BUF_INIT(1 << 16);
    const json_t *tile, *role;
    struct result result;
    json_t *json;

    (void)state;
    compute(&result);
    result_write_json(&result, "a.vtar", &text);
    assert_memory_equal(text.data, head, sizeof(head) - 1);
    assert_null(strchr(text.data, '\n'));
    json = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    assert_true(real(json, "score") == 93.55);
    tile = json_array_get(json_object_get(json, "tiles"), 0);
    assert_int_equal(json_integer_value(json_object_get(tile, "tile")), 1);
    assert_true(real(tile, "score") == 93.55);
    role = json_object_get(tile, "app");
    assert_true(real(role, "rate") == 166.97 && real(role, "points") == 93.75);
    /* 96 good answers of 100 in the window: the 95th is one of 24 ms. */
    role = json_object_get(tile, "web");
    assert_true(real(role, "rate") == 173.66 && real(role, "points") == 96.00);
    assert_in_range((uint64_t)(real(role, "p95_ms") * 1000), 24000 - 94, 24000 + 94);
    /* 4 of 44 failed: the 42nd is no answer. */
    role = json_object_get(tile, "mail");
    assert_true(real(role, "rate") == 126.91 && real(role, "points") == 90.91);
    assert_true(json_is_null(json_object_get(role, "p95_ms")));
    json_decref(json);
    vt_buf_dispose(&text);
    result_dispose(&result);
}

/* The same bytes each time, as text and as JSON. */
static void test_repeatable(void **state)
{
    struct vt_buf once = VT_BUF_INIT(1 << 16), again = VT_BUF_INIT(1 << 16);

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct vt_buf *text = i ? &again : &once;
        struct result result;
        compute(&result);
        result_write_json(&result, NULL, text);
        result_write_text(&result, text);
        result_dispose(&result);
    }
    assert_string_equal(once.data, again.data);
    assert_null(strstr(once.data, "\"archive\""));
    assert_non_null(strstr(once.data, "not a SPEC metric"));
    assert_non_null(strstr(once.data, " fail\n                          4 failed, 0 wrong\n"));
    vt_buf_dispose(&once);
    vt_buf_dispose(&again);
}

/* What was asked for stands in the head; what a record does not know is "-". */
static void test_head(void **state)
{
    static const struct {
        struct result result;
        const char *want;
    } cases[] = {
        {{.spec = "web",
          .preset = "smoke",
          .load = "0.050000",
          .tiles = "2",
          .host = "qemu:///system"},
         "\nspec     web, preset smoke, load 0.05, tiles 2\nhost     qemu:///system\n"},
        {{.spec = "web", .preset = "turbo", .load = "1.000000"},
         "\nspec     web, preset turbo, load 1, tiles -\nhost     -\n"},
        {{.load = "10"}, ", load 10, tiles -\n"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 16);

        result_write_text(&cases[i].result, &text);
        assert_non_null(strstr(text.data, cases[i].want));
    }
}

/* The widest names that roles and operations have, values up to a million, the longest state: no
 * line of figures wraps on a terminal of 80 columns. */
static void test_width(void **state)
{
    static struct qos_line lines[] = {{.tile = 256,
                                       .role = "database",
                                       .operation = "fileCatalog",
                                       .kind = QOS_PERCENTILE,
                                       .percentile = 999000,
                                       .limit = 600000000000,
                                       .value = 999999400000,
                                       .low = 9999440000,
                                       .high = QOS_BEYOND,
                                       .n = 999999,
                                       .state = QOS_UNDECIDED},
                                      {.tile = 1,
                                       .role = "network",
                                       .operation = "stream",
                                       .kind = QOS_RATE,
                                       .percentile = 50000,
                                       .limit = 125000,
                                       .value = 999999000,
                                       .low = -1,
                                       .high = 1234567,
                                       .n = 7,
                                       .state = QOS_PASS},
                                      {.tile = 256,
                                       .role = "database",
                                       .operation = "fileCatalog",
                                       .kind = QOS_ERRORS,
                                       .value = 1000000,
                                       .limit = 10000,
                                       .low = -1,
                                       .high = -1,
                                       .n = 999999,
                                       .beyond = 1,
                                       .failed = 999999,
                                       .wrong = 999999,
                                       .state = QOS_UNDECIDED}};
    static struct score_tile tile = {.tile = 256, .first = 0, .n = 1};
    static struct score_role role = {.tile = 256,
                                     .role = "database",
                                     .rate = 9999990000,
                                     .points = 100 * SCORE_POINT,
                                     .good = 999999,
                                     .intended = 999999,
                                     .p95_ns = 12345678901,
                                     .clamped = true};
    const struct result result = {
        .qos = {.lines = lines, .nlines = 3},
        .score = {
            .total = 100 * SCORE_POINT, .tiles = &tile, .ntiles = 1, .roles = &role, .nroles = 1}};
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 16);

    (void)state;
    result_write_text(&result, &text);
    for (const char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1)
        if (end - line > 80)
            fail_msg("%d columns: %.*s", (int)(end - line), (int)(end - line), line);
    assert_non_null(strstr(text.data, " 256 database fileCatalog p99.9 ms 999999 600000 9999.4 "
                                      "failed 999999 undecided\n"));
    assert_non_null(strstr(text.data, " p5 kB/s  999999  125.0      - 1234.6      7 pass\n"));
}

static void test_exit_codes(void **state)
{
    static const struct {
        int code;
        enum verdict_grade grade;
        enum qos_state qos;
        int expected;
    } cases[] = {
        {0, VERDICT_VALID, QOS_PASS, 0},      {0, VERDICT_DEGRADED, QOS_PASS, 0},
        {0, VERDICT_INVALID, QOS_PASS, 3},    {0, VERDICT_INVALID, QOS_FAIL, 3},
        {0, VERDICT_VALID, QOS_FAIL, 1},      {0, VERDICT_DEGRADED, QOS_FAIL, 1},
        {0, VERDICT_VALID, QOS_UNDECIDED, 3}, {2, VERDICT_INVALID, QOS_FAIL, 2},
        {4, VERDICT_INVALID, QOS_FAIL, 4},    {130, VERDICT_INVALID, QOS_UNDECIDED, 130},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++)
        assert_int_equal(verdict_exit_code(cases[i].code, cases[i].grade, cases[i].qos),
                         cases[i].expected);
}

static int setup(void **state)
{
    (void)state;
    sample_record_write(sample_path("record"), &sample_small);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),       cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_head),       cmocka_unit_test(test_width),
        cmocka_unit_test(test_exit_codes),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
