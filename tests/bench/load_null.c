/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_null ADDRESS PORT RATE SECONDS CONNECTIONS: the engine alone, its results dropped: an open
 * loop of GET / at RATE a second. Beside load_bare, under callgrind, for what the engine costs.
 * Prints the number of right answers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "tiles/load/engine.h"
#include "tiles/load/get.h"

#define TIMEOUT_NS (60 * VT_NS_PER_S)

static struct engine *engine;
static uint64_t right;
static struct vt_error err = VT_ERROR_INIT;

static void on_opened(void *ctx, int status, const struct vt_error *why)
{
    (void)ctx;
    if (status < 0)
        err = *why;
    if (status < 0 || engine_start(engine, vt_clock_now_ns(), &err) < 0)
        engine = engine_free(engine);
}

static void on_second(void *ctx, const struct vt_load_second *second)
{
    (void)ctx, (void)second;
}

static void on_finished(void *ctx, const struct engine_totals *totals)
{
    (void)ctx;
    right = totals->good;
    if (totals->good < totals->intended)
        vt_error_set(&err, VT_KIND_INFRA, -1, "%s", totals->first_failure);
    engine = engine_free(engine);
}

static const struct engine_events events = {
    .opened = on_opened, .second = on_second, .finished = on_finished};

/* load: what the numbers of the command line give. */
static int drive(const char *address, uint16_t port, int64_t rate, int64_t length_ns,
                 const struct spec_load *load)
{
    static const struct get_page page = {.host = "localhost", .path = "/"};
    static struct vt_loop loop;
    const struct schedule_segment segment = {.length_ns = length_ns};
    struct schedule schedule = {0};
    struct engine_config config = {.driver = &get_http,
                                   .load = load,
                                   .schedule = &schedule,
                                   .target = {.port = port, .context = &page},
                                   .drain_ns = TIMEOUT_NS,
                                   .window_ns = length_ns};

    vt_text_copy(config.target.address, sizeof config.target.address, address);
    if (schedule_draw_apart(&get_http, rate, &segment, 1, 1, "load", &schedule, &err) < 0 ||
        vt_loop_init(&loop, &err) < 0)
        return -1;
    if (engine_new(&loop, &config, &events, NULL, &engine, &err) == 0) {
        engine_open(engine);
        uv_run(&loop.uv, UV_RUN_DEFAULT);
    }
    vt_loop_dispose(&loop);
    schedule_dispose(&schedule);
    return err.code;
}

int main(int argc, char **argv)
{
    struct spec_load load = {.timeout_ns = TIMEOUT_NS};
    int64_t port, rate, seconds;

    if (argc != 6 || vt_text_parse_int(argv[2], 1, UINT16_MAX, &port, NULL) < 0 ||
        vt_text_parse_int(argv[3], 1, 100000, &rate, NULL) < 0 ||
        vt_text_parse_int(argv[4], 1, 3600, &seconds, NULL) < 0 ||
        vt_text_parse_int(argv[5], 1, 4096, &load.connections, NULL) < 0) {
        fputs("usage: load_null ADDRESS PORT RATE SECONDS CONNECTIONS\n", stderr);
        return 2;
    }
    if (drive(argv[1], (uint16_t)port, rate * 1000000, seconds * VT_NS_PER_S, &load) < 0) {
        fprintf(stderr, "load_null: %s\n", err.text);
        return 1;
    }
    printf("%" PRIu64 "\n", right);
    return 0;
}
