/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come in, who may not, and what an agent that is in may say; over real sockets. */
#include "orchestrator/hub/hub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "fake_agent.h"

static char dir[64];
static struct vt_ca *ca, *other_ca;
static struct vt_loop loop;
static struct hub *hub;
static char token[HUB_TOKEN_CHARS + 1], client_token[HUB_TOKEN_CHARS + 1];
static struct fake_agent one, two;
static struct vt_identity identity, client_identity;

static struct seen {
    unsigned up, lost, refused, events, samples, loads, logs, hub_closed, done;
    char agent[64], peer[64], text[VT_ERROR_TEXT_MAX], kind[64], log[64], operation[32];
    struct vt_error err; /* of the last call, or of the loss */
    int64_t sample_ns;
    double value;
    uint64_t intended;
    char result[128];
} seen;

static void agent_up(void *ctx, const char *agent)
{
    (void)ctx;
    seen.up++;
    vt_text_copy(seen.agent, sizeof seen.agent, agent);
}

static void agent_lost(void *ctx, const char *agent, const struct vt_error *err)
{
    (void)ctx;
    (void)agent;
    seen.lost++;
    vt_text_copy(seen.text, sizeof seen.text, err->text);
}

static void agent_event(void *ctx, const char *agent, const char *kind, const char *text,
                        const json_t *data)
{
    (void)ctx;
    (void)agent;
    assert_true(json_is_object(data));
    seen.events++;
    vt_text_copy(seen.kind, sizeof seen.kind, kind);
    vt_text_copy(seen.text, sizeof seen.text, text);
}

static void sample(void *ctx, const char *agent, int64_t time_ns, const char *series, double value)
{
    (void)ctx;
    (void)agent;
    seen.samples++;
    seen.sample_ns = time_ns;
    seen.value = value;
    vt_text_copy(seen.kind, sizeof seen.kind, series);
}

static void load(void *ctx, const char *agent, unsigned tile, const char *role,
                 const struct vt_load_second *second)
{
    (void)ctx;
    (void)agent;
    seen.loads++;
    assert_int_equal(tile, 1);
    assert_string_equal(role, "web");
    seen.intended += second->intended;
    vt_text_copy(seen.operation, sizeof seen.operation, second->operation);
}

static void log_piece(void *ctx, const char *agent, const char *name, const uint8_t *data,
                      size_t len)
{
    (void)ctx;
    (void)agent;
    seen.logs++;
    snprintf(seen.log, sizeof seen.log, "%s:%.*s", name, (int)len, (const char *)data);
}

static void refused(void *ctx, const char *peer, const struct vt_error *err)
{
    (void)ctx;
    vt_text_copy(seen.peer, sizeof seen.peer, peer);
    seen.refused++;
    vt_text_copy(seen.text, sizeof seen.text, err->text);
}

static const struct hub_events events = {agent_up, agent_lost, agent_event, sample,
                                         load,     log_piece,  refused};

static void done(void *ctx, const json_t *result, const struct vt_error *err)
{
    assert_ptr_equal(ctx, &seen);
    assert_true((result != NULL) == (err == NULL));
    seen.done++;
    if (err)
        seen.err = *err;
    const char *text = json_string_value(json_object_get(result, "text"));
    vt_text_copy(seen.result, sizeof seen.result, text ? text : "");
}

static void hub_closed(void *ctx)
{
    (void)ctx;
    seen.hub_closed++;
}

