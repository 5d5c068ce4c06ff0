/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All watches stand in one epoll descriptor, which libuv polls as a single handle. epoll_ctl and
 * timerfd_settime may be called from any thread, so a change by libvirt holds when its call
 * returns: it may close its descriptor at once. The mutex guards the lists; it is never held while
 * a callback runs.
 */
#include "orchestrator/host/vir_loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libvirt/libvirt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

#define EVENTS_A_ROUND 64
#define TAG_TIMER UINT64_C(0) /* watches count from 1, so these two are free below and above */
#define TAG_WAKE UINT64_MAX

struct watch {
    int id, vir_fd;
    int fd;   /* vir_fd, or our own copy of it: */
    bool dup; /* epoll takes a descriptor once, libvirt may watch it twice */
    uint32_t events;
    virEventHandleCallback cb;
    virFreeCallback free_cb;
    void *opaque;
    struct watch *next;
};
struct timer {
    int id;
    int64_t period_ns; /* negative: off */
    int64_t due_ns;
    uint64_t round; /* the last in which it fired: period 0 fires once a round */
    virEventTimeoutCallback cb;
    virFreeCallback free_cb;
    void *opaque;
    struct timer *next;
};
struct release {
    virFreeCallback free_cb;
    void *opaque;
    struct release *next;
};

/* libvirt's registration is one a process and has no context argument, hence one static object. */
static struct {
    pthread_mutex_t lock;
    bool registered, attached;
    int epoll_fd, timer_fd, wake_fd;
    int last_id;
    struct watch *watches;
    struct timer *timers;
    struct release *releases, **releases_end;
    uint64_t round;
    unsigned depth; /* of dispatch, on the loop's thread only */
    uv_poll_t poll;
} vl = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoll_fd = -1, .timer_fd = -1, .wake_fd = -1};

static uint32_t epoll_events(int vir)
{
    return (vir & VIR_EVENT_HANDLE_READABLE ? EPOLLIN : 0u) |
           (vir & VIR_EVENT_HANDLE_WRITABLE ? EPOLLOUT : 0u) |
           (vir & VIR_EVENT_HANDLE_ERROR ? EPOLLERR : 0u) |
           (vir & VIR_EVENT_HANDLE_HANGUP ? EPOLLHUP : 0u);
}

static int vir_events(uint32_t events)
{
    return (events & EPOLLIN ? VIR_EVENT_HANDLE_READABLE : 0) |
           (events & EPOLLOUT ? VIR_EVENT_HANDLE_WRITABLE : 0) |
           (events & EPOLLERR ? VIR_EVENT_HANDLE_ERROR : 0) |
           (events & EPOLLHUP ? VIR_EVENT_HANDLE_HANGUP : 0);
}

static void wake_locked(void)
{
    uint64_t one = 1;
    ssize_t n = write(vl.wake_fd, &one, sizeof(one));

    (void)n; /* EAGAIN: the counter is full, so a wake-up is pending anyway */
}

/* A watch without events must not report a hang-up either, so it leaves the set. */
static int watch_arm_locked(struct watch *watch)
{
    struct epoll_event event = {.events = watch->events, .data.u64 = (uint64_t)watch->id};

    if (!watch->events) {
        epoll_ctl(vl.epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        return 0;
    }
    if (epoll_ctl(vl.epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) == 0)
        return 0;
    return epoll_ctl(vl.epoll_fd, EPOLL_CTL_ADD, watch->fd, &event);
}

static struct watch *watch_find_locked(int id)
{
    struct watch *watch = vl.watches;

    while (watch && watch->id != id)
        watch = watch->next;
    return watch;
}

static bool fd_is_watched_locked(int fd)
{
    for (struct watch *watch = vl.watches; watch; watch = watch->next)
        if (watch->fd == fd)
            return true;
    return false;
}

static int next_id_locked(void)
{
    vl.last_id = vl.last_id == INT32_MAX ? 1 : vl.last_id + 1;
    return vl.last_id;
}

static int add_handle(int fd, int events, virEventHandleCallback cb, void *opaque,
                      virFreeCallback free_cb)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    int id = -1;

    if (!watch)
        return -1;
    pthread_mutex_lock(&vl.lock);
    if (!vl.attached)
        goto out;
    watch->vir_fd = watch->fd = fd;
    if (fd_is_watched_locked(fd)) {
        watch->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        watch->dup = true;
    }
    watch->id = next_id_locked();
    watch->events = epoll_events(events);
    watch->cb = cb;
    watch->free_cb = free_cb;
    watch->opaque = opaque;
    if (watch->fd < 0 || watch_arm_locked(watch) < 0) {
        if (watch->dup && watch->fd >= 0)
            close(watch->fd);
        goto out;
    }
    watch->next = vl.watches;
    vl.watches = watch;
    id = watch->id;
    watch = NULL;
out:
    pthread_mutex_unlock(&vl.lock);
    free(watch);
    return id;
}

