/* SPDX-License-Identifier: Apache-2.0 */
/* What a load generator says of itself, of gaps, connections and sockets that are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/load/self_check.h"

#define MS VT_NS_PER_MS

/* Of 100 values, seven are elsewhere: 7 % of both distributions differ, wherever they went. */
static void test_distance(void **state)
{
    struct vt_hist *hists = calloc(3, sizeof *hists);

    (void)state;
    assert_non_null(hists);
    for (int i = 0; i < 3; i++)
        vt_hist_init(&hists[i]);
    assert_int_equal(self_check_distance(&hists[0], &hists[1]), 0);
    for (int i = 0; i < 100; i++) {
        vt_hist_record(&hists[0], 10 * MS);
        vt_hist_record(&hists[1], i < 7 ? 0 : 10 * MS);
        vt_hist_record(&hists[2], i < 7 ? VT_NS_PER_S : 10 * MS);
    }
    assert_int_equal(self_check_distance(&hists[0], &hists[0]), 0);
    assert_int_equal(self_check_distance(&hists[0], &hists[1]), 70000);
    assert_int_equal(self_check_distance(&hists[2], &hists[0]), 70000);
    /* Seven came early and seven late: the larger of both, not their sum. */
    assert_int_equal(self_check_distance(&hists[1], &hists[2]), 70000);
    free(hists);
}

/* 1,001 steps due each 10 ms; the fifth of each ten is seen lag_ns late. */
static int64_t distance_of(int64_t always_ns, int64_t lag_ns)
{
    struct self_check check;
    struct vt_record_generator generator = {0};

    assert_int_equal(self_check_init(&check, NULL), 0);
    self_check_start(&check, VT_NS_PER_S, VT_NS_PER_S + 1001 * 10 * MS, 1001, 1);
    self_check_step(&check, VT_NS_PER_S - 1, VT_NS_PER_S + 5); /* before the window */
    for (int i = 0; i < 1001; i++) {
        int64_t due_ns = VT_NS_PER_S + i * 10 * MS;

        self_check_step(&check, due_ns, due_ns + always_ns + (i % 10 == 5 ? lag_ns : 0));
    }
    self_check_step(&check, VT_NS_PER_S + 1001 * 10 * MS, 40 * VT_NS_PER_S); /* after it */
    self_check_end(&check, 40 * VT_NS_PER_S, &generator);
    self_check_dispose(&check);
    self_check_dispose(&check);
    assert_int_equal(generator.gaps, 1000);
    return generator.gap_distance;
}

static void test_gaps(void **state)
{
    (void)state;
    assert_int_equal(distance_of(0, 0), 0);
    assert_int_equal(distance_of(5 * MS, 0), 0); /* the same lag always moves no gap */
    /* One in ten waits for the next and goes with it: a tenth of the gaps is 0, another 20 ms. */
    assert_int_equal(distance_of(0, 10 * MS), 100000);
    /* A tenth of the mean gap is none. */
    assert_int_equal(distance_of(0, MS), 0);
    assert_int_equal(distance_of(0, MS + MS / 10), 100000);
}

/* A window of 1,000 ns: for half of it 3 of 4 connections and a step that waits. */
static void test_connections(void **state)
{
    struct self_check check;
    struct vt_record_generator generator = {0};

    (void)state;
    assert_int_equal(self_check_init(&check, NULL), 0);
    self_check_start(&check, 100, 1100, 10, 4);
    assert_false(self_check_changed(&check, 4, false));
    assert_true(self_check_changed(&check, 4, true));
    assert_true(self_check_changed(&check, 3, false));
    self_check_change(&check, 2, true, 40); /* before it begins */
    self_check_change(&check, 3, true, 50);
    self_check_change(&check, 4, false, 600);
    self_check_change(&check, 0, true, 1200); /* after it has ended */
    self_check_end(&check, 5000, &generator);
    assert_int_equal(generator.watched_ns, 1000);
    assert_int_equal(generator.waiting_ns, 500);
    assert_int_equal(generator.open, 3500000);
    self_check_dispose(&check);
}

/* socket(7): what is set is doubled, and the kernel has a least of its own. */
static void test_buffers(void **state)
{
    struct self_check check;
    struct vt_record_generator generator = {0};
    int fds[2], small = 2048, large = 65536;

    (void)state;
    assert_int_equal(self_check_init(&check, NULL), 0);
    self_check_buffers(&check, -1);
    self_check_end(&check, 0, &generator);
    assert_true(generator.receive_bytes == 0 && generator.send_bytes == 0);
    for (int i = 0; i < 2; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
        assert_int_equal(
            setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, i ? &large : &small, sizeof small), 0);
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &large, sizeof large), 0);
    }
    self_check_buffers(&check, fds[1]);
    self_check_buffers(&check, fds[0]);
    self_check_buffers(&check, fds[1]);
    self_check_end(&check, 0, &generator);
    assert_int_equal(generator.receive_bytes, 2 * small);
    assert_int_equal(generator.send_bytes, 2 * large);
    close(fds[0]);
    close(fds[1]);
    self_check_dispose(&check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
