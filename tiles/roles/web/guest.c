/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/scope.h"
#include "tiles/roles/nginx.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/web/pages.h"

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    const char *infra = role_peer_address(guest, "infra");
    const struct template_value values[] = {
        {"CERT", guest->cert_file},
        {"KEY", guest->key_file},
        {"INFRA", infra},
    };

    if (!infra)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "web: the tile has no infra VM");
    return nginx_guest_configure(guest, false, values, VT_COUNT(values), err);
}

static int ready(struct role_guest *guest, struct vt_error *err)
{
    /* Its origin first: asking over TLS in vain would cost an emulated guest much more. */
    int ret = probe_http(role_peer_address(guest, "infra"), WEB_ORIGIN_PORT, PROBE_PAGE, NULL, err);

    return ret < 0 ? ret : probe_http(guest->address, WEB_PORT, PROBE_PAGE, guest->ca_file, err);
}

const struct role_guest_ops role_web_guest = {
    .prepare = prepare,
    .start = nginx_guest_start,
    .ready = ready,
    .check = nginx_guest_facts,
    .logs = nginx_guest_logs,
};
