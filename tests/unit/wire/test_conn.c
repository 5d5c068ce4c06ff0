/* SPDX-License-Identifier: Apache-2.0 */
/* Two connections over a socket pair; and one whose peer is this test, byte by byte. */
#include "wire/conn.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

#define QUEUE_MAX (1U << 20)

static struct vt_loop loop;

struct side {
    struct wire_conn *conn; /* NULL once closed */
    unsigned opened, frames, closed;
    struct vt_buf got; /* payloads, one after the other */
    struct vt_error err;
    int answer; /* what frame() returns */
    bool close_in_frame;
};
static struct side a, b;

static void opened(void *ctx)
{
    ((struct side *)ctx)->opened++;
}

static int frame(void *ctx, const struct wire_frame *f, struct vt_error *err)
{
    struct side *side = ctx;
    side->frames++;
    vt_buf_add(&side->got, f->payload, f->len);
    if (side->close_in_frame)
        wire_conn_close(side->conn);
    return side->answer ? vt_error_set(err, VT_KIND_REFUSED, side->answer, "not like this") : 0;
}

static void closed(void *ctx, const struct vt_error *err)
{
    struct side *side = ctx;
    side->closed++;
    side->err = *err;
    side->conn = NULL;
}

static const struct wire_conn_events events = {opened, frame, NULL, closed};

static void attach(struct side *side, int fd)
{
    struct vt_link *link;
    assert_int_equal(vt_link_fd_new(&loop, fd, QUEUE_MAX, &link, NULL), 0);
    assert_int_equal(wire_conn_new(&loop, link, &events, side, &side->conn, NULL), 0);
    side->got = (struct vt_buf)VT_BUF_INIT(8U << 20);
    wire_conn_open(side->conn);
}

static void on_tick(uv_timer_t *timer)
{
    ++*(unsigned *)timer->data;
}

/* Ten seconds at most for *value to reach wanted. */
static void run_until(const unsigned *value, unsigned wanted)
{
    unsigned ticks = 0;
    uv_timer_t guard;
    uv_timer_init(&loop.uv, &guard);
    guard.data = &ticks;
    uv_timer_start(&guard, on_tick, 10, 10);
    while (*value < wanted && ticks < 1000)
        uv_run(&loop.uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop.uv, UV_RUN_NOWAIT);
    assert_true(*value >= wanted);
}

static int setup(void **state)
{
    (void)state;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    return vt_loop_init(&loop, NULL);
}

static int teardown(void **state)
{
    (void)state;
    if (a.conn)
        wire_conn_abort(a.conn);
    if (b.conn)
        wire_conn_abort(b.conn);
    vt_loop_dispose(&loop);
    vt_buf_dispose(&a.got);
    vt_buf_dispose(&b.got);
    return 0;
}

static void make_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void open_pair(void)
{
    int fds[2];
    make_pair(fds);
    attach(&a, fds[0]);
    attach(&b, fds[1]);
    run_until(&a.opened, 1);
    run_until(&b.opened, 1);
}

static void test_frames_arrive(void **state)
{
    (void)state;
    static uint8_t big[WIRE_PAYLOAD_MAX];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (uint8_t)(i * 7 + i / 251);
    open_pair();
    assert_int_equal(wire_conn_send(a.conn, WIRE_EVENT, 0, "{}", 2, NULL), 0);
    assert_int_equal(wire_conn_send(a.conn, WIRE_LOG, 5, big, sizeof big, NULL), 0);
    assert_int_equal(wire_conn_send(a.conn, WIRE_EVENT, 0, "", 0, NULL), 0);
    run_until(&b.frames, 3);
    assert_int_equal(b.got.len, 2 + sizeof big);
    assert_memory_equal(b.got.data + 2, big, sizeof big);
    wire_conn_close(a.conn);
    run_until(&a.closed, 1);
    run_until(&b.closed, 1);
    assert_int_equal(a.err.code, 0);
    assert_int_equal(b.err.code, -ECONNRESET);
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0, 0, 0, 2, WIRE_EVENT, 0, 0, 0, 'h', 'i',
                                    0, 0, 0, 1, WIRE_EVENT, 0, 0, 0, '!'};
    int fds[2];
    make_pair(fds);
    attach(&b, fds[1]);
    run_until(&b.opened, 1);
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(write(fds[0], bytes + i, 1), 1);
        uv_run(&loop.uv, UV_RUN_ONCE);
    }
    run_until(&b.frames, 2);
    assert_memory_equal(b.got.data, "hi!", 3);
    close(fds[0]);
}

/* The peer is told why, in words. */
static void test_refusal_carries_its_reason(void **state)
{
    (void)state;
    open_pair();
    b.answer = -EACCES;
    assert_int_equal(wire_conn_send(a.conn, WIRE_EVENT, 0, "{}", 2, NULL), 0);
    run_until(&a.closed, 1);
    run_until(&b.closed, 1);
    assert_string_equal(a.err.text, "refused by the peer: not like this");
    assert_int_equal(a.err.kind, VT_KIND_REFUSED);
    assert_string_equal(b.err.text, "not like this");
    assert_int_equal(b.err.code, -EACCES);
}

