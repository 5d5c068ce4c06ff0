/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are given second by second, and what they show is counted by hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"

#include "base/clock.h"
#include "base/scope.h"
#include "results/cause.h"

#define SECONDS 60
#define MIB 1048576.0

/* Measured from second 10 to 60 of 60. */
struct rig {
    struct samples samples;
    struct verdict verdict;
    struct causes causes;
};

static void start(struct rig *rig)
{
    *rig = (struct rig){0};
    rig->samples.axis = (struct samples_axis){.end_s = SECONDS, .from_s = 10, .to_s = SECONDS};
    samples_axis_cut(&rig->samples.axis, SAMPLES_BINS_MAX);
    rig->samples.series = calloc(16, sizeof(*rig->samples.series));
    rig->samples.machines = calloc(4, sizeof(*rig->samples.machines));
    assert_true(rig->samples.series && rig->samples.machines);
}

static void add_machine(struct rig *rig, const char *source, double memory_bytes, double cpus)
{
    struct samples_machine *machine = &rig->samples.machines[rig->samples.nmachines++];

    vt_text_copy(machine->source, sizeof(machine->source), source);
    machine->memory_bytes = memory_bytes;
    machine->cpus = cpus;
}

/* base, but other in seconds [from, to). */
static struct samples_series *add_line(struct rig *rig, unsigned tile, const char *source,
                                       const char *name, double base, double other, int from,
                                       int to)
{
    struct samples_series *series = &rig->samples.series[rig->samples.nseries++];

    series->tile = tile;
    vt_text_copy(series->source, sizeof(series->source), source);
    vt_text_copy(series->name, sizeof(series->name), name);
    series->values = calloc(SECONDS, sizeof(*series->values));
    series->counts = calloc(SECONDS, sizeof(*series->counts));
    assert_true(series->values && series->counts);
    for (int i = 0; i < SECONDS; i++)
        series->values[i] = (float)(i >= from && i < to ? other : base);
    return series;
}

static void find(struct rig *rig, struct breach *first)
{
    const struct breaches breaches = {.all = first, .n = !!first, .first = !!first};

    assert_ok(cause_find(&rig->samples, &rig->verdict, &breaches, &rig->causes, OK_ERR));
}

static void end(struct rig *rig)
{
    cause_dispose(&rig->causes);
    samples_dispose(&rig->samples);
}

static void test_healthy(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    add_machine(&rig, "web-1", 128 * MIB, 1);
    add_line(&rig, 1, "web-1", "mem.available_bytes", 60 * MIB, 0, 0, 0);
    add_line(&rig, 1, "web-1", "psi.memory.some", 0.01, 0, 0, 0);
    add_line(&rig, 1, "web-1", "mem.oom_kills", 0, 0, 0, 0);
    add_line(&rig, 1, "web-1", "cpu.idle", 0.8, 0, 0, 0);
    find(&rig, NULL);
    assert_int_equal(rig.causes.n, 0);
    end(&rig);
}

/* Two vCPUs, the second worker starts late, memory does not suffice: the batch story. */
static void test_batch_story(void **state)
{
    struct breach first = {.line = {.tile = 1, .role = "batch"}, .began_s = 55, .spent_s = 55};
    struct rig rig;

    (void)state;
    start(&rig);
    add_machine(&rig, "batch-1", 128 * MIB, 2);
    add_machine(&rig, "host.1", 24576 * MIB, 2);
    add_line(&rig, 0, "host.1", "cpu.idle", 0.0, 0, 0, 0);
    add_line(&rig, 1, "batch-1", "cpu.idle", 1.0, 0.0, 40, 60);
    add_line(&rig, 1, "batch-1", "mem.available_bytes", 50 * MIB, 2 * MIB, 42, 60);
    add_line(&rig, 1, "batch-1", "mem.pressure", 0, 0.6, 43, 60);
    add_line(&rig, 1, "batch-1", "mem.oom_kills", 0, 1, 50, 60);
    find(&rig, &first);
    assert_int_equal(rig.causes.n, 5);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(rig.causes.all[i].source, "batch-1");
        assert_non_null(strstr(rig.causes.all[i].text, "memory of batch-1"));
    }
    assert_int_equal(rig.causes.all[0].code, CAUSE_OOM_KILL);
    assert_int_equal(rig.causes.all[0].first_s, 50);
    assert_int_equal(rig.causes.all[1].code, CAUSE_MEMORY);
    assert_int_equal(rig.causes.all[1].first_s, 42);
    assert_int_equal(rig.causes.all[1].seconds, 18);
    assert_non_null(strstr(rig.causes.all[1].text, "2.0 of 128 MiB (1.6 %)"));
    assert_int_equal(rig.causes.all[2].code, CAUSE_MEMORY_PRESSURE);
    assert_int_equal(rig.causes.all[3].code, CAUSE_CPU);
    assert_int_equal(rig.causes.all[4].code, CAUSE_HOST_CPU);
    end(&rig);
}

