/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_file: files that appear whole or not at all, and temporary ones that nobody else sees.
 * Where the file system can (O_TMPFILE), neither has a name while it is written, so that not even a
 * killed process leaves anything behind.
 */
#ifndef VTILE_RESULTS_ARCHIVE_FILE_H
#define VTILE_RESULTS_ARCHIVE_FILE_H

#include <stddef.h>

#include "base/error.h"

#define ARCHIVE_PATH_MAX 1200

/* A file without a name, in the folder of beside. */
int archive_file_unnamed(const char *beside, int *ret_fd, struct vt_error *err);
/* All of it; a file that ends before is -EBADMSG. */
int archive_file_read(int fd, void *data, size_t len, struct vt_error *err);
int archive_file_write(int fd, const void *data, size_t len, struct vt_error *err);

struct archive_new {
    int fd;
    char tmp[ARCHIVE_PATH_MAX]; /* "": it has no name */
};
#define ARCHIVE_NEW_INIT \
    {                    \
        -1,              \
        {                \
            0            \
        }                \
    }

int archive_new_open(struct archive_new *file, const char *path, struct vt_error *err);
/* -EEXIST when path exists already. */
int archive_new_name(const struct archive_new *file, const char *path, struct vt_error *err);
/* Synced, then named; -EEXIST when path exists already. */
int archive_new_commit(struct archive_new *file, const char *path, struct vt_error *err);
void archive_new_dispose(struct archive_new *file); /* twice is fine */

#endif
