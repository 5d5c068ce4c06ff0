/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples: what the host and its guests do from ramp to drain. Guests sample themselves, once they
 * are told to: deploying them is dear enough without. The host, where it is this machine, is
 * sampled here each second, by short reads; what libvirt alone knows is dear (3 to 7 ms a VM and
 * group) and therefore asked every five seconds, by the worker. One question at a time: while an
 * answer is late, nothing waits for it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/sampler.h"
#include "orchestrator/run/steps.h"

#define SAMPLES_HOST "host.1" /* a run has one host */
#define SAMPLE_NS VT_NS_PER_S
/* Before each full second of the load, so that a sample belongs to the phase that it covers: phases
 * end with full seconds. A loop that is later than this is a fault of its own. */
#define AHEAD_NS (50 * VT_NS_PER_MS)
#define LIBVIRT_EVERY 5 /* samples */
/* The heartbeat of a second, and as much again for its answer. */
#define POLL_LATE_NS (2 * VT_NS_PER_S)

#define GUEST_TIMEOUT_NS (10 * VT_NS_PER_S)

struct run_samples {
    struct run *run;
    struct vt_timer timer;
    struct host_sampler *sampler; /* NULL: the host is another machine */
    int64_t next_ns;
    int64_t now_ns;   /* of what is emitted */
    int64_t asked_ns; /* 0: no answer is waited for */
    unsigned count;
    int told; /* phase in which it was told what is missing */
    bool on;
};

static void emit_of(const struct run_samples *samples, const char *source, const struct run_vm *vm,
                    const char *series, double value, const char *why)
{
    const struct vt_event event = {
        .type = VT_EVENT_SAMPLE,
        .time_ns = samples->now_ns,
        .tile = vm ? vm->tile : 0,
        .role = vm ? vm->role->name : NULL,
        .source = source,
        .series = series,
        .value = value,
        .text = why,
    };

    vt_bus_emit(&samples->run->bus, &event);
}

static void emit(const struct run_samples *samples, const struct run_vm *vm, const char *series,
                 double value, const char *why)
{
    emit_of(samples, SAMPLES_HOST, vm, series, value, why);
}

static void put_sample(void *ctx, const struct host_sample *sample)
{
    char why[256];

    if (sample->why)
        snprintf(why, sizeof(why), "not available, because %s", sample->why);
    emit(ctx, sample->domain, sample->series, sample->value, sample->why ? why : NULL);
}

static const struct run_vm *find_domain(const struct run *run, const char *name,
                                        const struct run_vm *last)
{
    if (last && !strcmp(last->domain.name, name))
        return last;
    for (unsigned i = 0; i < run->nvms; i++)
        if (!strcmp(run->vms[i].domain.name, name))
            return &run->vms[i];
    return NULL;
}

static void libvirt_answered(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run_samples *samples = ctx;
    const struct run_vm *vm = NULL;
    char series[RECORD_META_KEY_MAX];

    (void)host;
    samples->asked_ns = 0;
    if (!samples->on)
        return;
    samples->now_ns = vt_clock_now_ns();
    if (reply->code < 0) {
        emit(samples, NULL, "libvirt.answer_s", NAN, reply->err.text);
        return;
    }
    emit(samples, NULL, "libvirt.answer_s",
         (double)(reply->queued_ns + reply->took_ns) / (double)VT_NS_PER_S, NULL);
    for (size_t i = 0; i < reply->nstats; i++) {
        const struct host_stat *stat = &reply->stats[i];

        vm = find_domain(samples->run, stat->domain, vm);
        if (vm && snprintf(series, sizeof(series), "libvirt.%s", stat->key) < (int)sizeof(series))
            emit(samples, vm, series, stat->value, NULL);
    }
}

static void ask_libvirt(struct run_samples *samples)
{
    unsigned groups = samples->sampler ? host_stats_dear : host_stats_remote;
    struct vt_error err = VT_ERROR_INIT;
    char why[96];

    if (samples->asked_ns > 0) {
        snprintf(why, sizeof(why), "not available, because libvirt has not answered for %.1f s",
                 (double)(samples->now_ns - samples->asked_ns) / (double)VT_NS_PER_S);
        emit(samples, NULL, "libvirt.answer_s", NAN, why);
        return;
    }
    if (host_stats(samples->run->host, groups, libvirt_answered, samples, &err) < 0)
        emit(samples, NULL, "libvirt.answer_s", NAN, err.text);
    else
        samples->asked_ns = samples->now_ns;
}

