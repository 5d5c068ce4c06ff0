/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/scope.h"
#include "results/archive.h"
#include "results/archive_envelope.h"
#include "results/archive_file.h"
#include "results/archive_source.h"
#include "results/archive_tar.h"

#define CHUNK (64 * 1024)
#define WINDOW_LOG_MAX 23 /* 8 MiB: twice what archive_seal asks for, and all that we hand out */

struct unpack {
    const struct archive_source *source;
    struct archive_readers *readers;
    int out;
    int packed; /* one part without its envelope; a file without a name */
    ZSTD_DCtx *zstd;
    EVP_MD_CTX *part_hash, *record_hash;
    uint8_t in[CHUNK], plain[CHUNK];
};

/* Feeds what was read; *record_left: bytes that the part may still give, *done: its frame ended. */
static int feed(struct unpack *unpack, size_t len, uint64_t *record_left, bool *done,
                struct vt_error *err)
{
    ZSTD_inBuffer in = {unpack->in, len, 0};
    ZSTD_outBuffer out;
    int r;

    do { /* a full output may have more behind it, without new input */
        if (*done)
            return vt_error_refuse(err, "bytes follow its zstd frame");
        out = (ZSTD_outBuffer){unpack->plain, CHUNK, 0};
        size_t more = ZSTD_decompressStream(unpack->zstd, &out, &in);
        if (ZSTD_isError(more))
            return vt_error_refuse(err, "%s", ZSTD_getErrorName(more));
        if (out.pos > *record_left)
            return vt_error_refuse(err, "unpacks to more than the manifest says");
        *record_left -= out.pos;
        *done = more == 0;
        EVP_DigestUpdate(unpack->record_hash, out.dst, out.pos);
        r = archive_file_write(unpack->out, out.dst, out.pos, err);
        if (r < 0)
            return r;
    } while (in.pos < in.size || (out.pos == out.size && !*done));
    return 0;
}

/* zstd's bytes of a part: where they stand in the archive, or what its envelope held. */
static int find_packed(struct unpack *unpack, const struct archive_contents *contents, size_t index,
                       uint64_t offset, struct archive_source *ret, uint64_t *ret_offset,
                       uint64_t *ret_len, struct vt_error *err)
{
    const struct archive_part *part = &contents->parts[index];
    struct stat st;
    int r;

    if (!contents->sealed) {
        *ret = *unpack->source;
        *ret_offset = offset;
        *ret_len = part->bytes;
        return 0;
    }
    r = archive_envelope_open(unpack->source, offset, part, unpack->readers, unpack->packed, err);
    if (r < 0)
        return r;
    if (fstat(unpack->packed, &st) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "decrypt a part");
    *ret = (struct archive_source){unpack->packed, NULL, (uint64_t)st.st_size};
    *ret_offset = 0;
    *ret_len = (uint64_t)st.st_size;
    return 0;
}

/* The part was verified a moment ago; its hash is taken again, since the file may have changed. */
static int unpack_part(struct unpack *unpack, const struct archive_contents *contents, size_t index,
                       uint64_t offset, struct vt_error *err)
{
    const struct archive_part *part = &contents->parts[index];
    struct archive_source packed = {-1, NULL, 0};
    uint8_t hash[EVP_MAX_MD_SIZE];
    uint64_t left = 0, record_left = part->record_bytes;
    bool done = false;
    int r = find_packed(unpack, contents, index, offset, &packed, &offset, &left, err);

    ZSTD_DCtx_reset(unpack->zstd, ZSTD_reset_session_only);
    EVP_DigestInit_ex2(unpack->part_hash, EVP_sha256(), NULL);
    while (r == 0 && left) {
        size_t len = left < CHUNK ? (size_t)left : CHUNK;
        r = archive_source_read(&packed, offset, unpack->in, len, err);
        if (r < 0)
            return r;
        EVP_DigestUpdate(unpack->part_hash, unpack->in, len);
        r = feed(unpack, len, &record_left, &done, err);
        offset += len;
        left -= len;
    }
    if (r == 0 && (!done || record_left))
        r = vt_error_refuse(err, "unpacks to less than the manifest says");
    if (r == 0 && !contents->sealed &&
        (EVP_DigestFinal_ex(unpack->part_hash, hash, NULL) != 1 ||
         memcmp(hash, part->hash, ARCHIVE_HASH_BYTES) != 0))
        r = vt_error_refuse(err, "changed while it was read");
    return r;
}

static int unpack_parts(struct unpack *unpack, const struct archive_layout *layout,
                        struct archive_report *report, struct vt_error *err)
{
    const struct archive_contents *contents = &layout->contents;
    uint64_t offset = layout->first_part;
    uint8_t hash[EVP_MAX_MD_SIZE];
    char name[32];
    int r = 0;

