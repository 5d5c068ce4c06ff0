/* SPDX-License-Identifier: Apache-2.0 */
/*
 * windows: when batch's jobs are due. The measure phase is cut into whole windows; all jobs of one
 * are due at its beginning and must be done by its end. Kinds take turns, compress first.
 */
#ifndef VTILE_TILES_ROLES_BATCH_WINDOWS_H
#define VTILE_TILES_ROLES_BATCH_WINDOWS_H

#include "tiles/roles/role.h"

enum batch_kind { BATCH_COMPRESS, BATCH_COMPILE, BATCH_KINDS };

struct windows {
    int64_t begin_ns, length_ns; /* since T0: of the first */
    uint32_t count, jobs;        /* windows; jobs of each */
    int64_t late_ns;             /* since T0: when workers after the first begin */
};

/* A window longer than the measure phase is as long as that. At least one job of each kind. */
void windows_make(const struct spec_jobs *jobs, const struct role_times *times,
                  struct windows *ret);
/* How many begin before that: also the number of the first that does not. */
uint32_t windows_begun(const struct windows *windows, int64_t at_ns);
enum batch_kind windows_kind(uint32_t job); /* 0.., within a window */
uint64_t windows_due(const struct spec_jobs *jobs, const struct role_times *times,
                     unsigned operation, int64_t from_ns, int64_t to_ns);

#endif
