/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/registry.h"

static const char *const no_peers[] = {NULL};

const struct role role_database = {
    .name = "database",
    .short_name = "db",
    .help =
        "PostgreSQL with generated data, a schema a tile: back end of the app role, or by itself",
    .peers = no_peers,
    .guest = &role_database_guest,
    .driver = &database_driver,
    .keeps = true,
};
