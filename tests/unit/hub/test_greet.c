/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come in and who may not; over real sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "hub_rig.h"

static void expect_refused(struct fake_agent *agent, const char *says)
{
    run_until(&loop, &agent->closed, 1);
    run_until(&loop, &seen.refused, 1);
    if (!strstr(seen.text, says))
        fail_msg("'%s' does not say '%s'", seen.text, says);
    assert_int_equal(seen.up, 0);
    assert_int_equal(agent->err.kind, VT_KIND_REFUSED);
    assert_non_null(strstr(agent->err.text, says)); /* the agent is told the same */
}

/* --- the right one --- */
static void test_the_right_agent_comes_in(void **state)
{
    (void)state;
    hub_rig_come_up();
    assert_string_equal(seen.agent, "web-1");
    assert_true(hub_is_up(hub, "web-1"));
    assert_false(hub_is_up(hub, "client"));
    assert_true(vt_cert_has_name(identity.cert, "web-1"));
    assert_true(vt_cert_has_name(identity.cert, "web"));
    assert_int_equal(X509_check_ip_asc(identity.cert, "127.0.0.1", 0), 1);
    assert_int_equal(seen.refused, 0);
}

/* Waits for the certificate; the connection stays. */
static void enrol_and_stay(EVP_PKEY **ret_key)
{
    assert_int_equal(vt_key_make(ret_key, NULL), 0);
    hub_rig_dial(&one, NULL);
    fake_send_enrol(&one, "web-1", token, *ret_key);
    run_until(&loop, &one.frames, 1);
    assert_int_equal(one.last_type, WIRE_ENROLLED);
}

static void test_hello_follows_enrolment(void **state)
{
    (void)state;
    EVP_PKEY *key;
    enrol_and_stay(&key);
    fake_send_hello(&one, "web-1", "guest");
    run_until(&loop, &seen.up, 1);
    assert_string_equal(seen.agent, "web-1");
    EVP_PKEY_free(key);
}

static void test_enrolment_is_for_one_name(void **state)
{
    (void)state;
    EVP_PKEY *key;
    enrol_and_stay(&key);
    fake_send_hello(&one, "client", "client");
    run_until(&loop, &one.closed, 1);
    assert_non_null(strstr(one.err.text, "not the one it was given last"));
    assert_int_equal(seen.up, 0);
    EVP_PKEY_free(key);
}

static void test_rearming_voids_an_enrolment_under_way(void **state)
{
    (void)state;
    EVP_PKEY *key;
    enrol_and_stay(&key);
    assert_int_equal(hub_rearm(hub, "web-1", NULL), 0);
    fake_send_hello(&one, "web-1", "guest");
    run_until(&loop, &one.closed, 1);
    assert_non_null(strstr(one.err.text, "not the one it was given last"));
    assert_int_equal(seen.up, 0);
    EVP_PKEY_free(key);
}

static void test_it_may_come_again_with_its_certificate(void **state)
{
    (void)state;
    hub_rig_come_up();
    fake_end(&one);
    run_until(&loop, &seen.lost, 1);
    hub_rig_dial(&one, &identity);
    fake_send_hello(&one, "web-1", "guest");
    run_until(&loop, &seen.up, 2);
}

static void test_coming_again_replaces_the_old_connection(void **state)
{
    (void)state;
    hub_rig_come_up();
    hub_rig_dial(&two, &identity);
    fake_send_hello(&two, "web-1", "guest");
    run_until(&loop, &seen.up, 2);
    assert_int_equal(seen.lost, 1);
    run_until(&loop, &one.closed, 1);
    assert_true(hub_is_up(hub, "web-1"));
}

static void test_clock(void **state)
{
    (void)state;
    int64_t offset_ns, rtt_ns;
    hub_rig_come_up();
    for (int i = 0; i < 10000 && !hub_agent_clock(hub, "web-1", &offset_ns, &rtt_ns); i++)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_true(hub_agent_clock(hub, "web-1", &offset_ns, &rtt_ns));
    assert_true(llabs(offset_ns) <= rtt_ns / 2 + 1); /* one machine, one clock */
}

/* --- the wrong ones --- */
static void test_wrong_token(void **state)
{
    (void)state;
    EVP_PKEY *key;
    assert_int_equal(vt_key_make(&key, NULL), 0);
    hub_rig_dial(&one, NULL);
    token[0] = token[0] == '0' ? '1' : '0';
    fake_send_enrol(&one, "web-1", token, key);
    expect_refused(&one, "token is not valid");
    EVP_PKEY_free(key);
}