static int setup_all(void **state)
{
    (void)state;
    char other[80];
    strcpy(dir, "/tmp/vt-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(other, sizeof other, "%s/other", dir);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(vt_ca_open(dir, &ca, NULL), 0);
    assert_int_equal(vt_ca_open(other, &other_ca, NULL), 0);
    return 0;
}

static int teardown_all(void **state)
{
    (void)state;
    char path[96];
    vt_ca_free(ca);
    vt_ca_free(other_ca);
    snprintf(path, sizeof path, "%s/other/ca.pem", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/other", dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/ca.pem", dir);
    unlink(path);
    return rmdir(dir);
}

static int setup(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    assert_int_equal(vt_loop_init(&loop, NULL), 0);
    struct hub_config config = {.loop = &loop,
                                .ca = ca,
                                .address = "127.0.0.1",
                                .run_ns = 60 * VT_NS_PER_S,
                                .heartbeat_ns = 20 * VT_NS_PER_MS,
                                .silence_ns = 5 * VT_NS_PER_S};
    assert_int_equal(hub_new(&config, &events, &seen, &hub, NULL), 0);
    assert_int_equal(hub_make_token(token, NULL), 0);
    assert_int_equal(hub_make_token(client_token, NULL), 0);
    struct hub_expected guest = {"web-1", HUB_GUEST, token, "127.0.0.1", "web"};
    struct hub_expected client = {"client", HUB_CLIENT, client_token, "127.0.0.1", NULL};
    assert_int_equal(hub_expect(hub, &guest, NULL), 0);
    assert_int_equal(hub_expect(hub, &client, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hub_close(hub, hub_closed, NULL);
    run_until(&loop, &seen.hub_closed, 1);
    fake_end(&one);
    fake_end(&two);
    vt_identity_dispose(&identity);
    vt_identity_dispose(&client_identity);
    vt_loop_dispose(&loop);
    return 0;
}

static void dial(struct fake_agent *agent, const struct vt_identity *id)
{
    fake_dial(agent, &loop, hub_port(hub), vt_ca_cert(ca), id);
    run_until(&loop, &agent->opened, 1);
}

static void enrol(const char *name, const char *with_token, struct vt_identity *ret)
{
    struct fake_agent greeter;
    EVP_PKEY *key;
    assert_int_equal(vt_key_make(&key, NULL), 0);
    dial(&greeter, NULL);
    fake_send_enrol(&greeter, name, with_token, key);
    fake_take_cert(&greeter, key, ret);
    fake_end(&greeter);
}

static void come_up(void)
{
    enrol("web-1", token, &identity);
    dial(&one, &identity);
    fake_send_hello(&one, "web-1", "guest");
    run_until(&loop, &seen.up, 1);
    run_until(&loop, &one.frames, 1);
    assert_int_equal(one.last_type, WIRE_WELCOME);
}

static void client_comes_up(void)
{
    enrol("client", client_token, &client_identity);
    dial(&one, &client_identity);
    fake_send_hello(&one, "client", "client");
    run_until(&loop, &seen.up, 1);
}

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
    come_up();
    assert_string_equal(seen.agent, "web-1");
    assert_true(hub_is_up(hub, "web-1"));
    assert_false(hub_is_up(hub, "client"));
    assert_true(vt_cert_has_name(identity.cert, "web-1"));
    assert_true(vt_cert_has_name(identity.cert, "web"));
    assert_int_equal(X509_check_ip_asc(identity.cert, "127.0.0.1", 0), 1);
    assert_int_equal(seen.refused, 0);
}

static void test_it_may_come_again_with_its_certificate(void **state)
{
    (void)state;
    come_up();
    fake_end(&one);
    run_until(&loop, &seen.lost, 1);
    dial(&one, &identity);
    fake_send_hello(&one, "web-1", "guest");
    run_until(&loop, &seen.up, 2);
}

static void test_coming_again_replaces_the_old_connection(void **state)
{
    (void)state;
    come_up();
    dial(&two, &identity);
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
    come_up();
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
    dial(&one, NULL);
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
    dial(&one, NULL);
    fake_send_enrol(&one, "web-1", client_token, key);
    expect_refused(&one, "token is not valid");
    EVP_PKEY_free(key);
}

static void test_unknown_name_looks_like_a_wrong_token(void **state)
{
    (void)state;
    EVP_PKEY *key;
    assert_int_equal(vt_key_make(&key, NULL), 0);
    dial(&one, NULL);
    fake_send_enrol(&one, "web-2", token, key);
    expect_refused(&one, "token is not valid");
    EVP_PKEY_free(key);
}

static void test_used_token(void **state)
{
    (void)state;
    EVP_PKEY *key;
    enrol("web-1", token, &identity);
    assert_int_equal(vt_key_make(&key, NULL), 0);
    dial(&one, NULL);
    fake_send_enrol(&one, "web-1", token, key);
    expect_refused(&one, "has been used");
    EVP_PKEY_free(key);
}

static void test_rearmed_token_is_good_once_more(void **state)
{
    (void)state;
    struct vt_identity old;
    come_up();
    old = identity;
    identity = (struct vt_identity)VT_IDENTITY_INIT;
    assert_int_equal(hub_rearm(hub, "web-1", NULL), 0);
    run_until(&loop, &seen.lost, 1);
    enrol("web-1", token, &identity);
    dial(&two, &old); /* the certificate from before is good no more */
    fake_send_hello(&two, "web-1", "guest");
    run_until(&loop, &two.closed, 1);
    assert_non_null(strstr(two.err.text, "not the one it was given last"));
    vt_identity_dispose(&old);
    fake_end(&two);
    dial(&two, &identity);
    fake_send_hello(&two, "web-1", "guest");
    run_until(&loop, &seen.up, 2);
}

static void test_bad_request_does_not_use_the_token_up(void **state)
{
    (void)state;
    dial(&one, NULL);
    fake_send_json(&one, WIRE_ENROL, 0,
                   json_pack("{s:i,s:i,s:s,s:s,s:s}", "v", 1, "min", 1, "agent", "web-1", "token",
                             token, "csr", "rubbish"));
    expect_refused(&one, "certificate request");
    enrol("web-1", token, &identity);
}

static void test_newer_protocol_is_told_both_versions(void **state)
{
    (void)state;
    dial(&one, NULL);
    fake_send_json(&one, WIRE_ENROL, 0,
                   json_pack("{s:i,s:i,s:s,s:s,s:s}", "v", 9, "min", 8, "agent", "web-1", "token",
                             token, "csr", "rubbish"));
    expect_refused(&one, "8 to 9");
    assert_non_null(strstr(seen.text, "1 to 1"));
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
    enrol("web-1", token, &client_identity);
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
    enrol("web-1", token, &client_identity);
    assert_int_equal(vt_ca_make_identity(ca, &wanted, &identity, NULL), 0);
    dial(&one, &identity);
    fake_send_hello(&one, "web-1", "guest");
    expect_refused(&one, "not the one it was given last");
}

static void test_certificate_of_another_agent(void **state)
{
    (void)state;
    enrol("web-1", token, &identity);
    enrol("client", client_token, &client_identity);
    dial(&one, &identity);
    fake_send_hello(&one, "client", "client");
    expect_refused(&one, "its certificate is another's");
}

static void test_wrong_duty(void **state)
{
    (void)state;
    enrol("web-1", token, &identity);
    dial(&one, &identity);
    fake_send_hello(&one, "web-1", "client");
    expect_refused(&one, "has duty guest");
}

static void test_hello_without_certificate(void **state)
{
    (void)state;
    dial(&one, NULL);
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
    dial(&one, NULL);
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
    assert_int_equal(hub_new(&config, &events, &seen, &hub, NULL), 0);
    struct hub_expected guest = {"web-1", HUB_GUEST, token, "127.0.0.1", NULL};
    assert_int_equal(hub_expect(hub, &guest, NULL), 0);
    int fd = connect_from("127.0.0.1");
    dial(&one, NULL);
    run_until_ended(fd);
    run_until(&loop, &one.closed, 1);
    run_until(&loop, &seen.refused, 2);
    assert_non_null(strstr(seen.text, "did not say who it is within 0.3 s"));
    hub_close(hub, hub_closed, NULL);
    run_until(&loop, &seen.hub_closed, 1);
    seen.hub_closed = 0;
    hub = patient;
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

/* --- what an agent that is in may say --- */
static void expect_lost(const char *says)
{
    run_until(&loop, &seen.lost, 1);
    if (!strstr(seen.text, says))
        fail_msg("'%s' does not say '%s'", seen.text, says);
    run_until(&loop, &one.closed, 1);
    assert_false(hub_is_up(hub, "web-1"));
}

static void test_oversized_frame(void **state)
{
    (void)state;
    static const uint8_t header[] = {0, 4, 0, 1, WIRE_EVENT, 0, 0, 0};
    come_up();
    vt_link_send(wire_conn_link(one.conn), header, sizeof header, NULL);
    expect_lost("262145 bytes");
}

static void test_frame_of_the_controller(void **state)
{
    (void)state;
    come_up();
    fake_send_json(&one, WIRE_WELCOME, 0, json_object());
    expect_lost("a frame that agents do not send");
}

static void test_flood(void **state)
{
    (void)state;
    come_up();
    for (int i = 0; i < 10000; i++)
        if (wire_conn_send(one.conn, WIRE_LOG, 9, "\x01x", 2, NULL) < 0)
            break;
    expect_lost("frames a second");
}

static void test_flood_of_samples(void **state)
{
    (void)state;
    come_up();
    for (int i = 0; i < 100; i++)
        fake_send_json(&one, WIRE_SAMPLE, 0, json_pack("{s:i,s:{}}", "t_ns", 1, "series"));
    expect_lost("too many samples");
}

static void test_event_and_sample(void **state)
{
    (void)state;
    int64_t offset_ns, rtt_ns;
    come_up();
    while (!hub_agent_clock(hub, "web-1", &offset_ns, &rtt_ns))
        uv_run(&loop.uv, UV_RUN_ONCE);
    fake_send_json(&one, WIRE_EVENT, 0,
                   json_pack("{s:s,s:s}", "kind", "server_died", "text", "nginx: signal 9"));
    run_until(&loop, &seen.events, 1);
    assert_string_equal(seen.kind, "server_died");
    assert_string_equal(seen.text, "nginx: signal 9");
    int64_t now_ns = vt_clock_now_ns();
    fake_send_json(&one, WIRE_SAMPLE, 0,
                   json_pack("{s:I,s:{s:f}}", "t_ns", (json_int_t)(now_ns - VT_NS_PER_S), "series",
                             "cpu.user", 0.25));
    run_until(&loop, &seen.samples, 1);
    assert_string_equal(seen.kind, "cpu.user");
    assert_true(seen.value == 0.25);
    assert_in_range(seen.sample_ns, now_ns - VT_NS_PER_S - VT_NS_PER_MS * 500,
                    now_ns - VT_NS_PER_S + VT_NS_PER_MS * 500);
    /* An impossible time is taken as now. */
    fake_send_json(&one, WIRE_SAMPLE, 0,
                   json_pack("{s:I,s:{s:f}}", "t_ns", (json_int_t)7, "series", "cpu.user", 0.5));
    run_until(&loop, &seen.samples, 2);
    assert_true(seen.sample_ns >= now_ns);
}

/* --- calls --- */
static int call(const char *op, const json_t *params, int64_t timeout_ns)
{
    return hub_call(hub, "web-1", op, params, timeout_ns, done, &seen, NULL);
}

static void test_call_and_reply(void **state)
{
    (void)state;
    json_t *params = json_pack("{s:i}", "seed", 7);
    come_up();
    assert_int_equal(call("prepare", params, VT_NS_PER_S * 10), 0);
    json_decref(params);
    run_until(&loop, &one.frames, 2);
    assert_int_equal(one.last_type, WIRE_CALL);
    assert_int_not_equal(one.last_stream, 0);
    json_t *json = json_loadb(one.last.data, one.last.len, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json, "op")), "prepare");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "params"), "seed")),
                     7);
    json_decref(json);
    /* The log of a call comes before its answer; of no call, nowhere. */
    wire_conn_send(one.conn, WIRE_LOG, one.last_stream,
                   "\x03"
                   "abctext",
                   8, NULL);
    wire_conn_send(one.conn, WIRE_LOG, (uint16_t)(one.last_stream + 1),
                   "\x03"
                   "abctext",
                   8, NULL);
    fake_send_json(&one, WIRE_REPLY, one.last_stream,
                   json_pack("{s:b,s:{s:s}}", "ok", 1, "result", "text", "fine"));
    run_until(&loop, &seen.done, 1);
    assert_string_equal(seen.result, "fine");
    assert_int_equal(seen.logs, 1);
    assert_string_equal(seen.log, "abc:text");
    /* A second answer to the same call is nothing. */
    fake_send_json(&one, WIRE_REPLY, one.last_stream, json_pack("{s:b,s:{}}", "ok", 1, "result"));
    run_turns(&loop, 50);
    assert_int_equal(seen.done, 1);
    assert_int_equal(seen.lost, 0);
}

