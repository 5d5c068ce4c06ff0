/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/scope.h"
#include "results/archive.h"
#include "results/archive_cms.h"
#include "results/archive_envelope.h"
#include "results/archive_file.h"
#include "results/archive_key.h"
#include "results/archive_manifest.h"
#include "results/archive_tar.h"
#include "results/result.h"

#define CHUNK (128 * 1024)
/* 4 MiB of window, 10 MiB of working memory; higher levels gain a few per cent and cost much CPU
 * while the tiles still stand. */
#define ZSTD_LEVEL 6

/* What one call of archive_seal works with; disposed of at its end, whatever happens. */
struct seal {
    struct archive_contents contents;
    struct vt_buf result, manifest, sums, cms;
    int record; /* read */
    int parts;  /* compressed parts one after the other, in a file without a name */
    ZSTD_CCtx *zstd;
    EVP_MD_CTX *part_hash, *record_hash;
    uint8_t *in, *out;
    const struct archive_recipients *recipients; /* none: NULL */
    struct archive_envelope *envelope;           /* of the part being written */
    struct archive_part *part;
};

static int compute_result(struct seal *seal, const char *record_path, struct vt_error *err)
{
    struct record_reader *reader = NULL;
    struct result result = {0};
    int r = record_open_read(record_path, &reader, err);

    if (r < 0)
        return r;
    r = result_compute(reader, &result, err);
    if (r == 0) {
        result_write_json(&result, NULL, &seal->result);
        seal->contents.record_version = record_reader_version(reader);
        vt_text_copy(seal->contents.run, sizeof(seal->contents.run), result.run);
        r = vt_buf_check(&seal->result, "result", err);
    }
    result_dispose(&result);
    record_reader_close(reader);
    return r;
}

static int prepare(struct seal *seal, const char *record_path, const char *path,
                   struct vt_error *err)
{
    uint64_t nparts, whole = archive_part_bytes(seal->contents.sealed);
    struct stat st;

