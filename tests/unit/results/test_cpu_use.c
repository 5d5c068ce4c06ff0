/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are given second by second; the sums are taken by hand. */
#include <math.h>
#include <string.h>

#include "sample.h"

#include "base/scope.h"
#include "results/cpu_use.h"

#define SECONDS 60

struct rig {
    struct samples samples;
    struct samples_series series[16];
    float values[16][SECONDS];
    struct cpu_use use;
};

/* Measured from second 10 to 60; elsewhere all lines stand at 100. */
static void start(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    rig->samples.axis = (struct samples_axis){.end_s = SECONDS, .from_s = 10, .to_s = SECONDS};
    samples_axis_cut(&rig->samples.axis, SAMPLES_BINS_MAX);
    rig->samples.series = rig->series;
}

static float *add(struct rig *rig, const char *source, unsigned tile, const char *role,
                  const char *name, float value)
{
    size_t n = rig->samples.nseries++;
    struct samples_series *series = &rig->series[n];

    assert_true(n < 16);
    series->tile = tile;
    vt_text_copy(series->source, sizeof(series->source), source);
    vt_text_copy(series->role, sizeof(series->role), role);
    vt_text_copy(series->name, sizeof(series->name), name);
    series->values = rig->values[n];
    for (int i = 0; i < SECONDS; i++)
        series->values[i] = i < 10 ? 100 : value;
    return series->values;
}

/* 4 CPUs: 0.2 idle, 0.1 waiting, 3.7 busy. */
static void add_host(struct rig *rig)
{
    add(rig, "host.1", 0, "", "cpu.idle", 0.2F);
    add(rig, "host.1", 0, "", "cpu.iowait", 0.1F);
    add(rig, "host.1", 0, "", "cpu.user", 3.0F);
    add(rig, "host.1", 0, "", "cpu.system", 0.7F);
}

static void expect(const struct rig *rig, const char *label, double cpus)
{
    for (unsigned i = 0; i < rig->use.nrows; i++) {
        if (strcmp(rig->use.rows[i].label, label) != 0)
            continue;
        if (fabs(rig->use.rows[i].cpus - cpus) > 1e-6)
            fail_msg("%s: %f, not %f", label, rig->use.rows[i].cpus, cpus);
        return;
    }
    fail_msg("no row '%s'", label);
}

static void test_by_whom(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(4096);
    struct rig *rig = malloc(sizeof(*rig));
    float *gone;

    (void)state;
    assert_non_null(rig);
    start(rig);
    add_host(rig);
    add(rig, "host.1", 1, "web", "vcpu.0.cpu", 0.5F);
    add(rig, "host.1", 1, "web", "vcpu.1.cpu", 0.25F);
    add(rig, "host.1", 1, "database", "vcpu.all.cpu", 1.0F);
    /* Half the window: then it ended. */
    gone = add(rig, "host.1", 2, "web", "vcpu.0.cpu", 0.5F);
    for (int i = 35; i < SECONDS; i++)
        gone[i] = NAN;
    add(rig, "host.1", 1, "web", "vhost.0.cpu", 0.125F);
    add(rig, "host.1", 2, "web", "emulator.cpu", 0.125F);
    add(rig, "client-1", 0, "", "agent.cpu", 0.5F);
    /* Another view of the same CPUs: not counted twice. */
    add(rig, "web-1", 1, "web", "agent.cpu", 0.25F);
    add(rig, "web-1", 1, "web", "cpu.user", 0.5F);
    assert_true(cpu_use_find(&rig->samples, &rig->use));
    assert_true(fabs(rig->use.cpus - 4) < 1e-6);
    assert_true(fabs(rig->use.busy - 3.7) < 1e-6);
    expect(rig, "guests' vCPUs", 2.0);
    expect(rig, "database", 1.0);
    expect(rig, "web", 1.0);
    expect(rig, "tile 1", 1.75);
    expect(rig, "tile 2", 0.25);
    expect(rig, "the rest of their QEMUs, and vhost", 0.25);
    expect(rig, "the load client", 0.5);
    expect(rig, "all other processes", 3.7 - 2.0 - 0.25 - 0.5);
    cpu_use_write_text(&rig->use, &text);
    assert_memory_equal(text.data, "busy     92 % of the host's 4 CPUs ", 35);
    assert_non_null(strstr(text.data, "\n    2.00  guests' vCPUs\n"));
    assert_non_null(strstr(text.data, "\n          1.75  tile 1\n"));
    free(rig);
}

static void test_one_tile_is_not_named(void **state)
{
    struct rig *rig = malloc(sizeof(*rig));

    (void)state;
    assert_non_null(rig);
    start(rig);
    add_host(rig);
    add(rig, "host.1", 1, "web", "vcpu.0.cpu", 0.5F);
    assert_true(cpu_use_find(&rig->samples, &rig->use));
    for (unsigned i = 0; i < rig->use.nrows; i++)
        assert_null(strstr(rig->use.rows[i].label, "tile"));
    free(rig);
}

static void test_nothing_known(void **state)
{
    struct rig *rig = malloc(sizeof(*rig));

    (void)state;
    assert_non_null(rig);
    start(rig);
    assert_false(cpu_use_find(&rig->samples, &rig->use));
    add(rig, "web-1", 1, "web", "cpu.idle", 0.5F);
    assert_false(cpu_use_find(&rig->samples, &rig->use));
    add_host(rig);
    rig->samples.axis.to_s = rig->samples.axis.from_s = 0; /* no load */
    assert_false(cpu_use_find(&rig->samples, &rig->use));
    free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_whom),
        cmocka_unit_test(test_one_tile_is_not_named),
        cmocka_unit_test(test_nothing_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