/* A twentieth of 100 MiB are 5: what is just there is enough. */
static void test_memory_line(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    add_machine(&rig, "a-1", 100 * MIB, 1);
    add_machine(&rig, "b-1", 100 * MIB, 1);
    add_line(&rig, 1, "a-1", "mem.available_bytes", 50 * MIB, 5 * MIB, 20, 21);
    add_line(&rig, 1, "b-1", "mem.available_bytes", 50 * MIB, 4.9 * MIB, 20, 21);
    /* Whose memory is not known cannot have too little. */
    add_line(&rig, 1, "c-1", "mem.available_bytes", 1, 1, 20, 21);
    find(&rig, NULL);
    assert_int_equal(rig.causes.n, 1);
    assert_string_equal(rig.causes.all[0].source, "b-1");
    end(&rig);
}

/* What was before the window is not of it. */
static void test_window(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    add_machine(&rig, "a-1", 100 * MIB, 1);
    add_line(&rig, 1, "a-1", "mem.available_bytes", 50 * MIB, MIB, 0, 10);
    add_line(&rig, 1, "a-1", "mem.oom_kills", 3, 0, 0, 5);
    add_line(&rig, 1, "a-1", "cpu.idle", 1, 0, 0, 10);
    find(&rig, NULL);
    assert_int_equal(rig.causes.n, 0);
    end(&rig);
}

/* A tenth of 50 s are five: four saturated seconds are a peak. Waiting for disks is idling. */
static void test_cpu(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    add_machine(&rig, "a-1", 100 * MIB, 4);
    add_machine(&rig, "b-1", 100 * MIB, 4);
    add_machine(&rig, "c-1", 100 * MIB, 4);
    add_line(&rig, 1, "a-1", "cpu.idle", 3, 0.1, 20, 24);
    add_line(&rig, 1, "b-1", "cpu.idle", 3, 0.1, 20, 25);
    add_line(&rig, 1, "c-1", "cpu.idle", 3, 0.1, 20, 40);
    add_line(&rig, 1, "c-1", "cpu.iowait", 0, 2, 20, 40);
    find(&rig, NULL);
    assert_int_equal(rig.causes.n, 1);
    assert_string_equal(rig.causes.all[0].source, "b-1");
    assert_int_equal(rig.causes.all[0].seconds, 5);
    end(&rig);
}

static void test_silent(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    add_line(&rig, 2, "db-2", "mem.available_bytes", 50 * MIB, (double)NAN, 30, 41);
    add_line(&rig, 2, "web-2", "mem.available_bytes", 50 * MIB, (double)NAN, 30, 34);
    find(&rig, NULL);
    assert_int_equal(rig.causes.n, 1);
    assert_int_equal(rig.causes.all[0].code, CAUSE_SILENT);
    assert_int_equal(rig.causes.all[0].first_s, 30);
    assert_int_equal(rig.causes.all[0].seconds, 11);
    end(&rig);
}

/* The tile that broke first, then the host, then other tiles. */
static void test_order(void **state)
{
    struct breach first = {.line = {.tile = 2}};
    struct verdict_reason late = {.grade = VERDICT_INVALID, .code = "generator-late"};
    struct rig rig;

    (void)state;
    start(&rig);
    rig.verdict = (struct verdict){.reasons = &late, .nreasons = 1};
    snprintf(late.text, sizeof(late.text), "woke late by 7.000 ms");
    add_machine(&rig, "web-1", 100 * MIB, 1);
    add_line(&rig, 1, "web-1", "mem.available_bytes", MIB, MIB, 0, 0);
    add_line(&rig, 2, "web-2", "cpu.idle", 0, 0, 0, 0);
    find(&rig, &first);
    assert_int_equal(rig.causes.n, 3);
    assert_string_equal(rig.causes.all[0].source, "web-2");
    assert_int_equal(rig.causes.all[1].code, CAUSE_GENERATOR);
    assert_non_null(strstr(rig.causes.all[1].text, "7.000 ms"));
    assert_string_equal(rig.causes.all[2].source, "web-1");
    end(&rig);
}

/* Samples that the host took of a VM are QEMU's. */
static void test_host_of_vm(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig);
    add_line(&rig, 1, "host.1", "cpu.idle", 0, 0, 0, 0);
    find(&rig, NULL);
    assert_int_equal(rig.causes.n, 0);
    end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),     cmocka_unit_test(test_batch_story),
        cmocka_unit_test(test_memory_line), cmocka_unit_test(test_window),
        cmocka_unit_test(test_cpu),         cmocka_unit_test(test_silent),
        cmocka_unit_test(test_order),       cmocka_unit_test(test_host_of_vm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
