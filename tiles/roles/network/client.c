/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The netclient guest: a stream of iperf3 on a thread of its own, pings on the work's.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/roles/child.h"
#include "tiles/roles/network/probes.h"
#include "tiles/roles/registry.h"

#define PING_BYTES_MAX (64U << 10)
#define REASON_MAX 240
/* iperf3 connects before and reports after its seconds. */
#define GRACE_NS (8 * VT_NS_PER_S)

static const char *const peers[] = {"netserver", NULL};
static const char *const operations[] = {[NETCLIENT_PING] = "ping", [NETCLIENT_STREAM] = "stream"};

struct client {
    const struct role_work *work;
    const char *server;
    struct pace pings, stream;
    json_int_t sent, answered, streams, streams_failed; /* each counted by one thread */
};

static void keep(void *ctx, const char *data, size_t len)
{
    vt_buf_add(ctx, data, len);
}

static unsigned seconds_of(const struct pace *pace)
{
    return (unsigned)((pace->end_ns - pace->begin_ns) / VT_NS_PER_S);
}

static int64_t late_by(int64_t due_ns)
{
    int64_t late_ns = vt_clock_now_ns() - due_ns;

    return late_ns > 0 ? late_ns : 0;
}

/* --- pings --- */

static void tell_pings(struct client *c, unsigned second, unsigned n, const int64_t *trips_ns,
                       int64_t lag_ns, const char *why)
{
    for (unsigned i = 0; i < n; i++) {
        struct role_done done = {
            .operation = NETCLIENT_PING,
            .intended_ns = pace_intended_ns(&c->pings, (uint64_t)second * n + i),
            .lag_ns = lag_ns,
            .response_ns = trips_ns[i],
            .service_ns = trips_ns[i],
            .failed = trips_ns[i] < 0 ? why : NULL,
        };

        c->sent++;
        c->answered += trips_ns[i] >= 0;
        c->work->done(c->work->ctx, &done);
    }
}

/* A second's probes, in nine tenths of it. False: the work is to stop. */
static bool ping_second(struct client *c, unsigned second)
{
    unsigned n = (unsigned)(c->pings.rate / 1000000);
    int64_t due_ns = c->work->t0_ns + c->pings.begin_ns + second * VT_NS_PER_S, lag_ns;
    int64_t trips_ns[PROBES_PINGS_MAX];
    char count[12], interval[24], why[REASON_MAX] = "no answer within a second";
    const char *const argv[] = {"ping", "-n", "-W",     "1",       "-c",
                                count,  "-i", interval, c->server, NULL};
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(PING_BYTES_MAX);
    struct child child = {.argv = argv, .take = keep, .ctx = &text, .work = c->work};
    struct vt_error err = VT_ERROR_INIT;

    snprintf(count, sizeof(count), "%u", n);
    snprintf(interval, sizeof(interval), "%.3f", 0.9 / n);
    if (!child_sleep_until(c->work, due_ns))
        return false;
    lag_ns = late_by(due_ns);
    child.until_ns = vt_clock_now_ns() + 3 * VT_NS_PER_S;
    /* A whole second late: left out, else each would begin later than the one before. */
    if (lag_ns >= VT_NS_PER_S)
        vt_text_copy(why, sizeof(why), "the probes before had not ended");
    else if (child_run(&child, &err) < 0)
        vt_text_copy(why, sizeof(why), err.text);
    if (child.stopped)
        return false;
    ping_read(text.len ? text.data : "", text.len, trips_ns, n);
    tell_pings(c, second, n, trips_ns, lag_ns, why);
    return true;
}

/* --- the stream --- */

static void tell_stream(struct client *c, unsigned from, unsigned n,
                        const struct iperf_second *seconds, size_t nseconds, int64_t lag_ns,
                        const char *why)
{
    for (unsigned i = 0; i < n; i++) {
        bool there = i < nseconds && seconds[i].length_ns > 0;
        struct role_done done = {
            .operation = NETCLIENT_STREAM,
            .intended_ns = pace_intended_ns(&c->stream, from + i),
            .lag_ns = lag_ns,
            .response_ns = there ? seconds[i].length_ns : 0,
            .service_ns = there ? seconds[i].length_ns : 0,
            .bytes = there ? seconds[i].bytes : 0,
            .failed = there ? NULL : why,
        };

        c->work->done(c->work->ctx, &done);
    }
}

/* Whole seconds that the stream before took more than it had are without a stream: else each would
 * begin later than the one before. */
static unsigned skip_lost(struct client *c, unsigned from, unsigned n)
{
    int64_t due_ns = c->work->t0_ns + c->stream.begin_ns + from * VT_NS_PER_S;
    int64_t lost = late_by(due_ns) / VT_NS_PER_S;
    unsigned skipped = lost < n ? (unsigned)lost : n;

    if (skipped > 0)
        tell_stream(c, from, skipped, NULL, 0, 0, "the stream before had not ended");
    return skipped;
}

