/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"

static void agent_up(void *ctx, const char *agent)
{
    (void)agent;
    ((struct rig *)ctx)->up++;
}

static void agent_lost(void *ctx, const char *agent, const struct vt_error *err)
{
    struct rig *rig = ctx;
    (void)agent;
    rig->lost++;
    vt_text_copy(rig->text, sizeof rig->text, err->text);
}

static void agent_event(void *ctx, const char *agent, const char *kind, const char *text,
                        const json_t *data)
{
    struct rig *rig = ctx;
    (void)agent;
    vt_text_copy(rig->kind, sizeof rig->kind, kind);
    vt_text_copy(rig->text, sizeof rig->text, text);
    json_decref(rig->event_data);
    rig->event_data = json_deep_copy(data);
    rig->events++;
}

static void sample(void *ctx, const char *agent, int64_t time_ns, const char *series, double value)
{
    struct rig *rig = ctx;
    (void)agent;
    (void)time_ns;
    rig->samples++;
    json_object_set_new(rig->seen_series, series, json_real(value));
}

static void load(void *ctx, const char *agent, unsigned tile, const char *role,
                 const struct vt_load_second *second)
{
    struct rig *rig = ctx;
    (void)agent;
    (void)tile;
    (void)role;
    rig->seconds++;
    rig->intended += second->intended;
    rig->good += second->good;
    rig->bytes += second->bytes;
    rig->rates += second->rate->count;
}

static void log_piece(void *ctx, const char *agent, const char *name, const uint8_t *data,
                      size_t len)
{
    struct rig *rig = ctx;
    (void)agent;
    if (!strcmp(name, "kernel"))
        return;
    vt_text_copy(rig->log_name, sizeof rig->log_name, name);
    vt_buf_add(&rig->log, data, len);
}

static void refused(void *ctx, const char *peer, const struct vt_error *err)
{
    struct rig *rig = ctx;
    (void)peer;
    rig->refused++;
    vt_text_copy(rig->text, sizeof rig->text, err->text);
}

static const struct hub_events events = {agent_up, agent_lost, agent_event, sample,
                                         load,     log_piece,  refused};

