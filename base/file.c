/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"

#define PIECE_BYTES 65536

int vt_file_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int vt_file_open(const char *path, enum vt_kind kind, int *ret_fd, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return vt_error_errno(err, kind, errno, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return vt_error_set(err, kind, -EINVAL, "open %s: not a regular file", path);
    *ret_fd = vt_take_fd(fd);
    return 0;
}

int vt_file_read(const char *path, enum vt_kind kind, struct vt_buf *out, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    char piece[PIECE_BYTES];
    ssize_t n;
    int r = vt_file_open(path, kind, &fd, err);

    if (r < 0)
        return r;
    while ((n = read(fd, piece, sizeof(piece))) != 0 && !out->failed) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return vt_error_errno(err, kind, errno, "read %s", path);
        vt_buf_add(out, piece, (size_t)n);
    }
    return vt_buf_check(out, path, err);
}

int vt_file_write(const char *path, const void *data, size_t len, mode_t mode, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
    int r;

    if (fd < 0 && errno == ENXIO)
        return vt_error_set(err, VT_KIND_INFRA, -ENXIO, "write %s: nobody reads it", path);
    /* The opening alone was not to wait. */
    r = fd < 0 || fcntl(fd, F_SETFL, O_WRONLY) < 0 ? -errno : vt_file_write_all(fd, data, len);
    return r < 0 ? vt_error_errno(err, VT_KIND_INFRA, -r, "write %s", path) : 0;
}

int vt_file_make_folders(const char *path, mode_t mode, enum vt_kind kind, struct vt_error *err)
{
    char part[PATH_MAX];
    struct stat found;

    if (!vt_text_copy(part, sizeof(part), path))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG,
                            "folder '%.200s': at most %d bytes are possible", path, PATH_MAX - 1);
    for (char *at = part + 1;; at++) {
        char end = *at;

        if (end && end != '/')
            continue;
        *at = '\0';
        if (mkdir(part, mode) < 0) {
            int code = errno;

            if (code == EEXIST && stat(part, &found) == 0)
                code = S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
            if (code != 0)
                return vt_error_errno(err, kind, code, "make the folder %s", part);
        }
        if (!end)
            return 0;
        *at = end;
    }
}

int vt_file_sync_folder_of(const char *path, struct vt_error *err)
{
    char folder[PATH_MAX];
    char *slash;

    if (!vt_text_copy(folder, sizeof(folder), path))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG,
                            "sync the folder of %.200s: path "
                            "too long",
                            path);
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    VT_AUTO_CLOSE int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "sync the folder of %s", path);
    return 0;
}
