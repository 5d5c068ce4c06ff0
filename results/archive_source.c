/* SPDX-License-Identifier: Apache-2.0 */
#include "results/archive_source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"

int archive_source_open(const char *path, struct archive_source *ret, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    struct stat st;
    int r = vt_file_open(path, VT_KIND_CONFIG, &fd, err);

    if (r < 0)
        return vt_error_wrap(err, "archive");
    if (fstat(fd, &st) < 0)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "open archive %s", path);
    *ret = (struct archive_source){vt_take_fd(fd), NULL, (uint64_t)st.st_size};
    return 0;
}

void archive_source_close(struct archive_source *source)
{
    vt_scope_close(&source->fd);
    source->fd = -1;
}

int archive_source_read(const struct archive_source *source, uint64_t offset, void *data,
                        size_t len, struct vt_error *err)
{
    char *at = data;

    if (offset > source->bytes || len > source->bytes - offset)
        return vt_error_refuse(err, "the archive is cut off here");
    if (source->fd < 0) {
        if (len)
            memcpy(at, source->data + offset, len);
        return 0;
    }
    while (len) {
        ssize_t n = pread(source->fd, at, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "read the archive");
        if (n == 0)
            return vt_error_refuse(err, "the archive is cut off here");
        at += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

void archive_layout_dispose(struct archive_layout *layout)
{
    archive_contents_dispose(&layout->contents);
}
