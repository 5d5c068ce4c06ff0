/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS as a filter. OpenSSL reads straight from the bytes that the link below hands up and writes
 * straight into its send, through a BIO of ours: nothing is copied in between. An idle connection
 * holds no buffers where the ctx says so (SSL_MODE_RELEASE_BUFFERS): 34 KiB less each, for making
 * and freeing them with each record.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/link.h"
#include "base/scope.h"
#include "base/text.h"

struct tls_link {
    struct vt_link link;
    SSL *ssl;
    const uint8_t *in; /* what the link below has just handed up */
    size_t in_len;
    bool open;         /* handshake done, opened was called */
    bool shut, closed; /* the user's wishes */
    bool ended;        /* end and err are settled; what still comes is dropped */
    int lost;          /* code of a send that failed below: it ends once the peer's last words
                          (an alert, say) have been read */
    enum vt_link_end end;
    struct vt_error err;
};

static struct tls_link *of(struct vt_link *link)
{
    return (struct tls_link *)link;
}

static int peer_is_slow(const struct vt_link *link, struct vt_error *err)
{
    return vt_error_set(err, VT_KIND_INFRA, -ENOBUFS,
                        "send: the peer is slow, more than %zu bytes would wait for it",
                        link->queue_max);
}

/* SSL_get_error looks at the queue. Emptying it costs much more than seeing that it is empty. */
static void forget_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* --- the BIO --- */
static int bio_read(BIO *bio, char *out, int len)
{
    struct tls_link *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (t->in_len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t n = (size_t)len < t->in_len ? (size_t)len : t->in_len;
    memcpy(out, t->in, n);
    t->in += n;
    t->in_len -= n;
    return (int)n;
}

static int bio_write(BIO *bio, const char *data, int len)
{
    struct tls_link *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    int rc = vt_link_send(t->link.below, data, (size_t)len, NULL);
    if (rc == -ENOBUFS) { /* no retry: the link below queues, and a full queue is an end */
        t->err = (struct vt_error)VT_ERROR_INIT;
        peer_is_slow(t->link.below, &t->err);
        return -1;
    }
    if (rc < 0)
        t->lost = rc;
    return len;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)bio;
    (void)num;
    (void)ptr;
    return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *link_method;

static void make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "vt_link");
    if (method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
        BIO_meth_set_ctrl(method, bio_ctrl))
        link_method = method; /* lives as long as the process */
    else
        BIO_meth_free(method);
}

/* --- how it ends --- */
static void settle(struct tls_link *t, enum vt_link_end end)
{
    if (t->ended)
        return;
    t->ended = true;
    t->end = end;
}

/* After an SSL call failed. The alert for the peer is in the queue below already. */
static void ssl_failed(struct tls_link *t, const char *what)
{
    long verify = SSL_get_verify_result(t->ssl);
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);
    if (t->err.code != 0)
        vt_error_wrap(&t->err, "%s", what);
    else if (verify != X509_V_OK && !t->open)
        vt_error_set(&t->err, VT_KIND_REFUSED, -EACCES, "%s: certificate of the peer: %s", what,
                     X509_verify_cert_error_string(verify));
    else
        vt_error_set(&t->err, VT_KIND_REFUSED, -EPROTO, "%s: %s", what,
                     reason ? reason : "protocol error");
    ERR_clear_error();
    settle(t, VT_LINK_FAILED);
    vt_link_shut(t->link.below);
}

/* The peer's close_notify: answered by ours. */
static void peer_finished(struct tls_link *t)
{
    settle(t, VT_LINK_EOF);
    SSL_shutdown(t->ssl);
    ERR_clear_error();
    vt_link_shut(t->link.below);
}

/* --- callbacks of the link below, in the order in which they come --- */
static void handshake(struct tls_link *t)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    if (rc == 1) {
        t->open = true;
        if (t->link.events->opened)
            t->link.events->opened(t->link.ctx);
        return;
    }
    if (SSL_get_error(t->ssl, rc) != SSL_ERROR_WANT_READ)
        ssl_failed(t, "TLS handshake");
}

static void below_opened(void *ctx)
{
    struct tls_link *t = ctx;
    if (!t->ended)
        handshake(t);
}

static void read_plain(struct tls_link *t)
{
    struct vt_loop *loop = t->link.loop;
    while (!t->ended) {
        size_t n = 0;
        forget_errors();
        int rc = SSL_read_ex(t->ssl, loop->plain_buf, sizeof loop->plain_buf, &n);
        if (rc == 1) {
            t->link.events->data(t->link.ctx, (const uint8_t *)loop->plain_buf, n);
            if (t->in_len == 0 && !SSL_has_pending(t->ssl))
                return; /* SSL_read would say so too, for more */
            continue;
        }
        int why = SSL_get_error(t->ssl, rc);
        if (why == SSL_ERROR_WANT_READ)
            return;
        if (why == SSL_ERROR_ZERO_RETURN)
            peer_finished(t);
        else
            ssl_failed(t, "TLS");
    }
}

static void below_data(void *ctx, const uint8_t *data, size_t len)
{
    struct tls_link *t = ctx;
    if (t->ended)
        return;
    t->in = data;
    t->in_len = len;
    if (!t->open)
        handshake(t);
    if (t->open)
        read_plain(t);
    t->in_len = 0; /* OpenSSL has taken all of it, or it is over */
}

static void below_drained(void *ctx)
{
    struct tls_link *t = ctx;
    if (t->open && !t->ended && t->link.events->drained)
        t->link.events->drained(t->link.ctx);
}

