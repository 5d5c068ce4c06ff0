/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster: an empty cluster where the contents are to be: a copy of the one that came with the
 * image, or a new one.
 */
#ifndef VTILE_TILES_ROLES_DATABASE_CLUSTER_H
#define VTILE_TILES_ROLES_DATABASE_CLUSTER_H

#include "tiles/roles/database/postgres.h"

/* Removes what is at paths->data first. It is that of PostgreSQL's user, where this process is
 * root, and not on stable storage yet: see postgres_make. */
int cluster_lay(const struct role_guest *guest, const struct postgres_paths *paths,
                struct vt_error *err);

/* Copies a folder of folders and files, with modes and, by root, owners; nothing else may be in it.
 * By no program: to start one costs an emulated guest as much as the copy. */
int cluster_copy(const char *from, const char *to, struct vt_error *err);

#endif
