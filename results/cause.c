/* SPDX-License-Identifier: Apache-2.0 */
#include "results/cause.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"

#define HOST "host."
#define MIB 1048576.0

const char *cause_code_name(enum cause_code code)
{
    static const char *const names[] = {"oom-kill",       "memory", "memory-pressure", "silent",
                                        "generator-late", "cpu",    "host-cpu"};

    return names[code];
}

struct search {
    const struct samples *samples;
    struct causes *causes;
    int64_t window_s;
};

/* Where a line was beyond, within the measure window. */
struct stretch {
    int64_t first_s, seconds;
    double worst;
};

static bool is_host(const char *source)
{
    return !strncmp(source, HOST, strlen(HOST));
}

static void add(struct search *search, enum cause_code code, const struct samples_series *series,
                const struct stretch *stretch, const char *text)
{
    struct cause *cause;

    if (search->causes->n == CAUSE_MAX) {
        search->causes->more++;
        return;
    }
    cause = &search->causes->all[search->causes->n++];
    *cause = (struct cause){.code = code,
                            .tile = series->tile,
                            .first_s = stretch->first_s,
                            .seconds = stretch->seconds,
                            .worst = stretch->worst};
    vt_text_copy(cause->source, sizeof(cause->source), series->source);
    vt_text_copy(cause->text, sizeof(cause->text), text);
}

/* A bin of the window, by its first second. */
static bool in_window(const struct samples_axis *axis, size_t bin)
{
    int64_t second = (int64_t)bin * axis->bin_s;

    return second >= axis->from_s && second < axis->to_s;
}

/* below: values under the line are beyond it, else those over it. */
static bool measure(const struct search *search, const struct samples_series *series, double line,
                    bool below, struct stretch *ret)
{
    const struct samples_axis *axis = &search->samples->axis;
    struct stretch stretch = {.first_s = -1};

    for (size_t i = 0; i < axis->bins; i++) {
        double value = (double)series->values[i];
        if (!in_window(axis, i) || isnan(value) || (below ? value >= line : value <= line))
            continue;
        if (stretch.first_s < 0 || (below ? value < stretch.worst : value > stretch.worst))
            stretch.worst = value;
        if (stretch.first_s < 0)
            stretch.first_s = (int64_t)i * axis->bin_s;
        stretch.seconds += axis->bin_s;
    }
    *ret = stretch;
    return stretch.first_s >= 0;
}

static bool lasted(const struct search *search, const struct stretch *stretch)
{
    return stretch->seconds >= CAUSE_SECONDS_MIN &&
           (double)stretch->seconds >= CAUSE_WINDOW_SHARE * (double)search->window_s;
}

/* --- rules: each looks at one line --- */

static void rule_memory(struct search *search, const struct samples_series *series)
{
    const struct samples_machine *machine = samples_machine(search->samples, series->source);
    struct stretch stretch;
    char text[240];

    if (!machine || machine->memory_bytes <= 0 ||
        !measure(search, series, CAUSE_MEMORY_SHARE * machine->memory_bytes, true, &stretch))
        return;
    snprintf(text, sizeof(text),
             "memory of %s: only %.1f of %.0f MiB (%.1f %%) were available at its worst; less than"
             " %.0f %% for %" PRId64 " s",
             series->source, stretch.worst / MIB, machine->memory_bytes / MIB,
             100 * stretch.worst / machine->memory_bytes, 100 * CAUSE_MEMORY_SHARE,
             stretch.seconds);
    add(search, CAUSE_MEMORY, series, &stretch, text);
}

static void rule_pressure(struct search *search, const struct samples_series *series)
{
    struct stretch stretch;
    char text[240];

    if (!measure(search, series, CAUSE_PRESSURE_SHARE, false, &stretch) ||
        !lasted(search, &stretch))
        return;
    snprintf(text, sizeof(text),
             "memory of %s: tasks waited for memory for more than %.0f %% of the time during"
             " %" PRId64 " s, up to %.0f %%",
             series->source, 100 * CAUSE_PRESSURE_SHARE, stretch.seconds, 100 * stretch.worst);
    add(search, CAUSE_MEMORY_PRESSURE, series, &stretch, text);
}

