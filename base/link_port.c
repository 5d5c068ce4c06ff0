/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bottom of a link: a virtio-serial port, a character device of the guest. While the host's side
 * is not connected such a port reads as ended and polls as hung up at once, forever; so it is
 * looked at by a slow timer then. Opened means: the host's side is connected. Its going away later
 * is the end of the link.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/link_bottom.h"
#include "base/scope.h"
#include "base/text.h"

#define LOOK_EVERY_MS 200

struct port_link {
    struct vt_link_bottom bottom;
    int fd;
    uv_poll_t poll;
    struct vt_buf pending;
    bool paused, shut;
};

static struct port_link *of(struct vt_link *link)
{
    return (struct port_link *)link;
}

static void fail(struct port_link *p, int errnum, const char *what)
{
    if (p->bottom.err.code == 0)
        vt_error_errno(&p->bottom.err, VT_KIND_INFRA, errnum, "serial port: %s", what);
    vt_link_bottom_finish(&p->bottom, VT_LINK_FAILED);
}

static void watch(struct port_link *p);

/* Writes what the port takes. Returns bytes written, or -errno. */
static ssize_t write_some(struct port_link *p, const void *data, size_t len)
{
    ssize_t n;
    do {
        n = write(p->fd, data, len);
    } while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    return errno == EAGAIN ? 0 : -errno;
}

static void flush(struct port_link *p)
{
    ssize_t n = write_some(p, p->pending.data, p->pending.len);
    if (n < 0) {
        fail(p, (int)-n, "write");
        return;
    }
    vt_buf_consume(&p->pending, (size_t)n);
    p->bottom.link.queued = p->pending.len;
    if (p->bottom.link.queued > 0)
        return;
    if (p->shut) {
        vt_link_bottom_finish(&p->bottom, VT_LINK_EOF);
        return;
    }
    watch(p);
    if (p->bottom.link.events->drained)
        p->bottom.link.events->drained(p->bottom.link.ctx);
}

static void receive(struct port_link *p)
{
    struct vt_loop *loop = p->bottom.link.loop;
    ssize_t n = read(p->fd, loop->read_buf, sizeof loop->read_buf);
    if (n > 0 && !p->shut)
        p->bottom.link.events->data(p->bottom.link.ctx, (const uint8_t *)loop->read_buf, (size_t)n);
    else if (n == 0)
        vt_link_bottom_finish(&p->bottom, VT_LINK_EOF);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail(p, errno, "read");
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct port_link *p = poll->data;
    if (status < 0) {
        fail(p, -status, "watch");
        return;
    }
    if (p->bottom.link.queued > 0 && (events & UV_WRITABLE))
        flush(p);
    if (p->bottom.state == LINK_OPEN && (events & UV_READABLE))
        receive(p);
    else if (p->bottom.state == LINK_OPEN && (events & UV_DISCONNECT))
        vt_link_bottom_finish(&p->bottom, VT_LINK_EOF);
}

static void watch(struct port_link *p)
{
    if (p->bottom.state != LINK_OPEN)
        return;
    int events = UV_DISCONNECT;
    if (!p->paused || p->shut)
        events |= UV_READABLE;
    if (p->bottom.link.queued > 0)
        events |= UV_WRITABLE;
    int rc = uv_poll_start(&p->poll, events, on_poll);
    if (rc < 0)
        fail(p, -rc, "watch");
}

static void on_look(uv_timer_t *timer)
{
    struct port_link *p = timer->data;
    struct pollfd look = {.fd = p->fd, .events = POLLIN | POLLOUT};
    if (poll(&look, 1, 0) < 0 || (look.revents & (POLLHUP | POLLERR)))
        return;
    uv_timer_stop(timer);
    p->bottom.state = LINK_OPEN;
    watch(p);
    if (p->bottom.state == LINK_OPEN && p->bottom.link.events->opened)
        p->bottom.link.events->opened(p->bottom.link.ctx);
}

