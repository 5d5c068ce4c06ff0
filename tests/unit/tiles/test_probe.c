/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest's question to its own server says: not yet, or wrong for good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cert.h"
#include "base/file.h"
#include "base/scope.h"
#include "tiles/roles/probe.h"

/* Takes one connection. */
struct server {
    int fd;
    uint16_t port;
    const char *answer; /* NULL: it closes without a word */
    SSL_CTX *tls;       /* NULL: plain */
    pthread_t thread;
};

static void serve_tls(const struct server *server, int fd)
{
    SSL *tls = SSL_new(server->tls);

    SSL_set_fd(tls, fd);
    SSL_accept(tls);
    SSL_free(tls);
}

static void *serve(void *arg)
{
    const struct server *server = arg;
    int fd = accept(server->fd, NULL, NULL);
    char request[512];

    if (fd >= 0 && server->tls)
        serve_tls(server, fd);
    else if (fd >= 0 && server->answer && recv(fd, request, sizeof(request), 0) > 0)
        send(fd, server->answer, strlen(server->answer), MSG_NOSIGNAL);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void listen_to(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
}

static int ask(struct server *server, const char *ca_file, struct vt_error *err)
{
    int ret;

    listen_to(server);
    assert_int_equal(listen(server->fd, 1), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    ret = probe_http("127.0.0.1", server->port, "/", ca_file, err);
    pthread_join(server->thread, NULL);
    close(server->fd);
    return ret;
}

static void test_plain(void **state)
{
    static const struct {
        const char *answer;
        int code;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", 0},
        {"HTTP/1.1 503 Service Unavailable\r\n\r\n", -EAGAIN},
        {"HTTP/1.1 404 Not Found\r\n\r\n", -EPROTO},
        {"* OK imap\r\n", -EAGAIN},
        {NULL, -EAGAIN},
    };
    struct server server = {0};
    struct vt_error err;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        server.answer = cases[i].answer;
        err = (struct vt_error)VT_ERROR_INIT;
        assert_int_equal(ask(&server, NULL, &err), cases[i].code);
        assert_int_equal(err.code, cases[i].code);
    }
    listen_to(&server); /* bound, and nobody listens */
    assert_int_equal(probe_http("127.0.0.1", server.port, "/", NULL, &err), -EAGAIN);
    close(server.fd);
}

static void make_identity(struct vt_identity *identity, char *ca_file)
{
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .address = "127.0.0.1", .server = true};
    VT_AUTO_BUF struct vt_buf pem = VT_BUF_INIT(VT_CERT_PEM_MAX);
    int fd = mkstemp(ca_file);

    assert_true(fd >= 0);
    close(fd);
    vt_cert_window(&wanted, 0);
    assert_int_equal(vt_cert_self_signed(&wanted, identity, NULL), 0);
    assert_int_equal(vt_cert_write(identity->cert, &pem, NULL), 0);
    assert_int_equal(vt_file_write(ca_file, pem.data, pem.len, 0600, NULL), 0);
}

static void test_tls(void **state)
{
    char own[] = "/tmp/vt-probe-XXXXXX", other[] = "/tmp/vt-probe-XXXXXX";
    VT_AUTO_IDENTITY struct vt_identity identity = VT_IDENTITY_INIT, stranger = VT_IDENTITY_INIT;
    struct vt_error err = VT_ERROR_INIT;
    struct server server = {0};

    (void)state;
    make_identity(&identity, own);
    make_identity(&stranger, other);
    /* It accepts and ends, as one does that is just starting. */
    assert_int_equal(ask(&server, own, &err), -EAGAIN);
    assert_non_null(strstr(err.text, "no TLS yet"));
    /* A certificate that is not to be trusted stays so. */
    server.tls = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(server.tls, stranger.cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(server.tls, stranger.key), 1);
    assert_int_equal(ask(&server, own, &err), -EPROTO);
    assert_non_null(strstr(err.text, "certificate"));
    SSL_CTX_free(server.tls);
    unlink(own);
    unlink(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_tls),
    };

    signal(SIGPIPE, SIG_IGN); /* as the agent does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
