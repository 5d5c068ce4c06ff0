/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who comes in: accept, TLS, then ENROL where it has no certificate yet, and HELLO, within a time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/scope.h"
#include "orchestrator/hub/internal.h"

#define ACCEPTS_AT_ONCE 64

void hub_tell_refused(struct hub *hub, const char *peer, const struct vt_error *err)
{
    if (hub->events->refused && hub_rate_take(&hub->refused, HUB_REFUSED_PER_S, HUB_REFUSED_BURST))
        hub->events->refused(hub->ctx, peer, err);
}

/* --- the end of a connection --- */
static void on_greeting_closed(uv_handle_t *handle)
{
    struct hub_peer *peer = handle->data;
    struct hub *hub = peer->hub;
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        hub->peers = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    free(peer);
    hub_free_when_done(hub);
}

static void stop_greeting(struct hub_peer *peer)
{
    if (!peer->greeter)
        return;
    peer->greeter = false;
    peer->hub->ngreeters--;
    uv_timer_stop(&peer->greeting);
}

static void conn_closed(void *ctx, const struct vt_error *err)
{
    struct hub_peer *peer = ctx;
    struct hub *hub = peer->hub;
    const struct vt_error *why = peer->why.code != 0 ? &peer->why : err;
    bool was_greeter = peer->greeter;
    peer->conn = NULL;
    stop_greeting(peer);
    if (peer->agent)
        hub_agent_goes(peer->agent, why);
    else if (was_greeter && !peer->enrolled && !hub->closing)
        hub_tell_refused(hub, peer->name, why);
    uv_close((uv_handle_t *)&peer->greeting, on_greeting_closed);
}

static void on_greeting_late(uv_timer_t *timer)
{
    struct hub_peer *peer = timer->data;
    vt_error_set(&peer->why, VT_KIND_REFUSED, -ETIMEDOUT, "did not say who it is within %.1f s",
                 (double)peer->hub->greeting_ns / 1e9);
    wire_conn_abort(peer->conn);
}

/* --- what it says --- */
static int check_address(const struct hub_agent *agent, const struct hub_peer *peer,
                         struct vt_error *err)
{
    if (!strcmp(agent->address, peer->address))
        return 0;
    return vt_error_set(err, VT_KIND_REFUSED, -EACCES, "agent %s must come from %s, not from %s",
                        agent->name, agent->address, peer->address);
}

/* One text for a name that is not expected and a token that is not its: strangers learn nothing.
 * The comparison takes the same time in all cases. */
static int check_token(struct hub_agent *agent, const struct wire_hello *hello,
                       struct vt_error *err)
{
    static const uint8_t nobody[HUB_HASH_BYTES];
    uint8_t hash[HUB_HASH_BYTES];
    hub_hash(hello->token, strlen(hello->token), hash);
    int differs = CRYPTO_memcmp(hash, agent ? agent->token_hash : nobody, sizeof hash);
    if (!agent || differs)
        return vt_error_set(err, VT_KIND_REFUSED, -EACCES, "enrol %s: the token is not valid",
                            hello->agent);
    if (!agent->token_good)
        return vt_error_set(err, VT_KIND_REFUSED, -EACCES,
                            "enrol %s: the token has been used; it is good once", agent->name);
    return 0;
}

static int sign(struct hub_agent *agent, const struct hub_peer *peer,
                const struct wire_hello *hello, struct vt_buf *pem, struct vt_error *err)
{
    struct vt_cert_wanted wanted = {
        .names = {agent->name, *agent->host_name ? agent->host_name : NULL},
        .address = agent->address,
        .server = true,
        .client = true,
    };
    X509 *cert = NULL;
    vt_cert_window(&wanted, peer->hub->run_ns);
    int rc = vt_ca_sign_request(peer->hub->ca, hello->csr, strlen(hello->csr), &wanted, pem, err);
    if (rc == 0)
        rc = vt_cert_read(pem->data, pem->len, &cert, err);
    if (rc < 0)
        return vt_error_wrap(err, "enrol %s", agent->name);
    X509_digest(cert, EVP_sha256(), agent->cert_hash, NULL);
    X509_free(cert);
    return 0;
}

