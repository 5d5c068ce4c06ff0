/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler: what this machine and this process do, once a second, as numbers by name:
 *   cpu.user cpu.system cpu.idle cpu.iowait cpu.steal   shares of one CPU (0..number of CPUs)
 *   mem.available_bytes   net.rx_bytes_s net.tx_bytes_s (all interfaces but lo)
 *   mem.pressure mem.pressure_full   seconds a second that some or all tasks waited for memory
 *   mem.oom_kills         programs killed for lack of memory since boot
 *   swap.in_bytes_s swap.out_bytes_s
 *   disk.read_bytes_s disk.write_bytes_s disk.busy   of all disks; busy: 1 for each that is
 *   agent.cpu             share of one CPU that the agent takes
 *   agent.run_delay       seconds a second that it was runnable and did not run
 * Files are opened once; a value that cannot be had is left out.
 */
#ifndef VTILE_AGENTS_SAMPLER_H
#define VTILE_AGENTS_SAMPLER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct sampler {
    /* the owner fills: which of them */
    bool machine, process;
    /* private */
    bool begun;
    int stat_fd, memory_fd, net_fd, schedule_fd, pressure_fd, vm_fd, disk_fd;
    int64_t last_ns;
    uint64_t cpu[8], received, sent, run_ns, delay_ns;
    uint64_t pressure_us[2], swapped[2], disk[3];
};

void sampler_begin(struct sampler *sampler);
/* Rates since the last call; the first after sampler_begin has none of them. NULL: nothing. */
json_t *sampler_take(struct sampler *sampler, int64_t now_ns);
void sampler_end(struct sampler *sampler); /* may be called twice, and without begin */

#endif
