/* SPDX-License-Identifier: Apache-2.0 */
/* A real hub in this process and a real agent in a child. */
#ifndef VTILE_TESTS_UNIT_AGENTS_RIG_H
#define VTILE_TESTS_UNIT_AGENTS_RIG_H

#include <sys/types.h>

#include "base/confdisk.h"
#include "orchestrator/hub/hub.h"

struct rig {
    char dir[64];
    struct vt_ca *ca;
    struct vt_loop loop;
    struct hub *hub;
    struct vt_confdisk conf;
    pid_t agent;
    unsigned up, lost, refused, events, done, hub_closed, samples, seconds;
    char kind[64], text[VT_ERROR_TEXT_MAX];
    json_t *event_data, *result; /* the last */
    struct vt_error err;         /* of the last call; code 0: it went well */
    struct vt_buf log;           /* all pieces of logs, but the kernel's */
    char log_name[64];
    uint64_t intended, good, bytes, rates;
    json_t *seen_series; /* name -> last value */
};

/* A hub that expects this agent, and its configuration. */
void rig_start(struct rig *rig, const char *agent, const char *role, enum hub_duty duty);
/* Starts this test's program anew with "--agent <variant> <configuration file>": its main() takes
 * that to rig_agent_main. */
void rig_run_agent(struct rig *rig, const char *variant);
/* In the child. Returns its exit status: 0 when duty(variant, conf) returned 0. */
int rig_agent_main(char **argv, int (*duty)(const char *variant, const struct vt_confdisk *conf));
/* Calls and waits for the answer. params: stolen. */
void rig_call(struct rig *rig, const char *op, json_t *params);
void rig_run_until(struct rig *rig, const unsigned *value, unsigned wanted);
/* SIGTERM; the agent must end with status 0. */
void rig_end_agent(struct rig *rig);
void rig_finish(struct rig *rig);

#endif
