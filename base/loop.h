/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop: what libuv lacks for us. One loop a thread; nothing here is called from another thread
 * except where it says so.
 */
#ifndef VT_BASE_LOOP_H
#define VT_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

#define VT_LOOP_READ_BYTES 65536
#define VT_LOOP_PLAIN_BYTES 16384 /* what one TLS record can carry */

/* A loop with the one read buffer that all its streams share (libuv reads are synchronous to the
 * callback), and one for what TLS decrypts out of it. uv.data points to this struct. */
struct vt_loop {
    uv_loop_t uv;
    char read_buf[VT_LOOP_READ_BYTES];
    char plain_buf[VT_LOOP_PLAIN_BYTES];
};
/* Ignores SIGPIPE in the whole process, unless it has a handler. */
int vt_loop_init(struct vt_loop *loop, struct vt_error *err);
/* Closes every handle that is still open, runs until all are gone, frees. Owners of links, timers
 * and other objects close them first, so that their own callbacks and frees happen here at last. */
void vt_loop_dispose(struct vt_loop *loop);
static inline struct vt_loop *vt_loop_of(uv_handle_t *handle)
{
    return (struct vt_loop *)handle->loop->data;
}

/* Absolute timer on CLOCK_MONOTONIC with ns grain (timerfd in a poll handle): for pacing. For
 * deadlines of seconds uv_timer is fine. */
struct vt_timer {
    uv_poll_t poll;
    int fd;
    int64_t armed_ns; /* 0 = not armed */
    void (*fire)(struct vt_timer *timer, int64_t now_ns);
    void (*closed)(struct vt_timer *timer); /* private: of vt_timer_close */
    void *ctx;
};
int vt_timer_init(struct vt_timer *timer, struct vt_loop *loop,
                  void (*fire)(struct vt_timer *, int64_t), void *ctx, struct vt_error *err);
/* A time that has passed fires at once. */
int vt_timer_arm(struct vt_timer *timer, int64_t at_ns, struct vt_error *err);
void vt_timer_disarm(struct vt_timer *timer);
/* May be called twice. Memory may go only after closed() (may be NULL). */
void vt_timer_close(struct vt_timer *timer, void (*closed)(struct vt_timer *timer));

#endif
