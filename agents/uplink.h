/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agents: the program vtile-agent: in a guest it prepares, starts and watches the role's servers;
 * on a client it drives load. Uses wire, tiles, tuning and base; knows no hypervisor.
 *
 * uplink: the agent's way to the controller: enrols once with the token, then comes with its
 * certificate, says hello, and comes again whenever the connection is lost, with growing pauses.
 * Over TCP, or over a virtio-serial port where no route exists.
 */
#ifndef VTILE_AGENTS_UPLINK_H
#define VTILE_AGENTS_UPLINK_H

#include <jansson.h>
#include <stdbool.h>

#include "base/cert.h"
#include "base/confdisk.h"
#include "base/loop.h"
#include "wire/frame.h"

struct uplink_events {
    void (*up)(void *ctx);
    /* Also after a try that failed; it is tried again. */
    void (*down)(void *ctx, const struct vt_error *err);
    /* To be answered by uplink_reply, now or later. params: borrowed. */
    void (*call)(void *ctx, uint16_t stream, const char *op, const json_t *params);
    void (*drained)(void *ctx); /* all that was queued has been written; may be NULL */
};
struct uplink_config {
    struct vt_loop *loop;
    const struct vt_confdisk *conf;   /* agent, controller or channel, token, ca; outlives it */
    const char *duty;                 /* "guest" */
    const char *cert_file, *key_file; /* kept there, for a next start and for servers; NULL: not */
};

struct uplink;
int uplink_new(const struct uplink_config *config, const struct uplink_events *events, void *ctx,
               struct uplink **ret, struct vt_error *err);
/* The first try, from the loop. */
void uplink_start(struct uplink *uplink);
bool uplink_is_up(const struct uplink *uplink);
/* While it is down these do nothing: the controller knows that the agent was lost. What finds the
 * queue full ends the connection: nothing is left out unnoticed. */
void uplink_send(struct uplink *uplink, enum wire_type type, uint16_t stream, const void *data,
                 size_t len);
void uplink_send_json(struct uplink *uplink, enum wire_type type, uint16_t stream, json_t *json);
/* failure NULL: result (stolen; NULL: {}). */
void uplink_reply(struct uplink *uplink, uint16_t stream, json_t *result,
                  const struct vt_error *failure);
/* more: further members (stolen), NULL: none. */
void uplink_event(struct uplink *uplink, const char *kind, const char *text, json_t *more);
size_t uplink_queued(const struct uplink *uplink);
X509 *uplink_ca(const struct uplink *uplink);
/* What is queued is sent; closed (may be NULL) comes from the loop when the uplink is gone. */
void uplink_close(struct uplink *uplink, void (*closed)(void *ctx));

#endif
