/* SPDX-License-Identifier: Apache-2.0 */
/* Records that somebody made or changed: refused with a reason, or at least read without harm. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample.h"

#include "base/rng.h"
#include "base/scope.h"
#include "results/record_reader.h"
#include "results/record_row.h"
#include "results/result.h"
#include "tests/unit/sanitized.h"

static void copy_and_run(const char *to, const char *sql)
{
    size_t len = 0;
    uint8_t *data = sample_read_file(sample_path("good"), &len);
    sqlite3 *db = NULL;
    char *message = NULL;

    unlink(to);
    sample_write_file(to, data, len);
    free(data);
    assert_int_equal(sqlite3_open_v2(to, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, NULL);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

/* Opens and computes; the first error counts. */
static int judge(const char *path, struct result *result, struct vt_error *err)
{
    struct record_reader *reader = NULL;
    int r = record_open_read(path, &reader, err);

    memset(result, 0, sizeof(*result));
    if (r == 0)
        r = result_compute(reader, result, err);
    record_reader_close(reader);
    return r;
}

static void test_changed(void **state)
{
    static const struct {
        const char *sql, *says;
    } cases[] = {
        {"PRAGMA application_id=1", "not a record"},
        {"PRAGMA user_version=3", "a version that this program does not know"},
        {"CREATE TABLE more(x)", "its tables are not those of a record"},
        {"CREATE VIEW more AS SELECT 1", "its tables are not those of a record"},
        {"CREATE INDEX more ON log(id)", "its tables are not those of a record"},
        {"CREATE TRIGGER more AFTER INSERT ON meta BEGIN SELECT 1; END",
         "its tables are not those of a record"},
        {"DROP TABLE log", "tables are missing"},
        {"DROP TABLE meta; CREATE TABLE meta(key, value)", "its tables are not those"},
        {"DROP TABLE meta; CREATE VIEW meta AS SELECT 'run' AS key, 'x' AS value",
         "its tables are not those"},
        {"UPDATE role SET tile = 0", "out of range"},
        {"UPDATE role SET tile = 257", "out of range"},
        {"UPDATE role SET role = 'score' WHERE id = 1", "the name of something else"},
        {"UPDATE role SET role = '' WHERE id = 1", "a name is empty"},
        {"UPDATE role SET role = char(27) || '[31m' WHERE id = 1", "a character"},
        {"UPDATE role SET role = 'web'", "a role twice"},
        {"UPDATE role SET divisor = -1", "out of range"},
        {"UPDATE role SET weight = 9223372036854775807", "out of range"},
        {"UPDATE role SET loop = 2", "out of range"},
        {"UPDATE limits SET id = id + 1 WHERE id = 1", "out of range"},
        {"UPDATE limits SET percentile = 1000000", "out of range"},
        {"INSERT INTO limits SELECT role, operation, id + 10, 500000, 1 FROM limits",
         "out of range"},
        {"UPDATE schedule SET to_s = 1", "out of range"},
        {"UPDATE schedule SET to_s = 1000001", "out of range"},
        {"UPDATE schedule SET hash = x'00'", "a hash is cut"},
        {"UPDATE load SET data = x''", "unknown version"},
        {"UPDATE load SET data = x'03'", "unknown version"},
        {"PRAGMA user_version=0", "a version that this program does not know"},
        {"PRAGMA user_version=1", "unknown version"}, /* rows of the next one in it */
        {"UPDATE load SET data = x'01'", "unknown version"},
        {"UPDATE operation SET min_bytes_p99 = -1", "out of range"},
        /* "a": 2 intended, 2 good, 0, 0, 0, 9 bytes; no times; one rate of 5. */
        {"UPDATE load SET data = x'0201610202000000090000000100050505010501'",
         "neither no rates nor one of each correct answer"},
        {"UPDATE load SET data = zeroblob(1048577)", "too long"},
        {"UPDATE load SET data = substr(data, 1, length(data) - 1)", "row of load"},
        {"UPDATE load SET data = CAST(data || x'00' AS BLOB)", "operation's name"},
        {"UPDATE load SET second = second + 1", "does not stand where"},
        {"UPDATE load SET tile = 2", "does not stand where"},
        {"UPDATE load SET role = 'other'", "does not stand where"},
        /* One more than VT_RECORD_AGENTS_MAX. */
        {"DELETE FROM agent; WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i"
         " < 16384) INSERT INTO agent SELECT 'a' || i, 'guest', 0, 0, 0 FROM n",
         "too many agents"},
        {"UPDATE event SET type = 'other'", "an unknown type"},
        {"UPDATE event SET level = 3", "out of range"},
        {"UPDATE event SET text = zeroblob(0) || printf('%.*c', 5000, 'x')", "too long"},
        {"UPDATE meta SET value = 'x' || char(0) || 'y' WHERE key = 'run'", "holds a NUL"},
        {"UPDATE meta SET value = '-1' WHERE key = 'record.lost'", "is no number"},
        {"INSERT INTO meta VALUES('load.t0_ns', '-9223372036854775808')", "is no time"},
        {"UPDATE meta SET value = printf('%.*c', 1100000, 'x') WHERE key = 'run'", "too long"},
    };
    const char *path = sample_path("changed");

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct vt_error err = VT_ERROR_INIT;
        struct result result;
        copy_and_run(path, cases[i].sql);
        int r = judge(path, &result, &err);
        if (r != -EBADMSG || err.kind != VT_KIND_REFUSED || !strstr(err.text, cases[i].says))
            fail_msg("%s: %d '%s'", cases[i].sql, r, err.text);
        result_dispose(&result);
    }
}

