/* SPDX-License-Identifier: Apache-2.0 */
/* How a VM's end and its agent's silence are told: one reason for one cause. The host is libvirt's
 * test driver. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/vir_loop.h"
#include "orchestrator/run/steps.h"

#define UUID "6b7f4c1e-9a52-4d0e-8f3b-00000a521a7d"
#define GRACE_NS (10 * VT_NS_PER_S)

struct fixture {
    struct run run;
    struct run_vm vm;
    struct vt_sink sink; /* found again by offset */
    unsigned lost;       /* events that the verdict takes for a lost agent */
    unsigned reasons;
    char code[32], lost_text[256]; /* of the last reason */
    char note[512];                /* the last */
    char folder[32];
    bool answered, closed;
    int answer;
};

static const struct role role = {.name = "web", .short_name = "web"};
static const struct spec_role spec_role;

static void take(struct vt_sink *sink, const struct vt_event *event)
{
    struct fixture *f = (void *)((char *)sink - offsetof(struct fixture, sink));

    if (event->type == VT_EVENT_AGENT && event->level == VT_LEVEL_ERROR) {
        f->lost++;
        vt_text_copy(f->lost_text, sizeof(f->lost_text), event->text);
    }
    if (event->type == VT_EVENT_NOTE)
        vt_text_copy(f->note, sizeof(f->note), event->text);
    if (event->type == VT_EVENT_VERDICT) {
        f->reasons++;
        vt_text_copy(f->code, sizeof(f->code), event->series);
    }
}

static int stay(struct run *run, struct vt_error *err)
{
    (void)run;
    (void)err;
    return 0;
}

static void entered(struct run *run, const struct phase *phase)
{
    (void)run;
    (void)phase;
}

static void failed(struct run *run, const struct phase *phase, const struct vt_error *err)
{
    (void)run;
    (void)phase;
    (void)err;
}

static void ended(struct run *run)
{
    (void)run;
}

/* The run stays in that phase. */
static void enter(struct fixture *f, const char *name)
{
    static const struct phases_events events = {entered, failed, failed, ended};
    static struct phase phase;
    static const struct phase *const table[] = {&phase};

    phase = (struct phase){.name = name, .start = stay};
    f->run.phases = (struct phases){
        .loop = &f->run.loop, .table = table, .count = 1, .events = &events, .run = &f->run};
    assert_int_equal(phases_start(&f->run.phases, NULL), 0);
    while (!phases_in(&f->run.phases, name))
        uv_run(&f->run.loop.uv, UV_RUN_NOWAIT);
}

static void on_done(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct fixture *f = ctx;

    (void)host;
    f->answered = true;
    f->answer = reply->code;
}

static void vm_done(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct run_vm *vm = ctx;

    on_done(host, (char *)vm - offsetof(struct fixture, vm), reply);
}

static void on_closed(void *ctx)
{
    ((struct fixture *)ctx)->closed = true;
}

static void wait_for(struct fixture *f, bool *what)
{
    while (!*what)
        assert_true(uv_run(&f->run.loop.uv, UV_RUN_ONCE) || *what);
    *what = false;
}

/* What was asked of the host before has been answered, and what it answered is known. */
static void wait_for_host(struct fixture *f)
{
    assert_int_equal(host_list_ours(f->run.host, NULL, on_done, f, NULL), 0);
    wait_for(f, &f->answered);
}

static void fill_vm(struct fixture *f)
{
    struct run_vm *vm = &f->vm;

    vm->run = &f->run;
    vm->tile = 7;
    vm->role = &role;
    vm->spec = &spec_role;
    vm->domain = (struct vt_domain){
        .tile = 7, .vcpus = 1, .memory_bytes = 128 << 20, .accel = VT_ACCEL_TEST, .role = "web"};
    vt_text_copy(vm->agent, sizeof(vm->agent), "web-7");
    vt_text_copy(vm->domain.name, sizeof(vm->domain.name), "vt-1a2b3c-007-web");
    vt_text_copy(vm->domain.uuid, sizeof(vm->domain.uuid), UUID);
    vt_text_copy(vm->domain.run, sizeof(vm->domain.run), "1a2b3c4d5e6f");
    vt_text_copy(vm->domain.controller, sizeof(vm->domain.controller), "c0ffee");
    snprintf(vm->domain.console_log, sizeof(vm->domain.console_log), "%s/web-7.console", f->folder);
    f->run.vms = vm;
    f->run.nvms = 1;
}

