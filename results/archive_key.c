/* SPDX-License-Identifier: Apache-2.0 */
#include "results/archive_key.h"

#include <errno.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cert_file.h"
#include "base/file.h"
#include "results/archive_cms.h"

#define SIGNER_FILE "archive.pem"
#define READER_FILE "reader.pem"
/* Trust is a pinned fingerprint, not a date: from before any run to "no well-defined expiration"
 * (RFC 5280, 4.1.2.5). A clock that is off thus spoils nothing. */
#define NOT_BEFORE "20000101000000Z"
#define NOT_AFTER "99991231235959Z"

/* A random number is the only name: an archive tells nothing about where it was made. */
static int name_cert(X509 *cert)
{
    uint8_t serial[8];
    char name[40] = "vtile installation ";
    BIGNUM *number;
    int ok;

    if (RAND_bytes(serial, sizeof(serial)) != 1)
        return 0;
    serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, of one length */
    vt_text_hex(serial, sizeof(serial), name + 19);
    number = BN_bin2bn(serial, sizeof(serial), NULL);
    ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) &&
         X509_NAME_add_entry_by_NID(X509_get_subject_name(cert), NID_commonName, MBSTRING_ASC,
                                    (const unsigned char *)name, -1, -1, 0) &&
         X509_set_issuer_name(cert, X509_get_subject_name(cert));
    BN_free(number);
    return ok;
}

/* So that stock tools take it for what it is. */
static int add_usage(X509 *cert, const char *text)
{
    X509_EXTENSION *usage = X509V3_EXT_conf_nid(NULL, NULL, NID_key_usage, text);
    int ok = usage && X509_add_ext(cert, usage, -1);

    X509_EXTENSION_free(usage);
    return ok;
}

static int make_identity(const char *usage, struct vt_identity *ret, struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity made = VT_IDENTITY_INIT;
    int r = vt_key_make(&made.key, err);

    if (r < 0)
        return r;
    made.cert = X509_new();
    if (!made.cert || !X509_set_version(made.cert, X509_VERSION_3) || !name_cert(made.cert) ||
        !ASN1_TIME_set_string_X509(X509_getm_notBefore(made.cert), NOT_BEFORE) ||
        !ASN1_TIME_set_string_X509(X509_getm_notAfter(made.cert), NOT_AFTER) ||
        !X509_set_pubkey(made.cert, made.key) || !add_usage(made.cert, usage) ||
        !X509_sign(made.cert, made.key, EVP_sha256()))
        return vt_cert_openssl_failed(err, "make a key for archives");
    *ret = made;
    made = (struct vt_identity)VT_IDENTITY_INIT;
    return 0;
}

static int make_file(const char *folder, const char *path, const char *usage, struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity made = VT_IDENTITY_INIT;
    int r = vt_file_make_folders(folder, 0700, VT_KIND_INFRA, err);

    if (r == 0)
        r = make_identity(usage, &made, err);
    if (r == 0)
        r = vt_cert_file_write_both(path, &made, err);
    return r == -EEXIST ? 0 : r; /* made by another process meanwhile: that one counts */
}

static int load(const char *folder, const char *file, const char *usage, bool create,
                struct archive_key **ret, struct vt_error *err)
{
    char path[1024];
    struct archive_key *key;
    int r;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, file) >= sizeof(path))
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "%s: path too long", folder);
    key = calloc(1, sizeof(*key));
    if (!key)
        return vt_error_no_memory(err, "load %s", path);
    r = vt_cert_file_read_both(path, &key->identity, err);
    if (r == -ENOENT && create) {
        vt_error_clear(err);
        r = make_file(folder, path, usage, err);
        if (r == 0)
            r = vt_cert_file_read_both(path, &key->identity, err);
    }
    if (r == 0)
        r = archive_cms_fingerprint(key->identity.cert, key->fingerprint, err);
    if (r < 0) {
        archive_key_free(key);
        return r;
    }
    *ret = key;
    return 0;
}

int archive_key_load(const char *folder, bool create, struct archive_key **ret,
                     struct vt_error *err)
{
    return load(folder, SIGNER_FILE, "critical,digitalSignature", create, ret, err);
}

int archive_key_load_reader(const char *folder, bool create, struct archive_key **ret,
                            struct vt_error *err)
{
    return load(folder, READER_FILE, "critical,keyAgreement", create, ret, err);
}

struct archive_key *archive_key_free(struct archive_key *key)
{
    if (key) {
        vt_identity_dispose(&key->identity);
        free(key);
    }
    return NULL;
}

const char *archive_key_fingerprint(const struct archive_key *key)
{
    return key->fingerprint;
}
