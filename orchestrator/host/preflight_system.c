/* SPDX-License-Identifier: Apache-2.0 */
/* This machine's system daemon, and the addresses that a run on it takes in the machine's own
 * network namespace. */
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/net.h"
#include "orchestrator/host/preflight_checks.h"

#define NOT_HERE "use --host embed, which has a network of its own"

/* Sockets are the machine's, not those of a tree for tests. */
static bool in_tree(const struct preflight_needs *needs)
{
    return needs->root && needs->root[0];
}

static void check_daemon(const struct preflight_needs *needs, struct preflight *preflight)
{
    /* Another socket is tried when it is opened. */
    if (in_tree(needs) || strcmp(needs->uri, "qemu:///system") != 0 || host_system_socket())
        return;
    preflight_add(preflight, PREFLIGHT_ERROR, "daemon",
                  "no system daemon answers at /run/libvirt/virtqemud-sock or "
                  "/run/libvirt/libvirt-sock",
                  "start it (systemctl start virtqemud.socket, or libvirtd.socket), or use --host "
                  "embed, which needs none");
}

/* The interface that takes addresses of the plan, "" when none does. */
static void find_user(const struct preflight_needs *needs, char interface[VT_IFNAME_MAX])
{
    char path[VT_PATH_MAX], line[256];
    VT_AUTO_FCLOSE FILE *f =
        fopen(preflight_at(needs, "/proc/net/route", path, sizeof(path)), "re");

    interface[0] = 0;
    while (f && fgets(line, sizeof(line), f))
        if (net_route_is_in_range(line, interface))
            return;
}

static void check_range(const struct preflight_needs *needs, struct preflight *preflight)
{
    char interface[VT_IFNAME_MAX], hex[NET_HEX + 1] = "", who[64] = "";
    pid_t holder = in_tree(needs) ? 0 : net_range_holder();
    int used = 0;

    find_user(needs, interface);
    bool ours =
        sscanf(interface, "vt-%6[0-9a-f]-br%n", hex, &used) == 1 && used > 0 && !interface[used];
    if (holder) {
        if (holder > 0)
            snprintf(who, sizeof(who), " (pid %d)", (int)holder);
        preflight_findf(
            preflight, PREFLIGHT_ERROR, "host",
            "wait for that run (`vtile watch` follows it, `vtile attach` can end it), or " NOT_HERE,
            "the addresses " NET_RANGE " of this machine are in use by run %s%s", ours ? hex : "?",
            who);
    } else if (ours) {
        preflight_findf(preflight, PREFLIGHT_ERROR, "host", "run `vtile clean`",
                        "a dead run %s left its bridge %s with the addresses " NET_RANGE, hex,
                        interface);
    } else if (interface[0]) {
        preflight_findf(preflight, PREFLIGHT_ERROR, "host", "take that route away, or " NOT_HERE,
                        "the addresses of the plan, " NET_RANGE
                        " (kept for benchmarks by RFC 2544), are routed to %s",
                        interface);
    }
}

void preflight_check_system(const struct preflight_needs *needs, struct preflight *preflight)
{
    if (!needs->uri || !host_uri_is_system(needs->uri))
        return;
    check_daemon(needs, preflight);
    check_range(needs, preflight);
}
