/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch: tells when one of the servers that a role started has ended. By descriptors of the
 * processes (pidfd), so that children of others in this process are left alone.
 */
#ifndef VTILE_AGENTS_WATCH_H
#define VTILE_AGENTS_WATCH_H

#include "base/loop.h"
#include "tiles/roles/role.h"

struct watch {
    /* the owner fills */
    struct vt_loop *loop;
    /* text: "nginx (pid 71) was killed by signal 9" */
    void (*died)(void *ctx, const char *text);
    void *ctx;
    /* private */
    struct watched {
        struct watch *watch; /* NULL: this place is free */
        uv_poll_t poll;
        int fd;
        pid_t pid;
        char name[24];
    } children[ROLE_CHILDREN_MAX];
};

/* Watches the children of guest that are not watched yet. */
int watch_children(struct watch *watch, const struct role_guest *guest, struct vt_error *err);
/* Ends them in order (SIGTERM) and watches no more; the loop must run once more. */
void watch_stop(struct watch *watch);

#endif