static int take_enrol(struct hub_peer *peer, const struct wire_frame *frame, struct vt_error *err)
{
    VT_AUTO_FREE struct wire_hello *hello = calloc(1, sizeof *hello);
    VT_AUTO_BUF struct vt_buf pem = VT_BUF_INIT(VT_CERT_PEM_MAX);
    int64_t v;
    if (!hello)
        return vt_error_no_memory(err, "enrol");
    int rc = wire_hello_read(frame, hello, err);
    if (rc == 0)
        rc = wire_version_choose(hello, &v, err);
    if (rc < 0)
        return rc;
    struct hub_agent *agent = hub_find(peer->hub, hello->agent);
    rc = check_token(agent, hello, err);
    if (rc == 0)
        rc = check_address(agent, peer, err);
    if (rc == 0)
        rc = sign(agent, peer, hello, &pem, err);
    if (rc < 0)
        return rc;
    agent->token_good = false;
    agent->enrolled = true;
    peer->enrolled = true;
    memcpy(peer->cert_hash, agent->cert_hash, sizeof peer->cert_hash);
    json_t *json = json_pack("{s:s}", "cert", pem.data);
    rc = wire_conn_send_json(peer->conn, WIRE_ENROLLED, 0, json, err);
    json_decref(json);
    return rc;
}

static const char *const duty_names[] = {"guest", "client", "host"};

/* Where it has just enrolled, the token spoke for it, and for the key of that certificate. */
static int check_hello(struct hub_peer *peer, const struct wire_hello *hello,
                       struct hub_agent **ret, struct vt_error *err)
{
    struct hub_agent *agent = hub_find(peer->hub, hello->agent);
    X509 *cert = peer->has_cert ? vt_link_peer_cert(wire_conn_link(peer->conn)) : NULL;
    bool named = peer->enrolled || (cert && vt_cert_has_name(cert, hello->agent));
    X509_free(cert);
    if (!agent || !named)
        return vt_error_set(err, VT_KIND_REFUSED, -EACCES,
                            "agent %s is not expected, or its certificate is another's",
                            hello->agent);
    if (!agent->enrolled ||
        CRYPTO_memcmp(agent->cert_hash, peer->cert_hash, sizeof peer->cert_hash) != 0)
        return vt_error_set(err, VT_KIND_REFUSED, -EACCES,
                            "agent %s: the certificate is not the one it was given last",
                            agent->name);
    if (strcmp(hello->duty, duty_names[agent->duty]) != 0)
        return vt_error_set(err, VT_KIND_REFUSED, -EACCES, "agent %s has duty %s, not %s",
                            agent->name, duty_names[agent->duty], hello->duty);
    *ret = agent;
    return check_address(agent, peer, err);
}

static int take_hello(struct hub_peer *peer, const struct wire_frame *frame, struct vt_error *err)
{
    VT_AUTO_FREE struct wire_hello *hello = calloc(1, sizeof *hello);
    struct hub *hub = peer->hub;
    struct hub_agent *agent = NULL;
    int64_t v = 0;
    if (!hello)
        return vt_error_no_memory(err, "hello");
    int rc = wire_hello_read(frame, hello, err);
    if (rc == 0)
        rc = wire_version_choose(hello, &v, err);
    if (rc == 0)
        rc = check_hello(peer, hello, &agent, err);
    if (rc < 0)
        return rc;
    json_t *json =
        json_pack("{s:I, s:I, s:I}", "v", (json_int_t)v, "heartbeat_ns",
                  (json_int_t)hub->heartbeat_ns, "silence_ns", (json_int_t)hub->silence_ns);
    rc = wire_conn_send_json(peer->conn, WIRE_WELCOME, 0, json, err);
    json_decref(json);
    if (rc == 0)
        rc = wire_conn_heartbeat(peer->conn, hub->heartbeat_ns, hub->silence_ns, err);
    if (rc < 0)
        return rc;
    stop_greeting(peer);
    wire_conn_limit(peer->conn, HUB_FRAMES_PER_S, HUB_FRAMES_BURST, WIRE_PAYLOAD_MAX);
    hub_agent_goes_up(agent, peer);
    return 0;
}

static int conn_frame(void *ctx, const struct wire_frame *frame, struct vt_error *err)
{
    struct hub_peer *peer = ctx;
    if (peer->agent)
        return hub_receive(peer->agent, frame, err);
    if (!peer->greeter) /* its agent came again meanwhile */
        return vt_error_set(err, VT_KIND_REFUSED, -ECONNRESET, "the agent has come again");
    bool known = peer->has_cert || peer->enrolled;
    if (frame->type == WIRE_ENROL && !known)
        return take_enrol(peer, frame, err);
    if (frame->type == WIRE_HELLO && known)
        return take_hello(peer, frame, err);
    return vt_error_set(err, VT_KIND_REFUSED, -EACCES, "%s",
                        known ? "say hello first"
                              : "without a certificate nothing but enrolment is possible");
}

