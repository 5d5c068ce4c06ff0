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

void preflight_check_rights(const struct preflight_needs *needs, struct preflight *preflight)
{
    char path[VT_PATH_MAX];

    if (geteuid() != 0) {
        preflight_add(preflight, PREFLIGHT_ERROR, "rights",
                      "a run makes a bridge and taps, and on the embedded host namespaces, which "
                      "needs root",
                      "run it with sudo");
        return;
    }
    if (access(preflight_at(needs, "/dev/net/tun", path, sizeof(path)), R_OK | W_OK) < 0)
        preflight_findf(preflight, PREFLIGHT_ERROR, "rights",
                        "load the module: modprobe tun; in a container pass the device through",
                        "taps cannot be made: /dev/net/tun: %s", strerror(errno));
}

/* Of this process's namespace, which /sys/class/net need not be. */
static bool interface_exists(const struct preflight_needs *needs, const char *name)
{
    char path[VT_PATH_MAX], line[512];
    VT_AUTO_FCLOSE FILE *f = fopen(preflight_at(needs, "/proc/net/dev", path, sizeof(path)), "re");
    size_t len = strlen(name);

    while (f && fgets(line, sizeof(line), f)) {
        const char *at = line + strspn(line, " ");
        if (!strncmp(at, name, len) && at[len] == ':')
            return true;
    }
    return false;
}

static void check_interface(const struct preflight_needs *needs, const char *name,
                            struct preflight *preflight)
{
    if (name[0] && interface_exists(needs, name))
        preflight_findf(preflight, PREFLIGHT_ERROR, "names",
                        "run `vtile clean`; if it stays, it is not ours: start again, the next "
                        "run has other names",
                        "an interface %s is there already", name);
}

void preflight_check_names(const struct preflight_needs *needs, struct preflight *preflight)
{
    char netns[64], bridge[VT_IFNAME_MAX], path[VT_PATH_MAX];
    struct vt_error err = VT_ERROR_INIT;
    bool embedded = needs->uri && host_uri_is_embed(needs->uri);

    if (!needs->run || !needs->run[0])
        return;
    if (net_name_netns(needs->run, netns, sizeof(netns), &err) < 0 ||
        net_name_bridge(needs->run, bridge, &err) < 0) {
        preflight_add(preflight, PREFLIGHT_ERROR, "names", err.text, "");
        return;
    }
    if (embedded && access(preflight_at(needs, netns, path, sizeof(path)), F_OK) == 0)
        preflight_findf(preflight, PREFLIGHT_ERROR, "names",
                        "run `vtile clean`; if it stays, it is not ours: start again, the next "
                        "run has another name",
                        "the network namespace %s is there already", netns);
    /* The embedded host's interfaces stand in a namespace that is new. */
    if (!embedded) {
        check_interface(needs, bridge, preflight);
        for (unsigned i = 0; i < needs->ndomains; i++)
            for (unsigned n = 0; n < needs->domains[i].nnics; n++)
                check_interface(needs, needs->domains[i].nics[n].tap, preflight);
    }
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
bool preflight_chain_drops(const char *text, const char *chain)
{
    char iptables[64], nft[64];

    snprintf(iptables, sizeof(iptables), "-P %s DROP", chain);
    snprintf(nft, sizeof(nft), "hook %s", chain);
    while (text && *text) {
        size_t len = strcspn(text, "\n");
        char line[512];

        snprintf(line, sizeof(line), "%.*s", (int)len, text);
        const char *hook = strcasestr(line, nft);
        if (!strncmp(line, iptables, strlen(iptables)) || (hook && strstr(hook, "policy drop")))
            return true;
        text += len + (text[len] == '\n');
    }
    return false;
}

/* In a tree for tests the answer of `iptables -S <chain>` stands in a file. False also where nobody
 * can tell. */
static bool chain_drops(const struct preflight_needs *needs, const char *chain)
{
    const char *const iptables[] = {"iptables", "-S", chain, NULL};
    static const char *const nft[] = {"nft", "list", "chains", NULL};
    const char *const *const commands[] = {iptables, nft};
    bool drops = false;

    if (needs->root && needs->root[0]) {
        char path[64], text[4096];
        snprintf(path, sizeof(path), "/iptables-S-%s", chain);
        preflight_read(needs, path, text, sizeof(text));
        return preflight_chain_drops(text, chain);
    }
    for (size_t i = 0; i < VT_COUNT(commands) && !drops; i++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(RULES_MAX);
        if (vt_proc_run(commands[i], &out, 10 * VT_NS_PER_S, NULL) == 0)
            drops = preflight_chain_drops(out.data, chain);
    }
    return drops;
}

/* What agents say to the controller comes in by the machine's own address on the bridge. */
static void check_input(const struct preflight_needs *needs, struct preflight *preflight)
{
    if (!host_uri_is_embed(needs->uri) && chain_drops(needs, "INPUT"))
        preflight_findf(preflight, PREFLIGHT_WARNING, "firewall",
                        "accept it, unless a rule does so already: iptables -I INPUT -s " NET_RANGE
                        " -j ACCEPT",
                        "the INPUT chain drops by default: it may drop what VMs say to the "
                        "controller, " NET_CONTROLLER);
}

void preflight_check_firewall(const struct preflight_needs *needs, struct preflight *preflight)
{
    char value[16];
    bool embedded = host_uri_is_embed(needs->uri);

    check_input(needs, preflight);
    preflight_read(needs, "/proc/sys/net/bridge/bridge-nf-call-iptables", value, sizeof(value));
    if (strcmp(value, "1") != 0 || !chain_drops(needs, "FORWARD"))
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
