/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS filter against itself, and against OpenSSL's own blocking calls in a thread. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cert.h"
#include "base/clock.h"
#include "base/link.h"
#include "link_peer.h"

static char ca_dir[64];
static struct vt_ca *ca, *other_ca;
static struct vt_identity server_id, client_id;
static SSL_CTX *server_ctx, *client_ctx;

static void make_identity(const struct vt_ca *by, const char *name, const char *address,
                          struct vt_identity *ret)
{
    struct vt_cert_wanted wanted = {
        .names = {name}, .address = address, .server = true, .client = true};
    vt_cert_window(&wanted, VT_NS_PER_S);
    assert_int_equal(vt_ca_make_identity(by, &wanted, ret, NULL), 0);
}

static int setup_all(void **state)
{
    (void)state;
    snprintf(ca_dir, sizeof ca_dir, "/tmp/vt-test-XXXXXX");
    assert_non_null(mkdtemp(ca_dir));
    char other[80];
    snprintf(other, sizeof other, "%s/other", ca_dir);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(vt_ca_open(ca_dir, &ca, NULL), 0);
    assert_int_equal(vt_ca_open(other, &other_ca, NULL), 0);
    make_identity(ca, "controller", "127.0.0.1", &server_id);
    make_identity(ca, "web-1", NULL, &client_id);
    assert_int_equal(vt_tls_server_ctx(&server_id, vt_ca_cert(ca), &server_ctx, NULL), 0);
    assert_int_equal(vt_tls_client_ctx(vt_ca_cert(ca), &client_id, &client_ctx, NULL), 0);
    return 0;
}

static int teardown_all(void **state)
{
    (void)state;
    char path[96];
    SSL_CTX_free(server_ctx);
    SSL_CTX_free(client_ctx);
    vt_identity_dispose(&server_id);
    vt_identity_dispose(&client_id);
    vt_ca_free(ca);
    vt_ca_free(other_ca);
    snprintf(path, sizeof path, "%s/other/ca.pem", ca_dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/other", ca_dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/ca.pem", ca_dir);
    unlink(path);
    return rmdir(ca_dir);
}

static void attach_tls(struct link_peer *peer, int fd, SSL_CTX *ctx, bool server, const char *name)
{
    struct vt_link *below, *link;
    assert_int_equal(vt_link_fd_new(&loop, fd, QUEUE_MAX, &below, NULL), 0);
    assert_int_equal(vt_link_tls_new(below, ctx, server, name, &link, NULL), 0);
    link_peer_attach(peer, link);
    vt_link_open(link);
}

/* a is the client, b the server. */
static void start_pair(SSL_CTX *client, SSL_CTX *server, const char *name)
{
    int fds[2];
    link_sockets(fds);
    attach_tls(&a, fds[0], client, false, name);
    attach_tls(&b, fds[1], server, true, NULL);
}

static void open_pair(const char *name)
{
    start_pair(client_ctx, server_ctx, name);
    run_until(&a.opened);
    run_until(&b.opened);
}

static void test_both_sides_know_each_other(void **state)
{
    (void)state;
    open_pair("127.0.0.1");
    X509 *cert = vt_link_peer_cert(b.link);
    assert_non_null(cert);
    assert_true(vt_cert_has_name(cert, "web-1"));
    assert_false(vt_cert_has_name(cert, "web-2"));
    X509_free(cert);
    assert_int_equal(vt_link_send(a.link, "ping", 4, NULL), 0);
    run_until_bytes(&b.got, 4);
    assert_int_equal(vt_link_send(b.link, "pong!", 5, NULL), 0);
    run_until_bytes(&a.got, 5);
    assert_memory_equal(a.got.data, "pong!", 5);
}

static void test_host_name_is_checked(void **state)
{
    (void)state;
    open_pair("controller");
}

