/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub: the controller's end of all agents: listens, enrols, checks, calls, passes on what they
 * send. TLS 1.3, certificates on both sides; who has none may do one thing: trade a one-time token
 * for a certificate, which then is the only one that this agent may come with again. Everything on
 * the loop's thread.
 *
 * Whatever an agent sends is a stranger's: its form, numbers and rate are checked here, and an
 * agent that breaks the rules loses its connection (agent_lost says why). Strangers cost at most
 * HUB_GREETERS_MAX connections, HUB_GREETERS_PER_ADDRESS_MAX from one address, for HUB_GREETING_NS.
 *
 * Order: hub_new -> (hub_expect -> agent_up -> hub_call* -> agent_lost -> agent_up ...)* ->
 * hub_close -> closed.
 */
#ifndef VTILE_ORCHESTRATOR_HUB_HUB_H
#define VTILE_ORCHESTRATOR_HUB_HUB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cert.h"
#include "base/event.h"
#include "base/loop.h"
#include "base/record_rows.h"

#define HUB_AGENTS_MAX VT_RECORD_AGENTS_MAX
#define HUB_GREETERS_MAX 256
#define HUB_GREETERS_PER_ADDRESS_MAX 8
#define HUB_GREETING_NS \
    (30 * VT_NS_PER_S) /* a handshake in a loaded emulated guest takes seconds */
/* A guest that swaps on a machine with eight runnable threads a CPU has answered after more than
 * ten seconds, and lived. What it does not say meanwhile is missed as samples. */
#define HUB_SILENCE_NS (30 * VT_NS_PER_S)
#define HUB_CALLS_MAX 64   /* at once, of one agent */
#define HUB_TOKEN_CHARS 64 /* hex, of a token made here; without NUL */

enum hub_duty { HUB_GUEST, HUB_CLIENT, HUB_HOST };

/* Any may be NULL. Nothing is called from inside hub_new, hub_expect or hub_call. */
struct hub_events {
    /* It came, with the right token or certificate, and duty: calls go through from now on. */
    void (*agent_up)(void *ctx, const char *agent);
    /* It went. It may come back. Its open calls fail after this. */
    void (*agent_lost)(void *ctx, const char *agent, const struct vt_error *err);
    /* kind: "server_died", "load.finished", ... data: the whole object, borrowed. */
    void (*agent_event)(void *ctx, const char *agent, const char *kind, const char *text,
                        const json_t *data);
    /* time_ns: on the controller's clock. */
    void (*sample)(void *ctx, const char *agent, int64_t time_ns, const char *series, double value);
    /* One second of one operation, its sums checked; each comes once, in order of seconds. */
    void (*load)(void *ctx, const char *agent, unsigned tile, const char *role,
                 const struct vt_load_second *second);
    /* A piece of a log, in order, before the answer of the call that asked for it. */
    void (*log)(void *ctx, const char *agent, const char *name, const uint8_t *data, size_t len);
    /* Somebody was turned away. peer: "10.86.0.12:40312". */
    void (*refused)(void *ctx, const char *peer, const struct vt_error *err);
};

struct hub_config {
    struct vt_loop *loop;
    const struct vt_ca *ca;
    const char *address; /* to listen on, numeric; agents check it in the hub's certificate */
    uint16_t port;       /* 0: any */
    int64_t run_ns;      /* how long certificates must hold, at least */
    /* 0: a second, HUB_SILENCE_NS, HUB_GREETING_NS. */
    int64_t heartbeat_ns, silence_ns, greeting_ns;
};

struct hub;
/* Listens at once. events outlives the hub. */
int hub_new(const struct hub_config *config, const struct hub_events *events, void *ctx,
            struct hub **ret, struct vt_error *err);
uint16_t hub_port(const struct hub *hub);

/* A fresh token for a config disk, of HUB_TOKEN_CHARS hex digits, with NUL. */
int hub_make_token(char token[HUB_TOKEN_CHARS + 1], struct vt_error *err);

struct hub_expected {
    const char *agent; /* unique; letters, digits, '-', '_', '.'; at most 63 */
    enum hub_duty duty;
    const char *token;     /* as on its config disk; only its hash is kept */
    const char *address;   /* where it must come from; stands in its certificate */
    const char *host_name; /* a second name in its certificate (TLS servers); NULL: none */
};
int hub_expect(struct hub *hub, const struct hub_expected *expected, struct vt_error *err);
/* Its token is good once more: for a guest that the controller restarted. The certificate that it
 * had is good no more and its connection ends. */
int hub_rearm(struct hub *hub, const char *name, struct vt_error *err);

/* Asks an agent to do something (wire/message.h lists what). params: borrowed, NULL: {}. done comes
 * exactly once, from the loop: with the result (borrowed), or with err (refused by the agent,
 * timed out, agent lost, hub closed). -ENOTCONN when the agent is not there. */
int hub_call(struct hub *hub, const char *name, const char *op, const json_t *params,
             int64_t timeout_ns,
             void (*done)(void *ctx, const json_t *result, const struct vt_error *err), void *ctx,
             struct vt_error *err);

/* Whoever orders load says so first, of a client or of a guest that works by itself: only then may
 * that agent report seconds of that tile and role, beginning anew. Good until the hub closes. */
int hub_admit_load(struct hub *hub, const char *name, unsigned tile, const char *role,
                   struct vt_error *err);

bool hub_is_up(const struct hub *hub, const char *agent);
/* Agent's monotonic clock minus ours, good to half of the round trip. False until one was made. */
bool hub_agent_clock(const struct hub *hub, const char *agent, int64_t *ret_offset_ns,
                     int64_t *ret_rtt_ns);
/* The last answer to a heartbeat: when it came and how long it took. False while there is none. */
bool hub_agent_answered(const struct hub *hub, const char *agent, int64_t *ret_at_ns,
                        int64_t *ret_rtt_ns);

/* Ends all; open calls fail. closed (may be NULL) comes from the loop when the hub is gone. */
void hub_close(struct hub *hub, void (*closed)(void *ctx), void *ctx);

#endif
