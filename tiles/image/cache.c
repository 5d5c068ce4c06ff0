/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/image/sums.h"

#define SCRATCH_PREFIX "tmp-"
#define ENTRIES_MAX 4096

static int make_folders(const char *folder, struct vt_error *err)
{
    if (*folder != '/' || strlen(folder) >= VT_PATH_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                            "image cache '%.200s': expected an absolute path of less than %d bytes",
                            folder, VT_PATH_MAX);
    if (vt_file_make_folders(folder, 0755, VT_KIND_CONFIG, err) < 0)
        return vt_error_wrap(err, "image cache (VTILE_CACHE chooses another place)");
    return 0;
}

int image_cache_open(const char *folder, struct image_cache *ret, struct vt_error *err)
{
    int r = make_folders(folder, err);

    if (r < 0)
        return r;
    vt_text_copy(ret->folder, sizeof ret->folder, folder);
    ret->lock_fd = -1;
    return 0;
}

void image_cache_close(struct image_cache *cache)
{
    if (cache->lock_fd >= 0)
        close(cache->lock_fd);
    cache->lock_fd = -1;
}

int image_cache_lock(struct image_cache *cache, bool wait, struct vt_error *err)
{
    char path[VT_PATH_MAX + 8];

    if (cache->lock_fd >= 0)
        return 0;
    snprintf(path, sizeof path, "%s/lock", cache->folder);
    VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "open %s", path);
    while (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return -EAGAIN;
        if (errno != EINTR)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "lock %s", path);
    }
    cache->lock_fd = vt_take_fd(fd);
    return 0;
}

int image_cache_path(const struct image_cache *cache, const char *part, const char *key,
                     const char *file, char ret[VT_PATH_MAX], struct vt_error *err)
{
    int n = snprintf(ret, VT_PATH_MAX, "%s/%s-%s%s%s", cache->folder, part, key, file ? "/" : "",
                     file ? file : "");

    if (n < 0 || n >= VT_PATH_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG,
                            "path of the image cache is too long: %.200s", cache->folder);
    return 0;
}

bool image_cache_has(const struct image_cache *cache, const char *part, const char *key)
{
    char path[VT_PATH_MAX];

    if (image_cache_path(cache, part, key, NULL, path, NULL) < 0 || access(path, X_OK) < 0 ||
        !image_sums_hold(path, false))
        return false;
    /* Only the order of pruning depends on it. */
    utimensat(AT_FDCWD, path, NULL, 0);
    return true;
}

bool image_cache_is_whole(const struct image_cache *cache, const char *part, const char *key)
{
    char path[VT_PATH_MAX];

    return image_cache_path(cache, part, key, NULL, path, NULL) == 0 && image_sums_hold(path, true);
}

