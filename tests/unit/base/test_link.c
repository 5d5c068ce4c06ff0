/* SPDX-License-Identifier: Apache-2.0 */
/* Links over sockets and a terminal pair: what arrives, how it ends, how often closed comes. */
#include "base/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "link_peer.h"

static void attach_fd(struct link_peer *peer, int fd)
{
    struct vt_link *link;
    assert_int_equal(vt_link_fd_new(&loop, fd, QUEUE_MAX, &link, NULL), 0);
    link_peer_attach(peer, link);
}

static void open_pair(void)
{
    int fds[2];
    link_sockets(fds);
    attach_fd(&a, fds[0]);
    attach_fd(&b, fds[1]);
    vt_link_open(a.link);
    vt_link_open(b.link);
    assert_int_equal(a.opened, 0); /* only from the loop */
    run_until(&a.opened);
    run_until(&b.opened);
}

static void fill_random(uint8_t *data, size_t len)
{
    struct vt_rng rng;
    vt_rng_seed(&rng, 1, "test_link", 0);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(vt_rng_next(&rng) >> 56);
}

static void test_bytes_arrive_in_order(void **state)
{
    (void)state;
    open_pair();
    assert_int_equal(vt_link_send(a.link, "one ", 4, NULL), 0);
    assert_int_equal(vt_link_send(a.link, "two", 3, NULL), 0);
    assert_int_equal(vt_link_queued(a.link), 0); /* the kernel took it at once */
    run_until_bytes(&b.got, 7);
    assert_memory_equal(b.got.data, "one two", 7);
}

/* More than socket buffers hold: the rest is queued, in order, and the bound is kept. */
static void test_queue_is_bounded_and_ordered(void **state)
{
    (void)state;
    enum { CHUNK = 50000, TOTAL = 100 * CHUNK };
    uint8_t *data = malloc(TOTAL);
    assert_non_null(data);
    fill_random(data, TOTAL);
    open_pair();
    vt_link_read_stop(b.link);
    size_t sent = 0;
    while (vt_link_send(a.link, data + sent, CHUNK, NULL) == 0)
        sent += CHUNK;
    assert_true(vt_link_queued(a.link) > 0 && vt_link_queued(a.link) <= QUEUE_MAX);
    struct vt_error err = VT_ERROR_INIT;
    assert_int_equal(vt_link_send(a.link, data, CHUNK, &err), -ENOBUFS);
    assert_int_equal(a.closed, 0);
    vt_link_read_start(b.link);
    while (sent < TOTAL) {
        if (vt_link_send(a.link, data + sent, CHUNK, NULL) == 0)
            sent += CHUNK;
        else
            uv_run(&loop.uv, UV_RUN_ONCE);
    }
    run_until_bytes(&b.got, TOTAL);
    assert_int_equal(b.got.len, TOTAL);
    assert_memory_equal(b.got.data, data, TOTAL);
    run_until(&a.drained);
    free(data);
}

static void test_read_stop_holds_data_back(void **state)
{
    (void)state;
    open_pair();
    vt_link_read_stop(b.link);
    assert_int_equal(vt_link_send(a.link, "x", 1, NULL), 0);
    for (int i = 0; i < 20; i++)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(b.got.len, 0);
    vt_link_read_start(b.link);
    run_until_bytes(&b.got, 1);
}

static void test_shut_sends_what_is_queued(void **state)
{
    (void)state;
    static uint8_t data[QUEUE_MAX];
    fill_random(data, sizeof data);
    open_pair();
    size_t total = 0;
    while (vt_link_send(a.link, data, 65536, NULL) == 0)
        total += 65536;
    assert_true(vt_link_queued(a.link) > 0);
    vt_link_shut(a.link);
    vt_link_shut(a.link);
    assert_int_equal(vt_link_send(a.link, "x", 1, NULL), -EPIPE);
    run_until(&b.closed);
    run_until(&a.closed);
    assert_int_equal(b.got.len, total);
    assert_int_equal(b.end, VT_LINK_EOF);
    assert_int_equal(a.end, VT_LINK_EOF);
}

/* The peer's end comes while our bytes still wait: they are sent before the link goes. */
static void test_peer_that_half_closes_gets_the_rest(void **state)
{
    (void)state;
    static uint8_t data[QUEUE_MAX], back[65536];
    int fds[2];
    fill_random(data, sizeof data);
    link_sockets(fds);
    attach_fd(&a, fds[0]);
    vt_link_open(a.link);
    run_until(&a.opened);
    size_t total = 0, got = 0;
    while (vt_link_send(a.link, data, 65536, NULL) == 0)
        total += 65536;
    assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
    for (ssize_t n; got < total; got += (size_t)n) {
        uv_run(&loop.uv, UV_RUN_NOWAIT);
        n = read(fds[1], back, sizeof back);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            if (back[i] != data[(got + (size_t)i) % 65536])
                fail_msg("byte %zu differs", got + (size_t)i);
    }
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_EOF);
    close(fds[1]);
}

