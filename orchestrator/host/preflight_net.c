/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/net.h"
#include "orchestrator/host/preflight_checks.h"

#define RULES_MAX (1 << 20)

void preflight_check_names(const struct preflight_needs *needs, struct preflight *preflight)
{
    char netns[64], bridge[VT_IFNAME_MAX], below_sys[64], path[VT_PATH_MAX];
    struct vt_error err = VT_ERROR_INIT;

    if (!needs->run || !needs->run[0])
        return;
    if (net_name_netns(needs->run, netns, sizeof(netns), &err) < 0 ||
        net_name_bridge(needs->run, bridge, &err) < 0) {
        preflight_add(preflight, PREFLIGHT_ERROR, "names", err.text, "");
        return;
    }
    if (access(preflight_at(needs, netns, path, sizeof(path)), F_OK) == 0)
        preflight_findf(preflight, PREFLIGHT_ERROR, "names",
                        "run `vtile clean`; if it stays, it is not ours: start again, the next "
                        "run has another name",
                        "the network namespace %s is there already", netns);
    snprintf(below_sys, sizeof(below_sys), "/sys/class/net/%s", bridge);
    if (access(preflight_at(needs, below_sys, path, sizeof(path)), F_OK) == 0)
        preflight_findf(preflight, PREFLIGHT_ERROR, "names", "start again with another run",
                        "an interface %s is there already", bridge);
    for (unsigned i = 0; i < needs->ndomains; i++)
        for (unsigned j = 0; j < i; j++)
            for (unsigned n = 0; n < needs->domains[i].nnics; n++)
                if (net_mac_is_taken(needs->domains[i].nics[n].mac, needs->domains[j].nics,
                                     needs->domains[j].nnics))
                    preflight_findf(preflight, PREFLIGHT_ERROR, "names",
                                    "start again with another run", "%s and %s have the MAC %s",
                                    needs->domains[j].name, needs->domains[i].name,
                                    needs->domains[i].nics[n].mac);
}

/* iptables -S: "-P FORWARD DROP"; nft: "type filter hook forward priority 0; policy drop;". */
bool preflight_forward_drops(const char *text)
{
    while (text && *text) {
        size_t len = strcspn(text, "\n");
        char line[512];

        snprintf(line, sizeof(line), "%.*s", (int)len, text);
        const char *hook = strstr(line, "hook forward");
        if (!strncmp(line, "-P FORWARD DROP", 15) || (hook && strstr(hook, "policy drop")))
            return true;
        text += len + (text[len] == '\n');
    }
    return false;
}

/* In a tree for tests the answer of `iptables -S FORWARD` stands in a file. 0: it passes or nobody
 * can tell, 1: it drops. */
static bool forward_drops(const struct preflight_needs *needs)
{
    static const char *const iptables[] = {"iptables", "-S", "FORWARD", NULL};
    static const char *const nft[] = {"nft", "list", "chains", NULL};
    const char *const *const commands[] = {iptables, nft};
    bool drops = false;

    if (needs->root && needs->root[0]) {
        char text[4096];
        preflight_read(needs, "/iptables-S-FORWARD", text, sizeof(text));
        return preflight_forward_drops(text);
    }
    for (size_t i = 0; i < VT_COUNT(commands) && !drops; i++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(RULES_MAX);
        if (vt_proc_run(commands[i], &out, 10 * VT_NS_PER_S, NULL) == 0)
            drops = preflight_forward_drops(out.data);
    }
    return drops;
}

void preflight_check_firewall(const struct preflight_needs *needs, struct preflight *preflight)
{
    char value[16];
    bool embedded = host_uri_is_embed(needs->uri);

    preflight_read(needs, "/proc/sys/net/bridge/bridge-nf-call-iptables", value, sizeof(value));
    if (strcmp(value, "1") != 0 || !forward_drops(needs))
        return;
    /* The embedded host's bridge stands in a namespace with tables of its own. */
    preflight_findf(preflight, embedded ? PREFLIGHT_NOTE : PREFLIGHT_WARNING, "firewall",
                    embedded ? ""
                             : "accept frames of that bridge (iptables -I FORWARD -m physdev "
                               "--physdev-is-bridged -j ACCEPT), or set "
                               "net.bridge.bridge-nf-call-iptables=0",
                    "bridged frames go through iptables (br_netfilter is loaded, "
                    "bridge-nf-call-iptables=1) and the FORWARD chain drops by default, as Docker "
                    "sets it: on a bridge of this machine VMs answer ARP and no IP packet%s",
                    embedded ? "; VMs of the embedded host are not concerned" : "");
}
