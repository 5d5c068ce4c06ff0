/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/part.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/scope.h"
#include "base/thread.h"
#include "tiles/load/closed.h"

struct part {
    const struct part_config *config;
    struct schedule schedule; /* open loop */
    struct spec_load load;
    pthread_t thread;
    /* the thread's */
    struct vt_loop loop;
    uv_async_t kick;       /* there is something to do: go or stop */
    struct engine *engine; /* one of these */
    struct closed *closed;
    int64_t cpu_from_ns, delay_from_ns;

    pthread_mutex_t lock; /* of all below */
    enum part_state state;
    struct vt_error err;
    int64_t t0_ns; /* 0: not yet */
    bool stop;
    struct load_tally recent;
    /* Of the newest second that something was counted in: an end may come before it is whole. */
    struct load_tally held;
    int64_t held_second, end_second; /* end: from here on nothing counts */
    struct part_result result;
};

/* --- counting --- */

/* Where a request of that second counts; NULL: nowhere. */
static struct load_tally *tally_of(struct part *p, int64_t second)
{
    if (second >= p->end_second || second < p->config->options->warm_up_ns / VT_NS_PER_S)
        return NULL;
    if (second < p->held_second)
        return &p->result.tally;
    if (second > p->held_second) {
        load_tally_merge(&p->result.tally, &p->held);
        load_tally_init(&p->held);
        p->held_second = second;
    }
    return &p->held;
}

static void on_second(void *ctx, const struct vt_load_second *second)
{
    struct part *p = ctx;
    struct load_tally *tally;

    pthread_mutex_lock(&p->lock);
    load_tally_add_second(&p->recent, second);
    if ((tally = tally_of(p, second->second)))
        load_tally_add_second(tally, second);
    pthread_mutex_unlock(&p->lock);
}

static void add_request(struct load_tally *tally, const struct closed_request *request)
{
    tally->intended++;
    tally->good += request->outcome == CLOSED_RIGHT;
    tally->wrong += request->outcome == CLOSED_WRONG;
    tally->failed += request->outcome == CLOSED_FAILED;
    tally->bytes += request->bytes;
    if (request->outcome == CLOSED_RIGHT)
        vt_hist_record(&tally->service, request->service_ns);
}

static void on_request(void *ctx, const struct closed_request *request)
{
    struct part *p = ctx;
    struct load_tally *tally;

    pthread_mutex_lock(&p->lock);
    add_request(&p->recent, request);
    if ((tally = tally_of(p, request->second)))
        add_request(tally, request);
    pthread_mutex_unlock(&p->lock);
}

static int64_t thread_cpu_ns(void)
{
    struct timespec at;

    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) < 0 ? 0
                                                           : at.tv_sec * VT_NS_PER_S + at.tv_nsec;
}

/* proc(5), schedstat: the second number. -1 where the kernel keeps none. */
static int64_t thread_delay_ns(void)
{
    char line[96] = "";
    long long delay_ns = -1;
    VT_AUTO_CLOSE int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, line, sizeof line - 1) <= 0 || sscanf(line, "%*d %lld", &delay_ns) != 1)
        return -1;
    return delay_ns;
}

/* --- the thread --- */

static void tell(struct part *p, enum part_state state, const struct vt_error *err)
{
    const uint64_t one = 1;
    int told_fd = p->config->told_fd;

    pthread_mutex_lock(&p->lock);
    p->state = state;
    if (err)
        p->err = *err;
    pthread_mutex_unlock(&p->lock);
    if (write(told_fd, &one, sizeof one) < 0)
        return; /* the counter is full: told anyway */
}

/* Nothing is left to be done; uv_run returns once it is closed. */
static void close_all(struct part *p)
{
    p->engine = engine_free(p->engine);
    p->closed = closed_free(p->closed);
    uv_close((uv_handle_t *)&p->kick, NULL);
}

static void on_opened(void *ctx, int status, const struct vt_error *err)
{
    struct part *p = ctx;

    tell(p, status < 0 ? PART_ENDED : PART_OPEN, status < 0 ? err : NULL);
    if (status < 0)
        close_all(p);
}

static void on_finished(void *ctx, const struct engine_totals *totals)
{
    struct part *p = ctx;
    int64_t delay_ns = thread_delay_ns();

    pthread_mutex_lock(&p->lock);
    p->result.totals = *totals;
    p->result.cpu_ns = thread_cpu_ns() - p->cpu_from_ns;
    p->result.run_delay_ns = delay_ns < 0 ? -1 : delay_ns - p->delay_from_ns;
    if (p->held_second < p->end_second)
        load_tally_merge(&p->result.tally, &p->held);
    pthread_mutex_unlock(&p->lock);
    tell(p, PART_ENDED, NULL);
    close_all(p);
}

static const struct engine_events open_events = {
    .opened = on_opened, .second = on_second, .finished = on_finished};
static const struct closed_events closed_events = {
    .opened = on_opened, .ended = on_request, .finished = on_finished};

static int start(struct part *p, int64_t t0_ns, struct vt_error *err)
{
    p->cpu_from_ns = thread_cpu_ns();
    p->delay_from_ns = thread_delay_ns();
    return p->engine ? engine_start(p->engine, t0_ns, err) : closed_start(p->closed, t0_ns, err);
}

