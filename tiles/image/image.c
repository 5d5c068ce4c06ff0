/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "tiles/image/parts.h"

/* A few edits back and forth need no rebuild; more would only fill the disk. */
#define KEEP_PARTS 3
#define RESOLVED "resolved"

static const struct image_options no_options;

int image_cache_folder(const struct image_options *options, char *ret, size_t size,
                       struct vt_error *err)
{
    const char *chosen = options ? options->cache : NULL;
    const char *base = getenv("XDG_CACHE_HOME"), *below = "/vtile";
    int n;

    if (!chosen)
        chosen = getenv("VTILE_CACHE");
    if (chosen && *chosen) {
        base = chosen;
        below = "";
    } else if (geteuid() == 0) {
        base = "/var/cache";
    } else if (!base || *base != '/') {
        base = getenv("HOME");
        below = "/.cache/vtile";
    }
    if (!base)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT,
                            "no place for images: set VTILE_CACHE or HOME");
    n = snprintf(ret, size, "%s%s", base, below);
    if (n < 0 || (size_t)n >= size)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "VTILE_CACHE is too long: %.200s",
                            base);
    return 0;
}

/* A guest's program: in the folder of the options, of the environment or of this program. */
static int find_program(const struct image_options *options, const char *name,
                        char ret[VT_PATH_MAX], struct vt_error *err)
{
    const char *folder = options->programs ? options->programs : getenv("VTILE_GUEST_PROGRAMS");
    char own[VT_PATH_MAX];
    int n;

    if (!folder || !*folder) {
        ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);

        if (len < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "read /proc/self/exe");
        own[len] = '\0';
        *strrchr(own, '/') = '\0';
        folder = own;
    }
    n = snprintf(ret, VT_PATH_MAX, "%s/%s", folder, name);
    if (n < 0 || n >= VT_PATH_MAX || access(ret, R_OK) < 0)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT,
                            "%s is not in %s: build it, or set VTILE_GUEST_PROGRAMS to its folder",
                            name, folder);
    return 0;
}

static void work_close(struct image_work *work)
{
    image_resolution_dispose(&work->resolution);
    image_cache_close(&work->cache);
}

