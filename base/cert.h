/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cert: who is who. An installation has a CA of its own (ECDSA P-256); controller, agents and the
 * servers in guests have certificates of it, good for one run. Names stand in the subject
 * alternative names alone, and the CA takes them from its caller, never from a request.
 * All of it is TLS 1.3.
 */
#ifndef VT_BASE_CERT_H
#define VT_BASE_CERT_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

#define VT_CERT_PEM_MAX 16384U
#define VT_CERT_NAMES_MAX 4
/* Clocks of guests may be this far behind or ahead of ours. */
#define VT_CERT_CLOCK_MARGIN_S (24 * 3600)
#define VT_CERT_LIFETIME_MAX_S (31 * 24 * 3600)

struct vt_identity {
    EVP_PKEY *key;
    X509 *cert;
};
#define VT_IDENTITY_INIT \
    {                    \
        NULL, NULL       \
    }
void vt_identity_dispose(struct vt_identity *identity);
#define VT_AUTO_IDENTITY __attribute__((cleanup(vt_identity_dispose)))

/* What a certificate says. Names and addresses are checked for their form (-EINVAL). */
struct vt_cert_wanted {
    const char *names[VT_CERT_NAMES_MAX]; /* host or agent names; the first is the subject's CN */
    const char *address;                  /* IP address text, NULL: none */
    int64_t not_before_s, not_after_s;    /* since 1970; vt_cert_window fills both */
    bool server, client;                  /* what it may be used for */
};
/* From now, good for a run of that length, with a margin for clocks on both sides. */
void vt_cert_window(struct vt_cert_wanted *wanted, int64_t run_ns);

/* --- the CA: one file, ca.pem (key and certificate, mode 0600), in a folder given --- */
struct vt_ca;
/* Makes it on first use: whole or not at all, and once, whoever else does the same. A file that
 * others may read is refused. */
int vt_ca_open(const char *dir, struct vt_ca **ret, struct vt_error *err);
struct vt_ca *vt_ca_free(struct vt_ca *ca); /* NULL ok; returns NULL */
X509 *vt_ca_cert(const struct vt_ca *ca);   /* borrowed */

/* For a request in PEM, signed by its own P-256 key; nothing but that key is taken from it.
 * Appends the certificate as PEM. */
int vt_ca_sign_request(const struct vt_ca *ca, const char *csr_pem, size_t len,
                       const struct vt_cert_wanted *wanted, struct vt_buf *out,
                       struct vt_error *err);
/* A new key and its certificate. */
int vt_ca_make_identity(const struct vt_ca *ca, const struct vt_cert_wanted *wanted,
                        struct vt_identity *ret, struct vt_error *err);

/* The one curve of ours: no odd or slow key comes in. NULL is none. */
bool vt_key_is_p256(EVP_PKEY *key);

/* --- without a CA --- */
int vt_key_make(EVP_PKEY **ret, struct vt_error *err);
int vt_cert_self_signed(const struct vt_cert_wanted *wanted, struct vt_identity *ret,
                        struct vt_error *err);
int vt_request_write(EVP_PKEY *key, const char *name, struct vt_buf *out, struct vt_error *err);
int vt_cert_write(X509 *cert, struct vt_buf *out, struct vt_error *err); /* appends PEM */
int vt_cert_read(const char *pem, size_t len, X509 **ret, struct vt_error *err);
/* True where cert carries that name as a DNS name, without wildcards. */
bool vt_cert_has_name(X509 *cert, const char *name);
/* Key file mode 0600; each file appears whole, by rename. */
int vt_identity_save(const struct vt_identity *identity, const char *cert_file,
                     const char *key_file, struct vt_error *err);
/* -ENOENT when there is none; a key that does not fit its certificate is -EBADMSG. */
int vt_identity_load(const char *cert_file, const char *key_file, struct vt_identity *ret,
                     struct vt_error *err);

/* --- TLS contexts, TLS 1.3 alone; SSL_CTX_free by the caller --- */
/* client_ca: certificates of clients are asked for and must be of that CA, but a client may come
 * without one (to enrol); NULL: not asked for. */
int vt_tls_server_ctx(const struct vt_identity *identity, X509 *client_ca, SSL_CTX **ret,
                      struct vt_error *err);
/* Trusts ca alone. identity NULL: comes without a certificate. */
int vt_tls_client_ctx(X509 *ca, const struct vt_identity *identity, SSL_CTX **ret,
                      struct vt_error *err);

#endif
