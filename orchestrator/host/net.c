/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/outer.h"
#include "orchestrator/host/rtnl.h"
#include "orchestrator/host/undo.h"

#define NETNS_FOLDER "/run/netns"

/* A setting that dies with its namespace or its link. One that this kernel has not is none to set.
 */
static void set_if_there(const char *path, const char *value)
{
    VT_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, value, strlen(value)) < 0)
        return;
}

/* Makes the empty file that the namespace is mounted on; somebody else's is refused. */
static int make_name(struct net *net, struct vt_journal *journal, uint64_t folder_id,
                     uint64_t netns_id, struct vt_error *err)
{
    int code = 0;

    if (mkdir(NETNS_FOLDER, 0755) == 0)
        code = vt_journal_mark(journal, folder_id, VT_JOURNAL_APPLIED, NULL, err);
    else if (errno == EEXIST) /* not ours to remove */
        code = vt_journal_mark(journal, folder_id, VT_JOURNAL_UNDONE, NULL, err);
    else
        code = vt_error_errno(err, VT_KIND_INFRA, errno, "make the folder " NETNS_FOLDER);
    if (code < 0)
        return code;
    VT_AUTO_CLOSE int fd = open(net->netns, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd >= 0)
        return 0;
    code = vt_error_errno(err, VT_KIND_INFRA, errno, "make %s", net->netns);
    if (code == -EEXIST)
        vt_journal_mark(journal, netns_id, VT_JOURNAL_UNDONE, NULL, NULL);
    return code;
}

static int enter_namespace(struct net *net, struct vt_journal *journal, uint64_t netns_id,
                           struct vt_error *err)
{
    net->outer_net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (net->outer_net_fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open /proc/self/ns/net");
    if (unshare(CLONE_NEWNET) < 0)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "make a network namespace (run as root)");
    if (mount("/proc/self/ns/net", net->netns, NULL, MS_BIND, NULL) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "mount the namespace on %s", net->netns);
    return vt_journal_mark(journal, netns_id, VT_JOURNAL_APPLIED, NULL, err);
}

static void bridge_mac(const char *run, uint8_t mac[6])
{
    char text[18];

    net_mac(run, 0, 0, 0, 0, text);
    sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
           &mac[5]);
}

/* Nothing here speaks IPv6; its discovery would only add frames and wake guests. */
static void quiet_link(const char *name)
{
    char path[96];

    snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
    set_if_there(path, "1");
}

/* Of a namespace that is the run's alone. */
static int set_up_namespace(struct vt_error *err)
{
    struct rtnl_link loopback;
    VT_AUTO_CLOSE int fd = rtnl_open();
    int code = fd < 0 ? fd : rtnl_get(fd, "lo", &loopback);

    quiet_link("all");
    quiet_link("default");
    /* Where br_netfilter is loaded, frames of the bridge would walk through empty tables. */
    set_if_there("/proc/sys/net/bridge/bridge-nf-call-iptables", "0");
    set_if_there("/proc/sys/net/bridge/bridge-nf-call-ip6tables", "0");
    set_if_there("/proc/sys/net/bridge/bridge-nf-call-arptables", "0");
    if (code == 0)
        code = rtnl_set_up(fd, loopback.index, 0);
    return code < 0 ? vt_error_errno(err, VT_KIND_INFRA, -code, "set up the namespace") : 0;
}

static int make_bridge(struct net *net, const char *run, struct vt_journal *journal,
                       uint64_t bridge_id, struct vt_error *err)
{
    struct rtnl_link bridge;
    struct in_addr controller;
    uint8_t mac[6];
    VT_AUTO_CLOSE int fd = rtnl_open();
    int code = fd < 0 ? fd : 0;

    bridge_mac(run, mac);
    inet_pton(AF_INET, NET_CONTROLLER, &controller);
    if (code == 0)
        code = rtnl_add_bridge(fd, net->bridge, mac);
    if (code == -EEXIST) /* somebody else's */
        vt_journal_mark(journal, bridge_id, VT_JOURNAL_UNDONE, NULL, NULL);
    if (code == 0)
        code = rtnl_get(fd, net->bridge, &bridge);
    quiet_link(net->bridge);
    if (code == 0)
        code = rtnl_add_address(fd, bridge.index, controller.s_addr, NET_PREFIX);
    if (code == 0)
        code = rtnl_set_up(fd, bridge.index, 0);
    if (code < 0)
        return vt_error_errno(err, VT_KIND_INFRA, -code, "make the bridge %s", net->bridge);
    return vt_journal_mark(journal, bridge_id, VT_JOURNAL_APPLIED, NULL, err);
}