/* Facts that are missing or bad are no fault of the file: they make a verdict. */
static void test_verdicts(void **state)
{
    static const struct {
        const char *sql, *code;
        enum verdict_grade grade;
    } cases[] = {
        {"UPDATE meta SET value = 'kvm' WHERE key = 'accel'", NULL, VERDICT_VALID},
        {"SELECT 1", "emulated-cpu", VERDICT_DEGRADED},
        {"UPDATE meta SET value = 'tmpfs' WHERE key = 'storage'", "no-stable-storage",
         VERDICT_DEGRADED},
        {"UPDATE meta SET value = 'host' WHERE key = 'client'", "client-on-host", VERDICT_DEGRADED},
        {"DELETE FROM meta WHERE key = 'accel'", "facts-missing", VERDICT_INVALID},
        {"DELETE FROM meta WHERE key = 'ended'", "unfinished", VERDICT_INVALID},
        {"UPDATE meta SET value = 'interrupted' WHERE key = 'ended'", "interrupted",
         VERDICT_INVALID},
        {"UPDATE meta SET value = 'failed: no space' WHERE key = 'ended'", "failed",
         VERDICT_INVALID},
        {"DELETE FROM meta WHERE key = 'record.lost'", "record-unclosed", VERDICT_INVALID},
        {"UPDATE meta SET value = '3' WHERE key = 'record.lost'", "record-overflow",
         VERDICT_INVALID},
        {"UPDATE schedule SET window_steps = window_steps + 1", "offered-off", VERDICT_INVALID},
        {"DELETE FROM load WHERE second = 4", "offered-off", VERDICT_INVALID},
        {"DELETE FROM load", "no-load", VERDICT_INVALID},
        {"DELETE FROM schedule", "no-load", VERDICT_INVALID},
        {"DELETE FROM role", "no-load", VERDICT_INVALID},
        {"UPDATE role SET wake_lag_p99_max_ns = 90000", "generator-late", VERDICT_INVALID},
        {"INSERT INTO totals VALUES(1,10,10,0,0,0,1,0,0,2,'')", "sent-early", VERDICT_INVALID},
        {"INSERT INTO totals VALUES(1,10,9,0,0,0,1,0,0,0,'')", "counts-off", VERDICT_INVALID},
        {"INSERT INTO agent VALUES('client','client',0,0,100000002)", "clock-uncertain",
         VERDICT_DEGRADED},
        {"INSERT INTO event VALUES(NULL,'agent',2,0,1,'web',NULL,'web-1','gone',0,NULL,0.0)",
         "agent-lost", VERDICT_INVALID},
        {"INSERT INTO event VALUES(NULL,'verdict',1,0,0,NULL,NULL,'x','own',0,'own-code',3.0)",
         "own-code", VERDICT_DEGRADED},
    };
    const char *path = sample_path("verdict");

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct result result;
        bool found = !cases[i].code;
        copy_and_run(path, cases[i].sql);
        assert_ok(judge(path, &result, OK_ERR));
        for (size_t k = 0; cases[i].code && k < result.verdict.nreasons; k++)
            found |= !strcmp(result.verdict.reasons[k].code, cases[i].code) &&
                     result.verdict.reasons[k].grade == cases[i].grade;
        if (!found || result.verdict.grade != cases[i].grade)
            fail_msg("%s: %s, %zu reasons", cases[i].sql, verdict_grade_name(result.verdict.grade),
                     result.verdict.nreasons);
        result_dispose(&result);
    }
}

/* As many roles as a record may have, each found by its own number; rows of load that belong to
 * none stay unread. */
static void test_most_roles(void **state)
{
    struct record_reader *reader = NULL;
    struct result result = {0};
    struct record_sum sum = {0};
    int64_t id = 0, end_s = -1;
    char name[VT_RECORD_NAME_MAX];

    (void)state;
    copy_and_run(sample_path("roles"),
                 "DELETE FROM role; DELETE FROM limits; DELETE FROM operation;"
                 "DELETE FROM schedule; DELETE FROM load;"
                 "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4095)"
                 " INSERT INTO role SELECT 4096 - i, i / 16 + 1, 'r' || (i % 16), 1, 1, 0, 1, 1, 1,"
                 " 0, 0, 0 FROM n;"
                 "INSERT INTO load VALUES(-1048576, 1, 'r0', 0, x'02'), (0, 1, 'r0', 0, x'02')");
    assert_ok(record_open_read(sample_path("roles"), &reader, OK_ERR));
    for (unsigned i = 0; i < VT_RECORD_ROLES_MAX; i++) {
        snprintf(name, sizeof(name), "r%u", i % 16);
        assert_ok(record_find_role(reader, i / 16 + 1, name, &id, OK_ERR));
        assert_int_equal(id, VT_RECORD_ROLES_MAX - i);
    }
    assert_int_equal(record_find_role(reader, 1, "r16", &id, NULL), -ENOENT);
    assert_int_equal(record_find_role(reader, 257, "r1", &id, NULL), -ENOENT);
    assert_ok(record_read_load_end(reader, 1, "none", &end_s, OK_ERR));
    assert_int_equal(end_s, 0);
    assert_ok(record_sum_load(reader, 1, "none", 0, 10, &sum, OK_ERR));
    assert_int_equal(sum.seconds, 0);
    record_sum_dispose(&sum);
    assert_ok(result_compute(reader, &result, OK_ERR));
    assert_int_equal(result.score.ntiles, VT_RECORD_TILES_MAX);
    result_dispose(&result);
    record_reader_close(reader);
}

