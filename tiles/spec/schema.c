/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema: the keys of a spec file, and the checks that need one section only. What a spec must be
 * as a whole is checked in spec.c.
 */
#include <string.h>

#include "base/clock.h"
#include "base/domain.h"
#include "base/scope.h"
#include "tiles/load/shape.h"
#include "tiles/spec/schema.h"

int spec_refuse(const struct vt_yaml_node *map, const char *key, const char *file,
                struct vt_error *err, const char *text)
{
    const struct vt_yaml_node *node = vt_yaml_find(map, key);

    if (!node)
        node = map;
    return vt_error_at(err, file, node->line, node->column, "%s: %s", key, text);
}

/* --- limits --- */

static const struct vt_field limit_fields[] = {
    {.key = "share",
     .type = VT_FIELD_PERCENT,
     AT(spec_limit, percentile),
     .min = 1,
     .max = MILLION - 1,
     .required = true,
     .help = "share of the operations that the limit is for"},
    {.key = "within",
     .type = VT_FIELD_DURATION,
     AT(spec_limit, limit_ns),
     .min = VT_NS_PER_US,
     .max = HOUR_NS,
     .required = true,
     .help = "their longest response time, from the intended time"},
};
const struct vt_schema spec_limit_schema = {.name = "limit", FIELDS(limit_fields, spec_limit)};

int spec_check_limits(const struct spec_limit *limits, size_t n, const struct vt_yaml_node *map,
                      const char *file, struct vt_error *err)
{
    const struct vt_yaml_node *list = vt_yaml_find(map, "limits");

    for (size_t i = 1; i < n; i++) {
        const struct vt_yaml_node *node = list->items[i];

        if (limits[i].percentile <= limits[i - 1].percentile)
            return spec_refuse(node, "share", file, err,
                               "expected a larger share than that of the limit before");
        if (limits[i].limit_ns < limits[i - 1].limit_ns)
            return spec_refuse(node, "within", file, err,
                               "expected at least the duration of the limit before");
    }
    return 0;
}

int64_t spec_limit_99(const struct spec_limit *limits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (limits[i].percentile == 990000)
            return limits[i].limit_ns;
    }
    return 0;
}

/* --- operations --- */

static const struct vt_field operation_fields[] = {
    {.key = "", .type = VT_FIELD_TEXT, AT(spec_operation, name), .min = 1},
    {.key = "limits",
     .type = VT_FIELD_LIST,
     AT(spec_operation, limits),
     .max = SPEC_LIMITS_MAX,
     .schema = &spec_limit_schema,
     .count_offset = offsetof(struct spec_operation, nlimits),
     .help = "limits of its response time"},
    {.key = "good_limit",
     .type = VT_FIELD_DURATION,
     AT(spec_operation, good_limit_ns),
     .min = VT_NS_PER_US,
     .max = HOUR_NS,
     .help = "an answer later than that does not count for the score; default its 99 % limit, else "
             "the role's"},
    {.key = "min_bytes_per_s_95",
     .type = VT_FIELD_INT,
     AT(spec_operation, min_bytes_per_s[0]),
     .min = 1,
     .max = 100000 * MILLION,
     .help = "bytes a second that 95 % of its answers reach"},
    {.key = "min_bytes_per_s_99",
     .type = VT_FIELD_INT,
     AT(spec_operation, min_bytes_per_s[1]),
     .min = 1,
     .max = 100000 * MILLION,
     .help = "bytes a second that 99 % of its answers reach"},
};

static int check_operation(void *object, const struct vt_yaml_node *node, const char *file,
                           struct vt_error *err)
{
    struct spec_operation *operation = object;
    const int64_t *rates = operation->min_bytes_per_s;

    if (rates[0] && rates[1] > rates[0])
        return spec_refuse(node, "min_bytes_per_s_99", file, err,
                           "expected at most min_bytes_per_s_95");
    if (!operation->good_limit_ns)
        operation->good_limit_ns = spec_limit_99(operation->limits, operation->nlimits);
    return spec_check_limits(operation->limits, operation->nlimits, node, file, err);
}

const struct vt_schema spec_operation_schema = {
    .name = "operation", FIELDS(operation_fields, spec_operation), .check = check_operation};

/* --- load --- */

static const struct vt_field think_fields[] = {
    {.key = "mean",
     .type = VT_FIELD_DURATION,
     AT(spec_load, think_mean_ns),
     .max = HOUR_NS,
     .required = true,
     .help = "mean of the exponential distribution"},
    {.key = "max",
     .type = VT_FIELD_DURATION,
     AT(spec_load, think_max_ns),
     .max = HOUR_NS,
     .required = true,
     .help = "longer draws are cut to it"},
    {.key = "share",
     .type = VT_FIELD_PERCENT,
     AT(spec_load, think_share),
     .max = MILLION,
     .required = true,
     .help = "share of steps that think; the others follow at once"},
};