static void port_open(struct vt_link *link)
{
    struct port_link *p = of(link);
    if (p->bottom.state != LINK_NEW)
        return;
    p->bottom.state = LINK_OPENING;
    uv_timer_start(&p->bottom.timer, on_look, 0, LOOK_EVERY_MS);
}

static int port_send(struct vt_link *link, const void *data, size_t len, struct vt_error *err)
{
    struct port_link *p = of(link);
    if (p->bottom.state != LINK_OPEN || p->shut)
        return vt_error_set(err, VT_KIND_INFRA, p->bottom.state < LINK_OPEN ? -ENOTCONN : -EPIPE,
                            "send: the serial port is %s",
                            p->bottom.state < LINK_OPEN ? "not connected on the host yet"
                                                        : "ending");
    if (len > link->queue_max - link->queued)
        return vt_error_set(err, VT_KIND_INFRA, -ENOBUFS,
                            "send: the peer is slow, more than %zu bytes would wait for it",
                            link->queue_max);
    size_t done = 0;
    if (link->queued == 0) {
        ssize_t n = write_some(p, data, len);
        if (n < 0) {
            fail(p, (int)-n, "write");
            return vt_error_errno(err, VT_KIND_INFRA, (int)-n, "send");
        }
        done = (size_t)n;
    }
    if (done == len)
        return 0;
    vt_buf_add(&p->pending, (const char *)data + done, len - done);
    int rc = vt_buf_check(&p->pending, "send", err);
    if (rc < 0) {
        fail(p, -rc, "queue");
        return rc;
    }
    link->queued = p->pending.len;
    watch(p);
    return 0;
}

static void port_read_stop(struct vt_link *link)
{
    of(link)->paused = true;
    watch(of(link));
}

static void port_read_start(struct vt_link *link)
{
    of(link)->paused = false;
    watch(of(link));
}

static void on_linger_end(uv_timer_t *timer)
{
    fail(timer->data, ETIMEDOUT, "the host does not read");
}

static void port_shut(struct vt_link *link)
{
    struct port_link *p = of(link);
    if (p->bottom.state != LINK_OPEN) {
        vt_link_bottom_close(link);
        return;
    }
    if (p->shut)
        return;
    p->shut = true;
    /* Closing the device says nothing to the host: there is no end of the peer to wait for. */
    if (link->queued == 0)
        vt_link_bottom_finish(&p->bottom, VT_LINK_EOF);
    else
        uv_timer_start(&p->bottom.timer, on_linger_end, VT_LINK_LINGER_MS, 0);
}

static void port_free(struct vt_link *link)
{
    struct port_link *p = of(link);
    close(p->fd);
    vt_buf_dispose(&p->pending);
    free(p);
}

static const struct vt_link_ops port_ops = {
    .open = port_open,
    .send = port_send,
    .read_stop = port_read_stop,
    .read_start = port_read_start,
    .shut = port_shut,
    .close = vt_link_bottom_close,
    .free = port_free,
};

int vt_link_port_new(struct vt_loop *loop, const char *path, size_t queue_max, struct vt_link **ret,
                     struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open %s", path);
    VT_AUTO_FREE struct port_link *p = calloc(1, sizeof *p);
    if (!p)
        return vt_error_no_memory(err, "open %s", path);
    int rc = uv_poll_init(&loop->uv, &p->poll, fd);
    if (rc < 0)
        return vt_error_set(err, VT_KIND_INFRA, rc, "watch %s: %s", path, uv_strerror(rc));
    p->bottom.link = (struct vt_link){.ops = &port_ops, .loop = loop, .queue_max = queue_max};
    p->pending = (struct vt_buf)VT_BUF_INIT(queue_max);
    vt_link_bottom_ready(&p->bottom, (uv_handle_t *)&p->poll);
    p->fd = vt_take_fd(fd);
    *ret = &vt_take_ptr(p)->bottom.link;
    return 0;
}
