/* SPDX-License-Identifier: Apache-2.0 */
/* Who may read an archive's record, and the keys that open it. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "base/cert_file.h"
#include "base/scope.h"
#include "base/scope_openssl.h"
#include "results/archive_cms.h"
#include "results/archive_envelope.h"
#include "results/archive_key.h"

/* NIST SP 800-57 part 1, table 2: 112 bits of security and more. */
#define RSA_BITS_MIN 2048
#define EC_BITS_MIN 256

int archive_recipients_new(struct archive_recipients **ret, struct vt_error *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : vt_error_no_memory(err, "note recipients");
}

struct archive_recipients *archive_recipients_free(struct archive_recipients *recipients)
{
    for (size_t i = 0; recipients && i < recipients->n; i++)
        X509_free(recipients->certs[i]);
    free(recipients);
    return NULL;
}

static int check_key(X509 *cert, struct vt_error *err)
{
    EVP_PKEY *key = X509_get0_pubkey(cert);
    int bits = key ? EVP_PKEY_get_bits(key) : 0;

    if (key && EVP_PKEY_is_a(key, "RSA") && bits >= RSA_BITS_MIN)
        return 0;
    if (key && EVP_PKEY_is_a(key, "EC") && bits >= EC_BITS_MIN)
        return 0;
    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL,
                        "its key is neither RSA of %d bits nor on an elliptic curve of %d bits, or "
                        "more",
                        RSA_BITS_MIN, EC_BITS_MIN);
}

/* Takes over nothing. Who stands there already is not added again. */
static int add(struct archive_recipients *recipients, X509 *cert, struct vt_error *err)
{
    char fingerprint[ARCHIVE_FINGERPRINT_TEXT];
    int r = check_key(cert, err);

    if (r == 0)
        r = archive_cms_fingerprint(cert, fingerprint, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < recipients->n; i++) {
        if (!strcmp(recipients->fingerprints[i], fingerprint))
            return 0;
    }
    if (recipients->n == ARCHIVE_RECIPIENTS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "more than %d recipients",
                            ARCHIVE_RECIPIENTS_MAX);
    X509_up_ref(cert);
    recipients->certs[recipients->n] = cert;
    memcpy(recipients->fingerprints[recipients->n++], fingerprint, sizeof(fingerprint));
    return 0;
}

int archive_recipients_add(struct archive_recipients *recipients, const char *path,
                           struct vt_error *err)
{
    VT_AUTO_OPENSSL(bio) BIO *in = NULL;
    VT_AUTO_OPENSSL(cert) X509 *cert = NULL;
    int r = vt_cert_file_open(path, VT_KIND_CONFIG, &in, err);

    if (r < 0)
        return vt_error_wrap(err, "recipient");
    cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
    ERR_clear_error();
    r = cert ? add(recipients, cert, err)
             : vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "holds no certificate in PEM");
    return r < 0 ? vt_error_wrap(err, "recipient %s", path) : 0;
}

int archive_recipients_add_key(struct archive_recipients *recipients, const struct archive_key *own,
                               struct vt_error *err)
{
    return add(recipients, own->identity.cert, err);
}

size_t archive_recipients_count(const struct archive_recipients *recipients)
{
    return recipients ? recipients->n : 0;
}

/* --- readers --- */

int archive_readers_new(struct archive_readers **ret, struct vt_error *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : vt_error_no_memory(err, "note keys");
}

struct archive_readers *archive_readers_free(struct archive_readers *readers)
{
    for (size_t i = 0; readers && i < readers->n; i++)
        EVP_PKEY_free(readers->keys[i]);
    free(readers);
    return NULL;
}

static int add_reader(struct archive_readers *readers, EVP_PKEY *key, struct vt_error *err)
{
    if (readers->n == ARCHIVE_READERS_MAX)
        return vt_error_set(err, VT_KIND_USAGE, -E2BIG, "more than %d keys", ARCHIVE_READERS_MAX);
    EVP_PKEY_up_ref(key);
    readers->keys[readers->n++] = key;
    return 0;
}

int archive_readers_add(struct archive_readers *readers, const char *path, struct vt_error *err)
{
    char no_password[] = ""; /* none is asked for */
    VT_AUTO_OPENSSL(bio) BIO *in = NULL;
    VT_AUTO_OPENSSL(key) EVP_PKEY *key = NULL;
    int r = vt_cert_file_open(path, VT_KIND_CONFIG, &in, err);

    if (r < 0)
        return vt_error_wrap(err, "key");
    key = PEM_read_bio_PrivateKey(in, NULL, NULL, no_password);
    ERR_clear_error();
    r = key ? add_reader(readers, key, err)
            : vt_error_set(err, VT_KIND_CONFIG, -EBADMSG,
                           "holds no private key in PEM, or one with a passphrase");
    return r < 0 ? vt_error_wrap(err, "key %s", path) : 0;
}

int archive_readers_add_key(struct archive_readers *readers, const struct archive_key *own,
                            struct vt_error *err)
{
    return add_reader(readers, own->identity.key, err);
}
