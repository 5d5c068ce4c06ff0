/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-seconds: 45 */
/*
 * The readers of an archive. Since most of them come behind a signature, which no fuzzer makes, the
 * first byte chooses where to begin: a whole archive, one header (its checksum is put right), the
 * signature, SHA256SUMS, or the manifest.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results/archive.h"
#include "results/archive_cms.h"
#include "results/archive_manifest.h"
#include "results/archive_tar.h"

/* Of tests/unit/results/golden/v1.vtar. */
static const char golden[] = "f459dd4808baad02e69ecf65744930dc975674ba5fe69a780c32fa86841eefad";

static void fuzz_whole(const uint8_t *data, size_t size)
{
    const char *fingerprint = golden;
    struct archive_trust trust = {&fingerprint, 1};
    struct archive_report report = {0};
    struct vt_error err = VT_ERROR_INIT;
    int r = archive_verify_memory(data, size, &trust, &report, &err);

    /* Refused by name; what is accepted is the golden archive itself. */
    if (r < 0 && (!report.part[0] || err.kind != VT_KIND_REFUSED || !strstr(err.text, report.part)))
        abort();
    if (r == 0 && (report.part[0] || strcmp(report.run, "0123456789ab") != 0))
        abort();
    archive_report_dispose(&report);
}

static void fuzz_header(const uint8_t *data, size_t size)
{
    uint8_t block[ARCHIVE_TAR_BLOCK] = {0}, again[ARCHIVE_TAR_BLOCK];
    uint64_t bytes = ARCHIVE_TAR_ANY_SIZE;
    struct vt_error err = VT_ERROR_INIT;
    unsigned sum = 0;

    memcpy(block, data, size < sizeof(block) ? size : sizeof(block));
    memset(block + 148, ' ', 8);
    for (int i = 0; i < ARCHIVE_TAR_BLOCK; i++)
        sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
    if (archive_tar_check(block, ARCHIVE_SUMS_NAME, 1000, &bytes, &err) < 0) {
        for (const char *p = err.text; *p; p++) {
            if (*p < ' ' || *p > '~')
                abort();
        }
        return;
    }
    archive_tar_header(again, ARCHIVE_SUMS_NAME, bytes);
    if (bytes > 1000 || memcmp(block, again, sizeof(block)) != 0)
        abort();
}

static void fuzz_cms(const uint8_t *data, size_t size)
{
    char fingerprint[ARCHIVE_FINGERPRINT_TEXT] = "";

    /* Nobody signed this. */
    if (archive_cms_verify(data, size, "x", 1, fingerprint, NULL) == 0)
        abort();
}

static void fuzz_sums(const uint8_t *data, size_t size)
{
    struct archive_contents contents = {0};
    struct vt_buf again = VT_BUF_INIT(ARCHIVE_SUMS_MAX);

    if (archive_sums_read((const char *)data, size, &contents, NULL) == 0) {
        archive_sums_write(&contents, &again);
        if (again.len != size || memcmp(again.data, data, size) != 0)
            abort();
    }
    archive_contents_dispose(&contents);
    vt_buf_dispose(&again);
}

static void fuzz_manifest(const uint8_t *data, size_t size)
{
    struct archive_part parts[3] = {0};
    struct archive_contents contents = {
        .parts = parts, .nparts = 1 + size % 3, .sealed = size / 3 % 2};
    uint64_t sum = 0;

    if (archive_manifest_read((const char *)data, size, &contents, NULL, NULL) < 0)
        return;
    for (size_t i = 0; i < contents.nparts; i++) {
        if (parts[i].bytes > ARCHIVE_PART_BYTES_MAX)
            abort();
        sum += parts[i].record_bytes;
    }
    if (sum != contents.record_bytes || (contents.nrecipients > 0) != contents.sealed)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {fuzz_whole, fuzz_header, fuzz_cms,
                                                               fuzz_sums, fuzz_manifest};

    if (size == 0)
        return 0;
    readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](data + 1, size - 1);
    return 0;
}
