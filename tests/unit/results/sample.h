/* SPDX-License-Identifier: Apache-2.0 */
/* sample: small records and archives with known contents, in a folder that goes away. */
#ifndef VTILE_TESTS_UNIT_RESULTS_SAMPLE_H
#define VTILE_TESTS_UNIT_RESULTS_SAMPLE_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <cmocka.h>

#include "base/error.h"
#include "results/archive.h"
#include "results/record.h"

/* One role's load: in each second of the window, good answers of 1, 2, ... good_n ms, then slow_n
 * of 3 s, wrong_n and failed_n. The first half of the good ones has a rate, 2,048,000 / i. */
struct sample_role {
    const char *role;
    int loop;
    bool scored;
    int64_t divisor, weight; /* millionths */
    unsigned good, slow, wrong, failed;
};
struct sample {
    unsigned tiles;
    const struct sample_role *roles;
    size_t nroles;
    int64_t seconds;   /* window [2, 2 + seconds) of seconds + 4 */
    const char *ended; /* NULL: key absent */
    const char *accel;
};
extern const struct sample sample_small; /* one tile, app, web and mail as FACTS has them */

/* Folder for this test program, made on first use, removed at its end. */
const char *sample_folder(void);
/* "<folder>/<name>"; stays. */
const char *sample_path(const char *name);

void sample_record_fill(struct record *record, const struct sample *sample);
/* Opens and fills, without closing. */
struct record *sample_record_open(const char *path, const struct sample *sample);
void sample_record_write(const char *path, const struct sample *sample);
/* Record, key and archive; asserts. Returns the fingerprint. */
const char *sample_archive(const char *path, const struct sample *sample);

/* Whole file; the caller frees. */
uint8_t *sample_read_file(const char *path, size_t *ret_len);
void sample_write_file(const char *path, const void *data, size_t len);

/* The last argument of call is OK_ERR, a struct vt_error * of this macro's own. */
#define OK_ERR (&sample_err_)
#define assert_ok(call)                                                \
    do {                                                               \
        struct vt_error sample_err_ = VT_ERROR_INIT;                   \
        int sample_r_ = (call);                                        \
        if (sample_r_ < 0)                                             \
            fail_msg("%s: %d %s", #call, sample_r_, sample_err_.text); \
    } while (0)

#endif
