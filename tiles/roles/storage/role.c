/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/registry.h"
#include "tiles/roles/storage/streams.h"

static const char *const no_peers[] = {NULL};

static const char *check_jobs(const struct spec_jobs *jobs)
{
    if (jobs->read_share <= 0)
        return "expected read_share, the share of reads among random accesses";
    if (jobs->block_bytes <= 0)
        return "expected block, the bytes of a random access";
    if (jobs->stream_rate > 0 && jobs->stream_block_bytes <= 0)
        return "expected stream_block, the bytes of a sequential read";
    return NULL;
}

const struct role role_storage = {
    .name = "storage",
    .short_name = "stor",
    .help = "fio: random reads and writes, and sequential reads, at constant rates",
    .peers = no_peers,
    .guest = &role_storage_guest,
    .operations = stream_names,
    .noperations = STREAM_KINDS,
    .due = streams_due,
    .check_jobs = check_jobs,
};
