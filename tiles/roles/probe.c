/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/scope.h"

static int connect_to(const char *address, uint16_t port, int *ret_fd, struct vt_error *err)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval limit = {.tv_sec = PROBE_TIMEOUT_MS / 1000};
    VT_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "probe %s:%u: socket", address, port);
    if (inet_pton(AF_INET, address, &peer.sin_addr) != 1)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "probe: bad address '%s'", address);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&peer, sizeof(peer)) < 0) {
        int code = errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENETUNREACH ||
                           errno == EINPROGRESS
                       ? EAGAIN
                       : errno;

        return vt_error_errno(err, VT_KIND_INFRA, code, "probe %s:%u: connect", address, port);
    }
    *ret_fd = vt_take_fd(fd);
    return 0;
}

static int judge(const char *head, size_t len, const char *address, uint16_t port,
                 struct vt_error *err)
{
    int status = 0;

    if (len < 12 || sscanf(head, "HTTP/1.%*1[01] %3d", &status) != 1)
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "probe %s:%u: no HTTP answer", address,
                            port);
    if (status == 200)
        return 0;
    return vt_error_set(err, VT_KIND_INFRA, status >= 502 && status <= 504 ? -EAGAIN : -EPROTO,
                        "probe %s:%u: status %d", address, port, status);
}

static int begin_tls(struct probe_stream *s, const char *ca_file, const char *address,
                     uint16_t port, struct vt_error *err)
{
    long fault;

    s->ctx = SSL_CTX_new(TLS_client_method());
    s->tls = s->ctx ? SSL_new(s->ctx) : NULL;
    if (!s->tls || !SSL_CTX_load_verify_locations(s->ctx, ca_file, NULL))
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "probe: cannot use CA %s", ca_file);
    SSL_set1_param(s->tls, SSL_CTX_get0_param(s->ctx));
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->tls), address);
    SSL_set_verify(s->tls, SSL_VERIFY_PEER, NULL);
    SSL_set_fd(s->tls, s->fd);
    if (SSL_connect(s->tls) == 1)
        return 0;
    fault = SSL_get_verify_result(s->tls);
    ERR_clear_error();
    /* A server that is just starting accepts connections before it can serve them. */
    if (fault == X509_V_OK)
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "probe %s:%u: no TLS yet", address, port);
    return vt_error_set(err, VT_KIND_INFRA, -EPROTO, "probe %s:%u: TLS: %s", address, port,
                        X509_verify_cert_error_string(fault));
}

int probe_open(const char *address, uint16_t port, const char *ca_file, struct probe_stream *ret,
               struct vt_error *err)
{
    struct probe_stream s = {.fd = -1};
    int rc = connect_to(address, port, &s.fd, err);

    if (rc == 0 && ca_file)
        rc = begin_tls(&s, ca_file, address, port, err);
    if (rc < 0)
        probe_close(&s);
    else
        *ret = s;
    return rc;
}

bool probe_send(struct probe_stream *s, const void *data, size_t len)
{
    if (len == 0)
        return true;
    if (s->tls)
        return SSL_write(s->tls, data, (int)len) == (int)len;
    return send(s->fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

ssize_t probe_receive(struct probe_stream *s, void *data, size_t size)
{
    return s->tls ? SSL_read(s->tls, data, (int)size) : recv(s->fd, data, size, 0);
}

void probe_close(struct probe_stream *s)
{
    SSL_free(s->tls);
    SSL_CTX_free(s->ctx);
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct probe_stream){.fd = -1};
}

/* Reads until the status line is whole. */
static int exchange(struct probe_stream *s, const char *request, const char *address, uint16_t port,
                    struct vt_error *err)
{
    char head[64] = {0};
    size_t len = 0;

    if (!probe_send(s, request, strlen(request)))
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "probe %s:%u: send", address, port);
    while (len < 12) {
        ssize_t n = probe_receive(s, head + len, sizeof(head) - 1 - len);

        if (n <= 0)
            break;
        len += (size_t)n;
    }
    return judge(head, len, address, port, err);
}

int probe_http(const char *address, uint16_t port, const char *path, const char *ca_file,
               struct vt_error *err)
{
    struct probe_stream s;
    char request[256];
    int ret = probe_open(address, port, ca_file, &s, err);

    if (ret < 0)
        return ret;
    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
             path, address);
    ret = exchange(&s, request, address, port, err);
    probe_close(&s);
    return ret;
}
