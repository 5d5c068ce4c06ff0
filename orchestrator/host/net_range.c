/* SPDX-License-Identifier: Apache-2.0 */
/* Who has the plan's addresses in this network namespace: one run at a time, and nobody else. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/scope.h"
#include "orchestrator/host/net.h"

/* An abstract socket: its names are a network namespace's own, as addresses are, and it goes with
 * its process. */
#define HOLD_NAME "vtile/198.18.0.0"

static socklen_t hold_address(struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, HOLD_NAME, strlen(HOLD_NAME));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(HOLD_NAME));
}

int net_hold_range(struct vt_error *err)
{
    struct sockaddr_un address;
    socklen_t size = hold_address(&address);
    VT_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, SOMAXCONN) == 0)
        return vt_take_fd(fd);
    if (errno != EADDRINUSE)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "hold the addresses " NET_RANGE);
    pid_t holder = net_range_holder();
    char who[32] = "";
    if (holder > 0)
        snprintf(who, sizeof(who), " (pid %d)", (int)holder);
    return vt_error_set(err, VT_KIND_INFRA, -EBUSY,
                        "another run%s has the addresses " NET_RANGE
                        " of this machine: wait for it (`vtile watch` follows it)",
                        who);
}

pid_t net_range_holder(void)
{
    struct sockaddr_un address;
    socklen_t size = hold_address(&address);
    struct ucred peer;
    socklen_t peer_size = sizeof(peer);
    VT_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* Connections are never taken: where the queue is full of questions, its owner is not told. */
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) < 0)
        return errno == EAGAIN ? -1 : 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) < 0 || peer.pid <= 0)
        return -1;
    return peer.pid;
}

/* "eth0 000012C6 00000000 0001 0 0 0 0000FEFF ...": addresses as they stand in memory. */
bool net_route_is_in_range(const char *line, char interface[VT_IFNAME_MAX])
{
    char name[VT_IFNAME_MAX];
    uint32_t destination, mask;
    struct in_addr controller;

    if (sscanf(line, "%15s %" SCNx32 " %*x %*x %*d %*d %*d %" SCNx32, name, &destination, &mask) !=
        3)
        return false;
    inet_pton(AF_INET, NET_CONTROLLER, &controller);
    const uint32_t range_mask = ~(UINT32_MAX >> NET_PREFIX);
    /* A wider route, such as a default one, loses against the plan's own. */
    if ((ntohl(mask) & range_mask) != range_mask ||
        (ntohl(destination) & range_mask) != (ntohl(controller.s_addr) & range_mask))
        return false;
    snprintf(interface, VT_IFNAME_MAX, "%s", name);
    return true;
}
