/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/scope.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/nginx.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/registry.h"

/* The first page of goods: goes through to the database, changes nothing. */
#define PROBE_BROWSE "/browse?r=4294967295&n=0"

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    const char *database = role_peer_address(guest, "database");
    char tile[12];
    const struct template_value values[] = {
        {"ADDRESS", guest->address},
        {"DATABASE", database},
        {"TILE", tile},
    };

    if (!database)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "app: the tile has no database VM");
    snprintf(tile, sizeof(tile), "%u", guest->tile);
    return nginx_guest_configure(guest, true, values, VT_COUNT(values), err);
}

static int ready(struct role_guest *guest, struct vt_error *err)
{
    int ret = nginx_guest_php_listens(guest, err);

    return ret < 0 ? ret : probe_http(guest->address, APP_PORT, PROBE_BROWSE, NULL, err);
}

const struct role_guest_ops role_app_guest = {
    .prepare = prepare,
    .start = nginx_guest_start_php,
    .ready = ready,
    .check = nginx_guest_facts,
    .logs = nginx_guest_php_logs,
};
