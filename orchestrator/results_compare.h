/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results_compare: what was sealed held against what the record gives now. By the same rules
 * (RESULT_RULES) every value that was sealed must come out again; new keys may stand beside them.
 * By other rules verdict, QoS and score may differ, which is told and no error; which run that was
 * may not.
 */
#ifndef VTILE_ORCHESTRATOR_RESULTS_COMPARE_H
#define VTILE_ORCHESTRATOR_RESULTS_COMPARE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/text.h"
#include "results/result.h"

/* manifest: of the archive. told: gets, where other rules give something else, what was sealed and
 * which reasons are new or gone; as lines, or as one line of JSON. */
int results_compare(const struct vt_buf *manifest, const struct result *result, bool json,
                    struct vt_buf *told, struct vt_error *err);

#endif
