/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/cert_file.h"
#include "base/scope.h"
#include "base/scope_openssl.h"

/* All certificates of a file in PEM; what else is in it is passed over. */
static int trust_file(SSL_CTX *tls, const char *path, struct vt_error *err)
{
    VT_AUTO_OPENSSL(bio) BIO *bio = NULL;
    int code = vt_cert_file_open(path, VT_KIND_CONFIG, &bio, err);
    unsigned n = 0;
    X509 *cert;

    if (code < 0)
        return code;
    while ((cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        n += X509_STORE_add_cert(SSL_CTX_get_cert_store(tls), cert) == 1;
        X509_free(cert);
    }
    ERR_clear_error(); /* the end of the file is one */
    return n > 0 ? 0
                 : vt_error_set(err, VT_KIND_CONFIG, -EBADMSG,
                                "%.200s: no certificate in PEM is in it", path);
}

int load_tls_make(const struct load_options *o, SSL_CTX **ret, struct vt_error *err)
{
    VT_AUTO_OPENSSL(tls) SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

    if (!tls || SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) != 1)
        return vt_cert_openssl_failed(err, "set up TLS");
    if (o->ca) {
        int code = trust_file(tls, o->ca, err);
        if (code < 0)
            return vt_error_wrap(err, "--ca");
    } else if (SSL_CTX_set_default_verify_paths(tls) != 1) {
        return vt_cert_openssl_failed(err, "find the machine's certificates");
    }
    SSL_CTX_set_verify(tls, o->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    *ret = vt_take_ptr(tls);
    return 0;
}
