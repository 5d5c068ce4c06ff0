/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side of a host; functions stand in the order in which things happen. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/stuck.h"
#include "orchestrator/host/worker.h"

static void on_handle_closed(uv_handle_t *handle)
{
    struct host *host = handle->data;

    if (--host->handles)
        return;
    if (host->closed)
        host->closed(host->closed_ctx);
    host_unref(host);
}

static void finish_closing(struct host *host)
{
    if (host->finished_closing)
        return;
    host->finished_closing = true;
    host->state = HOST_CLOSED;
    uv_close((uv_handle_t *)&host->async, on_handle_closed);
    uv_close((uv_handle_t *)&host->timer, on_handle_closed);
}

/* An idle host does not keep the loop running. */
static void hold_loop(struct host *host)
{
    if (uv_is_closing((uv_handle_t *)&host->async))
        return;
    if (host->outstanding || host->closing)
        uv_ref((uv_handle_t *)&host->async);
    else
        uv_unref((uv_handle_t *)&host->async);
}

static void deliver(struct host *host, struct job *job)
{
    if (job->kind == JOB_OPEN && host->state == HOST_OPENING) {
        host->state = job->reply.code == 0 ? HOST_OPEN : HOST_FAILED;
        host->info = job->info;
    }
    host->outstanding--;
    job->done(host, job->ctx, &job->reply);
    job_free(job);
}

/* All queued jobs as finished with a code; under the lock. The closing job stays. */
static void fail_queued_locked(struct host *host, int code, const char *why)
{
    struct job_list queue = host->queue;

    if (!queue.first)
        return;
    job_list_init(&host->queue);
    host->nqueued = 0;
    while (queue.first) {
        struct job *job = queue.first;
        queue.first = job->next;
        if (job->kind == JOB_CLOSE) {
            job_list_add(&host->queue, job);
            host->nqueued++;
            continue;
        }
        job->reply.code =
            vt_error_set(&job->reply.err, VT_KIND_INFRA, code, "host %s %s", host->uri, why);
        job_list_add(&host->finished, job);
    }
}

static void deliver_finished(struct host *host)
{
    struct job *job;

    do {
        pthread_mutex_lock(&host->lock);
        job = job_list_take(&host->finished);
        pthread_mutex_unlock(&host->lock);
        if (job)
            deliver(host, job);
    } while (job);
}

static void on_deadline(uv_timer_t *timer);

/* The embedded driver waits without end for the answers of an emulator that it probes. One that
 * hangs is ended before the time is over, so that the driver goes on and asks again. */
static bool has_probes_to_end(const struct host *host)
{
    return host->current->kind == JOB_OPEN && embed_root_of(host->uri) && !host->probes_ended;
}

/* When there is something to do about the job that runs. */
static int64_t due_ns(const struct host *host)
{
    const struct job *job = host->current;
    bool probes_first = has_probes_to_end(host) && job->limit_ns > HOST_PROBE_PATIENCE_NS;

    return job->started_ns + (probes_first ? HOST_PROBE_PATIENCE_NS : job->limit_ns);
}

/* Arms the timer for the job that runs; without one it is stopped. */
static void arm_deadline(struct host *host)
{
    int64_t left_ns = -1;

    if (uv_is_closing((uv_handle_t *)&host->timer))
        return;
    pthread_mutex_lock(&host->lock);
    if (host->current && !host->lost) {
        left_ns = due_ns(host) - vt_clock_now_ns();
        if (left_ns < 0)
            left_ns = 0;
    }
    pthread_mutex_unlock(&host->lock);
    if (left_ns < 0) {
        uv_timer_stop(&host->timer);
        return;
    }
    uv_update_time(&host->loop->uv);
    uv_timer_start(&host->timer, on_deadline, (uint64_t)(left_ns / VT_NS_PER_MS + 1), 0);
}

/* "is lost: opening had no answer within 120.0 s, in virConnectOpen, ..." */
static void describe_loss(struct host *host, const struct job *job, char *ret, size_t size)
{
    const char *call = atomic_load(&host->call);
    char stuck[STUCK_TEXT_MAX];

    stuck_describe(call ? call : "", atomic_load(&host->thread_id), embed_root_of(host->uri), stuck,
                   sizeof(stuck));
    snprintf(ret, size, "is lost: %s had no answer within %.1f s, %s", job_name(job->kind),
             (double)job->limit_ns / (double)VT_NS_PER_S, stuck);
}

