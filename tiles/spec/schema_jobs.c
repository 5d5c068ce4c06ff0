/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_jobs: the keys of a role's jobs section, load that its guest makes for itself.
 */
#include "base/clock.h"
#include "base/scope.h"
#include "tiles/spec/schema.h"

static const struct vt_field window_fields[] = {
    {.key = "smoke",
     .type = VT_FIELD_DURATION,
     AT(spec_jobs, windows_ns[0]),
     .min = VT_NS_PER_S,
     .max = HOUR_NS,
     .required = true,
     .help = "with the preset smoke"},
    {.key = "turbo",
     .type = VT_FIELD_DURATION,
     AT(spec_jobs, windows_ns[1]),
     .min = VT_NS_PER_S,
     .max = HOUR_NS,
     .required = true,
     .help = "with the preset turbo"},
    {.key = "standard",
     .type = VT_FIELD_DURATION,
     AT(spec_jobs, windows_ns[2]),
     .min = VT_NS_PER_S,
     .max = HOUR_NS,
     .required = true,
     .help = "with the preset standard"},
};
/* Bound into the role, which holds both what is done and how it is judged. */
static const struct vt_schema window_schema = {.name = "windows", FIELDS(window_fields, spec_jobs)};

#define JOBS(member)                                   \
    .offset = offsetof(struct spec_role, jobs.member), \
    .size = sizeof(((struct spec_role *)0)->jobs.member)
#define JUDGED(member)                                 \
    .offset = offsetof(struct spec_role, load.member), \
    .size = sizeof(((struct spec_role *)0)->load.member)

static const struct vt_field jobs_fields[] = {
    {.key = "rate",
     .type = VT_FIELD_FIXED,
     JOBS(rate),
     .min = 1000,
     .max = MILLION * MILLION,
     .required = true,
     .help = "operations a second of one tile at full load"},
    {.key = "windows",
     .type = VT_FIELD_MAP,
     .offset = offsetof(struct spec_role, jobs),
     .size = sizeof(struct spec_jobs),
     .schema = &window_schema,
     .help = "batch: all jobs of a window are due at its beginning and must be done by its end"},
    {.key = "late_workers",
     .type = VT_FIELD_PERCENT,
     JOBS(late_share),
     .max = MILLION,
     .help = "batch: share of the measure phase after which workers beyond the first begin"},
    {.key = "compress",
     .type = VT_FIELD_BYTES,
     JOBS(compress_bytes),
     .min = 4096,
     .max = 1024 * MIB,
     .help = "batch: bytes that one job compresses"},
    {.key = "compile",
     .type = VT_FIELD_INT,
     JOBS(compile_functions),
     .min = 1,
     .max = 100000,
     .help = "batch: functions that one job compiles"},
    {.key = "read_share",
     .type = VT_FIELD_PERCENT,
     JOBS(read_share),
     .min = 1,
     .max = MILLION - 1,
     .help = "storage: random reads of all random accesses"},
    {.key = "block",
     .type = VT_FIELD_BYTES,
     JOBS(block_bytes),
     .min = 512,
     .max = 16 * MIB,
     .help = "storage: bytes of a random access"},
    {.key = "stream_rate",
     .type = VT_FIELD_FIXED,
     JOBS(stream_rate),
     .min = 1000,
     .max = MILLION * MILLION,
     .help = "storage: sequential reads a second at full load"},
    {.key = "stream_block",
     .type = VT_FIELD_BYTES,
     JOBS(stream_block_bytes),
     .min = 512,
     .max = 16 * MIB,
     .help = "storage: bytes of a sequential read"},
    {.key = "bytes_per_s",
     .type = VT_FIELD_BYTES,
     JOBS(bytes_per_s),
     .min = 1024,
     .max = TIB,
     .help = "network: bytes a second of the stream at full load; default as fast as it goes"},
    {.key = "weight",
     .type = VT_FIELD_FIXED,
     JUDGED(weight),
     .min = 1,
     .max = 1000 * MILLION,
     .help = "of this role in its tile's mean; default 1"},
    {.key = "good_limit",
     .type = VT_FIELD_DURATION,
     JUDGED(good_limit_ns),
     .min = VT_NS_PER_US,
     .max = HOUR_NS,
     .help = "an operation later than that does not count for the score; default the 99 % limit, "
             "else the longest window"},
    {.key = "limits",
     .type = VT_FIELD_LIST,
     JUDGED(limits),
     .max = SPEC_LIMITS_MAX,
     .schema = &spec_limit_schema,
     .count_offset = offsetof(struct spec_role, load.nlimits),
     .help = "limits of the whole role"},
    {.key = "operations",
     .type = VT_FIELD_NAMED,
     JUDGED(operations),
     .max = SPEC_OPERATIONS_MAX,
     .schema = &spec_operation_schema,
     .count_offset = offsetof(struct spec_role, load.noperations),
     .help = "operations with limits of their own, for the longer presets"},
    {.key = "error_share_max",
     .type = VT_FIELD_PERCENT,
     JUDGED(error_share_max),
     .max = MILLION,
     .required = true,
     .help = "most late, wrong and failed operations of all that were due"},
};

static int check_jobs(void *object, const struct vt_yaml_node *node, const char *file,
                      struct vt_error *err)
{
    struct spec_role *role = object;
    struct spec_load *load = &role->load;
    int rc = spec_check_limits(load->limits, load->nlimits, node, file, err);

    if (rc < 0)
        return rc;
    load->rate = load->divisor = role->jobs.rate;
    if (!load->weight)
        load->weight = MILLION;
    if (!load->good_limit_ns)
        load->good_limit_ns = spec_limit_99(load->limits, load->nlimits);
    for (size_t i = 0; i < SPEC_PRESETS && load->nlimits == 0; i++)
        if (load->good_limit_ns < role->jobs.windows_ns[i])
            load->good_limit_ns = role->jobs.windows_ns[i];
    if (!load->good_limit_ns)
        return spec_refuse(node, "good_limit", file, err,
                           "expected, since there are neither windows nor a limit for 99 %");
    for (size_t i = 0; i < load->noperations; i++) {
        if (!load->operations[i].good_limit_ns)
            load->operations[i].good_limit_ns = load->good_limit_ns;
    }
    return 0;
}

const struct vt_schema spec_jobs_schema = {
    .name = "jobs", FIELDS(jobs_fields, spec_role), .check = check_jobs};
