/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge RECORD: the result of a record that stands in a file of its own, as one line of JSON.
 * judge RECORD ARCHIVE KEYS: seals it, whatever is wrong with it, with the key in that folder, and
 * prints the signer's fingerprint.
 */
#include <stdio.h>

#include "base/scope.h"
#include "results/archive.h"
#include "results/result.h"

static int print_result(const char *path, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 20);
    struct record_reader *reader = NULL;
    struct result result = {0};
    int r = record_open_read(path, &reader, err);

    if (r == 0)
        r = result_compute(reader, &result, err);
    if (r == 0) {
        result_write_json(&result, NULL, &out);
        r = vt_buf_check(&out, "result", err);
    }
    if (r == 0)
        printf("%s\n", out.data);
    result_dispose(&result);
    record_reader_close(reader);
    return r;
}

static int seal(const char *record, const char *archive, const char *keys, struct vt_error *err)
{
    struct archive_key *key = NULL;
    int r = archive_key_load(keys, true, &key, err);

    if (r == 0)
        r = archive_seal(record, archive, key, NULL, err);
    if (r == 0)
        printf("%s\n", archive_key_fingerprint(key));
    archive_key_free(key);
    return r;
}

int main(int argc, char **argv)
{
    struct vt_error err = VT_ERROR_INIT;
    int r;

    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: judge RECORD [ARCHIVE KEYS]\n");
        return 2;
    }
    r = argc == 2 ? print_result(argv[1], &err) : seal(argv[1], argv[2], argv[3], &err);
    if (r < 0)
        fprintf(stderr, "judge: %s\n", err.text);
    return r < 0;
}
