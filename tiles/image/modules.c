/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/domain.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/image/bzimage.h"
#include "tiles/image/initrd.h"

#define NAME_MAX_BYTES 64
#define DEPENDS_MAX_BYTES 1024
/* Debian's largest kernel package has about 4,000. */
#define INDEX_MAX 20000
#define BUILTIN_MAX (4u << 20)

/* Where modules are in the package; sorted by name. */
struct module {
    char name[NAME_MAX_BYTES]; /* '_', never '-': how the kernel names them */
    char *path;
};
struct index {
    struct module *modules;
    size_t count;
    struct vt_buf builtin; /* modules.builtin */
};

struct extraction {
    const struct index *index;
    const char *folder;
    char done[IMAGE_MODULES_MAX][NAME_MAX_BYTES];
    size_t count;
};

bool image_module_depends(const uint8_t *data, size_t len, char *ret, size_t size)
{
    static const char key[] = "depends=";
    const uint8_t *p = data, *end = data + len;

    while ((p = memmem(p, (size_t)(end - p), key, sizeof key - 1))) {
        const uint8_t *value = p + sizeof key - 1;
        const uint8_t *nul = memchr(value, 0, (size_t)(end - value));

        if (!nul)
            return false;
        if ((p == data || p[-1] == 0) && (size_t)(nul - value) < size) {
            memcpy(ret, value, (size_t)(nul - value) + 1);
            return true;
        }
        p = value;
    }
    return false;
}

/* "virtio-ring.ko.xz" -> "virtio_ring"; false for other files. */
static bool module_name(const char *file, char ret[NAME_MAX_BYTES])
{
    const char *end = strstr(file, ".ko");

    if (!end || (end[3] && end[3] != '.') || end == file || end - file >= NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < (size_t)(end - file); i++)
        ret[i] = file[i] == '-' ? '_' : file[i];
    ret[end - file] = '\0';
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct module *)a)->name, ((const struct module *)b)->name);
}

static int index_add(struct index *index, const char *file, const char *path, struct vt_error *err)
{
    struct module module, *grown;

    if (!module_name(file, module.name))
        return 0;
    if (index->count == INDEX_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "kernel package: more than %d modules",
                            INDEX_MAX);
    grown = reallocarray(index->modules, index->count + 1, sizeof *grown);
    if (!grown)
        return vt_error_no_memory(err, "list modules");
    index->modules = grown;
    module.path = strdup(path);
    if (!module.path)
        return vt_error_no_memory(err, "list modules");
    grown[index->count++] = module;
    return 0;
}

static void index_dispose(struct index *index)
{
    for (size_t i = 0; i < index->count; i++)
        free(index->modules[i].path);
    free(index->modules);
    vt_buf_dispose(&index->builtin);
}

static int index_read(struct index *index, const char *tree, struct vt_error *err)
{
    char root[VT_PATH_MAX];
    char *roots[] = {root, NULL};
    int r = 0;
    FTS *fts;

    if (!vt_text_copy(root, sizeof root, tree))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path too long: %.200s", tree);
    fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (!fts)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "read %s", tree);
    for (FTSENT *e; r == 0 && (e = fts_read(fts));) {
        if (e->fts_info != FTS_F)
            continue;
        if (!strcmp(e->fts_name, "modules.builtin"))
            r = vt_file_read(e->fts_path, VT_KIND_CONFIG, &index->builtin, err);
        else
            r = index_add(index, e->fts_name, e->fts_path, err);
    }
    fts_close(fts);
    if (r == 0 && index->count == 0)
        r = vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "kernel package: no modules in it");
    if (r == 0)
        qsort(index->modules, index->count, sizeof *index->modules, by_name);
    return r;
}