static void on_deadline(uv_timer_t *timer)
{
    struct host *host = timer->data;
    struct job missed = {0};
    int64_t now = vt_clock_now_ns();
    char why[STUCK_TEXT_MAX + 128];

    pthread_mutex_lock(&host->lock);
    struct job *current = host->current;
    if (!current || host->lost || now < due_ns(host)) {
        pthread_mutex_unlock(&host->lock);
        arm_deadline(host);
        return;
    }
    if (now < current->started_ns + current->limit_ns) {
        host->probes_ended = true;
        pthread_mutex_unlock(&host->lock);
        embed_end_probes(embed_root_of(host->uri));
        arm_deadline(host);
        return;
    }
    host->lost = true; /* from here on the worker touches neither handles nor lists */
    missed.kind = current->kind;
    missed.done = current->done;
    missed.ctx = current->ctx;
    missed.reply.took_ns = now - current->started_ns;
    missed.reply.queued_ns = current->started_ns - current->queued_ns;
    describe_loss(host, current, why, sizeof(why));
    fail_queued_locked(host, -EHOSTDOWN, why);
    pthread_mutex_unlock(&host->lock);

    pthread_detach(host->thread);
    host->state = HOST_LOST;
    if (missed.kind != JOB_CLOSE) {
        missed.reply.code = vt_error_set(&missed.reply.err, VT_KIND_INFRA, -ETIMEDOUT, "host %s %s",
                                         host->uri, why);
        host->outstanding--;
        missed.done(host, missed.ctx, &missed.reply);
    }
    deliver_finished(host);
    if (host->closing)
        finish_closing(host);
    hold_loop(host);
}

static void on_async(uv_async_t *async)
{
    struct host *host = async->data;

    deliver_finished(host);
    pthread_mutex_lock(&host->lock);
    bool exited = host->exited && !host->lost;
    pthread_mutex_unlock(&host->lock);
    if (exited && !host->finished_closing) {
        pthread_join(host->thread, NULL);
        finish_closing(host);
    }
    arm_deadline(host);
    hold_loop(host);
}

static int submit(struct host *host, struct job *job, struct vt_error *err)
{
    int code = 0;

    if (host->closing)
        code = vt_error_set(err, VT_KIND_INFRA, -ESHUTDOWN, "host %s is being closed", host->uri);
    else if (host->state != HOST_OPENING && host->state != HOST_OPEN)
        code = vt_error_set(err, VT_KIND_INFRA, -EHOSTDOWN, "host %s is %s", host->uri,
                            host->state == HOST_LOST ? "lost" : "not open");
    if (code == 0) {
        pthread_mutex_lock(&host->lock);
        if (host->nqueued >= HOST_QUEUE_MAX) {
            code = vt_error_set(err, VT_KIND_INFRA, -EBUSY, "host %s has %d jobs waiting",
                                host->uri, HOST_QUEUE_MAX);
        } else {
            job->queued_ns = vt_clock_now_ns();
            job_list_add(&host->queue, job);
            host->nqueued++;
            pthread_cond_signal(&host->wake);
        }
        pthread_mutex_unlock(&host->lock);
    }
    if (code < 0) {
        job_free(job);
        return code;
    }
    host->outstanding++;
    hold_loop(host);
    return 0;
}