static void conn_opened(void *ctx)
{
    struct hub_peer *peer = ctx;
    X509 *cert = vt_link_peer_cert(wire_conn_link(peer->conn));
    peer->has_cert = cert && X509_digest(cert, EVP_sha256(), peer->cert_hash, NULL) == 1;
    X509_free(cert);
}

static const struct wire_conn_events conn_events = {
    .opened = conn_opened,
    .frame = conn_frame,
    .closed = conn_closed,
};

/* --- accept --- */
static int stack_links(struct hub *hub, int fd, struct hub_peer *peer, struct vt_error *err)
{
    struct vt_link *below, *link;
    int rc = vt_link_fd_new(hub->loop, fd, HUB_QUEUE_BYTES, &below, err);
    if (rc < 0)
        return rc;
    rc = vt_link_tls_new(below, hub->tls, true, NULL, &link, err);
    if (rc < 0) {
        vt_link_close(below);
        return rc;
    }
    rc = wire_conn_new(hub->loop, link, &conn_events, peer, &peer->conn, err);
    if (rc < 0)
        vt_link_close(link);
    return rc;
}

/* Owns fd. */
static int take_in(struct hub *hub, int fd, const char *address, const char *name,
                   struct vt_error *err)
{
    struct hub_peer *peer = calloc(1, sizeof *peer);
    if (!peer) {
        close(fd);
        return vt_error_no_memory(err, "accept");
    }
    peer->hub = hub;
    vt_text_copy(peer->address, sizeof peer->address, address);
    vt_text_copy(peer->name, sizeof peer->name, name);
    int rc = stack_links(hub, fd, peer, err);
    if (rc < 0) {
        free(peer);
        return rc;
    }
    peer->greeter = true;
    hub->ngreeters++;
    peer->next = hub->peers;
    if (peer->next)
        peer->next->previous = peer;
    hub->peers = peer;
    uv_timer_init(&hub->loop->uv, &peer->greeting);
    peer->greeting.data = peer;
    uv_timer_start(&peer->greeting, on_greeting_late, (uint64_t)(hub->greeting_ns / VT_NS_PER_MS),
                   0);
    wire_conn_limit(peer->conn, HUB_GREETER_FRAMES, HUB_GREETER_FRAMES, HUB_GREETER_BYTES);
    wire_conn_open(peer->conn);
    return 0;
}

/* Only where somebody is expected from; and so that no address can take all places. */
static int admit(const struct hub *hub, const char *address, struct vt_error *err)
{
    unsigned here = 0;
    bool known = false;
    for (size_t i = 0; i < hub->nagents && !known; i++)
        known = !strcmp(hub->agents[i]->address, address);
    if (!known)
        return vt_error_set(err, VT_KIND_REFUSED, -EACCES, "nobody is expected from this address");
    for (const struct hub_peer *peer = hub->peers; peer; peer = peer->next)
        here += peer->greeter && !strcmp(peer->address, address);
    if (here >= HUB_GREETERS_PER_ADDRESS_MAX || hub->ngreeters >= HUB_GREETERS_MAX)
        return vt_error_set(err, VT_KIND_REFUSED, -EBUSY,
                            "too many connections that have not said who they are");
    return 0;
}

union peer_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static void name_peer(const union peer_address *from, char address[HUB_ADDRESS_MAX], char *name,
                      size_t size)
{
    bool is_v4 = from->any.sa_family == AF_INET;
    inet_ntop(from->any.sa_family,
              is_v4 ? (const void *)&from->v4.sin_addr : (const void *)&from->v6.sin6_addr, address,
              HUB_ADDRESS_MAX);
    snprintf(name, size, is_v4 ? "%s:%u" : "[%s]:%u", address,
             ntohs(is_v4 ? from->v4.sin_port : from->v6.sin6_port));
}

void hub_accept(struct hub *hub)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE && !hub->closing; i++) {
        union peer_address from;
        memset(&from, 0, sizeof from);
        socklen_t len = sizeof from;
        struct vt_error err = VT_ERROR_INIT;
        char address[HUB_ADDRESS_MAX] = "", name[HUB_ADDRESS_MAX + 8] = "";
        int fd = accept4(hub->fd, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            hub_pause_accept(hub);
            return;
        }
        if (fd < 0)
            return; /* none left, or it is gone again */
        name_peer(&from, address, name, sizeof name);
        int rc = admit(hub, address, &err);
        if (rc < 0)
            close(fd);
        else
            rc = take_in(hub, fd, address, name, &err);
        if (rc < 0)
            hub_tell_refused(hub, name, &err);
    }
}
