/* SPDX-License-Identifier: Apache-2.0 */
/* The installation's CA on disk, and what it signs; openssl(1) is the judge of the result. */
#include "base/cert.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/proc.h"

static char dir[64], path[96];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/vt-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/ca.pem", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    const char *const argv[] = {"rm", "-r", dir, NULL};
    return vt_proc_run(argv, NULL, 0, NULL);
}

static void in_dir(char *buf, size_t size, const char *name)
{
    snprintf(buf, size, "%s/%s", dir, name);
}

static void put(const char *name, const char *data, size_t len)
{
    char file[128];
    in_dir(file, sizeof file, name);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, len, out), len);
    fclose(out);
}

/* Runs in dir; what it prints into out. */
static int run_shell(const char *script, struct vt_buf *out)
{
    char line[1024];
    snprintf(line, sizeof line, "cd %s && %s", dir, script);
    const char *const argv[] = {"sh", "-c", line, NULL};
    return vt_proc_run(argv, out, 0, NULL);
}

static void test_made_once_and_ours_alone(void **state)
{
    (void)state;
    struct vt_ca *first, *second;
    struct stat st;
    assert_int_equal(vt_ca_open(dir, &first, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(vt_ca_open(dir, &second, NULL), 0);
    assert_int_equal(X509_cmp(vt_ca_cert(first), vt_ca_cert(second)), 0);
    vt_ca_free(first);
    vt_ca_free(second);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    assert_int_equal(run_shell("ls -A", &out), 0);
    assert_string_equal(out.data, "ca.pem\n"); /* no half-made file beside it */
}

static void test_racing_processes_agree(void **state)
{
    (void)state;
    enum { RACERS = 8 };
    int from[2];
    unsigned char digests[RACERS][32];
    assert_int_equal(pipe(from), 0);
    for (int i = 0; i < RACERS; i++) {
        if (fork() != 0)
            continue;
        struct vt_ca *ca = NULL;
        unsigned char digest[32];
        bool ok = vt_ca_open(dir, &ca, NULL) == 0 &&
                  X509_digest(vt_ca_cert(ca), EVP_sha256(), digest, NULL) == 1 &&
                  write(from[1], digest, sizeof digest) == sizeof digest;
        vt_ca_free(ca);
        _exit(ok ? 0 : 1);
    }
    for (int i = 0; i < RACERS; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        assert_int_equal(read(from[0], digests[i], 32), 32);
        assert_memory_equal(digests[i], digests[0], 32);
    }
    close(from[0]);
    close(from[1]);
}

static void test_open_to_others_is_refused(void **state)
{
    (void)state;
    struct vt_ca *ca = NULL;
    struct vt_error err = VT_ERROR_INIT;
    assert_int_equal(vt_ca_open(dir, &ca, NULL), 0);
    ca = vt_ca_free(ca);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(vt_ca_open(dir, &ca, &err), -EACCES);
    assert_non_null(strstr(err.text, path));
    assert_null(ca);
}

static void test_damaged_file_is_refused_not_replaced(void **state)
{
    (void)state;
    struct vt_ca *ca = NULL;
    put("ca.pem", "nonsense", 8);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(vt_ca_open(dir, &ca, NULL), -EBADMSG);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    assert_int_equal(run_shell("cat ca.pem", &out), 0);
    assert_string_equal(out.data, "nonsense");
}

static void sign_for(const struct vt_ca *ca, const char *csr, size_t len,
                     const struct vt_cert_wanted *wanted, int expected)
{
    VT_AUTO_BUF struct vt_buf pem = VT_BUF_INIT(VT_CERT_PEM_MAX);
    assert_int_equal(vt_ca_sign_request(ca, csr, len, wanted, &pem, NULL), expected);
    if (expected == 0)
        put("cert.pem", pem.data, pem.len);
}

/* A request that asks for far more than it gets. */
static void test_names_come_from_the_caller_alone(void **state)
{
    (void)state;
    struct vt_ca *ca;
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536), csr = VT_BUF_INIT(65536);
    VT_AUTO_BUF struct vt_buf pem = VT_BUF_INIT(VT_CERT_PEM_MAX);
    struct vt_cert_wanted wanted = {
        .names = {"web-1", "web"}, .address = "10.86.0.12", .server = true, .client = true};
    vt_cert_window(&wanted, 60 * VT_NS_PER_S);
    assert_int_equal(vt_ca_open(dir, &ca, NULL), 0);
    assert_int_equal(vt_cert_write(vt_ca_cert(ca), &pem, NULL), 0);
    put("ca.crt", pem.data, pem.len);
    assert_int_equal(
        run_shell("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem "
                  "-subj /CN=controller -addext subjectAltName=DNS:controller,IP:10.86.0.1 "
                  "-addext basicConstraints=critical,CA:TRUE 2>/dev/null",
                  &csr),
        0);
    sign_for(ca, csr.data, csr.len, &wanted, 0);
    assert_int_equal(
        run_shell("openssl verify -x509_strict -purpose sslclient -CAfile ca.crt "
                  "-verify_hostname web-1 -verify_ip 10.86.0.12 cert.pem && "
                  "openssl verify -x509_strict -purpose sslserver -CAfile ca.crt "
                  "-verify_hostname web cert.pem && "
                  "openssl x509 -in cert.pem -noout -ext subjectAltName,basicConstraints"
                  ",extendedKeyUsage,keyUsage",
                  &out),
        0);
    const char *expected[] = {"DNS:web-1, DNS:web, IP Address:10.86.0.12\n", "CA:FALSE",
                              "TLS Web Server Authentication, TLS Web Client Authentication",
                              "Digital Signature\n"};
    for (size_t i = 0; i < 4; i++)
        if (!strstr(out.data, expected[i]))
            fail_msg("no '%s' in: %s", expected[i], out.data);
    assert_null(strstr(out.data, "controller"));
    assert_null(strstr(out.data, "10.86.0.1\n"));
    vt_ca_free(ca);
}

static void test_window_has_a_margin_and_a_bound(void **state)
{
    (void)state;
    struct vt_cert_wanted wanted = {0};
    int64_t now_s = vt_clock_wall_ns() / VT_NS_PER_S;
    vt_cert_window(&wanted, 3600 * VT_NS_PER_S);
    assert_in_range(wanted.not_before_s, now_s - 86400, now_s - 86400 + 5);
    assert_in_range(wanted.not_after_s, now_s + 3600 + 86400, now_s + 3600 + 86400 + 5);
    vt_cert_window(&wanted, INT64_MAX);
    assert_true(wanted.not_after_s <= now_s + 5 + 32 * 86400);
}

static void test_bad_requests_are_refused(void **state)
{
    (void)state;
    struct vt_ca *ca;
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .client = true};
    vt_cert_window(&wanted, VT_NS_PER_S);
    assert_int_equal(vt_ca_open(dir, &ca, NULL), 0);
    sign_for(ca, "", 0, &wanted, -EBADMSG);
    sign_for(ca, "rubbish", 7, &wanted, -EBADMSG);
    static const char *const makers[] = {
        "openssl req -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=x 2>/dev/null",
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -keyout /dev/null "
        "-subj /CN=x 2>/dev/null",
        "openssl req -newkey ed25519 -nodes -keyout /dev/null -subj /CN=x 2>/dev/null",
    };
    for (size_t i = 0; i < 3; i++) {
        VT_AUTO_BUF struct vt_buf csr = VT_BUF_INIT(65536);
        assert_int_equal(run_shell(makers[i], &csr), 0);
        sign_for(ca, csr.data, csr.len, &wanted, -EBADMSG);
    }
    /* One byte of a good request changed: its signature does not hold any more. */
    EVP_PKEY *key;
    VT_AUTO_BUF struct vt_buf csr = VT_BUF_INIT(65536);
    assert_int_equal(vt_key_make(&key, NULL), 0);
    assert_int_equal(vt_request_write(key, "web-1", &csr, NULL), 0);
    sign_for(ca, csr.data, csr.len, &wanted, 0);
    char *byte = strchr(csr.data, '\n') + 70;
    *byte = *byte == 'A' ? 'B' : 'A';
    sign_for(ca, csr.data, csr.len, &wanted, -EBADMSG);
    EVP_PKEY_free(key);
    vt_ca_free(ca);
}

