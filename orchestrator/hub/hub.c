/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/hub/hub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/scope.h"
#include "orchestrator/hub/internal.h"

#define TICK_MS 100
#define LISTEN_BACKLOG 512
#define ACCEPT_PAUSE_NS (500 * VT_NS_PER_MS)

bool hub_rate_take(struct hub_rate *rate, unsigned per_s, unsigned burst)
{
    int64_t now_ns = vt_clock_now_ns(), each_ns = VT_NS_PER_S / per_s;
    if (rate->due_ns < now_ns)
        rate->due_ns = now_ns;
    if (rate->due_ns + each_ns - now_ns > each_ns * burst)
        return false;
    rate->due_ns += each_ns;
    return true;
}

void hub_hash(const void *data, size_t len, uint8_t hash[HUB_HASH_BYTES])
{
    EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL);
}

int hub_make_token(char token[HUB_TOKEN_CHARS + 1], struct vt_error *err)
{
    uint8_t bytes[HUB_TOKEN_CHARS / 2];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "make a token: no random numbers");
    vt_text_hex(bytes, sizeof bytes, token);
    return 0;
}

/* --- agents by name --- */

/* Where name stands or would stand. */
static size_t place_of(const struct hub *hub, const char *name)
{
    size_t low = 0, high = hub->nagents;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(hub->agents[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct hub_agent *hub_find(const struct hub *hub, const char *name)
{
    size_t at = place_of(hub, name);
    bool found = at < hub->nagents && !strcmp(hub->agents[at]->name, name);
    return found ? hub->agents[at] : NULL;
}

static int make_room(struct hub *hub, struct vt_error *err)
{
    if (hub->nagents < hub->agents_cap)
        return 0;
    size_t cap = hub->agents_cap ? hub->agents_cap * 2 : 16;
    struct hub_agent **agents = realloc(hub->agents, cap * sizeof(struct hub_agent *));
    if (!agents)
        return vt_error_no_memory(err, "expect an agent");
    hub->agents = agents;
    hub->agents_cap = cap;
    return 0;
}

int hub_expect(struct hub *hub, const struct hub_expected *e, struct vt_error *err)
{
    if (!wire_name_ok(e->agent) || (e->host_name && !wire_name_ok(e->host_name)))
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "expect agent '%.80s': bad name",
                            e->agent);
    if (!vt_text_is_ip(e->address))
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "expect agent %s: bad address '%.80s'",
                            e->agent, e->address);
    if (hub_find(hub, e->agent))
        return vt_error_set(err, VT_KIND_INFRA, -EEXIST, "agent %s is expected already", e->agent);
    if (hub->nagents >= HUB_AGENTS_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -ENOSPC, "more than %d agents", HUB_AGENTS_MAX);
    int rc = make_room(hub, err);
    if (rc < 0)
        return rc;
    struct hub_agent *agent = calloc(1, sizeof *agent);
    if (!agent)
        return vt_error_no_memory(err, "expect an agent");
    vt_text_copy(agent->name, sizeof agent->name, e->agent);
    vt_text_copy(agent->host_name, sizeof agent->host_name, e->host_name ? e->host_name : "");
    vt_text_copy(agent->address, sizeof agent->address, e->address);
    agent->duty = e->duty;
    agent->token_good = true;
    hub_hash(e->token, strlen(e->token), agent->token_hash);
    size_t at = place_of(hub, agent->name);
    memmove(hub->agents + at + 1, hub->agents + at,
            (hub->nagents - at) * sizeof(struct hub_agent *));
    hub->agents[at] = agent;
    hub->nagents++;
    return 0;
}

int hub_rearm(struct hub *hub, const char *name, struct vt_error *err)
{
    struct hub_agent *agent = hub_find(hub, name);
    if (!agent)
        return vt_error_set(err, VT_KIND_INFRA, -ENOENT, "agent %s is not expected", name);
    agent->token_good = true;
    agent->enrolled = false;
    if (agent->peer) {
        vt_error_set(&agent->peer->why, VT_KIND_INFRA, -ECANCELED, "its guest is restarted");
        wire_conn_abort(agent->peer->conn);
    }
    return 0;
}

void hub_agent_goes_up(struct hub_agent *agent, struct hub_peer *peer)
{
    struct hub *hub = peer->hub;
    struct hub_peer *old = agent->peer;
    if (old) { /* it noticed the end of its connection before we did */
        struct vt_error err = VT_ERROR_INIT;
        vt_error_set(&err, VT_KIND_INFRA, -ECONNRESET, "it came again");
        hub_agent_goes(agent, &err);
        if (old->conn)
            wire_conn_abort(old->conn);
    }
    agent->peer = peer;
    peer->agent = agent;
    if (hub->events->agent_up)
        hub->events->agent_up(hub->ctx, agent->name);
}

void hub_agent_goes(struct hub_agent *agent, const struct vt_error *err)
{
    struct hub *hub = agent->peer->hub;
    agent->peer->agent = NULL;
    agent->peer = NULL;
    struct hub_call **link = &hub->calls, *mine = NULL;
    while (*link) { /* aside first: the callbacks may make calls to others */
        struct hub_call *call = *link;
        if (call->agent != agent) {
            link = &call->next;
            continue;
        }
        *link = call->next;
        call->next = mine;
        mine = call;
    }
    if (hub->events->agent_lost)
        hub->events->agent_lost(hub->ctx, agent->name, err);
    while (mine) {
        struct hub_call *call = mine;
        struct vt_error why = *err;
        mine = call->next;
        vt_error_wrap(&why, "%s of %s: the agent was lost", call->op, agent->name);
        agent->ncalls--;
        call->done(call->ctx, NULL, &why);
        free(call);
    }
}

bool hub_is_up(const struct hub *hub, const char *name)
{
    const struct hub_agent *agent = hub_find(hub, name);
    return agent && agent->peer;
}

bool hub_agent_clock(const struct hub *hub, const char *name, int64_t *ret_offset_ns,
                     int64_t *ret_rtt_ns)
{
    const struct hub_agent *agent = hub_find(hub, name);
    return agent && agent->peer && agent->peer->conn &&
           wire_conn_clock(agent->peer->conn, ret_offset_ns, ret_rtt_ns);
}

/* --- load --- */
static struct hub_stream *add_stream(struct hub_agent *agent, struct vt_error *err)
{
    struct hub_stream *streams = NULL;
    if (agent->nstreams < HUB_STREAMS_MAX)
        streams = realloc(agent->streams, (agent->nstreams + 1) * sizeof *streams);
    if (!streams) {
        vt_error_set(err, VT_KIND_INFRA, -E2BIG, "agent %s: too many roles to drive", agent->name);
        return NULL;
    }
    agent->streams = streams;
    return &streams[agent->nstreams++];
}

int hub_admit_load(struct hub *hub, const char *name, unsigned tile, const char *role,
                   struct vt_error *err)
{
    struct hub_agent *agent = hub_find(hub, name);
    if (!agent)
        return vt_error_set(err, VT_KIND_INFRA, -ENOENT, "agent %s is not expected", name);
    if (tile < 1 || tile > VT_RECORD_TILES_MAX || strlen(role) >= VT_RECORD_NAME_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "agent %s: load of tile %u, role '%.40s'",
                            name, tile, role);
    struct hub_stream *stream = hub_find_stream(agent, tile, role);
    if (!stream && !(stream = add_stream(agent, err)))
        return -E2BIG;
    stream->tile = tile;
    vt_text_copy(stream->role, sizeof stream->role, role);
    for (unsigned i = 0; i < VT_RECORD_OPERATIONS_MAX; i++)
        stream->last_second[i] = -1;
    return 0;
}

bool hub_agent_answered(const struct hub *hub, const char *name, int64_t *ret_at_ns,
                        int64_t *ret_rtt_ns)
{
    const struct hub_agent *agent = hub_find(hub, name);
    return agent && agent->peer && agent->peer->conn &&
           wire_conn_last_trip(agent->peer->conn, ret_at_ns, ret_rtt_ns);
}

/* --- calls --- */
struct hub_call *hub_call_find(struct hub_agent *agent, uint16_t stream)
{
    for (struct hub_call *call = agent->peer->hub->calls; call; call = call->next)
        if (call->agent == agent && call->stream == stream)
            return call;
    return NULL;
}

void hub_call_end(struct hub *hub, struct hub_call *call, const json_t *result,
                  const struct vt_error *err)
{
    for (struct hub_call **link = &hub->calls; *link; link = &(*link)->next) {
        if (*link != call)
            continue;
        *link = call->next;
        call->agent->ncalls--;
        call->done(call->ctx, result, err);
        free(call);
        return;
    }
}

static void on_accept(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    hub_accept(poll->data);
}

/* The first that has passed: ending one may change the list in any way. */
static struct hub_call *overdue(const struct hub *hub, int64_t now_ns)
{
    for (struct hub_call *call = hub->calls; call; call = call->next)
        if (call->deadline_ns <= now_ns)
            return call;
    return NULL;
}

static void on_tick(uv_timer_t *timer)
{
    struct hub *hub = timer->data;
    int64_t now_ns = vt_clock_now_ns();
    struct hub_call *call;
    while ((call = overdue(hub, now_ns))) {
        struct vt_error err = VT_ERROR_INIT;
        vt_error_set(&err, VT_KIND_INFRA, -ETIMEDOUT, "%s of %s: no answer within %.1f s", call->op,
                     call->agent->name, (double)call->timeout_ns / 1e9);
        hub_call_end(hub, call, NULL, &err);
    }
    if (hub->closing)
        return;
    if (hub->accept_paused_ns && now_ns >= hub->accept_paused_ns) {
        hub->accept_paused_ns = 0;
        uv_poll_start(&hub->accept, UV_READABLE, on_accept);
    }
    if (!hub->calls && !hub->accept_paused_ns)
        uv_timer_stop(timer);
}

void hub_pause_accept(struct hub *hub)
{
    hub->accept_paused_ns = vt_clock_now_ns() + ACCEPT_PAUSE_NS;
    uv_poll_stop(&hub->accept);
    uv_timer_start(&hub->tick, on_tick, TICK_MS, TICK_MS);
}

static int send_call(struct hub_agent *agent, struct hub_call *call, const json_t *params,
                     struct vt_error *err)
{
    do {
        if (++agent->next_stream == 0)
            agent->next_stream = 1;
    } while (hub_call_find(agent, agent->next_stream));
    call->stream = agent->next_stream;
    json_t *json = wire_call_write(call->op, params);
    int rc = json ? wire_conn_send_json(agent->peer->conn, WIRE_CALL, call->stream, json, err)
                  : vt_error_no_memory(err, "write the call");
    json_decref(json);
    return rc;
}

int hub_call(struct hub *hub, const char *name, const char *op, const json_t *params,
             int64_t timeout_ns,
             void (*done)(void *ctx, const json_t *result, const struct vt_error *err), void *ctx,
             struct vt_error *err)
{
    struct hub_agent *agent = hub_find(hub, name);
    if (!agent || !agent->peer || hub->closing)
        return vt_error_set(err, VT_KIND_INFRA, -ENOTCONN, "%s of %s: the agent is not there", op,
                            name);
    if (agent->ncalls >= HUB_CALLS_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -EBUSY, "%s of %s: %d calls are open already", op,
                            name, HUB_CALLS_MAX);
    VT_AUTO_FREE struct hub_call *call = calloc(1, sizeof *call);
    if (!call)
        return vt_error_no_memory(err, "%s of %s", op, name);
    call->agent = agent;
    call->timeout_ns = timeout_ns;
    call->deadline_ns = vt_clock_now_ns() + timeout_ns;
    call->done = done;
    call->ctx = ctx;
    vt_text_copy(call->op, sizeof call->op, op);
    int rc = send_call(agent, call, params, err);
    if (rc < 0)
        return vt_error_wrap(err, "%s of %s", op, name);
    agent->ncalls++;
    call->next = hub->calls;
    hub->calls = vt_take_ptr(call);
    uv_timer_start(&hub->tick, on_tick, TICK_MS, TICK_MS);
    return 0;
}

/* --- life --- */
static int listen_on(const struct hub_config *config, int *ret_fd, uint16_t *ret_port,
                     struct vt_error *err)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    int yes = 1;
    if (uv_ip4_addr(config->address, config->port, (struct sockaddr_in *)&address) < 0 &&
        uv_ip6_addr(config->address, config->port, (struct sockaddr_in6 *)&address) < 0)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "listen on '%s': not an IP address",
                            config->address);
    VT_AUTO_CLOSE int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
        bind(fd, (struct sockaddr *)&address,
             address.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                          : sizeof(struct sockaddr_in6)) < 0 ||
        listen(fd, LISTEN_BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "listen for agents on %s port %u",
                              config->address, config->port);
    *ret_port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                                   : ((struct sockaddr_in6 *)&address)->sin6_port);
    *ret_fd = vt_take_fd(fd);
    return 0;
}

