/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file: whole files and folders, for whoever keeps something on disk.
 */
#ifndef VT_BASE_FILE_H
#define VT_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/text.h"

/* All of it, however little is taken at a time. 0 or a negative errno. */
int vt_file_write_all(int fd, const void *data, size_t len);
/* A file that somebody named, to be read. What is not a regular file is refused, and no fifo is
 * waited for: that would be for ever, by a program that may heed no signal yet. kind: of a refusal.
 */
int vt_file_open(const char *path, enum vt_kind kind, int *ret_fd, struct vt_error *err);
/* Appends all of such a file; -ENOBUFS past out->max. */
int vt_file_read(const char *path, enum vt_kind kind, struct vt_buf *out, struct vt_error *err);
/* Makes a file or overwrites it; a new one has the mode but for the umask. A fifo is written where
 * somebody reads it, and not waited for. */
int vt_file_write(const char *path, const void *data, size_t len, mode_t mode,
                  struct vt_error *err);
/* Makes a folder, and those above it that are missing. One that is there stays as it is. kind: of a
 * folder that cannot be made. */
int vt_file_make_folders(const char *path, mode_t mode, enum vt_kind kind, struct vt_error *err);
/* Makes last what was made, named or removed in the folder where path stands. */
int vt_file_sync_folder_of(const char *path, struct vt_error *err);

#endif
