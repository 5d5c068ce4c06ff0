/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template: a role's configuration file with @NAMES@ filled in.
 */
#ifndef VTILE_TILES_ROLES_TEMPLATE_H
#define VTILE_TILES_ROLES_TEMPLATE_H

#include <stddef.h>

#include "base/error.h"

#define TEMPLATE_BYTES_MAX (256U << 10)

struct template_value {
    const char *name, *value;
};

/* Reads dir/file_in, replaces each @NAME@ (A-Z, 0-9, _), writes out_path (0644). A name that is not
 * among the values is an error, so that no configuration goes out half filled. */
int template_fill(const char *dir, const char *file_in, const char *out_path,
                  const struct template_value *values, size_t nvalues, struct vt_error *err);

#endif
