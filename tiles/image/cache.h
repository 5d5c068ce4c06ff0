/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache: folders "<part>-<key>" that are complete from the moment they have that name, scratch
 * folders "tmp-<part>-XXXXXX" while they are made, and a lock file. Who holds the lock owns all
 * scratch folders.
 */
#ifndef VTILE_TILES_IMAGE_CACHE_H
#define VTILE_TILES_IMAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/domain.h"
#include "base/error.h"
#include "tiles/image/image.h"

struct image_cache {
    char folder[VT_PATH_MAX];
    int lock_fd; /* -1: not held */
};

/* Makes the folder. Order: open, (lock, scratch, publish | remove)*, close. */
int image_cache_open(const char *folder, struct image_cache *ret, struct vt_error *err);
void image_cache_close(struct image_cache *cache); /* twice is fine */

/* -EAGAIN without an error text where another process holds it and wait is false. */
int image_cache_lock(struct image_cache *cache, bool wait, struct vt_error *err);

/* Path of a part's folder, or of a file in it where file is not NULL. */
int image_cache_path(const struct image_cache *cache, const char *part, const char *key,
                     const char *file, char ret[VT_PATH_MAX], struct vt_error *err);
/* True where all its files are there with the sizes they were made with; marks it as used now. */
bool image_cache_has(const struct image_cache *cache, const char *part, const char *key);
/* Reads all of it: true where it is what was made, byte by byte. */
bool image_cache_is_whole(const struct image_cache *cache, const char *part, const char *key);

/* Lock held. A new empty folder. */
int image_cache_scratch(const struct image_cache *cache, const char *part, char ret[VT_PATH_MAX],
                        struct vt_error *err);
/* Lock held. All of scratch is on disk before it gets its name; what had the name is removed. */
int image_cache_publish(const struct image_cache *cache, const char *scratch, const char *part,
                        const char *key, struct vt_error *err);
/* Lock held. Removes a part. */
int image_cache_discard(const struct image_cache *cache, const char *part, const char *key,
                        struct vt_error *err);
/* Removes a folder with all that is in it, on its own file system only. */
int image_cache_remove(const char *path, struct vt_error *err);
/* Lock held. Removes scratch folders of dead builds and adds their number to *removed. */
int image_cache_sweep(const struct image_cache *cache, size_t *removed, struct vt_error *err);
/* Lock held. Keeps the `keep` parts of that name that were used last. */
int image_cache_prune(const struct image_cache *cache, const char *part, size_t keep,
                      struct vt_error *err);
/* As image_list; current is false everywhere. */
int image_cache_list(const struct image_cache *cache, struct image_entry **ret, size_t *ret_count,
                     struct vt_error *err);

#endif