    EVP_DigestInit_ex2(unpack->record_hash, EVP_sha256(), NULL);
    for (size_t i = 0; r == 0 && i < contents->nparts; i++) {
        uint64_t bytes = contents->parts[i].bytes;
        archive_part_name(i, contents->sealed, name);
        vt_text_copy(report->part, sizeof(report->part), name);
        r = unpack_part(unpack, contents, i, offset + ARCHIVE_TAR_BLOCK, err);
        offset += ARCHIVE_TAR_BLOCK + bytes + archive_tar_padding(bytes);
    }
    if (r == 0 && (EVP_DigestFinal_ex(unpack->record_hash, hash, NULL) != 1 ||
                   memcmp(hash, contents->record_hash, ARCHIVE_HASH_BYTES) != 0))
        r = vt_error_refuse(err, "the record's SHA-256 is not the one in the manifest");
    if (r < 0)
        vt_error_wrap(err, "%s", report->part);
    else
        report->part[0] = '\0';
    return r;
}

/* Where an archive is unpacked to. */
struct target {
    struct archive_readers *readers;
    const char *path; /* of the record */
    int fd;
};

static int unpack_record(const struct archive_source *source, const struct archive_layout *layout,
                         const struct target *target, struct archive_report *report,
                         struct vt_error *err)
{
    struct unpack *unpack = calloc(1, sizeof(*unpack));
    int r = 0;

    if (!unpack)
        return vt_error_no_memory(err, "unpack the record");
    unpack->source = source;
    unpack->readers = target->readers;
    unpack->out = target->fd;
    unpack->packed = -1;
    unpack->zstd = ZSTD_createDCtx();
    unpack->part_hash = EVP_MD_CTX_new();
    unpack->record_hash = EVP_MD_CTX_new();
    if (!unpack->zstd || !unpack->part_hash || !unpack->record_hash)
        r = vt_error_no_memory(err, "unpack the record");
    else
        ZSTD_DCtx_setParameter(unpack->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    if (r == 0 && layout->contents.sealed)
        r = archive_file_unnamed(target->path, &unpack->packed, err);
    if (r == 0)
        r = unpack_parts(unpack, layout, report, err);
    vt_scope_close(&unpack->packed);
    ZSTD_freeDCtx(unpack->zstd);
    EVP_MD_CTX_free(unpack->part_hash);
    EVP_MD_CTX_free(unpack->record_hash);
    free(unpack);
    return r;
}

/* SQLite opens by name, so the file has one until SQLite has it open. */
static int open_named(const struct archive_new *file, const char *path,
                      const struct archive_layout *layout, struct record_reader **ret,
                      struct vt_error *err)
{
    int r = archive_new_name(file, path, err);

    if (r < 0)
        return r;
    r = record_open_read(path, ret, err);
    unlink(path);
    if (r == 0 && record_reader_version(*ret) != layout->contents.record_version) {
        *ret = record_reader_close(*ret);
        r = vt_error_refuse(err, "the record's version is not the one in the manifest");
    }
    return r;
}

/* Verifies all and unpacks; with ret the record is opened and path is its name for that long, else
 * it stays there. */
static int unpack(const char *archive, const struct archive_trust *trust, struct target *target,
                  struct archive_report *report, struct record_reader **ret, struct vt_error *err)
{
    struct archive_new file = ARCHIVE_NEW_INIT;
    struct archive_source source;
    struct archive_layout layout = {0};
    int r = archive_source_open(archive, &source, err);

    if (r < 0)
        return r;
    r = archive_source_verify(&source, trust, true, report, &layout, err);
    if (r == 0)
        r = archive_new_open(&file, target->path, err);
    if (r == 0) {
        target->fd = file.fd;
        r = unpack_record(&source, &layout, target, report, err);
    }
    if (r == 0)
        r = ret ? open_named(&file, target->path, &layout, ret, err)
                : archive_new_commit(&file, target->path, err);
    archive_new_dispose(&file);
    archive_layout_dispose(&layout);
    archive_source_close(&source);
    return r < 0 ? vt_error_wrap(err, "archive %s", archive) : 0;
}

int archive_open_record(const char *path, const struct archive_trust *trust,
                        struct archive_readers *readers, const char *folder,
                        struct archive_report *report, struct record_reader **ret,
                        struct vt_error *err)
{
    struct target target = {.readers = readers, .fd = -1};
    char name[ARCHIVE_PATH_MAX];
    uint32_t random = 0;

    if (!folder)
        folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/tmp";
    if (getrandom(&random, sizeof(random), 0) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "name a file in %s", folder);
    if ((size_t)snprintf(name, sizeof(name), "%s/vtile-record.%d.%08x", folder, (int)getpid(),
                         random) >= sizeof(name))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "%s: path too long", folder);
    target.path = name;
    return unpack(path, trust, &target, report, ret, err);
}

int archive_unpack_record(const char *path, const struct archive_trust *trust,
                          struct archive_readers *readers, const char *to,
                          struct archive_report *report, struct vt_error *err)
{
    struct target target = {.readers = readers, .path = to, .fd = -1};

    return unpack(path, trust, &target, report, NULL, err);
}
