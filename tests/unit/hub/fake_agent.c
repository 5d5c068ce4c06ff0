/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_agent.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void opened(void *ctx)
{
    ((struct fake_agent *)ctx)->opened++;
}

static int frame(void *ctx, const struct wire_frame *f, struct vt_error *err)
{
    struct fake_agent *agent = ctx;
    (void)err;
    agent->frames++;
    agent->last_type = f->type;
    agent->last_stream = f->stream;
    vt_buf_reset(&agent->last);
    vt_buf_add(&agent->last, f->payload, f->len);
    return 0;
}

static void closed(void *ctx, const struct vt_error *err)
{
    struct fake_agent *agent = ctx;
    agent->closed++;
    agent->err = *err;
    agent->conn = NULL;
}

static const struct wire_conn_events events = {.opened = opened, .frame = frame, .closed = closed};

void fake_dial(struct fake_agent *agent, struct vt_loop *loop, uint16_t port, X509 *ca,
               const struct vt_identity *identity)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct vt_link *below, *link;
    *agent = (struct fake_agent){.loop = loop, .last = VT_BUF_INIT(WIRE_PAYLOAD_MAX)};
    assert_int_equal(vt_tls_client_ctx(ca, identity, &agent->tls, NULL), 0);
    assert_int_equal(vt_link_tcp_new(loop, (struct sockaddr *)&address, 8U << 20, &below, NULL), 0);
    assert_int_equal(vt_link_tls_new(below, agent->tls, false, "127.0.0.1", &link, NULL), 0);
    assert_int_equal(wire_conn_new(loop, link, &events, agent, &agent->conn, NULL), 0);
    wire_conn_open(agent->conn);
}

void fake_send_json(struct fake_agent *agent, enum wire_type type, uint16_t stream, json_t *json)
{
    assert_non_null(json);
    assert_int_equal(wire_conn_send_json(agent->conn, type, stream, json, NULL), 0);
    json_decref(json);
}

void fake_send_hello(struct fake_agent *agent, const char *name, const char *duty)
{
    struct wire_hello hello = {.v = WIRE_VERSION, .min = WIRE_VERSION_MIN};
    json_t *json;
    vt_text_copy(hello.agent, sizeof hello.agent, name);
    vt_text_copy(hello.duty, sizeof hello.duty, duty);
    assert_int_equal(wire_hello_write(WIRE_HELLO, &hello, &json, NULL), 0);
    fake_send_json(agent, WIRE_HELLO, 0, json);
}

void fake_send_enrol(struct fake_agent *agent, const char *name, const char *token, EVP_PKEY *key)
{
    static struct wire_hello hello;
    VT_AUTO_BUF struct vt_buf csr = VT_BUF_INIT(WIRE_CSR_MAX);
    json_t *json;
    hello = (struct wire_hello){.v = WIRE_VERSION, .min = WIRE_VERSION_MIN};
    assert_int_equal(vt_request_write(key, name, &csr, NULL), 0);
    vt_text_copy(hello.agent, sizeof hello.agent, name);
    vt_text_copy(hello.token, sizeof hello.token, token);
    vt_text_copy(hello.csr, sizeof hello.csr, csr.data);
    assert_int_equal(wire_hello_write(WIRE_ENROL, &hello, &json, NULL), 0);
    fake_send_json(agent, WIRE_ENROL, 0, json);
}

void fake_take_cert(struct fake_agent *agent, EVP_PKEY *key, struct vt_identity *ret)
{
    run_until(agent->loop, &agent->frames, 1);
    assert_int_equal(agent->last_type, WIRE_ENROLLED);
    json_t *json = json_loadb(agent->last.data, agent->last.len, 0, NULL);
    const char *pem = json_string_value(json_object_get(json, "cert"));
    assert_non_null(pem);
    assert_int_equal(vt_cert_read(pem, strlen(pem), &ret->cert, NULL), 0);
    json_decref(json);
    ret->key = key;
    wire_conn_close(agent->conn);
    run_until(agent->loop, &agent->closed, 1);
}

void fake_end(struct fake_agent *agent)
{
    if (agent->conn)
        wire_conn_abort(agent->conn);
    if (agent->loop)
        while (agent->conn)
            uv_run(&agent->loop->uv, UV_RUN_ONCE);
    SSL_CTX_free(agent->tls);
    vt_buf_dispose(&agent->last);
    memset(agent, 0, sizeof *agent);
}

static void on_tick(uv_timer_t *timer)
{
    ++*(unsigned *)timer->data;
}

void run_until(struct vt_loop *loop, const unsigned *value, unsigned wanted)
{
    unsigned ticks = 0;
    uv_timer_t guard;
    uv_timer_init(&loop->uv, &guard);
    guard.data = &ticks;
    uv_timer_start(&guard, on_tick, 10, 10);
    while (*value < wanted && ticks < 2000)
        uv_run(&loop->uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    assert_true(*value >= wanted);
}

void run_turns(struct vt_loop *loop, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        uv_run(&loop->uv, UV_RUN_NOWAIT);
}