/* Every VM is polled each second, by its agent's heartbeat. */
static void take_polls(const struct run_samples *samples)
{
    for (unsigned i = 0; i < samples->run->nvms; i++) {
        const struct run_vm *vm = &samples->run->vms[i];
        int64_t at_ns, rtt_ns;

        if (hub_agent_answered(samples->run->hub, vm->agent, &at_ns, &rtt_ns) &&
            samples->now_ns - at_ns < POLL_LATE_NS)
            emit_of(samples, vm->agent, vm, "poll.rtt_s", (double)rtt_ns / (double)VT_NS_PER_S,
                    NULL);
        else
            emit_of(samples, vm->agent, vm, "poll.rtt_s", NAN,
                    "not available, because the VM does not answer");
    }
}

static void take(struct run_samples *samples, int64_t now_ns)
{
    bool tell = samples->told != samples->run->phases.current;

    samples->told = samples->run->phases.current;
    samples->now_ns = now_ns;
    take_polls(samples);
    if (samples->sampler)
        host_sampler_take(samples->sampler, now_ns, tell, put_sample, samples);
    if (samples->count++ % LIBVIRT_EVERY == 0)
        ask_libvirt(samples);
}

static void on_second(struct vt_timer *timer, int64_t now_ns)
{
    struct run_samples *samples = timer->ctx;
    struct vt_error err = VT_ERROR_INIT;

    if (!samples->on)
        return;
    take(samples, now_ns);
    do {
        samples->next_ns += SAMPLE_NS;
    } while (samples->next_ns <= now_ns);
    if (vt_timer_arm(timer, samples->next_ns, &err) < 0)
        phases_fail(&samples->run->phases, &err);
}

static int open_sampler(struct run_samples *samples, struct vt_error *err)
{
    const struct run *run = samples->run;
    char folder[VT_PATH_MAX + 16];
    const struct host_sampler_settings settings = {
        .root = "", .pid_folder = folder, .emulated = run->accel == VT_ACCEL_TCG};
    int ret;

    run->place->pid_folder(run, folder, sizeof(folder));
    ret = host_sampler_new(&settings, &samples->sampler, err);
    for (unsigned i = 0; ret == 0 && i < run->nvms; i++)
        ret = host_sampler_add(samples->sampler, &run->vms[i], run->vms[i].domain.name,
                               run->vms[i].domain.uuid, err);
    return ret;
}

static void guest_answered(void *ctx, const json_t *result, const struct vt_error *err)
{
    const struct run_vm *vm = ctx;

    (void)result;
    /* One that is on its way out has a reason of its own to come (lost.c, restart.c). */
    if (err && vm->up && !vm->run->phases.undoing)
        run_note(vm->run, VT_LEVEL_WARNING, "%s does not sample itself: %s", vm->agent, err->text);
}

void run_samples_ask(struct run_vm *vm)
{
    const struct run_samples *samples = vm->run->samples;

    /* One that is not there is asked when it comes back. */
    if (samples && samples->on && hub_is_up(vm->run->hub, vm->agent))
        hub_call(vm->run->hub, vm->agent, "sample", NULL, GUEST_TIMEOUT_NS, guest_answered, vm,
                 NULL);
}

int run_samples_start(struct run *run, struct vt_error *err)
{
    struct run_samples *samples = calloc(1, sizeof(*samples));
    int ret;

    if (!samples)
        return vt_error_no_memory(err, "sample the host");
    run->samples = samples;
    samples->run = run;
    samples->told = -1;
    ret = vt_timer_init(&samples->timer, &run->loop, on_second, samples, err);
    if (ret == 0 && host_uri_is_local(run->uri))
        ret = open_sampler(samples, err);
    if (ret < 0)
        return ret;
    samples->on = true;
    for (unsigned i = 0; i < run->nvms; i++)
        run_samples_ask(&run->vms[i]);
    take(samples, vt_clock_now_ns());
    samples->next_ns = run->t0_ns - AHEAD_NS;
    return vt_timer_arm(&samples->timer, samples->next_ns, err);
}

void run_samples_stop(struct run *run)
{
    struct run_samples *samples = run->samples;

    if (!samples || !samples->on)
        return;
    samples->on = false;
    samples->sampler = host_sampler_free(samples->sampler);
    vt_timer_disarm(&samples->timer);
}

void run_samples_close(struct run *run)
{
    struct run_samples *samples = run->samples;

    run_samples_stop(run);
    if (!samples)
        return;
    samples->sampler = host_sampler_free(samples->sampler); /* where the start failed half-way */
    vt_timer_close(&samples->timer, NULL);
}