static void test_bad_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "a,DNS:controller", "*", "a b", "a\n", "x/y"};
    struct vt_identity id;
    for (size_t i = 0; i < 6; i++) {
        struct vt_cert_wanted wanted = {.names = {names[i]}, .client = true};
        vt_cert_window(&wanted, VT_NS_PER_S);
        assert_int_equal(vt_cert_self_signed(&wanted, &id, NULL), -EINVAL);
    }
    struct vt_cert_wanted wanted = {
        .names = {"web"}, .address = "10.0.0.1,DNS:controller", .client = true};
    vt_cert_window(&wanted, VT_NS_PER_S);
    assert_int_equal(vt_cert_self_signed(&wanted, &id, NULL), -EINVAL);
}

static void test_identity_survives_the_disk(void **state)
{
    (void)state;
    char cert[128], key[128], other[128];
    struct vt_identity id, back = VT_IDENTITY_INIT;
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .client = true};
    struct stat st;
    in_dir(cert, sizeof cert, "cert.pem");
    in_dir(key, sizeof key, "key.pem");
    in_dir(other, sizeof other, "other.pem");
    vt_cert_window(&wanted, VT_NS_PER_S);
    assert_int_equal(vt_cert_self_signed(&wanted, &id, NULL), 0);
    assert_int_equal(vt_identity_load(cert, key, &back, NULL), -ENOENT);
    assert_int_equal(vt_identity_save(&id, cert, key, NULL), 0);
    assert_int_equal(stat(key, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(vt_identity_load(cert, key, &back, NULL), 0);
    assert_int_equal(X509_cmp(id.cert, back.cert), 0);
    vt_identity_dispose(&back);
    vt_identity_dispose(&id);
    assert_int_equal(vt_cert_self_signed(&wanted, &id, NULL), 0);
    assert_int_equal(vt_identity_save(&id, cert, other, NULL), 0);
    assert_int_equal(vt_identity_load(cert, key, &back, NULL), -EBADMSG); /* not its key */
    vt_identity_dispose(&id);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_made_once_and_ours_alone),         T(test_racing_processes_agree),
        T(test_open_to_others_is_refused),        T(test_damaged_file_is_refused_not_replaced),
        T(test_names_come_from_the_caller_alone), T(test_window_has_a_margin_and_a_bound),
        T(test_bad_requests_are_refused),         T(test_bad_names_are_refused),
        T(test_identity_survives_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
