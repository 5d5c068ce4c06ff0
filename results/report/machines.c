/* SPDX-License-Identifier: Apache-2.0 */
/* machines: what guests, hosts and the load client were doing, as small charts, a machine a row. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "results/cpu_use.h"
#include "results/report/html.h"
#include "results/report/parts.h"

#define MACHINES_MAX 64 /* of one tile, or of the whole run beside tiles */
#define GUEST_JOIN_S 2  /* a guest's second may fall between two bins */

static const struct panel {
    const char *title;
    enum svg_unit unit;
    const char *patterns[SVG_LINES_MAX];
} panels[] = {
    {"CPU: seconds a second",
     SVG_CPUS,
     {"cpu.user", "cpu.system", "cpu.iowait", "cpu.steal", "vcpu.#.cpu", "vcpu.all.cpu",
      "emulator.cpu"}},
    {"memory available", SVG_BYTES, {"mem.available_bytes"}},
    {"waiting (pressure), share of time",
     SVG_SHARE,
     {"psi.cpu.some", "psi.memory.some", "psi.memory.full", "psi.io.some", "mem.pressure",
      "mem.pressure_full", "disk.busy"}},
    {"processes killed for want of memory", SVG_CPUS, {"mem.oom_kills"}},
    {"network", SVG_BYTES_PER_SECOND, {"net.rx_bytes_s", "net.tx_bytes_s"}},
    {"disk", SVG_BYTES_PER_SECOND, {"disk.read_bytes_s", "disk.write_bytes_s"}},
    {"swap", SVG_BYTES_PER_SECOND, {"swap.in_bytes_s", "swap.out_bytes_s"}},
    {"ready to run, without a CPU: share of time",
     SVG_SHARE,
     {"vcpu.#.run_delay", "vcpu.all.run_delay", "emulator.run_delay", "vhost.#.run_delay"}},
    {"vtile's own agent: CPU, and ready without one", SVG_SHARE, {"agent.cpu", "agent.run_delay"}},
};

struct machine {
    unsigned tile;
    const char *source, *role; /* role "": the machine itself */
};

static bool belongs(const struct panel *panel, const char *name)
{
    for (size_t i = 0; i < SVG_LINES_MAX && panel->patterns[i]; i++) {
        if (samples_name_like(name, panel->patterns[i]))
            return true;
    }
    return false;
}

static bool is_of(const struct samples_series *series, const struct machine *machine)
{
    return series->tile == machine->tile && !strcmp(series->source, machine->source) &&
           !strcmp(series->role, machine->role);
}

static double greatest(const struct samples_series *series, size_t bins, bool *ret_any)
{
    double most = 0;

    for (size_t i = 0; i < bins; i++) {
        if (isnan(series->values[i]))
            continue;
        *ret_any = true;
        if ((double)series->values[i] > most)
            most = (double)series->values[i];
    }
    return most;
}

/* The known top of a scale makes charts of like machines alike. */
static double top_of(const struct report *report, const struct panel *panel,
                     const struct machine *machine, double most)
{
    const struct samples_machine *known = samples_machine(&report->samples, machine->source);
    double top = 0;

    if (panel->unit == SVG_SHARE)
        top = 1;
    if (known && panel->unit == SVG_BYTES)
        top = known->memory_bytes;
    if (known && !strncmp(panel->title, "CPU", 3) && !*machine->role)
        top = known->cpus;
    return most > top ? most : top;
}

static size_t join_of(const struct samples_axis *axis)
{
    return axis->bin_s >= GUEST_JOIN_S ? 0 : (size_t)(GUEST_JOIN_S - axis->bin_s);
}

