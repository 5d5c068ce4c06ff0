/* SPDX-License-Identifier: Apache-2.0 */
#include "results/archive_cms.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <string.h>

#include "base/cert_file.h"
#include "base/scope.h"
#include "base/scope_openssl.h"

/* DER of what never changes. */
static const uint8_t oid_signed_data[] = {0x06, 0x09, 0x2a, 0x86, 0x48, 0x86,
                                          0xf7, 0x0d, 0x01, 0x07, 0x02};
static const uint8_t oid_data[] = {0x06, 0x09, 0x2a, 0x86, 0x48, 0x86,
                                   0xf7, 0x0d, 0x01, 0x07, 0x01};
static const uint8_t alg_sha256[] = {0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48,
                                     0x01, 0x65, 0x03, 0x04, 0x02, 0x01};
static const uint8_t alg_ecdsa_sha256[] = {0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86,
                                           0x48, 0xce, 0x3d, 0x04, 0x03, 0x02};
static const uint8_t version_1[] = {0x02, 0x01, 0x01};

enum { TAG_OCTETS = 0x04, TAG_SEQUENCE = 0x30, TAG_SET = 0x31, TAG_0 = 0xa0 };

static int refuse(struct vt_error *err, const char *why)
{
    ERR_clear_error();
    return vt_error_refuse(err, "%s", why);
}

/* --- frame --- */

/* Tag and length of the shortest form; contents stay below 64 KiB. */
static void put_head(struct vt_buf *out, uint8_t tag, size_t len)
{
    uint8_t head[4] = {tag};
    size_t n = 2;

    if (len < 0x80) {
        head[1] = (uint8_t)len;
    } else if (len < 0x100) {
        head[1] = 0x81;
        head[n++] = (uint8_t)len;
    } else {
        head[1] = 0x82;
        head[n++] = (uint8_t)(len >> 8);
        head[n++] = (uint8_t)len;
    }
    vt_buf_add(out, head, n);
}

/* Puts tag and length before all that stands in out from start on. */
static void wrap(struct vt_buf *out, size_t start, uint8_t tag)
{
    VT_AUTO_BUF struct vt_buf inner = VT_BUF_INIT(ARCHIVE_CMS_MAX);

    if (out->failed)
        return;
    vt_buf_add(&inner, out->data + start, out->len - start);
    out->len = start;
    put_head(out, tag, inner.len);
    vt_buf_add(out, inner.data, inner.len);
    out->failed |= inner.failed;
}

static void put_signer(struct vt_buf *out, const uint8_t *issuer_serial, size_t issuer_serial_len,
                       const uint8_t *signature, size_t signature_len)
{
    size_t start = out->len;

    vt_buf_add(out, version_1, sizeof(version_1));
    put_head(out, TAG_SEQUENCE, issuer_serial_len);
    vt_buf_add(out, issuer_serial, issuer_serial_len);
    vt_buf_add(out, alg_sha256, sizeof(alg_sha256));
    vt_buf_add(out, alg_ecdsa_sha256, sizeof(alg_ecdsa_sha256));
    put_head(out, TAG_OCTETS, signature_len);
    vt_buf_add(out, signature, signature_len);
    wrap(out, start, TAG_SEQUENCE);
    wrap(out, start, TAG_SET);
}

/* ContentInfo { signedData, [0] SignedData { 1, { SHA-256 }, { data }, [0] { cert }, signer } } */
static void put_frame(struct vt_buf *out, const uint8_t *cert, size_t cert_len,
                      const uint8_t *issuer_serial, size_t issuer_serial_len,
                      const uint8_t *signature, size_t signature_len)
{
    vt_buf_add(out, oid_signed_data, sizeof(oid_signed_data));
    size_t start = out->len;
    vt_buf_add(out, version_1, sizeof(version_1));
    put_head(out, TAG_SET, sizeof(alg_sha256));
    vt_buf_add(out, alg_sha256, sizeof(alg_sha256));
    put_head(out, TAG_SEQUENCE, sizeof(oid_data));
    vt_buf_add(out, oid_data, sizeof(oid_data));
    put_head(out, TAG_0, cert_len);
    vt_buf_add(out, cert, cert_len);
    put_signer(out, issuer_serial, issuer_serial_len, signature, signature_len);
    wrap(out, start, TAG_SEQUENCE);
    wrap(out, start, TAG_0);
    wrap(out, 0, TAG_SEQUENCE);
}