static void update_handle(int id, int events)
{
    pthread_mutex_lock(&vl.lock);
    struct watch *watch = watch_find_locked(id);
    if (watch) {
        watch->events = epoll_events(events);
        watch_arm_locked(watch);
    }
    pthread_mutex_unlock(&vl.lock);
}

/* The release may come after the callback that is running now, never inside it. */
static void release_locked(virFreeCallback free_cb, void *opaque)
{
    struct release *release = free_cb ? calloc(1, sizeof(*release)) : NULL;

    if (!release)
        return; /* without memory libvirt's object is leaked rather than freed under its user */
    release->free_cb = free_cb;
    release->opaque = opaque;
    *vl.releases_end = release;
    vl.releases_end = &release->next;
    wake_locked();
}

static int remove_handle(int id)
{
    struct watch **at, *watch;

    pthread_mutex_lock(&vl.lock);
    for (at = &vl.watches; *at && (*at)->id != id; at = &(*at)->next)
        ;
    watch = *at;
    if (watch) {
        *at = watch->next;
        epoll_ctl(vl.epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        if (watch->dup)
            close(watch->fd);
        /* Its descriptor may have been closed before and given to another watch by now. */
        for (struct watch *other = vl.watches; other && !watch->dup; other = other->next)
            if (other->fd == watch->fd)
                watch_arm_locked(other);
        release_locked(watch->free_cb, watch->opaque);
    }
    pthread_mutex_unlock(&vl.lock);
    free(watch);
    return watch ? 0 : -1;
}

static void timers_arm_locked(void)
{
    struct itimerspec spec = {0};
    int64_t due = INT64_MAX;

    for (struct timer *timer = vl.timers; timer; timer = timer->next)
        if (timer->period_ns >= 0 && timer->due_ns < due)
            due = timer->due_ns;
    if (due != INT64_MAX) {
        spec.it_value.tv_sec = due / VT_NS_PER_S;
        spec.it_value.tv_nsec = due % VT_NS_PER_S;
    }
    timerfd_settime(vl.timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void timer_set_locked(struct timer *timer, int timeout_ms)
{
    timer->period_ns = timeout_ms < 0 ? -1 : timeout_ms * VT_NS_PER_MS;
    timer->due_ns = vt_clock_now_ns() + (timeout_ms < 0 ? 0 : timer->period_ns);
    timers_arm_locked();
}

static int add_timeout(int timeout_ms, virEventTimeoutCallback cb, void *opaque,
                       virFreeCallback free_cb)
{
    struct timer *timer = calloc(1, sizeof(*timer));
    int id = -1;

    if (!timer)
        return -1;
    pthread_mutex_lock(&vl.lock);
    if (vl.attached) {
        id = timer->id = next_id_locked();
        timer->cb = cb;
        timer->free_cb = free_cb;
        timer->opaque = opaque;
        timer->next = vl.timers;
        vl.timers = timer;
        timer_set_locked(timer, timeout_ms);
        timer = NULL;
    }
    pthread_mutex_unlock(&vl.lock);
    free(timer);
    return id;
}

static void update_timeout(int id, int timeout_ms)
{
    pthread_mutex_lock(&vl.lock);
    for (struct timer *timer = vl.timers; timer; timer = timer->next)
        if (timer->id == id)
            timer_set_locked(timer, timeout_ms);
    pthread_mutex_unlock(&vl.lock);
}

static int remove_timeout(int id)
{
    struct timer **at, *timer;

    pthread_mutex_lock(&vl.lock);
    for (at = &vl.timers; *at && (*at)->id != id; at = &(*at)->next)
        ;
    timer = *at;
    if (timer) {
        *at = timer->next;
        timers_arm_locked();
        release_locked(timer->free_cb, timer->opaque);
    }
    pthread_mutex_unlock(&vl.lock);
    free(timer);
    return timer ? 0 : -1;
}

static void dispatch_watch(int id, uint32_t events)
{
    pthread_mutex_lock(&vl.lock);
    struct watch *watch = watch_find_locked(id);
    if (watch && (events & (watch->events | EPOLLERR | EPOLLHUP)) && watch->events) {
        virEventHandleCallback cb = watch->cb;
        void *opaque = watch->opaque;
        int fd = watch->vir_fd;
        pthread_mutex_unlock(&vl.lock);
        cb(id, fd, vir_events(events), opaque);
        return;
    }
    pthread_mutex_unlock(&vl.lock);
}

static void dispatch_timers(void)
{
    int64_t now = vt_clock_now_ns();
    uint64_t expirations, round;
    ssize_t n = read(vl.timer_fd, &expirations, sizeof(expirations));

    (void)n;
    pthread_mutex_lock(&vl.lock);
    round = ++vl.round;
    for (;;) {
        /* The list may change in every callback: look from its start again. */
        struct timer *timer = vl.timers;
        while (timer && (timer->period_ns < 0 || timer->due_ns > now || timer->round == round))
            timer = timer->next;
        if (!timer)
            break;
        virEventTimeoutCallback cb = timer->cb;
        void *opaque = timer->opaque;
        int id = timer->id;
        timer->round = round;
        timer->due_ns = now + timer->period_ns;
        pthread_mutex_unlock(&vl.lock);
        cb(id, opaque);
        pthread_mutex_lock(&vl.lock);
    }
    timers_arm_locked();
    pthread_mutex_unlock(&vl.lock);
}

static void run_releases(void)
{
    pthread_mutex_lock(&vl.lock);
    while (vl.releases) {
        struct release *release = vl.releases;
        vl.releases = release->next;
        if (!vl.releases)
            vl.releases_end = &vl.releases;
        pthread_mutex_unlock(&vl.lock);
        release->free_cb(release->opaque);
        free(release);
        pthread_mutex_lock(&vl.lock);
    }
    pthread_mutex_unlock(&vl.lock);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct epoll_event ready[EVENTS_A_ROUND];
    uint64_t count;

    (void)poll;
    (void)status;
    (void)events;
    int n = epoll_wait(vl.epoll_fd, ready, EVENTS_A_ROUND, 0);
    vl.depth++;
    for (int i = 0; i < n && vl.attached; i++) {
        if (ready[i].data.u64 == TAG_TIMER) {
            dispatch_timers();
        } else if (ready[i].data.u64 == TAG_WAKE) {
            ssize_t got = read(vl.wake_fd, &count, sizeof(count));
            (void)got;
        } else {
            dispatch_watch((int)ready[i].data.u64, ready[i].events);
        }
    }
    vl.depth--;
    if (vl.depth == 0)
        run_releases();
}

static void close_descriptors_locked(void)
{
    int *fds[] = {&vl.epoll_fd, &vl.timer_fd, &vl.wake_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

static int open_descriptors_locked(void)
{
    struct epoll_event timer = {.events = EPOLLIN, .data.u64 = TAG_TIMER};
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = TAG_WAKE};

    vl.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    vl.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    vl.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (vl.epoll_fd < 0 || vl.timer_fd < 0 || vl.wake_fd < 0 ||
        epoll_ctl(vl.epoll_fd, EPOLL_CTL_ADD, vl.timer_fd, &timer) < 0 ||
        epoll_ctl(vl.epoll_fd, EPOLL_CTL_ADD, vl.wake_fd, &wake) < 0) {
        int saved = errno;
        close_descriptors_locked();
        return -saved;
    }
    return 0;
}

int vir_loop_init(struct vt_loop *loop, struct vt_error *err)
{
    int code = 0;

    pthread_mutex_lock(&vl.lock);
    if (vl.attached)
        code = vt_error_set(err, VT_KIND_INFRA, -EBUSY, "libvirt's event loop is attached already");
    else if ((code = open_descriptors_locked()) < 0)
        vt_error_errno(err, VT_KIND_INFRA, -code, "cannot make libvirt's event loop");
    if (code < 0)
        goto out;
    code = uv_poll_init(&loop->uv, &vl.poll, vl.epoll_fd);
    if (code < 0) {
        close_descriptors_locked();
        vt_error_errno(err, VT_KIND_INFRA, -code, "cannot watch libvirt's event loop");
        goto out;
    }
    uv_poll_start(&vl.poll, UV_READABLE, on_poll);
    /* What libvirt watches does not keep a loop running that has nothing else to do. */
    uv_unref((uv_handle_t *)&vl.poll);
    vl.releases_end = &vl.releases;
    vl.attached = true;
    if (!vl.registered) {
        virEventRegisterImpl(add_handle, update_handle, remove_handle, add_timeout, update_timeout,
                             remove_timeout);
        vl.registered = true;
    }
out:
    pthread_mutex_unlock(&vl.lock);
    return code;
}

void vir_loop_dispose(void)
{
    pthread_mutex_lock(&vl.lock);
    if (!vl.attached) {
        pthread_mutex_unlock(&vl.lock);
        return;
    }
    assert(vl.depth == 0);
    vl.attached = false;
    while (vl.watches) {
        struct watch *watch = vl.watches;
        vl.watches = watch->next;
        if (watch->dup)
            close(watch->fd);
        free(watch);
    }
    while (vl.timers) {
        struct timer *timer = vl.timers;
        vl.timers = timer->next;
        free(timer);
    }
    pthread_mutex_unlock(&vl.lock);
    run_releases();
    pthread_mutex_lock(&vl.lock);
    if (!uv_is_closing((uv_handle_t *)&vl.poll)) {
        uv_poll_stop(&vl.poll);
        uv_close((uv_handle_t *)&vl.poll, NULL);
    }
    close_descriptors_locked();
    pthread_mutex_unlock(&vl.lock);
}
