/* SPDX-License-Identifier: Apache-2.0 */
#include "results/archive_envelope.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/cms.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cert_file.h"
#include "base/scope.h"
#include "base/scope_openssl.h"
#include "results/archive_file.h"

struct archive_envelope {
    struct archive_envelope_sink sink;
    CMS_ContentInfo *cms;
    BIO *sealed; /* bytes that wait for the sink */
    BIO *chain;  /* where plain bytes go in; ends in sealed */
};

/* --- writing --- */

static int tune_rsa(EVP_PKEY_CTX *ctx)
{
    return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) > 0 &&
           EVP_PKEY_CTX_set_rsa_oaep_md(ctx, EVP_sha256()) > 0 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, EVP_sha256()) > 0;
}

static int add_recipient(CMS_ContentInfo *cms, X509 *cert)
{
    CMS_RecipientInfo *info = CMS_add1_recipient_cert(cms, cert, CMS_KEY_PARAM);
    EVP_PKEY_CTX *ctx = info ? CMS_RecipientInfo_get0_pkey_ctx(info) : NULL;

    if (!ctx)
        return 0;
    if (CMS_RecipientInfo_type(info) == CMS_RECIPINFO_TRANS)
        return tune_rsa(ctx);
    return EVP_PKEY_CTX_set_ecdh_kdf_md(ctx, EVP_sha256()) > 0;
}

int archive_envelope_new(const struct archive_recipients *recipients,
                         const struct archive_envelope_sink *sink, struct archive_envelope **ret,
                         struct vt_error *err)
{
    struct archive_envelope *envelope = calloc(1, sizeof(*envelope));
    int ok;

    if (!envelope)
        return vt_error_no_memory(err, "encrypt a part");
    envelope->sink = *sink;
    envelope->cms = CMS_AuthEnvelopedData_create(EVP_aes_256_gcm());
    envelope->sealed = BIO_new(BIO_s_mem());
    ok = envelope->cms && envelope->sealed && CMS_set_detached(envelope->cms, 0);
    for (size_t i = 0; ok && i < recipients->n; i++)
        ok = add_recipient(envelope->cms, recipients->certs[i]);
    if (ok)
        envelope->chain = BIO_new_CMS(envelope->sealed, envelope->cms);
    if (!envelope->chain) {
        archive_envelope_free(envelope);
        return vt_cert_openssl_failed(err, "encrypt a part");
    }
    *ret = envelope;
    return 0;
}

static int pass_on(struct archive_envelope *envelope, struct vt_error *err)
{
    char *data;
    long len = BIO_get_mem_data(envelope->sealed, &data);
    int r = len > 0 ? envelope->sink.write(envelope->sink.ctx, data, (size_t)len, err) : 0;

    (void)BIO_reset(envelope->sealed);
    return r;
}

int archive_envelope_write(struct archive_envelope *envelope, const void *data, size_t len,
                           struct vt_error *err)
{
    size_t done = 0;

    if (len && (BIO_write_ex(envelope->chain, data, len, &done) != 1 || done != len))
        return vt_cert_openssl_failed(err, "encrypt a part");
    return pass_on(envelope, err);
}

int archive_envelope_end(struct archive_envelope *envelope, struct vt_error *err)
{
    if (BIO_flush(envelope->chain) != 1)
        return vt_cert_openssl_failed(err, "encrypt a part");
    return pass_on(envelope, err);
}

struct archive_envelope *archive_envelope_free(struct archive_envelope *envelope)
{
    if (!envelope)
        return NULL;
    while (envelope->chain && envelope->chain != envelope->sealed) {
        BIO *next = BIO_pop(envelope->chain);
        BIO_free(envelope->chain);
        envelope->chain = next;
    }
    BIO_free(envelope->sealed);
    CMS_ContentInfo_free(envelope->cms);
    free(envelope);
    ERR_clear_error();
    return NULL;
}

/* --- reading --- */

static CMS_ContentInfo *parse(const uint8_t *data, size_t len)
{
    const uint8_t *at = data;
    CMS_ContentInfo *cms = d2i_CMS_ContentInfo(NULL, &at, (long)len);

    if (cms && at == data + len &&
        OBJ_obj2nid(CMS_get0_type(cms)) == NID_id_smime_ct_authEnvelopedData)
        return cms;
    CMS_ContentInfo_free(cms);
    return NULL;
}

static int put(BIO *plain, int out, struct vt_error *err)
{
    char *data;
    long len = BIO_get_mem_data(plain, &data);

    if (ftruncate(out, 0) < 0 || lseek(out, 0, SEEK_SET) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "decrypt a part");
    return len > 0 ? archive_file_write(out, data, (size_t)len, err) : 0;
}

/* 1: opened and found whole; 0: that key does not open it. Nothing is written before the cipher's
 * tag was found right, and OpenSSL does not write: it cannot tell a full disk from a wrong key. */
static int try_key(const uint8_t *data, size_t len, EVP_PKEY *key, int out, struct vt_error *err)
{
    CMS_ContentInfo *cms = parse(data, len);
    VT_AUTO_OPENSSL(bio) BIO *to = NULL;
    int opened = 0, r;

    if (!cms) {
        ERR_clear_error();
        return vt_error_refuse(err, "is no CMS AuthEnvelopedData");
    }
    to = BIO_new(BIO_s_mem());
    if (to)
        opened = CMS_decrypt(cms, key, NULL, NULL, to, CMS_BINARY) == 1;
    CMS_ContentInfo_free(cms);
    ERR_clear_error();
    if (!to)
        return vt_error_no_memory(err, "decrypt a part");
    r = opened ? put(to, out, err) : 0;
    return r < 0 ? r : opened;
}

static int try_keys(const uint8_t *data, size_t len, struct archive_readers *readers, int out,
                    struct vt_error *err)
{
    for (size_t i = 0; readers && i < readers->n; i++) {
        size_t index = (readers->last + i) % readers->n;
        int r = try_key(data, len, readers->keys[index], out, err);

        if (r < 0)
            return r;
        if (r == 1) {
            readers->last = index;
            return 0;
        }
    }
    return vt_error_set(err, VT_KIND_REFUSED, -EKEYREJECTED,
                        "is encrypted, and no key here opens it; `--key KEY.pem` gives one of a "
                        "recipient's");
}

int archive_envelope_open(const struct archive_source *source, uint64_t offset,
                          const struct archive_part *part, struct archive_readers *readers, int out,
                          struct vt_error *err)
{
    VT_AUTO_FREE uint8_t *data = malloc((size_t)part->bytes + 1);
    uint8_t hash[EVP_MAX_MD_SIZE];
    int r;

    if (!data)
        return vt_error_no_memory(err, "decrypt a part");
    r = archive_source_read(source, offset, data, (size_t)part->bytes, err);
    if (r < 0)
        return r;
    /* Nobody's bytes but the signer's are parsed: the file may have changed since it was verified.
     */
    if (EVP_Digest(data, (size_t)part->bytes, hash, NULL, EVP_sha256(), NULL) != 1 ||
        memcmp(hash, part->hash, ARCHIVE_HASH_BYTES) != 0)
        return vt_error_refuse(err, "changed while it was read");
    return try_keys(data, (size_t)part->bytes, readers, out, err);
}
