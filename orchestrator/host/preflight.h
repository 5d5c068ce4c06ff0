/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight: everything that would stop or bend a run, found before the first change and told in
 * one go, each with what to do. Reads only; no mode, rule or file of the machine is changed.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_PREFLIGHT_H
#define VTILE_ORCHESTRATOR_HOST_PREFLIGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/domain.h"
#include "base/error.h"

#define PREFLIGHT_FINDINGS_MAX 64

enum preflight_level { PREFLIGHT_NOTE, PREFLIGHT_WARNING, PREFLIGHT_ERROR };

struct preflight_finding {
    enum preflight_level level;
    char check[24]; /* "rights", "memory", "firewall", ...: stable, for --json */
    char what[320]; /* what is so, with the object and the numbers */
    char act[320];  /* what to do; "" for notes that need nothing */
};
struct preflight {
    struct preflight_finding findings[PREFLIGHT_FINDINGS_MAX];
    unsigned n;
    unsigned errors, warnings; /* counted also where the table is full */
};

#define PREFLIGHT_ROLES_MAX 16
#define PREFLIGHT_TILES_MAX 256

/* What the VM of a role takes at most. */
struct preflight_role {
    uint64_t memory_bytes; /* the guest's, with its emulator's own */
    uint64_t disk_bytes;   /* a tile's share of its data disk; 0: none */
    uint64_t data_bytes;   /* generated contents of a tile */
    unsigned vcpus;
    unsigned share; /* so many tiles have one of it in common, 1 at least */
};
struct preflight_sum {
    unsigned vms, vcpus;
    uint64_t memory_bytes, disk_bytes;
    uint64_t data_bytes; /* on data disks */
};
/* Pure: what so many tiles take, and how many fit; *ret_end: "memory", "disk", or "names" where
 * PREFLIGHT_TILES_MAX fit. */
struct preflight_sum preflight_sum(const struct preflight_role *roles, unsigned n, unsigned tiles);
unsigned preflight_fit(const struct preflight_role *roles, unsigned n, uint64_t memory_bytes,
                       uint64_t disk_bytes, const char **ret_end);

/* What the run is about to do. Zero or "" = not asked for, not checked. */
struct preflight_needs {
    const char *root;          /* of /proc, /sys, /etc, /dev: "" in life, a tree in tests */
    const char *state, *cache; /* folders, existing or not */
    const char *uri;
    const char *embed_root;
    const char *run; /* names derived from it must be free */
    const struct vt_domain *domains;
    unsigned ndomains;
    /* For how many tiles fit, and what is in the way of that many. */
    const char *spec;
    struct preflight_role roles[PREFLIGHT_ROLES_MAX];
    unsigned nroles, tiles;
    uint64_t vm_overhead_bytes; /* of QEMU beside the guest's memory; 0: PREFLIGHT_VM_OVERHEAD */
    uint64_t state_bytes, cache_bytes; /* free space wanted */
    const char *image;                 /* a file that must be readable */
    /* Files and folders that QEMU must reach; NULL ends. Checked where QEMU runs as another user:
     * qemu_uid, or for a system daemon the one that its configuration names. */
    const char *const *qemu_paths;
    uid_t qemu_uid; /* 0: see above */
    gid_t qemu_gid;
};
/* Code, QEMU's heap and device models of a TCG guest without its memory and translation buffer. */
#define PREFLIGHT_VM_OVERHEAD (64ULL << 20)

/* Runs every check that applies. Findings are the result: fails only for lack of memory. */
void preflight_run(const struct preflight_needs *needs, struct preflight *ret);
void preflight_add(struct preflight *preflight, enum preflight_level level, const char *check,
                   const char *what, const char *act);
/* An error of kind CONFIG that counts the errors, which the caller has told; 0: there is none. */
int preflight_error(const struct preflight *preflight, struct vt_error *err);

/* The first folder of path that uid/gid cannot search, or the file that they cannot read. Returns 1
 * and fills blocked, 0 when all is passable, negative when path cannot be looked at. Mode bits and
 * POSIX ACLs count. root as above. */
int preflight_first_blocked(const char *root, const char *path, uid_t uid, gid_t gid, char *blocked,
                            size_t size);
/* Whether a chain ("FORWARD", "INPUT") drops by default, out of what `iptables -S` or `nft list
 * chains` prints. */
bool preflight_chain_drops(const char *text, const char *chain);

#endif
