/* SPDX-License-Identifier: Apache-2.0 */
#include "results/archive_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"

static int folder_of(const char *path, char folder[ARCHIVE_PATH_MAX], struct vt_error *err)
{
    char copy[ARCHIVE_PATH_MAX];

    if (!vt_text_copy(copy, sizeof(copy) - 64, path))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "%s: path too long", path);
    vt_text_copy(folder, ARCHIVE_PATH_MAX, dirname(copy));
    return 0;
}

/* *tmp is "" where the file has no name. */
static int open_new(const char *beside, char tmp[ARCHIVE_PATH_MAX], int *ret_fd,
                    struct vt_error *err)
{
    char folder[ARCHIVE_PATH_MAX];
    int fd, r = folder_of(beside, folder, err);

    if (r < 0)
        return r;
    tmp[0] = '\0';
    fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        snprintf(tmp, ARCHIVE_PATH_MAX, "%s.XXXXXX", beside);
        fd = mkostemp(tmp, O_CLOEXEC);
    }
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create a file in %s", folder);
    *ret_fd = fd;
    return 0;
}

int archive_file_unnamed(const char *beside, int *ret_fd, struct vt_error *err)
{
    char tmp[ARCHIVE_PATH_MAX];
    int r = open_new(beside, tmp, ret_fd, err);

    if (r == 0 && tmp[0])
        unlink(tmp);
    return r;
}

int archive_file_read(int fd, void *data, size_t len, struct vt_error *err)
{
    char *at = data;

    while (len) {
        ssize_t n = read(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "read");
        if (n == 0)
            return vt_error_set(err, VT_KIND_INFRA, -EBADMSG, "read: the file became shorter");
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int archive_file_write(int fd, const void *data, size_t len, struct vt_error *err)
{
    int r = vt_file_write_all(fd, data, len);

    return r < 0 ? vt_error_errno(err, VT_KIND_INFRA, -r, "write") : 0;
}

int archive_new_open(struct archive_new *file, const char *path, struct vt_error *err)
{
    return open_new(path, file->tmp, &file->fd, err);
}

/* By link, not by rename: what another process put there stays. */
int archive_new_name(const struct archive_new *file, const char *path, struct vt_error *err)
{
    char self[64];
    int r;

    if (file->tmp[0]) {
        r = link(file->tmp, path);
    } else {
        snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
        r = linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
    }
    return r < 0 ? vt_error_errno(err, VT_KIND_INFRA, errno, "name it %s", path) : 0;
}

int archive_new_commit(struct archive_new *file, const char *path, struct vt_error *err)
{
    int r;

    if (fsync(file->fd) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "sync it");
    r = archive_new_name(file, path, err);
    if (r < 0)
        return r;
    r = vt_file_sync_folder_of(path, err);
    if (r < 0)
        unlink(path);
    return r;
}

void archive_new_dispose(struct archive_new *file)
{
    if (file->tmp[0])
        unlink(file->tmp);
    file->tmp[0] = '\0';
    vt_scope_close(&file->fd);
    file->fd = -1;
}
