/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cert_file.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/scope.h"
#include "base/scope_openssl.h"
#include "base/text.h"
#include "base/thread.h"
#include "tiles/load/closed.h"

/* From the moment that all connections are open to T0. */
#define LEAD_NS (20 * VT_NS_PER_MS)
#define PROGRESS_MS 1000

enum part_state { PART_OPENING, PART_OPEN, PART_RUNNING, PART_ENDED };

struct drive;
/* What one thread drives. */
struct part {
    struct drive *drive;
    pthread_t thread;
    uint32_t connections;
    struct schedule schedule; /* open */
    struct spec_load load;
    /* the thread's */
    struct vt_loop loop;
    uv_async_t kick;
    struct engine *engine; /* of these one */
    struct closed *closed;
    int64_t cpu_from_ns, delay_from_ns;
    /* under the drive's lock */
    enum part_state state;
    struct vt_error err; /* of one that has ended */
};

struct drive {
    const struct load_options *options;
    const struct driver *driver;
    struct driver_target target;
    SSL_CTX *tls;
    struct part *parts;
    unsigned nparts;
    int told_fd; /* a part's state has changed */
    /* under the lock */
    pthread_mutex_t lock;
    int64_t t0_ns; /* 0: not yet */
    bool stop;
    struct load_tally recent;
    struct load_result result;
};

/* --- a part's thread --- */

static void tell(struct part *p, enum part_state state, const struct vt_error *err)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&p->drive->lock);
    p->state = state;
    if (err)
        p->err = *err;
    pthread_mutex_unlock(&p->drive->lock);
    if (write(p->drive->told_fd, &one, sizeof one) < 0)
        return; /* the counter is full: told anyway */
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

static void add_second(struct load_tally *tally, const struct vt_load_second *second)
{
    tally->intended += second->intended;
    tally->good += second->good + second->slow;
    tally->wrong += second->wrong;
    tally->failed += second->failed;
    tally->bytes += second->bytes;
    vt_hist_merge(&tally->response, second->response);
    vt_hist_merge(&tally->service, second->service);
    vt_hist_merge(&tally->wake_lag, second->wake_lag);
}

static void close_part(struct part *p)
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
        close_part(p);
}

static void on_second(void *ctx, const struct vt_load_second *second)
{
    struct part *p = ctx;
    struct drive *d = p->drive;

    pthread_mutex_lock(&d->lock);
    add_second(&d->recent, second);
    if (second->second >= d->options->warm_up_ns / VT_NS_PER_S)
        add_second(&d->result.tally, second);
    pthread_mutex_unlock(&d->lock);
}

static void on_finished(void *ctx, const struct engine_totals *totals)
{
    struct part *p = ctx;
    struct load_result *result = &p->drive->result;
    int64_t cpu_ns = thread_cpu_ns() - p->cpu_from_ns, delay_ns = thread_delay_ns();

    pthread_mutex_lock(&p->drive->lock);
    result->connections_opened += totals->connections_opened;
    result->connections_failed += totals->connections_failed;
    result->early += totals->early;
    result->all_requests += totals->intended;
    if (totals->queue_high > result->queue_high)
        result->queue_high = totals->queue_high;
    if (!result->first_failure[0])
        vt_text_copy(result->first_failure, sizeof result->first_failure, totals->first_failure);
    result->cpu_ns += cpu_ns;
    if (delay_ns < 0 || result->run_delay_ns < 0)
        result->run_delay_ns = -1;
    else
        result->run_delay_ns += delay_ns - p->delay_from_ns;
    pthread_mutex_unlock(&p->drive->lock);
    tell(p, PART_ENDED, NULL);
    close_part(p);
}

static const struct engine_events events = {
    .opened = on_opened, .second = on_second, .finished = on_finished};

