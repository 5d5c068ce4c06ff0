/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_cms: a detached CMS signature (RFC 5652) in the one form that archives have: DER,
 * SignedData version 1, SHA-256 without parameters, no content, one certificate, one signer named
 * by issuer and serial number, no attributes, ecdsa-with-SHA256 (RFC 5754) by a P-256 key, s in the
 * lower half of the group's order (else a second signature could be made of a first without the
 * key). Everything but certificate and signature is a frame that verification rebuilds and
 * compares, so no byte of it can be otherwise.
 */
#ifndef VTILE_RESULTS_ARCHIVE_CMS_H
#define VTILE_RESULTS_ARCHIVE_CMS_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "results/archive.h"

#define ARCHIVE_CMS_MAX 8192

/* Appends the signature of content to out. */
int archive_cms_sign(EVP_PKEY *key, X509 *cert, const void *content, size_t len, struct vt_buf *out,
                     struct vt_error *err);

/* SHA-256 of the certificate's DER, as lower-case hex. */
int archive_cms_fingerprint(X509 *cert, char fingerprint[ARCHIVE_FINGERPRINT_TEXT],
                            struct vt_error *err);

/* Form first, then fingerprint (filled as soon as there is a certificate), then the signature.
 * Whether the signer is to be believed is the caller's business. */
int archive_cms_verify(const uint8_t *cms, size_t cms_len, const void *content, size_t len,
                       char fingerprint[ARCHIVE_FINGERPRINT_TEXT], struct vt_error *err);

#endif
