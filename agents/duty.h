/* SPDX-License-Identifier: Apache-2.0 */
/*
 * duty: what an agent process does until it is told to end (SIGTERM, SIGINT): 0, or the error that
 * made it useless.
 */
#ifndef VTILE_AGENTS_DUTY_H
#define VTILE_AGENTS_DUTY_H

#include "base/confdisk.h"
#include "tiles/roles/role.h"

/* role NULL: role_find(conf->role). may_power_off: this is a guest of its own, not a test on
 * somebody's machine. */
int duty_guest(const struct vt_confdisk *conf, const struct role *role, bool may_power_off,
               struct vt_error *err);
/* Ends by itself when no controller has been reached for a minute. */
int duty_client(const struct vt_confdisk *conf, struct vt_error *err);

#endif
