/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/closed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tiles/load/address.h"
#include "tiles/load/connection.h"

#define REQUEST_BYTES_MAX 65536
#define TICK_NS (50 * VT_NS_PER_MS)

enum closed_phase { CLOSED_NEW, CLOSED_OPENING, CLOSED_READY, CLOSED_RUNNING, CLOSED_FINISHED };

struct closed {
    struct vt_loop *loop;
    struct closed_config config;
    const struct closed_events *events; /* NULL once freed */
    void *ctx;

    enum closed_phase phase;
    struct vt_timer timer;
    bool timer_closed, begun, stopping; /* begun: the first requests have been sent */
    int64_t open_until_ns, t0_ns;

    struct sockaddr_storage address;
    struct vt_buf out;
    struct connection *connections;
    uint8_t *conversations;
    uint32_t nopen, nlinks, nbusy;
    /* Idle or not open; sent_ns: when they ask again, ascending. */
    struct connection *thinking, **thinking_end;
    struct engine_totals totals;
};

static void arm(struct closed *c);

/* --- requests --- */

static void count(struct closed *c, const struct connection *connection,
                  enum closed_outcome outcome, int64_t now_ns, const char *why)
{
    const struct closed_request request = {
        .second = (connection->sent_ns - c->t0_ns) / VT_NS_PER_S,
        .outcome = outcome,
        .service_ns = now_ns - connection->sent_ns,
        .bytes = outcome == CLOSED_FAILED ? 0 : connection_answer_bytes(connection),
    };

    c->nbusy--;
    c->totals.good += outcome == CLOSED_RIGHT;
    c->totals.wrong += outcome == CLOSED_WRONG;
    c->totals.failed += outcome == CLOSED_FAILED;
    if (outcome == CLOSED_RIGHT && now_ns < c->t0_ns + c->config.length_ns)
        c->totals.right_in_window++;
    if (outcome != CLOSED_RIGHT && !c->totals.first_failure[0])
        snprintf(c->totals.first_failure, sizeof c->totals.first_failure, "%s %s: %s",
                 c->config.driver->operations[0], outcome == CLOSED_WRONG ? "wrong" : "failed",
                 why);
    if (c->events)
        c->events->ended(c->ctx, &request);
}

static bool is_over(const struct closed *c, int64_t now_ns)
{
    return c->stopping || now_ns >= c->t0_ns + c->config.length_ns;
}

static void ask(struct closed *c, struct connection *connection, int64_t now_ns)
{
    const struct driver_step step = {.sequence = (uint32_t)c->totals.intended};

    connection->sent_ns = now_ns;
    if (!connection_request(connection, &step))
        return; /* it had ended, and is opened again */
    c->totals.intended++;
    c->nbusy++;
}

static void think(struct closed *c, struct connection *connection, int64_t until_ns)
{
    if (connection->listed)
        return; /* it ended while it thought, and thinks on */
    connection->listed = true;
    connection->sent_ns = until_ns;
    connection->next = NULL;
    *c->thinking_end = connection;
    c->thinking_end = &connection->next;
}

static void ask_those_that_thought(struct closed *c, int64_t now_ns)
{
    struct connection *connection;

    while ((connection = c->thinking) && connection->sent_ns <= now_ns) {
        c->thinking = connection->next;
        if (!c->thinking)
            c->thinking_end = &c->thinking;
        connection->listed = false;
        if (connection->state == CONNECTION_IDLE)
            ask(c, connection, now_ns);
    }
}

static void begin(struct closed *c, int64_t now_ns)
{
    int64_t n = c->config.connections;

    c->begun = true;
    for (int64_t i = 0; i < n; i++) {
        struct connection *connection = &c->connections[i];

        if (c->config.think_ns > 0)
            think(c, connection, c->t0_ns + c->config.think_ns / n * i);
        else if (connection->state == CONNECTION_IDLE)
            ask(c, connection, now_ns);
    }
}

/* --- the run --- */

static void end_connections(struct closed *c, bool orderly)
{
    for (uint32_t i = 0; i < c->config.connections; i++)
        connection_end(&c->connections[i], orderly && c->connections[i].state == CONNECTION_IDLE);
}

static void fail(struct closed *c, struct connection *connection, int64_t now_ns, const char *why)
{
    connection_end(connection, false);
    count(c, connection, CLOSED_FAILED, now_ns, why);
}

static void finish(struct closed *c, int64_t now_ns, const char *why)
{
    c->stopping = true;
    for (uint32_t i = 0; i < c->config.connections; i++)
        if (c->connections[i].state == CONNECTION_BUSY)
            fail(c, &c->connections[i], now_ns, why);
    c->phase = CLOSED_FINISHED;
    vt_timer_disarm(&c->timer);
    end_connections(c, true);
    if (c->events)
        c->events->finished(c->ctx, &c->totals);
}

