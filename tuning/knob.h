/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning: what can be set on a host, by which profile, and how it is taken back.
 *
 * knob: one thing that can be set. A table of operations; everything it may touch is listed, so
 * that a host's agent can be confined to it. Stages: HOST before deployment, DOMAIN shapes the
 * definition of a VM (pure: no undo), LIVE after deployment (an object that has vanished counts as
 * undone). The transaction calls plan for all, journals intents as one batch, then apply and
 * verify in order; any failure undoes what was applied, in reverse, where it still holds our value.
 */
#ifndef VTILE_TUNING_KNOB_H
#define VTILE_TUNING_KNOB_H

#include <stddef.h>

#include "base/domain.h"
#include "base/error.h"

enum knob_stage { KNOB_HOST, KNOB_DOMAIN, KNOB_LIVE };

struct knob_change {
    char object[1024]; /* file or attribute under the root: "proc/sys/kernel/numa_balancing" */
    char current[256], wanted[256];
    char reason[160]; /* for people */
};
struct knob_plan {
    struct knob_change *changes;
    size_t nchanges, max;
};
struct knob_host {
    const char *root; /* "" in life; a tree with proc/ and sys/ in tests */
};

struct knob {
    const char *name, *help;
    unsigned stages;            /* bit per enum knob_stage */
    const char *const *touches; /* globs of the files it may write, NULL-terminated */
    int (*plan)(const struct knob *knob, const struct knob_host *host, enum knob_stage stage,
                struct knob_plan *plan, struct vt_error *err);
    int (*shape)(const struct knob *knob, struct vt_domain *domain, struct vt_error *err);
    int (*read)(const struct knob_host *host, const char *object, char *value, size_t size,
                struct vt_error *err);
    int (*apply)(const struct knob_host *host, const struct knob_change *change,
                 struct vt_error *err);
    /* 0 when in force; -ESTALE with what stands there instead. */
    int (*verify)(const struct knob_host *host, const struct knob_change *change,
                  struct vt_error *err);
    int (*undo)(const struct knob_host *host, const struct knob_change *change,
                struct vt_error *err);
};

#endif
