/* SPDX-License-Identifier: Apache-2.0 */
/* archive_source: the bytes of an archive, from a file or from memory. */
#ifndef VTILE_RESULTS_ARCHIVE_SOURCE_H
#define VTILE_RESULTS_ARCHIVE_SOURCE_H

#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "results/archive.h"
#include "results/archive_manifest.h"

struct archive_source {
    int fd; /* -1: memory */
    const uint8_t *data;
    uint64_t bytes;
};

/* A plain file. */
int archive_source_open(const char *path, struct archive_source *ret, struct vt_error *err);
void archive_source_close(struct archive_source *source);
/* Exactly len bytes from offset; beyond the end is -EBADMSG. */
int archive_source_read(const struct archive_source *source, uint64_t offset, void *data,
                        size_t len, struct vt_error *err);

/* What verification leaves for who reads on. */
struct archive_layout {
    struct archive_contents contents;
    uint64_t first_part; /* offset of the first part's header */
};
void archive_layout_dispose(struct archive_layout *layout);

/* parts: hash them too and look at the end; else the front alone. */
int archive_source_verify(const struct archive_source *source, const struct archive_trust *trust,
                          bool parts, struct archive_report *report, struct archive_layout *ret,
                          struct vt_error *err);

#endif
