/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope_openssl: objects of OpenSSL that are freed when their scope ends, for files that work with
 * keys and certificates.
 */
#ifndef VT_BASE_SCOPE_OPENSSL_H
#define VT_BASE_SCOPE_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

/* NOLINTBEGIN(bugprone-macro-parentheses): type stands where a type must */
#define VT_SCOPE_OPENSSL(name, type)                       \
    static inline void vt_scope_free_##name(type **object) \
    {                                                      \
        type##_free(*object);                              \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
VT_SCOPE_OPENSSL(bio, BIO)
VT_SCOPE_OPENSSL(key, EVP_PKEY)
VT_SCOPE_OPENSSL(cert, X509)
VT_SCOPE_OPENSSL(request, X509_REQ)
VT_SCOPE_OPENSSL(digest, EVP_MD_CTX)
VT_SCOPE_OPENSSL(signature, ECDSA_SIG)
VT_SCOPE_OPENSSL(tls, SSL_CTX)
#undef VT_SCOPE_OPENSSL

static inline void vt_scope_free_number(BIGNUM **number)
{
    BN_free(*number);
}
static inline void vt_scope_free_bytes(unsigned char **bytes)
{
    OPENSSL_free(*bytes);
}

#define VT_AUTO_OPENSSL(name) __attribute__((cleanup(vt_scope_free_##name)))

#endif