static void expect_client_refuses(const char *name, const char *says)
{
    start_pair(client_ctx, server_ctx, name);
    run_until(&a.closed);
    assert_int_equal(a.opened, 0);
    assert_int_equal(a.end, VT_LINK_FAILED);
    assert_int_equal(a.err.kind, VT_KIND_REFUSED);
    if (!strstr(a.err.text, says))
        fail_msg("'%s' does not say '%s'", a.err.text, says);
    run_until(&b.closed);
}

static void test_wrong_host_name_is_refused(void **state)
{
    (void)state;
    expect_client_refuses("elsewhere", "hostname mismatch");
}

static void test_wrong_address_is_refused(void **state)
{
    (void)state;
    expect_client_refuses("127.0.0.2", "IP address mismatch");
}

/* The server learns it by its own check, the client by the alert that follows. */
static void expect_server_refuses(SSL_CTX *client, const char *says)
{
    start_pair(client, server_ctx, "127.0.0.1");
    run_until(&b.closed);
    assert_int_equal(b.opened, 0);
    if (!strstr(b.err.text, says))
        fail_msg("'%s' does not say '%s'", b.err.text, says);
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_FAILED);
    if (!strstr(a.err.text, "alert"))
        fail_msg("'%s' does not name the alert", a.err.text);
}

static void test_certificate_of_another_ca_is_refused(void **state)
{
    (void)state;
    struct vt_identity id;
    SSL_CTX *ctx;
    make_identity(other_ca, "web-1", NULL, &id);
    assert_int_equal(vt_tls_client_ctx(vt_ca_cert(ca), &id, &ctx, NULL), 0);
    expect_server_refuses(ctx, "unable to get local issuer certificate");
    SSL_CTX_free(ctx);
    vt_identity_dispose(&id);
}

static void test_expired_certificate_is_refused(void **state)
{
    (void)state;
    struct vt_identity id;
    SSL_CTX *ctx;
    int64_t now_s = vt_clock_wall_ns() / VT_NS_PER_S;
    struct vt_cert_wanted wanted = {
        .names = {"web-1"}, .client = true, .not_before_s = now_s - 100, .not_after_s = now_s - 1};
    assert_int_equal(vt_ca_make_identity(ca, &wanted, &id, NULL), 0);
    assert_int_equal(vt_tls_client_ctx(vt_ca_cert(ca), &id, &ctx, NULL), 0);
    expect_server_refuses(ctx, "certificate has expired");
    SSL_CTX_free(ctx);
    vt_identity_dispose(&id);
}

static void test_server_certificate_is_no_client_certificate(void **state)
{
    (void)state;
    struct vt_identity id;
    SSL_CTX *ctx;
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .server = true};
    vt_cert_window(&wanted, VT_NS_PER_S);
    assert_int_equal(vt_ca_make_identity(ca, &wanted, &id, NULL), 0);
    assert_int_equal(vt_tls_client_ctx(vt_ca_cert(ca), &id, &ctx, NULL), 0);
    expect_server_refuses(ctx, "unsuitable certificate purpose");
    SSL_CTX_free(ctx);
    vt_identity_dispose(&id);
}

static void test_client_may_come_without_certificate(void **state)
{
    (void)state;
    SSL_CTX *ctx;
    assert_int_equal(vt_tls_client_ctx(vt_ca_cert(ca), NULL, &ctx, NULL), 0);
    start_pair(ctx, server_ctx, "127.0.0.1");
    run_until(&b.opened);
    assert_null(vt_link_peer_cert(b.link));
    SSL_CTX_free(ctx);
}

static void test_self_signed_is_trusted_by_who_has_it(void **state)
{
    (void)state;
    struct vt_identity id;
    SSL_CTX *server, *client;
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .address = "127.0.0.1", .server = true};
    vt_cert_window(&wanted, VT_NS_PER_S);
    assert_int_equal(vt_cert_self_signed(&wanted, &id, NULL), 0);
    assert_int_equal(vt_tls_server_ctx(&id, NULL, &server, NULL), 0);
    assert_int_equal(vt_tls_client_ctx(id.cert, NULL, &client, NULL), 0);
    start_pair(client, server, "127.0.0.1");
    run_until(&a.opened);
    SSL_CTX_free(server);
    SSL_CTX_free(client);
    vt_identity_dispose(&id);
}

