/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_engine statements
 * sql_engine ADDRESS TILE RATE SECONDS CONNECTIONS: the load engine with the database driver at a
 * server, for sql.py. The first prints the driver's statements, a line each. The second prints
 * a line of JSON: counts, percentiles in ns, and its CPU time from T0 on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/load/engine.h"
#include "tiles/load/sql.h"
#include "tiles/roles/registry.h"

#define DRAIN_NS (10 * VT_NS_PER_S)

struct bench {
    struct engine *engine;
    struct engine_totals totals;
    struct vt_error err;
    int64_t cpu_ns; /* at T0, then since */
    struct vt_hist response, service, wake_lag;
};

static int64_t number(const char *word)
{
    return strtoll(word, NULL, 10);
}

static int64_t cpu_ns(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * VT_NS_PER_S +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * VT_NS_PER_US;
}

static void opened(void *ctx, int status, const struct vt_error *err)
{
    struct bench *b = ctx;

    if (status == 0)
        status = engine_start(b->engine, vt_clock_now_ns() + 10 * VT_NS_PER_MS, &b->err);
    else
        b->err = *err;
    b->cpu_ns = cpu_ns();
    if (status < 0)
        b->engine = engine_free(b->engine);
}

static void second(void *ctx, const struct vt_load_second *s)
{
    struct bench *b = ctx;

    vt_hist_merge(&b->response, s->response);
    vt_hist_merge(&b->service, s->service);
    vt_hist_merge(&b->wake_lag, s->wake_lag);
}

static void finished(void *ctx, const struct engine_totals *totals)
{
    struct bench *b = ctx;

    b->cpu_ns = cpu_ns() - b->cpu_ns;
    b->totals = *totals;
    b->engine = engine_free(b->engine);
}

static const struct engine_events events = {opened, second, finished};

static int drive(char **words, struct bench *b)
{
    const struct schedule_segment segment = {.length_ns = number(words[3]) * VT_NS_PER_S};
    struct spec_load load = {.connections = number(words[4]),
                             .timeout_ns = 10 * VT_NS_PER_S,
                             .good_limit_ns = 10 * VT_NS_PER_S,
                             .expected_ns = 100 * VT_NS_PER_MS};
    struct engine_config config = {.driver = &database_driver,
                                   .load = &load,
                                   .drain_ns = DRAIN_NS,
                                   .window_ns = segment.length_ns};
    struct schedule schedule;
    struct vt_loop loop;
    int code = schedule_draw(&database_driver, &load, number(words[2]) * 1000000, &segment, 1, 1,
                             "bench", &schedule, &b->err);

    if (code < 0)
        return code;
    config.schedule = &schedule;
    config.target.tile = (unsigned)number(words[1]);
    config.target.port = database_driver.port;
    vt_text_copy(config.target.address, sizeof(config.target.address), words[0]);
    code = vt_loop_init(&loop, &b->err);
    if (code == 0)
        code = engine_new(&loop, &config, &events, b, &b->engine, &b->err);
    if (code < 0)
        return code;
    engine_open(b->engine);
    uv_run(&loop.uv, UV_RUN_DEFAULT);
    vt_loop_dispose(&loop);
    schedule_dispose(&schedule);
    return b->err.code;
}

static void print_hist(const char *name, const struct vt_hist *h)
{
    printf(", \"%s\": [%lld, %lld, %lld, %lld]", name, (long long)vt_hist_quantile(h, 500000),
           (long long)vt_hist_quantile(h, 900000), (long long)vt_hist_quantile(h, 990000),
           (long long)vt_hist_quantile(h, 999000));
}

int main(int argc, char **argv)
{
    static struct bench b;

    if (argc == 2 && strcmp(argv[1], "statements") == 0) {
        for (unsigned i = 0; i < database_driver.sql->nstatements; i++)
            puts(database_driver.sql->statements[i]);
        return 0;
    }
    if (argc != 6)
        return 2;
    vt_hist_init(&b.response);
    vt_hist_init(&b.service);
    vt_hist_init(&b.wake_lag);
    if (drive(argv + 1, &b) < 0) {
        fprintf(stderr, "sql_engine: %s\n", b.err.text);
        return 1;
    }
    printf("{\"intended\": %llu, \"good\": %llu, \"cpu_ns\": %lld",
           (unsigned long long)b.totals.intended, (unsigned long long)b.totals.good,
           (long long)b.cpu_ns);
    print_hist("response", &b.response);
    print_hist("service", &b.service);
    print_hist("wake_lag", &b.wake_lag);
    printf(", \"first_failure\": \"%s\"}\n", b.totals.first_failure);
    return 0;
}