/* False: the work is to stop. */
static bool run_stream(struct client *c, unsigned from, unsigned n)
{
    int64_t due_ns = c->work->t0_ns + c->stream.begin_ns + from * VT_NS_PER_S, lag_ns;
    char length[12], rate[24], why[REASON_MAX] = "iperf3 told nothing of this second";
    const char *argv[] = {"iperf3", "-J",   "-i", "1",  "-c", c->server,
                          "-t",     length, NULL, rate, NULL};
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(PROBES_IPERF_BYTES_MAX);
    struct child child = {.argv = argv, .take = keep, .ctx = &text, .work = c->work};
    struct iperf_second seconds[PROBES_SECONDS_MAX];
    struct vt_error err = VT_ERROR_INIT;
    size_t nseconds = 0;

    snprintf(length, sizeof(length), "%u", n);
    snprintf(rate, sizeof(rate), "%" PRId64, c->work->jobs->bytes_per_s * 8);
    if (c->work->jobs->bytes_per_s > 0)
        argv[8] = "-b";
    if (!child_sleep_until(c->work, due_ns))
        return false;
    lag_ns = late_by(due_ns);
    child.until_ns = vt_clock_now_ns() + n * VT_NS_PER_S + GRACE_NS;
    if (child_run(&child, &err) < 0 || child.late) {
        if (child.late)
            child_explain(&child, why, sizeof(why));
        else
            vt_text_copy(why, sizeof(why), err.text);
    } else if (!child.stopped && iperf_read(text.len ? text.data : "", text.len, seconds,
                                            PROBES_SECONDS_MAX, &nseconds, &err) < 0) {
        vt_text_copy(why, sizeof(why), err.text);
    }
    if (child.stopped)
        return false;
    c->streams++;
    c->streams_failed += nseconds == 0;
    tell_stream(c, from, n, seconds, nseconds, lag_ns, why);
    return true;
}

static void *stream(void *arg)
{
    struct client *c = arg;
    unsigned total = seconds_of(&c->stream), from = 0;

    while (from < total) {
        unsigned n = probes_stream_s(total - from), skipped = skip_lost(c, from, n);

        if (skipped < n && !run_stream(c, from + skipped, n - skipped))
            break;
        from += n;
    }
    return NULL;
}

static int add_facts(const struct client *c, json_t *facts, struct vt_error *err)
{
    if (json_object_set_new(facts, "pings", json_integer(c->sent)) ||
        json_object_set_new(facts, "pings_answered", json_integer(c->answered)) ||
        json_object_set_new(facts, "streams", json_integer(c->streams)) ||
        json_object_set_new(facts, "streams_failed", json_integer(c->streams_failed)))
        return vt_error_no_memory(err, "collect facts of netclient");
    return 0;
}

static int work(struct role_guest *guest, const struct role_work *work, struct vt_error *err)
{
    struct client c = {.work = work, .server = role_peer_address(guest, "netserver")};
    pthread_t thread;
    int ret;

    if (!c.server)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "netclient has no netserver");
    probes_pace(work->jobs, &work->times, NETCLIENT_PING, &c.pings);
    probes_pace(work->jobs, &work->times, NETCLIENT_STREAM, &c.stream);
    ret = pthread_create(&thread, NULL, stream, &c);
    if (ret != 0)
        return vt_error_errno(err, VT_KIND_INFRA, ret, "start the stream");
    for (unsigned second = 0; second < seconds_of(&c.pings); second++)
        if (!ping_second(&c, second))
            break;
    pthread_join(thread, NULL);
    return add_facts(&c, work->facts, err);
}

/* --- the rest of a role --- */

/* The other end answers both programs. */
static int ready(struct role_guest *guest, struct vt_error *err)
{
    const char *server = role_peer_address(guest, "netserver");
    const char *const ping[] = {"ping", "-n", "-c", "1", "-W", "2", server, NULL};
    const char *const iperf[] = {"iperf3", "-c", server, "-n", "64K", NULL};
    int ret;

    if (!server)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "netclient has no netserver");
    ret = child_try(ping, NULL, PROBES_READY_NS, -EAGAIN, err);
    return ret < 0 ? ret : child_try(iperf, NULL, PROBES_READY_NS, -EAGAIN, err);
}

const struct role_guest_ops role_netclient_guest = {
    .ready = ready,
    .work = work,
};

const struct role role_netclient = {
    .name = "netclient",
    .short_name = "netc",
    .help = "ping and a stream of iperf3 to netserver",
    .peers = peers,
    .guest = &role_netclient_guest,
    .operations = operations,
    .noperations = NETCLIENT_OPERATIONS,
    .due = probes_due,
};
