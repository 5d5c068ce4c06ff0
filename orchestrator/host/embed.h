/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed: the embedded host: libvirt's QEMU driver inside this process, all its files below one
 * folder. One process a folder: vtile.lock there says who.
 * As root the driver asks for more: a user `libvirt-qemu`, which only the daemon's package makes,
 * and files in /run/libvirt. Both are given to it in a mount namespace of this process, so that the
 * machine's own files are not changed. A /dev/kvm that runs nothing is hidden there, too.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_EMBED_H
#define VTILE_ORCHESTRATOR_HOST_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/domain.h"
#include "base/error.h"

/* sockaddr_un holds 108 bytes; libvirt's longest path below the root is
 * /lib/qemu/domain-<5 digits>-<20 bytes of the name>/monitor.sock: 56 and a NUL. */
#define EMBED_ROOT_MAX 50

struct embed {
    char root[EMBED_ROOT_MAX + 1];
    char uri[EMBED_ROOT_MAX + 32];
    int lock_fd;
    int outer_mnt_fd; /* the mount namespace we came from, -1 while we are in it */
    int run_fd;       /* the machine's /run/libvirt, which is covered here */
    int unstarted;    /* domains that embed_open found half started and removed */
};
struct embed_holder {
    pid_t pid; /* 0: nobody */
    char run[33];
};

/* Makes root (0700) and its qemu.conf, takes the lock. -EBUSY: err says who holds it. run: whose
 * name stands in the lock file. */
int embed_open(const char *root, const char *run, struct embed *ret, struct vt_error *err);
/* The folder that the URI of an embedded host names, within uri; NULL for other hosts. */
const char *embed_root_of(const char *uri);
/* Goes into the mount namespace. Before any thread exists, and after net_enter, whose mount the
 * machine must see. */
int embed_enter(struct embed *embed, struct vt_error *err);
/* The URI by which this process opens a host: another where a system daemon's socket is covered. */
void embed_outer_uri(const struct embed *embed, const char *uri, char *ret, size_t size);
/* Who holds the lock, without taking it. */
int embed_read_holder(const char *root, struct embed_holder *ret, struct vt_error *err);
/* Pid of a running domain's QEMU (from its pid file), 0 when there is none. */
pid_t embed_domain_pid(const char *root, const char *domain);
/* A QEMU of which an argument names something below root. */
bool embed_is_emulator(const char *root, pid_t pid);
/* No answers of the emulator are cached that fit its present binary. */
bool embed_cache_is_cold(const char *root, const char *emulator);
/* Ends the QEMU that runs with this UUID, whether its driver knows it or not. Returns how many it
 * ended, negative when one is still there after 10 s. */
int embed_end_uuid(const char *uuid);
/* Ends QEMUs below root whose pid is not in known: a probe, say, whose parent was killed. Only
 * while the lock is held and the driver's domains are in known. Returns as embed_end_uuid. */
int embed_end_strays(const char *root, const pid_t *known, size_t nknown);
/* Ends the QEMUs that the driver of root asks for their capabilities. Returns as embed_end_uuid. */
int embed_end_probes(const char *root);
/* Ends what a killed run had forked and what has not come to exec: copies of this very program in
 * the run's network namespace, which would still write files. Returns as embed_end_uuid. */
int embed_end_orphans(const char *netns_path);
/* Pid files and half-written status without a status file, whose emulator is gone. Returns how many
 * it removed. */
int embed_remove_stale(const char *root);
/* Removes what a domain that is gone leaves below root: its log, and what its driver did not live
 * to remove. */
void embed_forget_domain(const char *root, const char *domain);
/* Domains of ours whose driver was killed while it started them: libvirt 9.0 takes them up again
 * with a start job that nobody ends, so that they can never be destroyed. Ends their QEMUs and
 * removes their status. Before the driver is opened, while the lock is held. Returns how many. */
int embed_forget_unstarted(const char *root);
void embed_close(struct embed *embed); /* may be called twice, or on zeroes */

#endif
