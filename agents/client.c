/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client duty: drives the load of any number of roles of any number of tiles, one engine each,
 * all on this loop.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "agents/duty.h"
#include "agents/facts.h"
#include "agents/logs.h"
#include "agents/pulse.h"
#include "agents/uplink.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "tiles/load/engine.h"
#include "tiles/load/order.h"
#include "wire/message.h"

#define LOADS_MAX 1024
/* A client without a controller is of no use to anyone. */
#define ALONE_MAX_NS (60 * VT_NS_PER_S)

enum load_state { LOAD_READY, LOAD_OPENING, LOAD_OPEN, LOAD_RUNNING, LOAD_FINISHED };

struct load {
    struct client *client;
    struct load_order order;
    const struct driver *driver;
    struct schedule schedule;
    struct engine *engine;
    enum load_state state;
    uint16_t open_stream; /* of the call that waits for the connections */
};

struct client {
    struct vt_loop loop;
    const struct vt_confdisk *conf;
    struct uplink *uplink;
    SSL_CTX *tls; /* of the load: trusts the run's CA */
    struct load *loads[LOADS_MAX];
    unsigned nloads, nrunning;
    bool fifo;
    struct pulse pulse;
    int64_t alone_ns; /* since when no controller is there; 0: it is */
    bool ending;
    struct vt_error why;
};

static void end(void *ctx);

/* --- the generator's own priority --- */

/* Before all that is not in real time, behind all that is; the kernel's throttling stays on. Where
 * it is not permitted the load runs as it is: wake lag shows what that costs. */
static void set_fifo(struct client *c, bool on)
{
    struct sched_param param = {.sched_priority = on ? 1 : 0};
    c->fifo = sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &param) == 0 && on;
}

/* --- events of an engine --- */
static void engine_opened(void *ctx, int status, const struct vt_error *err)
{
    struct load *load = ctx;
    load->state = status < 0 ? LOAD_FINISHED : LOAD_OPEN;
    uplink_reply(load->client->uplink, load->open_stream, NULL, status < 0 ? err : NULL);
}

static unsigned operation_index(const struct driver *driver, const char *name)
{
    unsigned i = 0;
    while (i < driver->noperations && driver->operations[i] != name &&
           strcmp(driver->operations[i], name) != 0)
        i++;
    return i;
}

static void engine_second(void *ctx, const struct vt_load_second *second)
{
    struct load *load = ctx;
    struct client *c = load->client;
    VT_AUTO_BUF struct vt_buf payload = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    struct vt_error err = VT_ERROR_INIT;
    if (wire_load_write(&payload, load->order.tile, load->order.role,
                        operation_index(load->driver, second->operation), second, &err) == 0) {
        uplink_send(c->uplink, WIRE_LOAD, 0, payload.data, payload.len);
        return;
    }
    /* A second that is left out would falsify the run: better no client. */
    c->why = err;
    end(c);
}

static void engine_finished(void *ctx, const struct engine_totals *t)
{
    struct load *load = ctx;
    struct client *c = load->client;
    char hash[65];
    struct vt_record_totals totals = {
        .tile = load->order.tile,
        .intended = t->intended,
        .good = t->good,
        .slow = t->slow,
        .wrong = t->wrong,
        .failed = t->failed,
        .connections_opened = t->connections_opened,
        .connections_failed = t->connections_failed,
        .queue_high = t->queue_high,
        .early = t->early,
    };
    vt_text_copy(totals.role, sizeof totals.role, load->order.role);
    vt_text_copy(totals.first_failure, sizeof totals.first_failure, t->first_failure);
    vt_text_hex(load->schedule.hash, sizeof load->schedule.hash, hash);
    if (load->state == LOAD_RUNNING && --c->nrunning == 0)
        set_fifo(c, false);
    load->state = LOAD_FINISHED;
    uplink_event(c->uplink, "load.finished", load->order.role,
                 json_pack("{s:s, s:o, s:o}", "hash", hash, "totals", wire_totals_write(&totals),
                           "generator", vt_record_generator_write(&t->generator)));
}

static const struct engine_events engine_events = {
    .opened = engine_opened,
    .second = engine_second,
    .finished = engine_finished,
};

/* --- calls --- */
static void free_load(struct load *load)
{
    if (load->state == LOAD_RUNNING)
        load->client->nrunning--;
    engine_free(load->engine);
    schedule_dispose(&load->schedule);
    free(load);
}

static struct load **find(struct client *c, int64_t tile, const char *role)
{
    for (unsigned i = 0; i < c->nloads; i++)
        if (c->loads[i]->order.tile == tile && !strcmp(c->loads[i]->order.role, role))
            return &c->loads[i];
    return NULL;
}

