/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net: a run's bridge and a tap for each NIC.
 * On the embedded host they stand, with this process, in a network namespace of the run. It is
 * named by a bind mount in /run/netns, as `ip netns` does, so that people can look inside (`ip
 * netns exec vt-1a2b3c ip link`) and that it can be found and removed. QEMUs of a system daemon
 * open taps where that daemon is: there the bridge stands in the machine's own namespace. It has no
 * port to the outside, no rule of the firewall and no route but its own are set, and one run at a
 * time has the addresses. Either way traffic reaches only addresses of the plan.
 *
 * Plan: 198.18.0.0/15, kept for benchmarks by RFC 2544. The controller, on the bridge, is
 * 198.18.0.1; NIC n of role number r of tile t is 198.(18 + t / 256).(t % 256).(10 + r + 40 n).
 * Names: netns `vt-<6hex>`, bridge `vt-<6hex>-br`, tap `vt-<6hex>-003d`, with the NIC's number
 * behind it from the second on: 15 bytes at most, which is all the kernel takes. 6hex is the
 * beginning of the run's id.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_NET_H
#define VTILE_ORCHESTRATOR_HOST_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/domain.h"
#include "base/journal.h"

#define NET_HEX 6
#define NET_TILES_MAX 511
#define NET_ROLES_MAX 16
#define NET_NICS_MAX 4
#define NET_CONTROLLER "198.18.0.1"
#define NET_PREFIX 15
#define NET_RANGE "198.18.0.0/15"

struct net {
    char hex[NET_HEX + 1];
    char netns[64];             /* /run/netns/vt-<6hex>, "" in the machine's own */
    char bridge[VT_IFNAME_MAX]; /* "" until made */
    int outer_net_fd;           /* the namespace we came from, -1 = never left */
    int range_fd;               /* holds the addresses in the machine's own, else -1 */
};

/* Pure. run: at least six lower-case hex digits; letters: see net_role_letters. */
int net_name_netns(const char *run, char *name, size_t size, struct vt_error *err);
int net_name_bridge(const char *run, char name[VT_IFNAME_MAX], struct vt_error *err);
int net_name_tap(const char *run, unsigned tile, char letter, unsigned nic,
                 char name[VT_IFNAME_MAX], struct vt_error *err);
/* "vt-<6hex>-003-db" */
int net_name_domain(const char *run, unsigned tile, const char *short_role, char *name, size_t size,
                    struct vt_error *err);
/* A letter or digit for each role, all different: the first free one of its short name, else the
 * first free of a-z0-9. */
int net_role_letters(const char *const *short_names, size_t n, char *letters, struct vt_error *err);
int net_address(unsigned tile, unsigned role, unsigned nic, char address[16], struct vt_error *err);
/* Locally administered, from run, tile, role and NIC alone; the next try when it is taken. */
void net_mac(const char *run, unsigned tile, unsigned role, unsigned nic, unsigned try_number,
             char mac[18]);
/* Whether one of nics[0..n) has it. */
bool net_mac_is_taken(const char *mac, const struct vt_nic *nics, size_t n);

/* Makes and enters the namespace, makes the bridge with the controller's address. Every step is
 * journalled before. Before any thread exists. On an error what was made stays in the journal. */
int net_enter(const char *run, struct vt_journal *journal, struct net *ret, struct vt_error *err);
/* Holds the addresses and makes the same bridge in the namespace where this process is. -EBUSY:
 * another run has them. */
int net_share(const char *run, struct vt_journal *journal, struct net *ret, struct vt_error *err);
/* Makes persistent taps, ports of the bridge and up; intents are synced as one batch. */
int net_add_taps(struct net *net, struct vt_journal *journal, const char *const *names, size_t n,
                 struct vt_error *err);
/* Closes descriptors; taking back is undo's work. May be called twice, or on zeroes. */
void net_leave(struct net *net);

/* A descriptor that holds the plan's addresses in this network namespace until it is closed, or the
 * process dies; -EBUSY says who has them. */
int net_hold_range(struct vt_error *err);
/* Who holds them: 0 nobody, -1 somebody whom this process cannot see. */
pid_t net_range_holder(void);
/* A line of /proc/net/route: true, with its interface, when it takes addresses of the plan. */
bool net_route_is_in_range(const char *line, char interface[VT_IFNAME_MAX]);

/* Link state of a port of the bridge: 1 up, 0 down or missing. Of this process's namespace. */
int net_link_is_up(const char *name);

#endif