int host_open(struct vt_loop *loop, const struct host_settings *settings, host_done opened,
              void *ctx, struct host **ret, struct vt_error *err)
{
    struct host *host = calloc(1, sizeof(*host));
    struct job *job;
    int rc;

    if (!host)
        return vt_error_no_memory(err, "open host %s", settings->uri);
    if (!vt_text_copy(host->uri, sizeof(host->uri), settings->uri)) {
        free(host);
        return vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "the host's URI is too long");
    }
    host->open_limit_ns =
        settings->open_deadline_ns ? settings->open_deadline_ns : HOST_OPEN_DEADLINE_NS;
    host->limit_ns = settings->deadline_ns ? settings->deadline_ns : HOST_DEADLINE_NS;
    host->loop = loop;
    host->stopped = settings->stopped;
    host->stopped_ctx = settings->ctx;
    host->watch_id = -1;
    host->refs = 2;
    job_list_init(&host->queue);
    job_list_init(&host->finished);
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->wake, NULL);
    job = job_new(host, JOB_OPEN, NULL, opened, ctx, err);
    host->close_job = job_new(host, JOB_CLOSE, NULL, NULL, NULL, err);
    if (!job || !host->close_job) {
        job_free(job);
        host->refs = 1;
        host_unref(host);
        return -ENOMEM;
    }
    rc = uv_async_init(&loop->uv, &host->async, on_async);
    if (rc < 0) {
        job_free(job);
        host->refs = 1;
        host_unref(host);
        return vt_error_errno(err, VT_KIND_INFRA, -rc, "open host %s", settings->uri);
    }
    uv_timer_init(&loop->uv, &host->timer);
    host->async.data = host->timer.data = host;
    host->handles = 2;
    host->state = HOST_OPENING;
    submit(host, job, NULL); /* takes any first job */
    rc = worker_start(host);
    if (rc > 0) {
        host->outstanding--;
        job_list_take(&host->queue);
        job_free(job);
        host->refs = 1;
        finish_closing(host); /* frees */
        return vt_error_errno(err, VT_KIND_INFRA, rc, "open host %s: no thread", settings->uri);
    }
    *ret = host;
    return 0;
}

int host_define_start(struct host *host, const char *xml, host_done done, void *ctx,
                      struct vt_error *err)
{
    struct job *job = job_new(host, JOB_START, xml, done, ctx, err);

    return job ? submit(host, job, err) : -ENOMEM;
}

int host_destroy(struct host *host, const char *name_or_uuid, const struct xml_mark *mark,
                 host_done done, void *ctx, struct vt_error *err)
{
    struct job *job = job_new(host, JOB_DESTROY, name_or_uuid, done, ctx, err);

    if (!job)
        return -ENOMEM;
    if (mark) {
        job->mark = *mark;
        job->has_mark = true;
    }
    return submit(host, job, err);
}

int host_destroy_all(struct host *host, const char (*uuids)[37], size_t n, host_done done,
                     void *ctx, struct vt_error *err)
{
    struct job *job = job_new(host, JOB_DESTROY_ALL, NULL, done, ctx, err);

    if (!job)
        return -ENOMEM;
    job->uuids = calloc(n + 1, sizeof(*job->uuids));
    if (!job->uuids) {
        job_free(job);
        return vt_error_no_memory(err, "destroy domains");
    }
    memcpy(job->uuids, uuids, n * sizeof(*uuids));
    job->nuuids = n;
    job->limit_ns *= (int64_t)(n / HOST_DESTROY_AT_ONCE) + 1;
    return submit(host, job, err);
}

int host_list_ours(struct host *host, const char *controller, host_done done, void *ctx,
                   struct vt_error *err)
{
    struct job *job = job_new(host, JOB_LIST, controller, done, ctx, err);

    return job ? submit(host, job, err) : -ENOMEM;
}

int host_stats(struct host *host, unsigned groups, host_done done, void *ctx, struct vt_error *err)
{
    struct job *job = job_new(host, JOB_STATS, NULL, done, ctx, err);

    if (!job)
        return -ENOMEM;
    job->groups = groups;
    return submit(host, job, err);
}

int host_ask_facts(struct host *host, host_done done, void *ctx, struct vt_error *err)
{
    struct job *job = job_new(host, JOB_FACTS, NULL, done, ctx, err);

    return job ? submit(host, job, err) : -ENOMEM;
}

enum host_state host_state(const struct host *host)
{
    return host->state;
}

const struct host_info *host_info(const struct host *host)
{
    return &host->info;
}

void host_close(struct host *host, void (*closed)(void *ctx), void *ctx)
{
    assert(!host->closing);
    host->closing = true;
    host->closed = closed;
    host->closed_ctx = ctx;
    if (host->state == HOST_LOST) {
        finish_closing(host);
        return;
    }
    pthread_mutex_lock(&host->lock);
    fail_queued_locked(host, -ECANCELED, "is being closed");
    job_list_add(&host->queue, host->close_job);
    host->close_job = NULL;
    host->nqueued++;
    pthread_cond_signal(&host->wake);
    pthread_mutex_unlock(&host->lock);
    uv_async_send(&host->async);
    hold_loop(host);
}
