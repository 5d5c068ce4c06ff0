/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vir_loop: libvirt's event loop on our libuv loop. libvirt adds, updates and removes watches and
 * timers from any thread; only the loop's thread touches libuv. Callbacks run on the loop's
 * thread without a lock held; free callbacks run later from a clean stack, as libvirt asks for.
 * Source of the contract: libvirt-event.h, virEventRegisterImpl.
 *
 * Order of calls: vir_loop_init (once a process: libvirt cannot unregister) -> any use of libvirt
 * -> all connections closed -> vir_loop_dispose. After dispose libvirt's calls are refused (-1).
 */
#ifndef VTILE_ORCHESTRATOR_HOST_VIR_LOOP_H
#define VTILE_ORCHESTRATOR_HOST_VIR_LOOP_H

#include "base/loop.h"

/* Registers with libvirt at the first call; later calls attach another loop to the same
 * registration (tests). -EBUSY while one is attached. */
int vir_loop_init(struct vt_loop *loop, struct vt_error *err);
/* On the loop's thread. Runs pending free callbacks and closes all handles; the loop must be run
 * or disposed afterwards. May be called twice. */
void vir_loop_dispose(void);

#endif
