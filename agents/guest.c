/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/guest.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/duty.h"
#include "agents/facts.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"

#define UNATTENDED_RETRY_MS 5000

/* --- work of the role --- */
static void unattended_go_on(struct guest *g, const struct guest_job *ended);

static void job_drop(struct worker_job *base)
{
    struct guest_job *job = (struct guest_job *)base;
    json_decref(job->params);
    json_decref(job->result);
    free(job);
}

static void on_server_died(void *ctx, const char *text)
{
    struct guest *g = ctx;
    if (g->ending)
        return;
    vt_log(VT_LOG_ERROR, "%s", text);
    if (g->uplink)
        uplink_event(g->uplink, "server_died", text, NULL);
}

static void job_done(struct worker_job *base)
{
    struct guest_job *job = (struct guest_job *)base;
    struct guest *g = job->guest;
    bool failed = job->err.code != 0;
    if (job->step == GUEST_START && !failed)
        failed = watch_children(&g->watch, &job->after, &job->err) < 0;
    if (job->step == GUEST_CHECK && !failed && g->jobs.facts && g->jobs.state != JOBS_RUNNING)
        json_object_update(job->result, g->jobs.facts);
    if (g->uplink && job->stream)
        uplink_reply(g->uplink, job->stream, vt_take_ptr(job->result), failed ? &job->err : NULL);
    else
        unattended_go_on(g, job);
    job_drop(base);
}

static int submit(struct guest *g, enum guest_step step, uint16_t stream, const json_t *params,
                  struct vt_error *err)
{
    struct guest_job *job = calloc(1, sizeof *job);
    if (!job)
        return vt_error_no_memory(err, "%s", guest_step_names[step]);
    *job = (struct guest_job){
        .job = {.run = guest_job_run, .done = job_done, .drop = job_drop},
        .guest = g,
        .step = step,
        .stream = stream,
        .params = params ? json_deep_copy(params) : json_object(),
    };
    int rc = worker_submit(g->worker, &job->job, err);
    if (rc < 0)
        job_drop(&job->job);
    return rc;
}

/* --- without a controller --- */
static void unattended_step(struct guest *g, enum guest_step step)
{
    struct vt_error err = VT_ERROR_INIT;
    if (submit(g, step, 0, NULL, &err) < 0)
        vt_log_error(&err);
}

static void on_unattended_retry(uv_timer_t *timer)
{
    unattended_step(timer->data, GUEST_PREPARE);
}

static void unattended_go_on(struct guest *g, const struct guest_job *ended)
{
    if (!g->conf->unattended || g->ending)
        return;
    if (ended->err.code != 0) {
        vt_log_error(&ended->err);
        uv_timer_start(&g->retry, on_unattended_retry, UNATTENDED_RETRY_MS, 0);
    } else if (ended->step < GUEST_READY) {
        unattended_step(g, ended->step + 1);
    } else {
        vt_log(VT_LOG_INFO, "%s serves", g->role->name);
    }
}

/* --- calls --- */
static int take_logs(struct guest *g, uint16_t stream, const json_t *params, struct vt_error *err)
{
    int64_t max_bytes = LOGS_BYTES_DEFAULT;
    int rc = vt_json_opt_int(params, "max_bytes", 0, LOGS_BYTES_MAX, &max_bytes, err);
    return rc < 0 ? rc
                  : logs_start(&g->logs, g->uplink, stream, g->role->guest->logs, g->run_dir,
                               max_bytes, err);
}

static int take_config(struct guest *g, uint16_t stream, const json_t *params, struct vt_error *err)
{
    (void)params;
    (void)err;
    uplink_reply(g->uplink, stream, facts_of_machine(), NULL);
    return 0;
}

static int take_sample(struct guest *g, uint16_t stream, const json_t *params, struct vt_error *err)
{
    (void)params;
    (void)err;
    uplink_reply(g->uplink, stream, NULL, NULL);
    pulse_sample(&g->pulse);
    return 0;
}

static int take_work(struct guest *g, uint16_t stream, const json_t *params, struct vt_error *err)
{
    if (!g->role->guest->work)
        return vt_error_set(err, VT_KIND_INFRA, -ENOSYS, "%s makes no load for itself",
                            g->role->name);
    /* Steps of the role's are over by then, so nobody writes g->work. */
    int rc = jobs_start(&g->jobs, &g->work, params, err);
    if (rc == 0)
        uplink_reply(g->uplink, stream, NULL, NULL);
    return rc;
}

static int take_work_stop(struct guest *g, uint16_t stream, const json_t *params,
                          struct vt_error *err)
{
    (void)params;
    (void)err;
    uplink_reply(g->uplink, stream, NULL, NULL);
    jobs_stop(&g->jobs);
    return 0;
}

static void end(void *ctx);

static int take_poweroff(struct guest *g, uint16_t stream, const json_t *params,
                         struct vt_error *err)
{
    (void)params;
    if (!g->may_power_off)
        return vt_error_set(err, VT_KIND_INFRA, -EPERM, "this machine is not a guest of ours");
    uplink_reply(g->uplink, stream, NULL, NULL);
    g->power_off = true;
    end(g); /* sends the answer first */
    return 0;
}

