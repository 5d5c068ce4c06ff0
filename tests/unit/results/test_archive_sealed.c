/* SPDX-License-Identifier: Apache-2.0 */
/* Archives whose record is encrypted: verified without a key, read with each recipient's, by the
 * openssl program too; with another key, or changed, not at all. */
#include <errno.h>
#include <openssl/pem.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "base/scope_openssl.h"
#include "results/archive_envelope.h"
#include "results/archive_file.h"
#include "results/archive_tar.h"
#include "results/result.h"
#include "tests/unit/sanitized.h"

/* Without a sanitizer every byte is changed, with one each third. */
#define STEP (SANITIZED ? 3 : 1)

static const char *signer; /* fingerprint */
static uint8_t *good;
static size_t good_len;
static char plain[1 << 16]; /* the result in the manifest */

/* Key and certificate of one more party, on a curve or of RSA; in files <name>.key, <name>.pem. */
static void make_party(const char *name, int rsa_bits, const char *curve)
{
    VT_AUTO_OPENSSL(key)
    EVP_PKEY *key = rsa_bits ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)rsa_bits)
                             : EVP_PKEY_Q_keygen(NULL, NULL, "EC", curve);
    VT_AUTO_OPENSSL(cert) X509 *cert = X509_new();
    char path[300];
    FILE *file;

    assert_non_null(key);
    assert_non_null(cert);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    snprintf(path, sizeof(path), "%s/%s.key", sample_folder(), name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
    fclose(file);
    snprintf(path, sizeof(path), "%s/%s.pem", sample_folder(), name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(PEM_write_X509(file, cert));
    fclose(file);
}

/* Opens with the key of that party, NULL: without any. */
static int open_with(const char *path, const char *party, struct record_reader **ret,
                     struct vt_error *err)
{
    struct archive_trust trust = {&signer, 1};
    struct archive_report report = {0};
    struct archive_readers *readers = NULL;
    char key[300];
    int r;

    assert_ok(archive_readers_new(&readers, OK_ERR));
    if (party) {
        snprintf(key, sizeof(key), "%s/%s.key", sample_folder(), party);
        assert_ok(archive_readers_add(readers, key, OK_ERR));
    }
    r = archive_open_record(path, &trust, party ? readers : NULL, sample_folder(), &report, ret,
                            err);
    archive_readers_free(readers);
    archive_report_dispose(&report);
    return r;
}

static void test_each_recipient(void **state)
{
    static const char *const parties[] = {"ec", "p384", "rsa"};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(parties); i++) {
        struct record_reader *reader = NULL;
        struct result result = {0};
        VT_AUTO_BUF struct vt_buf json = VT_BUF_INIT(1 << 16);

        assert_ok(open_with(sample_path("sealed.vtar"), parties[i], &reader, OK_ERR));
        assert_ok(result_compute(reader, &result, OK_ERR));
        result_write_json(&result, NULL, &json);
        assert_string_equal(json.data, plain);
        result_dispose(&result);
        record_reader_close(reader);
    }
}

static void test_no_key(void **state)
{
    static const char *const parties[] = {NULL, "stranger", "stranger-rsa"};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(parties); i++) {
        struct record_reader *reader = NULL;
        struct vt_error err = VT_ERROR_INIT;

        assert_int_equal(open_with(sample_path("sealed.vtar"), parties[i], &reader, &err),
                         -EKEYREJECTED);
        assert_non_null(strstr(err.text, "record.sqlite.zst.000.p7m: is encrypted"));
        assert_null(reader);
    }
}

/* Whoever holds no key sees who may read. */
static void test_verified_without_key(void **state)
{
    struct archive_trust trust = {&signer, 1};
    struct archive_report report = {0};
    char fingerprint[ARCHIVE_FINGERPRINT_TEXT];
    struct archive_recipients *recipients = NULL;

    (void)state;
    assert_ok(archive_recipients_new(&recipients, OK_ERR));
    assert_ok(archive_recipients_add(recipients, sample_path("rsa.pem"), OK_ERR));
    memcpy(fingerprint, recipients->fingerprints[0], sizeof(fingerprint));
    archive_recipients_free(recipients);
    assert_ok(archive_verify_memory(good, good_len, &trust, &report, OK_ERR));
    assert_int_equal(report.nrecipients, 3);
    assert_non_null(strstr(report.manifest.data, fingerprint));
    archive_report_dispose(&report);
}

static void refuse(const uint8_t *data, size_t len, const char *how, size_t at)
{
    struct archive_trust trust = {&signer, 1};
    struct archive_report report = {0};
    struct vt_error err = VT_ERROR_INIT;

    if (archive_verify_memory(data, len, &trust, &report, &err) == 0)
        fail_msg("%s at byte %zu is accepted", how, at);
    assert_true(err.kind == VT_KIND_REFUSED);
    assert_true(report.part[0] && strstr(err.text, report.part));
    archive_report_dispose(&report);
}

