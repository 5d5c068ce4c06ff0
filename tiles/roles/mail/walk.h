/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk: what people do with their mail, step after step: a walk through a matrix, met in
 * mid-session where the population is stationary (driver.h, plan).
 *
 * A step's argument: user << WALK_USER_SHIFT, WALK_DELETED for a store that marks \Deleted, and a
 * number from which the message is chosen: what is in a mailbox is known to its connection only.
 */
#ifndef VTILE_TILES_ROLES_MAIL_WALK_H
#define VTILE_TILES_ROLES_MAIL_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "tiles/spec/spec.h"

#define WALK_USER_SHIFT 24
#define WALK_DELETED (1U << 23)
#define WALK_NUMBERS (1U << 23)

struct walk_session {
    uint32_t walk, user;
};

bool walk_plan(void *state, struct vt_rng *rng, const struct spec_load *load, bool first,
               bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns);

#endif
