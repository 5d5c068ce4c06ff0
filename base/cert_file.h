/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cert_file: keys and certificates on disk, for cert.c. Files of keys have mode 0600 and appear
 * whole.
 */
#ifndef VT_BASE_CERT_FILE_H
#define VT_BASE_CERT_FILE_H

#include "base/cert.h"

/* Key and certificate in one file. -ENOENT when it is not there; refused when others may read. */
int vt_cert_file_read_both(const char *path, struct vt_identity *ret, struct vt_error *err);
/* A new file; -EEXIST when there is one already, which stays as it is. */
int vt_cert_file_write_both(const char *path, const struct vt_identity *identity,
                            struct vt_error *err);
/* A file in PEM that somebody named, where it is a regular one. kind: of a refusal. */
int vt_cert_file_open(const char *path, enum vt_kind kind, BIO **ret, struct vt_error *err);
/* Fills *err from OpenSSL's error queue and empties it. Returns -EIO. */
int vt_cert_openssl_failed(struct vt_error *err, const char *what);

#endif