/* A counter: what it had when the window began is not of this window. */
static void rule_oom(struct search *search, const struct samples_series *series)
{
    const struct samples_axis *axis = &search->samples->axis;
    double before = 0, last = 0;
    struct stretch stretch = {.first_s = -1};
    char text[240];

    for (size_t i = 0; i < axis->bins; i++) {
        double value = (double)series->values[i];
        if (isnan(value))
            continue;
        if (!in_window(axis, i)) {
            if ((int64_t)i * axis->bin_s < axis->from_s)
                before = last = value;
            continue;
        }
        if (value > last && stretch.first_s < 0)
            stretch.first_s = (int64_t)i * axis->bin_s;
        if (value > last)
            stretch.seconds += axis->bin_s;
        if (value > last)
            last = value;
    }
    if (stretch.first_s < 0)
        return;
    stretch.worst = last - before;
    snprintf(text, sizeof(text),
             "memory of %s: its kernel ran out of memory and killed %.0f process%s", series->source,
             stretch.worst, stretch.worst > 1 ? "es" : "");
    add(search, CAUSE_OOM_KILL, series, &stretch, text);
}

/* CPUs that wait for disks are idle too: the two lines stand bin beside bin. */
static void rule_cpu(struct search *search, const struct samples_series *idle)
{
    const struct samples_machine *machine = samples_machine(search->samples, idle->source);
    const struct samples_axis *axis = &search->samples->axis;
    const struct samples_series *wait =
        samples_find(search->samples, idle->source, idle->tile, "cpu.iowait");
    double cpus = machine && machine->cpus > 0 ? machine->cpus : 1, rest;
    struct stretch stretch = {.first_s = -1, .worst = cpus};
    char text[240];

    for (size_t i = 0; i < axis->bins; i++) {
        if (!in_window(axis, i) || isnan(idle->values[i]))
            continue;
        rest = (double)idle->values[i];
        if (wait && !isnan(wait->values[i]))
            rest += (double)wait->values[i];
        if (rest >= CAUSE_IDLE_SHARE * cpus)
            continue;
        if (stretch.first_s < 0)
            stretch.first_s = (int64_t)i * axis->bin_s;
        if (rest < stretch.worst)
            stretch.worst = rest;
        stretch.seconds += axis->bin_s;
    }
    if (stretch.first_s < 0 || !lasted(search, &stretch))
        return;
    stretch.worst /= cpus;
    snprintf(text, sizeof(text),
             "CPU of %s: its %.0f CPU%s had less than %.0f %% left for %" PRId64 " of %" PRId64
             " s",
             is_host(idle->source) ? "the host" : idle->source, cpus, cpus > 1 ? "s" : "",
             100 * CAUSE_IDLE_SHARE, stretch.seconds, search->window_s);
    add(search, is_host(idle->source) ? CAUSE_HOST_CPU : CAUSE_CPU, idle, &stretch, text);
}

/* A guest that is stopped, gone or starved says nothing. Its longest silence in the window. */
static void rule_silent(struct search *search, const struct samples_series *series)
{
    const struct samples_axis *axis = &search->samples->axis;
    struct stretch stretch = {.first_s = -1};
    int64_t since = -1, length;
    char text[240];

    for (size_t i = 0; i < axis->bins; i++) {
        if (!in_window(axis, i) || !isnan(series->values[i])) {
            since = -1;
            continue;
        }
        if (since < 0)
            since = (int64_t)i * axis->bin_s;
        length = ((int64_t)i + 1) * axis->bin_s - since;
        if (length > stretch.seconds) {
            stretch.seconds = length;
            stretch.first_s = since;
        }
    }
    /* Where bins are long, a whole one without a sample is a long silence too. */
    if (stretch.seconds < CAUSE_SILENT_S)
        return;
    stretch.worst = (double)stretch.seconds;
    snprintf(text, sizeof(text),
             "%s was silent: not one sample came from it for %" PRId64 " s (stopped, gone, or"
             " without CPU)",
             series->source, stretch.seconds);
    add(search, CAUSE_SILENT, series, &stretch, text);
}