    seal->record = open(record_path, O_RDONLY | O_CLOEXEC);
    if (seal->record < 0 || fstat(seal->record, &st) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open %s", record_path);
    seal->contents.record_bytes = (uint64_t)st.st_size;
    nparts = (seal->contents.record_bytes + whole - 1) / whole;
    if (nparts > ARCHIVE_PARTS_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -EFBIG, "%s: too large for an archive",
                            record_path);
    seal->contents.parts = calloc(nparts, sizeof(*seal->contents.parts));
    seal->contents.nparts = nparts;
    seal->zstd = ZSTD_createCCtx();
    seal->part_hash = EVP_MD_CTX_new();
    seal->record_hash = EVP_MD_CTX_new();
    seal->in = malloc(CHUNK);
    seal->out = malloc(CHUNK);
    if (!seal->contents.parts || !seal->zstd || !seal->part_hash || !seal->record_hash ||
        !seal->in || !seal->out)
        return vt_error_no_memory(err, "seal %s", path);
    ZSTD_CCtx_setParameter(seal->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    return archive_file_unnamed(path, &seal->parts, err);
}

/* Bytes of the current part as they will stand in the archive. */
static int put_bytes(void *ctx, const void *data, size_t len, struct vt_error *err)
{
    struct seal *seal = ctx;

    EVP_DigestUpdate(seal->part_hash, data, len);
    seal->part->bytes += len;
    return archive_file_write(seal->parts, data, len, err);
}

/* Compresses what stands in in; encrypts, writes and hashes what comes out. */
static int compress_chunk(struct seal *seal, size_t len, bool last, struct vt_error *err)
{
    ZSTD_inBuffer in = {seal->in, len, 0};
    size_t left;
    int r;

    do {
        ZSTD_outBuffer out = {seal->out, CHUNK, 0};
        left = ZSTD_compressStream2(seal->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return vt_error_set(err, VT_KIND_INFRA, -EIO, "compress: %s", ZSTD_getErrorName(left));
        r = seal->envelope ? archive_envelope_write(seal->envelope, out.dst, out.pos, err)
                           : put_bytes(seal, out.dst, out.pos, err);
        if (r < 0)
            return r;
    } while (last ? left != 0 : in.pos < in.size);
    return 0;
}

static int begin_envelope(struct seal *seal, struct vt_error *err)
{
    const struct archive_envelope_sink sink = {put_bytes, seal};

    return seal->recipients ? archive_envelope_new(seal->recipients, &sink, &seal->envelope, err)
                            : 0;
}

static int end_envelope(struct seal *seal, struct vt_error *err)
{
    int r = seal->envelope ? archive_envelope_end(seal->envelope, err) : 0;

    seal->envelope = archive_envelope_free(seal->envelope);
    return r;
}

static int compress_part(struct seal *seal, struct archive_part *part, uint64_t record_bytes,
                         struct vt_error *err)
{
    uint64_t left = record_bytes;
    int r;

    part->record_bytes = record_bytes;
    seal->part = part;
    ZSTD_CCtx_reset(seal->zstd, ZSTD_reset_session_only);
    ZSTD_CCtx_setPledgedSrcSize(seal->zstd, record_bytes);
    EVP_DigestInit_ex2(seal->part_hash, EVP_sha256(), NULL);
    r = begin_envelope(seal, err);
    while (r == 0 && left) {
        size_t len = left < CHUNK ? (size_t)left : CHUNK;
        r = archive_file_read(seal->record, seal->in, len, err);
        if (r < 0)
            return r;
        EVP_DigestUpdate(seal->record_hash, seal->in, len);
        left -= len;
        r = compress_chunk(seal, len, left == 0, err);
    }
    if (r == 0)
        r = end_envelope(seal, err);
    if (r == 0 && EVP_DigestFinal_ex(seal->part_hash, part->hash, NULL) != 1)
        r = vt_error_set(err, VT_KIND_INFRA, -EIO, "hash a part: OpenSSL failed");
    return r;
}

static int compress_record(struct seal *seal, struct vt_error *err)
{
    uint64_t left = seal->contents.record_bytes, whole = archive_part_bytes(seal->contents.sealed);
    int r = 0;

    EVP_DigestInit_ex2(seal->record_hash, EVP_sha256(), NULL);
    for (size_t i = 0; r == 0 && i < seal->contents.nparts; i++) {
        uint64_t share = left < whole ? left : whole;
        r = compress_part(seal, &seal->contents.parts[i], share, err);
        left -= share;
    }
    if (r == 0 && EVP_DigestFinal_ex(seal->record_hash, seal->contents.record_hash, NULL) != 1)
        r = vt_error_set(err, VT_KIND_INFRA, -EIO, "hash the record: OpenSSL failed");
    return r;
}

static int write_texts(struct seal *seal, const struct archive_key *key, struct vt_error *err)
{
    int r;

    archive_manifest_write(&seal->contents, seal->result.data, &seal->manifest);
    r = vt_buf_check(&seal->manifest, ARCHIVE_MANIFEST_NAME, err);
    if (r < 0)
        return r;
    if (EVP_Digest(seal->manifest.data, seal->manifest.len, seal->contents.manifest_hash, NULL,
                   EVP_sha256(), NULL) != 1)
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "hash the manifest: OpenSSL failed");
    archive_sums_write(&seal->contents, &seal->sums);
    r = vt_buf_check(&seal->sums, ARCHIVE_SUMS_NAME, err);
    if (r == 0)
        r = archive_cms_sign(key->identity.key, key->identity.cert, seal->sums.data, seal->sums.len,
                             &seal->cms, err);
    return r;
}

static int write_head(int fd, const char *name, uint64_t size, struct vt_error *err)
{
    uint8_t block[ARCHIVE_TAR_BLOCK];

    archive_tar_header(block, name, size);
    return archive_file_write(fd, block, sizeof(block), err);
}

static int write_zeros(int fd, uint64_t len, struct vt_error *err)
{
    static const uint8_t zeros[ARCHIVE_TAR_END];

    return archive_file_write(fd, zeros, (size_t)len, err);
}

static int write_member(int fd, const char *name, const struct vt_buf *text, struct vt_error *err)
{
    int r = write_head(fd, name, text->len, err);

    if (r == 0)
        r = archive_file_write(fd, text->data, text->len, err);
    if (r == 0)
        r = write_zeros(fd, archive_tar_padding(text->len), err);
    return r;
}

static int write_part(struct seal *seal, int fd, size_t index, struct vt_error *err)
{
    uint64_t left = seal->contents.parts[index].bytes;
    char name[32];
    int r;

    archive_part_name(index, seal->contents.sealed, name);
    r = write_head(fd, name, left, err);
    while (r == 0 && left) {
        size_t len = left < CHUNK ? (size_t)left : CHUNK;
        r = archive_file_read(seal->parts, seal->in, len, err);
        if (r == 0)
            r = archive_file_write(fd, seal->in, len, err);
        left -= len;
    }
    if (r == 0)
        r = write_zeros(fd, archive_tar_padding(seal->contents.parts[index].bytes), err);
    return r;
}

static int write_archive(struct seal *seal, int fd, struct vt_error *err)
{
    int r = write_member(fd, ARCHIVE_SUMS_NAME, &seal->sums, err);

    if (r == 0)
        r = write_member(fd, ARCHIVE_CMS_NAME, &seal->cms, err);
    if (r == 0)
        r = write_member(fd, ARCHIVE_MANIFEST_NAME, &seal->manifest, err);
    if (r == 0 && lseek(seal->parts, 0, SEEK_SET) < 0)
        r = vt_error_errno(err, VT_KIND_INFRA, errno, "rewind");
    for (size_t i = 0; r == 0 && i < seal->contents.nparts; i++)
        r = write_part(seal, fd, i, err);
    if (r == 0)
        r = write_zeros(fd, ARCHIVE_TAR_END, err);
    return r;
}

static void seal_dispose(struct seal *seal)
{
    archive_envelope_free(seal->envelope);
    archive_contents_dispose(&seal->contents);
    vt_buf_dispose(&seal->result);
    vt_buf_dispose(&seal->manifest);
    vt_buf_dispose(&seal->sums);
    vt_buf_dispose(&seal->cms);
    vt_scope_close(&seal->record);
    vt_scope_close(&seal->parts);
    ZSTD_freeCCtx(seal->zstd);
    EVP_MD_CTX_free(seal->part_hash);
    EVP_MD_CTX_free(seal->record_hash);
    free(seal->in);
    free(seal->out);
}

/* Who may read: named in the manifest, so that a recipient sees what was meant for whom. */
static void note_recipients(struct seal *seal, const struct archive_recipients *recipients)
{
    if (!recipients || recipients->n == 0)
        return;
    seal->recipients = recipients;
    seal->contents.sealed = true;
    seal->contents.nrecipients = recipients->n;
    memcpy(seal->contents.recipients, recipients->fingerprints, sizeof(seal->contents.recipients));
}

int archive_seal(const char *record_path, const char *path, const struct archive_key *key,
                 const struct archive_recipients *recipients, struct vt_error *err)
{
    struct seal seal = {.record = -1,
                        .parts = -1,
                        .result = VT_BUF_INIT(ARCHIVE_MANIFEST_MAX / 2),
                        .manifest = VT_BUF_INIT(ARCHIVE_MANIFEST_MAX),
                        .sums = VT_BUF_INIT(ARCHIVE_SUMS_MAX),
                        .cms = VT_BUF_INIT(ARCHIVE_CMS_MAX)};
    struct archive_new file = ARCHIVE_NEW_INIT;
    int r = compute_result(&seal, record_path, err);

    note_recipients(&seal, recipients);
    if (r == 0)
        r = prepare(&seal, record_path, path, err);
    if (r == 0)
        r = compress_record(&seal, err);
    if (r == 0)
        r = write_texts(&seal, key, err);
    if (r == 0)
        r = archive_new_open(&file, path, err);
    if (r == 0)
        r = write_archive(&seal, file.fd, err);
    if (r == 0)
        r = archive_new_commit(&file, path, err);
    archive_new_dispose(&file);
    seal_dispose(&seal);
    if (r < 0)
        vt_error_wrap(err, "seal %s", path);
    return r;
}
