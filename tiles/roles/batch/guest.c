/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch guest: workers take the jobs of a window one after the other. The first worker is there
 * from the beginning, the others come late in the measure phase, as the server in the source
 * started its second thread only then. A job that its window's end overtakes is killed and has
 * failed.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/thread.h"
#include "tiles/roles/batch/contents.h"
#include "tiles/roles/batch/windows.h"
#include "tiles/roles/child.h"
#include "tiles/roles/registry.h"

#define WORKERS_MAX 64
#define REASON_MAX 240
#define PATH_BYTES 600

/* What all workers share; under lock but for what they only read. */
struct batch {
    const struct role_guest *guest;
    const struct role_work *work;
    struct windows windows;
    pthread_mutex_t lock;
    uint32_t window, next_job; /* to be taken next */
    uint32_t missed;           /* windows */
    bool cancelled;            /* not all workers could be started: none begins */
    json_int_t done, late, failed, wrong, killed_for_memory;
    char first_failure[REASON_MAX];
};

struct worker {
    struct batch *batch;
    unsigned number;
    bool started;
    pthread_t thread;
    char folder[PATH_BYTES];
};

struct job {
    struct worker *worker;
    uint32_t window, number;
    int64_t until_ns; /* end of its window, this guest's clock */
    uint64_t seed, bytes;
    char reason[REASON_MAX]; /* "": it went well */
    bool late, stopped, wrong;
};

/* --- memory --- */

/* "oom_kill" of /proc/vmstat: programs that the kernel killed for lack of memory. */
static int64_t oom_kills(void)
{
    VT_AUTO_FCLOSE FILE *in = fopen("/proc/vmstat", "re");
    char line[128];
    long long n = 0;

    while (in && fgets(line, sizeof(line), in))
        if (sscanf(line, "oom_kill %lld", &n) == 1)
            return n;
    return n;
}

static int64_t memory_bytes(void)
{
    VT_AUTO_FCLOSE FILE *in = fopen("/proc/meminfo", "re");
    long long kib = 0;

    return in && fscanf(in, "MemTotal: %lld kB", &kib) == 1 ? kib * 1024 : 0;
}

/* --- one job --- */

static void path_in(const struct job *job, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", job->worker->folder, name);
}

/* True when it ended well. */
static bool run(struct job *job, struct child *child)
{
    struct vt_error err = VT_ERROR_INIT;

    child->dir = job->worker->folder;
    child->work = job->worker->batch->work;
    child->until_ns = job->until_ns;
    if (child_run(child, &err) < 0)
        vt_text_copy(job->reason, sizeof(job->reason), err.text);
    else
        child_explain(child, job->reason, sizeof(job->reason));
    job->late |= child->late;
    job->stopped |= child->stopped;
    return job->reason[0] == '\0';
}

static void hash_piece(void *ctx, const char *data, size_t len)
{
    EVP_DigestUpdate(ctx, data, len);
}

/* Decompressed, it must be what was compressed. */
static void compare(struct job *job, const uint8_t wanted[32])
{
    const char *const argv[] = {"bzip2", "-dc", "out.bz2", NULL};
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    struct child child = {.argv = argv, .take = hash_piece, .ctx = md};
    uint8_t hash[32];

    if (!md || !EVP_DigestInit_ex(md, EVP_sha256(), NULL)) {
        vt_text_copy(job->reason, sizeof(job->reason), "out of memory");
    } else if (run(job, &child) &&
               (!EVP_DigestFinal_ex(md, hash, NULL) || memcmp(hash, wanted, sizeof(hash)) != 0)) {
        job->wrong = true;
        vt_text_copy(job->reason, sizeof(job->reason),
                     "what bzip2 made does not decompress to what it was made of");
    }
    EVP_MD_CTX_free(md);
}

static void compress(struct job *job)
{
    char in[PATH_BYTES + 16], out[PATH_BYTES + 16];
    const char *const argv[] = {"bzip2", "-9", "-c", "in", NULL};
    struct child child = {.argv = argv, .out_path = out};
    struct vt_error err = VT_ERROR_INIT;
    uint8_t hash[32];

    path_in(job, "in", in, sizeof(in));
    path_in(job, "out.bz2", out, sizeof(out));
    job->bytes = (uint64_t)job->worker->batch->work->jobs->compress_bytes;
    if (contents_write_table(in, job->seed, job->bytes, hash, &err) < 0)
        vt_text_copy(job->reason, sizeof(job->reason), err.text);
    else if (run(job, &child))
        compare(job, hash);
    remove(in);
    remove(out);
}

struct answer {
    char text[16];
    size_t len;
};

static void keep_answer(void *ctx, const char *data, size_t len)
{
    struct answer *answer = ctx;

    for (size_t i = 0; i < len && answer->len < sizeof(answer->text) - 1; i++)
        answer->text[answer->len++] = data[i];
}