static void make_hub(struct fixture *f)
{
    static const struct hub_events hub_events;
    const struct hub_config config = {
        .loop = &f->run.loop, .address = "127.0.0.1", .ca = f->run.ca};
    char token[HUB_TOKEN_CHARS + 1];
    const struct hub_expected expected = {"web-7", HUB_GUEST, token, "127.0.0.1", NULL};

    assert_int_equal(hub_new(&config, &hub_events, f, &f->run.hub, NULL), 0);
    assert_int_equal(hub_make_token(token, NULL), 0);
    assert_int_equal(hub_expect(f->run.hub, &expected, NULL), 0);
}

static int set_up(void **state)
{
    static const struct host_settings settings = {.uri = "test:///default"};
    struct fixture *f = calloc(1, sizeof(*f));
    struct run *run = &f->run;

    assert_non_null(f);
    vt_text_copy(f->folder, sizeof(f->folder), "/tmp/vtile-end-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->sink.take = take;
    vt_bus_add(&run->bus, &f->sink);
    vt_text_copy(run->state.controller, sizeof(run->state.controller), "c0ffee");
    assert_int_equal(vt_loop_init(&run->loop, NULL), 0);
    assert_int_equal(vir_loop_init(&run->loop, NULL), 0);
    assert_int_equal(vt_timer_init(&run->lost_timer, &run->loop, run_lost_ask, run, NULL), 0);
    assert_int_equal(vt_timer_init(&run->phase_timer, &run->loop, NULL, run, NULL), 0);
    assert_int_equal(host_open(&run->loop, &settings, on_done, f, &run->host, NULL), 0);
    wait_for(f, &f->answered);
    assert_int_equal(vt_ca_open(f->folder, &run->ca, NULL), 0);
    fill_vm(f);
    make_hub(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char ca[64];

    phases_close(&f->run.phases);
    vt_timer_close(&f->run.lost_timer, NULL);
    vt_timer_close(&f->run.phase_timer, NULL);
    host_close(f->run.host, on_closed, f);
    wait_for(f, &f->closed);
    hub_close(f->run.hub, on_closed, f);
    wait_for(f, &f->closed);
    vt_ca_free(f->run.ca);
    vir_loop_dispose();
    vt_loop_dispose(&f->run.loop);
    snprintf(ca, sizeof(ca), "%s/ca.pem", f->folder);
    unlink(ca);
    unlink(f->vm.domain.console_log);
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

static void start_vm(struct fixture *f)
{
    assert_int_equal(run_start_domain(&f->vm, vm_done, NULL), 0);
    wait_for(f, &f->answered);
    assert_int_equal(f->answer, 0);
    f->vm.started = f->vm.up = true;
}

static void lose_link(struct fixture *f)
{
    struct vt_error err = VT_ERROR_INIT;

    vt_error_set(&err, VT_KIND_INFRA, -ETIMEDOUT, "silent for 30 s");
    run_lost_link(&f->vm, &err);
}

static void pass_the_grace(struct fixture *f)
{
    run_lost_ask(&f->run.lost_timer, vt_clock_now_ns() + GRACE_NS);
    wait_for_host(f);
}

/* --- before the load --- */

static void say(const struct fixture *f, const char *text)
{
    FILE *out = fopen(f->vm.domain.console_log, "we");

    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void end_before_the_answer_to_its_start_fails_deploy(void **state)
{
    struct fixture *f = *state;
    const struct vt_error *failure = &f->run.phases.failure;

    enter(f, "deploy");
    say(f, "Linux version 6.1\r\nKernel panic - not syncing: no init\r\n\033[1mend\033[0m\r\n");
    assert_int_equal(run_start_domain(&f->vm, vm_done, NULL), 0);
    run_vm_stopped(&f->run, UUID);
    assert_int_equal(failure->kind, VT_KIND_INFRA);
    assert_string_equal(failure->text,
                        "web-7: its emulator ended; its console ends: Linux version 6.1 |"
                        "Kernel panic - not syncing: no init |?[1mend?[0m");
    wait_for(f, &f->answered);
}

static void console_is_quoted_from_a_whole_line(void **state)
{
    struct fixture *f = *state;
    char text[RUN_CONSOLE_END_MAX], long_one[1001];

    enter(f, "deploy");
    assert_string_equal(run_console_end(&f->vm, text), "(nothing)");
    say(f, "\r\n\n");
    assert_string_equal(run_console_end(&f->vm, text), "(nothing)");
    memset(long_one, 'x', 1000);
    long_one[1000] = '\0';
    say(f, long_one);
    assert_int_equal(strlen(run_console_end(&f->vm, text)), RUN_CONSOLE_END_MAX - 1);
    memcpy(long_one + 990, "\nlast word", 10);
    say(f, long_one);
    assert_string_equal(run_console_end(&f->vm, text), "last word");
}

/* The first step of prepare is asked of an agent that is not there. */
static void ask_to_prepare(struct fixture *f)
{
    static const struct spec_preset preset = {.name = "turbo"};

    f->run.preset = &preset;
    assert_int_equal(run_phase_prepare.start(&f->run, NULL), 0);
}

static void step_that_fails_by_the_end_is_one_reason(void **state)
{
    struct fixture *f = *state;
    const struct vt_error *failure = &f->run.phases.failure;

    enter(f, "prepare");
    start_vm(f);
    lose_link(f);
    ask_to_prepare(f);
    assert_int_equal(failure->kind, VT_KIND_NONE);
    run_vm_stopped(&f->run, UUID);
    assert_string_equal(failure->text, "web-7: its emulator ended; its console ends: (nothing)");
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->reasons, 0);
}

static void step_that_fails_by_a_lost_agent_is_one_reason(void **state)
{
    struct fixture *f = *state;
    const struct vt_error *failure = &f->run.phases.failure;

    enter(f, "prepare");
    start_vm(f);
    lose_link(f);
    ask_to_prepare(f);
    pass_the_grace(f);
    assert_string_equal(failure->text, "web-7: its agent was lost: silent for 30 s");
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->reasons, 0);
}

/* Who is waited for is told while it lasts, and only then. */
static void prepare_tells_who_is_waited_for(void **state)
{
    struct fixture *f = *state;

    enter(f, "prepare");
    start_vm(f);
    lose_link(f); /* its answer does not come */
    ask_to_prepare(f);
    f->run.phase_timer.fire(&f->run.phase_timer, f->run.prepare_ns + 5 * VT_NS_PER_S);
    assert_string_equal(f->note, "preparing for 5 s: web-7 is not prepared");
    f->note[0] = '\0';
    phases_done(&f->run.phases, NULL);
    while (phases_in(&f->run.phases, "prepare"))
        uv_run(&f->run.loop.uv, UV_RUN_NOWAIT);
    f->run.phase_timer.fire(&f->run.phase_timer, f->run.prepare_ns + 10 * VT_NS_PER_S);
    assert_string_equal(f->note, "");
}

static void step_that_fails_by_itself_fails_prepare(void **state)
{
    struct fixture *f = *state;

    enter(f, "prepare");
    start_vm(f);
    ask_to_prepare(f);
    assert_memory_equal(f->run.phases.failure.text, "prepare web-7: ", 15);
}

/* It has its reason, also where a link of it is unexplained. */
static void failed_run_leaves_a_link_undecided(void **state)
{
    struct fixture *f = *state;
    struct vt_error err = VT_ERROR_INIT;

    enter(f, "measure");
    start_vm(f);
    lose_link(f);
    vt_error_set(&err, VT_KIND_INFRA, -EIO, "another end");
    phases_fail(&f->run.phases, &err);
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 0);
    assert_string_equal(f->run.phases.failure.text, "another end");
}

/* --- under load --- */

static void end_after_the_link_is_one_reason(void **state)
{
    struct fixture *f = *state;

    enter(f, "measure");
    start_vm(f);
    lose_link(f);
    assert_int_equal(f->lost, 0);
    run_vm_stopped(&f->run, UUID);
    assert_int_equal(f->reasons, 1);
    assert_string_equal(f->code, "vm-restarted");
    pass_the_grace(f);
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 0);
}