static int start_part(struct part *p, int64_t t0_ns, struct vt_error *err)
{
    p->cpu_from_ns = thread_cpu_ns();
    p->delay_from_ns = thread_delay_ns();
    return p->engine ? engine_start(p->engine, t0_ns, err) : closed_start(p->closed, t0_ns, err);
}

/* The main thread has set T0 or wants an end. */
static void on_kick(uv_async_t *kick)
{
    struct part *p = kick->data;
    struct vt_error err = VT_ERROR_INIT;

    pthread_mutex_lock(&p->drive->lock);
    int64_t t0_ns = p->drive->t0_ns;
    bool stop = p->drive->stop, open = p->state == PART_OPEN;
    if (open && t0_ns)
        p->state = PART_RUNNING;
    pthread_mutex_unlock(&p->drive->lock);
    if (open && t0_ns && start_part(p, t0_ns, &err) < 0) {
        tell(p, PART_ENDED, &err);
        close_part(p);
    } else if (stop && p->engine) {
        engine_stop(p->engine);
    } else if (stop && p->closed) {
        closed_stop(p->closed);
    }
}

static void *run_part(void *ctx)
{
    struct part *p = ctx;

    if (p->engine)
        engine_open(p->engine);
    else
        closed_open(p->closed);
    uv_run(&p->loop.uv, UV_RUN_DEFAULT);
    return NULL;
}

/* --- the main thread --- */

static int make_engine(struct part *p, struct vt_error *err)
{
    const struct drive *d = p->drive;
    const struct load_options *o = d->options;
    int64_t length_ns = o->warm_up_ns + o->duration_ns;

    if (o->closed) {
        const struct closed_config config = {
            .driver = d->driver,
            .target = d->target,
            .tls = d->tls,
            .connections = p->connections,
            .timeout_ns = o->timeout_ns,
            .think_ns = o->think_ns,
            .length_ns = length_ns,
        };
        return closed_new(&p->loop, &config, &events, p, &p->closed, err);
    }
    p->load = (struct spec_load){
        .connections = p->connections, .timeout_ns = o->timeout_ns, .good_limit_ns = o->timeout_ns};
    const struct engine_config config = {
        .driver = d->driver,
        .load = &p->load,
        .schedule = &p->schedule,
        .target = d->target,
        .tls = d->tls,
        .drain_ns = o->timeout_ns,
        .window_ns = length_ns,
    };
    return engine_new(&p->loop, &config, &events, p, &p->engine, err);
}

static void wake_part(struct part *p)
{
    pthread_mutex_lock(&p->drive->lock);
    if (p->state != PART_ENDED)
        uv_async_send(&p->kick);
    pthread_mutex_unlock(&p->drive->lock);
}

static void wake_all(struct drive *d)
{
    for (unsigned i = 0; i < d->nparts; i++)
        wake_part(&d->parts[i]);
}

/* d->nparts counts those whose thread runs. */
static int begin_part(struct drive *d, const struct schedule *whole, struct vt_error *err)
{
    const struct load_options *o = d->options;
    uint32_t i = d->nparts, n = (uint32_t)o->threads;
    struct part *p = &d->parts[i];
    int code = 0;

    p->drive = d;
    p->connections = (uint32_t)(o->connections / n + (i < o->connections % n));
    if (!o->closed)
        code = schedule_part(whole, i, n, &p->schedule, err);
    if (code == 0)
        code = vt_loop_init(&p->loop, err);
    if (code < 0)
        return code;
    code = uv_async_init(&p->loop.uv, &p->kick, on_kick);
    if (code < 0)
        code = vt_error_errno(err, VT_KIND_INFRA, -code, "make a thread's loop");
    p->kick.data = p;
    if (code == 0)
        code = make_engine(p, err);
    if (code == 0 && (code = vt_thread_start(&p->thread, run_part, p)) > 0)
        code = vt_error_errno(err, VT_KIND_INFRA, code, "start a thread");
    if (code == 0) {
        d->nparts++;
        return 0;
    }
    p->engine = engine_free(p->engine);
    p->closed = closed_free(p->closed);
    vt_loop_dispose(&p->loop);
    return code;
}