static const struct {
    const char *op;
    int (*take)(struct guest *g, uint16_t stream, const json_t *params, struct vt_error *err);
} calls[] = {
    {"logs", take_logs}, {"config", take_config},       {"sample", take_sample},
    {"work", take_work}, {"work.stop", take_work_stop}, {"poweroff", take_poweroff},
};

static void on_call(void *ctx, uint16_t stream, const char *op, const json_t *params)
{
    struct guest *g = ctx;
    struct vt_error err = VT_ERROR_INIT;
    int rc = 1;
    for (unsigned i = 0; i < GUEST_STEPS && rc > 0; i++)
        if (!strcmp(op, guest_step_names[i]))
            rc = submit(g, (enum guest_step)i, stream, params, &err);
    for (unsigned i = 0; i < VT_COUNT(calls) && rc > 0; i++)
        if (!strcmp(op, calls[i].op))
            rc = calls[i].take(g, stream, params, &err);
    if (rc > 0)
        rc = vt_error_set(&err, VT_KIND_INFRA, -ENOSYS, "a guest's agent knows no '%.60s'", op);
    if (rc < 0)
        uplink_reply(g->uplink, stream, NULL, &err);
}

/* --- the uplink --- */
static void on_up(void *ctx)
{
    struct guest *g = ctx;
    vt_log(VT_LOG_INFO, "connected to %s", g->conf->controller);
    pulse_up(&g->pulse, g->uplink);
}

static void on_down(void *ctx, const struct vt_error *err)
{
    struct guest *g = ctx;
    pulse_down(&g->pulse, err);
    logs_stop(&g->logs);
}

static void on_drained(void *ctx)
{
    logs_go_on(&((struct guest *)ctx)->logs);
}

static const struct uplink_events uplink_events = {
    .up = on_up,
    .down = on_down,
    .call = on_call,
    .drained = on_drained,
};

/* --- life --- */
static void close_rest(void *ctx)
{
    struct guest *g = ctx;
    g->uplink = NULL;
    watch_stop(&g->watch);
    jobs_close(&g->jobs);
    worker_close(g->worker);
    pulse_close(&g->pulse);
    uv_close((uv_handle_t *)&g->retry, NULL);
}

static void end(void *ctx)
{
    struct guest *g = ctx;
    if (g->ending)
        return;
    g->ending = true;
    pulse_stop(&g->pulse);
    logs_stop(&g->logs);
    if (g->uplink)
        uplink_close(g->uplink, close_rest);
    else
        close_rest(g);
}

static int init_handles(struct guest *g, struct vt_error *err)
{
    g->jobs.loop = &g->loop;
    g->jobs.role = g->role;
    int rc = jobs_init(&g->jobs, err);
    if (rc < 0)
        return rc;
    pulse_init(&g->pulse, &g->loop, end, g);
    uv_timer_init(&g->loop.uv, &g->retry);
    g->retry.data = g;
    g->watch.loop = &g->loop;
    g->watch.died = on_server_died;
    g->watch.ctx = g;
    return 0;
}

static int start_uplink(struct guest *g, struct vt_error *err)
{
    const struct uplink_config config = {
        .loop = &g->loop,
        .conf = g->conf,
        .duty = "guest",
        .cert_file = g->cert_file,
        .key_file = g->key_file,
    };
    int rc = uplink_new(&config, &uplink_events, g, &g->uplink, err);
    g->jobs.uplink = g->uplink;
    if (rc == 0)
        uplink_start(g->uplink);
    return rc;
}

static int serve(struct guest *g, struct vt_error *err)
{
    int rc = worker_new(&g->loop, &g->worker, err);
    if (rc < 0)
        return rc;
    rc = init_handles(g, err);
    if (rc < 0)
        return rc;
    if (g->conf->unattended)
        unattended_step(g, GUEST_PREPARE);
    else
        rc = start_uplink(g, err);
    if (rc < 0)
        end(g);
    uv_run(&g->loop.uv, UV_RUN_DEFAULT);
    return rc;
}

int duty_guest(const struct vt_confdisk *conf, const struct role *role, bool may_power_off,
               struct vt_error *err)
{
    struct guest *g = calloc(1, sizeof *g);
    if (!g)
        return vt_error_no_memory(err, "guest");
    g->conf = conf;
    g->role = role ? role : role_find(conf->role);
    g->may_power_off = may_power_off;
    g->logs.fd = -1;
    g->pulse.sampler.machine = g->pulse.sampler.process = true;
    int rc = 0;
    if (!g->role || !g->role->guest)
        rc = vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "no role '%s' for guests", conf->role);
    if (rc == 0)
        rc = guest_set_up(g, err);
    if (rc == 0)
        rc = vt_loop_init(&g->loop, err);
    if (rc == 0) {
        rc = serve(g, err);
        vt_loop_dispose(&g->loop);
    }
    bool power_off = g->power_off;
    free(g);
    /* PID 1 of our guests ends them on SIGTERM. */
    if (power_off && kill(1, SIGTERM) < 0)
        rc = vt_error_errno(err, VT_KIND_INFRA, errno, "power off");
    return rc;
}