static void test_shut_gives_up_on_a_silent_peer(void **state)
{
    (void)state;
    int fds[2];
    link_sockets(fds);
    attach_fd(&a, fds[0]);
    vt_link_open(a.link);
    run_until(&a.opened);
    vt_link_shut(a.link);
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_FAILED);
    assert_int_equal(a.err.code, -ETIMEDOUT);
    close(fds[1]);
}

/* The peer says why and goes; our write fails; its words are still read. */
static void test_last_words_are_read_after_a_failed_write(void **state)
{
    (void)state;
    int fds[2];
    link_sockets(fds);
    attach_fd(&a, fds[0]);
    vt_link_open(a.link);
    run_until(&a.opened);
    assert_int_equal(write(fds[1], "go away", 7), 7);
    close(fds[1]);
    struct vt_error err = VT_ERROR_INIT;
    assert_int_equal(vt_link_send(a.link, "hello", 5, &err), -EPIPE);
    assert_int_equal(a.got.len, 0);
    run_until(&a.closed);
    assert_int_equal(a.got.len, 7);
    assert_memory_equal(a.got.data, "go away", 7);
    assert_int_equal(a.end, VT_LINK_FAILED);
    assert_int_equal(a.err.code, -EPIPE);
}

static void close_it(struct link_peer *peer)
{
    vt_link_close(peer->link);
    vt_link_close(peer->link);
    vt_link_shut(peer->link);
}

static void test_close_inside_data(void **state)
{
    (void)state;
    open_pair();
    b.on_data = close_it;
    assert_int_equal(vt_link_send(a.link, "x", 1, NULL), 0);
    run_until(&b.closed);
    assert_int_equal(b.end, VT_LINK_FAILED);
    assert_int_equal(b.err.code, -ECANCELED);
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_EOF);
}

static void test_close_inside_opened(void **state)
{
    (void)state;
    int fds[2];
    link_sockets(fds);
    close(fds[1]);
    attach_fd(&a, fds[0]);
    a.on_opened = close_it;
    vt_link_open(a.link);
    run_until(&a.closed);
    assert_int_equal(a.err.code, -ECANCELED);
}

static void test_close_before_open(void **state)
{
    (void)state;
    int fds[2];
    link_sockets(fds);
    close(fds[1]);
    attach_fd(&a, fds[0]);
    vt_link_close(a.link);
    run_until(&a.closed);
    assert_int_equal(a.opened, 0);
}

static void test_close_with_a_write_under_way(void **state)
{
    (void)state;
    static uint8_t data[65536];
    open_pair();
    vt_link_read_stop(b.link);
    while (vt_link_send(a.link, data, sizeof data, NULL) == 0)
        ;
    assert_true(vt_link_queued(a.link) > 0);
    vt_link_close(a.link);
    run_until(&a.closed);
}

static int listen_on_loopback(struct sockaddr_in *ret)
{
    socklen_t len = sizeof *ret;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)ret, sizeof *ret), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &len), 0);
    return fd;
}

static void test_tcp_connects(void **state)
{
    (void)state;
    struct sockaddr_in address;
    struct vt_link *link;
    int server = listen_on_loopback(&address);
    assert_int_equal(listen(server, 1), 0);
    assert_int_equal(vt_link_tcp_new(&loop, (struct sockaddr *)&address, QUEUE_MAX, &link, NULL),
                     0);
    link_peer_attach(&a, link);
    assert_int_equal(vt_link_send(a.link, "x", 1, NULL), -ENOTCONN);
    vt_link_open(a.link);
    assert_int_equal(vt_link_send(a.link, "x", 1, NULL), -ENOTCONN);
    run_until(&a.opened);
    attach_fd(&b, accept4(server, NULL, NULL, SOCK_CLOEXEC));
    vt_link_open(b.link);
    assert_int_equal(vt_link_send(a.link, "ping", 4, NULL), 0);
    run_until_bytes(&b.got, 4);
    close(server);
}

