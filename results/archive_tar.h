/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_tar: the one ustar header (POSIX.1-2017, pax, "ustar Interchange Format") that a member
 * of given name and size has: plain file, mode 0644, owner 0:0 without names, and the time
 * ARCHIVE_TAR_MTIME, which tells nothing and which no tar calls implausible.
 */
#ifndef VTILE_RESULTS_ARCHIVE_TAR_H
#define VTILE_RESULTS_ARCHIVE_TAR_H

#include <stdint.h>

#include "base/error.h"

#define ARCHIVE_TAR_BLOCK 512
#define ARCHIVE_TAR_END 1024        /* two zero blocks, then nothing */
#define ARCHIVE_TAR_MTIME 315532800 /* 1980-01-01T00:00:00Z */
#define ARCHIVE_TAR_MAGIC_AT 257    /* of "ustar" */
#define ARCHIVE_TAR_NAME_MAX 100    /* with NUL */
#define ARCHIVE_TAR_ANY_SIZE UINT64_MAX

/* name shorter than ARCHIVE_TAR_NAME_MAX, size below 8 GiB. */
void archive_tar_header(uint8_t block[ARCHIVE_TAR_BLOCK], const char *name, uint64_t size);
/* Zero bytes that follow a member of that size. */
uint64_t archive_tar_padding(uint64_t size);

/* True when block is that header for *size, or, where *size is ARCHIVE_TAR_ANY_SIZE, for some
 * size of at most max, which *size then is. Else -EBADMSG saying what stands there instead, with
 * names escaped. */
int archive_tar_check(const uint8_t block[ARCHIVE_TAR_BLOCK], const char *name, uint64_t max,
                      uint64_t *size, struct vt_error *err);

#endif
