/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/uplink.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "wire/conn.h"
#include "wire/message.h"

#define QUEUE_BYTES (4U << 20)
#define RETRY_FIRST_NS (100 * VT_NS_PER_MS)
#define RETRY_MAX_NS (5 * VT_NS_PER_S)
#define HEALTHY_NS (10 * VT_NS_PER_S)
/* From dialling to welcome; a handshake in a loaded emulated guest takes seconds. */
#define GREETING_NS (30 * VT_NS_PER_S)
#define PORTS_FOLDER "/sys/class/virtio-ports"
/* Limits for what a controller may ask of our heartbeat. */
#define HEARTBEAT_MIN_NS (10 * VT_NS_PER_MS)
#define HEARTBEAT_MAX_NS (60 * VT_NS_PER_S)

enum stage { DOWN, ENROLLING, GREETING, UP };

struct uplink {
    struct uplink_config config;
    const struct uplink_events *events;
    void *ctx;
    X509 *ca;
    struct vt_identity identity; /* cert NULL: only the key for the request, or nothing */
    struct wire_conn *conn;
    enum stage stage;
    uv_timer_t timer; /* the next try; while greeting: its deadline */
    int64_t retry_ns, up_ns;
    struct vt_error why; /* we ended the connection because of this */
    bool closing;
    void (*closed)(void *ctx);
};

static void dial(struct uplink *u);

/* --- the end of a connection, and the next --- */
static void on_timer_closed(uv_handle_t *handle)
{
    struct uplink *u = handle->data;
    void (*closed)(void *) = u->closed;
    void *ctx = u->ctx;
    vt_identity_dispose(&u->identity);
    X509_free(u->ca);
    free(u);
    if (closed)
        closed(ctx);
}

static void on_retry(uv_timer_t *timer)
{
    dial(timer->data);
}

static void try_later(struct uplink *u, const struct vt_error *err)
{
    u->stage = DOWN;
    if (u->up_ns && vt_clock_now_ns() - u->up_ns >= HEALTHY_NS)
        u->retry_ns = RETRY_FIRST_NS;
    u->up_ns = 0;
    uv_timer_start(&u->timer, on_retry, (uint64_t)(u->retry_ns / VT_NS_PER_MS), 0);
    u->retry_ns = u->retry_ns * 2 < RETRY_MAX_NS ? u->retry_ns * 2 : RETRY_MAX_NS;
    u->events->down(u->ctx, err);
}

static void conn_closed(void *ctx, const struct vt_error *err)
{
    struct uplink *u = ctx;
    struct vt_error why = u->why.code ? u->why : *err;
    vt_error_clear(&u->why);
    u->conn = NULL;
    uv_timer_stop(&u->timer);
    if (u->closing)
        uv_close((uv_handle_t *)&u->timer, on_timer_closed);
    else
        try_later(u, &why);
}

static void on_greeting_late(uv_timer_t *timer)
{
    struct uplink *u = timer->data;
    vt_error_set(&u->why, VT_KIND_INFRA, -ETIMEDOUT, "the controller did not answer in time");
    wire_conn_abort(u->conn);
}

/* --- enrolment --- */
static int send_hello(struct uplink *u, enum wire_type type, struct vt_error *err)
{
    VT_AUTO_FREE struct wire_hello *hello = calloc(1, sizeof *hello);
    VT_AUTO_BUF struct vt_buf csr = VT_BUF_INIT(WIRE_CSR_MAX - 1);
    json_t *json;
    if (!hello)
        return vt_error_no_memory(err, "hello");
    hello->v = WIRE_VERSION;
    hello->min = WIRE_VERSION_MIN;
    vt_text_copy(hello->agent, sizeof hello->agent, u->config.conf->agent);
    vt_text_copy(hello->duty, sizeof hello->duty, u->config.duty);
    vt_text_copy(hello->token, sizeof hello->token, u->config.conf->token);
    int rc = 0;
    if (type == WIRE_ENROL) {
        if (!u->identity.key)
            rc = vt_key_make(&u->identity.key, err);
        if (rc == 0)
            rc = vt_request_write(u->identity.key, u->config.conf->agent, &csr, err);
        if (rc < 0)
            return rc;
        vt_text_copy(hello->csr, sizeof hello->csr, csr.data);
    }
    rc = wire_hello_write(type, hello, &json, err);
    if (rc < 0)
        return rc;
    rc = wire_conn_send_json(u->conn, type, 0, json, err);
    json_decref(json);
    return rc;
}

static int take_enrolled(struct uplink *u, const struct wire_frame *frame, struct vt_error *err)
{
    json_t *json;
    const char *pem;
    X509 *cert = NULL;
    int rc = wire_json_read(frame, "enrolment", &json, err);
    if (rc < 0)
        return rc;
    rc = vt_json_get_string(json, "cert", &pem, err);
    if (rc == 0)
        rc = vt_cert_read(pem, strlen(pem), &cert, err);
    if (rc == 0 && X509_check_private_key(cert, u->identity.key) != 1) {
        ERR_clear_error();
        rc = vt_error_refuse(err, "the certificate is not for our key");
    }
    json_decref(json);
    if (rc < 0) {
        X509_free(cert);
        return rc;
    }
    u->identity.cert = cert;
    if (u->config.cert_file)
        rc = vt_identity_save(&u->identity, u->config.cert_file, u->config.key_file, err);
    if (rc < 0)
        return rc;
    u->stage = GREETING;
    return send_hello(u, WIRE_HELLO, err);
}

