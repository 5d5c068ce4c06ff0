/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tiles of a spec the host holds, and what ends it: memory at its worst, when guests have
 * touched all of theirs and each emulator has filled its buffers; data disks that are full; and
 * CPUs, of which there is no end, only a warning.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/preflight_checks.h"

#define MIB (UINT64_C(1) << 20)
/* [ours] Beyond it VMs mostly wait for CPUs, unless they are idle. */
#define VCPUS_A_CPU 4

static unsigned vms_of(const struct preflight_role *role, unsigned tiles)
{
    return (tiles + role->share - 1) / role->share;
}

struct preflight_sum preflight_sum(const struct preflight_role *roles, unsigned n, unsigned tiles)
{
    struct preflight_sum sum = {0};

    for (unsigned i = 0; i < n; i++) {
        unsigned vms = vms_of(&roles[i], tiles);

        sum.vms += vms;
        sum.vcpus += vms * roles[i].vcpus;
        sum.memory_bytes += vms * roles[i].memory_bytes;
        sum.disk_bytes += tiles * roles[i].disk_bytes;
        sum.data_bytes += roles[i].disk_bytes ? tiles * roles[i].data_bytes : 0;
    }
    return sum;
}

unsigned preflight_fit(const struct preflight_role *roles, unsigned n, uint64_t memory_bytes,
                       uint64_t disk_bytes, const char **ret_end)
{
    unsigned tiles = 0;

    *ret_end = "names";
    for (; tiles < PREFLIGHT_TILES_MAX; tiles++) {
        struct preflight_sum next = preflight_sum(roles, n, tiles + 1);

        if (next.memory_bytes > memory_bytes) {
            *ret_end = "memory";
            break;
        }
        if (next.disk_bytes > disk_bytes) {
            *ret_end = "disk";
            break;
        }
    }
    return tiles;
}

static void check_disk(const struct preflight_needs *needs, const struct preflight_sum *wanted,
                       uint64_t free_bytes, struct preflight *preflight)
{
    if (wanted->data_bytes + needs->state_bytes > free_bytes)
        preflight_findf(preflight, PREFLIGHT_ERROR, "disk",
                        "free space, ask for fewer tiles, or set VTILE_STATE to a folder that has "
                        "more",
                        "data disks get %" PRIu64 " MiB of contents, %s has %" PRIu64 " MiB free",
                        wanted->data_bytes / MIB, needs->state, free_bytes / MIB);
    else if (wanted->disk_bytes > free_bytes)
        preflight_findf(preflight, PREFLIGHT_WARNING, "disk", "free space, or make disks smaller",
                        "data disks may grow to %" PRIu64 " MiB, %s has %" PRIu64 " MiB free",
                        wanted->disk_bytes / MIB, needs->state, free_bytes / MIB);
}

static void check_ratio(const struct preflight_sum *wanted, unsigned cpus,
                        struct preflight *preflight)
{
    if (cpus && wanted->vcpus > cpus * VCPUS_A_CPU)
        preflight_findf(preflight, PREFLIGHT_WARNING, "cpu",
                        "ask for fewer tiles or less load, or expect QoS to fail",
                        "%u vCPUs share %u CPUs, %.1f each: more than %d mostly wait",
                        wanted->vcpus, cpus, (double)wanted->vcpus / cpus, VCPUS_A_CPU);
}

static const char *why_no_more(const char *end)
{
    if (!strcmp(end, "names"))
        return ", the most that a run can have";
    return !strcmp(end, "disk") ? "; for more there is too little disk space"
                                : "; for more there is too little memory";
}

void preflight_check_fit(const struct preflight_needs *needs, struct preflight *preflight)
{
    uint64_t memory = preflight_memory_field(needs, "MemAvailable"), space = 0;
    unsigned cpus = preflight_cpus(needs), fit;
    struct preflight_sum one, wanted;
    const char *end;

    if (!needs->nroles || !memory)
        return;
    one = preflight_sum(needs->roles, needs->nroles, 1);
    wanted = preflight_sum(needs->roles, needs->nroles, needs->tiles);
    if (!needs->state || preflight_free_space(needs, needs->state, &space) < 0)
        space = UINT64_MAX; /* told elsewhere */
    fit = preflight_fit(needs->roles, needs->nroles, memory,
                        space == UINT64_MAX
                            ? space
                            : space - (space < needs->state_bytes ? space : needs->state_bytes),
                        &end);
    preflight_findf(preflight, PREFLIGHT_NOTE, "fit", "",
                    "%u tile%s of %s fit%s on this host%s: one takes up to %" PRIu64
                    " MiB of memory (%u VMs with their emulators), of which %" PRIu64
                    " MiB are available, and %" PRIu64 " MiB of disk; its %u vCPUs share %u CPUs",
                    fit, fit == 1 ? "" : "s", needs->spec, fit == 1 ? "s" : "", why_no_more(end),
                    one.memory_bytes / MIB, one.vms, memory / MIB, one.disk_bytes / MIB, one.vcpus,
                    cpus);
    if (!needs->ndomains && wanted.memory_bytes > memory) /* else told domain by domain */
        preflight_findf(preflight, PREFLIGHT_ERROR, "memory", "free memory, or ask for fewer tiles",
                        "%u VMs may need %" PRIu64 " MiB with their emulators, %" PRIu64
                        " MiB are available",
                        wanted.vms, wanted.memory_bytes / MIB, memory / MIB);
    check_disk(needs, &wanted, space, preflight);
    check_ratio(&wanted, cpus, preflight);
}
