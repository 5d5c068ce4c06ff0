/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/scope.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/server.h"
#include "tiles/roles/template.h"
#include "tiles/roles/web/pages.h"

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    const char *infra = role_peer_address(guest, "infra");
    char out[512], workers[12], access_log[600];
    const struct template_value values[] = {
        {"WORKERS", workers},       {"RUN_DIR", guest->run_dir}, {"ACCESS_LOG", access_log},
        {"CERT", guest->cert_file}, {"KEY", guest->key_file},    {"INFRA", infra},
    };

    if (!infra)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "web: the tile has no infra VM");
    snprintf(workers, sizeof(workers), "%u", guest->vcpus);
    server_nginx_access_log(guest, access_log, sizeof(access_log));
    snprintf(out, sizeof(out), "%s/nginx.conf", guest->run_dir);
    return template_fill(guest->files_dir, "nginx.conf.in", out, values, VT_COUNT(values), err);
}

static int start(struct role_guest *guest, struct vt_error *err)
{
    char conf[512];
    const char *const argv[] = {"nginx", "-c", conf, NULL};

    snprintf(conf, sizeof(conf), "%s/nginx.conf", guest->run_dir);
    return server_start(guest, "nginx", argv, err);
}

static int ready(struct role_guest *guest, struct vt_error *err)
{
    /* Its origin first: asking over TLS in vain would cost an emulated guest much more. */
    int ret = probe_http(role_peer_address(guest, "infra"), WEB_ORIGIN_PORT, PROBE_PAGE, NULL, err);

    return ret < 0 ? ret : probe_http(guest->address, WEB_PORT, PROBE_PAGE, guest->ca_file, err);
}

static const struct role_log logs[] = {
    {"nginx.error", "error.log"},
    {"nginx.requests", "requests.log"},
    {NULL, NULL},
};

const struct role_guest_ops role_web_guest = {
    .prepare = prepare,
    .start = start,
    .ready = ready,
    .check = server_nginx_facts,
    .logs = logs,
};
