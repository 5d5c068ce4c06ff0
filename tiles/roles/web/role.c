/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/role.h"

extern const struct role_guest_ops role_web_guest;
extern const struct driver web_driver;
extern const struct role role_web;

static const char *const peers[] = {"infra", NULL};

const struct role role_web = {
    .name = "web",
    .short_name = "web",
    .help = "TLS front of a support site: nginx, fetching from the tile's infra VM",
    .peers = peers,
    .guest = &role_web_guest,
    .driver = &web_driver,
};