static const struct {
    const char *pattern;
    void (*look)(struct search *search, const struct samples_series *series);
} rules[] = {
    {"mem.available_bytes", rule_memory}, {"mem.available_bytes", rule_silent},
    {"mem.pressure", rule_pressure},      {"psi.memory.some", rule_pressure},
    {"mem.oom_kills", rule_oom},          {"cpu.idle", rule_cpu},
};

/* The verdict has judged the generator's own lag, against the limit in the record. */
static void look_at_generator(struct search *search, const struct verdict *verdict)
{
    static const struct samples_series none = {.tile = 0};
    const struct stretch stretch = {.first_s = -1};
    char text[240];

    for (size_t i = 0; i < verdict->nreasons; i++) {
        if (strcmp(verdict->reasons[i].code, "generator-late") != 0)
            continue;
        snprintf(text, sizeof(text), "the load generator: %s", verdict->reasons[i].text);
        add(search, CAUSE_GENERATOR, &none, &stretch, text);
        return;
    }
}

/* --- order --- */

/* A fault in the guests' memory is the guests' own. */
struct ranked {
    struct cause cause;
    int group;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    int order = x->group - y->group;

    if (order == 0)
        order = (int)x->cause.code - (int)y->cause.code;
    if (order == 0)
        order = (x->cause.first_s > y->cause.first_s) - (x->cause.first_s < y->cause.first_s);
    if (order == 0)
        order = (int)x->cause.tile - (int)y->cause.tile;
    return order ? order : strcmp(x->cause.source, y->cause.source);
}

static bool broke_first(const struct breaches *breaches, unsigned tile)
{
    for (size_t i = 0; i < breaches->first; i++) {
        if (breaches->all[i].line.tile == tile)
            return true;
    }
    return false;
}

static int sort(struct causes *causes, const struct breaches *breaches, struct vt_error *err)
{
    VT_AUTO_FREE struct ranked *ranked = calloc(CAUSE_MAX, sizeof(*ranked));

    if (!ranked)
        return vt_error_no_memory(err, "find causes");
    for (size_t i = 0; i < causes->n; i++) {
        ranked[i].cause = causes->all[i];
        ranked[i].group = 2;
        if (causes->all[i].tile == 0)
            ranked[i].group = 1;
        if (broke_first(breaches, causes->all[i].tile))
            ranked[i].group = 0;
    }
    qsort(ranked, causes->n, sizeof(*ranked), compare);
    for (size_t i = 0; i < causes->n; i++)
        causes->all[i] = ranked[i].cause;
    return 0;
}

int cause_find(const struct samples *samples, const struct verdict *verdict,
               const struct breaches *breaches, struct causes *ret, struct vt_error *err)
{
    const struct samples_axis *axis = &samples->axis;
    struct search search = {samples, ret, axis->to_s - axis->from_s};

    ret->all = calloc(CAUSE_MAX, sizeof(*ret->all));
    if (!ret->all)
        return vt_error_no_memory(err, "find causes");
    look_at_generator(&search, verdict);
    for (size_t i = 0; search.window_s > 0 && i < samples->nseries; i++) {
        const struct samples_series *series = &samples->series[i];
        /* Samples of a VM that its host took are of QEMU, not of the guest. */
        if (is_host(series->source) && series->tile != 0)
            continue;
        for (size_t k = 0; k < VT_COUNT(rules); k++) {
            if (samples_name_like(series->name, rules[k].pattern))
                rules[k].look(&search, series);
        }
    }
    return sort(ret, breaches, err);
}

void cause_dispose(struct causes *causes)
{
    free(causes->all);
    *causes = (struct causes){0};
}