/* What the run announced itself stands there once. */
static void test_announced_once(void **state)
{
    struct result result;

    (void)state;
    copy_and_run(sample_path("once"),
                 "INSERT INTO event VALUES(NULL,'verdict',1,0,0,NULL,NULL,'x','TCG',0,"
                 "'emulated-cpu',0.0)");
    assert_ok(judge(sample_path("once"), &result, OK_ERR));
    assert_int_equal(result.verdict.nreasons, 1);
    result_dispose(&result);
}

/* Thousands of reasons are counted, not kept. */
static void test_many_reasons(void **state)
{
    struct vt_buf json = VT_BUF_INIT(1 << 20);
    struct result result;

    (void)state;
    copy_and_run(sample_path("many"),
                 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
                 " INSERT INTO event SELECT NULL,'agent',2,0,1,'web',NULL,'web-1',"
                 " printf('%.*c', 4000, char(27)),0,NULL,0.0 FROM n");
    assert_ok(judge(sample_path("many"), &result, OK_ERR));
    assert_int_equal(result.verdict.nreasons, VERDICT_REASONS_MAX);
    assert_int_equal(result.verdict.more, 5001 - VERDICT_REASONS_MAX);
    result_write_json(&result, NULL, &json);
    assert_false(json.failed);
    vt_buf_reset(&json);
    result_write_text(&result, &json);
    assert_false(json.failed);
    assert_null(strchr(json.data, 27)); /* no escape reaches a terminal */
    vt_buf_dispose(&json);
    result_dispose(&result);
}

static void test_no_record(void **state)
{
    struct record_reader *reader = NULL;
    const char *path = sample_path("none");

    (void)state;
    assert_int_equal(record_open_read(path, &reader, NULL), -ENOENT);
    sample_write_file(path, "", 0);
    assert_int_equal(record_open_read(path, &reader, NULL), -EBADMSG);
    sample_write_file(path, "SQLite format 3\0nonsense", 24);
    assert_int_equal(record_open_read(path, &reader, NULL), -EBADMSG);
    assert_int_equal(record_open_read("/dev/zero", &reader, NULL), -EBADMSG);
    assert_int_equal(record_open_read(sample_folder(), &reader, NULL), -EBADMSG);
    assert_null(reader);
}

/* A path with characters that mean something in a URI. */
static void test_path(void **state)
{
    struct record_reader *reader = NULL;
    const char *path = sample_path("a %41?mode=rw#x\xc3\xa9");

    (void)state;
    sample_record_write(path, &sample_small);
    assert_ok(record_open_read(path, &reader, OK_ERR));
    record_reader_close(reader);
}

/* Single bytes changed at random: whatever comes of it, it is an answer. */
static void test_random_bytes(void **state)
{
    const char *path = sample_path("random");
    struct vt_rng rng;
    size_t len = 0;
    uint8_t *data = sample_read_file(sample_path("good"), &len);
    const unsigned trials = SANITIZED ? 1000 : 3000;
    unsigned refused = 0;

    (void)state;
    vt_rng_seed(&rng, 1, "hostile", 0);
    sample_write_file(path, data, len);
    for (unsigned i = 0; i < trials; i++) {
        size_t at = vt_rng_below(&rng, i % 2 ? len : 4096);
        uint8_t byte = data[at] ^ (uint8_t)(1 + vt_rng_below(&rng, 255));
        VT_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
        struct result result;
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        struct vt_error err = VT_ERROR_INIT;
        int r = judge(path, &result, &err);
        if (r != 0 && r != -EBADMSG)
            fail_msg("byte %zu: %d %s", at, r, err.text);
        refused += r < 0;
        result_dispose(&result);
        assert_int_equal(pwrite(fd, &data[at], 1, (off_t)at), 1);
    }
    print_message("%u of %u refused\n", refused, trials);
    assert_in_range(refused, trials / 10, trials);
    free(data);
}

static int setup(void **state)
{
    (void)state;
    sample_record_write(sample_path("good"), &sample_small);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changed),      cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_most_roles),   cmocka_unit_test(test_announced_once),
        cmocka_unit_test(test_many_reasons), cmocka_unit_test(test_no_record),
        cmocka_unit_test(test_path),         cmocka_unit_test(test_random_bytes),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
