/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sums: what the files of a part were when it was made, in a file beside them: a cache keyed by
 * what went in says nothing of what came out and of what became of it since.
 */
#ifndef VTILE_TILES_IMAGE_SUMS_H
#define VTILE_TILES_IMAGE_SUMS_H

#include <stdbool.h>

#include "base/error.h"

/* Of all plain files below folder; other things there are an error. */
int image_sums_write(const char *folder, struct vt_error *err);

/* True where every file is there with its size; with content, as it was, byte by byte. False also
 * where the sums themselves are missing or no such list. */
bool image_sums_hold(const char *folder, bool content);

#endif