static void test_garbage_ends_it(void **state)
{
    (void)state;
    int fds[2];
    char back[512] = "";
    make_pair(fds);
    attach(&b, fds[1]);
    run_until(&b.opened, 1);
    assert_int_equal(write(fds[0], "GET / HTTP/1.1\r\n\r\n", 18), 18);
    while (recv(fds[0], back, sizeof back - 1, MSG_DONTWAIT) < 0)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_int_equal(back[4], WIRE_REFUSED);
    assert_int_equal(back[8], '{');
    close(fds[0]);
    run_until(&b.closed, 1);
    assert_int_equal(b.frames, 0);
    assert_int_equal(b.err.code, -EBADMSG);
}

static void test_close_inside_frame_stops_the_rest(void **state)
{
    (void)state;
    open_pair();
    b.close_in_frame = true;
    for (int i = 0; i < 5; i++)
        assert_int_equal(wire_conn_send(a.conn, WIRE_EVENT, 0, "{}", 2, NULL), 0);
    run_until(&b.closed, 1);
    assert_int_equal(b.frames, 1);
}

static void test_too_many_frames_end_it(void **state)
{
    (void)state;
    open_pair();
    wire_conn_limit(b.conn, 10, 50, WIRE_PAYLOAD_MAX);
    for (int i = 0; i < 40; i++)
        assert_int_equal(wire_conn_send(a.conn, WIRE_EVENT, 0, "{}", 2, NULL), 0);
    run_until(&b.frames, 40);
    assert_int_equal(b.closed, 0);
    for (int i = 0; i < 40; i++)
        wire_conn_send(a.conn, WIRE_EVENT, 0, "{}", 2, NULL);
    run_until(&b.closed, 1);
    assert_true(b.frames >= 50 && b.frames < 80);
    assert_non_null(strstr(b.err.text, "frames a second"));
}

static void test_long_frames_end_it_by_their_header(void **state)
{
    (void)state;
    static const uint8_t header[] = {0, 0, 1, 1, WIRE_EVENT, 0, 0, 0};
    int fds[2];
    make_pair(fds);
    attach(&b, fds[1]);
    run_until(&b.opened, 1);
    wire_conn_limit(b.conn, 10, 50, 256);
    assert_int_equal(write(fds[0], header, sizeof header), sizeof header);
    close(fds[0]);
    run_until(&b.closed, 1);
    assert_int_equal(b.err.code, -EBADMSG);
}

static void test_clocks_of_one_machine_agree(void **state)
{
    (void)state;
    int64_t offset_ns, rtt_ns;
    unsigned turns = 0;
    open_pair();
    int64_t at_ns, last_ns;
    assert_false(wire_conn_clock(a.conn, &offset_ns, &rtt_ns));
    assert_false(wire_conn_last_trip(a.conn, &at_ns, &last_ns));
    assert_int_equal(wire_conn_heartbeat(a.conn, 2 * VT_NS_PER_MS, VT_NS_PER_S, NULL), 0);
    while (!wire_conn_clock(a.conn, &offset_ns, &rtt_ns) && turns++ < 10000)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_true(wire_conn_clock(a.conn, &offset_ns, &rtt_ns));
    assert_true(wire_conn_last_trip(a.conn, &at_ns, &last_ns));
    assert_true(last_ns >= rtt_ns && at_ns <= vt_clock_now_ns());
    /* The clock is the same: the offset is the error, which has a stated bound. */
    assert_true(rtt_ns > 0);
    assert_true(llabs(offset_ns) <= rtt_ns / 2 + 1);
    assert_int_equal(b.frames, 0); /* pings are no one's business */
}

static void test_silence_is_loss(void **state)
{
    (void)state;
    int fds[2];
    make_pair(fds);
    attach(&a, fds[0]);
    run_until(&a.opened, 1);
    int64_t from_ns = vt_clock_now_ns();
    assert_int_equal(wire_conn_heartbeat(a.conn, 10 * VT_NS_PER_MS, 100 * VT_NS_PER_MS, NULL), 0);
    run_until(&a.closed, 1);
    assert_int_equal(a.err.code, -ETIMEDOUT);
    assert_true(vt_clock_now_ns() - from_ns > 100 * VT_NS_PER_MS);
    close(fds[1]);
}

/* Answers to pings that were never sent, or were answered already, move no clock. */
static void test_made_up_pongs_are_ignored(void **state)
{
    (void)state;
    uint8_t pong[24] = {0, 0, 0, 16, WIRE_PONG};
    int64_t offset_ns, rtt_ns;
    int fds[2];
    make_pair(fds);
    attach(&a, fds[0]);
    run_until(&a.opened, 1);
    assert_int_equal(write(fds[1], pong, sizeof pong), sizeof pong);
    pong[15] = 77;
    assert_int_equal(write(fds[1], pong, sizeof pong), sizeof pong);
    for (int i = 0; i < 10; i++)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    assert_false(wire_conn_clock(a.conn, &offset_ns, &rtt_ns));
    assert_int_equal(a.closed, 0);
    close(fds[1]);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_frames_arrive),
        T(test_byte_by_byte),
        T(test_refusal_carries_its_reason),
        T(test_garbage_ends_it),
        T(test_close_inside_frame_stops_the_rest),
        T(test_too_many_frames_end_it),
        T(test_long_frames_end_it_by_their_header),
        T(test_clocks_of_one_machine_agree),
        T(test_silence_is_loss),
        T(test_made_up_pongs_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
