/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

struct worker {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct worker_job *waiting, *ended; /* under lock; in order */
    unsigned nwaiting;
    atomic_bool stopping;
    uv_async_t tell;
};

static void append(struct worker_job **list, struct worker_job *job)
{
    job->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = job;
}

static struct worker_job *take_first(struct worker_job **list)
{
    struct worker_job *job = *list;
    if (job)
        *list = job->next;
    return job;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct worker_job *job = NULL;
        while (!atomic_load(&w->stopping) && !(job = take_first(&w->waiting)))
            pthread_cond_wait(&w->wake, &w->lock);
        if (!job)
            break;
        w->nwaiting--;
        pthread_mutex_unlock(&w->lock);
        job->run(job);
        pthread_mutex_lock(&w->lock);
        append(&w->ended, job);
        uv_async_send(&w->tell);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void on_tell(uv_async_t *tell)
{
    struct worker *w = tell->data;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        struct worker_job *job = take_first(&w->ended);
        pthread_mutex_unlock(&w->lock);
        if (!job)
            return;
        job->done(job);
    }
}

int worker_new(struct vt_loop *loop, struct worker **ret, struct vt_error *err)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return vt_error_no_memory(err, "make a worker");
    int rc = uv_async_init(&loop->uv, &w->tell, on_tell);
    if (rc < 0) {
        free(w);
        return vt_error_set(err, VT_KIND_INFRA, rc, "make a worker: %s", uv_strerror(rc));
    }
    w->tell.data = w;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    *ret = w;
    return 0;
}

int worker_submit(struct worker *w, struct worker_job *job, struct vt_error *err)
{
    if (!w->started) {
        int rc = vt_thread_start(&w->thread, work, w);
        if (rc != 0)
            return vt_error_errno(err, VT_KIND_INFRA, rc, "start a worker");
        w->started = true;
    }
    pthread_mutex_lock(&w->lock);
    bool full = w->nwaiting >= WORKER_JOBS_MAX;
    if (!full) {
        append(&w->waiting, job);
        w->nwaiting++;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    return full ? vt_error_set(err, VT_KIND_INFRA, -EBUSY, "%d jobs are waiting already",
                               WORKER_JOBS_MAX)
                : 0;
}

bool worker_stopping(const struct worker *w)
{
    return atomic_load(&w->stopping);
}

static void on_tell_closed(uv_handle_t *handle)
{
    struct worker *w = handle->data;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    free(w);
}

void worker_close(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->stopping, true);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->started)
        pthread_join(w->thread, NULL);
    struct worker_job *job;
    while ((job = take_first(&w->ended)) || (job = take_first(&w->waiting)))
        job->drop(job);
    uv_close((uv_handle_t *)&w->tell, on_tell_closed);
}