static int make_load(struct client *c, const json_t *params, struct load **ret,
                     uint64_t *ret_window_steps, struct vt_error *err)
{
    struct load *load = calloc(1, sizeof *load);
    if (!load)
        return vt_error_no_memory(err, "prepare a load");
    load->client = c;
    int rc = load_order_read(params, &load->order, err);
    if (rc == 0)
        rc = load_order_draw(&load->order, &load->schedule, ret_window_steps, err);
    if (rc == 0) {
        struct engine_config config = {
            .load = &load->order.load,
            .schedule = &load->schedule,
            .tls = c->tls,
            .drain_ns = load->order.drain_ns,
            .measure_from_ns = load->order.window_from_ns,
        };
        config.driver = load->driver = role_find(load->order.role)->driver;
        config.target.tile = load->order.tile;
        config.target.port = load->driver->port;
        vt_text_copy(config.target.address, sizeof config.target.address, load->order.address);
        vt_text_copy(config.target.server_name, sizeof config.target.server_name,
                     load->order.server_name);
        for (unsigned i = 0; i < load->order.nsegments; i++)
            config.window_ns += load->order.segments[i].length_ns;
        rc = engine_new(&c->loop, &config, &engine_events, load, &load->engine, err);
    }
    if (rc < 0)
        free_load(load);
    else
        *ret = load;
    return rc;
}

static int take_prepare(struct client *c, uint16_t stream, const json_t *params,
                        struct vt_error *err)
{
    struct load *load = NULL;
    uint64_t window_steps = 0;
    char hash[65];
    int rc = make_load(c, params, &load, &window_steps, err);
    if (rc < 0)
        return rc;
    struct load **place = find(c, load->order.tile, load->order.role);
    if (place && (*place)->state != LOAD_READY && (*place)->state != LOAD_FINISHED)
        rc = vt_error_set(err, VT_KIND_INFRA, -EBUSY, "%s of tile %u is being driven",
                          load->order.role, load->order.tile);
    else if (!place && c->nloads == LOADS_MAX)
        rc = vt_error_set(err, VT_KIND_INFRA, -ENOSPC, "one client drives at most %d roles",
                          LOADS_MAX);
    if (rc < 0) {
        free_load(load);
        return rc;
    }
    if (place)
        free_load(*place);
    else
        place = &c->loads[c->nloads++];
    *place = load;
    vt_text_hex(load->schedule.hash, sizeof load->schedule.hash, hash);
    uplink_reply(c->uplink, stream,
                 json_pack("{s:s, s:I, s:I}", "hash", hash, "steps",
                           (json_int_t)load->schedule.nsteps, "window_steps",
                           (json_int_t)window_steps),
                 NULL);
    return 0;
}

/* The load that a call names, in one of two states. */
static int named(struct client *c, const json_t *params, enum load_state state,
                 enum load_state or_state, struct load **ret, struct vt_error *err)
{
    const char *role = NULL;
    int64_t tile = 0;
    int rc = vt_json_get_int(params, "tile", 1, SPEC_TILES_MAX, &tile, err);
    if (rc == 0)
        rc = vt_json_get_string(params, "role", &role, err);
    if (rc != 0)
        return rc;
    struct load **place = find(c, tile, role);
    if (!place)
        return vt_error_set(err, VT_KIND_INFRA, -ENOENT, "no load is prepared for %.40s", role);
    if ((*place)->state != state && (*place)->state != or_state)
        return vt_error_set(err, VT_KIND_INFRA, -EBUSY, "%s of tile %d: not now", role, (int)tile);
    *ret = *place;
    return 0;
}

static int take_open(struct client *c, uint16_t stream, const json_t *params, struct vt_error *err)
{
    struct load *load = NULL;
    int rc = named(c, params, LOAD_READY, LOAD_READY, &load, err);
    if (rc != 0)
        return rc;
    load->state = LOAD_OPENING;
    load->open_stream = stream;
    engine_open(load->engine);
    return 0;
}

static int take_start(struct client *c, uint16_t stream, const json_t *params, struct vt_error *err)
{
    struct load *load = NULL;
    int64_t t0_ns = 0;
    int rc = wire_t0_read(params, &t0_ns, err);
    if (rc == 0)
        rc = named(c, params, LOAD_OPEN, LOAD_OPEN, &load, err);
    if (rc == 0)
        rc = engine_start(load->engine, t0_ns, err);
    if (rc != 0)
        return rc;
    load->state = LOAD_RUNNING;
    if (c->nrunning++ == 0)
        set_fifo(c, true);
    uplink_reply(c->uplink, stream, json_pack("{s:b}", "fifo", c->fifo), NULL);
    return 0;
}

static int take_stop(struct client *c, uint16_t stream, const json_t *params, struct vt_error *err)
{
    struct load *load = NULL;
    int rc = named(c, params, LOAD_RUNNING, LOAD_FINISHED, &load, err);
    if (rc != 0)
        return rc;
    uplink_reply(c->uplink, stream, NULL, NULL);
    if (load->state == LOAD_RUNNING)
        engine_stop(load->engine);
    return 0;
}

