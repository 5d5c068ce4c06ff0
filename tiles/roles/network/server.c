/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/clock.h"
#include "tiles/roles/child.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/server.h"

static const char *const no_peers[] = {NULL};

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    (void)guest;
    (void)err;
    return 0;
}

static int start(struct role_guest *guest, struct vt_error *err)
{
    const char *const argv[] = {"iperf3", "-s", "-4", NULL};

    return server_start(guest, "iperf3", argv, err);
}

/* A short stream to itself. */
static int ready(struct role_guest *guest, struct vt_error *err)
{
    const char *const argv[] = {"iperf3", "-c", guest->address, "-n", "64K", NULL};
    struct child child = {.argv = argv, .until_ns = vt_clock_now_ns() + 20 * VT_NS_PER_S};
    char why[240];
    int ret = child_run(&child, err);

    if (ret < 0)
        return ret;
    child_explain(&child, why, sizeof(why));
    return *why ? vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "%s", why) : 0;
}

static int check(struct role_guest *guest, json_t *facts, struct vt_error *err)
{
    (void)guest;
    (void)facts;
    (void)err;
    return 0;
}

const struct role_guest_ops role_netserver_guest = {
    .prepare = prepare,
    .start = start,
    .ready = ready,
    .check = check,
};

const struct role role_netserver = {
    .name = "netserver",
    .short_name = "nets",
    .help = "iperf3 as server, the other end of netclient",
    .peers = no_peers,
    .guest = &role_netserver_guest,
};
