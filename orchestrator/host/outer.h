/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outer: a few system calls done in the mount namespace that this process came from, by a child,
 * since a process with threads cannot go back itself.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_OUTER_H
#define VTILE_ORCHESTRATOR_HOST_OUTER_H

#include "base/error.h"

/* Runs step(ctx) there; step may only make system calls (it runs between fork and _exit) and
 * returns 0 or a negative errno, which is returned. mnt_fd <= 0: here, without a child. */
int outer_run(int mnt_fd, int (*step)(void *ctx), void *ctx);

/* Namespaces are a thread's: one that is entered beside other threads would not hold for them.
 * 0, or -EINVAL where this process has more than one thread. */
int outer_check_alone(struct vt_error *err);

#endif