/* DER of issuer and serial number, one after the other. */
static int put_issuer_serial(X509 *cert, struct vt_buf *out, struct vt_error *err)
{
    VT_AUTO_OPENSSL(bytes) unsigned char *issuer = NULL;
    VT_AUTO_OPENSSL(bytes) unsigned char *serial = NULL;
    int issuer_len = i2d_X509_NAME(X509_get_issuer_name(cert), &issuer);
    int serial_len = i2d_ASN1_INTEGER(X509_get_serialNumber(cert), &serial);

    if (issuer_len <= 0 || serial_len <= 0)
        return vt_cert_openssl_failed(err, "read the certificate");
    vt_buf_add(out, issuer, (size_t)issuer_len);
    vt_buf_add(out, serial, (size_t)serial_len);
    return vt_buf_check(out, "certificate", err);
}

static int build(X509 *cert, const uint8_t *signature, size_t signature_len, struct vt_buf *out,
                 struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf frame = VT_BUF_INIT(ARCHIVE_CMS_MAX);
    VT_AUTO_BUF struct vt_buf issuer_serial = VT_BUF_INIT(ARCHIVE_CMS_MAX);
    VT_AUTO_OPENSSL(bytes) unsigned char *der = NULL;
    int der_len = i2d_X509(cert, &der);
    int r;

    if (der_len <= 0)
        return vt_cert_openssl_failed(err, "read the certificate");
    r = put_issuer_serial(cert, &issuer_serial, err);
    if (r < 0)
        return r;
    put_frame(&frame, der, (size_t)der_len, (const uint8_t *)issuer_serial.data, issuer_serial.len,
              signature, signature_len);
    r = vt_buf_check(&frame, "signature", err);
    if (r == 0)
        vt_buf_add(out, frame.data, frame.len);
    return r < 0 ? r : vt_buf_check(out, "signature", err);
}

int archive_cms_fingerprint(X509 *cert, char fingerprint[ARCHIVE_FINGERPRINT_TEXT],
                            struct vt_error *err)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (!X509_digest(cert, EVP_sha256(), hash, &len) || len != ARCHIVE_FINGERPRINT_BYTES)
        return vt_cert_openssl_failed(err, "hash the certificate");
    vt_text_hex(hash, len, fingerprint);
    return 0;
}

/* --- signature --- */

/* s > (order - 1) / 2; the order is a constant of the curve. */
static bool is_high(const BIGNUM *s, BIGNUM **ret_order)
{
    /* SEC 2, 2.4.2 secp256r1: n */
    static const char order_hex[] =
        "FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551";
    VT_AUTO_OPENSSL(number) BIGNUM *half = BN_new();

    if (!half || !BN_hex2bn(ret_order, order_hex) || !BN_rshift1(half, *ret_order))
        return true;
    return BN_cmp(s, half) > 0;
}

/* Replaces s by order - s where it is the larger of the two. */
static int make_low(const uint8_t *der, size_t der_len, unsigned char **ret, size_t *ret_len,
                    struct vt_error *err)
{
    VT_AUTO_OPENSSL(signature) ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &der, (long)der_len);
    VT_AUTO_OPENSSL(number) BIGNUM *order = NULL;
    BIGNUM *r, *s;
    int len;

    if (!signature)
        return vt_cert_openssl_failed(err, "sign");
    if (is_high(ECDSA_SIG_get0_s(signature), &order)) {
        r = BN_dup(ECDSA_SIG_get0_r(signature));
        s = BN_new();
        if (!r || !s || !order || !BN_sub(s, order, ECDSA_SIG_get0_s(signature)) ||
            !ECDSA_SIG_set0(signature, r, s)) {
            BN_free(r);
            BN_free(s);
            return vt_cert_openssl_failed(err, "sign");
        }
    }
    len = i2d_ECDSA_SIG(signature, ret);
    if (len <= 0)
        return vt_cert_openssl_failed(err, "sign");
    *ret_len = (size_t)len;
    return 0;
}

int archive_cms_sign(EVP_PKEY *key, X509 *cert, const void *content, size_t len, struct vt_buf *out,
                     struct vt_error *err)
{
    VT_AUTO_OPENSSL(digest) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    VT_AUTO_OPENSSL(bytes) unsigned char *low = NULL;
    uint8_t der[128];
    size_t der_len = sizeof(der), low_len = 0;
    int r;

    if (!vt_key_is_p256(key))
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "the signing key is no P-256 key");
    if (!ctx || EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) != 1 ||
        EVP_DigestSign(ctx, der, &der_len, content, len) != 1)
        return vt_cert_openssl_failed(err, "sign");
    r = make_low(der, der_len, &low, &low_len, err);
    if (r == 0)
        r = build(cert, low, low_len, out, err);
    return r;
}

/* --- verification --- */