static int make_tls(const struct hub_config *config, SSL_CTX **ret, struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity identity = VT_IDENTITY_INIT;
    struct vt_cert_wanted wanted = {
        .names = {WIRE_CONTROLLER}, .address = config->address, .server = true};
    vt_cert_window(&wanted, config->run_ns);
    int rc = vt_ca_make_identity(config->ca, &wanted, &identity, err);
    return rc < 0 ? rc : vt_tls_server_ctx(&identity, vt_ca_cert(config->ca), ret, err);
}

static void free_hub(struct hub *hub)
{
    for (size_t i = 0; i < hub->nagents; i++) {
        free(hub->agents[i]->streams);
        free(hub->agents[i]);
    }
    free(hub->agents);
    free(hub->load);
    SSL_CTX_free(hub->tls);
    if (hub->fd >= 0)
        close(hub->fd);
    free(hub);
}

int hub_new(const struct hub_config *config, const struct hub_events *events, void *ctx,
            struct hub **ret, struct vt_error *err)
{
    struct hub *hub = calloc(1, sizeof *hub);
    if (!hub)
        return vt_error_no_memory(err, "listen for agents");
    *hub = (struct hub){
        .loop = config->loop,
        .events = events,
        .ctx = ctx,
        .ca = config->ca,
        .run_ns = config->run_ns,
        .heartbeat_ns = config->heartbeat_ns ? config->heartbeat_ns : VT_NS_PER_S,
        .silence_ns = config->silence_ns ? config->silence_ns : HUB_SILENCE_NS,
        .greeting_ns = config->greeting_ns ? config->greeting_ns : HUB_GREETING_NS,
        .fd = -1,
        .load = malloc(sizeof *hub->load),
    };
    int rc = hub->load ? 0 : vt_error_no_memory(err, "hub");
    if (rc == 0)
        rc = make_tls(config, &hub->tls, err);
    if (rc == 0)
        rc = listen_on(config, &hub->fd, &hub->port, err);
    if (rc == 0 && (rc = uv_poll_init(&hub->loop->uv, &hub->accept, hub->fd)) < 0)
        vt_error_set(err, VT_KIND_INFRA, rc, "listen for agents: %s", uv_strerror(rc));
    if (rc < 0) {
        free_hub(hub);
        return rc;
    }
    uv_timer_init(&hub->loop->uv, &hub->tick);
    hub->accept.data = hub->tick.data = hub;
    hub->handles = 2;
    uv_poll_start(&hub->accept, UV_READABLE, on_accept);
    *ret = hub;
    return 0;
}

uint16_t hub_port(const struct hub *hub)
{
    return hub->port;
}

void hub_free_when_done(struct hub *hub)
{
    if (!hub->closing || hub->handles > 0 || hub->peers)
        return;
    void (*closed)(void *) = hub->closed;
    void *ctx = hub->closed_ctx;
    free_hub(hub);
    if (closed)
        closed(ctx);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct hub *hub = handle->data;
    hub->handles--;
    hub_free_when_done(hub);
}

void hub_close(struct hub *hub, void (*closed)(void *ctx), void *ctx)
{
    if (hub->closing)
        return;
    hub->closing = true;
    hub->closed = closed;
    hub->closed_ctx = ctx;
    uv_close((uv_handle_t *)&hub->accept, on_handle_closed);
    uv_close((uv_handle_t *)&hub->tick, on_handle_closed);
    for (struct hub_peer *peer = hub->peers; peer; peer = peer->next)
        if (peer->conn)
            wire_conn_abort(peer->conn);
}
