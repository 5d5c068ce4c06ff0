/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures against the openssl program: it accepts ours; ours accepts of its forms only one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"
#include "results/archive_cms.h"
#include "results/archive_key.h"

static struct archive_key *key;
static char pem[300], other_pem[300]; /* key and certificate */

static bool have_openssl(void)
{
    const char *const argv[] = {"openssl", "version", NULL};

    if (vt_proc_run(argv, NULL, 10 * VT_NS_PER_S, NULL) == 0)
        return true;
    fprintf(stderr, "skipped: no openssl program here\n");
    return false;
}

/* The documented command, on files. */
static bool openssl_accepts(const void *cms, size_t cms_len, const void *content, size_t len)
{
    const char *sums = sample_path("SHA256SUMS"), *p7s = sample_path("SHA256SUMS.p7s");
    const char *const argv[] = {"openssl", "cms", "-verify", "-binary",   "-inform",
                                "DER",     "-in", p7s,       "-content",  sums,
                                "-CAfile", pem,   "-out",    "/dev/null", NULL};

    sample_write_file(sums, content, len);
    sample_write_file(p7s, cms, cms_len);
    return vt_proc_run(argv, NULL, 20 * VT_NS_PER_S, NULL) == 0;
}

static int own(const void *cms, size_t cms_len, const void *content, size_t len,
               struct vt_error *err)
{
    char fingerprint[ARCHIVE_FINGERPRINT_TEXT] = "";
    int r = archive_cms_verify(cms, cms_len, content, len, fingerprint, err);

    if (r == 0)
        assert_string_equal(fingerprint, archive_key_fingerprint(key));
    return r;
}

/* Signed as binary: line ends of all kinds, one at each offset where a reader of 1,024 bytes would
 * cut it. */
static void test_line_ends(void **state)
{
    static const char *const texts[] = {
        "one\ntwo\n", "one\r\ntwo\r\n", "one\rtwo\r", "one  \ntwo\t\n", "one\f\ntwo\v\n", "one",
    };
    char big[3000];

    (void)state;
    if (!have_openssl())
        skip();
    for (size_t i = 0; i < VT_COUNT(texts) + 3; i++) {
        VT_AUTO_BUF struct vt_buf cms = VT_BUF_INIT(ARCHIVE_CMS_MAX);
        VT_AUTO_BUF struct vt_buf other = VT_BUF_INIT(8192);
        const char *text = i < VT_COUNT(texts) ? texts[i] : big;
        size_t len;
        if (text == big) {
            memset(big, 'x', sizeof(big));
            big[1023 + (i - VT_COUNT(texts))] = '\r';
            big[2999] = '\0';
        }
        len = strlen(text);
        assert_ok(archive_cms_sign(key->identity.key, key->identity.cert, text, len, &cms, OK_ERR));
        assert_ok(own(cms.data, cms.len, text, len, OK_ERR));
        assert_true(openssl_accepts(cms.data, cms.len, text, len));
        /* The same text with other line ends is another text, for both. */
        for (const char *p = text; *p; p++) {
            if (*p == '\n' && (p == text || p[-1] != '\r'))
                vt_buf_adds(&other, "\r\n");
            else if (*p != '\r')
                vt_buf_add(&other, p, 1);
            else if (p[1] != '\n')
                vt_buf_adds(&other, "\n");
        }
        if (other.len == len && !memcmp(other.data, text, len))
            continue;
        assert_int_equal(own(cms.data, cms.len, other.data, other.len, NULL), -EBADMSG);
        assert_false(openssl_accepts(cms.data, cms.len, other.data, other.len));
    }
}

/* openssl cms -sign with more arguments; the signature into out. */
static void openssl_sign(const char *const *more, struct vt_buf *out)
{
    const char *argv[24] = {"openssl", "cms", "-sign",  "-binary", "-outform",
                            "DER",     "-md", "sha256", "-in",     sample_path("content"),
                            "-signer", pem};
    size_t n = 12, len = 0;
    const char *target = sample_path("signed");
    uint8_t *data;

    for (; *more; more++)
        argv[n++] = *more;
    argv[n++] = "-out";
    argv[n++] = target;
    assert_true(n < VT_COUNT(argv));
    assert_ok(vt_proc_run(argv, NULL, 20 * VT_NS_PER_S, OK_ERR));
    data = sample_read_file(target, &len);
    vt_buf_reset(out);
    vt_buf_add(out, data, len);
    free(data);
}

/* What the openssl program writes in our form is taken as ours where s happens to be low; (r, n -
 * s), which fits as well as (r, s), is not. */
static void test_their_form(void **state)
{
    static const char *const ours[] = {"-noattr", NULL};
    VT_AUTO_BUF struct vt_buf cms = VT_BUF_INIT(1 << 16);
    unsigned accepted = 0, high = 0;

    (void)state;
    if (!have_openssl())
        skip();
    sample_write_file(sample_path("content"), "text\n", 5);
    for (int i = 0; i < 40 && (!accepted || !high); i++) {
        struct vt_error err = VT_ERROR_INIT;
        openssl_sign(ours, &cms);
        int r = own(cms.data, cms.len, "text\n", 5, &err);
        accepted += r == 0;
        high += r == -EBADMSG && strstr(err.text, "the other one of two") != NULL;
        assert_int_equal(accepted + high, i + 1);
        assert_true(openssl_accepts(cms.data, cms.len, "text\n", 5));
    }
    assert_true(accepted && high);
}

/* Wider forms, all of which the openssl program itself verifies. */
static void test_other_forms(void **state)
{
    static const char *const forms[][6] = {
        {NULL},                                    /* signed attributes */
        {"-noattr", "-nodetach", NULL},            /* contents inside */
        {"-noattr", "-nocerts", NULL},             /* no certificate */
        {"-noattr", "-certfile", other_pem, NULL}, /* a second certificate */
        {"-noattr", "-signer", other_pem, NULL},   /* two signers */
        {"-noattr", "-md", "sha384", NULL},
        {"-noattr", "-econtent_type", "1.2.3.4", NULL},
    };
    VT_AUTO_BUF struct vt_buf cms = VT_BUF_INIT(1 << 16);

    (void)state;
    if (!have_openssl())
        skip();
    sample_write_file(sample_path("content"), "text\n", 5);
    for (size_t i = 0; i < VT_COUNT(forms); i++) {
        openssl_sign(forms[i], &cms);
        if (own(cms.data, cms.len, "text\n", 5, NULL) != -EBADMSG)
            fail_msg("form %zu is accepted", i);
    }
}

static int setup(void **state)
{
    (void)state;
    assert_ok(archive_key_load(sample_path("other-keys"), true, &key, OK_ERR));
    archive_key_free(key);
    assert_ok(archive_key_load(sample_path("keys"), true, &key, OK_ERR));
    snprintf(other_pem, sizeof(other_pem), "%s/archive.pem", sample_path("other-keys"));
    snprintf(pem, sizeof(pem), "%s/archive.pem", sample_path("keys"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    key = archive_key_free(key);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_their_form),
        cmocka_unit_test(test_other_forms),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
