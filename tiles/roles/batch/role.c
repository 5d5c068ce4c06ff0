/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/batch/windows.h"
#include "tiles/roles/registry.h"

static const char *const no_peers[] = {NULL};
static const char *const operations[] = {
    [BATCH_COMPRESS] = "compress", [BATCH_COMPILE] = "compile"};

static const char *check_jobs(const struct spec_jobs *jobs)
{
    if (jobs->compress_bytes < 1)
        return "expected compress, the bytes that a job compresses";
    if (jobs->compile_functions < 1)
        return "expected compile, the functions that a job compiles";
    return NULL;
}

const struct role role_batch = {
    .name = "batch",
    .short_name = "batch",
    .help = "bzip2 and gcc jobs in windows, each to be done by its window's end",
    .peers = no_peers,
    .guest = &role_batch_guest,
    .operations = operations,
    .noperations = BATCH_KINDS,
    .resumes = true,
    .due = windows_due,
    .check_jobs = check_jobs,
};
