/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/drive.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/scope_openssl.h"
#include "orchestrator/load/part.h"
#include "orchestrator/load/tls.h"

/* From the moment that all connections are open to T0. */
#define LEAD_NS (20 * VT_NS_PER_MS)
#define LOOK_MS 100
/* What a thread's loop keeps open, and what the program has beside its threads, with a margin. */
#define DESCRIPTORS_A_THREAD 16
#define DESCRIPTORS_BESIDE 64

struct drive {
    const struct load_options *options;
    struct part_config config;
    struct part **parts;
    unsigned nparts; /* begun */
    int64_t t0_ns;   /* 0: not yet */
    int64_t stopped_ns;
    bool interrupted;
};

/* --- before it begins --- */

/* Up to the hard limit we help ourselves. */
static int allow_descriptors(const struct load_options *o, struct vt_error *err)
{
    rlim_t wanted =
        (rlim_t)o->connections + DESCRIPTORS_A_THREAD * (rlim_t)o->threads + DESCRIPTORS_BESIDE;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "see how many files may be open");
    if (limit.rlim_cur >= wanted)
        return 0;
    if (limit.rlim_max < wanted)
        return vt_error_set(err, VT_KIND_CONFIG, -EMFILE,
                            "%lld connections and %lld threads take %llu open files, and %llu are "
                            "allowed: ask for less, or raise the limit as root (ulimit -n %llu)",
                            (long long)o->connections, (long long)o->threads,
                            (unsigned long long)wanted, (unsigned long long)limit.rlim_max,
                            (unsigned long long)wanted);
    limit.rlim_cur = wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0
               ? 0
               : vt_error_errno(err, VT_KIND_INFRA, errno, "raise the limit of open files");
}

static int draw(const struct drive *d, struct schedule *ret, struct vt_error *err)
{
    const struct load_options *o = d->options;
    const struct schedule_segment segments[] = {{.length_ns = o->warm_up_ns},
                                                {.length_ns = o->duration_ns, .shape = &o->shape}};

    return schedule_draw_apart(d->config.driver, o->rate, segments, VT_COUNT(segments), o->seed,
                               "load", ret, err);
}

static int begin_part(struct drive *d, const struct schedule *whole, struct vt_error *err)
{
    const struct load_options *o = d->options;
    uint32_t i = d->nparts, n = (uint32_t)o->threads;
    uint32_t connections = (uint32_t)(o->connections / n + (i < o->connections % n));
    struct schedule part = {0};
    int code = o->closed ? 0 : schedule_part(whole, i, n, &part, err);

    if (code == 0)
        code = part_begin(&d->config, connections, o->closed ? NULL : &part, &d->parts[i], err);
    if (code == 0)
        d->nparts++;
    return code;
}

static int begin(struct drive *d, struct load_result *result, struct vt_error *err)
{
    const struct load_options *o = d->options;
    struct schedule whole = {0};
    int code = allow_descriptors(o, err);

    if (code == 0 && d->config.driver->tls)
        code = load_tls_make(o, &d->config.tls, err);
    if (code == 0 && !o->closed)
        code = draw(d, &whole, err);
    if (code == 0 && !o->closed)
        vt_text_hex(whole.hash, sizeof whole.hash, result->schedule_hash);
    while (code == 0 && d->nparts < (unsigned)o->threads)
        code = begin_part(d, &whole, err);
    schedule_dispose(&whole);
    return code;
}

/* --- while it goes on --- */

static unsigned count_in(const struct drive *d, enum part_state state,
                         const struct vt_error **ret_err)
{
    unsigned n = 0;

    for (unsigned i = 0; i < d->nparts; i++)
        n += part_look(d->parts[i], ret_err) == state;
    return n;
}

static void go(struct drive *d)
{
    d->t0_ns = vt_clock_now_ns() + LEAD_NS;
    for (unsigned i = 0; i < d->nparts; i++)
        part_go(d->parts[i], d->t0_ns);
}

static void stop(struct drive *d)
{
    int64_t now_ns = vt_clock_now_ns();
    int64_t whole = d->t0_ns > 0 && now_ns > d->t0_ns ? (now_ns - d->t0_ns) / VT_NS_PER_S : 0;

    if (d->stopped_ns > 0)
        return;
    d->stopped_ns = now_ns;
    for (unsigned i = 0; i < d->nparts; i++)
        part_stop(d->parts[i], whole);
}

static void show(const struct drive *d, load_progress progress, void *ctx, struct load_tally *since)
{
    load_tally_init(since);
    for (unsigned i = 0; i < d->nparts; i++)
        part_take_recent(d->parts[i], since);
    progress(ctx, vt_clock_now_ns() - d->t0_ns, since);
}

/* What a part has told, or a signal. */
static int wait_for_news(struct drive *d, int signals, struct vt_error *err)
{
    struct pollfd fds[] = {{.fd = d->config.told_fd, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    uint64_t told;

    if (poll(fds, VT_COUNT(fds), LOOK_MS) < 0 && errno != EINTR)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "wait for the load");
    if ((fds[0].revents & POLLIN) && read(d->config.told_fd, &told, sizeof told) < 0 &&
        errno != EAGAIN)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "wait for the load");
    if ((fds[1].revents & POLLIN) && read(signals, &info, sizeof info) == sizeof info) {
        d->interrupted = true;
        stop(d);
    }
    return 0;
}

