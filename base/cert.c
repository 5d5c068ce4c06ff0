/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cert.h"

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/cert_file.h"
#include "base/clock.h"
#include "base/scope.h"
#include "base/scope_openssl.h"

#define CA_LIFETIME_S (INT64_C(3650) * 24 * 3600)
#define SERIAL_BYTES 16 /* RFC 5280, 4.1.2.2 allows 20 */
#define NAME_SIZE 64    /* with NUL: 63 are a label of DNS */

struct vt_ca {
    struct vt_identity identity;
};

int vt_cert_openssl_failed(struct vt_error *err, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    vt_error_set(err, VT_KIND_INFRA, -EIO, "%s: %s", what, reason ? reason : "OpenSSL failed");
    ERR_clear_error();
    return -EIO;
}

void vt_identity_dispose(struct vt_identity *identity)
{
    EVP_PKEY_free(identity->key);
    X509_free(identity->cert);
    identity->key = NULL;
    identity->cert = NULL;
}

void vt_cert_window(struct vt_cert_wanted *wanted, int64_t run_ns)
{
    int64_t now_s = vt_clock_wall_ns() / VT_NS_PER_S;
    int64_t run_s = run_ns / VT_NS_PER_S;
    if (run_s < 0)
        run_s = 0;
    if (run_s > VT_CERT_LIFETIME_MAX_S)
        run_s = VT_CERT_LIFETIME_MAX_S;
    wanted->not_before_s = now_s - VT_CERT_CLOCK_MARGIN_S;
    wanted->not_after_s = now_s + run_s + VT_CERT_CLOCK_MARGIN_S;
}

int vt_key_make(EVP_PKEY **ret, struct vt_error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    if (!key)
        return vt_cert_openssl_failed(err, "make a P-256 key");
    *ret = key;
    return 0;
}

/* --- what a certificate says --- */

static int write_names(const struct vt_cert_wanted *wanted, struct vt_buf *out,
                       struct vt_error *err)
{
    for (unsigned i = 0; i < VT_CERT_NAMES_MAX && wanted->names[i]; i++) {
        if (!vt_text_is_name(wanted->names[i], NAME_SIZE))
            return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "certificate: bad name '%.80s'",
                                wanted->names[i]);
        vt_buf_printf(out, "%sDNS:%s", i ? "," : "", wanted->names[i]);
    }
    if (out->len == 0)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "certificate: no name");
    if (wanted->address) {
        if (!vt_text_is_ip(wanted->address))
            return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "certificate: bad address '%.80s'",
                                wanted->address);
        vt_buf_printf(out, ",IP:%s", wanted->address);
    }
    return vt_buf_check(out, "certificate's names", err);
}

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = extension && X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    return ok;
}

static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, of constant length */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return ok;
}

static bool set_basics(X509 *cert, EVP_PKEY *key, const char *name, int64_t from_s, int64_t to_s)
{
    return X509_set_version(cert, X509_VERSION_3) && set_serial(cert) &&
           ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)from_s) &&
           ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)to_s) && X509_set_pubkey(cert, key) &&
           X509_NAME_add_entry_by_NID(X509_get_subject_name(cert), NID_commonName, MBSTRING_ASC,
                                      (const unsigned char *)name, -1, -1, 0);
}

/* issuer NULL: self-signed. */
static int make_cert(EVP_PKEY *key, const struct vt_cert_wanted *wanted, X509 *issuer,
                     EVP_PKEY *issuer_key, X509 **ret, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf names = VT_BUF_INIT(1024);
    int rc = write_names(wanted, &names, err);
    if (rc < 0)
        return rc;
    const char *uses = wanted->server && wanted->client ? "serverAuth,clientAuth"
                       : wanted->server                 ? "serverAuth"
                                                        : "clientAuth";
    VT_AUTO_OPENSSL(cert) X509 *cert = X509_new();
    X509 *by = issuer ? issuer : cert;
    bool ok = cert &&
              set_basics(cert, key, wanted->names[0], wanted->not_before_s, wanted->not_after_s) &&
              X509_set_issuer_name(cert, X509_get_subject_name(by)) &&
              add_extension(cert, by, NID_basic_constraints, "critical,CA:FALSE") &&
              add_extension(cert, by, NID_key_usage, "critical,digitalSignature") &&
              add_extension(cert, by, NID_ext_key_usage, uses) &&
              add_extension(cert, by, NID_subject_alt_name, names.data) &&
              add_extension(cert, by, NID_subject_key_identifier, "hash") &&
              (!issuer || add_extension(cert, by, NID_authority_key_identifier, "keyid:always")) &&
              X509_sign(cert, issuer_key, EVP_sha256());
    if (!ok)
        return vt_cert_openssl_failed(err, "make a certificate");
    *ret = vt_take_ptr(cert);
    return 0;
}