static void test_failed_call_says_whose(void **state)
{
    (void)state;
    come_up();
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), 0);
    run_until(&loop, &one.frames, 2);
    fake_send_json(&one, WIRE_REPLY, one.last_stream,
                   json_pack("{s:b,s:s,s:i}", "ok", 0, "error", "nginx: no such file", "code", -2));
    run_until(&loop, &seen.done, 1);
    assert_int_equal(seen.err.code, -ENOENT);
    assert_string_equal(seen.err.text, "start of web-1: nginx: no such file");
}

static void test_call_times_out(void **state)
{
    (void)state;
    come_up();
    assert_int_equal(call("start", NULL, 50 * VT_NS_PER_MS), 0);
    run_until(&loop, &seen.done, 1);
    assert_int_equal(seen.err.code, -ETIMEDOUT);
    assert_true(hub_is_up(hub, "web-1"));
}

static void test_calls_fail_when_the_agent_is_lost(void **state)
{
    (void)state;
    come_up();
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), 0);
    assert_int_equal(call("check", NULL, VT_NS_PER_S * 10), 0);
    fake_end(&one);
    run_until(&loop, &seen.lost, 1);
    assert_int_equal(seen.done, 2);
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), -ENOTCONN);
}

static void test_calls_fail_when_the_hub_closes(void **state)
{
    (void)state;
    come_up();
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), 0);
    hub_close(hub, hub_closed, NULL);
    assert_int_equal(seen.done, 0);
    run_until(&loop, &seen.hub_closed, 1);
    assert_int_equal(seen.done, 1);
    /* teardown closes once more: a new hub for it */
    seen.hub_closed = 0;
    struct hub_config config = {.loop = &loop, .ca = ca, .address = "127.0.0.1"};
    assert_int_equal(hub_new(&config, &events, &seen, &hub, NULL), 0);
}

