/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/registry.h"

static const char *const no_peers[] = {NULL};

const struct role role_infra = {
    .name = "infra",
    .short_name = "infra",
    .help = "origin and back end of the web role: nginx with generated files, php-fpm",
    .peers = no_peers,
    .guest = &role_infra_guest,
};