static void test_token_of_another(void **state)
{
    (void)state;
    EVP_PKEY *key;
    assert_int_equal(vt_key_make(&key, NULL), 0);
    hub_rig_dial(&one, NULL);
    fake_send_enrol(&one, "web-1", client_token, key);
    expect_refused(&one, "token is not valid");
    EVP_PKEY_free(key);
}

static void test_unknown_name_looks_like_a_wrong_token(void **state)
{
    (void)state;
    EVP_PKEY *key;
    assert_int_equal(vt_key_make(&key, NULL), 0);
    hub_rig_dial(&one, NULL);
    fake_send_enrol(&one, "web-2", token, key);
    expect_refused(&one, "token is not valid");
    EVP_PKEY_free(key);
}

static void test_used_token(void **state)
{
    (void)state;
    EVP_PKEY *key;
    hub_rig_enrol("web-1", token, &identity);
    assert_int_equal(vt_key_make(&key, NULL), 0);
    hub_rig_dial(&one, NULL);
    fake_send_enrol(&one, "web-1", token, key);
    expect_refused(&one, "has been used");
    EVP_PKEY_free(key);
}

static void test_rearmed_token_is_good_once_more(void **state)
{
    (void)state;
    struct vt_identity old;
    hub_rig_come_up();
    old = identity;
    identity = (struct vt_identity)VT_IDENTITY_INIT;
    assert_int_equal(hub_rearm(hub, "web-1", NULL), 0);
    run_until(&loop, &seen.lost, 1);
    hub_rig_enrol("web-1", token, &identity);
    hub_rig_dial(&two, &old); /* the certificate from before is good no more */
    fake_send_hello(&two, "web-1", "guest");
    run_until(&loop, &two.closed, 1);
    assert_non_null(strstr(two.err.text, "not the one it was given last"));
    vt_identity_dispose(&old);
    fake_end(&two);
    hub_rig_dial(&two, &identity);
    fake_send_hello(&two, "web-1", "guest");
    run_until(&loop, &seen.up, 2);
}

static void test_bad_request_does_not_use_the_token_up(void **state)
{
    (void)state;
    hub_rig_dial(&one, NULL);
    fake_send_json(&one, WIRE_ENROL, 0,
                   json_pack("{s:i,s:i,s:s,s:s,s:s}", "v", 2, "min", 1, "agent", "web-1", "token",
                             token, "csr", "rubbish"));
    expect_refused(&one, "certificate request");
    hub_rig_enrol("web-1", token, &identity);
}

static void test_newer_protocol_is_told_both_versions(void **state)
{
    (void)state;
    hub_rig_dial(&one, NULL);
    fake_send_json(&one, WIRE_ENROL, 0,
                   json_pack("{s:i,s:i,s:s,s:s,s:s}", "v", 9, "min", 8, "agent", "web-1", "token",
                             token, "csr", "rubbish"));
    expect_refused(&one, "8 to 9");
    assert_non_null(strstr(seen.text, "2 to 2"));
}

static void expect_tls_refused(const struct vt_identity *id, const char *says)
{
    fake_dial(&one, &loop, hub_port(hub), vt_ca_cert(ca), id);
    run_until(&loop, &one.closed, 1);
    run_until(&loop, &seen.refused, 1);
    if (!strstr(seen.text, says))
        fail_msg("'%s' does not say '%s'", seen.text, says);
    assert_int_equal(seen.up, 0);
}

static void test_certificate_of_another_ca(void **state)
{
    (void)state;
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .client = true};
    vt_cert_window(&wanted, VT_NS_PER_S);
    hub_rig_enrol("web-1", token, &client_identity);
    assert_int_equal(vt_ca_make_identity(other_ca, &wanted, &identity, NULL), 0);
    expect_tls_refused(&identity, "certificate of the peer");
}

static void test_expired_certificate(void **state)
{
    (void)state;
    int64_t now_s = vt_clock_wall_ns() / VT_NS_PER_S;
    struct vt_cert_wanted wanted = {
        .names = {"web-1"}, .client = true, .not_before_s = now_s - 60, .not_after_s = now_s - 1};
    assert_int_equal(vt_ca_make_identity(ca, &wanted, &identity, NULL), 0);
    expect_tls_refused(&identity, "expired");
}