static unsigned count_in(struct drive *d, enum part_state state, const struct vt_error **ret_err)
{
    unsigned n = 0;

    pthread_mutex_lock(&d->lock);
    for (unsigned i = 0; i < d->nparts; i++) {
        n += d->parts[i].state == state;
        if (d->parts[i].err.kind != VT_KIND_NONE)
            *ret_err = &d->parts[i].err; /* of a part that has ended: it stays */
    }
    pthread_mutex_unlock(&d->lock);
    return n;
}

static void stop_all(struct drive *d)
{
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_mutex_unlock(&d->lock);
    wake_all(d);
}

static void show(struct drive *d, load_progress progress, void *ctx, struct load_tally *copy)
{
    pthread_mutex_lock(&d->lock);
    *copy = d->recent;
    memset(&d->recent, 0, offsetof(struct load_tally, response));
    vt_hist_init(&d->recent.response);
    vt_hist_init(&d->recent.service);
    vt_hist_init(&d->recent.wake_lag);
    pthread_mutex_unlock(&d->lock);
    if (progress)
        progress(ctx, vt_clock_now_ns() - d->t0_ns, copy);
}

/* Until all parts have ended. */
static int wait_for_parts(struct drive *d, int signals, load_progress progress, void *ctx,
                          struct vt_error *err)
{
    VT_AUTO_FREE struct load_tally *copy = calloc(1, sizeof *copy);
    struct pollfd fds[] = {{.fd = d->told_fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    const struct vt_error *failed = NULL;
    struct signalfd_siginfo info;
    int64_t shown_ns = vt_clock_now_ns();
    uint64_t told;

    while (copy && count_in(d, PART_ENDED, &failed) < d->nparts) {
        if (failed && !d->stop)
            stop_all(d);
        if (!d->t0_ns && !d->stop && count_in(d, PART_OPEN, &failed) == d->nparts) {
            pthread_mutex_lock(&d->lock);
            d->t0_ns = shown_ns = vt_clock_now_ns() + LEAD_NS;
            pthread_mutex_unlock(&d->lock);
            wake_all(d);
        }
        if (poll(fds, VT_COUNT(fds), PROGRESS_MS / 4) < 0 && errno != EINTR)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "wait for the load");
        if ((fds[0].revents & POLLIN) && read(d->told_fd, &told, sizeof told) < 0 &&
            errno != EAGAIN)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "wait for the load");
        if ((fds[1].revents & POLLIN) && read(signals, &info, sizeof info) == sizeof info) {
            d->result.interrupted = true;
            stop_all(d);
        }
        if (d->t0_ns && vt_clock_now_ns() - shown_ns >= PROGRESS_MS * VT_NS_PER_MS) {
            shown_ns += PROGRESS_MS * VT_NS_PER_MS;
            show(d, progress, ctx, copy);
        }
    }
    if (!copy)
        return vt_error_no_memory(err, "wait for the load");
    count_in(d, PART_ENDED, &failed);
    if (failed && err)
        *err = *failed;
    return failed ? failed->code : 0;
}

static int make_tls(const struct load_options *o, SSL_CTX **ret, struct vt_error *err)
{
    VT_AUTO_OPENSSL(tls) SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

    if (!tls || SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) != 1)
        return vt_cert_openssl_failed(err, "set up TLS");
    if (o->ca && SSL_CTX_load_verify_file(tls, o->ca) != 1) {
        int code = vt_cert_openssl_failed(err, "read certificates of a CA, in PEM,");
        return vt_error_wrap(err, "--ca %.200s", o->ca), code;
    }
    if (!o->ca && SSL_CTX_set_default_verify_paths(tls) != 1)
        return vt_cert_openssl_failed(err, "find the machine's certificates");
    SSL_CTX_set_verify(tls, o->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    *ret = tls;
    tls = NULL;
    return 0;
}

