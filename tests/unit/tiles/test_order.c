/* SPDX-License-Identifier: Apache-2.0 */
/* An order that travels as JSON draws the same schedule where it arrives, in the shape that its
 * load has, and what came before the window is as without a shape. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/load/order.h"

#define S VT_NS_PER_S

static void fill(struct load_order *order, const char *schedule)
{
    static const struct spec_preset preset = {
        .ramp_ns = 5 * S, .warm_ns = 5 * S, .measure_ns = 60 * S, .drain_ns = 5 * S};

    *order = (struct load_order){
        .tile = 1,
        .role = "web",
        .seed = 42,
        .rate = 9045000,
        .address = "127.0.0.1",
        .server_name = "127.0.0.1",
        .load = {.connections = 8,
                 .timeout_ns = 30 * S,
                 .think_mean_ns = 5 * S,
                 .think_max_ns = 75 * S,
                 .think_share = 920800,
                 .expected_ns = 200 * VT_NS_PER_MS,
                 .good_limit_ns = 5 * S},
    };
    load_order_segments(order, &preset);
    assert_true(vt_text_copy(order->load.schedule, sizeof(order->load.schedule), schedule));
}

static struct schedule draw(const struct load_order *order, uint64_t *ret_window_steps)
{
    struct schedule schedule;
    struct vt_error err = VT_ERROR_INIT;

    if (load_order_draw(order, &schedule, ret_window_steps, &err) < 0)
        fail_msg("%s", err.text);
    return schedule;
}

static void test_travels(void **state)
{
    static const char *const texts[] = {"",           "poisson",     "uniform",     "bursty:1s,9s",
                                        "step:1,2,4", "ramp:0.25,2", "swing:16,60s"};
    struct load_order order, read;
    uint64_t plain_steps = 0, steps = 0;
    struct schedule plain;

    (void)state;
    fill(&order, "");
    plain = draw(&order, &plain_steps);
    assert_int_equal(plain_steps, 543);
    for (size_t i = 0; i < VT_COUNT(texts); i++) {
        struct vt_error err = VT_ERROR_INIT;
        struct schedule here, there;
        json_t *json;

        fill(&order, texts[i]);
        json = load_order_write(&order, &err);
        assert_non_null(json);
        if (load_order_read(json, &read, &err) < 0)
            fail_msg("%s", err.text);
        json_decref(json);
        assert_string_equal(read.load.schedule, texts[i]);
        here = draw(&order, &steps);
        there = draw(&read, NULL);
        assert_memory_equal(here.hash, there.hash, sizeof(here.hash));
        assert_int_equal(steps, plain_steps);
        assert_int_equal(here.nsteps, plain.nsteps);
        for (size_t k = 0; k < here.nsteps - steps; k++)
            assert_true(here.steps[k].intended_ns == plain.steps[k].intended_ns);
        if (i < 2)
            assert_memory_equal(here.hash, plain.hash, sizeof(here.hash));
        else
            assert_memory_not_equal(here.hash, plain.hash, sizeof(here.hash));
        schedule_dispose(&here);
        schedule_dispose(&there);
    }
    schedule_dispose(&plain);
}

/* From a peer: no shape that is none, and none longer than a spec's. */
static void test_refused(void **state)
{
    static const char *const bad[] = {"qqqq", "swing:17,60s", "replay:x", "step:0"};
    struct load_order order, read;

    (void)state;
    for (size_t i = 0; i <= VT_COUNT(bad); i++) {
        struct vt_error err = VT_ERROR_INIT;
        char longer[SPEC_SCHEDULE_MAX + 1];
        json_t *json, *load;

        memset(longer, '1', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = '\0';
        fill(&order, "");
        json = load_order_write(&order, &err);
        assert_non_null(json);
        load = json_object_get(json, "load");
        json_object_set_new(load, "schedule", json_string(i < VT_COUNT(bad) ? bad[i] : longer));
        assert_int_equal(load_order_read(json, &read, &err), -EBADMSG);
        assert_int_equal(err.kind, VT_KIND_REFUSED);
        assert_non_null(strstr(err.text, "schedule"));
        json_object_del(load, "schedule");
        assert_int_equal(load_order_read(json, &read, &err), -EBADMSG);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_travels),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