int vt_cert_self_signed(const struct vt_cert_wanted *wanted, struct vt_identity *ret,
                        struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity made = VT_IDENTITY_INIT;
    int rc = vt_key_make(&made.key, err);
    if (rc == 0)
        rc = make_cert(made.key, wanted, NULL, made.key, &made.cert, err);
    if (rc < 0)
        return rc;
    *ret = made;
    made = (struct vt_identity)VT_IDENTITY_INIT;
    return 0;
}

bool vt_cert_has_name(X509 *cert, const char *name)
{
    unsigned flags = X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
    return vt_text_is_name(name, NAME_SIZE) && X509_check_host(cert, name, 0, flags, NULL) == 1;
}

/* --- requests and PEM --- */
int vt_request_write(EVP_PKEY *key, const char *name, struct vt_buf *out, struct vt_error *err)
{
    VT_AUTO_OPENSSL(request) X509_REQ *req = X509_REQ_new();
    VT_AUTO_OPENSSL(bio) BIO *bio = BIO_new(BIO_s_mem());
    char *data;
    if (!req || !bio || !X509_REQ_set_version(req, X509_REQ_VERSION_1) ||
        !X509_NAME_add_entry_by_NID(X509_REQ_get_subject_name(req), NID_commonName, MBSTRING_ASC,
                                    (const unsigned char *)name, -1, -1, 0) ||
        !X509_REQ_set_pubkey(req, key) || !X509_REQ_sign(req, key, EVP_sha256()) ||
        !PEM_write_bio_X509_REQ(bio, req))
        return vt_cert_openssl_failed(err, "make a certificate request");
    long len = BIO_get_mem_data(bio, &data);
    vt_buf_add(out, data, (size_t)len);
    return vt_buf_check(out, "certificate request", err);
}

int vt_cert_write(X509 *cert, struct vt_buf *out, struct vt_error *err)
{
    VT_AUTO_OPENSSL(bio) BIO *bio = BIO_new(BIO_s_mem());
    char *data;
    if (!bio || !PEM_write_bio_X509(bio, cert))
        return vt_cert_openssl_failed(err, "write a certificate");
    long len = BIO_get_mem_data(bio, &data);
    vt_buf_add(out, data, (size_t)len);
    return vt_buf_check(out, "certificate", err);
}

int vt_cert_read(const char *pem, size_t len, X509 **ret, struct vt_error *err)
{
    if (len > VT_CERT_PEM_MAX)
        return vt_error_refuse(err, "certificate: too long");
    VT_AUTO_OPENSSL(bio) BIO *bio = BIO_new_mem_buf(pem, (int)len);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    ERR_clear_error();
    if (!cert)
        return vt_error_refuse(err, "certificate: not PEM of one");
    *ret = cert;
    return 0;
}

/* --- the CA --- */
static int make_ca(struct vt_identity *ret, struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity made = VT_IDENTITY_INIT;
    int64_t now_s = vt_clock_wall_ns() / VT_NS_PER_S;
    unsigned char tag[4];
    char name[48] = "vtile installation ";
    if (RAND_bytes(tag, sizeof tag) != 1)
        return vt_cert_openssl_failed(err, "name a CA");
    vt_text_hex(tag, sizeof tag, name + strlen(name));
    int rc = vt_key_make(&made.key, err);
    if (rc < 0)
        return rc;
    X509 *cert = made.cert = X509_new();
    bool ok =
        cert &&
        set_basics(cert, made.key, name, now_s - VT_CERT_CLOCK_MARGIN_S, now_s + CA_LIFETIME_S) &&
        X509_set_issuer_name(cert, X509_get_subject_name(cert)) &&
        add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
        add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
        X509_sign(cert, made.key, EVP_sha256());
    if (!ok)
        return vt_cert_openssl_failed(err, "make a CA");
    *ret = made;
    made = (struct vt_identity)VT_IDENTITY_INIT;
    return 0;
}

int vt_ca_open(const char *dir, struct vt_ca **ret, struct vt_error *err)
{
    VT_AUTO_FREE struct vt_ca *ca = calloc(1, sizeof *ca);
    char path[1024];
    if (!ca)
        return vt_error_no_memory(err, "open CA");
    if ((size_t)snprintf(path, sizeof path, "%s/ca.pem", dir) >= sizeof path)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "open CA: path too long");
    int rc = vt_cert_file_read_both(path, &ca->identity, err);
    if (rc == -ENOENT) {
        VT_AUTO_IDENTITY struct vt_identity made = VT_IDENTITY_INIT;
        rc = make_ca(&made, err);
        if (rc == 0)
            rc = vt_cert_file_write_both(path, &made, err);
        /* Another process may have been first: what stands there counts. */
        if (rc == 0 || rc == -EEXIST)
            rc = vt_cert_file_read_both(path, &ca->identity, err);
    }
    if (rc < 0)
        return rc;
    *ret = vt_take_ptr(ca);
    return 0;
}

