/* SPDX-License-Identifier: Apache-2.0 */
/* Whole reports: of good, odd, damaged, hostile and large records. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "markup.h"
#include "sample.h"

#include "base/clock.h"
#include "base/scope.h"
#include "results/report/report.h"
#include "results/result.h"

static const struct report_source nowhere = {"", ""};

static void report_of(const char *name, struct vt_buf *out)
{
    struct record_reader *reader = NULL;

    assert_ok(record_open_read(sample_path(name), &reader, OK_ERR));
    assert_ok(report_write(reader, &nowhere, out, OK_ERR));
    record_reader_close(reader);
    assert_markup(out);
}

static void assert_says(const struct vt_buf *html, const char *text)
{
    if (!strstr(html->data, text))
        fail_msg("the report does not say: %s", text);
}

static size_t count(const struct vt_buf *html, const char *text)
{
    size_t n = 0;

    for (const char *at = html->data; (at = strstr(at, text)); at++)
        n++;
    return n;
}

static void emit(struct record *record, const struct vt_event *event)
{
    record_sink(record)->take(record_sink(record), event);
}

static void test_small(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);

    (void)state;
    sample_record_write(sample_path("small"), &sample_small);
    report_of("small", &out);
    assert_says(&out, "0123456789ab");
    assert_says(&out, RESULT_METRIC);
    assert_says(&out, "emulated-cpu");
    /* app 15 of 16, web 24 of 25, mail 10 of 11 good: 93.75, 96.00, 90.91; their mean 93.55. */
    assert_says(&out, "<p class=\"big\">93.55</p>");
    assert_says(&out, ">93.75<");
    assert_says(&out, ">96.00<");
    assert_says(&out, ">90.91<");
    assert_says(&out, "id=\"tile-1\"");
    assert_says(&out, "web: response time");
    assert_says(&out, "limit of p95: 1 s");
    assert_says(&out, "abababababababab"); /* hash of the schedule */
    assert_says(&out, "name: specvirt");
}

/* Every byte, and beside a path that is another. */
static void test_stable(void **state)
{
    VT_AUTO_BUF struct vt_buf first = VT_BUF_INIT(REPORT_BYTES_MAX);
    VT_AUTO_BUF struct vt_buf second = VT_BUF_INIT(REPORT_BYTES_MAX);
    size_t len = 0;
    uint8_t *data;

    (void)state;
    sample_record_write(sample_path("stable"), &sample_small);
    data = sample_read_file(sample_path("stable"), &len);
    sample_write_file(sample_path("stable.copy"), data, len);
    free(data);
    report_of("stable", &first);
    report_of("stable.copy", &second);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);
}