static int check_think(void *object, const struct vt_yaml_node *node, const char *file,
                       struct vt_error *err)
{
    const struct spec_load *load = object;

    if (load->think_max_ns < load->think_mean_ns)
        return spec_refuse(node, "max", file, err, "expected at least the mean");
    return 0;
}

/* Bound into the load itself: think is a section of the file, not of the struct. */
static const struct vt_schema think_schema = {
    .name = "think", FIELDS(think_fields, spec_load), .check = check_think};

static const char *const loops[] = {"open", "closed", NULL};

static const struct vt_field load_fields[] = {
    {.key = "rate",
     .type = VT_FIELD_FIXED,
     AT(spec_load, rate),
     .min = 1000,
     .max = MILLION * MILLION,
     .required = true,
     .help = "operations a second of one tile at full load"},
    {.key = "divisor",
     .type = VT_FIELD_FIXED,
     AT(spec_load, divisor),
     .min = 1000,
     .max = MILLION * MILLION,
     .help = "operations a second that score 100; default the rate"},
    {.key = "weight",
     .type = VT_FIELD_FIXED,
     AT(spec_load, weight),
     .min = 1,
     .max = 1000 * MILLION,
     .help = "of this role in its tile's mean; default 1"},
    {.key = "loop",
     .type = VT_FIELD_CHOICE,
     AT(spec_load, loop),
     .choices = loops,
     .help = "open: requests come whether or not answers do; closed: users wait and think"},
    {.key = "schedule",
     .type = VT_FIELD_TEXT,
     AT(spec_load, schedule),
     .min = 1,
     .help = "how operations lie in the measured part: poisson, uniform, bursty:ON,OFF, "
             "step:RATE,..., ramp:FROM,TO or swing:FACTOR,PERIOD; default poisson"},
    {.key = "connections",
     .type = VT_FIELD_INT,
     AT(spec_load, connections),
     .min = 1,
     .max = 10000,
     .required = true,
     .help = "most connections of one tile at once"},
    {.key = "timeout",
     .type = VT_FIELD_DURATION,
     AT(spec_load, timeout_ns),
     .min = VT_NS_PER_MS,
     .max = HOUR_NS,
     .required = true,
     .help = "of one operation, from its intended time"},
    {.key = "think",
     .type = VT_FIELD_MAP,
     .offset = 0,
     .size = sizeof(struct spec_load),
     .schema = &think_schema,
     .help = "pause of a user between two steps"},
    {.key = "expected_response",
     .type = VT_FIELD_DURATION,
     AT(spec_load, expected_ns),
     .max = HOUR_NS,
     .required = true,
     .help = "response time that stands in the gap between two steps"},
    {.key = "good_limit",
     .type = VT_FIELD_DURATION,
     AT(spec_load, good_limit_ns),
     .min = VT_NS_PER_US,
     .max = HOUR_NS,
     .help = "an answer later than that does not count for the score; default the 99 % limit"},
    {.key = "limits",
     .type = VT_FIELD_LIST,
     AT(spec_load, limits),
     .min = 1,
     .max = SPEC_LIMITS_MAX,
     .required = true,
     .schema = &spec_limit_schema,
     .count_offset = offsetof(struct spec_load, nlimits),
     .help = "limits of the whole role"},
    {.key = "operations",
     .type = VT_FIELD_NAMED,
     AT(spec_load, operations),
     .max = SPEC_OPERATIONS_MAX,
     .schema = &spec_operation_schema,
     .count_offset = offsetof(struct spec_load, noperations),
     .help = "operations with limits of their own, for the longer presets"},
    {.key = "error_share_max",
     .type = VT_FIELD_PERCENT,
     AT(spec_load, error_share_max),
     .max = MILLION,
     .required = true,
     .help = "most wrong and failed operations of all that were intended"},
    {.key = "wake_lag_p99_max",
     .type = VT_FIELD_DURATION,
     AT(spec_load, wake_lag_p99_max_ns),
     .min = VT_NS_PER_US,
     .max = HOUR_NS,
     .required = true,
     .help = "99 % of the generator's own delays; more makes the run invalid"},
};

static int check_schedule(const struct spec_load *load, const struct vt_yaml_node *node,
                          const char *file, struct vt_error *err)
{
    const struct vt_yaml_node *schedule = vt_yaml_find(node, "schedule");
    struct vt_error why = VT_ERROR_INIT;
    struct shape shape;
    size_t at = 0;

    if (!schedule)
        return 0;
    if (load->loop == SPEC_LOOP_CLOSED)
        return spec_refuse(node, "schedule", file, err,
                           "expected none, for a closed loop waits for answers");
    /* A quoted text may hold escapes: then only its beginning is known. */
    if (shape_parse(load->schedule, &shape, &at, &why) < 0)
        return vt_error_at(err, file, schedule->line,
                           schedule->column + (schedule->quoted ? 0 : (int)at), "%s", why.text);
    return 0;
}