struct vt_ca *vt_ca_free(struct vt_ca *ca)
{
    if (ca)
        vt_identity_dispose(&ca->identity);
    free(ca);
    return NULL;
}

X509 *vt_ca_cert(const struct vt_ca *ca)
{
    return ca->identity.cert;
}

bool vt_key_is_p256(EVP_PKEY *key)
{
    char curve[32];
    size_t len;
    return key && EVP_PKEY_is_a(key, "EC") &&
           EVP_PKEY_get_group_name(key, curve, sizeof curve, &len) == 1 &&
           !strcmp(curve, "prime256v1");
}

int vt_ca_sign_request(const struct vt_ca *ca, const char *csr_pem, size_t len,
                       const struct vt_cert_wanted *wanted, struct vt_buf *out,
                       struct vt_error *err)
{
    if (len > VT_CERT_PEM_MAX)
        return vt_error_refuse(err, "certificate request: too long");
    VT_AUTO_OPENSSL(bio) BIO *bio = BIO_new_mem_buf(csr_pem, (int)len);
    VT_AUTO_OPENSSL(request)
    X509_REQ *req = bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
    VT_AUTO_OPENSSL(key) EVP_PKEY *key = req ? X509_REQ_get_pubkey(req) : NULL;
    bool ok = vt_key_is_p256(key) && X509_REQ_verify(req, key) == 1;
    ERR_clear_error();
    if (!ok)
        return vt_error_refuse(err, "certificate request: not PEM of one, signed by a P-256 key");
    VT_AUTO_OPENSSL(cert) X509 *cert = NULL;
    int rc = make_cert(key, wanted, ca->identity.cert, ca->identity.key, &cert, err);
    return rc < 0 ? rc : vt_cert_write(cert, out, err);
}

int vt_ca_make_identity(const struct vt_ca *ca, const struct vt_cert_wanted *wanted,
                        struct vt_identity *ret, struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity made = VT_IDENTITY_INIT;
    int rc = vt_key_make(&made.key, err);
    if (rc == 0)
        rc = make_cert(made.key, wanted, ca->identity.cert, ca->identity.key, &made.cert, err);
    if (rc < 0)
        return rc;
    *ret = made;
    made = (struct vt_identity)VT_IDENTITY_INIT;
    return 0;
}

/* --- TLS contexts --- */
static bool trust_only(SSL_CTX *ctx, X509 *ca)
{
    X509_STORE *store = X509_STORE_new();
    if (!store || !X509_STORE_add_cert(store, ca)) {
        X509_STORE_free(store);
        return false;
    }
    SSL_CTX_set_cert_store(ctx, store);
    return true;
}

static bool set_identity(SSL_CTX *ctx, const struct vt_identity *identity)
{
    return SSL_CTX_use_certificate(ctx, identity->cert) == 1 &&
           SSL_CTX_use_PrivateKey(ctx, identity->key) == 1;
}

/* One curve for keys and key exchange: an emulated guest translates the code of one only. */
static SSL_CTX *new_ctx(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set1_groups_list(ctx, "P-256") != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    return ctx;
}

int vt_tls_server_ctx(const struct vt_identity *identity, X509 *client_ca, SSL_CTX **ret,
                      struct vt_error *err)
{
    SSL_CTX *ctx = new_ctx(TLS_server_method());
    bool ok = ctx && set_identity(ctx, identity) && SSL_CTX_set_num_tickets(ctx, 0) == 1;
    if (ok && client_ca) {
        ok = trust_only(ctx, client_ca) && SSL_CTX_add_client_CA(ctx, client_ca) == 1;
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    }
    if (!ok) {
        SSL_CTX_free(ctx);
        return vt_cert_openssl_failed(err, "set up TLS for a server");
    }
    *ret = ctx;
    return 0;
}

int vt_tls_client_ctx(X509 *ca, const struct vt_identity *identity, SSL_CTX **ret,
                      struct vt_error *err)
{
    SSL_CTX *ctx = new_ctx(TLS_client_method());
    bool ok = ctx && trust_only(ctx, ca) && (!identity || set_identity(ctx, identity));
    if (!ok) {
        SSL_CTX_free(ctx);
        return vt_cert_openssl_failed(err, "set up TLS for a client");
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    *ret = ctx;
    return 0;
}
