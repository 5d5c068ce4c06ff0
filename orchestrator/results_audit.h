/* SPDX-License-Identifier: Apache-2.0 */
/* results_audit: `vtile results audit`. */
#ifndef VTILE_ORCHESTRATOR_RESULTS_AUDIT_H
#define VTILE_ORCHESTRATOR_RESULTS_AUDIT_H

#include <stdbool.h>

#include "base/error.h"
#include "orchestrator/results_archive.h"

/* Prints each rule and what it saw. Returns the exit code: 0 when none failed, else 3. */
int results_audit(const char *name, const struct results_access *access, bool json,
                  struct vt_error *err);

#endif
