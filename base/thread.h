/* SPDX-License-Identifier: Apache-2.0 */
/* thread: how every thread beside the loop's begins. */
#ifndef VT_BASE_THREAD_H
#define VT_BASE_THREAD_H

#include <pthread.h>

/* Without signals, for it and what it starts: they are the loop's business. 0 or a positive errno.
 */
int vt_thread_start(pthread_t *ret, void *(*run)(void *ctx), void *ctx);

#endif