/* Of our CA, but never given to this agent by this hub. */
static void test_certificate_that_was_not_given_here(void **state)
{
    (void)state;
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .client = true};
    vt_cert_window(&wanted, VT_NS_PER_S);
    hub_rig_enrol("web-1", token, &client_identity);
    assert_int_equal(vt_ca_make_identity(ca, &wanted, &identity, NULL), 0);
    hub_rig_dial(&one, &identity);
    fake_send_hello(&one, "web-1", "guest");
    expect_refused(&one, "not the one it was given last");
}

static void test_certificate_of_another_agent(void **state)
{
    (void)state;
    hub_rig_enrol("web-1", token, &identity);
    hub_rig_enrol("client", client_token, &client_identity);
    hub_rig_dial(&one, &identity);
    fake_send_hello(&one, "client", "client");
    expect_refused(&one, "its certificate is another's");
}

static void test_wrong_duty(void **state)
{
    (void)state;
    hub_rig_enrol("web-1", token, &identity);
    hub_rig_dial(&one, &identity);
    fake_send_hello(&one, "web-1", "client");
    expect_refused(&one, "has duty guest");
}

static void test_hello_without_certificate(void **state)
{
    (void)state;
    hub_rig_dial(&one, NULL);
    fake_send_hello(&one, "web-1", "guest");
    expect_refused(&one, "without a certificate");
}

static void test_address_of_another(void **state)
{
    (void)state;
    char elsewhere[HUB_TOKEN_CHARS + 1];
    EVP_PKEY *key;
    assert_int_equal(hub_make_token(elsewhere, NULL), 0);
    struct hub_expected guest = {"infra-1", HUB_GUEST, elsewhere, "127.0.0.9", NULL};
    assert_int_equal(hub_expect(hub, &guest, NULL), 0);
    assert_int_equal(vt_key_make(&key, NULL), 0);
    hub_rig_dial(&one, NULL);
    fake_send_enrol(&one, "infra-1", elsewhere, key);
    expect_refused(&one, "must come from 127.0.0.9");
    EVP_PKEY_free(key);
}

/* --- strangers on plain sockets --- */
static int connect_from(const char *address)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, address, &from.sin_addr);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(hub_port(hub));
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The end that the hub made of the connection, once it comes. */
static bool has_ended(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n > 0)
        recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void run_until_ended(int fd)
{
    int64_t until_ns = vt_clock_now_ns() + 20 * VT_NS_PER_S;
    while (!has_ended(fd) && vt_clock_now_ns() < until_ns)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    assert_true(has_ended(fd));
    close(fd);
}

static void test_address_nobody_is_expected_from(void **state)
{
    (void)state;
    int fd = connect_from("127.0.0.77");
    run_until_ended(fd);
    assert_int_equal(seen.refused, 1);
    assert_int_equal(strncmp(seen.peer, "127.0.0.77:", 11), 0);
}

static void test_plain_garbage(void **state)
{
    (void)state;
    int fd = connect_from("127.0.0.1");
    assert_int_equal(write(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27), 27);
    run_until_ended(fd);
    run_until(&loop, &seen.refused, 1);
}

/* Says nothing at all, or only the handshake: both must go in time. */
static void test_silence_is_not_waited_for(void **state)
{
    (void)state;
    struct hub *patient = hub;
    struct hub_config config = {
        .loop = &loop, .ca = ca, .address = "127.0.0.1", .greeting_ns = 300 * VT_NS_PER_MS};
    assert_int_equal(hub_new(&config, &hub_rig_events, &seen, &hub, NULL), 0);
    struct hub_expected guest = {"web-1", HUB_GUEST, token, "127.0.0.1", NULL};
    assert_int_equal(hub_expect(hub, &guest, NULL), 0);
    int fd = connect_from("127.0.0.1");
    hub_rig_dial(&one, NULL);
    run_until_ended(fd);
    run_until(&loop, &one.closed, 1);
    run_until(&loop, &seen.refused, 2);
    assert_non_null(strstr(seen.text, "did not say who it is within 0.3 s"));
    hub_close(hub, hub_rig_closed, NULL);
    run_until(&loop, &seen.hub_closed, 1);
    seen.hub_closed = 0;
    hub = patient;
}

