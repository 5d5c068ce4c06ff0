/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve: which packages, in which versions, an image made now would get. The answer of apt is
 * kept in the cache (part "resolved") under what it depends on, so that asking again is cheap.
 */
#ifndef VTILE_TILES_IMAGE_RESOLVE_H
#define VTILE_TILES_IMAGE_RESOLVE_H

#include <stddef.h>

#include "base/domain.h"
#include "base/error.h"
#include "base/text.h"
#include "tiles/image/cache.h"

#define IMAGE_PACKAGES_MAX 128
#define IMAGE_PACKAGE_NAME_MAX 96
#define IMAGE_VERSIONS_MAX (1u << 20)

/* The lines of packages.txt, each package once. */
struct image_packages {
    char names[IMAGE_PACKAGES_MAX][IMAGE_PACKAGE_NAME_MAX];
    size_t count;
    char kernel[IMAGE_PACKAGE_NAME_MAX]; /* of the use "kernel": not among the names */
};
int image_packages_parse(const char *text, struct image_packages *ret, struct vt_error *err);

struct image_resolution {
    struct image_packages wanted;
    char suite[64];                      /* VERSION_CODENAME of /etc/os-release */
    char folder[VT_PATH_MAX];            /* sources.list, lists, apt.conf: see files/resolve.sh */
    struct vt_buf versions;              /* lines "name version", sorted */
    char kernel[IMAGE_PACKAGE_NAME_MAX]; /* the package with the kernel in it */
    char kernel_version[IMAGE_PACKAGE_NAME_MAX]; /* of that package */
};

/* Takes the cache's lock where apt has to be asked; ask false: -EPERM then, since what it says
 * would have to be installed. image_resolution_dispose also after failure. */
int image_resolve(struct image_cache *cache, const struct image_options *options, bool ask,
                  struct image_resolution *ret, struct vt_error *err);
void image_resolution_dispose(struct image_resolution *resolution);

/* The text of a file of tiles/image/files/; it is there. */
const char *image_recipe(const char *name);
/* Runs the recipe `name` with up to `count` arguments; out may be NULL. */
int image_recipe_run(const char *name, const char *const *args, size_t count, bool isolated,
                     struct vt_buf *out, struct vt_error *err);
void image_progress(const struct image_options *options, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
