/* SPDX-License-Identifier: Apache-2.0 */
/* results_audit: `vtile results audit`. */
#ifndef VTILE_ORCHESTRATOR_RESULTS_AUDIT_H
#define VTILE_ORCHESTRATOR_RESULTS_AUDIT_H

#include <stdbool.h>

#include "base/error.h"
#include "orchestrator/results_archive.h"
#include "results/audit.h"

/* The largest figures of a published tile of six VMs (tile 1 of a record at 26 tiles), taken as
 * operations a second that the load offers. */
#define RESULTS_PUBLISHED 3
extern const struct audit_divisor results_published[RESULTS_PUBLISHED];

/* Prints each rule and what it saw. Returns the exit code: 0 when none failed, else 3. */
int results_audit(const char *name, const struct results_access *access, bool json,
                  struct vt_error *err);

#endif
