/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/worker.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "base/thread.h"
#include "orchestrator/host/calls.h"

static const char *const job_names[] = {
    "opening",         "starting a domain", "destroying a domain", "destroying domains",
    "listing domains", "asking statistics", "asking facts",        "closing",
};

void job_list_init(struct job_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

void job_list_add(struct job_list *list, struct job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

struct job *job_list_take(struct job_list *list)
{
    struct job *job = list->first;

    if (job) {
        list->first = job->next;
        if (!list->first)
            list->end = &list->first;
    }
    return job;
}

void job_free(struct job *job)
{
    if (!job)
        return;
    free(job->text);
    free(job->domains);
    free(job->stats);
    free(job->facts);
    free(job->uuids);
    free(job->failures);
    free(job);
}

void host_unref(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    unsigned left = --host->refs;
    pthread_mutex_unlock(&host->lock);
    if (left)
        return;
    pthread_mutex_destroy(&host->lock);
    pthread_cond_destroy(&host->wake);
    job_free(host->close_job);
    free(host->started);
    free(host);
}

const char *job_name(enum job_kind kind)
{
    return job_names[kind];
}

struct job *job_new(struct host *host, enum job_kind kind, const char *text, host_done done,
                    void *ctx, struct vt_error *err)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job && text)
        job->text = strdup(text);
    if (!job || (text && !job->text)) {
        free(job);
        vt_error_no_memory(err, "%s", job_names[kind]);
        return NULL;
    }
    job->kind = kind;
    job->done = done;
    job->ctx = ctx;
    job->limit_ns = kind == JOB_OPEN ? host->open_limit_ns : host->limit_ns;
    return job;
}

static void remember_started(struct host *host, const struct host_domain *domain)
{
    struct host_domain *grown =
        realloc(host->started, (host->nstarted + 1) * sizeof(*host->started));

    if (!grown)
        return; /* only its statistics are missed */
    host->started = grown;
    host->started[host->nstarted++] = *domain;
}

static void forget_started(struct host *host, const char *name_or_uuid)
{
    for (size_t i = 0; i < host->nstarted; i++)
        if (!strcmp(host->started[i].name, name_or_uuid) ||
            !strcmp(host->started[i].uuid, name_or_uuid)) {
            host->started[i] = host->started[--host->nstarted];
            return;
        }
}

/* On the loop's thread, from libvirt's event loop. */
static void on_stopped(void *ctx, const char *uuid)
{
    struct host *host = ctx;

    if (!host->closing && host->state != HOST_LOST)
        host->stopped(host->stopped_ctx, uuid);
}

static int do_open(struct host *host, struct job *job, struct vt_error *err)
{
    int code = calls_open(host->uri, &host->conn, &job->info, err);

    if (code < 0)
        return code;
    job->reply.info = &job->info;
    host->watch_id = host->stopped ? calls_watch(host->conn, on_stopped, host) : -1;
    return 0;
}

static int do_start(struct host *host, struct job *job, struct vt_error *err)
{
    job->domains = calloc(1, sizeof(*job->domains));
    if (!job->domains)
        return vt_error_no_memory(err, "start a domain");
    int code = calls_start(host->conn, job->text, job->domains, err);
    if (code == 0) {
        job->reply.domains = job->domains;
        job->reply.ndomains = 1;
        remember_started(host, job->domains);
    }
    return code;
}

static int do_destroy(struct host *host, struct job *job, struct vt_error *err)
{
    int code = calls_destroy(host->conn, job->text, job->has_mark ? &job->mark : NULL, err);

    if (code == 0)
        forget_started(host, job->text);
    return code;
}

/* What its threads share. */
struct destroying {
    struct host *host;
    struct job *job;
    atomic_size_t next;
};

static void *destroy_some(void *ctx)
{
    struct destroying *all = ctx;
    size_t i;

    while ((i = atomic_fetch_add(&all->next, 1)) < all->job->nuuids)
        calls_destroy(all->host->conn, all->job->uuids[i], NULL, &all->job->failures[i]);
    return NULL;
}