static void report_opened(struct closed *c, const struct vt_error *err)
{
    struct vt_error why = err ? *err : (struct vt_error)VT_ERROR_INIT;

    c->phase = err ? CLOSED_FINISHED : CLOSED_READY;
    if (err) {
        end_connections(c, false);
        vt_error_wrap(&why, "connect to %s port %u", c->config.target.address,
                      c->config.target.port);
    }
    if (c->events)
        c->events->opened(c->ctx, why.code, err ? &why : NULL);
}

/* --- connections --- */

static void open_connection(struct closed *c, struct connection *connection)
{
    c->nlinks++;
    connection_open(connection);
}

static void release(struct closed *c)
{
    if (c->events || c->nlinks > 0 || !c->timer_closed)
        return;
    vt_buf_dispose(&c->out);
    SSL_CTX_free(c->config.tls);
    free(c->connections);
    free(c->conversations);
    free(c);
}

static void on_ready(void *ctx, struct connection *connection)
{
    struct closed *c = ctx;

    if (!connection->counted) {
        connection->counted = true;
        c->nopen++;
        c->totals.connections_opened++;
        if (c->phase == CLOSED_OPENING && c->nopen == c->config.connections)
            report_opened(c, NULL);
    }
    int64_t now_ns = vt_clock_now_ns();
    if (c->phase != CLOSED_RUNNING || !c->begun || is_over(c, now_ns))
        return;
    if (c->config.think_ns > 0) {
        think(c, connection, now_ns + c->config.think_ns);
        arm(c);
    } else {
        ask(c, connection, now_ns);
    }
}

/* The last answer ends the run. */
static void ended(struct closed *c, int64_t now_ns)
{
    if (c->phase == CLOSED_RUNNING && c->nbusy == 0 && is_over(c, now_ns))
        arm(c);
}

static void on_answered(void *ctx, struct connection *connection, const char *wrong_why)
{
    struct closed *c = ctx;
    int64_t now_ns = vt_clock_now_ns();

    count(c, connection, wrong_why ? CLOSED_WRONG : CLOSED_RIGHT, now_ns, wrong_why);
    ended(c, now_ns);
}

static void on_failed(void *ctx, struct connection *connection, const char *why)
{
    struct closed *c = ctx;
    int64_t now_ns = vt_clock_now_ns();

    count(c, connection, CLOSED_FAILED, now_ns, why);
    ended(c, now_ns);
}

static void on_closed(void *ctx, struct connection *connection, bool was_open,
                      const struct vt_error *err)
{
    struct closed *c = ctx;

    c->nlinks--;
    if (connection->counted)
        c->nopen--;
    connection->counted = false;
    if (!was_open)
        c->totals.connections_failed++;
    if (!c->events)
        release(c);
    else if (c->phase == CLOSED_OPENING && !was_open)
        report_opened(c, err);
    else if (c->phase != CLOSED_FINISHED && !connection->resting)
        open_connection(c, connection);
}

static const struct connection_owner owner = {
    .ready = on_ready, .answered = on_answered, .failed = on_failed, .closed = on_closed};

/* Those that rest or take too long to open, and requests that take too long. */
static void look_at_connections(struct closed *c, int64_t now_ns)
{
    for (uint32_t i = 0; i < c->config.connections; i++) {
        struct connection *connection = &c->connections[i];

        if (connection->state == CONNECTION_OPENING &&
            now_ns - connection->since_ns >= CONNECTION_OPEN_NS) {
            connection_end(connection, false);
        } else if (connection->state == CONNECTION_CLOSED &&
                   now_ns - connection->since_ns >= CONNECTION_REST_NS) {
            open_connection(c, connection);
        } else if (connection->state == CONNECTION_BUSY &&
                   now_ns - connection->sent_ns >= c->config.timeout_ns) {
            fail(c, connection, now_ns, "timed out");
        }
    }
}

/* --- the timer --- */

static void on_timer(struct vt_timer *timer, int64_t now_ns)
{
    struct closed *c = timer->ctx;

    if (c->phase == CLOSED_OPENING && now_ns >= c->open_until_ns) {
        struct vt_error err = VT_ERROR_INIT;

        vt_error_set(&err, VT_KIND_INFRA, -ETIMEDOUT, "%u of %u connections were open in %d s",
                     c->nopen, c->config.connections, (int)(CONNECTION_OPEN_NS / VT_NS_PER_S));
        report_opened(c, &err);
    } else if (c->phase == CLOSED_RUNNING && (c->stopping || c->nbusy == 0) && is_over(c, now_ns)) {
        finish(c, now_ns, "the load was stopped");
    } else if (c->phase == CLOSED_RUNNING && now_ns >= c->t0_ns && !is_over(c, now_ns)) {
        if (!c->begun)
            begin(c, now_ns);
        ask_those_that_thought(c, now_ns);
    }
    if (c->phase != CLOSED_FINISHED)
        look_at_connections(c, now_ns);
    arm(c);
}

