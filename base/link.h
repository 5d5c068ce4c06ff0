/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link: a byte stream as a stack of small filters: TLS over TCP, or over a virtio-serial port; the
 * agents, the hub and the load drivers all use it. Each filter is a const table of operations and
 * a pointer to the one below; users talk to the top only.
 *
 * Order of calls: vt_link_*_new -> vt_link_open -> opened -> (send | data)* -> shut or close ->
 * closed, exactly once, after which the link is gone. close and shut may be called twice and from
 * inside any callback; a link that was never opened is closed in the same way. Nothing is called
 * back from inside these functions, only from the loop: a failure of open is reported by closed.
 *
 * shut ends orderly: what is queued is sent, then close_notify and FIN; data that still comes is
 * dropped; closed follows the peer's end, or after VT_LINK_LINGER_MS without progress. The peer's
 * end ends the link (what is queued is still sent). close drops the queue.
 */
#ifndef VT_BASE_LINK_H
#define VT_BASE_LINK_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"

/* How long a peer may take nothing and say nothing after shut. */
#define VT_LINK_LINGER_MS 1000

enum vt_link_end {
    VT_LINK_EOF,       /* orderly: FIN, and close_notify where there is TLS */
    VT_LINK_TRUNCATED, /* TLS peer ended without close_notify */
    VT_LINK_FAILED,    /* err says what; also when we closed it: code -ECANCELED */
};

struct vt_link;
struct vt_link_events {
    void (*opened)(void *ctx);
    void (*data)(void *ctx, const uint8_t *data, size_t len); /* len >= 1 */
    void (*drained)(void *ctx);                               /* queue went empty; may be NULL */
    void (*closed)(void *ctx, enum vt_link_end end, const struct vt_error *err);
};
struct vt_link_ops {
    void (*open)(struct vt_link *link);
    int (*send)(struct vt_link *link, const void *data, size_t len, struct vt_error *err);
    /* Back-pressure; read_start undoes it. TLS may still give out what it has been handed: at most
     * VT_LOOP_READ_BYTES. */
    void (*read_stop)(struct vt_link *link);
    void (*read_start)(struct vt_link *link);
    void (*shut)(struct vt_link *link);
    void (*close)(struct vt_link *link);
    void (*free)(struct vt_link *link);
};
struct vt_link {
    const struct vt_link_ops *ops;
    struct vt_link *below; /* NULL at the bottom */
    const struct vt_link_events *events;
    void *ctx;
    struct vt_loop *loop;
    size_t queued, queue_max; /* of the bottom: bytes accepted, not yet written */
};

/* Bottoms. A send that would take the queue past queue_max is -ENOBUFS and takes nothing. */
int vt_link_tcp_new(struct vt_loop *loop, const struct sockaddr *peer, size_t queue_max,
                    struct vt_link **ret, struct vt_error *err);
/* An accepted or socketpair stream; owns fd also on error. */
int vt_link_fd_new(struct vt_loop *loop, int fd, size_t queue_max, struct vt_link **ret,
                   struct vt_error *err);
/* A virtio-serial port in the guest (character device; EOF-like states when the host side is not
 * connected are waited out by poll, not spun on). */
int vt_link_port_new(struct vt_loop *loop, const char *path, size_t queue_max, struct vt_link **ret,
                     struct vt_error *err);
/* The descriptor at the bottom; -1 where there is none. It stays the link's. */
int vt_link_fd(const struct vt_link *link);
/* Filter, TLS 1.3 or later: takes over below (on error below stays the caller's). server: accept
 * state. name: for SNI and for checking the peer's certificate (host name or address text); NULL:
 * chain only. Whether a certificate is asked for is ctx's matter. ctx is referenced. */
int vt_link_tls_new(struct vt_link *below, SSL_CTX *ctx, bool server, const char *name,
                    struct vt_link **ret, struct vt_error *err);

static inline void vt_link_set_events(struct vt_link *link, const struct vt_link_events *events,
                                      void *ctx)
{
    link->events = events;
    link->ctx = ctx;
}
static inline void vt_link_open(struct vt_link *link)
{
    link->ops->open(link);
}
static inline int vt_link_send(struct vt_link *link, const void *data, size_t len,
                               struct vt_error *err)
{
    return link->ops->send(link, data, len, err);
}
static inline void vt_link_read_stop(struct vt_link *link)
{
    link->ops->read_stop(link);
}
static inline void vt_link_read_start(struct vt_link *link)
{
    link->ops->read_start(link);
}
static inline void vt_link_shut(struct vt_link *link)
{
    if (link)
        link->ops->shut(link);
}
static inline void vt_link_close(struct vt_link *link)
{
    if (link)
        link->ops->close(link);
}
/* Bytes that wait in the bottom's queue, as they travel (encrypted). */
static inline size_t vt_link_queued(const struct vt_link *link)
{
    while (link->below)
        link = link->below;
    return link->queued;
}
/* The peer's certificate, NULL where there is none or no TLS; X509_free by the caller. */
X509 *vt_link_peer_cert(struct vt_link *link);

#endif