static void link_after_the_end_is_one_reason(void **state)
{
    struct fixture *f = *state;

    enter(f, "measure");
    start_vm(f);
    f->vm.restarts = 3; /* it is not started again */
    run_vm_stopped(&f->run, UUID);
    lose_link(f);
    pass_the_grace(f);
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->reasons, 1);
    assert_string_equal(f->code, "vm-gone");
}

static void agent_of_a_vm_that_runs_is_lost(void **state)
{
    struct fixture *f = *state;

    enter(f, "measure");
    start_vm(f);
    lose_link(f);
    pass_the_grace(f);
    assert_int_equal(f->lost, 1);
    assert_string_equal(f->lost_text, "silent for 30 s");
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 1);
    assert_int_equal(f->reasons, 0);
}

static void agent_that_comes_back_was_lost(void **state)
{
    struct fixture *f = *state;

    enter(f, "measure");
    start_vm(f);
    lose_link(f);
    run_lost_came_back(&f->vm);
    assert_int_equal(f->lost, 1);
    pass_the_grace(f);
    assert_int_equal(f->lost, 1);
}

/* A domain that is not there waits for the word of its end, but not beyond the record's. */
static void end_that_is_not_told_counts_as_lost(void **state)
{
    struct fixture *f = *state;

    enter(f, "measure");
    start_vm(f);
    assert_int_equal(host_destroy(f->run.host, UUID, NULL, on_done, f, NULL), 0);
    wait_for(f, &f->answered);
    lose_link(f);
    pass_the_grace(f);
    assert_int_equal(f->lost, 0);
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 1);
}