static int do_destroy_all(struct host *host, struct job *job, struct vt_error *err)
{
    struct destroying all = {.host = host, .job = job};
    pthread_t threads[HOST_DESTROY_AT_ONCE - 1];
    size_t n = 0;

    job->failures = calloc(job->nuuids, sizeof(*job->failures));
    if (!job->failures)
        return vt_error_no_memory(err, "destroy domains");
    while (n < VT_COUNT(threads) && n + 1 < job->nuuids &&
           pthread_create(&threads[n], NULL, destroy_some, &all) == 0)
        n++;
    destroy_some(&all);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    for (size_t i = 0; i < job->nuuids; i++)
        if (job->failures[i].kind == VT_KIND_NONE)
            forget_started(host, job->uuids[i]);
    job->reply.failures = job->failures;
    return 0;
}

static int do_list(struct host *host, struct job *job, struct vt_error *err)
{
    int code = calls_list(host->conn, job->text, &job->domains, &job->reply.ndomains, err);

    job->reply.domains = job->domains;
    return code;
}

static int do_stats(struct host *host, struct job *job, struct vt_error *err)
{
    char(*uuids)[37] = calloc(host->nstarted + 1, sizeof(*uuids));

    if (!uuids)
        return vt_error_no_memory(err, "statistics");
    for (size_t i = 0; i < host->nstarted; i++)
        memcpy(uuids[i], host->started[i].uuid, sizeof(uuids[i]));
    int code = calls_stats(host->conn, job->groups, (const char(*)[37])uuids, host->nstarted,
                           &job->stats, &job->reply.nstats, err);
    free(uuids);
    job->reply.stats = job->stats;
    return code;
}

static int do_facts(struct host *host, struct job *job, struct vt_error *err)
{
    job->facts = calloc(1, sizeof(*job->facts));
    if (!job->facts)
        return vt_error_no_memory(err, "facts of the host");
    job->reply.facts = job->facts;
    return calls_facts(host->conn, host->uri, job->facts, err);
}

/* Also for a host that never opened. */
static int do_close(struct host *host, struct job *job, struct vt_error *err)
{
    (void)job;
    (void)err;
    if (host->conn)
        calls_unwatch(host->conn, host->watch_id);
    calls_close(host->conn);
    host->conn = NULL;
    return 0;
}

static int (*const job_doers[])(struct host *, struct job *, struct vt_error *) = {
    do_open, do_start, do_destroy, do_destroy_all, do_list, do_stats, do_facts, do_close,
};

/* Returns false when the host was lost meanwhile: the worker goes without a word. */
static bool run_job(struct host *host, struct job *job)
{
    bool lost;

    job->reply.code = job->kind != JOB_OPEN && job->kind != JOB_CLOSE && !host->conn
                          ? vt_error_set(&job->reply.err, VT_KIND_INFRA, -EHOSTDOWN,
                                         "host %s is not open", host->uri)
                          : job_doers[job->kind](host, job, &job->reply.err);
    job->reply.queued_ns = job->started_ns - job->queued_ns;
    job->reply.took_ns = vt_clock_now_ns() - job->started_ns;
    pthread_mutex_lock(&host->lock);
    host->current = NULL;
    lost = host->lost;
    if (!lost && job->kind != JOB_CLOSE) {
        job_list_add(&host->finished, job);
        job = NULL;
        uv_async_send(&host->async);
    }
    pthread_mutex_unlock(&host->lock);
    job_free(job);
    return !lost;
}

static void *work(void *ctx)
{
    struct host *host = ctx;
    bool alive = true, closed = false;

    atomic_store(&host->thread_id, gettid());
    calls_tell(&host->call);
    while (alive && !closed) {
        pthread_mutex_lock(&host->lock);
        while (!host->queue.first)
            pthread_cond_wait(&host->wake, &host->lock);
        struct job *job = job_list_take(&host->queue);
        closed = job->kind == JOB_CLOSE;
        host->nqueued--;
        job->started_ns = vt_clock_now_ns();
        host->current = job;
        uv_async_send(&host->async); /* the loop arms the deadline */
        pthread_mutex_unlock(&host->lock);
        alive = run_job(host, job);
    }
    pthread_mutex_lock(&host->lock);
    host->exited = true;
    if (!host->lost)
        uv_async_send(&host->async);
    pthread_mutex_unlock(&host->lock);
    /* Lost, its connection was never closed: libvirt may still tell of domains that end, and a call
     * on a host that is gone would follow. */
    if (closed || host->watch_id < 0)
        host_unref(host);
    return NULL;
}

int worker_start(struct host *host)
{
    return vt_thread_start(&host->thread, work, host);
}
