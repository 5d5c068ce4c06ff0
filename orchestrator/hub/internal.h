/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the hub's files: hub.c (life, calls), greet.c (who comes in), receive.c (what an agent
 * that is up sends).
 */
#ifndef VTILE_ORCHESTRATOR_HUB_INTERNAL_H
#define VTILE_ORCHESTRATOR_HUB_INTERNAL_H

#include "orchestrator/hub/hub.h"
#include "wire/conn.h"
#include "wire/message.h"

#define HUB_HASH_BYTES 32
#define HUB_ADDRESS_MAX 46 /* INET6_ADDRSTRLEN */
/* What waits for an agent that does not read. */
#define HUB_QUEUE_BYTES (1U << 20)
/* Of one agent: a client of 26 tiles with three driven roles of seven operations sends 550 a
 * second; guests a few. */
#define HUB_FRAMES_PER_S 2000
#define HUB_FRAMES_BURST 4000
#define HUB_SAMPLES_PER_S 4
#define HUB_SAMPLES_BURST 40
#define HUB_EVENTS_PER_S 20
#define HUB_EVENTS_BURST 1024
/* Of one greeter: an enrolment with its request is about a kilobyte. */
#define HUB_GREETER_FRAMES 4
#define HUB_GREETER_BYTES (16U << 10)
#define HUB_REFUSED_PER_S 20
#define HUB_REFUSED_BURST 100
#define HUB_LOG_BYTES_MAX (UINT64_C(256) << 20) /* for one call */
#define HUB_STREAMS_MAX 1024                    /* roles that one agent reports load of */

/* So many events in a time, and a few more at once. */
struct hub_rate {
    int64_t due_ns;
};
bool hub_rate_take(struct hub_rate *rate, unsigned per_s, unsigned burst);

struct hub_call {
    struct hub_call *next; /* of the hub's list */
    struct hub_agent *agent;
    uint16_t stream;
    char op[WIRE_NAME_MAX];
    int64_t deadline_ns, timeout_ns;
    uint64_t log_bytes;
    void (*done)(void *ctx, const json_t *result, const struct vt_error *err);
    void *ctx;
};

/* Load that an agent was asked for: only this may it report. */
struct hub_stream {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX];
    int64_t last_second[VT_RECORD_OPERATIONS_MAX]; /* -1: none yet */
};

struct hub_agent {
    char name[WIRE_NAME_MAX], host_name[WIRE_NAME_MAX], address[HUB_ADDRESS_MAX];
    enum hub_duty duty;
    uint8_t token_hash[HUB_HASH_BYTES], cert_hash[HUB_HASH_BYTES];
    bool token_good;       /* not used yet, or armed again */
    bool enrolled;         /* cert_hash is that of its certificate */
    struct hub_peer *peer; /* its connection while it is up */
    unsigned ncalls;
    uint16_t next_stream;
    struct hub_rate samples, events;
    struct hub_stream *streams;
    unsigned nstreams;
};

/* A connection: a greeter until it is an agent's. */
struct hub_peer {
    struct hub *hub;
    struct hub_peer *next, *previous;
    struct wire_conn *conn; /* NULL once closed */
    uv_timer_t greeting;
    char address[HUB_ADDRESS_MAX], name[HUB_ADDRESS_MAX + 8]; /* name: with port, for people */
    bool greeter, has_cert, enrolled;
    uint8_t cert_hash[HUB_HASH_BYTES];
    struct hub_agent *agent; /* while it is that agent's */
    struct vt_error why;     /* it ends because of this, when set */
};

struct hub {
    struct vt_loop *loop;
    const struct hub_events *events;
    void *ctx;
    const struct vt_ca *ca;
    int64_t run_ns, heartbeat_ns, silence_ns, greeting_ns;
    SSL_CTX *tls;
    int fd;
    uint16_t port;
    uv_poll_t accept;
    uv_timer_t tick;          /* deadlines of calls; a pause of accept */
    int64_t accept_paused_ns; /* until then; 0: not */
    struct hub_peer *peers;
    unsigned ngreeters;
    struct hub_agent **agents; /* by name */
    size_t nagents, agents_cap;
    struct hub_call *calls;
    struct hub_rate refused;
    struct wire_load *load; /* scratch: about 100 KiB */
    bool closing;
    unsigned handles;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct hub_agent *hub_find(const struct hub *hub, const char *name);

/* greet.c */
void hub_accept(struct hub *hub);
void hub_tell_refused(struct hub *hub, const char *peer, const struct vt_error *err);

/* receive.c */
/* NULL: it was not admitted. */
struct hub_stream *hub_find_stream(const struct hub_agent *agent, unsigned tile, const char *role);
/* A frame of an agent that is up. */
int hub_receive(struct hub_agent *agent, const struct wire_frame *frame, struct vt_error *err);

/* hub.c */
/* Out of descriptors or memory: a while without new connections, instead of a busy loop. */
void hub_pause_accept(struct hub *hub);
void hub_agent_goes_up(struct hub_agent *agent, struct hub_peer *peer);
/* Calls fail, agent_lost is told; the connection is no longer the agent's. */
void hub_agent_goes(struct hub_agent *agent, const struct vt_error *err);
void hub_hash(const void *data, size_t len, uint8_t hash[HUB_HASH_BYTES]);
/* Takes the call out of the list and ends it; result or err. */
void hub_call_end(struct hub *hub, struct hub_call *call, const json_t *result,
                  const struct vt_error *err);
struct hub_call *hub_call_find(struct hub_agent *agent, uint16_t stream);
/* The last handle of a closing hub frees it. */
void hub_free_when_done(struct hub *hub);

#endif