/* When a running one has something to do. */
static int64_t next_ns(const struct closed *c, int64_t now_ns)
{
    int64_t at_ns = now_ns + TICK_NS, end_ns = c->t0_ns + c->config.length_ns;

    if (c->stopping || (now_ns >= end_ns && c->nbusy == 0))
        return 1;
    if (now_ns >= end_ns)
        return at_ns;
    if (!c->begun && c->t0_ns < at_ns)
        at_ns = c->t0_ns;
    if (c->begun && c->thinking && c->thinking->sent_ns < at_ns)
        at_ns = c->thinking->sent_ns;
    return at_ns < end_ns ? at_ns : end_ns;
}

static void arm(struct closed *c)
{
    int64_t now_ns = vt_clock_now_ns(), at_ns = now_ns + TICK_NS;

    if (!c->events || c->phase == CLOSED_FINISHED || c->phase == CLOSED_READY) {
        vt_timer_disarm(&c->timer);
        return;
    }
    if (c->phase == CLOSED_RUNNING)
        at_ns = next_ns(c, now_ns);
    if (vt_timer_arm(&c->timer, at_ns, NULL) < 0 && c->phase == CLOSED_RUNNING)
        finish(c, now_ns, "no timer can be armed");
}

/* --- interface --- */

static int make_connections(struct closed *c, struct vt_error *err)
{
    size_t bytes = c->config.driver->conn_bytes > 0 ? c->config.driver->conn_bytes : 1;
    size_t stride = (bytes + 63) / 64 * 64;

    c->connections = calloc(c->config.connections, sizeof *c->connections);
    c->conversations = calloc(c->config.connections, stride);
    if (!c->connections || !c->conversations)
        return vt_error_no_memory(err, "%u connections", c->config.connections);
    for (uint32_t i = 0; i < c->config.connections; i++) {
        c->connections[i] = (struct connection){
            .loop = c->loop,
            .driver = c->config.driver,
            .target = &c->config.target,
            .address = (struct sockaddr *)&c->address,
            .tls = c->config.tls,
            .out = &c->out,
            .owner = &owner,
            .ctx = c,
            .index = i,
        };
        connection_init(&c->connections[i], c->conversations + i * stride);
    }
    return 0;
}

int closed_new(struct vt_loop *loop, const struct closed_config *config,
               const struct closed_events *events, void *ctx, struct closed **ret,
               struct vt_error *err)
{
    struct closed *c = calloc(1, sizeof *c);

    if (!c)
        return vt_error_no_memory(err, "make a closed loop");
    c->loop = loop;
    c->config = *config;
    c->out = (struct vt_buf)VT_BUF_INIT(REQUEST_BYTES_MAX);
    c->thinking_end = &c->thinking;
    if (config->tls)
        SSL_CTX_up_ref(config->tls);
    int code = load_parse_address(&config->target, &c->address, err);
    if (code == 0)
        code = make_connections(c, err);
    if (code == 0)
        code = vt_timer_init(&c->timer, loop, on_timer, c, err);
    if (code < 0) {
        c->timer_closed = true;
        release(c);
        return vt_error_wrap(err, "load of %s", config->driver->name);
    }
    c->events = events;
    c->ctx = ctx;
    *ret = c;
    return 0;
}

void closed_open(struct closed *c)
{
    if (c->phase != CLOSED_NEW)
        return;
    c->phase = CLOSED_OPENING;
    c->open_until_ns = vt_clock_now_ns() + CONNECTION_OPEN_NS;
    for (uint32_t i = 0; i < c->config.connections && c->phase == CLOSED_OPENING; i++)
        open_connection(c, &c->connections[i]);
    arm(c);
}

int closed_start(struct closed *c, int64_t t0_ns, struct vt_error *err)
{
    if (c->phase != CLOSED_READY)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "start the load of %s: not ready",
                            c->config.driver->name);
    c->t0_ns = t0_ns;
    c->phase = CLOSED_RUNNING;
    arm(c);
    return 0;
}

void closed_stop(struct closed *c)
{
    if (c->phase == CLOSED_NEW || c->phase == CLOSED_FINISHED)
        return;
    if (c->phase != CLOSED_RUNNING) {
        c->t0_ns = vt_clock_now_ns();
        c->phase = CLOSED_RUNNING;
    }
    c->stopping = true;
    arm(c);
}

static void on_timer_closed(struct vt_timer *timer)
{
    struct closed *c = timer->ctx;

    c->timer_closed = true;
    release(c);
}

struct closed *closed_free(struct closed *c)
{
    if (!c)
        return NULL;
    c->events = NULL;
    c->phase = CLOSED_FINISHED;
    end_connections(c, false);
    vt_timer_close(&c->timer, on_timer_closed);
    return NULL;
}