static void test_open_calls_are_bounded(void **state)
{
    (void)state;
    come_up();
    for (int i = 0; i < HUB_CALLS_MAX; i++)
        assert_int_equal(call("check", NULL, VT_NS_PER_S * 10), 0);
    assert_int_equal(call("check", NULL, VT_NS_PER_S * 10), -EBUSY);
}

/* --- load --- */
static void send_second(unsigned operation, int64_t second)
{
    static struct vt_hist h;
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    vt_hist_init(&h);
    vt_hist_record(&h, VT_NS_PER_MS);
    struct vt_load_second s = {NULL, second, 1, 1, 0, 0, 0, 9000, &h, &h, &h};
    assert_int_equal(wire_load_write(&out, 1, "web", operation, &s, NULL), 0);
    assert_int_equal(wire_conn_send(one.conn, WIRE_LOAD, 0, out.data, out.len, NULL), 0);
}

static void order_load(void)
{
    json_t *params = json_pack("{s:i,s:s}", "tile", 1, "role", "web");
    assert_int_equal(
        hub_call(hub, "client", "load.prepare", params, VT_NS_PER_S * 10, done, &seen, NULL), 0);
    json_decref(params);
}

static void test_load_comes_through(void **state)
{
    (void)state;
    client_comes_up();
    order_load();
    send_second(0, 0);
    send_second(1, 0);
    send_second(0, 1);
    run_until(&loop, &seen.loads, 3);
    assert_int_equal(seen.intended, 3);
    assert_string_equal(seen.operation, "home"); /* the first page of the web role */
}

