/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal: a run for people: on a terminal one line repainted in place (phase, time left, rate,
 * p95, QoS mark), otherwise a plain line a phase and every ten seconds; notes and warnings as they
 * come.
 */
#ifndef VTILE_ORCHESTRATOR_WATCH_TERMINAL_H
#define VTILE_ORCHESTRATOR_WATCH_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "base/event.h"
#include "tiles/spec/spec.h"

struct watch_terminal {
    struct vt_sink sink;
    FILE *out;
    bool tty, painted;
    int64_t start_ns, phase_start_ns, phase_planned_ns, next_plain_ns;
    char phase[24];
    uint64_t warnings;
    struct vt_hist *response; /* of the phase so far, all tiles and operations */
    uint64_t not_good, last_second_intended;
    int64_t last_second;
    int64_t limit_p95_ns; /* strictest 95 % limit of the spec, 0 = none */
};

int watch_terminal_init(struct watch_terminal *terminal, FILE *out, const struct spec *spec,
                        struct vt_error *err);
void watch_terminal_dispose(struct watch_terminal *terminal); /* ends a painted line */
/* Once a second, from the loop's timer. */
void watch_terminal_tick(struct watch_terminal *terminal);

/* --json: one line an event. */
struct watch_json {
    struct vt_sink sink;
    FILE *out;
    struct vt_buf line;
};
void watch_json_init(struct watch_json *json, FILE *out);
void watch_json_dispose(struct watch_json *json);

#endif