static int prepare(struct drive *d, struct schedule *schedule, struct vt_error *err)
{
    const struct load_options *o = d->options;
    const struct schedule_segment segments[] = {{.length_ns = o->warm_up_ns},
                                                {.length_ns = o->duration_ns}};
    int code = 0;

    d->driver = o->url.tls ? &get_https : &get_http;
    d->parts = calloc((size_t)o->threads, sizeof *d->parts);
    d->told_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!d->parts)
        return vt_error_no_memory(err, "%d threads", (int)o->threads);
    if (d->told_fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make an event descriptor");
    if (d->driver->tls)
        code = make_tls(o, &d->tls, err);
    if (code == 0 && !o->closed)
        code = schedule_draw_apart(d->driver, o->rate, segments, VT_COUNT(segments), o->seed,
                                   "load", schedule, err);
    if (code == 0 && !o->closed)
        vt_text_hex(schedule->hash, sizeof schedule->hash, d->result.schedule_hash);
    return code;
}

static void dispose(struct drive *d)
{
    for (unsigned i = 0; d->parts && i < (unsigned)d->options->threads; i++)
        schedule_dispose(&d->parts[i].schedule);
    free(d->parts);
    if (d->told_fd >= 0)
        close(d->told_fd);
    SSL_CTX_free(d->tls);
    pthread_mutex_destroy(&d->lock);
}

static int run_all(struct drive *d, int signals, load_progress progress, void *ctx,
                   struct vt_error *err)
{
    struct schedule schedule = {0};
    struct vt_error ignored = VT_ERROR_INIT;
    int code = prepare(d, &schedule, err);

    while (code == 0 && d->nparts < (unsigned)d->options->threads)
        code = begin_part(d, &schedule, err);
    if (code < 0)
        stop_all(d);
    if (d->nparts > 0) {
        int waited = wait_for_parts(d, signals, progress, ctx, code == 0 ? err : &ignored);
        code = code < 0 ? code : waited;
    }
    for (unsigned i = 0; i < d->nparts; i++) {
        pthread_join(d->parts[i].thread, NULL);
        vt_loop_dispose(&d->parts[i].loop);
    }
    schedule_dispose(&schedule);
    return code;
}

/* Whole seconds behind the warm-up. */
static uint64_t seconds_driven(const struct drive *d)
{
    int64_t end_ns = d->options->warm_up_ns + d->options->duration_ns;
    int64_t ns = vt_clock_now_ns() - d->t0_ns;

    ns = (ns < end_ns ? ns : end_ns) - d->options->warm_up_ns;
    return d->t0_ns && ns > 0 ? (uint64_t)(ns / VT_NS_PER_S) : 0;
}

int load_drive(const struct load_options *options, load_progress progress, void *ctx,
               struct load_result *ret, struct vt_error *err)
{
    VT_AUTO_FREE struct drive *d = calloc(1, sizeof *d);
    sigset_t wanted, before;
    int code;

    if (!d)
        return vt_error_no_memory(err, "load");
    d->options = options;
    d->target = options->url.target;
    d->target.context = &options->url.page;
    pthread_mutex_init(&d->lock, NULL);
    vt_hist_init(&d->recent.response);
    vt_hist_init(&d->recent.service);
    vt_hist_init(&d->recent.wake_lag);
    vt_hist_init(&d->result.tally.response);
    vt_hist_init(&d->result.tally.service);
    vt_hist_init(&d->result.tally.wake_lag);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &wanted, &before);
    VT_AUTO_CLOSE int signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        code = vt_error_errno(err, VT_KIND_INFRA, errno, "wait for signals");
    else
        code = run_all(d, signals, progress, ctx, err);
    d->result.seconds = seconds_driven(d);
    if (code == 0)
        *ret = d->result;
    dispose(d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}