static int check_load(void *object, const struct vt_yaml_node *node, const char *file,
                      struct vt_error *err)
{
    struct spec_load *load = object;
    int rc = spec_check_limits(load->limits, load->nlimits, node, file, err);

    if (rc == 0)
        rc = check_schedule(load, node, file, err);
    if (rc < 0)
        return rc;
    if (!load->divisor)
        load->divisor = load->rate;
    if (!load->weight)
        load->weight = MILLION;
    if (!load->good_limit_ns)
        load->good_limit_ns = spec_limit_99(load->limits, load->nlimits);
    if (!load->good_limit_ns)
        return spec_refuse(node, "good_limit", file, err,
                           "expected, since the limits have none for 99 %");
    for (size_t i = 0; i < load->noperations; i++) {
        if (!load->operations[i].good_limit_ns)
            load->operations[i].good_limit_ns = load->good_limit_ns;
    }
    if (load->timeout_ns < load->good_limit_ns)
        return spec_refuse(node, "timeout", file, err,
                           "expected at least good_limit, the 99 % limit");
    for (size_t i = 0; i < load->noperations; i++) {
        if (load->timeout_ns < load->operations[i].good_limit_ns)
            return spec_refuse(node, "timeout", file, err,
                               "expected at least the good_limit of each operation");
    }
    return 0;
}

static const struct vt_schema load_schema = {
    .name = "load", FIELDS(load_fields, spec_load), .check = check_load};

/* --- roles --- */

static const char *const storages[] = {"memory", "disk", NULL};

static const struct vt_field size_fields[] = {
    {.key = "memory",
     .type = VT_FIELD_BYTES,
     AT(spec_role_size, memory_bytes),
     .min = 64 * MIB,
     .max = 4 * TIB,
     .required = true,
     .help = "of one VM"},
    {.key = "vcpus",
     .type = VT_FIELD_INT,
     AT(spec_role_size, vcpus),
     .min = 1,
     .max = VT_DOMAIN_VCPUS_MAX,
     .required = true,
     .help = "of one VM"},
    {.key = "data",
     .type = VT_FIELD_BYTES,
     AT(spec_role_size, data_bytes),
     .max = 4 * TIB,
     .required = true,
     .help = "generated contents of one VM"},
    {.key = "storage",
     .type = VT_FIELD_CHOICE,
     AT(spec_role_size, storage),
     .choices = storages,
     .help = "where its data lies; default memory for tcg, disk for kvm"},
    {.key = "disk",
     .type = VT_FIELD_BYTES,
     AT(spec_role_size, disk_bytes),
     .min = 64 * MIB,
     .max = 4 * TIB,
     .help = "size of its data disk, a file that grows with what is written; default 4 GiB"},
};
static const struct vt_schema size_schema = {.name = "size", FIELDS(size_fields, spec_role_size)};

static const struct vt_field sizes_fields[] = {
    {.key = "tcg",
     .type = VT_FIELD_MAP,
     AT(spec_role, size[SPEC_SIZE_TCG]),
     .required = true,
     .schema = &size_schema,
     .help = "where the CPU is emulated"},
    {.key = "kvm",
     .type = VT_FIELD_MAP,
     AT(spec_role, size[SPEC_SIZE_KVM]),
     .required = true,
     .schema = &size_schema,
     .help = "where the hardware virtualizes"},
};

/* Data without a disk gets one part in so many of the guest's memory: the size of the file system
 * that image/init/root.c makes for it. */
#define IN_MEMORY 2

static int check_storage(struct spec_role_size *size, enum spec_storage unsaid,
                         const struct vt_yaml_node *node, const char *file, struct vt_error *err)
{
    if (!vt_yaml_find(node, "storage"))
        size->storage = vt_yaml_find(node, "disk") ? SPEC_STORAGE_DISK : (int)unsaid;
    if (size->storage == SPEC_STORAGE_MEMORY) {
        if (size->disk_bytes)
            return spec_refuse(node, "disk", file, err, "expected storage: disk with it");
        if (size->data_bytes > size->memory_bytes / IN_MEMORY)
            return spec_refuse(node, "data", file, err,
                               "expected at most half of memory, where it lies; give more memory, "
                               "or storage: disk");
        return 0;
    }
    if (!size->disk_bytes)
        size->disk_bytes = SPEC_DISK_BYTES;
    if (size->data_bytes > size->disk_bytes)
        return spec_refuse(node, "disk", file, err, "expected room for the data");
    return 0;
}

