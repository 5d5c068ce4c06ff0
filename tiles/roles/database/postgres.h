/* SPDX-License-Identifier: Apache-2.0 */
/*
 * postgres: the database role's PostgreSQL: where its programs and files stand, and how its
 * programs are run as its own user (it refuses root).
 */
#ifndef VTILE_TILES_ROLES_DATABASE_POSTGRES_H
#define VTILE_TILES_ROLES_DATABASE_POSTGRES_H

#include "base/text.h"
#include "tiles/roles/role.h"

#define POSTGRES_BIN "/usr/lib/postgresql/15/bin"
#define POSTGRES_PORT 5432 /* of postgresql.conf.in */
#define POSTGRES_USER "postgres"
#define POSTGRES_PATH_MAX 512
#define POSTGRES_ARGS_MAX 40

/* data_dir/postgres: the cluster. data_dir/postgres.whole: it has all its contents.
 * run_dir/postgres: configuration, socket, log; its user's alone. */
struct postgres_paths {
    char data[POSTGRES_PATH_MAX], whole[POSTGRES_PATH_MAX], run[POSTGRES_PATH_MAX];
};
int postgres_paths(const struct role_guest *guest, struct postgres_paths *ret,
                   struct vt_error *err);

/* Puts what changes to PostgreSQL's user before argv (NULL-terminated); nothing where this process
 * is not root. The arguments themselves stay the caller's. */
void postgres_as_user(const char *const *argv, const char *ret[POSTGRES_ARGS_MAX]);
/* Hands a file or folder to PostgreSQL's user; nothing where this process is not root. */
int postgres_give(const char *path, struct vt_error *err);

/* Makes the cluster with all its contents, each file on stable storage; half-made ones are removed
 * first. It was made for good once paths->whole is there. */
int postgres_make(const struct role_guest *guest, const struct postgres_paths *paths,
                  struct vt_error *err);
/* Fills in files/<name> for a tile. kept: see figures.sql; NULL: none. */
int postgres_fill_sql(const struct role_guest *guest, const char *name, unsigned tile,
                      const char *kept, const char *out, struct vt_error *err);

/* Number of tiles it serves and the i-th of them: its own where nothing else was said. */
unsigned postgres_ntiles(const struct role_guest *guest);
unsigned postgres_tile(const struct role_guest *guest, unsigned i);

#endif
