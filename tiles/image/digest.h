/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest: SHA-256 over named fields, each with its length before it, so that no two different
 * lists of fields give the same bytes. Errors are kept until image_digest_finish.
 */
#ifndef VTILE_TILES_IMAGE_DIGEST_H
#define VTILE_TILES_IMAGE_DIGEST_H

#include <openssl/evp.h>
#include <stddef.h>

#include "base/error.h"
#include "tiles/image/image.h"

struct image_digest {
    EVP_MD_CTX *ctx;
    struct vt_error err; /* the first that happened */
};

void image_digest_init(struct image_digest *d);
void image_digest_add(struct image_digest *d, const char *name, const void *data, size_t len);
void image_digest_add_text(struct image_digest *d, const char *name, const char *text);
/* The content of a file, not its path. */
void image_digest_add_file(struct image_digest *d, const char *name, const char *path);
/* Always releases. 64 hex digits and NUL. */
int image_digest_finish(struct image_digest *d, char ret[IMAGE_KEY_MAX], struct vt_error *err);

#endif