static void on_kick(uv_async_t *kick)
{
    struct part *p = kick->data;
    struct vt_error err = VT_ERROR_INIT;

    pthread_mutex_lock(&p->lock);
    int64_t t0_ns = p->t0_ns;
    bool stop = p->stop, go = p->state == PART_OPEN && t0_ns > 0;
    if (go)
        p->state = PART_RUNNING;
    pthread_mutex_unlock(&p->lock);
    if (go && start(p, t0_ns, &err) < 0) {
        tell(p, PART_ENDED, &err);
        close_all(p);
    } else if (stop && p->engine) {
        engine_stop(p->engine);
    } else if (stop && p->closed) {
        closed_stop(p->closed);
    }
}

static void *run(void *ctx)
{
    struct part *p = ctx;

    if (p->engine)
        engine_open(p->engine);
    else
        closed_open(p->closed);
    uv_run(&p->loop.uv, UV_RUN_DEFAULT);
    return NULL;
}

/* --- for the thread that made it --- */

static int make_closed(struct part *p, uint32_t connections, struct vt_error *err)
{
    const struct load_options *o = p->config->options;
    const struct closed_config config = {
        .driver = p->config->driver,
        .target = *p->config->target,
        .tls = p->config->tls,
        .connections = connections,
        .timeout_ns = o->timeout_ns,
        .think_ns = o->think_ns,
        .length_ns = o->warm_up_ns + o->duration_ns,
    };

    return closed_new(&p->loop, &config, &closed_events, p, &p->closed, err);
}

static int make_engine(struct part *p, uint32_t connections, struct vt_error *err)
{
    const struct load_options *o = p->config->options;

    p->load = (struct spec_load){
        .connections = connections, .timeout_ns = o->timeout_ns, .good_limit_ns = o->timeout_ns};
    const struct engine_config config = {
        .driver = p->config->driver,
        .load = &p->load,
        .schedule = &p->schedule,
        .target = *p->config->target,
        .tls = p->config->tls,
        .drain_ns = o->timeout_ns,
        .window_ns = o->warm_up_ns + o->duration_ns,
    };
    return engine_new(&p->loop, &config, &open_events, p, &p->engine, err);
}

static int start_thread(struct part *p, uint32_t connections, struct vt_error *err)
{
    int code = uv_async_init(&p->loop.uv, &p->kick, on_kick);

    if (code < 0)
        return vt_error_errno(err, VT_KIND_INFRA, -code, "make a thread's loop");
    p->kick.data = p;
    if (p->config->options->closed)
        code = make_closed(p, connections, err);
    else
        code = make_engine(p, connections, err);
    if (code < 0)
        return code;
    code = vt_thread_start(&p->thread, run, p);
    return code == 0 ? 0 : vt_error_errno(err, VT_KIND_INFRA, code, "start a thread");
}

static void dispose(struct part *p)
{
    schedule_dispose(&p->schedule);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int part_begin(const struct part_config *config, uint32_t connections, struct schedule *schedule,
               struct part **ret, struct vt_error *err)
{
    struct part *p = calloc(1, sizeof *p);
    int code;

    if (!p) {
        if (schedule)
            schedule_dispose(schedule);
        return vt_error_no_memory(err, "a thread of the load");
    }
    p->config = config;
    p->end_second = INT64_MAX;
    p->held_second = -1;
    if (schedule) {
        p->schedule = *schedule;
        *schedule = (struct schedule){0};
    }
    load_tally_init(&p->recent);
    load_tally_init(&p->held);
    load_tally_init(&p->result.tally);
    pthread_mutex_init(&p->lock, NULL);
    if ((code = vt_loop_init(&p->loop, err)) == 0 &&
        (code = start_thread(p, connections, err)) < 0) {
        p->engine = engine_free(p->engine);
        p->closed = closed_free(p->closed);
        vt_loop_dispose(&p->loop);
    }
    if (code < 0)
        dispose(p);
    else
        *ret = p;
    return code;
}

enum part_state part_look(struct part *p, const struct vt_error **ret_err)
{
    pthread_mutex_lock(&p->lock);
    enum part_state state = p->state;
    if (p->err.kind != VT_KIND_NONE)
        *ret_err = &p->err; /* it has ended: nobody writes there any more */
    pthread_mutex_unlock(&p->lock);
    return state;
}

void part_go(struct part *p, int64_t t0_ns)
{
    pthread_mutex_lock(&p->lock);
    p->t0_ns = t0_ns;
    if (p->state != PART_ENDED)
        uv_async_send(&p->kick);
    pthread_mutex_unlock(&p->lock);
}

void part_stop(struct part *p, int64_t from_second)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    if (p->end_second > from_second)
        p->end_second = from_second;
    if (p->state != PART_ENDED)
        uv_async_send(&p->kick);
    pthread_mutex_unlock(&p->lock);
}

void part_take_recent(struct part *p, struct load_tally *into)
{
    pthread_mutex_lock(&p->lock);
    load_tally_merge(into, &p->recent);
    load_tally_init(&p->recent);
    pthread_mutex_unlock(&p->lock);
}

struct part *part_end(struct part *p, struct part_result *ret)
{
    pthread_join(p->thread, NULL);
    vt_loop_dispose(&p->loop);
    if (ret)
        *ret = p->result;
    dispose(p);
    return NULL;
}
