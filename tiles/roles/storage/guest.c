/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage guest: one fio with a thread a stream works on one file of data_dir, past the page
 * cache where the file system lets it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/scope.h"
#include "tiles/roles/child.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/storage/streams.h"

#define FILE_NAME "fio.data"
#define DATA_BYTES_MIN (1U << 20)
#define DEPTH "16"
/* What is under way at the end may end; within a drain, 15 s at least. */
#define GRACE_NS (10 * VT_NS_PER_S)
#define ARGUMENTS_MAX 64
#define ARGUMENT_BYTES 640

struct storage {
    const struct role_work *work;
    struct stream streams[STREAM_KINDS];
    bool has[STREAM_KINDS];
    struct fio_reader reader;
    struct vt_error err;
};

static void file_path(const struct role_guest *guest, char *path, size_t size)
{
    snprintf(path, size, "%s/" FILE_NAME, guest->data_dir);
}

/* --- the file --- */

static int write_file(const struct role_guest *guest, const char *path, uint64_t bytes,
                      struct vt_error *err)
{
    uint64_t block[8192];
    VT_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct vt_rng rng;
    int ret = fd < 0 ? -errno : 0;

    vt_rng_seed(&rng, guest->seed, "storage/data", guest->tile);
    for (uint64_t at = 0; ret == 0 && at < bytes; at += sizeof(block)) {
        for (size_t i = 0; i < VT_COUNT(block); i++)
            block[i] = vt_rng_next(&rng);
        ret = vt_file_write_all(fd, block,
                                bytes - at < sizeof(block) ? (size_t)(bytes - at) : sizeof(block));
    }
    if (ret == 0 && fsync(fd) < 0)
        ret = -errno;
    return ret < 0 ? vt_error_errno(err, VT_KIND_INFRA, -ret, "write %s", path) : 0;
}

static uint64_t data_bytes(const struct role_guest *guest)
{
    return guest->data_bytes < DATA_BYTES_MIN ? DATA_BYTES_MIN : guest->data_bytes;
}

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    char path[600];
    struct stat st;
    int ret = vt_file_make_folders(guest->data_dir, 0755, VT_KIND_INFRA, err);

    file_path(guest, path, sizeof(path));
    if (ret < 0 || (stat(path, &st) == 0 && (uint64_t)st.st_size == data_bytes(guest)))
        return ret; /* as it was left before a restart */
    return write_file(guest, path, data_bytes(guest), err);
}

static bool opens_direct(const char *path)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);

    return fd >= 0;
}

/* --- fio --- */

struct arguments {
    char text[ARGUMENTS_MAX][ARGUMENT_BYTES];
    const char *argv[ARGUMENTS_MAX + 1];
    size_t n;
};

static void add(struct arguments *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct arguments *a, const char *fmt, ...)
{
    va_list args;

    if (a->n == ARGUMENTS_MAX)
        return;
    va_start(args, fmt);
    vsnprintf(a->text[a->n], ARGUMENT_BYTES, fmt, args);
    va_end(args);
    a->argv[a->n] = a->text[a->n];
    a->argv[++a->n] = NULL;
}

static void add_stream(struct arguments *a, const struct stream *stream)
{
    static const char *const patterns[STREAM_KINDS] = {
        [STREAM_READ] = "randread", [STREAM_WRITE] = "randwrite", [STREAM_SEQUENTIAL] = "read"};

    add(a, "--name=%s", stream_names[stream->kind]);
    add(a, "--rw=%s", patterns[stream->kind]);
    add(a, "--bs=%" PRId64, stream->block_bytes);
    add(a, "--rate_iops=%" PRId64, stream->pace.rate / 1000000);
    add(a, "--number_ios=%" PRIu64, stream->total);
    add(a, "--io_size=%" PRIu64, stream->total * (uint64_t)stream->block_bytes);
}

static void make_arguments(const struct storage *storage, const struct role_guest *guest,
                           struct arguments *a)
{
    char path[600];
    bool direct;

    file_path(guest, path, sizeof(path));
    direct = opens_direct(path);
    add(a, "fio");
    add(a, "--output-format=json+");
    add(a, "--status-interval=1");
    add(a, "--eta=never");
    add(a, "--disk_util=0");
    add(a, "--thread");
    add(a, "--filename=%s", path);
    add(a, "--size=%" PRIu64, data_bytes(guest));
    add(a, "--norandommap");
    add(a, "--randseed=%" PRIu64, guest->seed >> 1);
    add(a, "--direct=%d", direct);
    /* Buffered accesses through libaio wait in its submission, where fio does not time them. */
    add(a, "--ioengine=%s", direct ? "libaio" : "psync");
    if (direct)
        add(a, "--iodepth=" DEPTH);
    for (unsigned i = 0; i < STREAM_KINDS; i++)
        if (storage->has[i])
            add_stream(a, &storage->streams[i]);
}

