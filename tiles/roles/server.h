/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: what roles with servers share: starting one in the foreground under the agent's eyes,
 * and counting what it complained of.
 */
#ifndef VTILE_TILES_ROLES_SERVER_H
#define VTILE_TILES_ROLES_SERVER_H

#include "tiles/roles/role.h"

/* Starts argv (NULL-terminated) and notes it in guest->children as name; a child of that name
 * that still runs is left alone. Output goes to the console. */
int server_start(struct role_guest *guest, const char *name, const char *const *argv,
                 struct vt_error *err);

/* Facts of an nginx: "requests", "not_ok" (status other than 200) from its request log where
 * there is one, "complaints" and "first_complaint" from its error log. Missing files count as
 * empty. Lines past 64 MiB of a log are not counted and "log_cut" is true. */
int server_nginx_facts(struct role_guest *guest, json_t *facts, struct vt_error *err);

/* "<run_dir>/requests.log", unbuffered, when the requests are to be logged, else "off". */
void server_nginx_access_log(const struct role_guest *guest, char *buf, size_t size);

#endif
