/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/server.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/proc.h"
#include "base/scope.h"

int server_start(struct role_guest *guest, const char *name, const char *const *argv,
                 struct vt_error *err)
{
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    unsigned slot = guest->nchildren;
    int ret;

    for (unsigned i = 0; i < guest->nchildren; i++) {
        if (strcmp(guest->children[i].name, name) != 0)
            continue;
        if (guest->children[i].pid > 0 && kill(guest->children[i].pid, 0) == 0)
            return 0;
        slot = i;
    }
    if (slot == ROLE_CHILDREN_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -ENOSPC, "start %s: too many servers", name);
    spec.argv = argv;
    spec.stdout_fd = spec.stderr_fd = VT_PROC_INHERIT;
    ret = vt_proc_spawn(&spec, &guest->children[slot].pid, err);
    if (ret < 0)
        return vt_error_wrap(err, "start %s", name);
    vt_text_copy(guest->children[slot].name, sizeof(guest->children[slot].name), name);
    if (slot == guest->nchildren)
        guest->nchildren++;
    return 0;
}