static void test_empty(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    struct record *record = NULL;

    (void)state;
    assert_ok(record_create(sample_path("empty"), &record, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    report_of("empty", &out);
    assert_says(&out, ">INVALID<");
    assert_says(&out, "No limit could be judged");
    assert_says(&out, "there is no course to draw");
}

static void test_endings(void **state)
{
    static const char *const endings[][2] = {
        {"interrupted", "<b>The run did not come to its end:</b> interrupted"},
        {"failed: start vt-1: no such file", "failed: start vt-1: no such file"},
        {NULL, "the record does not say how it ended"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(endings); i++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
        struct sample sample = sample_small;
        char name[16];
        sample.ended = endings[i][0];
        snprintf(name, sizeof(name), "ended%zu", i);
        sample_record_write(sample_path(name), &sample);
        report_of(name, &out);
        assert_says(&out, endings[i][1]);
    }
}

/* A window that was cut after its first second: more load is advice for a whole run only. */
static void test_short(void **state)
{
    static const struct sample_role role = {
        "web", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 15, 0, 0, 0};
    static const char *const endings[][2] = {
        {"complete", "they need more requests, so a longer preset or more load"},
        {"interrupted", "the run was interrupted before there were enough requests"},
        {"failed: no space", "the run did not come to its end"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(endings); i++) {
        const struct sample sample = {1, &role, 1, 1, endings[i][0], "kvm"};
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
        char name[16];
        snprintf(name, sizeof(name), "short%zu", i);
        sample_record_write(sample_path(name), &sample);
        report_of(name, &out);
        assert_says(&out, endings[i][1]);
        assert_int_equal(count(&out, "a longer preset"), i == 0);
        assert_says(&out, "<h2>Limits that too few requests leave undecided</h2>");
        assert_null(strstr(out.data, "<h2>Limits not met</h2>"));
    }
}

/* 10 requests a second for 10 seconds: 2 fail, 1 is wrong. What failed first in the whole load,
 * and where two tiles broke in the same second, stand there in words. */
static void test_failures(void **state)
{
    static const struct sample_role role = {
        "mail", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 7, 0, 1, 2};
    const struct sample sample = {2, &role, 1, 10, "complete", "kvm"};
    const struct vt_record_totals totals = {.tile = 1,
                                            .role = "mail",
                                            .intended = 140,
                                            .good = 98,
                                            .wrong = 14,
                                            .failed = 28,
                                            .connections_failed = 5,
                                            .first_failure = "login <0>: refused"};
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    struct record *record;

    (void)state;
    record = sample_record_open(sample_path("failures"), &sample);
    assert_ok(record_put_totals(record, &totals, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    report_of("failures", &out);
    assert_says(&out, "30 of 100 requests were wrong or failed (20 failed, 10 wrong), 1 may.");
    assert_says(&out, "28 requests failed, 14 were wrong, 5 connections failed.");
    assert_says(&out, "The first failure: <code>login &lt;0&gt;: refused</code>");
    assert_int_equal(count(&out, "In the whole load of"), 1);
    assert_says(&out, "limits in the same second, none before the others");
    assert_says(&out, "Could not pass any more after second 2");
    assert_says(&out, "more than 5 % failed or wrong");
    assert_says(&out, "counts a request when its answer comes");
}

/* Archives of all versions that ever were. */
static void test_golden(void **state)
{
    static const char *const versions[] = {"v1", "v2"};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(versions); i++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
        char path[512], pin[512], fingerprint[ARCHIVE_FINGERPRINT_TEXT] = "";
        const char *trusted = fingerprint;
        struct archive_trust trust = {&trusted, 1};
        struct archive_report report = {0};
        struct record_reader *reader = NULL;
        struct report_source source = {"00ff", fingerprint};
        size_t len = 0;
        uint8_t *data;
        snprintf(path, sizeof(path), "%s/tests/unit/results/golden/%s.vtar", VTILE_SOURCE,
                 versions[i]);
        snprintf(pin, sizeof(pin), "%s/tests/unit/results/golden/%s.fingerprint", VTILE_SOURCE,
                 versions[i]);
        data = sample_read_file(pin, &len);
        memcpy(fingerprint, data, ARCHIVE_FINGERPRINT_TEXT - 1);
        free(data);
        assert_ok(
            archive_open_record(path, &trust, NULL, sample_folder(), &report, &reader, OK_ERR));
        assert_ok(report_write(reader, &source, &out, OK_ERR));
        assert_markup(&out);
        assert_says(&out, "<p class=\"big\">185.71</p>"); /* as it was sealed */
        assert_says(&out, "First to fail:");
        assert_says(&out, fingerprint);
        record_reader_close(reader);
        archive_report_dispose(&report);
    }
}

/* --- a story --- */

/* 0 before that second. */
static void put_samples_until(struct record *record, const char *name, int64_t from, int64_t until,
                              double value)
{
    for (int64_t second = 0; second < until; second++) {
        struct vt_event event = {.type = VT_EVENT_SAMPLE,
                                 .time_ns = second * VT_NS_PER_S,
                                 .tile = 1,
                                 .role = "batch",
                                 .source = "batch-1",
                                 .series = name,
                                 .value = second < from ? 0 : value};
        emit(record, &event);
    }
}

static void put_samples(struct record *record, const char *name, double before, double after)
{
    for (int64_t second = 0; second < 14; second++) {
        struct vt_event event = {.type = VT_EVENT_SAMPLE,
                                 .time_ns = second * VT_NS_PER_S,
                                 .tile = 1,
                                 .role = "batch",
                                 .source = "batch-1",
                                 .series = name,
                                 .value = second < 6 ? before : after};
        emit(record, &event);
    }
}

/* The second worker starts, memory does not suffice, the batch fails: its memory is named. */
static void test_names_the_cause(void **state)
{
    static const struct sample_role role = {
        "batch", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 15, 0, 0, 1};
    const struct sample sample = {1, &role, 1, 10, "complete", "kvm"};
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    struct record *record;

    (void)state;
    record = sample_record_open(sample_path("batch"), &sample);
    assert_ok(record_put_meta(record, "config.batch-1.memory", "131072 kB", OK_ERR));
    assert_ok(record_put_meta(record, "config.batch-1.cpus", "2", OK_ERR));
    assert_ok(record_put_meta(record, "config_end.batch-1.cpus", "2", OK_ERR));
    put_samples(record, "mem.available_bytes", 60e6, 1e6);
    put_samples(record, "mem.pressure", 0, 0.8);
    assert_ok(record_close(record, OK_ERR));
    report_of("batch", &out);
    assert_says(&out, "First to fail:");
    assert_says(&out, "of batch, tile 1");
    assert_says(&out, "memory of batch-1");
    assert_null(strstr(out.data, "config_end."));
    assert_true(strstr(out.data, "memory of batch-1") < strstr(out.data, "<h2>Tiles</h2>"));
}

/* Nothing is drawn where there is nothing, and why is said. */
static void set_window_end(const char *path, int to_s)
{
    sqlite3 *db = NULL;
    char sql[100];

    snprintf(sql, sizeof(sql), "UPDATE schedule SET to_s = %d", to_s);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A window's jobs are counted in its first second; what starved them came long after it. */
static void test_cause_after_the_load(void **state)
{
    static const struct sample_role role = {
        "batch", VT_RECORD_LOOP_OPEN, true, 1000000, 1000000, 15, 0, 0, 1};
    const struct sample sample = {1, &role, 1, 1, "complete", "kvm"};
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    struct record *record;

    (void)state;
    record = sample_record_open(sample_path("window"), &sample);
    put_samples_until(record, "mem.pressure", 50, 60, 0.5);
    assert_ok(record_close(record, OK_ERR));
    set_window_end(sample_path("window"), 62);
    report_of("window", &out);
    assert_says(&out, "First to fail:");
    assert_says(&out, "memory of batch-1: tasks waited for memory");
}

static void test_not_available(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    struct record *record = sample_record_open(sample_path("lack"), &sample_small);
    struct vt_event event = {.type = VT_EVENT_SAMPLE,
                             .tile = 1,
                             .role = "web",
                             .source = "web-1",
                             .series = "cpu.steal",
                             .value = (double)NAN,
                             .text = "not available, because the CPU is emulated"};

    (void)state;
    emit(record, &event);
    assert_ok(record_close(record, OK_ERR));
    report_of("lack", &out);
    assert_says(&out, "cpu.steal: not available, because the CPU is emulated");
}

/* --- a hostile record --- */

static const char evil[] = "</title></style></pre><script>alert(1)</script>"
                           "\"onload=\"alert(2)\"><img src=x onerror='alert(3)'>&lt;\x1b[2J\xff";

static void put_evil_rows(struct record *record)
{
    struct vt_event events[] = {
        {.type = VT_EVENT_NOTE, .level = VT_LEVEL_ERROR, .time_ns = VT_NS_PER_S},
        {.type = VT_EVENT_PHASE, .time_ns = VT_NS_PER_S},
        {.type = VT_EVENT_AGENT, .level = VT_LEVEL_ERROR, .time_ns = INT64_MIN},
        {.type = VT_EVENT_VERDICT, .level = VT_LEVEL_ERROR, .value = 1e300, .time_ns = INT64_MAX},
        {.type = VT_EVENT_SAMPLE, .value = 1e300, .time_ns = VT_NS_PER_S},
        {.type = VT_EVENT_SAMPLE, .value = -1, .time_ns = VT_NS_PER_S},
    };

    for (size_t i = 0; i < VT_COUNT(events); i++) {
        events[i].source = events[i].text = evil;
        events[i].phase = "<svg/onload=alert(4)>";
        events[i].role = "<b>";
        events[i].series = evil;
        if (events[i].type == VT_EVENT_SAMPLE) {
            events[i].series = "cpu.user";
            events[i].source = i % 2 ? "\"><script>x()</script>" : "<i onclick='x()'>";
        }
        events[i].tile = 1;
        emit(record, &events[i]);
    }
}

static void test_hostile(void **state)
{
    static const struct sample_role roles[] = {
        {"<script>a</script>", VT_RECORD_LOOP_OPEN, true, 1, 1, 15, 1, 1, 1},
        {"'onload=x()>&lt;", VT_RECORD_LOOP_OPEN, true, 1, 1, 15, 0, 0, 1},
    };
    static const char *const keys[] = {RECORD_META_RUN,
                                       RECORD_META_SPEC_NAME,
                                       RECORD_META_PRESET,
                                       RECORD_META_LOAD,
                                       RECORD_META_HOST,
                                       RECORD_META_WALL_START,
                                       RECORD_META_SPEC_TEXT,
                                       RECORD_META_ENDED,
                                       "config.<i>.\"x",
                                       "config.settings.<u>",
                                       "config.settings.<u>.source",
                                       "config.host.1.<script>",
                                       "config.",
                                       "config.host.",
                                       "<script>"};
    const struct sample sample = {2, roles, VT_COUNT(roles), 10, "complete", "kvm"};
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    struct record *record;

    (void)state;
    record = sample_record_open(sample_path("hostile"), &sample);
    put_evil_rows(record);
    for (size_t i = 0; i < VT_COUNT(keys); i++)
        assert_ok(record_put_meta(record, keys[i], evil, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    report_of("hostile", &out);
    assert_null(strstr(out.data, "<script"));
    assert_null(strstr(out.data, "<img"));
    assert_null(strchr(out.data, '\x1b'));
    assert_true(vt_text_is_utf8(out.data));
    assert_says(&out, "&lt;script&gt;a&lt;/script&gt;");
    assert_says(&out, "<h3>&quot;&gt;&lt;script&gt;x()&lt;/script&gt;"); /* a machine */
    assert_says(&out, "cpu.user: &lt;/title&gt;");                       /* why it has none */
}

/* Far more events, series and facts than a report has room for. */
static void test_bounded(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    struct record *record = sample_record_open(sample_path("bounded"), &sample_small);
    char text[4000], name[64];

    (void)state;
    memset(text, '<', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 6000; i++) {
        struct vt_event note = {.type = VT_EVENT_NOTE, .source = "controller", .text = text};
        struct vt_event sample = {.type = VT_EVENT_SAMPLE, .source = "host.1", .value = 1};
        snprintf(name, sizeof(name), "vcpu.%d.run_delay", i);
        sample.series = name;
        note.level = i == 5999 ? VT_LEVEL_ERROR : VT_LEVEL_INFO;
        if (i == 5999)
            note.text = "the last and worst";
        if (i % 3 == 0 || i == 5999)
            emit(record, &note);
        emit(record, &sample);
        while (record_room(record) < RECORD_QUEUE_BYTES / 2)
            ;
    }
    assert_ok(record_close(record, OK_ERR));
    report_of("bounded", &out);
    assert_true(out.len < (size_t)8 << 20);
    assert_says(&out, "more lines");
    assert_says(&out, "the last and worst");
}

/* As many tiles as the published record, ten minutes: every tile is in the grid, the worst stands
 * unfolded, and the size is in proportion. */
static void test_many_tiles(void **state)
{
    static const struct sample_role roles[] = {
        {"app", VT_RECORD_LOOP_OPEN, true, 178100000, 1000000, 3, 0, 0, 0},
        {"web", VT_RECORD_LOOP_OPEN, true, 180900000, 1000000, 4, 0, 0, 0},
    };
    const struct sample sample = {26, roles, VT_COUNT(roles), 300, "complete", "kvm"};
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(REPORT_BYTES_MAX);
    sqlite3 *db = NULL;

    (void)state;
    sample_record_write(sample_path("many"), &sample);
    report_of("many", &out);
    assert_says(&out, "<p class=\"big\">2600.00</p>");
    assert_int_equal(count(&out, "<li class=\"q0\"><a href=\"#tile-"), 26);
    assert_int_equal(count(&out, "<details class=\"tile\""), 26);
    assert_int_equal(count(&out, "<details class=\"tile\" id=\"tile-1\" open>"), 1);
    assert_true(out.len < (size_t)1 << 20);
    /* One limit of one tile that nothing keeps: that tile alone is another, and the first. */
    assert_int_equal(sqlite3_open(sample_path("many"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE limits SET limit_ns = 1 WHERE id = 0 AND role ="
                                  " (SELECT id FROM role WHERE tile = 7 AND role = 'app')",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    vt_buf_reset(&out);
    report_of("many", &out);
    assert_int_equal(count(&out, "<li class=\"q0\"><a href=\"#tile-"), 25);
    assert_int_equal(count(&out, "<li class=\"q2\"><a href=\"#tile-7\""), 1);
    assert_int_equal(count(&out, "<details class=\"tile\" id=\"tile-7\" open>"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),           cmocka_unit_test(test_stable),
        cmocka_unit_test(test_empty),           cmocka_unit_test(test_endings),
        cmocka_unit_test(test_short),           cmocka_unit_test(test_golden),
        cmocka_unit_test(test_names_the_cause), cmocka_unit_test(test_cause_after_the_load),
        cmocka_unit_test(test_not_available),   cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_bounded),         cmocka_unit_test(test_many_tiles),
        cmocka_unit_test(test_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
