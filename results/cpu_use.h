/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_use: whose CPU filled the host in the measure window, from the samples of a record: guests'
 * vCPUs by role and by tile, the rest of their QEMUs with vhost, the load client, and what is left
 * of the host's total for all other processes, this program among them. Pure.
 */
#ifndef VTILE_RESULTS_CPU_USE_H
#define VTILE_RESULTS_CPU_USE_H

#include <stdbool.h>

#include "base/text.h"
#include "results/samples.h"

/* [ours] A host that is busier is named beside a limit that is broken. */
#define CPU_USE_FULL 0.90
#define CPU_USE_ROLES_MAX 16
#define CPU_USE_TILES_SHOWN 4
#define CPU_USE_ROWS_MAX (CPU_USE_ROLES_MAX + CPU_USE_TILES_SHOWN + 5)

struct cpu_use_row {
    char label[64];
    bool part; /* of the nearest row above that is none */
    double cpus;
};
struct cpu_use {
    double cpus, busy; /* how many the host has, how many of them were neither idle nor waiting */
    struct cpu_use_row rows[CPU_USE_ROWS_MAX];
    unsigned nrows;
};

/* False: the record does not tell. */
bool cpu_use_find(const struct samples *samples, struct cpu_use *ret);
/* "busy     98 % of 2 CPUs ...", then a line a row. */
void cpu_use_write_text(const struct cpu_use *use, struct vt_buf *out);

#endif
