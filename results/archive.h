/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive: a sealed record: plain ustar with SHA256SUMS, SHA256SUMS.p7s, manifest.json and
 * the record as zstd parts record.sqlite.zst.000, .001, ... docs/archive.md has the format byte by
 * byte and how to check it with tar, sha256sum, zstd and openssl alone.
 *
 * There is one way to write each archive: verification recomputes every header, padding, the
 * signature's DER frame and the end, and refuses all else, naming the member.
 */
#ifndef VTILE_RESULTS_ARCHIVE_H
#define VTILE_RESULTS_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "results/record.h"

#define ARCHIVE_VERSION 1
#define ARCHIVE_SUFFIX ".vtar"
#define ARCHIVE_PARTS_MAX 1000
#define ARCHIVE_PART_BYTES_MAX (UINT64_C(32) << 20)
#define ARCHIVE_FINGERPRINT_BYTES 32 /* SHA-256 of the certificate's DER */
#define ARCHIVE_FINGERPRINT_TEXT (2 * ARCHIVE_FINGERPRINT_BYTES + 1)
#define ARCHIVE_MANIFEST_MAX (UINT64_C(1) << 20)
#define ARCHIVE_RECIPIENTS_MAX 16
#define ARCHIVE_READERS_MAX 16

/* The installation's signing key. */
struct archive_key;
/* From <folder>/archive.pem (0600 in a folder of 0700); made when absent and create is set, else
 * -ENOENT. */
int archive_key_load(const char *folder, bool create, struct archive_key **ret,
                     struct vt_error *err);
/* The installation's own key for reading what was encrypted, <folder>/reader.pem; the same rules.
 * Not the one that signs: a key has one use. */
int archive_key_load_reader(const char *folder, bool create, struct archive_key **ret,
                            struct vt_error *err);
struct archive_key *archive_key_free(struct archive_key *key);      /* NULL ok; returns NULL */
const char *archive_key_fingerprint(const struct archive_key *key); /* lower-case hex */

/* Certificates of those for whom the record is encrypted (PEM files). */
struct archive_recipients;
int archive_recipients_new(struct archive_recipients **ret, struct vt_error *err);
int archive_recipients_add(struct archive_recipients *recipients, const char *path,
                           struct vt_error *err);
int archive_recipients_add_key(struct archive_recipients *recipients, const struct archive_key *own,
                               struct vt_error *err);
size_t archive_recipients_count(const struct archive_recipients *recipients); /* NULL: 0 */
struct archive_recipients *archive_recipients_free(struct archive_recipients *recipients);

/* Private keys that may open it (PEM files without a passphrase). */
struct archive_readers;
int archive_readers_new(struct archive_readers **ret, struct vt_error *err);
int archive_readers_add(struct archive_readers *readers, const char *path, struct vt_error *err);
int archive_readers_add_key(struct archive_readers *readers, const struct archive_key *own,
                            struct vt_error *err);
struct archive_readers *archive_readers_free(struct archive_readers *readers);

/* Computes the result of the closed record at record_path, and writes the archive to path: a
 * temporary file beside it, synced, renamed. path must not exist. Under 40 MiB of memory whatever
 * the record's size. recipients: NULL or none: the record can be read by everybody. */
int archive_seal(const char *record_path, const char *path, const struct archive_key *key,
                 const struct archive_recipients *recipients, struct vt_error *err);

/* Fingerprints whose signatures are believed. */
struct archive_trust {
    const char *const *fingerprints; /* hex of either case, colons allowed */
    size_t n;
};
struct archive_report {
    char part[48]; /* where it was refused: "manifest.json", "end of archive"; "" when good */
    char fingerprint[ARCHIVE_FINGERPRINT_TEXT]; /* "" when not reached */
    unsigned nparts, nrecipients;               /* nrecipients 0: not encrypted */
    uint64_t record_bytes;
    char run[64];
    struct vt_buf manifest; /* JSON text */
};
void archive_report_dispose(struct archive_report *report);

/* All of it: structure, signature, trust, every part's hash. -EKEYREJECTED when the signature is
 * good but its signer not trusted: what follows is then not read. report (zeroed by the caller) is
 * filled as far as it went, also on error. */
int archive_verify(const char *path, const struct archive_trust *trust,
                   struct archive_report *report, struct vt_error *err);
/* The same without a file, for who turns each bit of an archive or makes up millions of them
 * (tests, fuzzers): a file for each takes eight times as long. */
int archive_verify_memory(const void *data, size_t len, const struct archive_trust *trust,
                          struct archive_report *report, struct vt_error *err);
/* Structure up to and with the manifest, signature and trust; parts are not read: for lists. */
int archive_verify_front(const char *path, const struct archive_trust *trust,
                         struct archive_report *report, struct vt_error *err);
/* Verifies all, then unpacks the record into an unlinked file in folder (NULL: $TMPDIR or /tmp)
 * and opens it. readers: NULL where there are none; -EKEYREJECTED when the record is encrypted and
 * none of them opens it. Encrypted, it takes up to 64 MiB of memory. */
int archive_open_record(const char *path, const struct archive_trust *trust,
                        struct archive_readers *readers, const char *folder,
                        struct archive_report *report, struct record_reader **ret,
                        struct vt_error *err);
/* The same into a new file to, which nobody else may read. */
int archive_unpack_record(const char *path, const struct archive_trust *trust,
                          struct archive_readers *readers, const char *to,
                          struct archive_report *report, struct vt_error *err);

#endif