static int check_sizes(void *object, const struct vt_yaml_node *node, const char *file,
                       struct vt_error *err)
{
    struct spec_role *role = object;
    int rc = check_storage(&role->size[SPEC_SIZE_TCG], SPEC_STORAGE_MEMORY,
                           vt_yaml_find(node, "tcg"), file, err);

    return rc < 0 ? rc
                  : check_storage(&role->size[SPEC_SIZE_KVM], SPEC_STORAGE_DISK,
                                  vt_yaml_find(node, "kvm"), file, err);
}

static const struct vt_schema sizes_schema = {
    .name = "sizes", FIELDS(sizes_fields, spec_role), .check = check_sizes};

static const struct vt_field role_fields[] = {
    {.key = "", .type = VT_FIELD_TEXT, AT(spec_role, name), .min = 1},
    {.key = "sizes",
     .type = VT_FIELD_MAP,
     .offset = 0,
     .size = sizeof(struct spec_role),
     .required = true,
     .schema = &sizes_schema,
     .help = "of its VM"},
    {.key = "scored",
     .type = VT_FIELD_BOOL,
     AT(spec_role, scored),
     .help = "does it count in the tile's score? default false"},
    {.key = "load",
     .type = VT_FIELD_MAP,
     AT(spec_role, load),
     .schema = &load_schema,
     .help = "how it is driven from outside; absent: not at all"},
    {.key = "jobs",
     .type = VT_FIELD_MAP,
     .offset = 0,
     .size = sizeof(struct spec_role),
     .schema = &spec_jobs_schema,
     .help = "load that the guest makes for itself"},
};

static int check_role(void *object, const struct vt_yaml_node *node, const char *file,
                      struct vt_error *err)
{
    struct spec_role *role = object;

    role->works = vt_yaml_find(node, "jobs") != NULL;
    role->driven = role->works || vt_yaml_find(node, "load");
    if (role->works && vt_yaml_find(node, "load"))
        return spec_refuse(node, "jobs", file, err, "expected nothing, for there is a load");
    if (role->scored && !role->driven)
        return spec_refuse(node, "scored", file, err,
                           "expected false, for a role without load has nothing to score");
    return 0;
}

static const struct vt_schema role_schema = {
    .name = "role", FIELDS(role_fields, spec_role), .check = check_role};

/* --- the file --- */

static const struct vt_field run_fields[] = {
    {.key = "tiles",
     .type = VT_FIELD_INT,
     AT(spec_run, tiles),
     .min = 1,
     .max = SPEC_TILES_MAX,
     .help = "tiles where nothing else says how many"},
    {.key = "load",
     .type = VT_FIELD_FIXED,
     AT(spec_run, load),
     .min = 1,
     .max = MILLION,
     .help = "share of the full load where nothing else says"},
    {.key = "preset",
     .type = VT_FIELD_CHOICE,
     AT(spec_run, preset),
     .choices = spec_preset_names,
     .help = "lengths of the phases where nothing else says"},
};
static const struct vt_schema run_schema = {.name = "run", FIELDS(run_fields, spec_run)};

static const struct vt_field spec_fields[] = {
    {.key = "name",
     .type = VT_FIELD_TEXT,
     AT(spec, name),
     .min = 1,
     .required = true,
     .help = "lower-case letters, digits and -"},
    {.key = "description",
     .type = VT_FIELD_TEXT,
     AT(spec, description),
     .min = 1,
     .required = true,
     .help = "one line for people"},
    {.key = "run",
     .type = VT_FIELD_MAP,
     AT(spec, run),
     .schema = &run_schema,
     .help = "defaults of a run of this spec"},
    {.key = "db_share",
     .type = VT_FIELD_INT,
     AT(spec, db_share),
     .min = 1,
     .max = SPEC_DB_SHARE_MAX,
     .help = "so many tiles share one database VM; default 1"},
    {.key = "roles",
     .type = VT_FIELD_NAMED,
     AT(spec, roles),
     .min = 1,
     .max = SPEC_ROLES_MAX,
     .required = true,
     .schema = &role_schema,
     .count_offset = offsetof(struct spec, nroles),
     .help = "one VM of each tile a role"},
};

static int check_name(void *object, const struct vt_yaml_node *node, const char *file,
                      struct vt_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz", rest[] = "0123456789-";
    const struct spec *spec = object;

    for (const char *p = spec->name; *p; p++) {
        if (!strchr(letters, *p) && (p == spec->name || !strchr(rest, *p)))
            return spec_refuse(node, "name", file, err,
                               "expected lower-case letters, digits and -, a letter first");
    }
    return 0;
}

const struct vt_schema spec_schema = {
    .name = "spec", FIELDS(spec_fields, spec), .check = check_name};
