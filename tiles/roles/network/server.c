/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "tiles/roles/child.h"
#include "tiles/roles/network/probes.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/server.h"

static const char *const no_peers[] = {NULL};

static int start(struct role_guest *guest, struct vt_error *err)
{
    const char *const argv[] = {"iperf3", "-s", "-4", NULL};

    return server_start(guest, "iperf3", argv, err);
}

/* A short stream to itself. */
static int ready(struct role_guest *guest, struct vt_error *err)
{
    const char *const argv[] = {"iperf3", "-c", guest->address, "-n", "64K", NULL};

    return child_try(argv, NULL, PROBES_READY_NS, -EAGAIN, err);
}

const struct role_guest_ops role_netserver_guest = {
    .start = start,
    .ready = ready,
};

const struct role role_netserver = {
    .name = "netserver",
    .short_name = "nets",
    .help = "iperf3 as server, the other end of netclient",
    .peers = no_peers,
    .guest = &role_netserver_guest,
};
