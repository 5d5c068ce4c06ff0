/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker: what a host's two threads share: the loop's side (host.c) and the worker that calls
 * libvirt (worker.c). The worker takes jobs from the queue one by one and puts them on the finished
 * list; the loop's thread delivers them and watches the deadline of the one that runs. When a
 * deadline passes, the job stays with the worker, its answer is given by the loop, and the host is
 * lost: from then on the worker touches neither handles nor lists.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_WORKER_H
#define VTILE_ORCHESTRATOR_HOST_WORKER_H

#include <libvirt/libvirt.h>
#include <pthread.h>

#include "orchestrator/host/host.h"

enum job_kind {
    JOB_OPEN,
    JOB_START,
    JOB_DESTROY,
    JOB_DESTROY_ALL,
    JOB_LIST,
    JOB_STATS,
    JOB_FACTS,
    JOB_CLOSE
};

struct job {
    enum job_kind kind;
    /* caller fills */
    char *text; /* XML, or a domain's name or UUID, or a controller */
    struct xml_mark mark;
    bool has_mark;
    unsigned groups;
    char (*uuids)[37]; /* of destroy_all */
    size_t nuuids;
    host_done done;
    void *ctx;
    int64_t limit_ns;
    /* under the host's lock */
    int64_t queued_ns, started_ns;
    /* the worker's until finished */
    struct host_reply reply;
    struct host_info info;
    struct host_domain *domains;
    struct host_stat *stats;
    struct host_facts *facts;
    struct vt_error *failures;
    struct job *next;
};
struct job_list {
    struct job *first, **end;
};

struct host {
    char uri[VT_PATH_MAX];
    int64_t open_limit_ns, limit_ns;

    /* the loop's thread */
    struct vt_loop *loop;
    uv_async_t async;
    uv_timer_t timer;
    unsigned handles;
    enum host_state state;
    struct host_info info;
    size_t outstanding; /* jobs whose done has not been called */
    bool closing, finished_closing;
    bool probes_ended; /* those that hung while the host was opened */
    void (*stopped)(void *ctx, const char *uuid);
    void *stopped_ctx;
    void (*closed)(void *ctx);
    void *closed_ctx;
    pthread_t thread;
    struct job *close_job; /* made at the beginning: closing must not fail */

    /* both, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct job_list queue, finished;
    size_t nqueued;
    struct job *current;
    bool lost, exited;
    unsigned refs; /* the loop's side and the worker's */

    /* the worker writes, the loop's side reads when a deadline has passed */
    _Atomic(const char *) call; /* into libvirt, NULL between two */
    _Atomic(pid_t) thread_id;   /* the kernel's */

    /* the worker */
    virConnectPtr conn;
    int watch_id;                /* -1: none */
    struct host_domain *started; /* running domains that this host started */
    size_t nstarted;
};

void job_list_init(struct job_list *list);
void job_list_add(struct job_list *list, struct job *job);
struct job *job_list_take(struct job_list *list); /* NULL when empty */

/* text is copied. */
struct job *job_new(struct host *host, enum job_kind kind, const char *text, host_done done,
                    void *ctx, struct vt_error *err);
void job_free(struct job *job);
const char *job_name(enum job_kind kind); /* "starting a domain" */

/* Starts the thread; 0 or a positive errno. */
int worker_start(struct host *host);
/* Drops one of the two references; the last frees the host. */
void host_unref(struct host *host);

#endif
