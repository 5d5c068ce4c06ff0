/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts: what a host is, as names and texts for the record, where they stand as
 * "config.host.<n>.<name>" beside "config.<agent>.<name>" of guests and clients. What cannot be had
 * is there too, as "not available, because ...".
 *
 *   kernel distribution cpu cpu.model cpus sockets cores threads memory numa.nodes
 *   numa.<n>.memory_bytes numa.<n>.cpus numa.<n>.cpulist cache.<level and type> governor smt
 * mitigations.<name> thp ksm cmdline clocksource libvirt qemu driver hypervisor machine uri name
 * cores: of a socket; threads: of a core; cmdline: of the kernel's, what isolates or tunes;
 * machine: the type that VMs get.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_FACTS_H
#define VTILE_ORCHESTRATOR_HOST_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define HOST_FACTS_MAX 1024
#define HOST_FACT_NODES_MAX 256 /* NUMA nodes told one by one */

struct host_info;

struct host_fact {
    char name[48];
    char value[512]; /* cut where it is longer */
};
struct host_facts {
    struct host_fact all[HOST_FACTS_MAX];
    size_t n;
};

/* The first value of a name stays. */
void host_facts_put(struct host_facts *facts, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "not available, because <why>". */
void host_facts_lack(struct host_facts *facts, const char *name, const char *why);
const char *host_facts_find(const struct host_facts *facts, const char *name); /* NULL: none */

/* From a capabilities document, of whatever host: CPU model, topology, NUMA, caches, machine. */
int host_facts_add_capabilities(struct host_facts *facts, const char *xml, struct vt_error *err);
/* From /proc, /sys and /etc of this machine, below root ("" in life). */
void host_facts_add_machine(struct host_facts *facts, const char *root);
/* Versions, and last what is still missing. local: the host is this machine. */
void host_facts_add_info(struct host_facts *facts, const struct host_info *info, bool local);

#endif
