/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/initrd.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/domain.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/image/bzimage.h"

#define INIT_BYTES_MAX (32u << 20)

/* Owner root and no times: the same content gives the same bytes. */
static int add(struct archive *a, const char *path, unsigned type, unsigned mode, const char *data,
               size_t len, struct vt_error *err)
{
    struct archive_entry *entry = archive_entry_new();
    int r = 0;

    if (!entry)
        return vt_error_no_memory(err, "write initramfs");
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, mode);
    archive_entry_set_size(entry, (la_int64_t)len);
    archive_entry_set_nlink(entry, 1);
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
    archive_entry_set_mtime(entry, 0, 0);
    if (archive_write_header(a, entry) != ARCHIVE_OK ||
        (len > 0 && archive_write_data(a, data, len) != (la_ssize_t)len))
        r = vt_error_set(err, VT_KIND_INFRA, -EIO, "write %s to the initramfs: %s", path,
                         archive_error_string(a));
    archive_entry_free(entry);
    return r;
}

static int add_file(struct archive *a, const char *name, const char *path, unsigned mode,
                    struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf data = VT_BUF_INIT(INIT_BYTES_MAX);
    int r = vt_file_read(path, VT_KIND_CONFIG, &data, err);

    return r < 0 ? r : add(a, name, AE_IFREG, mode, data.data, data.len, err);
}

static int is_module(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int add_modules(struct archive *a, const char *folder, struct vt_error *err)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_module, alphasort), r = 0;

    if (n < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "read %s", folder);
    for (int i = 0; i < n; i++) {
        char path[VT_PATH_MAX], name[300];

        snprintf(name, sizeof name, "modules/%s", names[i]->d_name);
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name) >= VT_PATH_MAX)
            r = vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path too long: %.200s", folder);
        if (r == 0)
            r = add_file(a, name, path, 0644, err);
        free(names[i]);
    }
    free(names);
    return r;
}

int image_initrd_write(const char *path, const char *init, const char *modules,
                       struct vt_error *err)
{
    static const char *const folders[] = {"dev", "proc", "sys", "root", "modules"};
    struct archive *a = archive_write_new();
    int r = 0;

    if (!a)
        return vt_error_no_memory(err, "write initramfs");
    archive_write_set_format_cpio_newc(a);
    archive_write_add_filter_none(a);
    if (archive_write_open_filename(a, path) != ARCHIVE_OK)
        r = vt_error_set(err, VT_KIND_INFRA, -EIO, "create %s: %s", path, archive_error_string(a));
    for (size_t i = 0; r == 0 && i < VT_COUNT(folders); i++)
        r = add(a, folders[i], AE_IFDIR, 0755, NULL, 0, err);
    if (r == 0)
        r = add_file(a, "init", init, 0755, err);
    if (r == 0)
        r = add_modules(a, modules, err);
    if (r == 0 && archive_write_close(a) != ARCHIVE_OK)
        r = vt_error_set(err, VT_KIND_INFRA, -EIO, "write %s: %s", path, archive_error_string(a));
    archive_write_free(a);
    return r;
}