static void below_closed(void *ctx, enum vt_link_end end, const struct vt_error *err)
{
    struct tls_link *t = ctx;
    if (!t->ended) {
        t->end = end;
        if (end == VT_LINK_EOF && t->open) {
            t->end = VT_LINK_TRUNCATED;
            vt_error_set(&t->err, VT_KIND_INFRA, -EPROTO,
                         "the peer ended the connection without TLS close_notify");
        } else if (end == VT_LINK_EOF) {
            t->end = VT_LINK_FAILED;
            vt_error_set(&t->err, VT_KIND_INFRA, -ECONNRESET,
                         "the peer ended the connection during the TLS handshake");
        } else {
            t->err = *err;
        }
    } else if (t->shut && t->end == VT_LINK_EOF && end != VT_LINK_EOF) {
        t->end = end; /* ours was orderly, the peer's was not */
        t->err = *err;
    }
    struct vt_link *link = &t->link;
    if (link->events && link->events->closed)
        link->events->closed(link->ctx, t->end, &t->err);
    link->ops->free(link);
}

static const struct vt_link_events below_events = {
    .opened = below_opened,
    .data = below_data,
    .drained = below_drained,
    .closed = below_closed,
};

/* --- operations --- */
static void tls_open(struct vt_link *link)
{
    vt_link_open(link->below);
}

/* What len bytes grow to: each record of at most 16 KiB costs a header of 5, a type byte and a tag
 * of 16 (RFC 8446, 5.2); the rest is room for an answer to a key update. */
static size_t sealed_bytes(size_t len)
{
    return len + (len / SSL3_RT_MAX_PLAIN_LENGTH + 1) * 22 + 256;
}

static int tls_send(struct vt_link *link, const void *data, size_t len, struct vt_error *err)
{
    struct tls_link *t = of(link);
    if (!t->open || t->ended)
        return vt_error_set(err, VT_KIND_INFRA, t->ended ? -EPIPE : -ENOTCONN,
                            "send: the TLS connection is %s", t->ended ? "ending" : "not open yet");
    if (len == 0)
        return 0;
    size_t queued = vt_link_queued(link);
    if (len > link->queue_max || sealed_bytes(len) > link->queue_max - queued)
        return peer_is_slow(link, err);
    forget_errors();
    size_t done;
    if (SSL_write_ex(t->ssl, data, len, &done) == 1) {
        if (t->lost == 0)
            return 0;
        return vt_error_set(err, VT_KIND_INFRA, t->lost, "send: %s", uv_strerror(t->lost));
    }
    ssl_failed(t, "send");
    if (err)
        *err = t->err;
    return t->err.code;
}

static void tls_read_stop(struct vt_link *link)
{
    vt_link_read_stop(link->below);
}

static void tls_read_start(struct vt_link *link)
{
    vt_link_read_start(link->below);
}

static void tls_shut(struct vt_link *link)
{
    struct tls_link *t = of(link);
    if (t->shut || t->closed)
        return;
    t->shut = true;
    if (!t->ended && t->open) {
        ERR_clear_error();
        SSL_shutdown(t->ssl);
        ERR_clear_error();
        settle(t, VT_LINK_EOF);
    }
    vt_link_shut(link->below);
}

static void tls_close(struct vt_link *link)
{
    struct tls_link *t = of(link);
    if (t->closed)
        return;
    t->closed = true;
    if (!t->ended || t->shut) {
        t->ended = true;
        t->end = VT_LINK_FAILED;
        vt_error_set(&t->err, VT_KIND_INFRA, -ECANCELED, "the connection was closed");
    }
    vt_link_close(link->below);
}

static void tls_free(struct vt_link *link)
{
    struct tls_link *t = of(link);
    SSL_free(t->ssl);
    free(t);
}

static const struct vt_link_ops tls_ops = {
    .open = tls_open,
    .send = tls_send,
    .read_stop = tls_read_stop,
    .read_start = tls_read_start,
    .shut = tls_shut,
    .close = tls_close,
    .free = tls_free,
};

/* Server name only for host names: RFC 6066, 3 has no addresses in it. */
static bool set_peer_name(SSL *ssl, bool server, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (vt_text_is_ip(name))
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(ssl, name) == 1 && (server || SSL_set_tlsext_host_name(ssl, name) == 1);
}

static bool set_up(struct tls_link *t, SSL_CTX *ctx, bool server, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    BIO *bio = link_method ? BIO_new(link_method) : NULL;
    if (!bio)
        return false;
    t->ssl = SSL_new(ctx);
    if (!t->ssl) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    SSL_set_options(t->ssl, SSL_OP_NO_RENEGOTIATION);
    if (server)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    return SSL_set_min_proto_version(t->ssl, TLS1_3_VERSION) == 1 &&
           (!name || set_peer_name(t->ssl, server, name));
}

int vt_link_tls_new(struct vt_link *below, SSL_CTX *ctx, bool server, const char *name,
                    struct vt_link **ret, struct vt_error *err)
{
    struct tls_link *t = calloc(1, sizeof *t);
    if (!t || !set_up(t, ctx, server, name)) {
        if (t)
            tls_free(&t->link);
        ERR_clear_error();
        return vt_error_no_memory(err, "set up TLS%s%s", name ? " to " : "", name ? name : "");
    }
    t->link = (struct vt_link){
        .ops = &tls_ops, .below = below, .loop = below->loop, .queue_max = below->queue_max};
    vt_link_set_events(below, &below_events, t);
    *ret = &t->link;
    return 0;
}

X509 *vt_link_peer_cert(struct vt_link *link)
{
    for (; link; link = link->below)
        if (link->ops == &tls_ops)
            return SSL_get1_peer_certificate(of(link)->ssl);
    return NULL;
}
