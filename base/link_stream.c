/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bottom of a link: a TCP connection or a socket that is connected already. A send writes at once
 * as much as the kernel takes (uv_try_write) and queues the rest, so that in steady state a
 * request costs one write, one read and no allocation.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/link_bottom.h"
#include "base/scope.h"
#include "base/text.h"

/* Buffers of the queue that grew past this are given back once they are empty. */
#define KEEP_BYTES (64U << 10)

struct stream_link {
    struct vt_link_bottom bottom;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct sockaddr_storage peer; /* ss_family 0: connected already */
    struct vt_buf writing, pending;
    bool in_write;     /* `write` is under way with the bytes of `writing` */
    bool shut;         /* the user's wish */
    bool peer_ended;   /* the queue is still being sent */
    bool shutting;     /* `shutdown` was started */
    bool write_failed; /* only what the peer has still said is waited for */
};

static struct stream_link *of(struct vt_link *link)
{
    return (struct stream_link *)link;
}

/* The first failure is the one that is reported. */
static void fail(struct stream_link *s, int code, const char *what)
{
    if (s->bottom.err.code == 0)
        vt_error_set(&s->bottom.err, VT_KIND_INFRA, code, "%s: %s", what, uv_strerror(code));
    vt_link_bottom_finish(&s->bottom, VT_LINK_FAILED);
}

static void on_linger_end(uv_timer_t *timer)
{
    struct stream_link *s = timer->data;
    if (s->peer_ended)
        vt_link_bottom_finish(&s->bottom, VT_LINK_EOF);
    else
        fail(s, UV_ETIMEDOUT, "the peer did not end the connection");
}

static void linger(struct stream_link *s)
{
    uv_timer_start(&s->bottom.timer, on_linger_end, VT_LINK_LINGER_MS, 0);
}

/* A write failed. What the peer said before (why it refused, say) may still be in our socket. */
static void write_failed(struct stream_link *s, int code)
{
    if (s->write_failed || s->bottom.state != LINK_OPEN)
        return;
    s->write_failed = true;
    vt_error_set(&s->bottom.err, VT_KIND_INFRA, code, "write: %s", uv_strerror(code));
    if (s->peer_ended) {
        vt_link_bottom_finish(&s->bottom, VT_LINK_FAILED);
        return;
    }
    s->bottom.link.ops->read_start(&s->bottom.link);
    if (s->bottom.state == LINK_OPEN)
        linger(s);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    struct stream_link *s = req->data;
    if (s->bottom.state != LINK_OPEN)
        return;
    if (status < 0 && status != UV_ENOTCONN) /* ENOTCONN: the peer was faster; the read tells */
        fail(s, status, "end the connection");
    else if (s->peer_ended)
        vt_link_bottom_finish(&s->bottom, VT_LINK_EOF);
    else
        linger(s);
}

/* After the queue went empty: what was put off until then. */
static void end_when_flushed(struct stream_link *s)
{
    if (s->bottom.state != LINK_OPEN || s->bottom.link.queued > 0 || s->shutting)
        return;
    if (s->peer_ended && !s->shut) {
        vt_link_bottom_finish(&s->bottom, VT_LINK_EOF);
        return;
    }
    if (!s->shut)
        return;
    s->shutting = true;
    s->shutdown.data = s;
    int rc = uv_shutdown(&s->shutdown, &s->io.stream, on_shutdown);
    if (rc < 0)
        fail(s, rc, "end the connection");
}

static void empty(struct vt_buf *buf)
{
    if (buf->cap > KEEP_BYTES)
        vt_buf_dispose(buf);
    else
        vt_buf_reset(buf);
}

static int write_pending(struct stream_link *s);

static void on_written(uv_write_t *req, int status)
{
    struct stream_link *s = req->data;
    s->in_write = false;
    if (s->bottom.state != LINK_OPEN)
        return;
    if (status < 0) {
        write_failed(s, status);
        return;
    }
    s->bottom.link.queued -= s->writing.len;
    empty(&s->writing);
    if (s->bottom.link.queued > 0) {
        if (s->shut || s->peer_ended)
            linger(s);
        int rc = write_pending(s);
        if (rc < 0)
            write_failed(s, rc);
        return;
    }
    end_when_flushed(s);
    if (s->bottom.state == LINK_OPEN && !s->shut && s->bottom.link.events->drained)
        s->bottom.link.events->drained(s->bottom.link.ctx);
}

