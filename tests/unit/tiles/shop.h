/* SPDX-License-Identifier: Apache-2.0 */
/* The database role, and the app role before it, for real on a loopback address of their own, run
 * by the same code that runs them in guests. */
#ifndef VTILE_TESTS_UNIT_TILES_SHOP_H
#define VTILE_TESTS_UNIT_TILES_SHOP_H

#include <jansson.h>

#include "tiles/roles/role.h"

struct shop {
    char dir[64], address[24];
    char data_dir[96], run_dir[96], database_files[256], app_files[256], app_run_dir[96];
    struct role_guest database, app;
};

/* False, saying why, where this machine lacks a program or this user may not change to others. */
bool shop_present(void);
/* A folder and an address; nothing is started. Tiles 3, or 3 and 4. */
void shop_init(struct shop *shop, uint64_t data_bytes, unsigned ntiles);
/* prepare, start and ready of a role, the latter until it is. */
void shop_start(const struct role_guest_ops *ops, struct role_guest *guest);
/* Ends the servers of a role at once and waits until they are gone. */
void shop_kill(struct role_guest *guest, int signal);
/* Facts of the database; the caller decrefs them. */
json_t *shop_check(struct shop *shop);
json_int_t shop_fact(const json_t *facts, const char *name);
/* Fails where a fact that must be zero is not. */
void shop_nothing_wrong(const json_t *facts);
/* Whether the database's list of what is kept for a tile holds that sequence. */
bool shop_keeps(const struct shop *shop, unsigned tile, uint32_t sequence);
/* psql's answer to a query, as the application's user of a tile; free() it. */
char *shop_query(const struct shop *shop, unsigned tile, const char *query);
void shop_fini(struct shop *shop);

#endif
