/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of this room that travel inside the programs: the specs, and the files of roles and image.
 * The table is generated at build time from the project's folders.
 */
#ifndef VTILE_TILES_EMBEDDED_H
#define VTILE_TILES_EMBEDDED_H

#include <stddef.h>

struct tiles_embedded_file {
    const char *path; /* in the project, e.g. "tiles/spec/specs/specvirt.yaml" */
    const char *data; /* a zero byte follows the last one */
    const char *end;
};

/* tiles_embedded_count entries in the order of their paths, then one with a NULL path. */
extern const struct tiles_embedded_file tiles_embedded[];
extern const size_t tiles_embedded_count;

#endif
