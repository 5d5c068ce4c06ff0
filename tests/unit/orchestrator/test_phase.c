/* SPDX-License-Identifier: Apache-2.0 */
/* What the comment at struct phase promises, as traces: "+x" entered, "-x" undone, "!x" failed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "orchestrator/run/phase.h"

/* The machine never looks inside its run; ours holds what a test wants to see. */
struct run {
    struct vt_loop loop;
    struct phases phases;
    struct vt_buf trace;
    uv_timer_t interrupts;
    int fail_in; /* phase that fails at its start, -1: none */
    int hang_in; /* phase that never ends by itself, -1: none */
    bool stoppable;
    bool undo_fails;
    unsigned interrupts_wanted;
    int64_t interrupt_at_ns, interrupt_gap_ns;
    bool ended;
};

static int begin(struct run *run, int phase, struct vt_error *err)
{
    if (run->fail_in == phase)
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "phase %d broke", phase);
    if (run->hang_in != phase)
        phases_done(&run->phases, NULL);
    return 0;
}

static int start_a(struct run *run, struct vt_error *err)
{
    return begin(run, 0, err);
}

static int start_b(struct run *run, struct vt_error *err)
{
    return begin(run, 1, err);
}

static int start_c(struct run *run, struct vt_error *err)
{
    return begin(run, 2, err);
}

static void stop_b(struct run *run)
{
    if (run->stoppable)
        phases_done(&run->phases, NULL);
}

static void undo(struct run *run)
{
    struct vt_error err = VT_ERROR_INIT;

    vt_buf_printf(&run->trace, "-%s ", run->phases.table[run->phases.current]->name);
    if (run->undo_fails)
        vt_error_set(&err, VT_KIND_INFRA, -EBUSY, "cannot take back");
    phases_undone(&run->phases, &err);
}

static int64_t soon(const struct run *run)
{
    (void)run;
    return 20 * INT64_C(1000000);
}

static void late_b(struct run *run, struct vt_error *err)
{
    (void)run;
    vt_error_wrap(err, "still missing: x");
}

static const struct phase phase_a = {.name = "a", .start = start_a, .undo = undo};
static const struct phase phase_b = {.name = "b",
                                     .start = start_b,
                                     .stop = stop_b,
                                     .undo = undo,
                                     .deadline_ns = soon,
                                     .late = late_b};
static const struct phase phase_c = {.name = "c", .start = start_c, .undo = undo, .always = true};
static const struct phase *const table[] = {&phase_a, &phase_b, &phase_c};

static void entered(struct run *run, const struct phase *phase)
{
    vt_buf_printf(&run->trace, "+%s ", phase->name);
}

static void failed(struct run *run, const struct phase *phase, const struct vt_error *err)
{
    (void)err;
    vt_buf_printf(&run->trace, "!%s ", phase->name);
}

static void undo_failed(struct run *run, const struct phase *phase, const struct vt_error *err)
{
    (void)err;
    vt_buf_printf(&run->trace, "?%s ", phase->name);
}

static void ended(struct run *run)
{
    run->ended = true;
    phases_close(&run->phases);
    uv_close((uv_handle_t *)&run->interrupts, NULL);
}

static const struct phases_events events = {entered, failed, undo_failed, ended};

static void interrupt(uv_timer_t *timer)
{
    struct run *run = timer->data;

    while (run->interrupts_wanted > 0) {
        run->interrupts_wanted--;
        if (phases_heed(&run->phases, run->interrupt_at_ns))
            phases_interrupt(&run->phases, run->interrupt_at_ns);
        run->interrupt_at_ns += run->interrupt_gap_ns;
    }
}

static void expect(struct run *run, const char *trace)
{
    run->trace = (struct vt_buf)VT_BUF_INIT(4096);
    assert_int_equal(vt_loop_init(&run->loop, NULL), 0);
    run->phases = (struct phases){
        .loop = &run->loop, .table = table, .count = 3, .events = &events, .run = run};
    uv_timer_init(&run->loop.uv, &run->interrupts);
    run->interrupts.data = run;
    if (run->interrupts_wanted > 0)
        uv_timer_start(&run->interrupts, interrupt, 5, 0);
    assert_int_equal(phases_start(&run->phases, NULL), 0);
    uv_run(&run->loop.uv, UV_RUN_DEFAULT);
    assert_true(run->ended);
    assert_string_equal(run->trace.data, trace);
    vt_buf_dispose(&run->trace);
    vt_loop_dispose(&run->loop);
}

static void all_phases_run_and_are_undone_in_reverse(void **state)
{
    struct run run = {.fail_in = -1, .hang_in = -1};

    (void)state;
    expect(&run, "+a +b +c +teardown -c -b -a ");
    assert_int_equal(run.phases.failure.kind, VT_KIND_NONE);
}

static void failure_goes_on_with_what_is_always_done(void **state)
{
    struct run run = {.fail_in = 0, .hang_in = -1};

    (void)state;
    expect(&run, "+a !a +c +teardown -c -a ");
    assert_string_equal(run.phases.failure.text, "phase 0 broke");
}

static void deadline_names_what_is_missing(void **state)
{
    struct run run = {.fail_in = -1, .hang_in = 1};

    (void)state;
    expect(&run, "+a +b !b +c +teardown -c -b -a ");
    assert_int_equal(run.phases.failure.code, -ETIMEDOUT);
    assert_non_null(strstr(run.phases.failure.text, "still missing: x"));
}

static void first_interrupt_stops_and_still_seals(void **state)
{
    struct run run = {.fail_in = -1, .hang_in = 1, .stoppable = true, .interrupts_wanted = 1};

    (void)state;
    expect(&run, "+a +b +c +teardown -c -b -a ");
    assert_int_equal(run.phases.failure.kind, VT_KIND_NONE);
    assert_int_equal(run.phases.interrupts, 1);
}

static void second_interrupt_skips_to_teardown(void **state)
{
    struct run run = {
        .fail_in = -1, .hang_in = 1, .interrupts_wanted = 2, .interrupt_gap_ns = VT_NS_PER_S / 2};

    (void)state;
    expect(&run, "+a +b +teardown -b -a ");
}

/* `timeout` sends one to its child and one to the group that the child is in. */
static void an_interrupt_that_comes_twice_is_one(void **state)
{
    struct run run = {.fail_in = -1,
                      .hang_in = 1,
                      .stoppable = true,
                      .interrupts_wanted = 2,
                      .interrupt_gap_ns = VT_NS_PER_S / 2 - 1};

    (void)state;
    expect(&run, "+a +b +c +teardown -c -b -a ");
    assert_int_equal(run.phases.interrupts, 1);
}

static void failed_undo_does_not_stop_the_others(void **state)
{
    struct run run = {.fail_in = -1, .hang_in = -1, .undo_fails = true};

    (void)state;
    expect(&run, "+a +b +c +teardown -c ?c -b ?b -a ?a ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_phases_run_and_are_undone_in_reverse),
        cmocka_unit_test(failure_goes_on_with_what_is_always_done),
        cmocka_unit_test(deadline_names_what_is_missing),
        cmocka_unit_test(first_interrupt_stops_and_still_seals),
        cmocka_unit_test(second_interrupt_skips_to_teardown),
        cmocka_unit_test(an_interrupt_that_comes_twice_is_one),
        cmocka_unit_test(failed_undo_does_not_stop_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
