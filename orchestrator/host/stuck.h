/* SPDX-License-Identifier: Apache-2.0 */
/* stuck: what a thread that gives no answer waits for, for the error that says so. */
#ifndef VTILE_ORCHESTRATOR_HOST_STUCK_H
#define VTILE_ORCHESTRATOR_HOST_STUCK_H

#include <stddef.h>
#include <sys/types.h>

#define STUCK_TEXT_MAX 400

/* "in virConnectOpen, waiting in do_sys_poll; its processes: 4711 qemu-system-x86 (S, ep_poll)":
 * of a thread of this process and the call into libvirt that it is in ("" between calls). Processes
 * are this one's children and the emulators that name the folder root (NULL: none), at most four.
 * What the kernel does not tell is left out. */
void stuck_describe(const char *call, pid_t thread, const char *root, char *ret, size_t size);

#endif