/* modules.builtin: a path a line, "kernel/fs/erofs/erofs.ko". */
static bool is_builtin(const struct index *index, const char *name)
{
    const char *line = index->builtin.data;

    while (line && *line) {
        size_t len = strcspn(line, "\n");
        char file[NAME_MAX_BYTES * 2], found[NAME_MAX_BYTES];
        const char *slash = memrchr(line, '/', len);
        const char *base = slash ? slash + 1 : line;
        size_t n = len - (size_t)(base - line);

        if (n < sizeof file) {
            memcpy(file, base, n);
            file[n] = '\0';
            if (module_name(file, found) && !strcmp(found, name))
                return true;
        }
        line += len + (line[len] == '\n');
    }
    return false;
}

static int read_module(const char *path, struct vt_buf *ret, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf packed = VT_BUF_INIT(IMAGE_MODULE_BYTES_MAX);
    size_t len = strlen(path);
    int r;

    if (len > 3 && !strcmp(path + len - 3, ".ko"))
        return vt_file_read(path, VT_KIND_CONFIG, ret, err);
    r = vt_file_read(path, VT_KIND_CONFIG, &packed, err);
    if (r < 0)
        return r;
    r = image_decompress((const uint8_t *)packed.data, packed.len, ret, err);
    return r < 0 ? vt_error_wrap(err, "module %s", path) : 0;
}

static int extract(struct extraction *x, const char *name, unsigned depth, struct vt_error *err);

static int extract_depends(struct extraction *x, const struct vt_buf *module, unsigned depth,
                           struct vt_error *err)
{
    char names[DEPENDS_MAX_BYTES], *save = NULL;
    int r = 0;

    if (!image_module_depends((const uint8_t *)module->data, module->len, names, sizeof names))
        return 0;
    for (char *p = strtok_r(names, ",", &save); p && r == 0; p = strtok_r(NULL, ",", &save)) {
        char name[NAME_MAX_BYTES + 3], file[NAME_MAX_BYTES];

        snprintf(name, sizeof name, "%.63s.ko", p);
        if (module_name(name, file))
            r = extract(x, file, depth + 1, err);
    }
    return r;
}

/* What a module depends on comes before it. */
static int extract(struct extraction *x, const char *name, unsigned depth, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf data = VT_BUF_INIT(IMAGE_MODULE_BYTES_MAX);
    struct module key = {.path = NULL};
    const struct module *module;
    char path[VT_PATH_MAX];
    int r, n;

    for (size_t i = 0; i < x->count; i++)
        if (!strcmp(x->done[i], name))
            return 0;
    if (depth > IMAGE_MODULES_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -ELOOP, "module %s depends on itself", name);
    if (is_builtin(x->index, name))
        return 0;
    vt_text_copy(key.name, sizeof key.name, name);
    module = bsearch(&key, x->index->modules, x->index->count, sizeof key, by_name);
    if (!module)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "the kernel package has no module %s",
                            name);
    r = read_module(module->path, &data, err);
    if (r == 0)
        r = extract_depends(x, &data, depth, err);
    if (r < 0)
        return r;
    if (x->count == IMAGE_MODULES_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "more than %d modules", IMAGE_MODULES_MAX);
    n = snprintf(path, sizeof path, "%s/%02zu-%s.ko", x->folder, x->count, name);
    if (n < 0 || n >= VT_PATH_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path too long: %.200s", x->folder);
    vt_text_copy(x->done[x->count++], NAME_MAX_BYTES, name);
    return image_file_write(path, data.data, data.len, 0644, err);
}

int image_modules_extract(const char *tree, const char *wanted, const char *folder,
                          struct vt_error *err)
{
    struct index index = {NULL, 0, VT_BUF_INIT(BUILTIN_MAX)};
    struct extraction x = {.index = &index, .folder = folder, .count = 0};
    int r = index_read(&index, tree, err);

    for (const char *line = wanted; r == 0 && *line;) {
        size_t len = strcspn(line, "\n");

        if (len > 0 && *line != '#') {
            char name[NAME_MAX_BYTES];

            if (len >= sizeof name)
                r = vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "module name too long: %.70s", line);
            else {
                memcpy(name, line, len);
                name[len] = '\0';
                r = extract(&x, name, 0, err);
            }
        }
        line += len + (line[len] == '\n');
    }
    index_dispose(&index);
    return r;
}
