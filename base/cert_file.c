/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cert_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/scope_openssl.h"

/* The new file beside path, written and synced; its name into tmp. */
static int write_beside(const char *path, BIO *text, mode_t mode, char *tmp, size_t size,
                        struct vt_error *err)
{
    char *data;
    long len = BIO_get_mem_data(text, &data);
    if ((size_t)snprintf(tmp, size, "%s.XXXXXX", path) >= size)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "%s: path too long", path);
    VT_AUTO_CLOSE int fd = mkostemp(tmp, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    int rc = vt_file_write_all(fd, data, (size_t)len);
    if (rc == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
        rc = -errno;
    if (rc < 0) {
        vt_error_errno(err, VT_KIND_INFRA, -rc, "write %s", path);
        unlink(tmp);
    }
    return rc;
}

int vt_cert_file_write_both(const char *path, const struct vt_identity *identity,
                            struct vt_error *err)
{
    VT_AUTO_OPENSSL(bio) BIO *bio = BIO_new(BIO_s_mem());
    char tmp[1024];
    if (!bio || !PEM_write_bio_PKCS8PrivateKey(bio, identity->key, NULL, NULL, 0, NULL, NULL) ||
        !PEM_write_bio_X509(bio, identity->cert))
        return vt_cert_openssl_failed(err, path);
    int rc = write_beside(path, bio, 0600, tmp, sizeof tmp, err);
    if (rc < 0)
        return rc;
    /* Unlike rename, link does not replace a file that another process made meanwhile. */
    if (link(tmp, path) < 0)
        rc = vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    unlink(tmp);
    return rc < 0 ? rc : vt_file_sync_folder_of(path, err);
}

/* Owns fd, also after an error. */
static int wrap(int fd, const char *path, BIO **ret, struct vt_error *err)
{
    FILE *file = fdopen(fd, "re");
    if (!file) {
        int rc = vt_error_errno(err, VT_KIND_INFRA, errno, "open %s", path);
        close(fd);
        return rc;
    }
    BIO *bio = BIO_new_fp(file, BIO_CLOSE);
    if (!bio) {
        fclose(file);
        return vt_cert_openssl_failed(err, path);
    }
    *ret = bio;
    return 0;
}

int vt_cert_file_open(const char *path, enum vt_kind kind, BIO **ret, struct vt_error *err)
{
    int fd = -1, rc = vt_file_open(path, kind, &fd, err);
    return rc < 0 ? rc : wrap(fd, path, ret, err);
}

static int open_key_file(const char *path, BIO **ret, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > VT_CERT_PEM_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "%s: not a file of a key", path);
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return vt_error_set(err, VT_KIND_CONFIG, -EACCES,
                            "%s: holds a key and must be ours alone (chmod 600)", path);
    return wrap(vt_take_fd(fd), path, ret, err);
}

/* cert may be the same BIO as key: PEM readers skip what is not theirs, in order. */
static int read_pair(BIO *key, BIO *cert, const char *path, struct vt_identity *ret,
                     struct vt_error *err)
{
    VT_AUTO_IDENTITY struct vt_identity got = VT_IDENTITY_INIT;
    char no_password[] = "";
    got.key = PEM_read_bio_PrivateKey(key, NULL, NULL, no_password);
    got.cert = PEM_read_bio_X509(cert, NULL, NULL, NULL);
    bool ok = got.key && got.cert && X509_check_private_key(got.cert, got.key) == 1;
    ERR_clear_error();
    if (!ok)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG,
                            "%s: not a key in PEM with the certificate for it", path);
    *ret = got;
    got = (struct vt_identity)VT_IDENTITY_INIT;
    return 0;
}

int vt_cert_file_read_both(const char *path, struct vt_identity *ret, struct vt_error *err)
{
    VT_AUTO_OPENSSL(bio) BIO *bio = NULL;
    int rc = open_key_file(path, &bio, err);
    return rc < 0 ? rc : read_pair(bio, bio, path, ret, err);
}

static int save(const char *path, BIO *text, mode_t mode, struct vt_error *err)
{
    char tmp[1024];
    int rc = write_beside(path, text, mode, tmp, sizeof tmp, err);
    if (rc < 0)
        return rc;
    if (rename(tmp, path) < 0) {
        rc = vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
        unlink(tmp);
    }
    return rc;
}

int vt_identity_save(const struct vt_identity *identity, const char *cert_file,
                     const char *key_file, struct vt_error *err)
{
    VT_AUTO_OPENSSL(bio) BIO *key = BIO_new(BIO_s_mem());
    VT_AUTO_OPENSSL(bio) BIO *cert = BIO_new(BIO_s_mem());
    if (!key || !cert ||
        !PEM_write_bio_PKCS8PrivateKey(key, identity->key, NULL, NULL, 0, NULL, NULL) ||
        !PEM_write_bio_X509(cert, identity->cert))
        return vt_cert_openssl_failed(err, key_file);
    int rc = save(key_file, key, 0600, err);
    return rc < 0 ? rc : save(cert_file, cert, 0644, err);
}

int vt_identity_load(const char *cert_file, const char *key_file, struct vt_identity *ret,
                     struct vt_error *err)
{
    VT_AUTO_OPENSSL(bio) BIO *key = NULL;
    int rc = open_key_file(key_file, &key, err);
    if (rc < 0)
        return rc;
    VT_AUTO_OPENSSL(bio) BIO *cert = NULL;
    rc = vt_cert_file_open(cert_file, VT_KIND_INFRA, &cert, err);
    if (rc < 0)
        return rc;
    return read_pair(key, cert, key_file, ret, err);
}
