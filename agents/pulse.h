/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pulse: what every agent does beside its duty: once there is something to sample it sends samples
 * each second while the controller is there, tells each trouble with the controller once, and ends
 * on SIGTERM and SIGINT.
 */
#ifndef VTILE_AGENTS_PULSE_H
#define VTILE_AGENTS_PULSE_H

#include "agents/sampler.h"
#include "agents/uplink.h"
#include "base/loop.h"

struct pulse {
    struct sampler sampler; /* the owner fills what to sample */
    /* private */
    struct uplink *uplink; /* NULL while it is down */
    bool sampling;
    uv_timer_t second;
    uv_signal_t terminate, interrupt;
    char last_trouble[VT_ERROR_TEXT_MAX];
    void (*end)(void *ctx);
    void *ctx;
};

/* end: a signal asks for it. */
void pulse_init(struct pulse *pulse, struct vt_loop *loop, void (*end)(void *ctx), void *ctx);
/* From now on, whenever the controller is there; may be called twice. */
void pulse_sample(struct pulse *pulse);
void pulse_up(struct pulse *pulse, struct uplink *uplink);
void pulse_down(struct pulse *pulse, const struct vt_error *err);
void pulse_stop(struct pulse *pulse);  /* no more samples; may be called twice */
void pulse_close(struct pulse *pulse); /* after pulse_stop; handles are gone when the loop ends */

#endif
