/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "results/archive.h"
#include "results/archive_cms.h"
#include "results/archive_manifest.h"
#include "results/archive_source.h"
#include "results/archive_tar.h"

#define CHUNK (64 * 1024)
#define END_NAME "end of archive"

/* A walk over the archive from its first byte to its last; nothing is skipped. */
struct walk {
    const struct archive_source *source;
    uint64_t offset;
    struct archive_report *report;
    EVP_MD_CTX *hash;
    uint8_t chunk[CHUNK];
};

static int enter(struct walk *walk, const char *part)
{
    vt_text_copy(walk->report->part, sizeof(walk->report->part), part);
    return 0;
}

static int take(struct walk *walk, void *data, size_t len, struct vt_error *err)
{
    int r = archive_source_read(walk->source, walk->offset, data, len, err);

    if (r == 0)
        walk->offset += len;
    return r;
}

static int take_zeros(struct walk *walk, size_t len, const char *what, struct vt_error *err)
{
    static const uint8_t zeros[ARCHIVE_TAR_END];
    uint8_t found[ARCHIVE_TAR_END];
    int r = take(walk, found, len, err);

    if (r == 0 && memcmp(found, zeros, len) != 0)
        r = vt_error_refuse(err, "%s is not zero", what);
    return r;
}

static int take_header(struct walk *walk, const char *name, uint64_t max, uint64_t *size,
                       struct vt_error *err)
{
    uint8_t block[ARCHIVE_TAR_BLOCK];
    int r;

    enter(walk, name);
    r = take(walk, block, sizeof(block), err);
    return r < 0 ? r : archive_tar_check(block, name, max, size, err);
}

static int take_padding(struct walk *walk, uint64_t size, struct vt_error *err)
{
    return take_zeros(walk, (size_t)archive_tar_padding(size), "the padding after it", err);
}

/* A whole small member into text. */
static int take_text(struct walk *walk, const char *name, uint64_t max, struct vt_buf *text,
                     struct vt_error *err)
{
    uint64_t size = ARCHIVE_TAR_ANY_SIZE, left;
    int r = take_header(walk, name, max, &size, err);

    for (left = size; r == 0 && left;) {
        size_t len = left < CHUNK ? (size_t)left : CHUNK;
        r = take(walk, walk->chunk, len, err);
        if (r == 0)
            vt_buf_add(text, walk->chunk, len);
        left -= len;
    }
    if (r == 0)
        r = vt_buf_check(text, name, err);
    if (r == 0)
        r = take_padding(walk, size, err);
    if (r == 0 && text->len == 0)
        r = vt_error_refuse(err, "is empty");
    return r;
}

/* --- trust --- */

/* Hex of either case, colons between bytes as other tools print them. */
static bool same_fingerprint(const char *trusted, const char *fingerprint)
{
    for (; *trusted || *fingerprint; trusted++) {
        char c = *trusted;
        if (c == ':')
            continue;
        if (c >= 'A' && c <= 'F')
            c = (char)(c - 'A' + 'a');
        if (c != *fingerprint || !c)
            return false;
        fingerprint++;
    }
    return true;
}

static int check_trust(const struct archive_trust *trust, const char *fingerprint,
                       struct vt_error *err)
{
    for (size_t i = 0; trust && i < trust->n; i++) {
        if (same_fingerprint(trust->fingerprints[i], fingerprint))
            return 0;
    }
    return vt_error_set(err, VT_KIND_REFUSED, -EKEYREJECTED,
                        "signed by unknown %s; `--trust %s` accepts it, once you know whose it is",
                        fingerprint, fingerprint);
}

/* --- the front --- */

/* A file of another kind is told as that, not as a damaged archive. */
static int check_kind(const struct archive_source *source, struct archive_report *report,
                      struct vt_error *err)
{
    static const char magic[] = "ustar";
    uint8_t block[ARCHIVE_TAR_BLOCK] = {0};
    size_t len = source->bytes < sizeof(block) ? (size_t)source->bytes : sizeof(block);
    int r = archive_source_read(source, 0, block, len, err);

    if (r < 0 || !memcmp(block, ARCHIVE_SUMS_NAME, sizeof(ARCHIVE_SUMS_NAME)) ||
        !memcmp(block + ARCHIVE_TAR_MAGIC_AT, magic, sizeof(magic) - 1))
        return r;
    vt_text_copy(report->part, sizeof(report->part), ARCHIVE_SUMS_NAME);
    return vt_error_refuse(err, "no archive of a run: it does not begin with " ARCHIVE_SUMS_NAME
                                " (`vtile run` makes them, <run>.vtar)");
}

static int take_signature(struct walk *walk, const struct archive_trust *trust,
                          const struct vt_buf *sums, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf cms = VT_BUF_INIT(ARCHIVE_CMS_MAX);
    struct archive_report *report = walk->report;
    int r = take_text(walk, ARCHIVE_CMS_NAME, ARCHIVE_CMS_MAX, &cms, err);

    if (r == 0)
        r = archive_cms_verify((const uint8_t *)cms.data, cms.len, sums->data, sums->len,
                               report->fingerprint, err);
    if (r == 0)
        r = check_trust(trust, report->fingerprint, err);
    return r;
}

