/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a record comes out again, and a record that nobody here wrote does no harm. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample.h"

#include "base/clock.h"
#include "base/scope.h"
#include "results/record_queue.h"

static struct record_reader *open_record(const char *path)
{
    struct record_reader *reader = NULL;

    assert_ok(record_open_read(path, &reader, OK_ERR));
    return reader;
}

static void test_roundtrip(void **state)
{
    const char *path = sample_path("roundtrip");
    struct vt_record_role *roles = NULL;
    struct vt_record_schedule schedule;
    struct record_reader *reader;
    size_t n = 0;
    char *text = NULL;
    uint64_t lost = 7;
    struct stat st;

    (void)state;
    sample_record_write(path, &sample_small);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    reader = open_record(path);
    assert_ok(record_read_meta(reader, RECORD_META_SEED, &text, OK_ERR));
    assert_string_equal(text, "42");
    free(text);
    assert_int_equal(record_read_meta(reader, "nothing", &text, NULL), -ENOENT);
    assert_ok(record_read_lost(reader, &lost, OK_ERR));
    assert_int_equal(lost, 0);
    assert_ok(record_read_roles(reader, &roles, &n, OK_ERR));
    assert_int_equal(n, 3);
    assert_string_equal(roles[1].role, "web");
    assert_int_equal(roles[1].divisor, 180900000);
    assert_int_equal(roles[1].nlimits, 2);
    assert_int_equal(roles[1].limits[1].percentile, 990000);
    assert_int_equal(roles[1].noperations, 1);
    assert_string_equal(roles[1].operations[0].name, "first");
    assert_int_equal(roles[1].operations[0].limits[0].limit_ns, VT_NS_PER_S);
    assert_int_equal(roles[1].operations[0].min_bytes_per_s[0], 99000);
    assert_int_equal(roles[1].operations[0].min_bytes_per_s[1], 95000);
    assert_ok(record_read_schedule(reader, 1, "web", &schedule, OK_ERR));
    assert_int_equal(schedule.window_steps, 25 * 4);
    assert_int_equal(schedule.hash[31], 0xab);
    assert_int_equal(record_read_schedule(reader, 2, "web", &schedule, NULL), -ENOENT);
    free(roles);
    record_reader_close(reader);
}

static void test_sum(void **state)
{
    struct record_sum *sum = malloc(sizeof(*sum));
    struct record_reader *reader = open_record(sample_path("roundtrip"));

    (void)state;
    assert_non_null(sum);
    assert_ok(record_sum_load(reader, 1, "web", 2, 6, sum, OK_ERR));
    assert_int_equal(sum->seconds, 4);
    assert_int_equal(sum->noperations, 2);
    assert_int_equal(sum->all.intended, 4 * 25);
    assert_int_equal(sum->all.good, 4 * 24);
    assert_int_equal(sum->all.slow, 4);
    assert_int_equal(sum->all.bytes, 4 * 24 * 1024);
    assert_int_equal(sum->all.response.count, 4 * 25);
    assert_int_equal(sum->all.response.max, 3 * VT_NS_PER_S);
    assert_int_equal(sum->all.service.count, 4 * 25);
    assert_int_equal(sum->all.wake_lag.max, 100 * VT_NS_PER_US);
    assert_string_equal(sum->operations[0].name, "first");
    assert_int_equal(sum->operations[0].response.max, 12 * VT_NS_PER_MS);
    assert_true(sum->has_rates);
    assert_int_equal(sum->operations[0].rate.count, 4 * 12);
    assert_int_equal(sum->operations[0].rate.min, 170666); /* 2,048,000 / 12 */
    assert_int_equal(sum->operations[0].rate.max, 2048000);
    assert_int_equal(sum->operations[1].rate.count, 0);
    record_sum_dispose(sum);
    /* Seconds past the window are there, others are not. */
    assert_ok(record_sum_load(reader, 1, "web", 0, 1000, sum, OK_ERR));
    assert_int_equal(sum->seconds, 8);
    record_sum_dispose(sum);
    assert_ok(record_sum_load(reader, 1, "nobody", 0, 1000, sum, OK_ERR));
    assert_int_equal(sum->seconds, 0);
    record_sum_dispose(sum);
    record_reader_close(reader);
    free(sum);
}

