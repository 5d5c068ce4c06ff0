/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/registry.h"

static const char *const peers[] = {"database", NULL};

const struct role role_app = {
    .name = "app",
    .short_name = "app",
    .help = "supply chain and orders: nginx and php-fpm over the tile's database VM",
    .peers = peers,
    .guest = &role_app_guest,
    .driver = &app_driver,
};