static void take_report(void *ctx, const struct fio_report *report)
{
    struct storage *storage = ctx;
    int64_t since_t0_ns = vt_clock_now_ns() - storage->work->t0_ns;

    for (size_t j = 0; j < report->njobs; j++) {
        const struct fio_job *job = &report->jobs[j];

        if (job->error && storage->err.code == 0)
            vt_error_set(&storage->err, VT_KIND_INFRA, -EIO, "fio: %s: %s", job->name,
                         strerror((int)job->error));
        for (unsigned i = 0; i < STREAM_KINDS; i++)
            if (storage->has[i] && !strcmp(job->name, stream_names[i]) && storage->err.code == 0)
                stream_take(&storage->streams[i], job, since_t0_ns, storage->work, &storage->err);
    }
}

static void take_output(void *ctx, const char *data, size_t len)
{
    struct storage *storage = ctx;

    if (storage->err.code == 0)
        fio_read(&storage->reader, data, len, &storage->err);
}

static int add_facts(const struct storage *storage, const struct role_guest *guest, json_t *facts,
                     struct vt_error *err)
{
    char path[600], name[40];
    bool bad;

    file_path(guest, path, sizeof(path));
    bad = json_object_set_new(facts, "direct", json_boolean(opens_direct(path))) != 0;
    for (unsigned i = 0; i < STREAM_KINDS; i++) {
        const struct stream *stream = &storage->streams[i];

        if (!storage->has[i])
            continue;
        snprintf(name, sizeof(name), "%s.accesses", stream_names[i]);
        bad |= json_object_set_new(facts, name, json_integer((json_int_t)stream->done)) != 0;
        snprintf(name, sizeof(name), "%s.rate", stream_names[i]);
        bad |= json_object_set_new(facts, name, json_integer(stream->pace.rate / 1000000)) != 0;
    }
    return bad ? vt_error_no_memory(err, "collect facts of storage") : 0;
}

static int run_fio(struct storage *storage, const struct role_guest *guest, struct vt_error *err)
{
    VT_AUTO_FREE struct arguments *a = calloc(1, sizeof(*a));
    const struct role_work *work = storage->work;
    struct child child = {.take = take_output, .ctx = storage, .work = work};
    char why[240];
    int ret;

    if (!a)
        return vt_error_no_memory(err, "start fio");
    make_arguments(storage, guest, a);
    child.argv = a->argv;
    child.dir = guest->run_dir;
    child.until_ns =
        work->t0_ns + work->times.ramp_ns + work->times.warm_ns + work->times.measure_ns + GRACE_NS;
    if (!child_sleep_until(work, work->t0_ns + work->times.ramp_ns))
        return 0;
    ret = child_run(&child, err);
    if (ret < 0)
        return ret;
    if (storage->err.code) {
        if (err)
            *err = storage->err;
        return storage->err.code;
    }
    child_explain(&child, why, sizeof(why));
    return *why && !child.stopped ? vt_error_set(err, VT_KIND_INFRA, -EIO, "%s", why) : 0;
}

static int work(struct role_guest *guest, const struct role_work *work, struct vt_error *err)
{
    VT_AUTO_FREE struct storage *storage = calloc(1, sizeof(*storage));
    int ret;

    if (!storage)
        return vt_error_no_memory(err, "work on storage");
    storage->work = work;
    storage->reader.report = take_report;
    storage->reader.ctx = storage;
    for (unsigned i = 0; i < STREAM_KINDS; i++)
        storage->has[i] = stream_make(work->jobs, &work->times, i, &storage->streams[i]);
    ret = fio_reader_init(&storage->reader, err);
    if (ret == 0)
        ret = run_fio(storage, guest, err);
    fio_reader_dispose(&storage->reader);
    return ret < 0 ? ret : add_facts(storage, guest, work->facts, err);
}

/* --- the rest of a role --- */

/* One access by the program that will make them all. */
static int ready(struct role_guest *guest, struct vt_error *err)
{
    char path[640];
    const char *const argv[] = {"fio",      "--name=ready",   path, "--rw=read", "--bs=4k",
                                "--thread", "--number_ios=1", NULL};

    snprintf(path, sizeof(path), "--filename=%s/" FILE_NAME, guest->data_dir);
    return child_try(argv, guest->run_dir, 60 * VT_NS_PER_S, -EIO, err);
}

const struct role_guest_ops role_storage_guest = {
    .prepare = prepare,
    .ready = ready,
    .work = work,
};
