/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_envelope: a part of an archive for named readers alone: CMS AuthEnvelopedData (RFC 5083)
 * with AES-256-GCM (RFC 5084), its key sealed to each recipient: RSA by OAEP with SHA-256 (RFC
 * 3560), elliptic curves by ephemeral Diffie-Hellman with SHA-256 (RFC 5753). Written as it comes,
 * in BER with indefinite lengths; read whole, which is why such parts are small.
 *
 * All parsing is OpenSSL's, and only of bytes whose hash a trusted signature covers.
 */
#ifndef VTILE_RESULTS_ARCHIVE_ENVELOPE_H
#define VTILE_RESULTS_ARCHIVE_ENVELOPE_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "results/archive.h"
#include "results/archive_source.h"

struct archive_recipients {
    X509 *certs[ARCHIVE_RECIPIENTS_MAX];
    char fingerprints[ARCHIVE_RECIPIENTS_MAX][ARCHIVE_FINGERPRINT_TEXT];
    size_t n;
};
struct archive_readers {
    EVP_PKEY *keys[ARCHIVE_READERS_MAX];
    size_t n;
    size_t last; /* the one that opened the part before */
};

/* Where sealed bytes go. */
struct archive_envelope_sink {
    int (*write)(void *ctx, const void *data, size_t len, struct vt_error *err);
    void *ctx;
};
/* One part: new -> write* -> end; free also after an error. */
struct archive_envelope;
int archive_envelope_new(const struct archive_recipients *recipients,
                         const struct archive_envelope_sink *sink, struct archive_envelope **ret,
                         struct vt_error *err);
int archive_envelope_write(struct archive_envelope *envelope, const void *data, size_t len,
                           struct vt_error *err);
int archive_envelope_end(struct archive_envelope *envelope, struct vt_error *err);
struct archive_envelope *archive_envelope_free(struct archive_envelope *envelope);

/* The encrypted part that stands at offset, opened with whichever of the keys fits, into out
 * (emptied first): all of it or nothing. It must have the hash that was verified. readers may be
 * NULL. -EKEYREJECTED: no key fits. */
int archive_envelope_open(const struct archive_source *source, uint64_t offset,
                          const struct archive_part *part, struct archive_readers *readers, int out,
                          struct vt_error *err);

#endif
