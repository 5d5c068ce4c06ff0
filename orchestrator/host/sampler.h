/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler: what this machine and the QEMUs on it do while a run goes on, as numbers by name, from
 * /proc and /sys. Shares are of one CPU. Of the machine:
 *   cpu.user cpu.system cpu.idle cpu.iowait cpu.irq cpu.steal cpu.guest   0..number of CPUs;
 *       system holds irq (hard and soft), user holds guest
 *   cpu.<n>.user ...             the same of pCPU n
 *   mem.available_bytes mem.cached_bytes swap.in_bytes_s swap.out_bytes_s ksm.pages_sharing
 *   psi.cpu.some psi.memory.some psi.memory.full psi.io.some psi.io.full   shares of the time
 * and of each domain, by its threads' schedstat:
 *   vcpu.<n>.cpu vcpu.<n>.run_delay     running; seconds a second that it could run and did not.
 *       "vcpu.all" where one thread emulates all vCPUs
 *   vhost.<n>.cpu vhost.<n>.run_delay
 *   emulator.cpu emulator.run_delay     all other threads of QEMU; its main thread
 *
 * Files that are read each time stay open, so that a pid used again is never taken for the old one,
 * up to a quarter of the descriptors that the process may have. Who is gone is looked for again.
 * Order: new -> add* -> take* -> free.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_SAMPLER_H
#define VTILE_ORCHESTRATOR_HOST_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define HOST_SAMPLER_CPUS_MAX 1024
#define HOST_SAMPLER_DOMAINS_MAX 4096
#define HOST_SAMPLER_FILE_MAX (1U << 20) /* of one file in /proc or /sys */

struct host_sampler;

struct host_sampler_settings {
    const char *root;       /* of /proc and /sys, and of pid_folder: "" in life, a tree in tests */
    const char *pid_folder; /* where libvirt keeps <domain>.pid */
    bool emulated;          /* CPUs of the domains are: some things do not exist then */
};
struct host_sample {
    const void *domain; /* as given to add; NULL: of the machine */
    const char *series;
    double value;    /* NaN: not available, */
    const char *why; /* because of this; NULL otherwise */
};
typedef void (*host_sample_put)(void *ctx, const struct host_sample *sample);

int host_sampler_new(const struct host_sampler_settings *settings, struct host_sampler **ret,
                     struct vt_error *err);
/* uuid must stand among the arguments of the process that the pid file names. */
int host_sampler_add(struct host_sampler *sampler, const void *domain, const char *name,
                     const char *uuid, struct vt_error *err);
/* Rates since the last call; the first has none of them. tell: say also what is not available. */
void host_sampler_take(struct host_sampler *sampler, int64_t now_ns, bool tell, host_sample_put put,
                       void *ctx);
struct host_sampler *host_sampler_free(struct host_sampler *sampler); /* NULL ok; NULL */

#endif
