/* SPDX-License-Identifier: Apache-2.0 */
/* What an archive promises: one good form, and everything else refused by the part's name. */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample.h"

#include "base/scope.h"
#include "results/archive_tar.h"
#include "results/result.h"
#include "tests/unit/sanitized.h"

static const char *fingerprint;
static uint8_t *good;
static size_t good_len;

static int verify(const void *data, size_t len, struct archive_report *report, struct vt_error *err)
{
    struct archive_trust trust = {&fingerprint, 1};

    memset(report, 0, sizeof(*report));
    return archive_verify_memory(data, len, &trust, report, err);
}

static void test_good(void **state)
{
    struct archive_report report;

    (void)state;
    assert_ok(verify(good, good_len, &report, OK_ERR));
    assert_string_equal(report.part, "");
    assert_string_equal(report.fingerprint, fingerprint);
    assert_string_equal(report.run, "0123456789ab");
    assert_int_equal(report.nparts, 1);
    archive_report_dispose(&report);
}

/* Which part a byte belongs to, from the good archive alone. */
static const char *part_of(size_t offset)
{
    size_t at = 0;

    while (at + ARCHIVE_TAR_BLOCK <= good_len && good[at]) {
        size_t size = strtoull((const char *)good + at + 124, NULL, 8);
        size_t next = at + ARCHIVE_TAR_BLOCK + size + (512 - size % 512) % 512;
        if (offset < next)
            return (const char *)good + at;
        at = next;
    }
    return "end of archive";
}

static void check_refused(const uint8_t *data, size_t len, size_t offset, const char *how)
{
    struct vt_error err = VT_ERROR_INIT;
    struct archive_report report;
    const char *part = part_of(offset);
    int r = verify(data, len, &report, &err);

    if (r == 0)
        fail_msg("%s at byte %zu of %s is accepted", how, offset, part);
    assert_true(err.kind == VT_KIND_REFUSED);
    /* The sums are covered by the signature, which is what fails when one of them changes. */
    if (strcmp(report.part, part) != 0 &&
        !(strcmp(part, "SHA256SUMS") == 0 && strcmp(report.part, "SHA256SUMS.p7s") == 0))
        fail_msg("%s at byte %zu of %s is laid to %s", how, offset, part, report.part);
    if (!strstr(err.text, report.part))
        fail_msg("'%s' does not name %s", err.text, report.part);
    archive_report_dispose(&report);
}

static void test_every_byte(void **state)
{
    uint8_t *bad = malloc(good_len);

    (void)state;
    assert_non_null(bad);
    memcpy(bad, good, good_len);
    for (size_t i = 0; i < good_len; i++) {
        if (!SANITIZED || i % 2 == 0) {
            bad[i] = good[i] ^ 0x01;
            check_refused(bad, good_len, i, "bit 0");
        }
        if (!SANITIZED || i % 2 == 1) {
            bad[i] = good[i] ^ 0x80;
            check_refused(bad, good_len, i, "bit 7");
        }
        bad[i] = good[i];
    }
    free(bad);
}

/* Memory of exactly that length, so that a sanitizer sees a read behind it; with one, each third
 * length, which is each place in a block of 512 over three blocks. */
static void test_every_length(void **state)
{
    (void)state;
    for (size_t len = 0; len < good_len; len += SANITIZED ? 3 : 1) {
        uint8_t *cut = malloc(len ? len : 1);
        assert_non_null(cut);
        memcpy(cut, good, len);
        check_refused(cut, len, len, "cut");
        free(cut);
    }
}

static void test_more_bytes(void **state)
{
    uint8_t *longer = calloc(1, good_len + 10240);

    (void)state;
    assert_non_null(longer);
    memcpy(longer, good, good_len);
    for (size_t more = 1; more <= 10240; more = more < 512 ? 512 : more * 2)
        check_refused(longer, good_len + more, good_len, "zeros behind");
    free(longer);
}

static void test_unknown_signer(void **state)
{
    const char *other = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct archive_trust trust = {&other, 1};
    struct archive_report report = {0};
    struct vt_error err = VT_ERROR_INIT;
    char colons[3 * 32 + 1];

    (void)state;
    assert_int_equal(archive_verify_memory(good, good_len, &trust, &report, &err), -EKEYREJECTED);
    assert_string_equal(report.fingerprint, fingerprint);
    assert_non_null(strstr(err.text, "signed by unknown"));
    assert_non_null(strstr(err.text, fingerprint));
    archive_report_dispose(&report);
    memset(&report, 0, sizeof(report));
    assert_int_equal(archive_verify_memory(good, good_len, NULL, &report, &err), -EKEYREJECTED);
    archive_report_dispose(&report);

    /* As openssl x509 -fingerprint prints it. */
    for (int i = 0; i < 32; i++)
        snprintf(colons + 3 * i, 4, "%.2s:", fingerprint + 2 * i);
    colons[95] = '\0';
    for (char *p = colons; *p; p++) {
        if (*p >= 'a')
            *p = (char)(*p - 'a' + 'A');
    }
    const char *upper = colons;
    trust.fingerprints = &upper;
    memset(&report, 0, sizeof(report));
    assert_int_equal(archive_verify_memory(good, good_len, &trust, &report, &err), 0);
    archive_report_dispose(&report);
    colons[94] = '\0';
    memset(&report, 0, sizeof(report));
    assert_int_equal(archive_verify_memory(good, good_len, &trust, &report, &err), -EKEYREJECTED);
    archive_report_dispose(&report);
}