static void test_every_byte_and_length(void **state)
{
    uint8_t *bad = malloc(good_len);

    (void)state;
    assert_non_null(bad);
    memcpy(bad, good, good_len);
    for (size_t i = 0; i < good_len; i += STEP) {
        bad[i] ^= 0x10;
        refuse(bad, good_len, "a flipped bit", i);
        bad[i] = good[i];
    }
    free(bad);
    for (size_t len = 0; len < good_len; len += 13 * STEP) {
        uint8_t *cut = malloc(len ? len : 1);
        assert_non_null(cut);
        memcpy(cut, good, len);
        refuse(cut, len, "a cut", len);
        free(cut);
    }
}

/* The envelope alone, as if its signer had made it so: it opens to the same bytes or not at all. */
static void test_envelope(void **state)
{
    const uint8_t *part = memmem(good, good_len, "record.sqlite.zst.000.p7m", 25);
    struct archive_readers *readers = NULL;
    struct archive_source source = {-1, NULL, 0};
    struct archive_part sum = {.record_bytes = 1};
    VT_AUTO_CLOSE int out = -1;
    VT_AUTO_FREE uint8_t *bad = NULL;
    VT_AUTO_FREE char *first = NULL, *again = NULL;
    char key[300];
    off_t opened;
    size_t n = 0;

    (void)state;
    while (part && (part - good) % ARCHIVE_TAR_BLOCK) /* its header, not its sum */
        part =
            memmem(part + 1, good_len - (size_t)(part + 1 - good), "record.sqlite.zst.000.p7m", 25);
    assert_non_null(part);
    sum.bytes = strtoull((const char *)part + 124, NULL, 8);
    bad = malloc(sum.bytes);
    assert_non_null(bad);
    memcpy(bad, part + ARCHIVE_TAR_BLOCK, sum.bytes);
    source = (struct archive_source){-1, bad, sum.bytes};
    assert_ok(archive_readers_new(&readers, OK_ERR));
    snprintf(key, sizeof(key), "%s/ec.key", sample_folder());
    assert_ok(archive_readers_add(readers, key, OK_ERR));
    assert_ok(archive_file_unnamed(sample_path("envelope"), &out, OK_ERR));
    for (size_t i = 0; i <= sum.bytes; i += STEP) {
        if (i)
            bad[i - 1] ^= 0x04;
        EVP_Digest(bad, sum.bytes, sum.hash, NULL, EVP_sha256(), NULL);
        int r = archive_envelope_open(&source, 0, &sum, readers, out, NULL);
        off_t len = lseek(out, 0, SEEK_END);
        if (i == 0) {
            assert_int_equal(r, 0);
            opened = len;
            first = malloc((size_t)len);
            again = malloc((size_t)len);
            assert_int_equal(pread(out, first, (size_t)len, 0), len);
        } else if (r == 0) { /* a name or number that nobody looks at */
            n++;
            assert_int_equal(len, opened);
            assert_int_equal(pread(out, again, (size_t)len, 0), len);
            assert_memory_equal(first, again, (size_t)len);
        }
        if (i)
            bad[i - 1] ^= 0x04;
    }
    print_message("%zu of %llu bytes do not matter to this reader\n", n,
                  (unsigned long long)sum.bytes / STEP);
    assert_true(n * STEP < sum.bytes / 4);
    archive_readers_free(readers);
}

