/* SPDX-License-Identifier: Apache-2.0 */
#include "results/cpu_use.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "results/result.h"

#define HOST "host."

struct named {
    char name[VT_RECORD_NAME_MAX];
    double cpus;
};
struct sums {
    const struct samples *samples;
    const struct samples_series *idle; /* of the host: what it has no value for is not looked at */
    double user, system, waiting, steal, vcpus, emulators, client;
    struct named roles[CPU_USE_ROLES_MAX];
    unsigned nroles;
    double tiles[VT_RECORD_TILES_MAX + 1];
};

/* Over the window; a VM that is gone uses nothing. */
static double mean(const struct sums *sums, const struct samples_series *series)
{
    const struct samples_axis *axis = &sums->samples->axis;
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < axis->bins; i++) {
        int64_t at_s = (int64_t)i * axis->bin_s;

        if (at_s < axis->from_s || at_s >= axis->to_s || isnan(sums->idle->values[i]))
            continue;
        n++;
        if (!isnan(series->values[i]))
            sum += (double)series->values[i];
    }
    return n ? sum / (double)n : 0;
}

static void add_vcpu(struct sums *sums, const struct samples_series *series, double cpus)
{
    unsigned i = 0;

    sums->vcpus += cpus;
    if (series->tile <= VT_RECORD_TILES_MAX)
        sums->tiles[series->tile] += cpus;
    while (i < sums->nroles && strcmp(sums->roles[i].name, series->role) != 0)
        i++;
    if (i == CPU_USE_ROLES_MAX)
        return;
    if (i == sums->nroles) {
        vt_text_copy(sums->roles[i].name, sizeof(sums->roles[i].name), series->role);
        sums->nroles++;
    }
    sums->roles[i].cpus += cpus;
}

static void add_series(struct sums *sums, const struct samples_series *series)
{
    bool host = !strcmp(series->source, sums->idle->source);
    const struct {
        const char *name;
        double *sum;
    } own[] = {{"cpu.user", &sums->user},
               {"cpu.system", &sums->system},
               {"cpu.iowait", &sums->waiting},
               {"cpu.steal", &sums->steal}};

    for (size_t i = 0; host && series->tile == 0 && i < VT_COUNT(own); i++)
        if (!strcmp(series->name, own[i].name))
            *own[i].sum += mean(sums, series);
    if (host && series->tile > 0 &&
        (samples_name_like(series->name, "vcpu.#.cpu") || !strcmp(series->name, "vcpu.all.cpu")))
        add_vcpu(sums, series, mean(sums, series));
    if (host && series->tile > 0 &&
        (samples_name_like(series->name, "vhost.#.cpu") || !strcmp(series->name, "emulator.cpu")))
        sums->emulators += mean(sums, series);
    /* Agents of tile 0 make load from outside. */
    if (!host && series->tile == 0 && !strcmp(series->name, "agent.cpu"))
        sums->client += mean(sums, series);
}

static void add_row(struct cpu_use *use, bool part, double cpus, const char *label, unsigned number)
{
    struct cpu_use_row *row = &use->rows[use->nrows++];

    row->part = part;
    row->cpus = cpus;
    if (number)
        snprintf(row->label, sizeof(row->label), "%s %u", label, number);
    else
        vt_text_copy(row->label, sizeof(row->label), label);
}

/* Those of most use; which they are matters where there is more than one. */
static void add_tiles(struct cpu_use *use, struct sums *sums)
{
    unsigned ntiles = 0, most;

    for (unsigned tile = 1; tile <= VT_RECORD_TILES_MAX; tile++)
        ntiles += sums->tiles[tile] > 0;
    for (unsigned n = 0; ntiles > 1 && n < ntiles && n < CPU_USE_TILES_SHOWN; n++) {
        most = 1;
        for (unsigned tile = 2; tile <= VT_RECORD_TILES_MAX; tile++)
            if (sums->tiles[tile] > sums->tiles[most])
                most = tile;
        add_row(use, true, sums->tiles[most], "tile", most);
        sums->tiles[most] = 0;
    }
}

static int compare_use(const void *a, const void *b)
{
    double x = ((const struct named *)a)->cpus, y = ((const struct named *)b)->cpus;

    return (x < y) - (x > y);
}

static void add_roles(struct cpu_use *use, struct sums *sums)
{
    qsort(sums->roles, sums->nroles, sizeof(*sums->roles), compare_use);
    for (unsigned i = 0; i < sums->nroles; i++)
        add_row(use, true, sums->roles[i].cpus, sums->roles[i].name, 0);
}

bool cpu_use_find(const struct samples *samples, struct cpu_use *ret)
{
    struct sums sums = {.samples = samples};
    const struct samples_machine *machine;
    double idle, others;

    for (size_t i = 0; i < samples->nseries && !sums.idle; i++)
        if (samples->series[i].tile == 0 && !strcmp(samples->series[i].name, "cpu.idle") &&
            !strncmp(samples->series[i].source, HOST, strlen(HOST)))
            sums.idle = &samples->series[i];
    if (!sums.idle || samples->axis.to_s <= samples->axis.from_s)
        return false;
    idle = mean(&sums, sums.idle);
    for (size_t i = 0; i < samples->nseries; i++)
        add_series(&sums, &samples->series[i]);
    machine = samples_machine(samples, sums.idle->source);
    *ret = (struct cpu_use){.cpus = machine ? machine->cpus : 0};
    if (ret->cpus <= 0)
        ret->cpus = idle + sums.waiting + sums.user + sums.system + sums.steal;
    if (ret->cpus <= 0)
        return false;
    ret->busy = ret->cpus - idle - sums.waiting;
    others = sums.user + sums.system - sums.vcpus - sums.emulators - sums.client;
    add_row(ret, false, sums.vcpus, "guests' vCPUs", 0);
    add_roles(ret, &sums);
    add_tiles(ret, &sums);
    add_row(ret, false, sums.emulators, "the rest of their QEMUs, and vhost", 0);
    add_row(ret, false, sums.client, "the load client", 0);
    add_row(ret, false, others > 0 ? others : 0, "all other processes", 0);
    if (sums.steal >= 0.005) /* else it shows as none */
        add_row(ret, false, sums.steal, "taken by the machine below", 0);
    return true;
}

void cpu_use_write_text(const struct cpu_use *use, struct vt_buf *out)
{
    vt_buf_printf(out, "busy     %.0f %% of the host's %.0f CPUs while it was measured; by whom:\n",
                  100 * use->busy / use->cpus, use->cpus);
    for (unsigned i = 0; i < use->nrows; i++) {
        const struct cpu_use_row *row = &use->rows[i];

        vt_buf_printf(out, "  %s%6.2f  ", row->part ? "      " : "", row->cpus);
        result_print_text(out, row->label); /* roles of a record */
        vt_buf_adds(out, "\n");
    }
}
