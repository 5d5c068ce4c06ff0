/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/echo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tiles/load/http.h"

int64_t echo_written_ns[ECHO_STEPS_MAX];
unsigned echo_written_count[ECHO_STEPS_MAX];

const char echo_server[] = "location /0 { return 200 \"$arg_r\\n\"; }\n"
                           "location /1 { return 503 \"$arg_r\\n\"; }\n"
                           "location /2 { return 444; }\n"
                           "keepalive_requests 100000;\n";

void echo_clear(void)
{
    memset(echo_written_ns, 0, sizeof echo_written_ns);
    memset(echo_written_count, 0, sizeof echo_written_count);
}

struct echo_conn {
    struct http_reader reader;
    char want[16], got[16];
};

static void echo_init(void *conn, const struct driver_target *target)
{
    (void)conn, (void)target;
}

static void echo_fini(void *conn)
{
    (void)conn;
}

static void echo_request(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    struct echo_conn *c = conn;

    echo_written_ns[step->sequence] = vt_clock_now_ns();
    echo_written_count[step->sequence]++;
    http_begin(&c->reader, false);
    snprintf(c->want, sizeof c->want, "%u\n", step->sequence);
    memset(c->got, 0, sizeof c->got);
    vt_buf_printf(out, "GET /%u?r=%u HTTP/1.1\r\nHost: web.test\r\n\r\n", step->argument,
                  step->sequence);
}

static enum driver_verdict echo_on_bytes(void *conn, const uint8_t *data, size_t len, size_t *used,
                                         struct vt_buf *out, const char **why)
{
    struct echo_conn *c = conn;

    (void)out;
    *used = 0;
    for (;;) {
        const uint8_t *body;
        size_t body_len, n;
        enum http_result result =
            http_read(&c->reader, data + *used, len - *used, &n, &body, &body_len, why);

        *used += n;
        if (result == HTTP_BODY) {
            size_t have = strlen(c->got);

            if (have + body_len < sizeof c->got)
                memcpy(c->got + have, body, body_len);
        } else if (result == HTTP_DONE) {
            *why = c->reader.status != 200 ? "not 200" : "another answer";
            return c->reader.status == 200 && strcmp(c->got, c->want) == 0 ? DRIVER_DONE
                                                                           : DRIVER_WRONG;
        } else {
            return result == HTTP_MORE ? DRIVER_MORE : DRIVER_BAD;
        }
    }
}

static enum driver_verdict echo_on_eof(void *conn, bool truncated, const char **why)
{
    struct echo_conn *c = conn;

    return http_eof(&c->reader, truncated, why) == HTTP_DONE ? DRIVER_DONE : DRIVER_BAD;
}

static uint64_t echo_answer_bytes(const void *conn)
{
    return ((const struct echo_conn *)conn)->reader.body_bytes;
}

static bool echo_keep(const void *conn)
{
    return ((const struct echo_conn *)conn)->reader.keep;
}

static const char *const operations[] = {"even", "odd"};

#define ECHO_DRIVER(with_tls)                                                             \
    {                                                                                     \
        .name = "echo", .tls = (with_tls), .pooled = true, .operations = operations,      \
        .noperations = 2, .conn_bytes = sizeof(struct echo_conn), .conn_init = echo_init, \
        .conn_fini = echo_fini, .request = echo_request, .on_bytes = echo_on_bytes,       \
        .on_eof = echo_on_eof, .answer_bytes = echo_answer_bytes, .keep = echo_keep,      \
    }
const struct driver echo_driver = ECHO_DRIVER(false);
const struct driver echo_tls_driver = ECHO_DRIVER(true);

static int compare_steps(const void *a, const void *b)
{
    int64_t x = ((const struct driver_step *)a)->intended_ns;
    int64_t y = ((const struct driver_step *)b)->intended_ns;

    return (x > y) - (x < y);
}

struct schedule echo_schedule(size_t n, int64_t window_ns, uint64_t seed)
{
    struct schedule schedule = {calloc(n + 1, sizeof *schedule.steps), n, (uint32_t)n, {0}};
    struct vt_rng rng;

    assert_non_null(schedule.steps);
    assert_true(n <= ECHO_STEPS_MAX);
    vt_rng_seed(&rng, seed, "echo", 0);
    for (size_t i = 0; i < n; i++)
        schedule.steps[i].intended_ns = (int64_t)vt_rng_below(&rng, (uint64_t)window_ns);
    qsort(schedule.steps, n, sizeof *schedule.steps, compare_steps);
    for (size_t i = 0; i < n; i++) {
        schedule.steps[i].sequence = schedule.steps[i].session = (uint32_t)i;
        schedule.steps[i].operation = (uint16_t)vt_rng_below(&rng, 2);
    }
    return schedule;
}