struct der {
    const uint8_t *at, *end;
};

/* Steps over one element of that tag: *ret is its contents. Lengths of other than the shortest
 * form need no refusal here: the rebuilt frame would differ. */
static bool take(struct der *in, uint8_t tag, struct der *ret)
{
    size_t left = (size_t)(in->end - in->at), len, n = 2;

    if (left < 2 || in->at[0] != tag)
        return false;
    len = in->at[1];
    if (len & 0x80) {
        size_t bytes = len & 0x7f;
        if (bytes < 1 || bytes > 2 || left < 2 + bytes)
            return false;
        len = 0;
        for (size_t i = 0; i < bytes; i++)
            len = len << 8 | in->at[n++];
    }
    if (len > left - n)
        return false;
    ret->at = in->at + n;
    ret->end = ret->at + len;
    in->at = ret->end;
    return true;
}

/* Finds the two things that the frame holds. */
static bool find_parts(const uint8_t *cms, size_t cms_len, struct der *ret_cert,
                       struct der *ret_signature)
{
    struct der in = {cms, cms + cms_len}, content, data, skip, signers, signer;

    return take(&in, TAG_SEQUENCE, &content) && take(&content, 0x06, &skip) &&
           take(&content, TAG_0, &data) && take(&data, TAG_SEQUENCE, &content) &&
           take(&content, 0x02, &skip) && take(&content, TAG_SET, &skip) &&
           take(&content, TAG_SEQUENCE, &skip) && take(&content, TAG_0, ret_cert) &&
           take(&content, TAG_SET, &signers) && take(&signers, TAG_SEQUENCE, &signer) &&
           take(&signer, 0x02, &skip) && take(&signer, TAG_SEQUENCE, &skip) &&
           take(&signer, TAG_SEQUENCE, &skip) && take(&signer, TAG_SEQUENCE, &skip) &&
           take(&signer, TAG_OCTETS, ret_signature);
}

static int check_signature(X509 *cert, const struct der *der, const void *content, size_t len,
                           struct vt_error *err)
{
    VT_AUTO_OPENSSL(digest) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    VT_AUTO_OPENSSL(signature) ECDSA_SIG *signature = NULL;
    VT_AUTO_OPENSSL(number) BIGNUM *order = NULL;
    VT_AUTO_OPENSSL(bytes) unsigned char *again = NULL;
    const uint8_t *at = der->at;
    size_t der_len = (size_t)(der->end - der->at);
    EVP_PKEY *key = X509_get0_pubkey(cert);
    int again_len;

    if (!ctx)
        return vt_cert_openssl_failed(err, "verify");
    if (!vt_key_is_p256(key))
        return refuse(err, "the certificate's key is no P-256 key");
    signature = d2i_ECDSA_SIG(NULL, &at, (long)der_len);
    again_len = signature ? i2d_ECDSA_SIG(signature, &again) : -1;
    if (again_len < 0 || at != der->end || (size_t)again_len != der_len ||
        memcmp(again, der->at, der_len) != 0)
        return refuse(err, "the signature is not in DER");
    if (is_high(ECDSA_SIG_get0_s(signature), &order))
        return refuse(err, "the signature is the other one of two that fit");
    if (EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) != 1 ||
        EVP_DigestVerify(ctx, der->at, der_len, content, len) != 1)
        return refuse(err, "the signature does not fit SHA256SUMS");
    return 0;
}

int archive_cms_verify(const uint8_t *cms, size_t cms_len, const void *content, size_t len,
                       char fingerprint[ARCHIVE_FINGERPRINT_TEXT], struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf right = VT_BUF_INIT(ARCHIVE_CMS_MAX);
    VT_AUTO_OPENSSL(cert) X509 *cert = NULL;
    struct der cert_der, signature;
    const uint8_t *at;
    int r;

    if (cms_len > ARCHIVE_CMS_MAX || !find_parts(cms, cms_len, &cert_der, &signature))
        return refuse(err, "not a signature of the form that archives have");
    at = cert_der.at;
    cert = d2i_X509(NULL, &at, cert_der.end - cert_der.at);
    if (!cert || at != cert_der.end)
        return refuse(err, "holds no certificate, or more than one");
    r = archive_cms_fingerprint(cert, fingerprint, err);
    if (r == 0)
        r = build(cert, signature.at, (size_t)(signature.end - signature.at), &right, err);
    if (r < 0)
        return r;
    if (right.len != cms_len || memcmp(right.data, cms, cms_len) != 0)
        return refuse(err, "not a signature of the form that archives have");
    return check_signature(cert, &signature, content, len, err);
}