static void expect_load_refused(const char *says)
{
    run_until(&loop, &seen.lost, 1);
    if (!strstr(seen.text, says))
        fail_msg("'%s' does not say '%s'", seen.text, says);
}

static void test_load_nobody_asked_for(void **state)
{
    (void)state;
    client_comes_up();
    send_second(0, 0);
    expect_load_refused("was not asked for");
    assert_int_equal(seen.loads, 0);
}

static void test_load_of_no_operation(void **state)
{
    (void)state;
    client_comes_up();
    order_load();
    send_second(15, 0);
    expect_load_refused("does not exist");
}

static void test_a_second_twice(void **state)
{
    (void)state;
    client_comes_up();
    order_load();
    send_second(0, 5);
    send_second(0, 5);
    expect_load_refused("twice");
    assert_int_equal(seen.loads, 1);
}

static void test_load_from_a_guest(void **state)
{
    (void)state;
    come_up();
    send_second(0, 0);
    expect_lost("drives none");
}

static void test_bad_expectations(void **state)
{
    (void)state;
    struct hub_expected twice = {"web-1", HUB_GUEST, token, "127.0.0.1", NULL};
    struct hub_expected bad_name = {"web 1", HUB_GUEST, token, "127.0.0.1", NULL};
    struct hub_expected bad_address = {"web-9", HUB_GUEST, token, "somewhere", NULL};
    assert_int_equal(hub_expect(hub, &twice, NULL), -EEXIST);
    assert_int_equal(hub_expect(hub, &bad_name, NULL), -EINVAL);
    assert_int_equal(hub_expect(hub, &bad_address, NULL), -EINVAL);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_the_right_agent_comes_in),
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
        T(test_tls_1_2),
        T(test_slow_loris),
        T(test_oversized_frame),
        T(test_frame_of_the_controller),
        T(test_flood),
        T(test_flood_of_samples),
        T(test_event_and_sample),
        T(test_call_and_reply),
        T(test_failed_call_says_whose),
        T(test_call_times_out),
        T(test_calls_fail_when_the_agent_is_lost),
        T(test_calls_fail_when_the_hub_closes),
        T(test_open_calls_are_bounded),
        T(test_load_comes_through),
        T(test_load_nobody_asked_for),
        T(test_load_of_no_operation),
        T(test_a_second_twice),
        T(test_load_from_a_guest),
        T(test_bad_expectations),
    };
    return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