static void test_shut_is_an_orderly_end(void **state)
{
    (void)state;
    static uint8_t data[50000];
    open_pair("127.0.0.1");
    size_t total = 0;
    while (vt_link_send(a.link, data, sizeof data, NULL) == 0)
        total += sizeof data;
    assert_true(vt_link_queued(a.link) > 0);
    vt_link_shut(a.link);
    run_until(&b.closed);
    assert_int_equal(b.end, VT_LINK_EOF);
    assert_int_equal(b.got.len, total);
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_EOF);
}

/* Whoever cuts the TCP stream must not be taken for the peer. */
static void test_fin_without_close_notify_is_truncation(void **state)
{
    (void)state;
    open_pair("127.0.0.1");
    assert_int_equal(vt_link_send(a.link, "x", 1, NULL), 0);
    vt_link_shut(a.link->below);
    run_until(&b.closed);
    assert_int_equal(b.got.len, 1);
    assert_int_equal(b.end, VT_LINK_TRUNCATED);
}

static void test_end_inside_the_handshake_is_a_failure(void **state)
{
    (void)state;
    int fds[2];
    link_sockets(fds);
    attach_tls(&a, fds[0], client_ctx, false, NULL);
    uv_run(&loop.uv, UV_RUN_NOWAIT);
    close(fds[1]);
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_FAILED);
}

static void test_garbage_is_refused(void **state)
{
    (void)state;
    int fds[2];
    link_sockets(fds);
    attach_tls(&b, fds[1], server_ctx, true, NULL);
    assert_int_equal(write(fds[0], "GET / HTTP/1.0\r\n\r\n", 18), 18);
    assert_int_equal(shutdown(fds[0], SHUT_WR), 0);
    run_until(&b.closed);
    assert_int_equal(b.end, VT_LINK_FAILED);
    assert_int_equal(b.err.kind, VT_KIND_REFUSED);
    close(fds[0]);
}

static void close_it(struct link_peer *peer)
{
    vt_link_close(peer->link);
    vt_link_close(peer->link);
}

static void test_close_inside_data_stops_the_rest(void **state)
{
    (void)state;
    open_pair("127.0.0.1");
    b.on_data = close_it;
    assert_int_equal(vt_link_send(a.link, "one", 3, NULL), 0); /* two records, read at once */
    assert_int_equal(vt_link_send(a.link, "two", 3, NULL), 0);
    run_until(&b.closed);
    assert_int_equal(b.got.len, 3);
    assert_int_equal(b.err.code, -ECANCELED);
}

static void test_close_inside_opened(void **state)
{
    (void)state;
    start_pair(client_ctx, server_ctx, "127.0.0.1");
    a.on_opened = close_it;
    run_until(&a.closed);
    run_until(&b.closed);
}

static void test_queue_bound_holds_through_tls(void **state)
{
    (void)state;
    static uint8_t data[QUEUE_MAX];
    open_pair("127.0.0.1");
    /* Sealed it would be longer than the queue may be. */
    assert_int_equal(vt_link_send(a.link, data, sizeof data, NULL), -ENOBUFS);
    assert_int_equal(vt_link_send(a.link, data, sizeof data - 1024, NULL), 0);
    run_until_bytes(&b.got, sizeof data - 1024);
    assert_int_equal(a.closed, 0);
}

/* --- OpenSSL's own client and server, blocking, in a thread --- */
struct stock {
    SSL_CTX *ctx;
    bool server;
    int fd;
    int (*script)(SSL *ssl);
    int result;
};