static void test_refused_connection_is_closed_not_opened(void **state)
{
    (void)state;
    struct sockaddr_in address;
    struct vt_link *link;
    int server = listen_on_loopback(&address); /* bound, but does not listen */
    assert_int_equal(vt_link_tcp_new(&loop, (struct sockaddr *)&address, QUEUE_MAX, &link, NULL),
                     0);
    link_peer_attach(&a, link);
    vt_link_open(a.link);
    assert_int_equal(a.closed, 0);
    run_until(&a.closed);
    assert_int_equal(a.opened, 0);
    assert_int_equal(a.end, VT_LINK_FAILED);
    assert_int_equal(a.err.code, -ECONNREFUSED);
    close(server);
}

static void test_reset_is_a_failure(void **state)
{
    (void)state;
    struct sockaddr_in address;
    struct vt_link *link;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int server = listen_on_loopback(&address);
    assert_int_equal(listen(server, 1), 0);
    assert_int_equal(vt_link_tcp_new(&loop, (struct sockaddr *)&address, QUEUE_MAX, &link, NULL),
                     0);
    link_peer_attach(&a, link);
    vt_link_open(a.link);
    run_until(&a.opened);
    int fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    run_until(&a.closed);
    assert_int_equal(a.end, VT_LINK_FAILED);
    assert_int_equal(a.err.code, -ECONNRESET);
    close(server);
}

/* --- a port: a raw terminal pair stands for the character device --- */
static int open_terminal(char *path, size_t size)
{
    struct termios raw;
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(grantpt(fd), 0);
    assert_int_equal(unlockpt(fd), 0);
    assert_int_equal(ptsname_r(fd, path, size), 0);
    assert_int_equal(tcgetattr(fd, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(fd, TCSANOW, &raw), 0);
    return fd;
}

static void test_port_carries_bytes_both_ways(void **state)
{
    (void)state;
    char path[64], back[64] = "";
    struct vt_link *link;
    int host = open_terminal(path, sizeof path);
    assert_int_equal(vt_link_port_new(&loop, path, QUEUE_MAX, &link, NULL), 0);
    link_peer_attach(&a, link);
    vt_link_open(a.link);
    assert_int_equal(a.opened, 0);
    run_until(&a.opened);
    assert_int_equal(vt_link_send(a.link, "to host", 7, NULL), 0);
    assert_int_equal(read(host, back, sizeof back), 7);
    assert_string_equal(back, "to host");
    assert_int_equal(write(host, "to guest", 8), 8);
    run_until_bytes(&a.got, 8);
    assert_memory_equal(a.got.data, "to guest", 8);
    close(host);
    run_until(&a.closed);
}

/* A port takes little at a time: the queue empties as the host reads. */
static void test_port_queues_what_the_host_does_not_read(void **state)
{
    (void)state;
    static uint8_t data[60000], back[60000];
    char path[64];
    struct vt_link *link;
    int host = open_terminal(path, sizeof path);
    fill_random(data, sizeof data);
    assert_int_equal(fcntl(host, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(vt_link_port_new(&loop, path, QUEUE_MAX, &link, NULL), 0);
    link_peer_attach(&a, link);
    vt_link_open(a.link);
    run_until(&a.opened);
    assert_int_equal(vt_link_send(a.link, data, sizeof data, NULL), 0);
    assert_true(vt_link_queued(a.link) > 0);
    size_t got = 0;
    while (got < sizeof data) {
        ssize_t n = read(host, back + got, sizeof back - got);
        if (n > 0)
            got += (size_t)n;
        else
            uv_run(&loop.uv, UV_RUN_ONCE);
    }
    assert_memory_equal(back, data, sizeof data);
    run_until(&a.drained);
    close(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_arrive_in_order, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_queue_is_bounded_and_ordered, link_setup,
                                        link_teardown),
        cmocka_unit_test_setup_teardown(test_read_stop_holds_data_back, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_shut_sends_what_is_queued, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_peer_that_half_closes_gets_the_rest, link_setup,
                                        link_teardown),
        cmocka_unit_test_setup_teardown(test_shut_gives_up_on_a_silent_peer, link_setup,
                                        link_teardown),
        cmocka_unit_test_setup_teardown(test_last_words_are_read_after_a_failed_write, link_setup,
                                        link_teardown),
        cmocka_unit_test_setup_teardown(test_close_inside_data, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_close_inside_opened, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_close_before_open, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_close_with_a_write_under_way, link_setup,
                                        link_teardown),
        cmocka_unit_test_setup_teardown(test_tcp_connects, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_refused_connection_is_closed_not_opened, link_setup,
                                        link_teardown),
        cmocka_unit_test_setup_teardown(test_reset_is_a_failure, link_setup, link_teardown),
        cmocka_unit_test_setup_teardown(test_port_carries_bytes_both_ways, link_setup,
                                        link_teardown),
        cmocka_unit_test_setup_teardown(test_port_queues_what_the_host_does_not_read, link_setup,
                                        link_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
