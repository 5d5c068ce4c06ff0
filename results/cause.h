/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cause: what evidently stood in the way of a run, by rules over its samples in the measure window.
 * Each rule says what it saw and where it draws the line; a run without a cause has none that these
 * rules know. Pure.
 *
 * The lines are choices of this project, wide enough that a healthy run crosses none: memory below
 * a twentieth leaves a kernel nothing to cache files in; a tenth of all time in which some task
 * waited for memory, or a CPU that is idle less than a twentieth of the time, shows in every
 * response.
 */
#ifndef VTILE_RESULTS_CAUSE_H
#define VTILE_RESULTS_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"
#include "results/breach.h"
#include "results/samples.h"
#include "results/verdict.h"

#define CAUSE_MEMORY_SHARE 0.05   /* available of what there is: less is too little */
#define CAUSE_PRESSURE_SHARE 0.10 /* of a second in which some task waited for memory */
#define CAUSE_IDLE_SHARE 0.05     /* of its CPUs' time: less is saturated */
#define CAUSE_WINDOW_SHARE 0.10   /* of the window that CPU or pressure must be beyond these ... */
#define CAUSE_SECONDS_MIN 5       /* ... and so many seconds */
#define CAUSE_SILENT_S 5          /* without a sample, where one a second is due */
#define CAUSE_MAX 64              /* more are counted */

/* The strongest first. */
enum cause_code {
    CAUSE_OOM_KILL,
    CAUSE_MEMORY,
    CAUSE_MEMORY_PRESSURE,
    CAUSE_SILENT,
    CAUSE_GENERATOR,
    CAUSE_CPU,
    CAUSE_HOST_CPU,
};
const char *cause_code_name(enum cause_code code); /* "memory", "cpu", ... */

struct cause {
    enum cause_code code;
    unsigned tile;                   /* 0: the host, the client */
    char source[VT_RECORD_NAME_MAX]; /* "batch-1", "host.1"; "" for the generator */
    int64_t first_s;                 /* since T0; -1: not known */
    int64_t seconds;                 /* for so long, at least */
    double worst;                    /* bytes, share of a second, kills; as the rule's line is */
    char text[240];                  /* "memory of batch-1: ..." */
};
struct causes {
    struct cause *all; /* those of the tiles that broke first, then those of the host, then the
                          others; in each the strongest, then the earliest first */
    size_t n, more;
};

/* *ret zeroed. */
int cause_find(const struct samples *samples, const struct verdict *verdict,
               const struct breaches *breaches, struct causes *ret, struct vt_error *err);
void cause_dispose(struct causes *causes);

#endif
