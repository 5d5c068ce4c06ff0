/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that makes its load by itself, in a process of its own, under a real hub. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "agents/duty.h"
#include "base/clock.h"
#include "rig.h"
#include "tiles/load/jobs.h"

#define S VT_NS_PER_S

/* --- the role: batch's operations, done at once --- */

static int nothing(struct role_guest *guest, struct vt_error *err)
{
    (void)guest;
    (void)err;
    return 0;
}

static int check(struct role_guest *guest, json_t *facts, struct vt_error *err)
{
    (void)guest;
    (void)err;
    json_object_set_new(facts, "own", json_integer(1));
    return 0;
}

/* Tells what is due in the order's window but for the last; then waits to be stopped, if it is
 * longer than a second. */
static int work(struct role_guest *guest, const struct role_work *work, struct vt_error *err)
{
    const int64_t end_ns = work->times.ramp_ns + work->times.warm_ns + work->times.measure_ns;
    const struct role *role = role_find("batch");

    (void)guest;
    for (unsigned o = 0; o < 2; o++) {
        uint64_t due = role->due(work->jobs, &work->times, o, 0, end_ns);

        for (uint64_t i = 0; i < due - o; i++) {
            const struct role_done done = {.operation = o,
                                           .intended_ns = work->times.ramp_ns + work->times.warm_ns,
                                           .response_ns = S,
                                           .service_ns = S,
                                           .bytes = 10};

            work->done(work->ctx, &done);
        }
    }
    json_object_set_new(work->facts, "told", json_true());
    while (work->times.measure_ns > S && !work->stopping(work->ctx))
        usleep(1000);
    return vt_error_set(err, VT_KIND_INFRA, -EIO, "the last one was lost");
}

static const struct role_guest_ops ops = {
    .prepare = nothing, .start = nothing, .ready = nothing, .check = check, .work = work};

static int run_guest(const char *variant, const struct vt_confdisk *conf)
{
    struct role role = *role_find("batch");

    (void)variant;
    role.guest = &ops;
    return duty_guest(conf, &role, false, NULL);
}

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_start(&rig, "batch-1", "batch", HUB_GUEST);
    rig_run_agent(&rig, "");
    rig_run_until(&rig, &rig.up, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_finish(&rig);
    return 0;
}

static json_t *params(int64_t measure_ns)
{
    const struct jobs_order order = {
        .tile = 1,
        .role = "batch",
        .times = {0, 0, measure_ns},
        .jobs = {.rate = 10000000, .compress_bytes = 1, .compile_functions = 1},
        .good_limit_ns = {S, S / 2},
    };

    return json_pack("{s:I, s:o}", "t0_ns", (json_int_t)vt_clock_now_ns(), "order",
                     jobs_order_write(&order, NULL));
}

/* As after a restart: T0 before the boot of this guest's clock, the first second counted already.
 */
static void test_resumed(void **state)
{
    json_t *order = params(S);

    (void)state;
    json_object_set_new(order, "t0_ns", json_integer(-1000 * S));
    assert_int_equal(hub_admit_load(rig.hub, "batch-1", 1, "batch", NULL), 0);
    rig_call(&rig, "work", json_copy(order));
    assert_non_null(strstr(rig.err.text, "t0_ns"));
    json_object_set_new(order, "from_s", json_integer(1));
    rig_call(&rig, "work", order);
    if (rig.err.code != 0)
        fail_msg("%s", rig.err.text);
    rig_run_until(&rig, &rig.events, 1);
    assert_string_equal(rig.kind, "work.finished");
    assert_int_equal(rig.seconds, 0);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(rig.event_data, "totals"), "intended")),
        0);
}

static int64_t total(const char *name)
{
    return json_integer_value(json_object_get(json_object_get(rig.event_data, "totals"), name));
}

static void expect_ok(void)
{
    if (rig.err.code != 0)
        fail_msg("%s", rig.err.text);
}

static void test_work(void **state)
{
    (void)state;
    assert_int_equal(hub_admit_load(rig.hub, "batch-1", 1, "batch", NULL), 0);
    rig_call(&rig, "work", params(S));
    expect_ok();
    rig_run_until(&rig, &rig.events, 1);
    assert_string_equal(rig.kind, "work.finished");
    /* Ten jobs of a window of one second: compress is good at 1 s, compile slow, one was not told.
     */
    assert_int_equal(total("intended"), 10);
    assert_int_equal(total("good"), 5);
    assert_int_equal(total("slow"), 4);
    assert_int_equal(total("failed"), 1);
    assert_non_null(strstr(json_string_value(json_object_get(
                               json_object_get(rig.event_data, "totals"), "first_failure")),
                           "the last one was lost"));
    assert_string_equal(json_string_value(json_object_get(rig.event_data, "why")),
                        "the last one was lost");
    assert_int_equal(rig.seconds, 2); /* one of each operation */
    assert_int_equal(rig.intended, 10);
    assert_int_equal(rig.good, 5);
    assert_int_equal(rig.bytes, 90);
    assert_int_equal(rig.lost, 0);
    /* Facts of the work are told by the check. */
    rig_call(&rig, "check", NULL);
    expect_ok();
    assert_true(json_is_true(json_object_get(rig.result, "told")));
    assert_int_equal(json_integer_value(json_object_get(rig.result, "own")), 1);
    rig_end_agent(&rig);
}

/* Other calls are answered meanwhile; a second order is not taken; stop ends it. */
static void test_work_blocks_nobody(void **state)
{
    (void)state;
    assert_int_equal(hub_admit_load(rig.hub, "batch-1", 1, "batch", NULL), 0);
    rig_call(&rig, "work", params(1000 * S));
    expect_ok();
    rig_call(&rig, "work", params(S));
    assert_int_equal(rig.err.code, -EBUSY);
    rig_call(&rig, "check", NULL);
    expect_ok();
    assert_null(json_object_get(rig.result, "told"));
    rig_call(&rig, "config", NULL);
    expect_ok();
    assert_int_equal(rig.events, 0);
    rig_call(&rig, "work.stop", NULL);
    expect_ok();
    rig_run_until(&rig, &rig.events, 1);
    assert_string_equal(rig.kind, "work.finished");
    assert_int_equal(total("intended"), 10000);
    assert_int_equal(total("failed"), 1);
    rig_end_agent(&rig);
}

static void test_end_while_it_works(void **state)
{
    (void)state;
    rig_call(&rig, "work", params(1000 * S));
    expect_ok();
    rig_end_agent(&rig);
}

static void test_orders_that_are_refused(void **state)
{
    json_t *bad = params(S);

    (void)state;
    json_object_set_new(bad, "t0_ns", json_integer(1));
    rig_call(&rig, "work", bad);
    assert_true(rig.err.code < 0);
    bad = params(S);
    json_object_set_new(json_object_get(bad, "order"), "role", json_string("storage"));
    rig_call(&rig, "work", bad);
    assert_true(rig.err.code < 0);
    bad = params(S);
    json_object_set_new(json_object_get(json_object_get(bad, "order"), "jobs"), "rate",
                        json_integer(-1));
    rig_call(&rig, "work", bad);
    assert_true(rig.err.code < 0);
    rig_call(&rig, "work", NULL);
    assert_true(rig.err.code < 0);
    rig_end_agent(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resumed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_work_blocks_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_while_it_works, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orders_that_are_refused, setup, teardown),
    };

    if (argc == 4 && !strcmp(argv[1], "--agent"))
        return rig_agent_main(argv, run_guest);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
