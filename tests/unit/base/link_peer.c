/* SPDX-License-Identifier: Apache-2.0 */
#include "link_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

struct vt_loop loop;
struct link_peer a, b;

int link_setup(void **state)
{
    (void)state;
    return vt_loop_init(&loop, NULL);
}

int link_teardown(void **state)
{
    (void)state;
    vt_link_close(a.link);
    vt_link_close(b.link);
    vt_loop_dispose(&loop);
    vt_buf_dispose(&a.got);
    vt_buf_dispose(&b.got);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    return 0;
}

void link_sockets(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void opened(void *ctx)
{
    struct link_peer *peer = ctx;
    assert_int_equal(peer->closed, 0);
    peer->opened++;
    if (peer->on_opened)
        peer->on_opened(peer);
}

static void data(void *ctx, const uint8_t *bytes, size_t len)
{
    struct link_peer *peer = ctx;
    assert_int_equal(peer->opened, 1);
    assert_int_equal(peer->closed, 0);
    assert_true(len >= 1);
    vt_buf_add(&peer->got, bytes, len);
    assert_false(peer->got.failed);
    if (peer->on_data)
        peer->on_data(peer);
}

static void drained(void *ctx)
{
    struct link_peer *peer = ctx;
    assert_int_equal(peer->closed, 0);
    peer->drained++;
}

static void closed(void *ctx, enum vt_link_end end, const struct vt_error *err)
{
    struct link_peer *peer = ctx;
    peer->closed++;
    assert_int_equal(peer->closed, 1);
    peer->end = end;
    peer->err = *err;
    peer->link = NULL;
}

static const struct vt_link_events events = {opened, data, drained, closed};

void link_peer_attach(struct link_peer *peer, struct vt_link *link)
{
    *peer = (struct link_peer){.link = link, .got = VT_BUF_INIT(64U << 20)};
    vt_link_set_events(link, &events, peer);
}

/* Ticks: a callback may come from a timer, after which the loop would sleep on. */
#define TICK_MS 10
#define TICKS_MAX 1000

static void on_tick(uv_timer_t *timer)
{
    ++*(unsigned *)timer->data;
}

static void run(bool (*done)(const void *), const void *ctx)
{
    unsigned ticks = 0;
    uv_timer_t guard;
    uv_timer_init(&loop.uv, &guard);
    guard.data = &ticks;
    uv_timer_start(&guard, on_tick, TICK_MS, TICK_MS);
    while (!done(ctx) && ticks < TICKS_MAX)
        uv_run(&loop.uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop.uv, UV_RUN_NOWAIT); /* the guard is on our stack: its end runs in this turn */
    assert_true(done(ctx));
}

static bool is_set(const void *ctx)
{
    return *(const unsigned *)ctx != 0;
}

void run_until(const unsigned *flag)
{
    run(is_set, flag);
}

struct wanted_bytes {
    const struct vt_buf *buf;
    size_t len;
};

static bool has_bytes(const void *ctx)
{
    const struct wanted_bytes *wanted = ctx;
    return wanted->buf->len >= wanted->len;
}

void run_until_bytes(const struct vt_buf *buf, size_t len)
{
    struct wanted_bytes wanted = {buf, len};
    run(has_bytes, &wanted);
}
