/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles: what a tile is made of and how it is driven: specs, roles, the load engine, the guest
 * image. Knows neither hypervisors nor results.
 *
 * spec: a YAML file: roles with sizes, load, QoS limits, divisors. Built-in specs stand in
 * tiles/spec/specs and are compiled in; a path is read from disk.
 */
#ifndef VTILE_TILES_SPEC_SPEC_H
#define VTILE_TILES_SPEC_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/yaml.h"

#define SPEC_ROLES_MAX 16
#define SPEC_LIMITS_MAX 8
#define SPEC_OPERATIONS_MAX 16
#define SPEC_TILES_MAX 256
#define SPEC_PRESETS 3
#define SPEC_DB_SHARE_MAX 4
#define SPEC_SCHEDULE_MAX 128               /* bytes of a shape's text, with NUL */
#define SPEC_DISK_BYTES (UINT64_C(4) << 30) /* of a data disk where nothing is said */

enum spec_size { SPEC_SIZE_TCG, SPEC_SIZE_KVM, SPEC_SIZES };
enum spec_storage { SPEC_STORAGE_MEMORY, SPEC_STORAGE_DISK };
enum spec_loop { SPEC_LOOP_OPEN, SPEC_LOOP_CLOSED };

/* Ascending in both members; at least one where a load is. */
struct spec_limit {
    int64_t percentile; /* millionths: 950000 = 95 % */
    int64_t limit_ns;   /* of response time from the intended time */
};
struct spec_operation {
    char name[24]; /* one of the role's driver */
    struct spec_limit limits[SPEC_LIMITS_MAX];
    size_t nlimits;
    int64_t good_limit_ns;      /* never 0: its own, else its 99 % limit, else the role's */
    int64_t min_bytes_per_s[2]; /* downloads: 95 % and 99 % of them at least; 0: none */
};
struct spec_load {
    int64_t rate;    /* operations a second of one tile at --load 1, millionths */
    int64_t divisor; /* of the score, operations a second, millionths; default: rate */
    int64_t weight;  /* in the tile's mean, millionths */
    int loop;        /* enum spec_loop */
    /* Shape of what is measured, checked; tiles/load/shape.h has the texts. "": poisson. */
    char schedule[SPEC_SCHEDULE_MAX];
    int64_t connections;                              /* cap */
    int64_t timeout_ns;                               /* of one operation, from its intended time */
    int64_t think_mean_ns, think_max_ns, think_share; /* share: millionths of steps that think */
    int64_t expected_ns;   /* response time that stands in the gap between steps */
    int64_t good_limit_ns; /* never 0: its own, else the 99 % limit */
    struct spec_limit limits[SPEC_LIMITS_MAX]; /* of the whole role */
    size_t nlimits;
    struct spec_operation operations[SPEC_OPERATIONS_MAX];
    size_t noperations;
    int64_t error_share_max;     /* wrong + failed over intended, millionths */
    int64_t wake_lag_p99_max_ns; /* generator's own lateness that voids a run */
};
/* Load that a guest makes for itself. What a role has no use for is 0. Its limits, good_limit,
 * weight, divisor and error_share_max stand in the role's spec_load. */
struct spec_jobs {
    int64_t rate; /* operations a second of one tile at --load 1, millionths */
    /* batch: by preset; and the one in force, set by whoever makes an order of it. */
    int64_t windows_ns[SPEC_PRESETS], window_ns;
    int64_t late_share; /* of the measure phase after which workers beyond the first begin */
    int64_t compress_bytes, compile_functions; /* of one job */
    int64_t read_share;                        /* storage: of random I/Os, millionths */
    int64_t block_bytes;
    int64_t stream_rate; /* sequential reads a second at --load 1, millionths */
    int64_t stream_block_bytes;
    int64_t bytes_per_s; /* network: of the stream at --load 1; 0: as fast as it goes */
};
struct spec_role_size {
    uint64_t memory_bytes;
    int64_t vcpus;
    uint64_t data_bytes; /* of generated contents */
    int storage;         /* enum spec_storage; default: memory for tcg, disk for kvm */
    uint64_t disk_bytes; /* of its data disk; 0: in memory */
};
struct spec_role {
    char name[16];
    struct spec_role_size size[SPEC_SIZES];
    bool scored, driven; /* driven: has a load or a jobs section */
    bool works;          /* has a jobs section: its guest makes the load */
    struct spec_load load;
    struct spec_jobs jobs;
};
/* What the spec says about a run where neither the command line nor a setting does. */
enum spec_run_key { SPEC_RUN_TILES, SPEC_RUN_LOAD, SPEC_RUN_PRESET, SPEC_RUN_KEYS };
struct spec_place {
    int line, column; /* 1-based; 0: unsaid */
};
struct spec_run {
    int64_t tiles; /* 0: unsaid */
    int64_t load;  /* share of the full load, millionths; 0: unsaid */
    int preset;    /* index into spec_preset_names; -1: unsaid */
    struct spec_place at[SPEC_RUN_KEYS];
};
struct spec {
    char name[32];
    char description[256];
    struct spec_run run;
    int64_t db_share; /* so many tiles share a database VM, 1 to SPEC_DB_SHARE_MAX; default 1 */
    struct spec_role roles[SPEC_ROLES_MAX];
    size_t nroles;
};

extern const struct vt_schema spec_schema;

/* name_or_path: a built-in's name or a file. Everything is checked: roles known and their peers
 * present, operations those of the role's driver, limits in order, sizes sane. A spec may drive
 * nothing; then nothing is scored either. *ret must be released by nobody: it is a value. */
int spec_load(const char *name_or_path, struct spec *ret, struct vt_error *err);
int spec_read_text(const char *file, const char *text, size_t len, struct spec *ret,
                   struct vt_error *err);
/* The built-in spec's text, NULL when there is none of that name. */
const char *spec_builtin(const char *name);
/* NULL-terminated names. */
const char *const *spec_builtin_names(void);

/* Lengths of the phases. */
struct spec_preset {
    const char *name; /* smoke, turbo, standard */
    int64_t ramp_ns, warm_ns, measure_ns, drain_ns;
    bool limits_by_operation; /* else by role only */
    bool log_requests;        /* servers log each request, for replay against the schedule */
};
/* What a load says of one of its operations; NULL: nothing. */
const struct spec_operation *spec_find_operation(const struct spec_load *load, const char *name);
const struct spec_preset *spec_presets(size_t *ret_n);
extern const char *const spec_preset_names[]; /* NULL-terminated, in the order of spec_presets */

#endif
