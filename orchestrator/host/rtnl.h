/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rtnl: the few rtnetlink requests that the embedded network needs. A socket belongs to the network
 * namespace that it was opened in, whatever its thread enters later.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_RTNL_H
#define VTILE_ORCHESTRATOR_HOST_RTNL_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct rtnl_link {
    int index, master; /* master 0: none */
    unsigned flags;    /* IFF_* */
    uint8_t mac[6];
    char kind[16]; /* "bridge", "tun", "" for hardware */
};

/* In the caller's namespace, or in the one of a file such as /run/netns/x (the caller's thread goes
 * there and back). A descriptor, or a negative errno. */
int rtnl_open(void);
int rtnl_open_in(const char *netns_path);

/* All: 0 or a negative errno. */
int rtnl_get(int fd, const char *name, struct rtnl_link *ret); /* -ENODEV when there is none */
/* Without spanning tree, forward delay and multicast snooping: frames pass from the first on. */
int rtnl_add_bridge(int fd, const char *name, const uint8_t mac[6]);
int rtnl_delete(int fd, int index);
int rtnl_set_up(int fd, int index, int master); /* master 0: leave */
int rtnl_add_address(int fd, int index, uint32_t ipv4_be, unsigned prefix);

#endif
