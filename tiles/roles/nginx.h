/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nginx: what guests whose server is an nginx share, with php-fpm behind it or without. Their files
 * hold nginx.conf.in, and php-fpm.conf.in, whose pool listens on @RUN_DIR@/php.sock.
 */
#ifndef VTILE_TILES_ROLES_NGINX_H
#define VTILE_TILES_ROLES_NGINX_H

#include "tiles/roles/role.h"
#include "tiles/roles/template.h"

/* Fills both files (one without php) in with the role's own values, 12 at most, and WORKERS (a vCPU
 * each), RUN_DIR, FILES_DIR, ACCESS_LOG ("off" unless requests are logged). */
int nginx_guest_configure(const struct role_guest *guest, bool php,
                          const struct template_value *own, size_t nown, struct vt_error *err);
int nginx_guest_start(struct role_guest *guest, struct vt_error *err);
int nginx_guest_start_php(struct role_guest *guest, struct vt_error *err); /* nginx too */
/* -EAGAIN: not yet; nginx complains of each request that comes before. */
int nginx_guest_php_listens(const struct role_guest *guest, struct vt_error *err);

/* "requests", "not_ok" (status other than 200) from its request log where there is one,
 * "complaints" and "first_complaint" from its error log. Missing files count as empty. Lines past
 * 64 MiB of a log are not counted and "log_cut" is true. */
int nginx_guest_facts(struct role_guest *guest, json_t *facts, struct vt_error *err);

extern const struct role_log nginx_guest_logs[], nginx_guest_php_logs[];

#endif
