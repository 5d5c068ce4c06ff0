/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: what roles with servers share: starting one in the foreground under the agent's eyes.
 */
#ifndef VTILE_TILES_ROLES_SERVER_H
#define VTILE_TILES_ROLES_SERVER_H

#include "tiles/roles/role.h"

/* Starts argv (NULL-terminated) and notes it in guest->children as name; a child of that name
 * that still runs is left alone. Output goes to the console. */
int server_start(struct role_guest *guest, const char *name, const char *const *argv,
                 struct vt_error *err);

#endif
