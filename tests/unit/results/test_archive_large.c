/* SPDX-License-Identifier: Apache-2.0 */
/* Records of several parts: sealed and read in bounded memory, and the same bytes come out. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sample.h"

#include "base/rng.h"
#include "base/scope.h"
#include "results/archive_manifest.h"
#include "results/result.h"

#define CHUNK (512U << 10)

/* Text that zstd cannot make smaller than three quarters: base64 digits at random. */
static void fill_record(const char *path, unsigned chunks)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct record *record = sample_record_open(path, &sample_small);
    struct vt_sink *sink = record_sink(record);
    struct vt_event log = {.type = VT_EVENT_LOG, .series = "kernel"};
    char *text = malloc(CHUNK + 1);
    struct vt_rng rng;

    assert_non_null(text);
    vt_rng_seed(&rng, 7, "large", 0);
    text[CHUNK] = '\0';
    for (unsigned i = 0; i < chunks; i++) {
        for (size_t k = 0; k < CHUNK; k += 10) {
            uint64_t bits = vt_rng_next(&rng);
            for (size_t j = k; j < k + 10 && j < CHUNK; j++, bits >>= 6)
                text[j] = digits[bits & 63];
        }
        log.text = text;
        while (record_room(record) < 2U * CHUNK) /* as who fetches logs does */
            usleep(1000);
        sink->take(sink, &log);
    }
    free(text);
    assert_ok(record_close(record, OK_ERR));
}

/* High-water mark of the whole process since the last reset, KiB; 0 where the kernel does not say.
 */
static long peak_kib(bool reset)
{
    VT_AUTO_FCLOSE FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    long peak = 0;

    while (status && fgets(line, sizeof(line), status)) {
        if (sscanf(line, "VmHWM: %ld kB", &peak) == 1)
            break;
    }
    if (reset) {
        VT_AUTO_CLOSE int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "5", 1) != 1)
            return 0;
    }
    return peak;
}

/* Several parts sealed and opened again, in so many KiB at most. */
static void check_parts(const char *record, const char *path, const struct archive_key *key,
                        const struct archive_recipients *recipients,
                        struct archive_readers *readers, long seal_max, long open_max)
{
    const char *fingerprint = archive_key_fingerprint(key);
    struct archive_trust trust = {&fingerprint, 1};
    struct archive_report report = {0};
    struct record_reader *reader = NULL;
    struct record_sum *sum = malloc(sizeof(*sum));
    long sealed, opened;

    assert_non_null(sum);
    peak_kib(true);
    assert_ok(archive_seal(record, path, key, recipients, OK_ERR));
    sealed = peak_kib(true);
    assert_ok(
        archive_open_record(path, &trust, readers, sample_folder(), &report, &reader, OK_ERR));
    opened = peak_kib(false);
    assert_int_equal(report.nparts, recipients ? 9 : 3);
    assert_ok(record_sum_load(reader, 1, "web", 2, 6, sum, OK_ERR));
    assert_int_equal(sum->all.intended, 100);
    print_message("%ld KiB to seal, %ld KiB to open%s\n", sealed, opened,
                  recipients ? ", encrypted" : "");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
    assert_in_range(sealed, 0, seal_max);
    assert_in_range(opened, 0, open_max);
#else
    (void)seal_max;
    (void)open_max;
#endif
    record_sum_dispose(sum);
    free(sum);
    record_reader_close(reader);
    archive_report_dispose(&report);
}

static void test_parts(void **state)
{
    const char *record = sample_path("large.record");
    struct archive_recipients *recipients = NULL;
    struct archive_readers *readers = NULL;
    struct archive_key *key = NULL, *own = NULL;

    (void)state;
    fill_record(record, 140); /* 70 MiB and what SQLite adds: three parts */
    assert_ok(archive_key_load(sample_path("keys"), true, &key, OK_ERR));
    assert_ok(archive_key_load_reader(sample_path("keys"), true, &own, OK_ERR));
    assert_ok(archive_recipients_new(&recipients, OK_ERR));
    assert_ok(archive_recipients_add_key(recipients, own, OK_ERR));
    assert_ok(archive_readers_new(&readers, OK_ERR));
    assert_ok(archive_readers_add_key(readers, own, OK_ERR));
    check_parts(record, sample_path("large.vtar"), key, NULL, NULL, 40 << 10, 40 << 10);
    /* A part of up to 32 MiB is read whole: once as it is stored, once as OpenSSL takes it apart.
     */
    check_parts(record, sample_path("sealed.vtar"), key, recipients, readers, 40 << 10, 64 << 10);
    archive_readers_free(readers);
    archive_recipients_free(recipients);
    archive_key_free(own);
    archive_key_free(key);
}

/* Grows a record to exactly that many bytes: rows of a MiB first, then of a page each. */
static void grow(const char *path, int64_t bytes)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL, *pages = NULL;
    int64_t have = 0;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA synchronous=OFF; BEGIN", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "INSERT INTO log VALUES(NULL,0,0,NULL,NULL,NULL,'x',"
                                        "randomblob(?))",
                                        -1, &insert, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA page_count", -1, &pages, NULL), SQLITE_OK);
    while (have < bytes) {
        sqlite3_bind_int(insert, 1, bytes - have > (2 << 20) ? 1 << 20 : 2500);
        assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
        sqlite3_reset(insert);
        assert_int_equal(sqlite3_step(pages), SQLITE_ROW);
        have = sqlite3_column_int64(pages, 0) * 4096;
        sqlite3_reset(pages);
    }
    sqlite3_finalize(insert);
    sqlite3_finalize(pages);
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(have, bytes);
}

/* A record of exactly one part, and of a page less and more. Bytes at random also show that what
 * zstd cannot compress stays within a part's bound. */
static void test_borders(void **state)
{
    static const uint64_t sizes[] = {ARCHIVE_PART_RECORD_BYTES - 4096, ARCHIVE_PART_RECORD_BYTES,
                                     ARCHIVE_PART_RECORD_BYTES + 4096};
    const char *record = sample_path("border.record");

    (void)state;
    for (size_t i = 0; i < VT_COUNT(sizes); i++) {
        char path[300];
        struct archive_report report = {0};
        struct record_reader *reader = NULL;
        struct archive_key *key = NULL;
        const char *fingerprint;
        struct archive_trust trust = {&fingerprint, 1};
        unlink(record);
        sample_record_write(record, &sample_small);
        grow(record, (int64_t)sizes[i]);
        snprintf(path, sizeof(path), "%s.%zu", record, i);
        assert_ok(archive_key_load(sample_path("keys"), true, &key, OK_ERR));
        fingerprint = archive_key_fingerprint(key);
        assert_ok(archive_seal(record, path, key, NULL, OK_ERR));
        assert_ok(
            archive_open_record(path, &trust, NULL, sample_folder(), &report, &reader, OK_ERR));
        assert_int_equal(report.nparts, i < 2 ? 1 : 2);
        assert_int_equal(report.record_bytes, sizes[i]);
        record_reader_close(reader);
        archive_report_dispose(&report);
        archive_key_free(key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_borders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
