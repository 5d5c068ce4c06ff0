/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fio: reads what `fio --output-format=json+ --status-interval=1` prints: one object of JSON after
 * the other, each with all that has been done so far, lines of text between them. Bounded by the
 * constants below.
 *
 * The latencies are fio's completion latencies in its own buckets, 64 to a power of two; the value
 * that stands for a bucket is its middle, within 1/128 of the true one. As a value of a vt_hist,
 * which adds at most 1/256, a latency is told within 1.2 %.
 */
#ifndef VTILE_TILES_ROLES_STORAGE_FIO_H
#define VTILE_TILES_ROLES_STORAGE_FIO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

#define FIO_JOBS_MAX 4
#define FIO_BINS_MAX 2048 /* fio 3 has 29 groups of 64 */
#define FIO_REPORT_BYTES_MAX (1U << 20)

struct fio_bin {
    int64_t value_ns;
    uint64_t count;
};
/* Of one job, reads and writes together: a job here does one of them. */
struct fio_job {
    char name[24];
    int64_t error; /* errno of its first failure */
    int64_t runtime_ms;
    uint64_t ios, bytes;
    struct fio_bin bins[FIO_BINS_MAX]; /* ascending */
    size_t nbins;
};
struct fio_report {
    struct fio_job jobs[FIO_JOBS_MAX];
    size_t njobs;
};

struct fio_reader {
    /* caller fills */
    void (*report)(void *ctx, const struct fio_report *report);
    void *ctx;
    /* private */
    struct vt_buf text;
    unsigned depth;
    bool in_string, escaped;
    struct fio_report *scratch;
};

int fio_reader_init(struct fio_reader *reader, struct vt_error *err);
void fio_reader_dispose(struct fio_reader *reader);
/* After an error no more is read. */
int fio_read(struct fio_reader *reader, const char *data, size_t len, struct vt_error *err);
int fio_parse(const char *text, size_t len, struct fio_report *ret, struct vt_error *err);

#endif