/* A disk that is full is no wrong key: the error is that of the writing. */
static void test_disk_full(void **state)
{
    struct archive_readers *readers = NULL;
    struct archive_trust trust = {&signer, 1};
    struct rlimit old, small;
    char key[300];
    const size_t limits[] = {0, 1, 300};

    (void)state;
    assert_ok(archive_readers_new(&readers, OK_ERR));
    snprintf(key, sizeof(key), "%s/rsa.key", sample_folder());
    assert_ok(archive_readers_add(readers, key, OK_ERR));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (size_t i = 0; i < VT_COUNT(limits); i++) {
        struct archive_report report = {0};
        struct vt_error err = VT_ERROR_INIT;

        small = old;
        small.rlim_cur = limits[i];
        setrlimit(RLIMIT_FSIZE, &small);
        int r = archive_unpack_record(sample_path("sealed.vtar"), &trust, readers,
                                      sample_path("full"), &report, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(r, -EFBIG);
        assert_true(err.kind == VT_KIND_INFRA);
        assert_non_null(strstr(err.text, "record.sqlite.zst.000.p7m: write"));
        assert_int_not_equal(access(sample_path("full"), F_OK), 0);
        archive_report_dispose(&report);
    }
    archive_readers_free(readers);
}

/* The documented command, on files, with each kind of key. */
static void test_openssl(void **state)
{
    static const char *const parties[] = {"ec", "p384", "rsa"};
    const char *const version[] = {"openssl", "version", NULL};
    const char *const untar[] = {"tar", "-C", sample_folder(), "-xf", sample_path("sealed.vtar"),
                                 NULL};

    (void)state;
    if (vt_proc_run(version, NULL, 10 * VT_NS_PER_S, NULL) < 0) {
        fprintf(stderr, "skipped: no openssl program here\n");
        skip();
    }
    assert_int_equal(vt_proc_run(untar, NULL, 20 * VT_NS_PER_S, NULL), 0);
    for (size_t i = 0; i < VT_COUNT(parties); i++) {
        char key[300], cert[300];
        const char *const argv[] = {
            "openssl", "cms",       "-decrypt", "-binary",
            "-inform", "DER",       "-in",      sample_path("record.sqlite.zst.000.p7m"),
            "-inkey",  key,         "-recip",   cert,
            "-out",    "/dev/null", NULL};

        snprintf(key, sizeof(key), "%s/%s.key", sample_folder(), parties[i]);
        snprintf(cert, sizeof(cert), "%s/%s.pem", sample_folder(), parties[i]);
        if (vt_proc_run(argv, NULL, 20 * VT_NS_PER_S, NULL) != 0)
            fail_msg("openssl does not decrypt with the key of %s", parties[i]);
    }
}

static void refuse_recipient(const char *path, const char *words)
{
    struct archive_recipients *recipients = NULL;
    struct vt_error err = VT_ERROR_INIT;

    assert_ok(archive_recipients_new(&recipients, OK_ERR));
    assert_true(archive_recipients_add(recipients, path, &err) < 0);
    assert_true(err.kind == VT_KIND_CONFIG);
    if (!strstr(err.text, words) || !strstr(err.text, path))
        fail_msg("'%s' names neither '%s' nor the file", err.text, words);
    assert_int_equal(archive_recipients_count(recipients), 0);
    archive_recipients_free(recipients);
}

static void test_bad_recipients(void **state)
{
    struct archive_recipients *recipients = NULL;
    struct archive_readers *readers = NULL;
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    make_party("weak", 1024, NULL);
    make_party("small", 0, "P-192");
    refuse_recipient(sample_path("weak.pem"), "RSA of 2048 bits");
    refuse_recipient(sample_path("small.pem"), "256 bits");
    refuse_recipient(sample_path("rsa.key"), "no certificate");
    refuse_recipient(sample_path("absent"), "No such file");
    assert_int_equal(mkfifo(sample_path("fifo"), 0600), 0);
    refuse_recipient(sample_path("fifo"), "not a regular file");
    /* Twice the same is one; more than there is room for are refused. */
    assert_ok(archive_recipients_new(&recipients, OK_ERR));
    assert_ok(archive_recipients_add(recipients, sample_path("ec.pem"), OK_ERR));
    assert_ok(archive_recipients_add(recipients, sample_path("ec.pem"), OK_ERR));
    assert_int_equal(archive_recipients_count(recipients), 1);
    archive_recipients_free(recipients);
    assert_ok(archive_readers_new(&readers, OK_ERR));
    assert_true(archive_readers_add(readers, sample_path("rsa.pem"), &err) < 0);
    assert_non_null(strstr(err.text, "no private key"));
    assert_int_equal(archive_readers_add(readers, sample_path("fifo"), &err), -EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(archive_readers_add(readers, "/dev/zero", &err), -EINVAL);
    archive_readers_free(readers);
}

static int setup(void **state)
{
    static const char *const parties[] = {"ec", "p384", "rsa"};
    struct archive_recipients *recipients = NULL;
    struct archive_key *key = NULL;
    struct record_reader *reader = NULL;
    struct result result = {0};
    struct vt_buf json = VT_BUF_INIT(sizeof(plain) - 1);
    char path[300];
    static char fingerprint[ARCHIVE_FINGERPRINT_TEXT];

    (void)state;
    make_party("ec", 0, "P-256");
    make_party("p384", 0, "P-384");
    make_party("rsa", 2048, NULL);
    make_party("stranger", 0, "P-256");
    make_party("stranger-rsa", 2048, NULL);
    sample_record_write(sample_path("sealed.record"), &sample_small);
    assert_ok(archive_recipients_new(&recipients, OK_ERR));
    for (size_t i = 0; i < VT_COUNT(parties); i++) {
        snprintf(path, sizeof(path), "%s/%s.pem", sample_folder(), parties[i]);
        assert_ok(archive_recipients_add(recipients, path, OK_ERR));
    }
    assert_ok(archive_key_load(sample_path("keys"), true, &key, OK_ERR));
    memcpy(fingerprint, archive_key_fingerprint(key), sizeof(fingerprint));
    signer = fingerprint;
    assert_ok(archive_seal(sample_path("sealed.record"), sample_path("sealed.vtar"), key,
                           recipients, OK_ERR));
    archive_recipients_free(recipients);
    archive_key_free(key);
    assert_ok(record_open_read(sample_path("sealed.record"), &reader, OK_ERR));
    assert_ok(result_compute(reader, &result, OK_ERR));
    result_write_json(&result, NULL, &json);
    vt_text_copy(plain, sizeof(plain), json.data);
    vt_buf_dispose(&json);
    result_dispose(&result);
    record_reader_close(reader);
    good = sample_read_file(sample_path("sealed.vtar"), &good_len);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(good);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_recipient),
        cmocka_unit_test(test_no_key),
        cmocka_unit_test(test_verified_without_key),
        cmocka_unit_test(test_every_byte_and_length),
        cmocka_unit_test(test_envelope),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_openssl),
        cmocka_unit_test(test_bad_recipients),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
