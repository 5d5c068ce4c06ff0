/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/scope.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/probe.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/server.h"
#include "tiles/roles/template.h"

/* The first page of goods: goes through to the database, changes nothing. */
#define PROBE_BROWSE "/browse?r=4294967295&n=0"

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    const char *database = role_peer_address(guest, "database");
    char out[512], workers[12], tile[12], access_log[600];
    const struct template_value values[] = {
        {"WORKERS", workers},        {"RUN_DIR", guest->run_dir}, {"FILES_DIR", guest->files_dir},
        {"ADDRESS", guest->address}, {"DATABASE", database},      {"TILE", tile},
        {"ACCESS_LOG", access_log},
    };
    int ret;

    if (!database)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "app: the tile has no database VM");
    snprintf(workers, sizeof(workers), "%u", guest->vcpus);
    snprintf(tile, sizeof(tile), "%u", guest->tile);
    server_nginx_access_log(guest, access_log, sizeof(access_log));
    snprintf(out, sizeof(out), "%s/nginx.conf", guest->run_dir);
    ret = template_fill(guest->files_dir, "nginx.conf.in", out, values, VT_COUNT(values), err);
    if (ret < 0)
        return ret;
    snprintf(out, sizeof(out), "%s/php-fpm.conf", guest->run_dir);
    return template_fill(guest->files_dir, "php-fpm.conf.in", out, values, VT_COUNT(values), err);
}

static int start(struct role_guest *guest, struct vt_error *err)
{
    char nginx_conf[512], php_conf[512];
    const char *const nginx[] = {"nginx", "-c", nginx_conf, NULL};
    const char *const php[] = {"php-fpm8.2", "-F", "-y", php_conf, NULL};
    int ret;

    snprintf(nginx_conf, sizeof(nginx_conf), "%s/nginx.conf", guest->run_dir);
    snprintf(php_conf, sizeof(php_conf), "%s/php-fpm.conf", guest->run_dir);
    ret = server_start(guest, "php-fpm", php, err);
    return ret < 0 ? ret : server_start(guest, "nginx", nginx, err);
}

static int ready(struct role_guest *guest, struct vt_error *err)
{
    char socket[512];

    /* nginx would complain of each request that comes before php-fpm listens. */
    snprintf(socket, sizeof(socket), "%s/php.sock", guest->run_dir);
    if (access(socket, F_OK) < 0)
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "php-fpm does not listen yet");
    return probe_http(guest->address, APP_PORT, PROBE_BROWSE, NULL, err);
}

static const struct role_log logs[] = {
    {"nginx.error", "error.log"},
    {"nginx.requests", "requests.log"},
    {"php.error", "php.log"},
    {NULL, NULL},
};

const struct role_guest_ops role_app_guest = {
    .prepare = prepare,
    .start = start,
    .ready = ready,
    .check = server_nginx_facts,
    .logs = logs,
};
