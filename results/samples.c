/* SPDX-License-Identifier: Apache-2.0 */
#include "results/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"

/* What reports draw and causes are found in; docs/record.md has the names. A line of memory is to
 * show how little there was, one of a counter how far it came. */
static const struct {
    const char *pattern;
    enum samples_rule rule;
} wanted[] = {
    {"cpu.user", SAMPLES_MEAN},          {"cpu.system", SAMPLES_MEAN},
    {"cpu.idle", SAMPLES_MEAN},          {"cpu.iowait", SAMPLES_MEAN},
    {"cpu.steal", SAMPLES_MEAN},         {"mem.available_bytes", SAMPLES_MIN},
    {"mem.oom_kills", SAMPLES_MAX},      {"mem.pressure", SAMPLES_MEAN},
    {"mem.pressure_full", SAMPLES_MEAN}, {"disk.busy", SAMPLES_MEAN},
    {"psi.cpu.some", SAMPLES_MEAN},      {"psi.memory.some", SAMPLES_MEAN},
    {"psi.memory.full", SAMPLES_MEAN},   {"psi.io.some", SAMPLES_MEAN},
    {"net.rx_bytes_s", SAMPLES_MEAN},    {"net.tx_bytes_s", SAMPLES_MEAN},
    {"disk.read_bytes_s", SAMPLES_MEAN}, {"disk.write_bytes_s", SAMPLES_MEAN},
    {"swap.in_bytes_s", SAMPLES_MEAN},   {"swap.out_bytes_s", SAMPLES_MEAN},
    {"vcpu.#.cpu", SAMPLES_MEAN},        {"vcpu.#.run_delay", SAMPLES_MEAN},
    {"vcpu.all.cpu", SAMPLES_MEAN},      {"vcpu.all.run_delay", SAMPLES_MEAN},
    {"vhost.#.cpu", SAMPLES_MEAN},       {"vhost.#.run_delay", SAMPLES_MEAN},
    {"emulator.cpu", SAMPLES_MEAN},      {"emulator.run_delay", SAMPLES_MEAN},
    {"agent.cpu", SAMPLES_MEAN},         {"agent.run_delay", SAMPLES_MEAN},
};

bool samples_name_like(const char *name, const char *pattern)
{
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            size_t digits = strspn(name, "0123456789");
            if (digits == 0)
                return false;
            name += digits;
        } else if (*name++ != *pattern) {
            return false;
        }
    }
    return *name == '\0';
}

void samples_axis_cut(struct samples_axis *axis, size_t max)
{
    axis->bin_s = (axis->end_s + (int64_t)max - 1) / (int64_t)max;
    if (axis->bin_s < 1)
        axis->bin_s = 1;
    axis->bins = (size_t)((axis->end_s + axis->bin_s - 1) / axis->bin_s);
}

int64_t samples_axis_bin(const struct samples_axis *axis, int64_t time_ns)
{
    int64_t since, second;

    if (axis->bins == 0 || time_ns < axis->t0_ns ||
        __builtin_sub_overflow(time_ns, axis->t0_ns, &since))
        return -1;
    second = since / VT_NS_PER_S;
    return second < axis->end_s ? second / axis->bin_s : -1;
}

/* --- finding again what was seen --- */

/* Of the numbers of lines or machines, by their names: a record may have a million series and as
 * many keys. Quarter full at most, so honest names stand within a few places of where they belong;
 * one that does not counts as one too many. */
#define PLACES (4 * SAMPLES_SERIES_MAX)
#define PLACES_LOOKED_AT 64
struct places {
    uint16_t at[PLACES]; /* number + 1; 0: free */
};
_Static_assert(SAMPLES_SERIES_MAX < UINT16_MAX, "a place holds every number");

/* FNV-1a, of one text after the other. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash * UINT64_C(0x100000001b3);
}
#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Its place, or the free one for it; NULL: neither near where it belongs. */
static uint16_t *find_place(struct places *places, uint64_t hash,
                            bool (*is)(const void *ctx, size_t number), const void *ctx)
{
    for (unsigned i = 0; i < PLACES_LOOKED_AT; i++) {
        uint16_t *at = &places->at[(hash + (hash >> 32) + i) % PLACES];

        if (*at == 0 || is(ctx, *at - 1U))
            return at;
    }
    return NULL;
}

/* --- machines --- */

struct meta_walk {
    struct samples *samples;
    struct places *places;
    const char *source; /* being looked for */
};