static int take_manifest(struct walk *walk, struct archive_contents *contents, struct vt_error *err)
{
    struct vt_buf *text = &walk->report->manifest;
    uint8_t hash[EVP_MAX_MD_SIZE];
    int r;

    *text = (struct vt_buf)VT_BUF_INIT(ARCHIVE_MANIFEST_MAX);
    r = take_text(walk, ARCHIVE_MANIFEST_NAME, ARCHIVE_MANIFEST_MAX, text, err);
    if (r < 0)
        return r;
    if (EVP_Digest(text->data, text->len, hash, NULL, EVP_sha256(), NULL) != 1 ||
        memcmp(hash, contents->manifest_hash, ARCHIVE_HASH_BYTES) != 0)
        return vt_error_refuse(err, "its SHA-256 is not the one in " ARCHIVE_SUMS_NAME);
    r = archive_manifest_read(text->data, text->len, contents, NULL, err);
    if (r == 0) {
        walk->report->nparts = (unsigned)contents->nparts;
        walk->report->nrecipients = (unsigned)contents->nrecipients;
        walk->report->record_bytes = contents->record_bytes;
        vt_text_copy(walk->report->run, sizeof(walk->report->run), contents->run);
    }
    return r;
}

static int take_front(struct walk *walk, const struct archive_trust *trust,
                      struct archive_contents *contents, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf sums = VT_BUF_INIT(ARCHIVE_SUMS_MAX);
    int r = take_text(walk, ARCHIVE_SUMS_NAME, ARCHIVE_SUMS_MAX, &sums, err);

    /* Nothing that the signature covers is looked into before it is found good and trusted. */
    if (r == 0)
        r = take_signature(walk, trust, &sums, err);
    if (r == 0) {
        enter(walk, ARCHIVE_SUMS_NAME);
        r = archive_sums_read(sums.data, sums.len, contents, err);
    }
    if (r == 0)
        r = take_manifest(walk, contents, err);
    return r;
}

/* --- the parts --- */

static int take_part(struct walk *walk, const struct archive_contents *contents, size_t index,
                     struct vt_error *err)
{
    const struct archive_part *part = &contents->parts[index];
    uint8_t hash[EVP_MAX_MD_SIZE];
    uint64_t left = part->bytes, size = part->bytes;
    char name[32];
    int r;

    archive_part_name(index, contents->sealed, name);
    r = take_header(walk, name, ARCHIVE_PART_BYTES_MAX, &size, err);
    EVP_DigestInit_ex2(walk->hash, EVP_sha256(), NULL);
    while (r == 0 && left) {
        size_t len = left < CHUNK ? (size_t)left : CHUNK;
        r = take(walk, walk->chunk, len, err);
        if (r == 0)
            EVP_DigestUpdate(walk->hash, walk->chunk, len);
        left -= len;
    }
    if (r == 0 && (EVP_DigestFinal_ex(walk->hash, hash, NULL) != 1 ||
                   memcmp(hash, part->hash, ARCHIVE_HASH_BYTES) != 0))
        r = vt_error_refuse(err, "its SHA-256 is not the one in " ARCHIVE_SUMS_NAME);
    return r < 0 ? r : take_padding(walk, size, err);
}

static int take_rest(struct walk *walk, const struct archive_contents *contents,
                     struct vt_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < contents->nparts; i++)
        r = take_part(walk, contents, i, err);
    if (r < 0)
        return r;
    enter(walk, END_NAME);
    r = take_zeros(walk, ARCHIVE_TAR_END, "one of its two blocks", err);
    if (r == 0 && walk->offset != walk->source->bytes)
        r = vt_error_refuse(err, "%" PRIu64 " bytes follow it", walk->source->bytes - walk->offset);
    return r;
}

int archive_source_verify(const struct archive_source *source, const struct archive_trust *trust,
                          bool parts, struct archive_report *report, struct archive_layout *ret,
                          struct vt_error *err)
{
    struct walk *walk = malloc(sizeof(*walk));
    struct archive_layout layout = {0};
    int r = check_kind(source, report, err);

    if (r < 0) {
        free(walk);
        return r;
    }
    if (!walk || !(walk->hash = EVP_MD_CTX_new())) {
        free(walk);
        return vt_error_no_memory(err, "verify an archive");
    }
    walk->source = source;
    walk->offset = 0;
    walk->report = report;
    r = take_front(walk, trust, &layout.contents, err);
    layout.first_part = walk->offset;
    if (r == 0 && parts)
        r = take_rest(walk, &layout.contents, err);
    EVP_MD_CTX_free(walk->hash);
    free(walk);
    if (r == 0) {
        report->part[0] = '\0';
        *ret = layout;
        return 0;
    }
    archive_layout_dispose(&layout);
    vt_error_wrap(err, "%s", report->part);
    return r;
}

void archive_report_dispose(struct archive_report *report)
{
    vt_buf_dispose(&report->manifest);
}

static int verify_path(const char *path, const struct archive_trust *trust, bool parts,
                       struct archive_report *report, struct vt_error *err)
{
    struct archive_source source;
    struct archive_layout layout = {0};
    int r = archive_source_open(path, &source, err);

    if (r < 0)
        return r;
    r = archive_source_verify(&source, trust, parts, report, &layout, err);
    archive_layout_dispose(&layout);
    archive_source_close(&source);
    if (r < 0)
        vt_error_wrap(err, "archive %s", path);
    return r;
}

int archive_verify(const char *path, const struct archive_trust *trust,
                   struct archive_report *report, struct vt_error *err)
{
    return verify_path(path, trust, true, report, err);
}

int archive_verify_front(const char *path, const struct archive_trust *trust,
                         struct archive_report *report, struct vt_error *err)
{
    return verify_path(path, trust, false, report, err);
}

int archive_verify_memory(const void *data, size_t len, const struct archive_trust *trust,
                          struct archive_report *report, struct vt_error *err)
{
    struct archive_source source = {-1, data, len};
    struct archive_layout layout = {0};
    int r = archive_source_verify(&source, trust, true, report, &layout, err);

    archive_layout_dispose(&layout);
    return r;
}
