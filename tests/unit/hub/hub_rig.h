/* SPDX-License-Identifier: Apache-2.0 */
/* A hub that expects guest "web-1" and client "client" from 127.0.0.1, and what its owner sees. */
#ifndef VTILE_TESTS_UNIT_HUB_HUB_RIG_H
#define VTILE_TESTS_UNIT_HUB_HUB_RIG_H

#include "fake_agent.h"
#include "orchestrator/hub/hub.h"

extern struct vt_ca *ca, *other_ca;
extern struct vt_loop loop;
extern struct hub *hub;
extern char token[HUB_TOKEN_CHARS + 1], client_token[HUB_TOKEN_CHARS + 1];
extern struct fake_agent one, two;
extern struct vt_identity identity, client_identity;
extern const struct hub_events hub_rig_events;

extern struct seen {
    unsigned up, lost, refused, events, samples, loads, logs, hub_closed, done, done_when_lost;
    char agent[64], peer[64], text[VT_ERROR_TEXT_MAX], kind[64], log[64], operation[32];
    struct vt_error err; /* of the last call, or of the loss */
    int64_t sample_ns;
    double value;
    uint64_t intended;
    char result[128];
} seen;

/* For the whole program, then for each test. */
int hub_rig_setup_all(void **state);
int hub_rig_teardown_all(void **state);
int hub_rig_setup(void **state);
int hub_rig_teardown(void **state);
void hub_rig_closed(void *ctx); /* for hub_close */

/* An answer to a call: into seen, which is ctx. */
void hub_rig_done(void *ctx, const json_t *result, const struct vt_error *err);
/* Dials and waits for the handshake. */
void hub_rig_dial(struct fake_agent *agent, const struct vt_identity *id);
void hub_rig_enrol(const char *name, const char *with_token, struct vt_identity *ret);
/* Agent `one` is up, as the guest or the client. */
void hub_rig_come_up(void);
void hub_rig_client_comes_up(void);

#endif