/* The source whose fact it is, in "config.<source>.<fact>"; false: another key. */
static bool key_of(const char *key, const char *fact, char source[VT_RECORD_NAME_MAX])
{
    static const char head[] = RECORD_META_CONFIG;
    size_t len = strlen(key), tail = strlen(fact);

    if (strncmp(key, head, strlen(head)) != 0 || len <= strlen(head) + tail ||
        strcmp(key + len - tail, fact) != 0)
        return false;
    len -= strlen(head) + tail;
    if (len >= VT_RECORD_NAME_MAX)
        return false;
    memcpy(source, key + strlen(head), len);
    source[len] = '\0';
    return true;
}

static bool is_machine(const void *ctx, size_t number)
{
    const struct meta_walk *walk = ctx;

    return !strcmp(walk->samples->machines[number].source, walk->source);
}

static struct samples_machine *machine_of(struct meta_walk *walk, const char *source)
{
    struct samples *samples = walk->samples;
    struct samples_machine *grown;
    uint16_t *place;

    walk->source = source;
    place = find_place(walk->places, hash_text(HASH_START, source), is_machine, walk);
    if (place && *place)
        return &samples->machines[*place - 1];
    if (!place || samples->nmachines == SAMPLES_SERIES_MAX)
        return NULL;
    grown = realloc(samples->machines, (samples->nmachines + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    samples->machines = grown;
    grown += samples->nmachines++;
    *place = (uint16_t)samples->nmachines;
    *grown = (struct samples_machine){0};
    vt_text_copy(grown->source, sizeof(grown->source), source);
    return grown;
}

/* "112708 kB" of /proc/meminfo, "2". What is no number counts as unknown. */
static double number_of(const char *value)
{
    char *end;
    double number = strtod(value, &end);

    if (end == value || !isfinite(number) || number < 0)
        return 0;
    return !strcmp(end, " kB") ? number * 1024 : number;
}

static int on_meta(void *ctx, const char *key, const char *value)
{
    struct meta_walk *walk = ctx;
    char source[VT_RECORD_NAME_MAX];
    bool memory = key_of(key, ".memory", source);
    struct samples_machine *machine;

    if (!memory && !key_of(key, ".cpus", source))
        return 0;
    machine = machine_of(walk, source);
    if (machine && memory)
        machine->memory_bytes = number_of(value);
    else if (machine)
        machine->cpus = number_of(value);
    return 0;
}

const struct samples_machine *samples_machine(const struct samples *samples, const char *source)
{
    for (size_t i = 0; i < samples->nmachines; i++) {
        if (!strcmp(samples->machines[i].source, source))
            return &samples->machines[i];
    }
    return NULL;
}

/* --- series --- */

#define UNKNOWN (-2)
#define UNWANTED (-1)

struct walk {
    struct samples *samples;
    int *lines; /* of a series of the record: index of its line, or one of the above */
    size_t nlines;
    struct places *places;
    const struct record_sample *sample; /* whose line is being looked for */
    struct vt_error *err;
};

static bool is_line(const void *ctx, size_t number)
{
    const struct walk *walk = ctx;
    const struct record_sample *sample = walk->sample;
    const struct samples_series *series = &walk->samples->series[number];

    return series->tile == sample->tile && !strcmp(series->name, sample->name) &&
           !strcmp(series->source, sample->source ? sample->source : "") &&
           !strcmp(series->role, sample->role ? sample->role : "");
}

static int start_line(struct walk *walk, const struct record_sample *sample, enum samples_rule rule,
                      int *ret)
{
    struct samples *samples = walk->samples;
    size_t bins = samples->axis.bins;
    struct samples_series *series;

    if (samples->nseries == samples->cap) {
        size_t cap = samples->cap ? 2 * samples->cap : 64;
        series = realloc(samples->series, cap * sizeof(*series));
        if (!series)
            return vt_error_no_memory(walk->err, "read samples");
        samples->series = series;
        samples->cap = cap;
    }
    series = &samples->series[samples->nseries];
    *series = (struct samples_series){.tile = sample->tile, .rule = rule};
    series->values = malloc(bins * sizeof(*series->values));
    series->counts = calloc(bins, sizeof(*series->counts));
    if (!series->values || !series->counts) {
        free(series->values);
        free(series->counts);
        return vt_error_no_memory(walk->err, "read samples");
    }
    for (size_t i = 0; i < bins; i++)
        series->values[i] = NAN;
    vt_text_copy(series->name, sizeof(series->name), sample->name);
    vt_text_copy(series->source, sizeof(series->source), sample->source ? sample->source : "");
    vt_text_copy(series->role, sizeof(series->role), sample->role ? sample->role : "");
    *ret = (int)samples->nseries++;
    return 0;
}

static uint64_t hash_line(const struct record_sample *sample)
{
    uint64_t hash = hash_text(HASH_START + sample->tile, sample->name);

    hash = hash_text(hash, sample->source ? sample->source : "");
    return hash_text(hash, sample->role ? sample->role : "");
}

static int find_line(struct walk *walk, const struct record_sample *sample, int *ret)
{
    struct samples *samples = walk->samples;
    size_t rule = 0;
    uint16_t *place;
    int r;

    *ret = UNWANTED;
    while (rule < VT_COUNT(wanted) && !samples_name_like(sample->name, wanted[rule].pattern))
        rule++;
    if (rule == VT_COUNT(wanted) || strlen(sample->name) >= SAMPLES_NAME_MAX ||
        (sample->source && strlen(sample->source) >= VT_RECORD_NAME_MAX) ||
        (sample->role && strlen(sample->role) >= VT_RECORD_NAME_MAX))
        return 0;
    walk->sample = sample;
    place = find_place(walk->places, hash_line(sample), is_line, walk);
    if (place && *place) {
        *ret = *place - 1;
        return 0;
    }
    if (!place || samples->nseries == SAMPLES_SERIES_MAX) {
        samples->more++;
        return 0;
    }
    r = start_line(walk, sample, wanted[rule].rule, ret);
    if (r == 0)
        *place = (uint16_t)samples->nseries;
    return r;
}

static void put(struct samples_series *series, size_t bin, float value)
{
    float *at = &series->values[bin];
    uint32_t n = ++series->counts[bin];
    bool beyond = series->rule == SAMPLES_MIN ? value < *at : value > *at;

    if (n > 1 && series->rule == SAMPLES_MEAN)
        *at += (value - *at) / (float)n;
    else if (n == 1 || beyond)
        *at = value;
}

static int on_sample(void *ctx, size_t number, const struct record_sample *sample)
{
    struct walk *walk = ctx;
    struct samples_series *series;
    int64_t bin;
    int r = 0;

    if (number >= walk->nlines) {
        size_t n = 2 * number + 64;
        int *grown = realloc(walk->lines, n * sizeof(*grown));
        if (!grown)
            return vt_error_no_memory(walk->err, "read samples");
        for (size_t i = walk->nlines; i < n; i++)
            grown[i] = UNKNOWN;
        walk->lines = grown;
        walk->nlines = n;
    }
    if (walk->lines[number] == UNKNOWN)
        r = find_line(walk, sample, &walk->lines[number]);
    if (r < 0 || walk->lines[number] == UNWANTED)
        return r;
    series = &walk->samples->series[walk->lines[number]];
    bin = samples_axis_bin(&walk->samples->axis, sample->time_ns);
    if (!isfinite(sample->value) || fabs(sample->value) > 1e30)
        vt_text_copy(series->why, sizeof(series->why), sample->why ? sample->why : "");
    else if (bin >= 0)
        put(series, (size_t)bin, (float)sample->value);
    return 0;
}

int samples_read(struct samples *samples, struct record_reader *reader, struct vt_error *err)
{
    VT_AUTO_FREE struct places *places = calloc(1, sizeof(*places));
    struct meta_walk meta = {.samples = samples, .places = places};
    struct walk walk = {.samples = samples, .places = places, .err = err};
    int r = places ? record_walk_meta(reader, on_meta, &meta, err)
                   : vt_error_no_memory(err, "read samples");

    if (r == 0 && samples->axis.bins > 0) {
        memset(places, 0, sizeof(*places));
        r = record_walk_samples(reader, on_sample, &walk, err);
    }
    free(walk.lines);
    return r;
}

void samples_dispose(struct samples *samples)
{
    for (size_t i = 0; i < samples->nseries; i++) {
        free(samples->series[i].values);
        free(samples->series[i].counts);
    }
    free(samples->series);
    free(samples->machines);
    *samples = (struct samples){0};
}

const struct samples_series *samples_find(const struct samples *samples, const char *source,
                                          unsigned tile, const char *name)
{
    for (size_t i = 0; i < samples->nseries; i++) {
        const struct samples_series *series = &samples->series[i];
        if (series->tile == tile && !strcmp(series->name, name) && !strcmp(series->source, source))
            return series;
    }
    return NULL;
}