static void compile(struct job *job)
{
    char source[PATH_BYTES + 16], program[PATH_BYTES + 16], wanted[16];
    const char *const build[] = {"gcc", "-O2", "-o", "program", "program.c", NULL};
    const char *const try_it[] = {"./program", NULL};
    struct answer answer = {.len = 0};
    struct child building = {.argv = build};
    struct child trying = {.argv = try_it, .take = keep_answer, .ctx = &answer};
    struct vt_error err = VT_ERROR_INIT;
    uint32_t number = 0;

    path_in(job, "program.c", source, sizeof(source));
    path_in(job, "program", program, sizeof(program));
    if (contents_write_program(source, job->seed,
                               (uint32_t)job->worker->batch->work->jobs->compile_functions, &number,
                               &err) < 0)
        vt_text_copy(job->reason, sizeof(job->reason), err.text);
    else if (run(job, &building) && run(job, &trying)) {
        snprintf(wanted, sizeof(wanted), "%u\n", number);
        answer.text[answer.len] = '\0';
        if (strcmp(answer.text, wanted) != 0) {
            job->wrong = true;
            vt_text_copy(job->reason, sizeof(job->reason),
                         "the program that gcc made gives another answer");
        }
    }
    remove(source);
    remove(program);
}

/* --- counting --- */

static int64_t window_ns(const struct batch *batch, uint32_t window)
{
    return batch->windows.begin_ns + window * batch->windows.length_ns;
}

static void count(struct batch *batch, const struct job *job, bool for_memory)
{
    pthread_mutex_lock(&batch->lock);
    batch->done += job->reason[0] == '\0';
    batch->failed += job->reason[0] != '\0' && !job->wrong;
    batch->wrong += job->wrong;
    batch->late += job->late;
    batch->killed_for_memory += for_memory;
    if (job->reason[0] && !batch->first_failure[0])
        vt_text_copy(batch->first_failure, sizeof(batch->first_failure), job->reason);
    pthread_mutex_unlock(&batch->lock);
}

static void tell(struct batch *batch, const struct job *job, int64_t begun_ns)
{
    const struct role_work *work = batch->work;
    int64_t intended_ns = window_ns(batch, job->window), now_ns = vt_clock_now_ns();
    struct role_done done = {
        .operation = windows_kind(job->number),
        .intended_ns = intended_ns,
        .response_ns = now_ns - work->t0_ns - intended_ns,
        .service_ns = now_ns - begun_ns,
        .bytes = job->reason[0] ? 0 : job->bytes,
        .failed = job->reason[0] ? job->reason : NULL,
        .wrong = job->wrong,
    };

    work->done(work->ctx, &done);
}

static void do_job(struct job *job)
{
    static void (*const kinds[BATCH_KINDS])(struct job * job) = {compress, compile};
    struct batch *batch = job->worker->batch;
    int64_t kills = oom_kills(), begun_ns = vt_clock_now_ns();
    bool for_memory;

    kinds[windows_kind(job->number)](job);
    if (job->stopped)
        return; /* what was due is counted by who stopped it */
    for_memory = job->reason[0] && !job->late && !job->wrong && oom_kills() > kills;
    if (for_memory) {
        char what[REASON_MAX];

        memcpy(what, job->reason, sizeof(what));
        snprintf(job->reason, sizeof(job->reason), "out of memory, killed by the kernel: %.180s",
                 what);
    }
    tell(batch, job, begun_ns);
    count(batch, job, for_memory);
}

/* --- workers --- */

/* The next job that a worker may begin; waits for its window. False: none is left, or stop. */
static bool take_job(struct worker *worker, struct job *job)
{
    struct batch *batch = worker->batch;
    const struct role_work *work = batch->work;
    bool any;

    pthread_mutex_lock(&batch->lock);
    if (batch->next_job == batch->windows.jobs) {
        batch->next_job = 0;
        batch->window++;
    }
    any = batch->window < batch->windows.count;
    *job = (struct job){.worker = worker, .window = batch->window, .number = batch->next_job};
    batch->next_job += any;
    pthread_mutex_unlock(&batch->lock);
    if (!any)
        return false;
    job->seed = batch->guest->seed ^ ((uint64_t)job->window << 32 | job->number);
    job->until_ns = work->t0_ns + window_ns(batch, job->window) + batch->windows.length_ns;
    return child_sleep_until(work, work->t0_ns + window_ns(batch, job->window));
}

static void *be_worker(void *arg)
{
    struct worker *worker = arg;
    struct batch *batch = worker->batch;
    const struct role_work *work = batch->work;
    struct job job;
    bool cancelled;

    pthread_mutex_lock(&batch->lock); /* held until all are started */
    cancelled = batch->cancelled;
    pthread_mutex_unlock(&batch->lock);
    if (cancelled)
        return NULL;
    if (worker->number > 0 && !child_sleep_until(work, work->t0_ns + batch->windows.late_ns))
        return NULL;
    while (take_job(worker, &job)) {
        if (vt_clock_now_ns() >= job.until_ns) {
            job.late = true;
            vt_text_copy(job.reason, sizeof(job.reason), "late: its window ended before it began");
            tell(batch, &job, vt_clock_now_ns());
            count(batch, &job, false);
        } else {
            do_job(&job);
        }
    }
    return NULL;
}