static int set_keys(struct image_work *work, struct vt_error *err)
{
    for (int i = 0; i < IMAGE_PARTS; i++) {
        struct image_digest digest;
        int r;

        image_digest_init(&digest);
        image_digest_add_text(&digest, "part", image_parts[i].name);
        image_parts[i].key(work, &digest);
        r = image_digest_finish(&digest, work->keys[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int refuse_packages(struct vt_error *err)
{
    return vt_error_set(err, VT_KIND_CONFIG, -EPERM,
                        "installing packages into an image needs root: run `vtile image build` "
                        "as root");
}

/* Without root a cache that never had packages cannot get any: no need to ask apt first. */
static int check_root(const struct image_cache *cache, struct vt_error *err)
{
    VT_AUTO_FREE struct image_entry *entries = NULL;
    size_t count = 0;
    int r;

    if (geteuid() == 0)
        return 0;
    r = image_cache_list(cache, &entries, &count, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(entries[i].part, image_parts[IMAGE_PACKAGES].name))
            return 0;
    return refuse_packages(err);
}

/* work_close also after failure. */
static int work_open(struct image_work *work, const struct image_options *options, bool lock,
                     struct vt_error *err)
{
    char folder[VT_PATH_MAX];
    size_t swept = 0;
    int r;

    memset(work, 0, sizeof *work);
    work->cache.lock_fd = -1;
    work->options = options ? options : &no_options;
    r = image_cache_folder(options, folder, sizeof folder, err);
    if (r == 0)
        r = image_cache_open(folder, &work->cache, err);
    if (r == 0 && lock)
        r = check_root(&work->cache, err);
    if (r == 0)
        r = find_program(work->options, "vtile-agent", work->agent, err);
    if (r == 0)
        r = find_program(work->options, "vtile-init", work->init, err);
    if (r == 0 && lock) {
        r = image_cache_lock(&work->cache, false, err);
        if (r == -EAGAIN) {
            image_progress(work->options, "waiting for another image build");
            r = image_cache_lock(&work->cache, true, err);
        }
        if (r == 0)
            r = image_cache_sweep(&work->cache, &swept, err);
    }
    if (r == 0)
        r = image_resolve(&work->cache, work->options, !lock || geteuid() == 0, &work->resolution,
                          err);
    return r < 0 ? r : set_keys(work, err);
}

static int fill(const struct image_work *work, struct image *ret, struct vt_error *err)
{
    char *const paths[IMAGE_PARTS] = {[IMAGE_KERNEL] = ret->kernel,
                                      [IMAGE_PACKAGES] = ret->packages,
                                      [IMAGE_INITRD] = ret->initrd,
                                      [IMAGE_ROLES] = ret->roles};
    struct image_digest digest;
    int r = 0;

    image_digest_init(&digest);
    for (int i = 0; i < IMAGE_PARTS; i++) {
        image_digest_add_text(&digest, image_parts[i].name, work->keys[i]);
        if (r == 0)
            r = image_cache_path(&work->cache, image_parts[i].name, work->keys[i],
                                 image_parts[i].file, paths[i], err);
    }
    if (r < 0) {
        image_digest_finish(&digest, ret->key, NULL);
        return r;
    }
    snprintf(ret->kernel_version, sizeof ret->kernel_version, "%.80s %.40s",
             work->resolution.kernel, work->resolution.kernel_version);
    return image_digest_finish(&digest, ret->key, err);
}

static int make_part(const struct image_work *work, int part, struct vt_error *err)
{
    const struct image_part_ops *ops = &image_parts[part];
    char scratch[VT_PATH_MAX];
    int r;

    image_progress(work->options, "%s", ops->step);
    r = image_cache_scratch(&work->cache, ops->name, scratch, err);
    if (r < 0)
        return r;
    r = ops->make(work, scratch, err);
    if (r == 0)
        r = image_cache_publish(&work->cache, scratch, ops->name, work->keys[part], err);
    if (r < 0)
        image_cache_remove(scratch, NULL);
    return r < 0 ? vt_error_wrap(err, "image part %s", ops->name) : 0;
}

/* What needs root is refused before any other part is made. */
static int look_for_parts(const struct image_work *work, bool missing[IMAGE_PARTS],
                          struct vt_error *err)
{
    for (int i = 0; i < IMAGE_PARTS; i++) {
        const char *name = image_parts[i].name;

        /* A run looks at sizes only; what it is told to do where a guest does not boot is this. */
        missing[i] = !image_cache_has(&work->cache, name, work->keys[i]) ||
                     !image_cache_is_whole(&work->cache, name, work->keys[i]);
    }
    if (missing[IMAGE_PACKAGES] && geteuid() != 0)
        return refuse_packages(err);
    return 0;
}

int image_build(const struct image_options *options, struct image *ret, unsigned *ret_built,
                struct vt_error *err)
{
    struct image_work work;
    struct image image;
    bool missing[IMAGE_PARTS];
    unsigned built = 0;
    int r = work_open(&work, options, true, err);

    if (r == 0)
        r = look_for_parts(&work, missing, err);
    for (int i = 0; r == 0 && i < IMAGE_PARTS; i++) {
        if (!missing[i])
            continue;
        r = make_part(&work, i, err);
        built++;
    }
    for (int i = 0; r == 0 && i < IMAGE_PARTS; i++)
        r = image_cache_prune(&work.cache, image_parts[i].name, KEEP_PARTS, err);
    if (r == 0)
        r = image_cache_prune(&work.cache, RESOLVED, KEEP_PARTS, err);
    if (r == 0)
        r = fill(&work, &image, err);
    work_close(&work);
    if (r < 0)
        return r;
    *ret = image;
    if (ret_built)
        *ret_built = built;
    return 0;
}

int image_find(const struct image_options *options, struct image *ret, struct vt_error *err)
{
    struct image_work work;
    struct image image;
    int r = work_open(&work, options, false, err);

    for (int i = 0; r == 0 && i < IMAGE_PARTS; i++)
        if (!image_cache_has(&work.cache, image_parts[i].name, work.keys[i]))
            r = vt_error_set(
                err, VT_KIND_CONFIG, -ENOENT,
                "no image of what is installed now: its part '%s' is missing or damaged in %s; "
                "run `vtile image build`",
                image_parts[i].name, work.cache.folder);
    if (r == 0)
        r = fill(&work, &image, err);
    work_close(&work);
    if (r == 0)
        *ret = image;
    return r;
}

/* Best effort: without agent or package lists nothing is current, and the list is still true. */
static void mark_current(const struct image_options *options, struct image_entry *entries,
                         size_t count)
{
    struct image_work work;

    if (work_open(&work, options, false, NULL) == 0)
        for (size_t i = 0; i < count; i++)
            for (int k = 0; k < IMAGE_PARTS; k++)
                if (!strcmp(entries[i].part, image_parts[k].name) &&
                    !strcmp(entries[i].key, work.keys[k]))
                    entries[i].current =
                        image_cache_has(&work.cache, entries[i].part, entries[i].key);
    work_close(&work);
}

int image_list(const struct image_options *options, struct image_entry **ret, size_t *ret_count,
               struct vt_error *err)
{
    struct image_cache cache = {.lock_fd = -1};
    VT_AUTO_FREE struct image_entry *entries = NULL;
    char folder[VT_PATH_MAX];
    size_t count = 0, kept = 0;
    int r = image_cache_folder(options, folder, sizeof folder, err);

    if (r == 0 && access(folder, F_OK) < 0 && errno == ENOENT) { /* to look makes nothing */
        *ret = NULL;
        *ret_count = 0;
        return 0;
    }
    if (r == 0)
        r = image_cache_open(folder, &cache, err);
    if (r == 0)
        r = image_cache_list(&cache, &entries, &count, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].part, RESOLVED) != 0)
            entries[kept++] = entries[i];
    mark_current(options, entries, kept);
    *ret = vt_take_ptr(entries);
    *ret_count = kept;
    return 0;
}

int image_clean(const struct image_options *options, size_t *removed, struct vt_error *err)
{
    struct image_cache cache = {.lock_fd = -1};
    char folder[VT_PATH_MAX];
    int r = image_cache_folder(options, folder, sizeof folder, err);

    if (r < 0 || access(folder, F_OK) < 0)
        return r;
    r = image_cache_open(folder, &cache, err);
    if (r == 0)
        r = image_cache_lock(&cache, false, err);
    if (r == 0)
        r = image_cache_sweep(&cache, removed, err);
    image_cache_close(&cache);
    return r == -EAGAIN ? 0 : r;
}