/* --- frames --- */
static int take_welcome(struct uplink *u, const struct wire_frame *frame, struct vt_error *err)
{
    int64_t v, heartbeat_ns, silence_ns;
    json_t *json;
    int rc = wire_json_read(frame, "welcome", &json, err);
    if (rc < 0)
        return rc;
    rc = vt_json_get_int(json, "v", WIRE_VERSION_MIN, WIRE_VERSION, &v, err);
    if (rc == 0)
        rc = vt_json_get_int(json, "heartbeat_ns", HEARTBEAT_MIN_NS, HEARTBEAT_MAX_NS,
                             &heartbeat_ns, err);
    if (rc == 0)
        rc = vt_json_get_int(json, "silence_ns", heartbeat_ns, 10 * HEARTBEAT_MAX_NS, &silence_ns,
                             err);
    json_decref(json);
    if (rc == 0)
        rc = wire_conn_heartbeat(u->conn, heartbeat_ns, silence_ns, err);
    if (rc < 0)
        return rc;
    uv_timer_stop(&u->timer);
    u->stage = UP;
    u->up_ns = vt_clock_now_ns();
    u->events->up(u->ctx);
    return 0;
}

static int take_call(struct uplink *u, const struct wire_frame *frame, struct vt_error *err)
{
    json_t *json;
    const json_t *params;
    const char *op;
    int rc = wire_json_read(frame, "call", &json, err);
    if (rc < 0)
        return rc;
    rc = wire_call_read(json, &op, &params, err);
    if (rc == 0)
        u->events->call(u->ctx, frame->stream, op, params);
    json_decref(json);
    return rc;
}

static int conn_frame(void *ctx, const struct wire_frame *frame, struct vt_error *err)
{
    struct uplink *u = ctx;
    if (u->stage == ENROLLING && frame->type == WIRE_ENROLLED)
        return take_enrolled(u, frame, err);
    if (u->stage == GREETING && frame->type == WIRE_WELCOME)
        return take_welcome(u, frame, err);
    if (u->stage == UP && frame->type == WIRE_CALL)
        return take_call(u, frame, err);
    return vt_error_refuse(err, "a frame of type %d was not expected", (int)frame->type);
}

static void conn_opened(void *ctx)
{
    struct uplink *u = ctx;
    struct vt_error err = VT_ERROR_INIT;
    if (send_hello(u, u->stage == ENROLLING ? WIRE_ENROL : WIRE_HELLO, &err) == 0)
        return;
    u->why = err;
    wire_conn_abort(u->conn);
}

static void conn_drained(void *ctx)
{
    struct uplink *u = ctx;
    if (u->stage == UP && u->events->drained)
        u->events->drained(u->ctx);
}

static const struct wire_conn_events conn_events = {
    .opened = conn_opened,
    .frame = conn_frame,
    .drained = conn_drained,
    .closed = conn_closed,
};

/* --- dialling --- */

/* "/dev/vport1p1" for the port's name. */
static int find_port(const char *name, char *path, size_t size, struct vt_error *err)
{
    DIR *ports = opendir(PORTS_FOLDER);
    struct dirent *entry;
    bool found = false;
    while (ports && !found && (entry = readdir(ports))) {
        char file[512], line[128] = "";
        snprintf(file, sizeof file, PORTS_FOLDER "/%s/name", entry->d_name);
        VT_AUTO_FCLOSE FILE *in = fopen(file, "re");
        if (!in || !fgets(line, sizeof line, in))
            continue;
        line[strcspn(line, "\n")] = '\0';
        found = !strcmp(line, name);
        snprintf(path, size, "/dev/%s", entry->d_name);
    }
    if (ports)
        closedir(ports);
    if (found)
        return 0;
    return vt_error_set(err, VT_KIND_INFRA, -ENOENT, "no virtio-serial port has the name %s", name);
}

/* "10.86.0.1:7700" into address and a socket address. */
static int read_endpoint(const char *text, char *host, size_t size, struct sockaddr_in *ret,
                         struct vt_error *err)
{
    const char *colon = strrchr(text, ':');
    int64_t port;
    if (!colon || (size_t)(colon - text) >= size)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "controller '%s': not address:port",
                            text);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    int rc = vt_text_parse_int(colon + 1, 1, 65535, &port, err);
    if (rc == 0 && uv_ip4_addr(host, (int)port, ret) < 0)
        rc = vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "controller '%s': not address:port", text);
    return rc;
}