static int write_pending(struct stream_link *s)
{
    struct vt_buf swap = s->writing;
    s->writing = s->pending;
    s->pending = swap;
    uv_buf_t buf = uv_buf_init(s->writing.data, (unsigned)s->writing.len);
    s->write.data = s;
    int rc = uv_write(&s->write, &s->io.stream, &buf, 1, on_written);
    s->in_write = rc == 0;
    return rc;
}

static int stream_send(struct vt_link *link, const void *data, size_t len, struct vt_error *err)
{
    struct stream_link *s = of(link);
    if (s->bottom.state != LINK_OPEN || s->shut || s->write_failed || s->peer_ended)
        return vt_error_set(err, VT_KIND_INFRA, s->bottom.state < LINK_OPEN ? -ENOTCONN : -EPIPE,
                            "send: the connection is %s",
                            s->bottom.state < LINK_OPEN ? "not open yet" : "ending");
    if (len > link->queue_max - link->queued)
        return vt_error_set(err, VT_KIND_INFRA, -ENOBUFS,
                            "send: the peer is slow, more than %zu bytes would wait for it",
                            link->queue_max);
    size_t done = 0;
    if (link->queued == 0) {
        uv_buf_t buf = uv_buf_init((char *)data, (unsigned)len);
        int n = uv_try_write(&s->io.stream, &buf, 1);
        if (n < 0 && n != UV_EAGAIN) {
            write_failed(s, n);
            return vt_error_set(err, VT_KIND_INFRA, n, "send: %s", uv_strerror(n));
        }
        done = n > 0 ? (size_t)n : 0;
    }
    if (done == len)
        return 0;
    vt_buf_add(&s->pending, (const char *)data + done, len - done);
    int rc = vt_buf_check(&s->pending, "send", err);
    if (rc < 0) {
        /* Half of it may have been written: the stream cannot go on. */
        write_failed(s, rc);
        return rc;
    }
    link->queued += len - done;
    if (s->in_write)
        return 0;
    rc = write_pending(s);
    if (rc < 0) {
        write_failed(s, rc);
        return vt_error_set(err, VT_KIND_INFRA, rc, "send: %s", uv_strerror(rc));
    }
    return 0;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct vt_loop *loop = vt_loop_of(handle);
    (void)suggested;
    *buf = uv_buf_init(loop->read_buf, sizeof loop->read_buf);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct stream_link *s = stream->data;
    if (n > 0 && !s->shut)
        s->bottom.link.events->data(s->bottom.link.ctx, (const uint8_t *)buf->base, (size_t)n);
    if (n >= 0)
        return;
    if (s->write_failed) {
        vt_link_bottom_finish(&s->bottom, VT_LINK_FAILED);
    } else if (n != UV_EOF) {
        fail(s, (int)n, "read");
    } else if (s->shutting) {
        s->peer_ended = true;
        vt_link_bottom_finish(&s->bottom, VT_LINK_EOF);
    } else {
        s->peer_ended = true;
        uv_read_stop(stream);
        linger(s);
        end_when_flushed(s);
    }
}

static void stream_read_start(struct vt_link *link)
{
    struct stream_link *s = of(link);
    if (s->bottom.state != LINK_OPEN || s->peer_ended)
        return;
    int rc = uv_read_start(&s->io.stream, on_alloc, on_read);
    if (rc < 0 && rc != UV_EALREADY)
        fail(s, rc, "read");
}

static void stream_read_stop(struct vt_link *link)
{
    struct stream_link *s = of(link);
    /* Once it is ending, only reading tells when the peer has ended too. */
    if (s->bottom.state == LINK_OPEN && !s->shut && !s->write_failed)
        uv_read_stop(&s->io.stream);
}

static void opened(struct stream_link *s)
{
    s->bottom.state = LINK_OPEN;
    stream_read_start(&s->bottom.link);
    if (s->bottom.state == LINK_OPEN && s->bottom.link.events->opened)
        s->bottom.link.events->opened(s->bottom.link.ctx);
}

static void on_connect(uv_connect_t *req, int status)
{
    struct stream_link *s = req->data;
    if (s->bottom.state != LINK_OPENING)
        return;
    if (status < 0)
        fail(s, status, "connect");
    else
        opened(s);
}

static void on_ready(uv_timer_t *timer)
{
    struct stream_link *s = timer->data;
    if (s->bottom.state == LINK_OPENING)
        opened(s);
}

