/* SPDX-License-Identifier: Apache-2.0 */
/*
 * part: one thread of `vtile load`, with a loop and an engine of its own. It is told what to do,
 * and asked how far it is, by the thread that made it; whenever its state changes it writes to
 * told_fd, an eventfd.
 *
 *   OPENING -> OPEN (all connections) -> part_go -> RUNNING -> ENDED
 */
#ifndef VTILE_ORCHESTRATOR_LOAD_PART_H
#define VTILE_ORCHESTRATOR_LOAD_PART_H

#include <openssl/ssl.h>

#include "orchestrator/load/options.h"
#include "orchestrator/load/tally.h"
#include "tiles/load/engine.h"

enum part_state { PART_OPENING, PART_OPEN, PART_RUNNING, PART_ENDED };

/* Outlives the parts. */
struct part_config {
    const struct load_options *options;
    const struct driver *driver;
    const struct driver_target *target;
    SSL_CTX *tls; /* NULL without TLS */
    int told_fd;
};
/* What came of it. */
struct part_result {
    struct load_tally tally; /* of whole seconds after the warm-up */
    struct engine_totals totals;
    /* Of the thread, from T0 on; run_delay: runnable, without a CPU; -1: not told. */
    int64_t cpu_ns, run_delay_ns;
};

struct part;
/* Begins to open its connections. Takes the steps out of *schedule, also on error; closed: NULL. */
int part_begin(const struct part_config *config, uint32_t connections, struct schedule *schedule,
               struct part **ret, struct vt_error *err);
/* *ret_err: why it ended without having run, else left as it was; good until part_end. */
enum part_state part_look(struct part *part, const struct vt_error **ret_err);
void part_go(struct part *part, int64_t t0_ns);
/* Ends at once. Requests of this second since T0 and later ones are left out of the tally. */
void part_stop(struct part *part, int64_t from_second);
/* Adds what has been counted since the last call, the warm-up too. */
void part_take_recent(struct part *part, struct load_tally *into);
/* Only once it has ended: joins and frees it. ret may be NULL. Returns NULL. */
struct part *part_end(struct part *part, struct part_result *ret);

#endif