int net_enter(const char *run, struct vt_journal *journal, struct net *ret, struct vt_error *err)
{
    struct net net = {.outer_net_fd = -1, .range_fd = -1};
    uint64_t folder_id = 0, netns_id = 0, bridge_id = 0;
    int code = outer_check_alone(err);

    if (code == 0)
        code = net_name_netns(run, net.netns, sizeof(net.netns), err);
    if (code == 0)
        code = net_name_bridge(run, net.bridge, err);
    if (code < 0)
        return code;
    snprintf(net.hex, sizeof(net.hex), "%.6s", run);
    code = vt_journal_intent(journal, UNDO_FOLDER, NETNS_FOLDER, "", "", &folder_id, err);
    if (code == 0)
        code = vt_journal_intent(journal, UNDO_NETNS, net.netns, "", "", &netns_id, err);
    if (code == 0)
        code = vt_journal_intent(journal, UNDO_BRIDGE, net.bridge, "", net.netns, &bridge_id, err);
    if (code == 0)
        code = vt_journal_sync(journal, err);
    if (code == 0)
        code = make_name(&net, journal, folder_id, netns_id, err);
    if (code == 0)
        code = enter_namespace(&net, journal, netns_id, err);
    if (code == 0)
        code = set_up_namespace(err);
    if (code == 0)
        code = make_bridge(&net, run, journal, bridge_id, err);
    if (code < 0) {
        net_leave(&net);
        return vt_error_wrap(err, "make the network of run %s", run);
    }
    *ret = net;
    return 0;
}

int net_share(const char *run, struct vt_journal *journal, struct net *ret, struct vt_error *err)
{
    struct net net = {.outer_net_fd = -1, .range_fd = -1};
    uint64_t bridge_id;
    int code = net_name_bridge(run, net.bridge, err);

    if (code < 0)
        return code;
    snprintf(net.hex, sizeof(net.hex), "%.6s", run);
    net.range_fd = net_hold_range(err);
    if (net.range_fd < 0)
        return net.range_fd;
    code = vt_journal_intent(journal, UNDO_BRIDGE, net.bridge, "", "", &bridge_id, err);
    if (code == 0)
        code = vt_journal_sync(journal, err);
    if (code == 0)
        code = make_bridge(&net, run, journal, bridge_id, err);
    if (code < 0) {
        net_leave(&net);
        return vt_error_wrap(err, "make the network of run %s", run);
    }
    *ret = net;
    return 0;
}

/* A tap that stays when its maker closes it, for QEMU to open by name. With vnet_hdr, as virtio
 * wants it: a second opener must ask for the same flags. */
static int make_tap(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL};
    VT_AUTO_CLOSE int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    if (fd < 0 || !vt_text_copy(request.ifr_name, sizeof(request.ifr_name), name))
        return fd < 0 ? -errno : -ENAMETOOLONG;
    if (ioctl(fd, TUNSETIFF, &request) < 0)
        return errno == EBUSY ? -EEXIST : -errno;
    return ioctl(fd, TUNSETPERSIST, 1) < 0 ? -errno : 0;
}

static int add_tap(int fd, const char *name, int bridge_index)
{
    struct rtnl_link tap = {0};
    int code = make_tap(name);

    if (code == 0)
        code = rtnl_get(fd, name, &tap);
    quiet_link(name);
    return code < 0 ? code : rtnl_set_up(fd, tap.index, bridge_index);
}

int net_add_taps(struct net *net, struct vt_journal *journal, const char *const *names, size_t n,
                 struct vt_error *err)
{
    struct rtnl_link bridge;
    uint64_t first_id = 0, id;
    VT_AUTO_CLOSE int fd = rtnl_open();
    int code = fd < 0 ? fd : rtnl_get(fd, net->bridge, &bridge);

    if (code < 0)
        return vt_error_errno(err, VT_KIND_INFRA, -code, "find the bridge %s", net->bridge);
    for (size_t i = 0; i < n; i++) {
        code = vt_journal_intent(journal, UNDO_TAP, names[i], "", net->netns, &id, err);
        if (code < 0)
            return code;
        if (i == 0)
            first_id = id;
    }
    code = n ? vt_journal_sync(journal, err) : 0;
    for (size_t i = 0; i < n && code == 0; i++) {
        code = add_tap(fd, names[i], bridge.index);
        if (code == -EEXIST) /* somebody else's */
            vt_journal_mark(journal, first_id + i, VT_JOURNAL_UNDONE, NULL, NULL);
        if (code < 0)
            return vt_error_errno(err, VT_KIND_INFRA, -code, "make the tap %s", names[i]);
        code = vt_journal_mark(journal, first_id + i, VT_JOURNAL_APPLIED, NULL, err);
    }
    return code;
}

void net_leave(struct net *net)
{
    if (net->hex[0] && net->outer_net_fd >= 0)
        close(net->outer_net_fd);
    if (net->hex[0] && net->range_fd >= 0)
        close(net->range_fd);
    net->outer_net_fd = net->range_fd = -1;
}

int net_link_is_up(const char *name)
{
    struct rtnl_link link;
    VT_AUTO_CLOSE int fd = rtnl_open();

    return fd >= 0 && rtnl_get(fd, name, &link) == 0 && (link.flags & IFF_RUNNING) ? 1 : 0;
}