static void *run_stock(void *arg)
{
    struct stock *stock = arg;
    SSL *ssl = SSL_new(stock->ctx);
    SSL_set_fd(ssl, stock->fd);
    if ((stock->server ? SSL_accept(ssl) : SSL_connect(ssl)) == 1)
        stock->result = stock->script(ssl);
    SSL_free(ssl);
    close(stock->fd);
    return NULL;
}

static pthread_t start_stock(struct stock *stock, int fd)
{
    pthread_t thread;
    stock->fd = fd;
    stock->result = -1;
    assert_int_equal(pthread_create(&thread, NULL, run_stock, stock), 0);
    return thread;
}

/* Tickets after the handshake, a key update that asks for ours, data, more tickets, an end. */
static int serve_with_extras(SSL *ssl)
{
    char in[5] = "";
    size_t n;
    if (SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) != 1 || SSL_write(ssl, "hello", 5) != 5)
        return -2;
    if (SSL_new_session_ticket(ssl) != 1 || SSL_write(ssl, " again", 6) != 6)
        return -3;
    if (SSL_read_ex(ssl, in, 4, &n) != 1 || n != 4 || memcmp(in, "ping", 4) != 0)
        return -4;
    SSL_shutdown(ssl);
    return SSL_read(ssl, in, sizeof in) == 0 ? 0 : -5; /* close_notify came back */
}

static void test_tickets_and_key_updates_do_no_harm(void **state)
{
    (void)state;
    int fds[2];
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(ctx, server_id.cert);
    SSL_CTX_use_PrivateKey(ctx, server_id.key);
    SSL_CTX_set_num_tickets(ctx, 4);
    struct stock stock = {.ctx = ctx, .server = true, .script = serve_with_extras};
    link_sockets(fds);
    pthread_t thread = start_stock(&stock, fds[1]);
    attach_tls(&a, fds[0], client_ctx, false, "127.0.0.1");
    run_until_bytes(&a.got, 11);
    assert_memory_equal(a.got.data, "hello again", 11);
    assert_int_equal(vt_link_send(a.link, "ping", 4, NULL), 0);
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_EOF);
    pthread_join(thread, NULL);
    assert_int_equal(stock.result, 0);
    SSL_CTX_free(ctx);
}

static int no_script(SSL *ssl)
{
    (void)ssl;
    return 0;
}

static void test_tls_1_2_is_refused(void **state)
{
    (void)state;
    int fds[2];
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    struct stock stock = {.ctx = ctx, .script = no_script};
    link_sockets(fds);
    pthread_t thread = start_stock(&stock, fds[0]);
    attach_tls(&b, fds[1], server_ctx, true, NULL);
    run_until(&b.closed);
    assert_int_equal(b.opened, 0);
    assert_non_null(strstr(b.err.text, "unsupported protocol"));
    pthread_join(thread, NULL);
    assert_int_equal(stock.result, -1);
    SSL_CTX_free(ctx);
}

#define T(test) cmocka_unit_test_setup_teardown(test, link_setup, link_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_both_sides_know_each_other),
        T(test_host_name_is_checked),
        T(test_wrong_host_name_is_refused),
        T(test_wrong_address_is_refused),
        T(test_certificate_of_another_ca_is_refused),
        T(test_expired_certificate_is_refused),
        T(test_server_certificate_is_no_client_certificate),
        T(test_client_may_come_without_certificate),
        T(test_self_signed_is_trusted_by_who_has_it),
        T(test_shut_is_an_orderly_end),
        T(test_fin_without_close_notify_is_truncation),
        T(test_end_inside_the_handshake_is_a_failure),
        T(test_garbage_is_refused),
        T(test_close_inside_data_stops_the_rest),
        T(test_close_inside_opened),
        T(test_queue_bound_holds_through_tls),
        T(test_tickets_and_key_updates_do_no_harm),
        T(test_tls_1_2_is_refused),
    };
    return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