/* What an agent is told, and holds the controller to as well. */
static void test_silence_that_loses_an_agent(void **state)
{
    (void)state;
    struct hub *impatient = hub;
    struct hub_config config = {.loop = &loop, .ca = ca, .address = "127.0.0.1"};
    json_int_t silence_ns = 0;
    assert_int_equal(hub_new(&config, &hub_rig_events, &seen, &hub, NULL), 0);
    struct hub_expected guest = {"web-1", HUB_GUEST, token, "127.0.0.1", NULL};
    assert_int_equal(hub_expect(hub, &guest, NULL), 0);
    hub_rig_come_up();
    json_t *welcome = json_loadb(one.last.data, one.last.len, 0, NULL);
    assert_int_equal(json_unpack(welcome, "{s:I}", "silence_ns", &silence_ns), 0);
    assert_int_equal(silence_ns, 30 * VT_NS_PER_S);
    json_decref(welcome);
    hub_close(hub, hub_rig_closed, NULL);
    run_until(&loop, &seen.hub_closed, 1);
    run_until(&loop, &one.closed, 1);
    seen.hub_closed = 0;
    hub = impatient;
}

static void *tls_1_2(void *arg)
{
    int fd = *(int *)arg;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    intptr_t rc = SSL_connect(ssl);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return (void *)rc;
}

static void test_tls_1_2(void **state)
{
    (void)state;
    pthread_t thread;
    void *rc;
    int fd = connect_from("127.0.0.1");
    assert_int_equal(pthread_create(&thread, NULL, tls_1_2, &fd), 0);
    run_until(&loop, &seen.refused, 1);
    assert_non_null(strstr(seen.text, "unsupported protocol"));
    pthread_join(thread, &rc);
    assert_int_not_equal((intptr_t)rc, 1);
    close(fd);
}

/* Connections that say nothing take the places of their own address only, and only so many. */
static void test_slow_loris(void **state)
{
    (void)state;
    enum { MANY = HUB_GREETERS_PER_ADDRESS_MAX + 20 };
    int fds[MANY];
    unsigned ended = 0;
    char other[HUB_TOKEN_CHARS + 1];
    assert_int_equal(hub_make_token(other, NULL), 0);
    struct hub_expected guest = {"infra-1", HUB_GUEST, other, "127.0.0.9", NULL};
    assert_int_equal(hub_expect(hub, &guest, NULL), 0);
    for (int i = 0; i < MANY; i++)
        fds[i] = connect_from("127.0.0.1");
    run_until(&loop, &seen.refused, 20);
    assert_non_null(strstr(seen.text, "too many connections"));
    for (int i = 0; i < MANY; i++)
        ended += has_ended(fds[i]);
    assert_int_equal(ended, 20);
    /* From another address one still comes through to the handshake. */
    int fd = connect_from("127.0.0.9");
    pthread_t thread;
    void *rc;
    assert_int_equal(pthread_create(&thread, NULL, tls_1_2, &fd), 0);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    while (pthread_tryjoin_np(thread, &rc) != 0)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    close(fd);
}

#define T(test) cmocka_unit_test_setup_teardown(test, hub_rig_setup, hub_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_the_right_agent_comes_in),
        T(test_hello_follows_enrolment),
        T(test_enrolment_is_for_one_name),
        T(test_rearming_voids_an_enrolment_under_way),
        T(test_it_may_come_again_with_its_certificate),
        T(test_coming_again_replaces_the_old_connection),
        T(test_clock),
        T(test_wrong_token),
        T(test_token_of_another),
        T(test_unknown_name_looks_like_a_wrong_token),
        T(test_used_token),
        T(test_rearmed_token_is_good_once_more),
        T(test_bad_request_does_not_use_the_token_up),
        T(test_newer_protocol_is_told_both_versions),
        T(test_certificate_of_another_ca),
        T(test_expired_certificate),
        T(test_certificate_that_was_not_given_here),
        T(test_certificate_of_another_agent),
        T(test_wrong_duty),
        T(test_hello_without_certificate),
        T(test_address_of_another),
        T(test_address_nobody_is_expected_from),
        T(test_plain_garbage),
        T(test_silence_is_not_waited_for),
        T(test_silence_that_loses_an_agent),
        T(test_tls_1_2),
        T(test_slow_loris),
    };
    return cmocka_run_group_tests(tests, hub_rig_setup_all, hub_rig_teardown_all);
}
