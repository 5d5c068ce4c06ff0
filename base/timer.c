/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"

static void clear_expiry(struct vt_timer *timer)
{
    uint64_t ticks;
    ssize_t n = read(timer->fd, &ticks, sizeof ticks);
    (void)n; /* EAGAIN: nothing had expired */
}

/* The descriptor stays readable until it is read or set anew. A callback that arms the timer again
 * saves the read: one system call fewer for each wake. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct vt_timer *timer = poll->data;
    (void)status;
    (void)events;
    int64_t now_ns = vt_clock_now_ns();
    if (timer->armed_ns == 0) {
        clear_expiry(timer);
        return;
    }
    /* Armed for later by another callback of the same loop turn. */
    if (now_ns < timer->armed_ns)
        return;
    timer->armed_ns = 0;
    timer->fire(timer, now_ns);
    if (timer->armed_ns == 0 && !uv_is_closing((uv_handle_t *)poll))
        clear_expiry(timer);
}

int vt_timer_init(struct vt_timer *timer, struct vt_loop *loop,
                  void (*fire)(struct vt_timer *, int64_t), void *ctx, struct vt_error *err)
{
    *timer = (struct vt_timer){.fd = -1, .fire = fire, .ctx = ctx};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make a timer");
    int rc = uv_poll_init(&loop->uv, &timer->poll, fd);
    if (rc < 0) {
        close(fd);
        return vt_error_set(err, VT_KIND_INFRA, rc, "watch a timer: %s", uv_strerror(rc));
    }
    timer->fd = fd;
    timer->poll.data = timer;
    uv_poll_start(&timer->poll, UV_READABLE, on_readable); /* fails for bad arguments alone */
    return 0;
}

static int set_time(struct vt_timer *timer, int64_t at_ns)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = at_ns / VT_NS_PER_S, .tv_nsec = at_ns % VT_NS_PER_S},
    };
    return timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

int vt_timer_arm(struct vt_timer *timer, int64_t at_ns, struct vt_error *err)
{
    if (at_ns < 1) /* 0 would disarm the descriptor */
        at_ns = 1;
    if (timer->armed_ns == at_ns)
        return 0;
    if (set_time(timer, at_ns) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "arm a timer");
    timer->armed_ns = at_ns;
    return 0;
}

void vt_timer_disarm(struct vt_timer *timer)
{
    if (timer->armed_ns == 0)
        return;
    timer->armed_ns = 0;
    set_time(timer, 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct vt_timer *timer = handle->data;
    close(timer->fd);
    timer->fd = -1;
    if (timer->closed)
        timer->closed(timer);
}

void vt_timer_close(struct vt_timer *timer, void (*closed)(struct vt_timer *timer))
{
    if (timer->fd < 0 || uv_is_closing((uv_handle_t *)&timer->poll))
        return;
    timer->armed_ns = 0;
    timer->closed = closed;
    uv_poll_stop(&timer->poll);
    uv_close((uv_handle_t *)&timer->poll, on_closed);
}