/* Until all parts have ended. */
static int wait_for_parts(struct drive *d, int signals, load_progress progress, void *ctx,
                          struct vt_error *err)
{
    VT_AUTO_FREE struct load_tally *since = calloc(1, sizeof *since);
    const struct vt_error *failed = NULL;
    int64_t shown_ns = 0;
    int code = since ? 0 : vt_error_no_memory(err, "follow the load");

    while (count_in(d, PART_ENDED, &failed) < d->nparts) {
        if (failed || code < 0)
            stop(d);
        else if (d->t0_ns == 0 && count_in(d, PART_OPEN, &failed) == d->nparts)
            go(d);
        int waited = wait_for_news(d, signals, code == 0 ? err : NULL);
        code = code == 0 ? waited : code;
        if (since && progress && d->t0_ns > 0 &&
            vt_clock_now_ns() - d->t0_ns >= shown_ns + VT_NS_PER_S) {
            shown_ns += VT_NS_PER_S;
            show(d, progress, ctx, since);
        }
    }
    if (code == 0 && failed) {
        if (err)
            *err = *failed;
        code = failed->code;
    }
    return code;
}

/* --- what came of it --- */

static void add_totals(struct engine_totals *into, const struct engine_totals *from)
{
    into->intended += from->intended;
    into->good += from->good;
    into->slow += from->slow;
    into->wrong += from->wrong;
    into->failed += from->failed;
    into->right_in_window += from->right_in_window;
    into->connections_opened += from->connections_opened;
    into->connections_failed += from->connections_failed;
    into->queue_high += from->queue_high;
    into->early += from->early;
    if (!into->first_failure[0])
        vt_text_copy(into->first_failure, sizeof into->first_failure, from->first_failure);
}

static void end_parts(struct drive *d, struct part_result *part, struct load_result *result)
{
    for (unsigned i = 0; i < d->nparts; i++) {
        part_end(d->parts[i], part);
        load_tally_merge(&result->tally, &part->tally);
        add_totals(&result->totals, &part->totals);
        result->cpu_ns += part->cpu_ns;
        if (part->run_delay_ns < 0 || result->run_delay_ns < 0)
            result->run_delay_ns = -1;
        else
            result->run_delay_ns += part->run_delay_ns;
    }
}

static void take_length(const struct drive *d, struct load_result *result)
{
    const struct load_options *o = d->options;
    int64_t whole_ns;

    result->interrupted = d->interrupted;
    result->lasted_ns = o->warm_up_ns + o->duration_ns;
    if (d->interrupted && (d->t0_ns == 0 || d->stopped_ns < d->t0_ns))
        result->lasted_ns = 0;
    else if (d->interrupted && d->stopped_ns - d->t0_ns < result->lasted_ns)
        result->lasted_ns = d->stopped_ns - d->t0_ns;
    whole_ns = result->lasted_ns - o->warm_up_ns;
    result->seconds = whole_ns > 0 ? (uint64_t)(whole_ns / VT_NS_PER_S) : 0;
}

static int run(struct drive *d, int signals, load_progress progress, void *ctx,
               struct load_result *result, struct vt_error *err)
{
    VT_AUTO_FREE struct part_result *part = calloc(1, sizeof *part);
    int code, waited;

    d->parts = calloc((size_t)d->options->threads, sizeof(struct part *));
    d->config.told_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!d->parts || !part)
        return vt_error_no_memory(err, "%d threads", (int)d->options->threads);
    if (d->config.told_fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make an event descriptor");
    code = begin(d, result, err);
    if (code < 0)
        stop(d);
    waited = wait_for_parts(d, signals, progress, ctx, code == 0 ? err : NULL);
    end_parts(d, part, result);
    take_length(d, result);
    return code < 0 ? code : waited;
}

int load_drive(const struct load_options *options, load_progress progress, void *ctx,
               struct load_result *ret, struct vt_error *err)
{
    VT_AUTO_FREE struct load_result *result = calloc(1, sizeof *result);
    struct driver_target target = options->url.target;
    struct drive d = {
        .options = options,
        .config = {.options = options,
                   .driver = options->url.tls ? &get_https : &get_http,
                   .target = &target,
                   .told_fd = -1},
    };
    sigset_t wanted, before;
    int code;

    if (!result)
        return vt_error_no_memory(err, "load");
    target.context = &options->url.page;
    load_tally_init(&result->tally);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &wanted, &before);
    VT_AUTO_CLOSE int signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        code = vt_error_errno(err, VT_KIND_INFRA, errno, "wait for signals");
    else
        code = run(&d, signals, progress, ctx, result, err);
    if (code == 0)
        *ret = *result;
    free(d.parts);
    if (d.config.told_fd >= 0)
        close(d.config.told_fd);
    SSL_CTX_free(d.config.tls);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}