static void stream_open(struct vt_link *link)
{
    struct stream_link *s = of(link);
    if (s->bottom.state != LINK_NEW)
        return;
    s->bottom.state = LINK_OPENING;
    if (s->peer.ss_family == 0) {
        uv_timer_start(&s->bottom.timer, on_ready, 0, 0);
        return;
    }
    s->connect.data = s;
    int rc = uv_tcp_connect(&s->connect, &s->io.tcp, (struct sockaddr *)&s->peer, on_connect);
    if (rc < 0)
        fail(s, rc, "connect");
}

static void stream_shut(struct vt_link *link)
{
    struct stream_link *s = of(link);
    if (s->bottom.state != LINK_OPEN) {
        vt_link_bottom_close(link);
        return;
    }
    if (s->shut || s->write_failed)
        return;
    s->shut = true;
    if (!s->peer_ended)
        uv_read_start(&s->io.stream, on_alloc, on_read);
    linger(s);
    end_when_flushed(s);
}

static void stream_free(struct vt_link *link)
{
    struct stream_link *s = of(link);
    vt_buf_dispose(&s->writing);
    vt_buf_dispose(&s->pending);
    free(s);
}

static const struct vt_link_ops stream_ops = {
    .open = stream_open,
    .send = stream_send,
    .read_stop = stream_read_stop,
    .read_start = stream_read_start,
    .shut = stream_shut,
    .close = vt_link_bottom_close,
    .free = stream_free,
};

static struct stream_link *stream_alloc(struct vt_loop *loop, size_t queue_max)
{
    struct stream_link *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->bottom.link = (struct vt_link){.ops = &stream_ops, .loop = loop, .queue_max = queue_max};
    s->writing = s->pending = (struct vt_buf)VT_BUF_INIT(queue_max);
    return s;
}

int vt_link_tcp_new(struct vt_loop *loop, const struct sockaddr *peer, size_t queue_max,
                    struct vt_link **ret, struct vt_error *err)
{
    size_t len;
    if (peer->sa_family == AF_INET)
        len = sizeof(struct sockaddr_in);
    else if (peer->sa_family == AF_INET6)
        len = sizeof(struct sockaddr_in6);
    else
        return vt_error_set(err, VT_KIND_INFRA, -EAFNOSUPPORT, "connect: not an IP address");
    VT_AUTO_FREE struct stream_link *s = stream_alloc(loop, queue_max);
    if (!s)
        return vt_error_no_memory(err, "connect");
    memcpy(&s->peer, peer, len);
    /* With the family given the socket exists at once: a lack of descriptors shows here. */
    int rc = uv_tcp_init_ex(&loop->uv, &s->io.tcp, peer->sa_family);
    if (rc < 0)
        return vt_error_set(err, VT_KIND_INFRA, rc, "make a socket: %s", uv_strerror(rc));
    uv_tcp_nodelay(&s->io.tcp, 1);
    vt_link_bottom_ready(&s->bottom, &s->io.handle);
    *ret = &vt_take_ptr(s)->bottom.link;
    return 0;
}

int vt_link_fd_new(struct vt_loop *loop, int fd_given, size_t queue_max, struct vt_link **ret,
                   struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = fd_given;
    int domain = 0;
    socklen_t len = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "take over descriptor %d", fd);
    VT_AUTO_FREE struct stream_link *s = stream_alloc(loop, queue_max);
    if (!s)
        return vt_error_no_memory(err, "take over a socket");
    bool tcp = domain == AF_INET || domain == AF_INET6;
    int rc = tcp ? uv_tcp_init(&loop->uv, &s->io.tcp) : uv_pipe_init(&loop->uv, &s->io.pipe, 0);
    if (rc < 0)
        return vt_error_set(err, VT_KIND_INFRA, rc, "take over a socket: %s", uv_strerror(rc));
    vt_link_bottom_ready(&s->bottom, &s->io.handle);
    rc = tcp ? uv_tcp_open(&s->io.tcp, fd) : uv_pipe_open(&s->io.pipe, fd);
    if (rc < 0) {
        vt_link_close(&vt_take_ptr(s)->bottom.link); /* its handles go through the loop */
        return vt_error_set(err, VT_KIND_INFRA, rc, "take over a socket: %s", uv_strerror(rc));
    }
    fd = -1;
    if (tcp)
        uv_tcp_nodelay(&s->io.tcp, 1);
    *ret = &vt_take_ptr(s)->bottom.link;
    return 0;
}