void rig_start(struct rig *rig, const char *agent, const char *role, enum hub_duty duty)
{
    VT_AUTO_BUF struct vt_buf pem = VT_BUF_INIT(VT_CERT_PEM_MAX);
    memset(rig, 0, sizeof *rig);
    rig->log = (struct vt_buf)VT_BUF_INIT(64U << 20);
    rig->seen_series = json_object();
    vt_text_copy(rig->dir, sizeof rig->dir, "/tmp/vt-test-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    assert_int_equal(vt_ca_open(rig->dir, &rig->ca, NULL), 0);
    assert_int_equal(vt_loop_init(&rig->loop, NULL), 0);
    struct hub_config config = {.loop = &rig->loop,
                                .ca = rig->ca,
                                .address = "127.0.0.1",
                                .run_ns = 60 * VT_NS_PER_S,
                                .heartbeat_ns = 20 * VT_NS_PER_MS,
                                .silence_ns = 10 * VT_NS_PER_S};
    assert_int_equal(hub_new(&config, &events, rig, &rig->hub, NULL), 0);

    struct vt_confdisk *conf = &rig->conf;
    struct hub_expected expected = {
        .agent = agent, .duty = duty, .token = conf->token, .address = "127.0.0.1"};
    assert_int_equal(hub_make_token(conf->token, NULL), 0);
    assert_int_equal(hub_expect(rig->hub, &expected, NULL), 0);
    assert_int_equal(vt_cert_write(vt_ca_cert(rig->ca), &pem, NULL), 0);
    vt_text_copy(conf->ca, sizeof conf->ca, pem.data);
    vt_text_copy(conf->agent, sizeof conf->agent, agent);
    vt_text_copy(conf->role, sizeof conf->role, role);
    vt_text_copy(conf->hostname, sizeof conf->hostname, agent);
    vt_text_copy(conf->run, sizeof conf->run, "test");
    vt_text_copy(conf->address, sizeof conf->address, "127.0.0.1/8");
    vt_text_copy(conf->mac, sizeof conf->mac, "52:54:00:00:00:01");
    conf->tile = 1;
    snprintf(conf->controller, sizeof conf->controller, "127.0.0.1:%u", hub_port(rig->hub));
    static const char *const folders[] = {"run_dir", "data_dir", "files_dir"};
    char dir[sizeof rig->dir]; /* gcc sees no difference between rig's own arrays */
    memcpy(dir, rig->dir, sizeof dir);
    for (size_t i = 0; i < 3; i++) {
        struct vt_confdisk_param *param = &conf->params[conf->n_params++];
        vt_text_copy(param->name, sizeof param->name, folders[i]);
        snprintf(param->value, sizeof param->value, "%s/%s", dir, folders[i]);
    }
}

void rig_run_agent(struct rig *rig, const char *variant)
{
    char path[96];
    const char *const argv[] = {"/proc/self/exe", "--agent", variant, path, NULL};
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    struct vt_error err = VT_ERROR_INIT;
    snprintf(path, sizeof path, "%s/agent.conf", rig->dir);
    if (vt_confdisk_write(path, &rig->conf, &err) < 0)
        fail_msg("%s", err.text);
    spec.argv = argv;
    spec.stderr_fd = VT_PROC_INHERIT;
    assert_int_equal(vt_proc_spawn(&spec, &rig->agent, NULL), 0);
}

int rig_agent_main(char **argv, int (*duty)(const char *variant, const struct vt_confdisk *conf))
{
    static struct vt_confdisk conf;
    vt_log_init("agent", VT_LOG_INFO);
    if (vt_confdisk_read(argv[3], &conf, NULL) < 0)
        return 2;
    return duty(argv[2], &conf) == 0 ? 0 : 1;
}

static void on_tick(uv_timer_t *timer)
{
    ++*(unsigned *)timer->data;
}

void rig_run_until(struct rig *rig, const unsigned *value, unsigned wanted)
{
    unsigned ticks = 0;
    uv_timer_t guard;
    uv_timer_init(&rig->loop.uv, &guard);
    guard.data = &ticks;
    uv_timer_start(&guard, on_tick, 10, 10);
    while (*value < wanted && ticks < 3000)
        uv_run(&rig->loop.uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&rig->loop.uv, UV_RUN_NOWAIT);
    if (*value < wanted)
        fail_msg("nothing came; last heard: %s", rig->text);
}

static void call_done(void *ctx, const json_t *result, const struct vt_error *err)
{
    struct rig *rig = ctx;
    vt_error_clear(&rig->err);
    json_decref(rig->result);
    rig->result = result ? json_deep_copy(result) : NULL;
    if (err)
        rig->err = *err;
    rig->done++;
}

void rig_call(struct rig *rig, const char *op, json_t *params)
{
    unsigned before = rig->done;
    assert_int_equal(
        hub_call(rig->hub, rig->conf.agent, op, params, 30 * VT_NS_PER_S, call_done, rig, NULL), 0);
    json_decref(params);
    rig_run_until(rig, &rig->done, before + 1);
}

void rig_end_agent(struct rig *rig)
{
    int status;
    assert_int_equal(kill(rig->agent, SIGTERM), 0);
    int64_t until_ns = vt_clock_now_ns() + 20 * VT_NS_PER_S;
    pid_t ended;
    while ((ended = waitpid(rig->agent, &status, WNOHANG)) == 0 && vt_clock_now_ns() < until_ns)
        uv_run(&rig->loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(ended, rig->agent);
    rig->agent = 0;
    assert_int_equal(status, 0);
}

static void hub_closed(void *ctx)
{
    ((struct rig *)ctx)->hub_closed++;
}

void rig_finish(struct rig *rig)
{
    if (rig->agent > 0) {
        kill(rig->agent, SIGKILL);
        waitpid(rig->agent, NULL, 0);
    }
    hub_close(rig->hub, hub_closed, rig);
    rig_run_until(rig, &rig->hub_closed, 1);
    vt_loop_dispose(&rig->loop);
    vt_ca_free(rig->ca);
    vt_buf_dispose(&rig->log);
    json_decref(rig->seen_series);
    json_decref(rig->result);
    json_decref(rig->event_data);
    const char *const argv[] = {"rm", "-rf", rig->dir, NULL};
    assert_int_equal(vt_proc_run(argv, NULL, 0, NULL), 0);
}