/* The same digits from the record inside as stand in the manifest. */
static void test_recompute(void **state)
{
    struct archive_trust trust = {&fingerprint, 1};
    struct archive_report report = {0};
    struct record_reader *reader = NULL;
    struct result result = {0};
    struct vt_buf json = VT_BUF_INIT(1 << 20);

    (void)state;
    assert_ok(archive_open_record(sample_path("good.vtar"), &trust, NULL, sample_folder(), &report,
                                  &reader, OK_ERR));
    assert_ok(result_compute(reader, &result, OK_ERR));
    result_write_json(&result, NULL, &json);
    assert_false(json.failed);
    assert_non_null(strstr(report.manifest.data, json.data));
    vt_buf_dispose(&json);
    result_dispose(&result);
    record_reader_close(reader);
    archive_report_dispose(&report);
}

static unsigned files;

static int count_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)path;
    (void)st;
    (void)ftw;
    files += flag == FTW_F;
    return 0;
}

static unsigned count_files(void)
{
    files = 0;
    assert_int_equal(nftw(sample_folder(), count_one, 8, FTW_PHYS), 0);
    return files;
}

static void test_existing_stays(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct archive_key *key = NULL;
    size_t len = 0;
    uint8_t *after;

    (void)state;
    assert_int_equal(archive_key_load(sample_path("keys"), false, &key, &err), 0);
    assert_int_equal(
        archive_seal(sample_path("good.vtar.record"), sample_path("good.vtar"), key, NULL, &err),
        -EEXIST);
    archive_key_free(key);
    after = sample_read_file(sample_path("good.vtar"), &len);
    assert_int_equal(len, good_len);
    assert_memory_equal(after, good, len);
    free(after);
}

/* Writing fails at each of these sizes in turn: no archive, nothing beside it. */
static void test_disk_full(void **state)
{
    struct rlimit old, small;
    struct archive_key *key = NULL;
    unsigned before = count_files();
    size_t limit;

    (void)state;
    assert_ok(archive_key_load(sample_path("keys"), false, &key, OK_ERR));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (limit = 0; limit < good_len; limit += 256) {
        struct vt_error err = VT_ERROR_INIT;
        small = old;
        small.rlim_cur = limit;
        setrlimit(RLIMIT_FSIZE, &small);
        int r = archive_seal(sample_path("good.vtar.record"), sample_path("full.vtar"), key, NULL,
                             &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(r, -EFBIG);
        assert_int_not_equal(access(sample_path("full.vtar"), F_OK), 0);
    }
    assert_int_equal(count_files(), before);
    assert_ok(
        archive_seal(sample_path("good.vtar.record"), sample_path("full.vtar"), key, NULL, OK_ERR));
    archive_key_free(key);
}

static void test_key_file(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct archive_key *key = NULL, *again = NULL;
    struct stat st;
    char path[300];

    (void)state;
    assert_int_equal(archive_key_load(sample_path("no-keys"), false, &key, &err), -ENOENT);
    assert_null(key);
    assert_ok(archive_key_load(sample_path("new-keys"), true, &key, OK_ERR));
    assert_int_equal(stat(sample_path("new-keys"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof(path), "%s/archive.pem", sample_path("new-keys"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(archive_key_load(sample_path("new-keys"), true, &again, OK_ERR));
    assert_string_equal(archive_key_fingerprint(key), archive_key_fingerprint(again));
    assert_string_not_equal(archive_key_fingerprint(key), fingerprint);
    archive_key_free(again);
    archive_key_free(key);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(archive_key_load(sample_path("new-keys"), true, &again, &err), -EACCES);
}

static int setup(void **state)
{
    (void)state;
    fingerprint = sample_archive(sample_path("good.vtar"), &sample_small);
    good = sample_read_file(sample_path("good.vtar"), &good_len);
    print_message("archive of %zu bytes\n", good_len);
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
        cmocka_unit_test(test_good),           cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_every_length),   cmocka_unit_test(test_more_bytes),
        cmocka_unit_test(test_unknown_signer), cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_existing_stays), cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_key_file),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
