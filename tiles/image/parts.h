/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts: the four parts of an image: what goes into the key of each, and how it is made.
 */
#ifndef VTILE_TILES_IMAGE_PARTS_H
#define VTILE_TILES_IMAGE_PARTS_H

#include "base/domain.h"
#include "tiles/image/cache.h"
#include "tiles/image/digest.h"
#include "tiles/image/resolve.h"

enum image_part { IMAGE_KERNEL, IMAGE_PACKAGES, IMAGE_INITRD, IMAGE_ROLES, IMAGE_PARTS };

/* One build or one look-up. */
struct image_work {
    const struct image_options *options;
    struct image_cache cache;
    struct image_resolution resolution;
    char agent[VT_PATH_MAX], init[VT_PATH_MAX];
    char keys[IMAGE_PARTS][IMAGE_KEY_MAX];
};

/* In the order in which they are made: a part may use those before it. */
struct image_part_ops {
    const char *name; /* in the cache */
    const char *file; /* what a guest boots from, in the part's folder */
    void (*key)(const struct image_work *work, struct image_digest *digest);
    int (*make)(const struct image_work *work, const char *folder, struct vt_error *err);
    const char *step; /* for people */
};
extern const struct image_part_ops image_parts[IMAGE_PARTS];

#endif
