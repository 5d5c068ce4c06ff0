/* SPDX-License-Identifier: Apache-2.0 */
/* schema: what the files of a spec's keys lend each other; nobody outside spec/ includes this. */
#ifndef VTILE_TILES_SPEC_SCHEMA_H
#define VTILE_TILES_SPEC_SCHEMA_H

#include "base/clock.h"
#include "base/scope.h"
#include "base/yaml.h"
#include "tiles/spec/spec.h"

#define MILLION INT64_C(1000000)
#define MIB (INT64_C(1) << 20)
#define TIB (INT64_C(1) << 40)
#define HOUR_NS (3600 * VT_NS_PER_S)

/* Where a field is bound to; what a schema consists of. */
#define AT(type, member) \
    .offset = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)
#define FIELDS(array, type) \
    .fields = (array), .nfields = VT_COUNT(array), .struct_size = sizeof(struct type)

/* schema.c */
extern const struct vt_schema spec_limit_schema, spec_operation_schema;
int spec_refuse(const struct vt_yaml_node *map, const char *key, const char *file,
                struct vt_error *err, const char *text);
int spec_check_limits(const struct spec_limit *limits, size_t n, const struct vt_yaml_node *map,
                      const char *file, struct vt_error *err);
/* The 99 % limit, 0 where there is none. */
int64_t spec_limit_99(const struct spec_limit *limits, size_t n);

/* schema_jobs.c: bound into a struct spec_role. */
extern const struct vt_schema spec_jobs_schema;

#endif
