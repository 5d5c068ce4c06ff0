/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_manifest: the two texts that say what an archive holds. SHA256SUMS has one line a
 * member, "<64 hex>  <name>", in the order of the archive: manifest.json, then the parts. The
 * manifest is one line of JSON with sizes, the record's own size and hash, and the result.
 */
#ifndef VTILE_RESULTS_ARCHIVE_MANIFEST_H
#define VTILE_RESULTS_ARCHIVE_MANIFEST_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "results/archive.h"

#define ARCHIVE_SUMS_NAME "SHA256SUMS"
#define ARCHIVE_CMS_NAME "SHA256SUMS.p7s"
#define ARCHIVE_MANIFEST_NAME "manifest.json"
#define ARCHIVE_PART_NAME "record.sqlite.zst." /* and three digits */
#define ARCHIVE_PART_SEALED ".p7m"             /* behind them, where parts are encrypted */
#define ARCHIVE_HASH_BYTES 32
#define ARCHIVE_SUMS_MAX (UINT64_C(100) * (ARCHIVE_PARTS_MAX + 1))

/* Every part but the last unpacks to this many bytes. zstd adds at most 1/256 and some hundred
 * bytes to what it cannot compress (ZSTD_COMPRESSBOUND), so a part stays below its maximum. */
#define ARCHIVE_PART_RECORD_BYTES (UINT64_C(31) << 20)
/* Of encrypted ones, since OpenSSL reads a part whole and takes 4.4 times its size for it. */
#define ARCHIVE_PART_SEALED_BYTES (UINT64_C(8) << 20)
/* What encryption adds to zstd's: 0.1 % and some hundred bytes a recipient. */
#define ARCHIVE_ENVELOPE_BYTES_MAX (UINT64_C(1) << 20)

struct archive_part {
    uint8_t hash[ARCHIVE_HASH_BYTES];
    uint64_t bytes;
    uint64_t record_bytes; /* unpacked */
};
struct archive_contents {
    char run[64];
    uint8_t manifest_hash[ARCHIVE_HASH_BYTES];
    uint8_t record_hash[ARCHIVE_HASH_BYTES];
    int record_version;
    uint64_t record_bytes;
    struct archive_part *parts;
    size_t nparts;
    bool sealed; /* parts are encrypted, to these certificates */
    char recipients[ARCHIVE_RECIPIENTS_MAX][ARCHIVE_FINGERPRINT_TEXT];
    size_t nrecipients;
};
void archive_contents_dispose(struct archive_contents *contents);

uint64_t archive_part_bytes(bool sealed); /* that a part unpacks to, the last one apart */
void archive_part_name(size_t index, bool sealed, char name[32]);

/* result: JSON object without newline, to stand in the manifest as it is. */
void archive_manifest_write(const struct archive_contents *contents, const char *result,
                            struct vt_buf *out);
void archive_sums_write(const struct archive_contents *contents, struct vt_buf *out);

/* Fills hashes, nparts and sealed; parts is allocated. Only what archive_sums_write writes is
 * accepted. */
int archive_sums_read(const char *text, size_t len, struct archive_contents *ret,
                      struct vt_error *err);
/* Adds sizes to contents that sums_read has filled; both must agree. *ret_json (may be NULL) is
 * the caller's. */
int archive_manifest_read(const char *text, size_t len, struct archive_contents *contents,
                          json_t **ret_json, struct vt_error *err);

#endif
