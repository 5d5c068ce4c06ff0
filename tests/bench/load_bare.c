/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_bare ADDRESS PORT RATE SECONDS CONNECTIONS BYTES: the least that drives an open loop of GET
 * / with libuv, at the times that load_null has: the same system calls, the clock looked at when
 * it wakes, after each request and at each answer; no reader of HTTP (an answer is BYTES long), no
 * time-outs, nothing recorded but a sum. Prints the number of answers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/text.h"
#include "tiles/load/get.h"
#include "tiles/load/schedule.h"

#define CONNECTIONS_MAX 4096

struct peer {
    uv_tcp_t tcp;
    uv_connect_t connect;
    int64_t got;
    size_t step;
    struct peer *next; /* of the idle ones */
};

static struct {
    uv_loop_t *loop;
    uv_poll_t poll;
    int timer;
    struct schedule schedule;
    int64_t bytes, t0_ns, sum_ns;
    size_t due, sent, answered; /* steps */
    struct peer peers[CONNECTIONS_MAX], *idle;
    int64_t npeers, nopen;
    char read_buf[65536];
} bare;

static void die(const char *what, int code)
{
    fprintf(stderr, "load_bare: %s: %s\n", what, uv_strerror(code));
    exit(1);
}

static int64_t due_ns(size_t step)
{
    return bare.t0_ns + bare.schedule.steps[step].intended_ns;
}

static void dispatch(void)
{
    static char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: vtile\r\n\r\n";
    uv_buf_t buf = uv_buf_init(request, sizeof request - 1);

    while (bare.sent < bare.due && bare.idle) {
        struct peer *peer = bare.idle;

        bare.idle = peer->next;
        peer->got = 0;
        peer->step = bare.sent++;
        if (uv_try_write((uv_stream_t *)&peer->tcp, &buf, 1) != (int)buf.len)
            die("write", UV_EAGAIN);
    }
}

static void arm(void)
{
    struct itimerspec when = {0};

    if (bare.due < bare.schedule.nsteps) {
        int64_t at_ns = due_ns(bare.due);

        when.it_value.tv_sec = at_ns / VT_NS_PER_S;
        when.it_value.tv_nsec = at_ns % VT_NS_PER_S;
    }
    timerfd_settime(bare.timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
    int64_t now_ns = vt_clock_now_ns();

    (void)poll, (void)status, (void)events;
    while (bare.due < bare.schedule.nsteps && due_ns(bare.due) <= now_ns) {
        bare.due++;
        dispatch();
        now_ns = vt_clock_now_ns();
    }
    arm();
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle, (void)suggested;
    *buf = uv_buf_init(bare.read_buf, sizeof bare.read_buf);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer *peer = stream->data;

    (void)buf;
    if (n < 0)
        die("read", (int)n);
    peer->got += n;
    if (peer->got < bare.bytes)
        return;
    bare.sum_ns += vt_clock_now_ns() - due_ns(peer->step);
    peer->next = bare.idle;
    bare.idle = peer;
    if (++bare.answered == bare.schedule.nsteps)
        uv_stop(bare.loop);
    dispatch();
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct peer *peer = connect->data;

    if (status < 0)
        die("connect", status);
    uv_tcp_nodelay(&peer->tcp, 1);
    uv_read_start((uv_stream_t *)&peer->tcp, on_alloc, on_read);
    peer->next = bare.idle;
    bare.idle = peer;
    if (++bare.nopen == bare.npeers) {
        bare.t0_ns = vt_clock_now_ns();
        arm();
    }
}

static void run(const char *address, int64_t port)
{
    struct sockaddr_in at;

    bare.loop = uv_default_loop();
    bare.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (uv_ip4_addr(address, (int)port, &at) < 0 || bare.timer < 0 ||
        uv_poll_init(bare.loop, &bare.poll, bare.timer) < 0)
        die("begin", UV_EINVAL);
    uv_poll_start(&bare.poll, UV_READABLE, on_timer);
    for (int64_t i = 0; i < bare.npeers; i++) {
        struct peer *peer = &bare.peers[i];

        uv_tcp_init(bare.loop, &peer->tcp);
        peer->tcp.data = peer->connect.data = peer;
        if (uv_tcp_connect(&peer->connect, &peer->tcp, (struct sockaddr *)&at, on_connect) < 0)
            die("connect", UV_EINVAL);
    }
    uv_run(bare.loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    int64_t port, rate, seconds;
    struct vt_error err = VT_ERROR_INIT;

    if (argc != 7 || vt_text_parse_int(argv[2], 1, UINT16_MAX, &port, NULL) < 0 ||
        vt_text_parse_int(argv[3], 1, 100000, &rate, NULL) < 0 ||
        vt_text_parse_int(argv[4], 1, 3600, &seconds, NULL) < 0 ||
        vt_text_parse_int(argv[5], 1, CONNECTIONS_MAX, &bare.npeers, NULL) < 0 ||
        vt_text_parse_int(argv[6], 1, INT32_MAX, &bare.bytes, NULL) < 0) {
        fputs("usage: load_bare ADDRESS PORT RATE SECONDS CONNECTIONS BYTES\n", stderr);
        return 2;
    }
    const struct schedule_segment segment = {.length_ns = seconds * VT_NS_PER_S};
    if (schedule_draw_apart(&get_http, rate * 1000000, &segment, 1, 1, "load", &bare.schedule,
                            &err) < 0) {
        fprintf(stderr, "load_bare: %s\n", err.text);
        return 1;
    }
    run(argv[1], port);
    printf("%zu\n", bare.answered);
    return bare.sum_ns > 0 ? 0 : 1;
}