/* Whole: 2 MiB at most, half of the uplink's queue. One role is asked for after the other. */
static int take_acknowledged(struct client *c, uint16_t stream, const json_t *params,
                             struct vt_error *err)
{
    struct load *load = NULL;
    char name[WIRE_NAME_MAX];
    size_t bytes = 0;
    int rc = named(c, params, LOAD_FINISHED, LOAD_FINISHED, &load, err);
    if (rc != 0)
        return rc;
    const uint8_t *bits = engine_acknowledged(load->engine, &bytes);
    snprintf(name, sizeof name, VT_RECORD_ACKNOWLEDGED "%s.%u" VT_RECORD_BITS, load->order.role,
             load->order.tile);
    logs_send_bytes(c->uplink, stream, name, bits, bytes);
    uplink_reply(c->uplink, stream, json_pack("{s:I}", "bytes", (json_int_t)bytes), NULL);
    return 0;
}

static int take_config(struct client *c, uint16_t stream, const json_t *params,
                       struct vt_error *err)
{
    (void)params;
    (void)err;
    uplink_reply(c->uplink, stream, facts_of_machine(), NULL);
    return 0;
}

static const struct {
    const char *op;
    int (*take)(struct client *c, uint16_t stream, const json_t *params, struct vt_error *err);
} calls[] = {
    {"load.prepare", take_prepare},
    {"load.open", take_open},
    {"load.start", take_start},
    {"load.stop", take_stop},
    {"load.acknowledged", take_acknowledged},
    {"config", take_config},
};

static void on_call(void *ctx, uint16_t stream, const char *op, const json_t *params)
{
    struct client *c = ctx;
    struct vt_error err = VT_ERROR_INIT;
    int rc = 1;
    for (unsigned i = 0; i < VT_COUNT(calls) && rc > 0; i++)
        if (!strcmp(op, calls[i].op))
            rc = calls[i].take(c, stream, params, &err);
    if (rc > 0)
        rc = vt_error_set(&err, VT_KIND_INFRA, -ENOSYS, "a client's agent knows no '%.60s'", op);
    if (rc < 0)
        uplink_reply(c->uplink, stream, NULL, &err);
}

/* --- the uplink --- */
static void on_up(void *ctx)
{
    struct client *c = ctx;
    c->alone_ns = 0;
    pulse_up(&c->pulse, c->uplink);
}

static void on_down(void *ctx, const struct vt_error *err)
{
    struct client *c = ctx;
    int64_t now_ns = vt_clock_now_ns();
    pulse_down(&c->pulse, err);
    /* Seconds that nobody takes are worth nothing: the run has failed for the controller. */
    for (unsigned i = 0; i < c->nloads; i++)
        if (c->loads[i]->state == LOAD_RUNNING)
            engine_stop(c->loads[i]->engine);
    if (c->alone_ns == 0)
        c->alone_ns = now_ns;
    if (now_ns - c->alone_ns < ALONE_MAX_NS)
        return;
    c->why = *err;
    vt_error_wrap(&c->why, "no controller for %.0f s", (double)ALONE_MAX_NS / 1e9);
    end(c);
}

static const struct uplink_events uplink_events = {.up = on_up, .down = on_down, .call = on_call};

/* --- life --- */
static void close_rest(void *ctx)
{
    struct client *c = ctx;
    for (unsigned i = 0; i < c->nloads; i++)
        free_load(c->loads[i]);
    c->nloads = 0;
    pulse_close(&c->pulse);
}

static void end(void *ctx)
{
    struct client *c = ctx;
    if (c->ending)
        return;
    c->ending = true;
    pulse_stop(&c->pulse);
    uplink_close(c->uplink, close_rest);
}

static int make_tls(struct client *c, struct vt_error *err)
{
    return vt_tls_client_ctx(uplink_ca(c->uplink), NULL, &c->tls, err);
}

static int serve(struct client *c, struct vt_error *err)
{
    const struct uplink_config config = {.loop = &c->loop, .conf = c->conf, .duty = "client"};
    int rc = uplink_new(&config, &uplink_events, c, &c->uplink, err);
    if (rc < 0)
        return rc;
    pulse_init(&c->pulse, &c->loop, end, c);
    pulse_sample(&c->pulse);
    c->alone_ns = vt_clock_now_ns();
    rc = make_tls(c, &c->why);
    if (rc == 0)
        uplink_start(c->uplink);
    else
        end(c);
    uv_run(&c->loop.uv, UV_RUN_DEFAULT);
    SSL_CTX_free(c->tls);
    if (c->why.code && err)
        *err = c->why;
    return c->why.code;
}

int duty_client(const struct vt_confdisk *conf, struct vt_error *err)
{
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        return vt_error_no_memory(err, "client");
    c->conf = conf;
    c->pulse.sampler.process = c->pulse.sampler.machine = true;
    int rc = vt_loop_init(&c->loop, err);
    if (rc == 0) {
        rc = serve(c, err);
        vt_loop_dispose(&c->loop);
    }
    free(c);
    return rc;
}
