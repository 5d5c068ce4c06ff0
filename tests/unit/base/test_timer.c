/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/clock.h"
#include "link_peer.h"

struct seen {
    struct vt_timer timer;
    unsigned fired, closed;
    int64_t wanted_ns, late_ns;
    bool early;
    unsigned left; /* arms itself again */
};

static void fire(struct vt_timer *timer, int64_t now_ns)
{
    struct seen *seen = timer->ctx;
    seen->fired++;
    seen->late_ns = now_ns - seen->wanted_ns;
    if (now_ns < seen->wanted_ns || timer->armed_ns != 0)
        seen->early = true;
    if (seen->left > 0) {
        seen->left--;
        seen->wanted_ns += 300 * VT_NS_PER_US;
        assert_int_equal(vt_timer_arm(timer, seen->wanted_ns, NULL), 0);
    }
}

static void on_closed(struct vt_timer *timer)
{
    ((struct seen *)timer->ctx)->closed++;
}

static void start(struct seen *seen, int64_t in_ns)
{
    *seen = (struct seen){0};
    assert_int_equal(vt_loop_init(&loop, NULL), 0);
    assert_int_equal(vt_timer_init(&seen->timer, &loop, fire, seen, NULL), 0);
    seen->wanted_ns = vt_clock_now_ns() + in_ns;
    assert_int_equal(vt_timer_arm(&seen->timer, seen->wanted_ns, NULL), 0);
    assert_int_equal(seen->timer.armed_ns, seen->wanted_ns);
}

static void finish(struct seen *seen)
{
    vt_timer_close(&seen->timer, on_closed);
    vt_timer_close(&seen->timer, on_closed);
    run_until(&seen->closed);
    assert_int_equal(seen->closed, 1);
    vt_loop_dispose(&loop);
}

static void test_never_fires_early(void **state)
{
    (void)state;
    struct seen seen;
    start(&seen, 1234567);
    seen.left = 200;
    while (seen.fired < 201)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_false(seen.early);
    finish(&seen);
}

static void test_a_past_time_fires_at_once_and_once(void **state)
{
    (void)state;
    struct seen seen;
    start(&seen, -VT_NS_PER_S);
    run_until(&seen.fired);
    for (int i = 0; i < 50; i++)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(seen.fired, 1);
    finish(&seen);
}

static void test_the_latest_arming_counts(void **state)
{
    (void)state;
    struct seen seen;
    start(&seen, 3600 * VT_NS_PER_S);
    seen.wanted_ns = vt_clock_now_ns() + VT_NS_PER_MS;
    assert_int_equal(vt_timer_arm(&seen.timer, seen.wanted_ns, NULL), 0);
    run_until(&seen.fired);
    assert_false(seen.early);
    finish(&seen);
}

static void test_disarmed_does_not_fire(void **state)
{
    (void)state;
    struct seen seen;
    start(&seen, -1); /* due already, not yet told */
    vt_timer_disarm(&seen.timer);
    for (int i = 0; i < 50; i++)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(seen.fired, 0);
    finish(&seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_fires_early),
        cmocka_unit_test(test_a_past_time_fires_at_once_and_once),
        cmocka_unit_test(test_the_latest_arming_counts),
        cmocka_unit_test(test_disarmed_does_not_fire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
