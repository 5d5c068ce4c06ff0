/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed: the embedded host: libvirt's QEMU driver inside this process, all its files below one
 * folder. One process a folder: vtile.lock there says who. libvirt's driver wants a user
 * `libvirt-qemu` even where every VM runs as root; where the machine has none, this process gets a
 * mount namespace of its own with /etc/passwd and /etc/group that name one. The machine's own
 * files are never changed.
 */
#ifndef VTILE_HOST_EMBED_H
#define VTILE_HOST_EMBED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/domain.h"
#include "base/error.h"

/* sockaddr_un holds 108 bytes; libvirt's longest path below the root is
 * lib/qemu/domain-<id>-<20 bytes of the name>/monitor.sock, about 60. */
#define EMBED_ROOT_MAX 40

struct embed {
    char root[VT_PATH_MAX];
    char uri[VT_PATH_MAX + 32];
    int lock_fd;
    int outer_mnt_fd; /* the mount namespace we came from, -1 where we stayed in it */
    bool cache_cold;  /* no capabilities cached: opening the host takes about 5 s more */
};
struct embed_holder {
    pid_t pid; /* 0: nobody */
    char run[33];
};

/* Makes root (0700) and its qemu.conf, takes the lock. -EBUSY: err says who holds it. run: whose
 * name stands in the lock file. */
int embed_open(const char *root, const char *run, struct embed *ret, struct vt_error *err);
/* Where the machine has no user libvirt-qemu: goes into a mount namespace that has one. Before any
 * thread exists and after net_enter, whose mount must be seen by the machine. */
int embed_enter(struct embed *embed, struct vt_error *err);
/* Who holds the lock, without taking it. */
int embed_read_holder(const char *root, struct embed_holder *ret, struct vt_error *err);
/* Pid of a running domain's QEMU (from its pid file), 0 when there is none. */
pid_t embed_domain_pid(const char *root, const char *domain);
bool embed_cache_is_cold(const char *root);
/* Ends QEMUs that run below this root and that no domain is known for (a probe whose parent was
 * killed). known: pids to leave. Only while the lock is held. Returns how many. */
int embed_end_strays(const struct embed *embed, const pid_t *known, size_t nknown);
void embed_close(struct embed *embed); /* may be called twice */

#endif
