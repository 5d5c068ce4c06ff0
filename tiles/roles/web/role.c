/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/registry.h"

static const char *const peers[] = {"infra", NULL};

const struct role role_web = {
    .name = "web",
    .short_name = "web",
    .help = "TLS front of a support site: nginx, fetching from the tile's infra VM",
    .peers = peers,
    .guest = &role_web_guest,
    .driver = &web_driver,
};
