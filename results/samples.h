/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples: what guests, hosts and clients reported each second, as lines over the time of the load:
 * one value a bin, so that a run of two hours takes no more than one of a minute. Pure, from the
 * record alone.
 */
#ifndef VTILE_RESULTS_SAMPLES_H
#define VTILE_RESULTS_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"
#include "results/record.h"

#define SAMPLES_BINS_MAX 600
#define SAMPLES_SERIES_MAX 8192 /* with 600 bins 20 MiB; more are counted, not kept */
#define SAMPLES_NAME_MAX 48

/* Seconds of the load since its T0, cut into bins of equal length. */
struct samples_axis {
    int64_t t0_ns; /* on the controller's clock, as samples and events have it */
    int64_t end_s; /* 0: no load */
    int64_t bin_s;
    size_t bins;          /* bin i is [i * bin_s, (i + 1) * bin_s) */
    int64_t from_s, to_s; /* the measure window; both 0: unknown */
};
/* The shortest whole bins so that there are at most max. */
void samples_axis_cut(struct samples_axis *axis, size_t max);
/* Bin of a moment; -1 before T0 or after the end. */
int64_t samples_axis_bin(const struct samples_axis *axis, int64_t time_ns);

enum samples_rule { SAMPLES_MEAN, SAMPLES_MIN, SAMPLES_MAX }; /* of the seconds in a bin */
struct samples_series {
    unsigned tile; /* 0: none */
    char source[VT_RECORD_NAME_MAX], role[VT_RECORD_NAME_MAX];
    char name[SAMPLES_NAME_MAX];
    enum samples_rule rule;
    float *values;    /* a bin; NaN: nothing was reported */
    uint32_t *counts; /* seconds in it */
    char why[120];    /* "not available, because ..."; "" */
};
/* What config.<source>.memory and .cpus say; 0 where they say nothing. */
struct samples_machine {
    char source[VT_RECORD_NAME_MAX];
    double memory_bytes, cpus;
};
struct samples {
    struct samples_axis axis;
    struct samples_series *series; /* by order of arrival */
    size_t nseries, cap;
    size_t more; /* series past SAMPLES_SERIES_MAX */
    struct samples_machine *machines;
    size_t nmachines;
};

/* samples zeroed but for axis, which has bins. */
int samples_read(struct samples *samples, struct record_reader *reader, struct vt_error *err);
void samples_dispose(struct samples *samples);

/* NULL: none. role "" and tile 0: the machine itself, not a VM on it. */
const struct samples_series *samples_find(const struct samples *samples, const char *source,
                                          unsigned tile, const char *name);
const struct samples_machine *samples_machine(const struct samples *samples, const char *source);

/* '#' stands for digits. */
bool samples_name_like(const char *name, const char *pattern);

#endif