int image_cache_scratch(const struct image_cache *cache, const char *part, char ret[VT_PATH_MAX],
                        struct vt_error *err)
{
    char path[VT_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/" SCRATCH_PREFIX "%s-XXXXXX", cache->folder, part);

    if (n < 0 || n >= VT_PATH_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG,
                            "path of the image cache is too long: %.200s", cache->folder);
    if (!mkdtemp(path) || chmod(path, 0755) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    vt_text_copy(ret, VT_PATH_MAX, path);
    return 0;
}

int image_cache_publish(const struct image_cache *cache, const char *scratch, const char *part,
                        const char *key, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[VT_PATH_MAX];
    int r = image_cache_path(cache, part, key, NULL, path, err);

    if (r < 0)
        return r;
    r = image_sums_write(scratch, err);
    /* What has the name already is damaged, or of a version that wrote no sums. */
    if (r == 0 && access(path, F_OK) == 0)
        r = image_cache_discard(cache, part, key, err);
    if (r < 0)
        return r;
    /* The files first, then the name: a power cut between leaves a scratch folder. */
    if (fd < 0 || syncfs(fd) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "write %s to disk", scratch);
    if (rename(scratch, path) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "rename %s to %s", scratch, path);
    if (fsync(fd) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "write %s to disk", path);
    return 0;
}

int image_cache_remove(const char *path, struct vt_error *err)
{
    char root[VT_PATH_MAX];
    char *roots[] = {root, NULL};
    int failed = 0;
    FTS *fts;

    if (!vt_text_copy(root, sizeof root, path))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path too long: %.200s", path);
    fts = fts_open(roots, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
    if (!fts)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "remove %s", path);
    for (FTSENT *e; (e = fts_read(fts));) {
        if (e->fts_info == FTS_D)
            continue;
        if (e->fts_info == FTS_DP ? rmdir(e->fts_accpath) < 0 : unlink(e->fts_accpath) < 0)
            if (errno != ENOENT && !failed)
                failed = errno;
    }
    fts_close(fts);
    return failed ? vt_error_errno(err, VT_KIND_INFRA, failed, "remove %s", path) : 0;
}

/* Half removed it must not serve: it loses its name first. */
int image_cache_discard(const struct image_cache *cache, const char *part, const char *key,
                        struct vt_error *err)
{
    char path[VT_PATH_MAX], doomed[VT_PATH_MAX];
    int r = image_cache_path(cache, part, key, NULL, path, err);

    if (r == 0)
        r = image_cache_scratch(cache, part, doomed, err);
    if (r == 0 && rename(path, doomed) < 0)
        r = vt_error_errno(err, VT_KIND_INFRA, errno, "rename %s", path);
    return r < 0 ? r : image_cache_remove(doomed, err);
}

/* Calls each(path, name, ctx) for the folder's entries; stops at the first failure. */
static int for_each(const struct image_cache *cache,
                    int (*each)(const char *path, const char *name, void *ctx, struct vt_error *),
                    void *ctx, struct vt_error *err)
{
    DIR *dir = opendir(cache->folder);
    size_t seen = 0;
    int r = 0;

    if (!dir)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "read image cache %s", cache->folder);
    for (struct dirent *e; r == 0 && seen < ENTRIES_MAX && (e = readdir(dir)); seen++) {
        char path[VT_PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", cache->folder, e->d_name);

        if (e->d_name[0] != '.' && n > 0 && n < VT_PATH_MAX)
            r = each(path, e->d_name, ctx, err);
    }
    closedir(dir);
    return r;
}

static int sweep_one(const char *path, const char *name, void *ctx, struct vt_error *err)
{
    size_t *removed = ctx;
    int r;

    if (strncmp(name, SCRATCH_PREFIX, strlen(SCRATCH_PREFIX)) != 0)
        return 0;
    /* A build killed just now may still be dying in there; a second look sees its last files. */
    r = image_cache_remove(path, NULL) < 0 ? image_cache_remove(path, err) : 0;
    *removed += r == 0;
    return r;
}

int image_cache_sweep(const struct image_cache *cache, size_t *removed, struct vt_error *err)
{
    return for_each(cache, sweep_one, removed, err);
}

struct listing {
    struct image_entry *entries;
    size_t count;
};

/* Every file of a part stands directly in its folder or one below (modules). */
static uint64_t allocated_bytes(const char *path)
{
    char root[VT_PATH_MAX];
    char *roots[] = {root, NULL};
    uint64_t bytes = 0;
    FTS *fts;

    vt_text_copy(root, sizeof root, path);
    fts = fts_open(roots, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
    if (!fts)
        return 0;
    for (FTSENT *e; (e = fts_read(fts));)
        if (e->fts_info == FTS_F)
            bytes += (uint64_t)e->fts_statp->st_blocks * 512;
    fts_close(fts);
    return bytes;
}

static int list_one(const char *path, const char *name, void *ctx, struct vt_error *err)
{
    struct listing *list = ctx;
    const char *dash = strrchr(name, '-');
    struct image_entry *grown, *entry;
    struct stat st;

    if (!dash || strlen(dash + 1) != IMAGE_KEY_MAX - 1 || stat(path, &st) < 0 ||
        !S_ISDIR(st.st_mode) || (size_t)(dash - name) >= sizeof entry->part)
        return 0;
    grown = reallocarray(list->entries, list->count + 1, sizeof *grown);
    if (!grown)
        return vt_error_no_memory(err, "list image cache");
    list->entries = grown;
    entry = &grown[list->count++];
    memset(entry, 0, sizeof *entry);
    memcpy(entry->part, name, (size_t)(dash - name));
    vt_text_copy(entry->key, sizeof entry->key, dash + 1);
    entry->bytes = allocated_bytes(path);
    entry->used_ns = st.st_mtim.tv_sec * VT_NS_PER_S + st.st_mtim.tv_nsec;
    return 0;
}

static int by_part_newest(const void *va, const void *vb)
{
    const struct image_entry *a = va, *b = vb;
    int r = strcmp(a->part, b->part);

    if (r)
        return r;
    if (a->used_ns != b->used_ns)
        return a->used_ns > b->used_ns ? -1 : 1;
    return strcmp(a->key, b->key);
}

int image_cache_list(const struct image_cache *cache, struct image_entry **ret, size_t *ret_count,
                     struct vt_error *err)
{
    struct listing list = {NULL, 0};
    int r = for_each(cache, list_one, &list, err);

    if (r < 0) {
        free(list.entries);
        return r;
    }
    if (list.count)
        qsort(list.entries, list.count, sizeof *list.entries, by_part_newest);
    *ret = list.entries;
    *ret_count = list.count;
    return 0;
}

int image_cache_prune(const struct image_cache *cache, const char *part, size_t keep,
                      struct vt_error *err)
{
    VT_AUTO_FREE struct image_entry *entries = NULL;
    size_t count = 0, seen = 0;
    int r = image_cache_list(cache, &entries, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++) {
        if (strcmp(entries[i].part, part) != 0 || ++seen <= keep)
            continue;
        r = image_cache_discard(cache, part, entries[i].key, err);
    }
    return r;
}