static int make_bottom(struct uplink *u, char *name, size_t size, struct vt_link **ret,
                       struct vt_error *err)
{
    const struct vt_confdisk *conf = u->config.conf;
    struct sockaddr_in address;
    char path[300];
    int rc;
    if (*conf->controller) {
        rc = read_endpoint(conf->controller, name, size, &address, err);
        return rc < 0 ? rc
                      : vt_link_tcp_new(u->config.loop, (struct sockaddr *)&address, QUEUE_BYTES,
                                        ret, err);
    }
    vt_text_copy(name, size, WIRE_CONTROLLER);
    rc = find_port(conf->channel, path, sizeof path, err);
    return rc < 0 ? rc : vt_link_port_new(u->config.loop, path, QUEUE_BYTES, ret, err);
}

static int make_conn(struct uplink *u, struct vt_error *err)
{
    struct vt_link *below = NULL, *link = NULL;
    SSL_CTX *tls = NULL;
    char name[64];
    int rc = vt_tls_client_ctx(u->ca, u->identity.cert ? &u->identity : NULL, &tls, err);
    if (rc < 0)
        return rc;
    rc = make_bottom(u, name, sizeof name, &below, err);
    if (rc == 0 && (rc = vt_link_tls_new(below, tls, false, name, &link, err)) < 0)
        vt_link_close(below);
    SSL_CTX_free(tls); /* the link has its own reference */
    if (rc < 0)
        return rc;
    rc = wire_conn_new(u->config.loop, link, &conn_events, u, &u->conn, err);
    if (rc < 0)
        vt_link_close(link);
    return rc;
}

static void dial(struct uplink *u)
{
    struct vt_error err = VT_ERROR_INIT;
    if (u->closing)
        return;
    if (!u->identity.cert && !*u->config.conf->token)
        vt_error_set(&err, VT_KIND_CONFIG, -ENOKEY, "neither a certificate nor a token is there");
    else
        make_conn(u, &err);
    if (err.code < 0) {
        try_later(u, &err);
        return;
    }
    u->stage = u->identity.cert ? GREETING : ENROLLING;
    uv_timer_start(&u->timer, on_greeting_late, GREETING_NS / VT_NS_PER_MS, 0);
    wire_conn_open(u->conn);
}

/* --- life --- */
static int load_identity(struct uplink *u, struct vt_error *err)
{
    if (!u->config.cert_file)
        return 0;
    int rc = vt_identity_load(u->config.cert_file, u->config.key_file, &u->identity, err);
    if (rc == -ENOENT) {
        vt_error_clear(err);
        return 0;
    }
    return rc;
}

int uplink_new(const struct uplink_config *config, const struct uplink_events *events, void *ctx,
               struct uplink **ret, struct vt_error *err)
{
    if (!*config->conf->controller && !*config->conf->channel)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "the configuration names neither controller nor channel");
    struct uplink *u = calloc(1, sizeof *u);
    if (!u)
        return vt_error_no_memory(err, "reach the controller");
    *u = (struct uplink){
        .config = *config, .events = events, .ctx = ctx, .retry_ns = RETRY_FIRST_NS};
    int rc = vt_cert_read(config->conf->ca, strlen(config->conf->ca), &u->ca, err);
    if (rc == 0)
        rc = load_identity(u, err);
    if (rc < 0) {
        X509_free(u->ca);
        free(u);
        return rc;
    }
    uv_timer_init(&config->loop->uv, &u->timer);
    u->timer.data = u;
    *ret = u;
    return 0;
}

void uplink_start(struct uplink *u)
{
    uv_timer_start(&u->timer, on_retry, 0, 0);
}

bool uplink_is_up(const struct uplink *u)
{
    return u->stage == UP && u->conn;
}

void uplink_send(struct uplink *u, enum wire_type type, uint16_t stream, const void *data,
                 size_t len)
{
    struct vt_error err = VT_ERROR_INIT;
    if (!uplink_is_up(u) || u->why.code || u->closing)
        return;
    if (wire_conn_send(u->conn, type, stream, data, len, &err) == 0)
        return;
    u->why = err;
    wire_conn_abort(u->conn);
}

void uplink_send_json(struct uplink *u, enum wire_type type, uint16_t stream, json_t *json)
{
    VT_AUTO_FREE char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text)
        uplink_send(u, type, stream, text, strlen(text));
}

void uplink_reply(struct uplink *u, uint16_t stream, json_t *result, const struct vt_error *failure)
{
    uplink_send_json(u, WIRE_REPLY, stream, wire_reply_write(result, failure));
    json_decref(result);
}

void uplink_event(struct uplink *u, const char *kind, const char *text, json_t *more)
{
    json_t *json = more ? more : json_object();
    json_object_set_new(json, "kind", json_string(kind));
    json_object_set_new(json, "text", json_string(text));
    uplink_send_json(u, WIRE_EVENT, 0, json);
}

size_t uplink_queued(const struct uplink *u)
{
    return u->conn ? wire_conn_queued(u->conn) : 0;
}

X509 *uplink_ca(const struct uplink *u)
{
    return u->ca;
}

void uplink_close(struct uplink *u, void (*closed)(void *ctx))
{
    if (u->closing)
        return;
    u->closing = true;
    u->closed = closed;
    if (u->conn) {
        wire_conn_close(u->conn);
    } else {
        uv_timer_stop(&u->timer);
        uv_close((uv_handle_t *)&u->timer, on_timer_closed);
    }
}