struct seen {
    unsigned events, agents;
    char last[64];
};

static int see_event(void *ctx, const struct vt_event *event)
{
    struct seen *seen = ctx;

    seen->events++;
    if (event->type == VT_EVENT_VERDICT) {
        assert_string_equal(event->series, "own-code");
        assert_true(event->value == 12.0);
        assert_int_equal(event->level, VT_LEVEL_WARNING);
        assert_null(event->role);
    }
    snprintf(seen->last, sizeof(seen->last), "%s", event->text ? event->text : "-");
    return 0;
}

static int see_agent(void *ctx, const struct vt_record_agent *agent)
{
    struct seen *seen = ctx;

    seen->agents++;
    assert_string_equal(agent->name, "web-1");
    assert_int_equal(agent->clock_offset_ns, -5);
    assert_int_equal(agent->rtt_ns, 300000);
    return 0;
}

static int64_t number(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t value;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

static void test_events(void **state)
{
    const char *path = sample_path("events");
    struct vt_record_agent agent = {"web-1", "guest", 1, -5, 300000};
    struct record *record = sample_record_open(path, &sample_small);
    struct vt_sink *sink = record_sink(record);
    struct vt_event verdict = {.type = VT_EVENT_VERDICT,
                               .level = VT_LEVEL_WARNING,
                               .series = "own-code",
                               .value = 12,
                               .text = "because"};
    struct vt_event sample = {.type = VT_EVENT_SAMPLE,
                              .tile = 1,
                              .role = "web",
                              .source = "web-1",
                              .series = "cpu.user",
                              .value = 0.5};
    struct vt_event log = {.type = VT_EVENT_LOG, .series = "nginx.access", .text = "GET /\n"};
    struct seen seen = {0};
    struct record_reader *reader;
    char *big = calloc(1, (3 << 20) + 1);

    (void)state;
    assert_non_null(big);
    sink->take(sink, &verdict);
    for (int i = 0; i < 10; i++)
        sink->take(sink, &sample);
    sample.value = (double)NAN;
    sample.text = "Unavailable";
    sink->take(sink, &sample);
    sink->take(sink, &log);
    memset(big, 'x', 3 << 20);
    log.text = big;
    sink->take(sink, &log);
    struct vt_event note = {.type = VT_EVENT_NOTE, .text = big};
    sink->take(sink, &note);
    assert_ok(record_put_agent(record, &agent, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    free(big);

    reader = open_record(path);
    assert_ok(record_walk_events(reader, see_event, &seen, OK_ERR));
    assert_int_equal(seen.events, 3); /* measure, verdict, note */
    assert_int_equal(strlen(seen.last), sizeof(seen.last) - 1);
    assert_ok(record_walk_agents(reader, see_agent, &seen, OK_ERR));
    assert_int_equal(seen.agents, 1);
    record_reader_close(reader);
    assert_int_equal(number(path, "SELECT count(*) FROM series WHERE phase = 'measure'"), 1);
    assert_int_equal(number(path, "SELECT count(*) FROM sample WHERE value = 0.5"), 10);
    assert_int_equal(number(path, "SELECT count(*) FROM sample WHERE value IS NULL"
                                  " AND why = 'Unavailable'"),
                     1);
    assert_int_equal(number(path, "SELECT sum(length(data)) FROM log"), (3 << 20) + 6);
    assert_int_equal(number(path, "SELECT max(length(data)) FROM log"), 1 << 20);
}

/* More than both buffers hold, faster than any disk: counted, and said in the record. */
static void test_overflow(void **state)
{
    const char *path = sample_path("overflow");
    struct record *record = sample_record_open(path, &sample_small);
    struct vt_sink *sink = record_sink(record);
    struct vt_event log = {.type = VT_EVENT_LOG, .series = "kernel"};
    uint64_t lost = 0, recorded = 0;
    struct record_reader *reader;
    char *big = malloc(RECORD_BLOB_MAX);

    (void)state;
    assert_non_null(big);
    memset(big, 'x', RECORD_BLOB_MAX - 1);
    big[RECORD_BLOB_MAX - 1] = '\0';
    log.text = big;
    for (int i = 0; i < 4000 && lost == 0; i++) {
        sink->take(sink, &log);
        assert_ok(record_status(record, &lost, OK_ERR));
        assert_true(record_room(record) <= RECORD_QUEUE_BYTES);
    }
    assert_true(lost > 0);
    assert_ok(record_close(record, OK_ERR));
    reader = open_record(path);
    assert_ok(record_read_lost(reader, &recorded, OK_ERR));
    assert_true(recorded >= lost);
    record_reader_close(reader);
    free(big);
}

/* Load that no role asked for cannot be placed; it is counted as lost, not dropped in silence. */
static void test_stray_load(void **state)
{
    const char *path = sample_path("stray");
    struct record *record = sample_record_open(path, &sample_small);
    struct vt_load_second load = {.operation = "first", .second = 1};
    struct vt_event event = {.type = VT_EVENT_LOAD, .tile = 9, .role = "web", .load = &load};
    uint64_t lost = 0;

    (void)state;
    record_sink(record)->take(record_sink(record), &event);
    event.tile = 1;
    load.second = VT_RECORD_SECONDS_MAX;
    record_sink(record)->take(record_sink(record), &event);
    load.second = 1;
    load.operation = "with space";
    record_sink(record)->take(record_sink(record), &event);
    assert_ok(record_status(record, &lost, OK_ERR));
    assert_int_equal(lost, 3);
    assert_ok(record_close(record, OK_ERR));
}

static void test_refused_puts(void **state)
{
    struct record *record = NULL;
    struct vt_record_role role = {.tile = 1, .role = "web"};
    struct vt_record_totals totals = {.tile = 1, .role = "db"};

    (void)state;
    assert_ok(record_create(sample_path("puts"), &record, OK_ERR));
    assert_int_equal(record_create(sample_path("puts"), &record, NULL), -EEXIST);
    assert_int_equal(record_put_meta(record, "record.lost", "0", NULL), -EINVAL);
    assert_int_equal(record_put_meta(record, "", "0", NULL), -EINVAL);
    assert_ok(record_put_role(record, &role, OK_ERR));
    assert_int_equal(record_put_role(record, &role, NULL), -EINVAL);
    role.tile = 0;
    assert_int_equal(record_put_role(record, &role, NULL), -EINVAL);
    role.tile = 2;
    vt_text_copy(role.role, sizeof(role.role), "score");
    assert_int_equal(record_put_role(record, &role, NULL), -EINVAL);
    assert_int_equal(record_put_totals(record, &totals, NULL), -EINVAL);
    assert_ok(record_close(record, OK_ERR));
}

/* The shape of a role's schedule comes back with its row; a stranger's is made plain,
 * and one without end is none. */
static void test_schedule_shapes(void **state)
{
    static const struct {
        const char *put, *key, *value, *want;
    } cases[] = {
        {"", NULL, NULL, ""},
        {"swing:16,60s", NULL, NULL, "swing:16,60s"},
        {"uniform", RECORD_META_SCHEDULE "web", "step:1,2", "step:1,2"}, /* later wins */
        {"", RECORD_META_SCHEDULE "mail", "uniform", ""},
        {"", RECORD_META_SCHEDULE "web", "\033[2J", "?[2J"},
    };
    char name[32], longer[VT_RECORD_SCHEDULE_MAX + 1];

    (void)state;
    memset(longer, '1', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    for (size_t i = 0; i <= VT_COUNT(cases); i++) {
        struct vt_record_role role = {.tile = 1, .role = "web", .driven = true}, *roles = NULL;
        struct record_reader *reader = NULL;
        struct record *record = NULL;
        struct vt_error err = VT_ERROR_INIT;
        bool last = i == VT_COUNT(cases);
        size_t n;

        snprintf(name, sizeof(name), "shape-%zu", i);
        assert_ok(record_create(sample_path(name), &record, OK_ERR));
        if (!last)
            vt_text_copy(role.schedule, sizeof(role.schedule), cases[i].put);
        assert_ok(record_put_role(record, &role, OK_ERR));
        if (last)
            assert_ok(record_put_meta(record, RECORD_META_SCHEDULE "web", longer, OK_ERR));
        else if (cases[i].key)
            assert_ok(record_put_meta(record, cases[i].key, cases[i].value, OK_ERR));
        assert_ok(record_close(record, OK_ERR));
        reader = open_record(sample_path(name));
        if (last) {
            assert_int_equal(record_read_roles(reader, &roles, &n, &err), -EBADMSG);
            assert_non_null(strstr(err.text, "schedule.web is too long"));
        } else {
            assert_ok(record_read_roles(reader, &roles, &n, OK_ERR));
            assert_int_equal(n, 1);
            assert_string_equal(roles[0].schedule, cases[i].want);
        }
        free(roles);
        record_reader_close(reader);
    }
}

/* A process that dies leaves what it wrote seconds ago, and no mark of an end. */
static void test_killed_writer(void **state)
{
    const char *path = sample_path("killed");
    struct record_reader *reader = NULL;
    uint64_t lost = 0;
    pid_t pid;
    int status;
    sqlite3 *db = NULL;
    char wal[300];
    struct stat st;

    (void)state;
    snprintf(wal, sizeof(wal), "%s-wal", path);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        off_t before;
        struct record *record = sample_record_open(path, &sample_small);
        if (stat(wal, &st) < 0)
            _exit(2);
        before = st.st_size;
        for (int i = 0; i < 1000; i++) { /* until the first transaction is written */
            if (stat(wal, &st) == 0 && st.st_size > before)
                _exit(0);
            record_put_meta(record, "tick", "tock", NULL);
            usleep(10000);
        }
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    /* Immutable: the log beside it is not looked at; fold it in first. */
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_ok(record_open_read(path, &reader, OK_ERR));
    assert_ok(record_read_lost(reader, &lost, OK_ERR));
    assert_true(lost == UINT64_MAX);
    record_reader_close(reader);
}

/* Files may not grow past a limit, tried at every size that matters: a close that returns 0 left a
 * whole record, any other says what happened. */
static void test_disk_full(void **state)
{
    const char *path = sample_path("full");
    struct rlimit old, small;
    unsigned whole = 0, said = 0;
    struct stat st;
    off_t size;

    (void)state;
    assert_int_equal(stat(sample_path("roundtrip"), &st), 0);
    size = st.st_size;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t limit = 0; limit < 4 * (rlim_t)size; limit += 4096) {
        struct vt_error err = VT_ERROR_INIT;
        struct record_reader *reader = NULL;
        struct record *record = NULL;
        uint64_t lost = 1;
        unlink(path);
        small = old;
        small.rlim_cur = limit;
        setrlimit(RLIMIT_FSIZE, &small);
        int r = record_create(path, &record, &err);
        assert_true((r == 0) == (access(path, F_OK) == 0));
        assert_true(r == 0 || access(sample_path("full-wal"), F_OK) < 0);
        if (r == 0) {
            sample_record_fill(record, &sample_small);
            r = record_close(record, &err);
        }
        setrlimit(RLIMIT_FSIZE, &old);
        if (r < 0) {
            assert_true(err.kind == VT_KIND_INFRA && strstr(err.text, "record"));
            said++;
            continue;
        }
        assert_ok(record_open_read(path, &reader, OK_ERR));
        assert_ok(record_read_lost(reader, &lost, OK_ERR));
        assert_int_equal(lost, 0);
        record_reader_close(reader);
        whole++;
    }
    print_message("%u whole, %u failed\n", whole, said);
    assert_true(whole && said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip),       cmocka_unit_test(test_sum),
        cmocka_unit_test(test_events),          cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_stray_load),      cmocka_unit_test(test_refused_puts),
        cmocka_unit_test(test_schedule_shapes), cmocka_unit_test(test_killed_writer),
        cmocka_unit_test(test_disk_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