static void put_panel(const struct report *report, const struct machine *machine,
                      const struct panel *panel)
{
    const struct samples *samples = &report->samples;
    struct svg_chart chart = {.title = panel->title,
                              .axis = &samples->axis,
                              .unit = panel->unit,
                              .small = true,
                              .phases = report->phases,
                              .nphases = report->nphases};
    char note[HTML_CELL_MAX] = "";
    double most = 0;
    size_t more = 0;

    for (size_t i = 0; i < samples->nseries; i++) {
        const struct samples_series *series = &samples->series[i];
        bool any = false;
        double value;
        if (!is_of(series, machine) || !belongs(panel, series->name))
            continue;
        value = greatest(series, samples->axis.bins, &any);
        if (value > most)
            most = value;
        if (*series->why &&
            strlen(note) + sizeof(series->name) + sizeof(series->why) < sizeof(note))
            snprintf(note + strlen(note), sizeof(note) - strlen(note), "%s%s: %s",
                     *note ? "; " : "", series->name, series->why);
        if (any && chart.nlines == SVG_LINES_MAX)
            more++;
        if (!any || chart.nlines == SVG_LINES_MAX)
            continue;
        struct svg_line *line = &chart.lines[chart.nlines++];
        vt_text_copy(line->label, sizeof(line->label), series->name);
        line->values = series->values;
        line->join = join_of(&samples->axis);
    }
    if (more > 0 && strlen(note) + 40 < sizeof(note))
        snprintf(note + strlen(note), sizeof(note) - strlen(note), "%sand %zu more lines",
                 *note ? "; " : "", more);
    if (chart.nlines == 0 && !*note)
        return;
    chart.note = *note ? note : NULL;
    most = top_of(report, panel, machine, most);
    chart.scale = svg_linear(most, panel->unit);
    /* What there is in all is a better top than a round number above it. */
    if (panel->unit == SVG_BYTES && most > 0)
        chart.scale.max = most;
    if (chart.nlines > 0) {
        svg_chart_write(report->out, &chart);
        return;
    }
    vt_buf_adds(report->out, "<p class=\"note\">");
    html_text(report->out, note, HTML_CELL_MAX);
    vt_buf_adds(report->out, "</p>\n");
}

/* Machines in the order in which they reported; a VM and, next to it, its QEMU. */
static size_t list_machines(const struct report *report, unsigned tile,
                            struct machine machines[MACHINES_MAX])
{
    const struct samples *samples = &report->samples;
    size_t n = 0, k;

    for (size_t i = 0; i < samples->nseries; i++) {
        const struct samples_series *series = &samples->series[i];
        if (series->tile != tile)
            continue;
        for (k = 0; k < n && !is_of(series, &machines[k]); k++)
            ;
        if (k == n && n < MACHINES_MAX)
            machines[n++] = (struct machine){tile, series->source, series->role};
    }
    return n;
}

/* Whose CPU filled the host while it was measured. */
static void put_cpu_use(const struct report *report)
{
    struct vt_buf *out = report->out;
    struct cpu_use use;

    if (!cpu_use_find(&report->samples, &use))
        return;
    vt_buf_printf(out,
                  "<p>%.0f %% of its %.0f CPUs were busy while it was measured; by whom, in CPUs:"
                  "</p><table class=\"cpu-use\">\n",
                  100 * use.busy / use.cpus, use.cpus);
    for (unsigned i = 0; i < use.nrows; i++) {
        vt_buf_printf(out, "<tr><td>%s", use.rows[i].part ? "&emsp;" : "");
        html_text(out, use.rows[i].label, HTML_CELL_MAX);
        vt_buf_printf(out, "</td><td class=\"n\">%.2f</td></tr>\n", use.rows[i].cpus);
    }
    vt_buf_adds(out, "</table>\n");
}

static void put_machine(const struct report *report, const struct machine *machine)
{
    struct vt_buf *out = report->out;
    const struct samples_machine *known = samples_machine(&report->samples, machine->source);
    bool host = !strncmp(machine->source, "host.", 5);

    vt_buf_adds(out, "<h3>");
    html_text(out, machine->source, HTML_CELL_MAX);
    if (machine->tile > 0 && host) {
        vt_buf_adds(out, ": QEMU of ");
        html_text(out, machine->role, HTML_CELL_MAX);
    } else if (known && known->cpus > 0) {
        vt_buf_printf(out, " <small>%.0f CPU%s, ", known->cpus, known->cpus > 1 ? "s" : "");
        html_bytes(out, known->memory_bytes);
        vt_buf_adds(out, "</small>");
    }
    vt_buf_adds(out, "</h3>");
    if (host && machine->tile == 0)
        put_cpu_use(report);
    vt_buf_adds(out, "<div class=\"panels\">\n");
    for (size_t i = 0; i < VT_COUNT(panels); i++)
        put_panel(report, machine, &panels[i]);
    vt_buf_adds(out, "</div>\n");
}

void report_machines(const struct report *report, unsigned tile)
{
    struct machine machines[MACHINES_MAX];
    size_t n = list_machines(report, tile, machines);

    if (n == 0) {
        vt_buf_adds(report->out, "<p class=\"note\">No samples stand in this record.</p>\n");
        return;
    }
    for (size_t i = 0; i < n; i++)
        put_machine(report, &machines[i]);
    if (tile == 0 && report->samples.more > 0)
        vt_buf_printf(report->out, "<p class=\"note\">%zu more series are not drawn.</p>\n",
                      report->samples.more);
}