static void end_after_the_load_is_told(void **state)
{
    struct fixture *f = *state;

    enter(f, "check");
    start_vm(f);
    lose_link(f);
    run_vm_stopped(&f->run, UUID);
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->reasons, 1);
    assert_string_equal(f->code, "vm-gone");
}

/* All questions of check, to an agent that is not there. */
static void ask_to_check(struct fixture *f)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/record.sqlite", f->folder);
    assert_int_equal(record_create(path, &f->run.record, NULL), 0);
    assert_int_equal(run_phase_check.start(&f->run, NULL), 0);
    while (phases_in(&f->run.phases, "check"))
        assert_true(uv_run(&f->run.loop.uv, UV_RUN_ONCE));
    assert_int_equal(record_close(f->run.record, NULL), 0);
    f->run.record = NULL;
    free(f->run.check);
    free(f->run.configs[1]);
    unlink(path);
}

static void question_to_a_lost_agent_is_no_second_reason(void **state)
{
    struct fixture *f = *state;

    enter(f, "check");
    start_vm(f);
    lose_link(f);
    ask_to_check(f);
    run_lost_settle(&f->run);
    assert_int_equal(f->lost, 1);
    assert_int_equal(f->reasons, 0);
}

static void question_that_fails_by_itself_is_a_reason(void **state)
{
    struct fixture *f = *state;

    enter(f, "check");
    start_vm(f);
    ask_to_check(f);
    assert_true(f->reasons > 0);
    assert_string_equal(f->code, "check-failed");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(end_before_the_answer_to_its_start_fails_deploy),
        T(console_is_quoted_from_a_whole_line),
        T(step_that_fails_by_the_end_is_one_reason),
        T(step_that_fails_by_a_lost_agent_is_one_reason),
        T(step_that_fails_by_itself_fails_prepare),
        T(prepare_tells_who_is_waited_for),
        T(failed_run_leaves_a_link_undecided),
        T(end_after_the_link_is_one_reason),
        T(link_after_the_end_is_one_reason),
        T(agent_of_a_vm_that_runs_is_lost),
        T(agent_that_comes_back_was_lost),
        T(end_that_is_not_told_counts_as_lost),
        T(end_after_the_load_is_told),
        T(question_to_a_lost_agent_is_no_second_reason),
        T(question_that_fails_by_itself_is_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
