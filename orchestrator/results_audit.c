/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/results_audit.h"
int results_audit(const char *name, const struct results_access *access, bool json,
                  struct vt_error *err)
{
    (void)name;
    (void)access;
    (void)json;
    return vt_error_set(err, VT_KIND_USAGE, -1, "not yet");
}