static int start_worker(struct worker *worker, struct vt_error *err)
{
    const struct role_guest *guest = worker->batch->guest;
    int ret;

    snprintf(worker->folder, sizeof(worker->folder), "%s/worker-%u", guest->data_dir,
             worker->number);
    ret = vt_file_make_folders(worker->folder, 0755, VT_KIND_INFRA, err);
    if (ret < 0)
        return vt_error_wrap(err, "start worker %u", worker->number);
    ret = vt_thread_start(&worker->thread, be_worker, worker);
    if (ret != 0)
        return vt_error_errno(err, VT_KIND_INFRA, ret, "start worker %u", worker->number);
    worker->started = true;
    return 0;
}

/* The windows that this guest, or the one before its restart, has not seen from their beginning:
 * what they asked for has failed. */
static void miss_windows(struct batch *batch)
{
    const struct role_work *work = batch->work;
    struct worker nobody = {.batch = batch};
    int64_t now_ns = vt_clock_now_ns();

    if (!work->resumed)
        return;
    batch->window = windows_begun(&batch->windows, work->from_ns);
    while (batch->window < windows_begun(&batch->windows, now_ns - work->t0_ns)) {
        for (uint32_t i = 0; i < batch->windows.jobs; i++) {
            struct job job = {.worker = &nobody, .window = batch->window, .number = i};

            vt_text_copy(job.reason, sizeof(job.reason),
                         "missed: its window began before the guest's work did");
            tell(batch, &job, now_ns);
            count(batch, &job, false);
        }
        batch->window++;
        batch->missed++;
    }
}

static int add_facts(struct batch *batch, json_t *facts, unsigned nworkers, int64_t kills,
                     struct vt_error *err)
{
    const struct {
        const char *name;
        json_int_t value;
    } numbers[] = {
        {"jobs_done", batch->done},        {"jobs_failed", batch->failed},
        {"jobs_late", batch->late},        {"jobs_killed_for_memory", batch->killed_for_memory},
        {"wrong.jobs", batch->wrong},      {"oom_kills", kills},
        {"memory_bytes", memory_bytes()},  {"workers", nworkers},
        {"windows", batch->windows.count}, {"jobs_a_window", batch->windows.jobs},
        {"windows_missed", batch->missed},
    };
    bool bad = false;

    vt_text_make_plain(batch->first_failure);
    for (size_t i = 0; i < VT_COUNT(numbers); i++)
        bad |= json_object_set_new(facts, numbers[i].name, json_integer(numbers[i].value)) != 0;
    bad |= json_object_set_new(facts, "first_failure", json_string(batch->first_failure)) != 0;
    return bad ? vt_error_no_memory(err, "collect facts of batch") : 0;
}

static int work(struct role_guest *guest, const struct role_work *work, struct vt_error *err)
{
    struct batch batch = {.guest = guest, .work = work};
    unsigned n = guest->vcpus < 1 ? 1 : guest->vcpus < WORKERS_MAX ? guest->vcpus : WORKERS_MAX;
    VT_AUTO_FREE struct worker *workers = calloc(n, sizeof(*workers));
    int64_t kills = oom_kills();
    int ret = 0;

    if (!workers)
        return vt_error_no_memory(err, "%u workers", n);
    windows_make(work->jobs, &work->times, &batch.windows);
    pthread_mutex_init(&batch.lock, NULL);
    miss_windows(&batch);
    /* The late ones too stand from the beginning: one that cannot be started ends the work before
     * a job was begun, not at its end. */
    pthread_mutex_lock(&batch.lock);
    for (unsigned i = 0; ret == 0 && i < n; i++) {
        workers[i] = (struct worker){.batch = &batch, .number = i};
        ret = start_worker(&workers[i], err);
    }
    batch.cancelled = ret < 0;
    pthread_mutex_unlock(&batch.lock);
    for (unsigned i = 0; i < n; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    pthread_mutex_destroy(&batch.lock);
    return ret < 0 ? ret : add_facts(&batch, work->facts, n, oom_kills() - kills, err);
}

/* --- the rest of a role --- */

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    return vt_file_make_folders(guest->data_dir, 0755, VT_KIND_INFRA, err);
}

static int runs(const char *program, struct vt_error *err)
{
    const char *const argv[] = {program, "--version", NULL};

    return child_try(argv, NULL, 60 * VT_NS_PER_S, -EIO, err);
}

/* Both programs run; the first run of each also brings them into memory. */
static int ready(struct role_guest *guest, struct vt_error *err)
{
    int ret = runs("bzip2", err);

    (void)guest;
    return ret < 0 ? ret : runs("gcc", err);
}

const struct role_guest_ops role_batch_guest = {
    .prepare = prepare,
    .ready = ready,
    .work = work,
};
