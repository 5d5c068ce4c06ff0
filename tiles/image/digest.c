/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"

#define CHUNK_BYTES 65536

static void fail(struct image_digest *d)
{
    if (!d->err.code)
        vt_error_set(&d->err, VT_KIND_INFRA, -EIO, "SHA-256 is not available");
}

static void update(struct image_digest *d, const void *data, size_t len)
{
    if (!d->err.code && EVP_DigestUpdate(d->ctx, data, len) != 1)
        fail(d);
}

void image_digest_init(struct image_digest *d)
{
    memset(d, 0, sizeof *d);
    d->ctx = EVP_MD_CTX_new();
    if (!d->ctx || EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) != 1)
        fail(d);
}

static void field(struct image_digest *d, const char *name, uint64_t len)
{
    char head[128];
    int n =
        snprintf(head, sizeof head, "%zu %s %llu\n", strlen(name), name, (unsigned long long)len);

    if (n < 0 || (size_t)n >= sizeof head)
        vt_error_set(&d->err, VT_KIND_INFRA, -ENAMETOOLONG, "digest: a name of %d bytes", n);
    else
        update(d, head, (size_t)n);
}

void image_digest_add(struct image_digest *d, const char *name, const void *data, size_t len)
{
    field(d, name, len);
    update(d, data, len);
}

void image_digest_add_text(struct image_digest *d, const char *name, const char *text)
{
    image_digest_add(d, name, text, strlen(text));
}

void image_digest_add_file(struct image_digest *d, const char *name, const char *path)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char buf[CHUNK_BYTES];
    uint64_t left;
    struct stat st;

    if (d->err.code)
        return;
    if (fd < 0 || fstat(fd, &st) < 0) {
        vt_error_errno(&d->err, VT_KIND_CONFIG, errno, "read %s", path);
        return;
    }
    left = (uint64_t)st.st_size;
    field(d, name, left);
    while (left > 0 && !d->err.code) {
        ssize_t n = read(fd, buf, left < sizeof buf ? (size_t)left : sizeof buf);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            vt_error_errno(&d->err, VT_KIND_CONFIG, errno, "read %s", path);
        else if (n == 0)
            vt_error_set(&d->err, VT_KIND_CONFIG, -EIO, "%s changed while it was read", path);
        else {
            update(d, buf, (size_t)n);
            left -= (uint64_t)n;
        }
    }
}

int image_digest_finish(struct image_digest *d, char ret[IMAGE_KEY_MAX], struct vt_error *err)
{
    unsigned char sum[32];

    if (!d->err.code && EVP_DigestFinal_ex(d->ctx, sum, NULL) != 1)
        fail(d);
    EVP_MD_CTX_free(d->ctx);
    d->ctx = NULL;
    if (d->err.code) {
        if (err)
            *err = d->err;
        return d->err.code;
    }
    vt_text_hex(sum, sizeof sum, ret);
    return 0;
}
