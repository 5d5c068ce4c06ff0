/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/probe.h"

#include <arpa/inet.h>
#include <errno.h>
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

/* Reads until the status line is whole. read_some returns <= 0 at the end. */
static int exchange(int fd, SSL *tls, const char *request, const char *address, uint16_t port,
                    struct vt_error *err)
{
    char head[64] = {0};
    size_t len = 0;
    int len_request = (int)strlen(request);
    ssize_t n = tls ? SSL_write(tls, request, len_request)
                    : send(fd, request, (size_t)len_request, MSG_NOSIGNAL);

    if (n != len_request)
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "probe %s:%u: send", address, port);
    while (len < 12) {
        n = tls ? SSL_read(tls, head + len, (int)(sizeof(head) - 1 - len))
                : recv(fd, head + len, sizeof(head) - 1 - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    return judge(head, len, address, port, err);
}

static int exchange_tls(int fd, const char *request, const char *ca_file, const char *address,
                        uint16_t port, struct vt_error *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *tls = ctx ? SSL_new(ctx) : NULL;
    int ret;

    if (!tls || !SSL_CTX_load_verify_locations(ctx, ca_file, NULL)) {
        ret = vt_error_set(err, VT_KIND_INFRA, -EINVAL, "probe: cannot use CA %s", ca_file);
    } else {
        SSL_set1_param(tls, SSL_CTX_get0_param(ctx));
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), address);
        SSL_set_verify(tls, SSL_VERIFY_PEER, NULL);
        SSL_set_fd(tls, fd);
        if (SSL_connect(tls) == 1)
            ret = exchange(fd, tls, request, address, port, err);
        else
            ret = vt_error_set(err, VT_KIND_INFRA, -EPROTO, "probe %s:%u: TLS: %s", address, port,
                               X509_verify_cert_error_string(SSL_get_verify_result(tls)));
    }
    SSL_free(tls);
    SSL_CTX_free(ctx);
    return ret;
}

int probe_http(const char *address, uint16_t port, const char *path, const char *ca_file,
               struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    char request[256];
    int ret = connect_to(address, port, &fd, err);

    if (ret < 0)
        return ret;
    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
             path, address);
    return ca_file ? exchange_tls(fd, request, ca_file, address, port, err)
                   : exchange(fd, NULL, request, address, port, err);
}
