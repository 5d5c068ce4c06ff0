/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"

#include "base/clock.h"
#include "results/samples.h"

#define T0 INT64_C(1000000000000)

static void test_names(void **state)
{
    (void)state;
    assert_true(samples_name_like("cpu.idle", "cpu.idle"));
    assert_false(samples_name_like("cpu.idle2", "cpu.idle"));
    assert_false(samples_name_like("cpu.idl", "cpu.idle"));
    assert_true(samples_name_like("vcpu.12.run_delay", "vcpu.#.run_delay"));
    assert_false(samples_name_like("vcpu..run_delay", "vcpu.#.run_delay"));
    assert_false(samples_name_like("vcpu.x.run_delay", "vcpu.#.run_delay"));
    assert_true(samples_name_like("vcpu.0.run_delay", "vcpu.#.run_delay"));
}

static void test_axis(void **state)
{
    struct samples_axis axis = {.t0_ns = T0, .end_s = 7300};

    (void)state;
    samples_axis_cut(&axis, 600); /* 7300 / 600 = 12.2: 13 s a bin, 562 bins */
    assert_int_equal(axis.bin_s, 13);
    assert_int_equal(axis.bins, 562);
    assert_int_equal(samples_axis_bin(&axis, T0 - 1), -1);
    assert_int_equal(samples_axis_bin(&axis, T0), 0);
    assert_int_equal(samples_axis_bin(&axis, T0 + 13 * VT_NS_PER_S - 1), 0);
    assert_int_equal(samples_axis_bin(&axis, T0 + 13 * VT_NS_PER_S), 1);
    assert_int_equal(samples_axis_bin(&axis, T0 + 7300 * VT_NS_PER_S), -1);
    assert_int_equal(samples_axis_bin(&axis, INT64_MAX), -1);
    assert_int_equal(samples_axis_bin(&axis, INT64_MIN), -1);
    axis.end_s = 70;
    samples_axis_cut(&axis, 600);
    assert_int_equal(axis.bin_s, 1);
    assert_int_equal(axis.bins, 70);
    axis.end_s = 0;
    samples_axis_cut(&axis, 600);
    assert_int_equal(axis.bins, 0);
    assert_int_equal(samples_axis_bin(&axis, T0), -1);
}

static void emit(struct record *record, const char *phase, const char *name, int64_t second,
                 double value, const char *why)
{
    struct vt_event event = {.type = VT_EVENT_PHASE, .phase = phase, .source = "controller"};
    struct vt_event sample = {.type = VT_EVENT_SAMPLE,
                              .time_ns = T0 + second * VT_NS_PER_S,
                              .tile = 1,
                              .role = "web",
                              .source = "web-1",
                              .series = name,
                              .value = value,
                              .text = why};

    record_sink(record)->take(record_sink(record), &event);
    record_sink(record)->take(record_sink(record), &sample);
}

/* Two seconds a bin; a series goes on in the next phase. */
static void test_read(void **state)
{
    struct samples samples = {.axis = {.t0_ns = T0, .end_s = 8}};
    struct record *record = NULL;
    struct record_reader *reader = NULL;
    const struct samples_series *series;
    const struct samples_machine *machine;

    (void)state;
    assert_ok(record_create(sample_path("samples"), &record, OK_ERR));
    assert_ok(record_put_meta(record, "config.web-1.memory", "128 kB", OK_ERR));
    assert_ok(record_put_meta(record, "config.web-1.cpus", "2", OK_ERR));
    assert_ok(record_put_meta(record, "config.bad.cpus", "1e999", OK_ERR));
    emit(record, "ramp", "cpu.user", 0, 0.25, NULL);
    emit(record, "ramp", "cpu.user", 1, 0.75, NULL);
    emit(record, "ramp", "mem.available_bytes", 0, 300, NULL);
    emit(record, "ramp", "mem.available_bytes", 1, 200, NULL);
    emit(record, "ramp", "no.such.series", 1, 200, NULL);
    emit(record, "measure", "cpu.user", 6, 1, NULL);
    emit(record, "measure", "cpu.user", 9, 1, NULL); /* after the end */
    emit(record, "measure", "cpu.steal", 6, (double)NAN, "not available, because");
    assert_ok(record_close(record, OK_ERR));
    samples_axis_cut(&samples.axis, 4);
    assert_ok(record_open_read(sample_path("samples"), &reader, OK_ERR));
    assert_ok(samples_read(&samples, reader, OK_ERR));
    assert_int_equal(samples.nseries, 3);
    series = samples_find(&samples, "web-1", 1, "cpu.user");
    assert_non_null(series);
    assert_true(series->values[0] == 0.5F && series->values[3] == 1.0F); /* means */
    assert_true(isnan(series->values[1]) && isnan(series->values[2]));
    series = samples_find(&samples, "web-1", 1, "mem.available_bytes");
    assert_true(series && series->values[0] == 200.0F); /* the least */
    series = samples_find(&samples, "web-1", 1, "cpu.steal");
    assert_non_null(series);
    assert_string_equal(series->why, "not available, because");
    assert_null(samples_find(&samples, "web-1", 2, "cpu.user"));
    machine = samples_machine(&samples, "web-1");
    assert_true(machine && machine->memory_bytes == 131072 && machine->cpus == 2);
    machine = samples_machine(&samples, "bad");
    assert_true(!machine || machine->cpus == 0);
    assert_null(samples_machine(&samples, "other"));
    samples_dispose(&samples);
    record_reader_close(reader);
}

/* Far more series and machines than are kept: each is looked for once, the rest is counted. A
 * series that goes on in another phase is still found among thousands. */
static void test_many(void **state)
{
    enum { MANY = 60000 };
    struct samples samples = {.axis = {.t0_ns = T0, .end_s = 8}};
    struct record *record = NULL;
    struct record_reader *reader = NULL;
    sqlite3 *db = NULL;

    (void)state;
    assert_ok(record_create(sample_path("many"), &record, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    assert_int_equal(sqlite3_open(sample_path("many"), &db), SQLITE_OK);
    /* The first 100 series stand there a second time, with another value. */
    assert_int_equal(
        sqlite3_exec(db,
                     "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n"
                     " WHERE i < 60099) INSERT INTO series SELECT i + 1, 0, NULL,"
                     " 's' || (i % 60000), 'p' || (i / 60000), 'disk.busy' FROM n;"
                     "INSERT INTO sample SELECT NULL, id, 1005000000000, id / 60001 + 1.0, NULL"
                     " FROM series;"
                     "INSERT INTO meta SELECT 'config.' || source || '.cpus', '4' FROM series"
                     " WHERE id <= 60000",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    samples_axis_cut(&samples.axis, 4);
    assert_ok(record_open_read(sample_path("many"), &reader, OK_ERR));
    assert_ok(samples_read(&samples, reader, OK_ERR));
    assert_int_equal(samples.nseries, SAMPLES_SERIES_MAX);
    assert_int_equal(samples.nmachines, SAMPLES_SERIES_MAX);
    assert_int_equal(samples.more, MANY - SAMPLES_SERIES_MAX);
    const struct samples_series *series = samples_find(&samples, "s99", 0, "disk.busy");
    assert_non_null(series);
    assert_int_equal(series->counts[samples_axis_bin(&samples.axis, T0 + 5 * VT_NS_PER_S)], 2);
    assert_null(samples_find(&samples, "s59999", 0, "disk.busy"));
    samples_dispose(&samples);
    record_reader_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_axis),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
