/* SPDX-License-Identifier: Apache-2.0 */
/* A run's samples beside a libvirt that takes its time: its test driver, stopped in a call. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
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

#define HANGS "virDomainListGetStats"

static struct {
    atomic_bool wanted, hanging;
} stuck;

struct fixture {
    struct run run;
    struct vt_sink sink; /* found again by offset */
    unsigned seconds;    /* samples of mem.available_bytes */
    unsigned late, answers, stats, unanswered;
    unsigned after_stop;
    bool stopped, answered, closed;
    int64_t last_ns, longest_ns;
};

static const struct role role = {.name = "web", .short_name = "web"};

static void hook(const char *call, bool before)
{
    if (!before || strcmp(call, HANGS) != 0)
        return;
    while (atomic_load(&stuck.wanted)) {
        atomic_store(&stuck.hanging, true);
        usleep(1000);
    }
    atomic_store(&stuck.hanging, false);
}

static void take(struct vt_sink *sink, const struct vt_event *event)
{
    struct fixture *f = (void *)((char *)sink - offsetof(struct fixture, sink));

    assert_int_equal(event->type, VT_EVENT_SAMPLE);
    f->after_stop += f->stopped;
    if (!strcmp(event->series, "poll.rtt_s")) { /* of a VM whose agent never came */
        assert_string_equal(event->source, "web-7");
        assert_true(isnan(event->value));
        assert_non_null(strstr(event->text, "does not answer"));
        f->unanswered++;
        return;
    }
    assert_string_equal(event->source, "host.1");
    if (!strcmp(event->series, "mem.available_bytes")) {
        f->seconds++;
        if (f->last_ns > 0 && event->time_ns - f->last_ns > f->longest_ns)
            f->longest_ns = event->time_ns - f->last_ns;
        f->last_ns = event->time_ns;
    } else if (!strcmp(event->series, "libvirt.answer_s")) {
        if (isnan(event->value))
            assert_non_null(strstr(event->text, "has not answered for"));
        f->late += isnan(event->value);
        f->answers += !isnan(event->value);
    } else if (!strncmp(event->series, "libvirt.", 8)) {
        assert_int_equal(event->tile, 7);
        assert_string_equal(event->role, "web");
        f->stats++;
    }
}

static void no_folder(const struct run *run, char *path, size_t size)
{
    (void)run;
    snprintf(path, size, "/no/such/folder");
}

static void on_done(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct fixture *f = ctx;

    (void)host;
    assert_int_equal(reply->code, 0);
    f->answered = true;
}

static void on_closed(void *ctx)
{
    ((struct fixture *)ctx)->closed = true;
}

static void wait_for(struct fixture *f, const bool *what)
{
    while (!*what)
        assert_true(uv_run(&f->run.loop.uv, UV_RUN_ONCE) || *what);
}

static int set_up(void **state)
{
    static const struct run_place place = {.pid_folder = no_folder};
    static const struct host_settings settings = {.uri = "test:///default"};
    static const char xml[] =
        "<domain type='test'><name>vt-1a2b3c-007-web</name>"
        "<uuid>6b7f4c1e-9a52-4d0e-8f3b-00000a521a7d</uuid><memory unit='MiB'>64</memory>"
        "<vcpu>1</vcpu><os><type>hvm</type></os></domain>";
    static const struct hub_events hub_events;
    struct fixture *f = calloc(1, sizeof(*f));
    struct run *run = &f->run;
    char folder[] = "/tmp/vtile-samples-XXXXXX", ca[64];
    struct hub_config hub = {.loop = &run->loop, .address = "127.0.0.1"};

    assert_non_null(f);
    assert_non_null(mkdtemp(folder));
    f->sink.take = take;
    vt_bus_add(&run->bus, &f->sink);
    assert_int_equal(vt_loop_init(&run->loop, NULL), 0);
    assert_int_equal(vir_loop_init(&run->loop, NULL), 0);
    assert_int_equal(host_open(&run->loop, &settings, on_done, f, &run->host, NULL), 0);
    wait_for(f, &f->answered);
    f->answered = false;
    assert_int_equal(host_define_start(run->host, xml, on_done, f, NULL), 0);
    wait_for(f, &f->answered);
    assert_int_equal(vt_ca_open(folder, &run->ca, NULL), 0);
    snprintf(ca, sizeof(ca), "%s/ca.pem", folder);
    assert_int_equal(unlink(ca) | rmdir(folder), 0);
    hub.ca = run->ca;
    assert_int_equal(hub_new(&hub, &hub_events, run, &run->hub, NULL), 0);
    run->place = &place;
    run->accel = VT_ACCEL_TEST;
    run->vms = calloc(1, sizeof(*run->vms));
    assert_non_null(run->vms);
    run->nvms = 1;
    run->vms[0].run = run;
    run->vms[0].tile = 7;
    run->vms[0].role = &role;
    vt_text_copy(run->vms[0].agent, sizeof(run->vms[0].agent), "web-7");
    vt_text_copy(run->vms[0].domain.name, sizeof(run->vms[0].domain.name), "vt-1a2b3c-007-web");
    vt_text_copy(run->vms[0].domain.uuid, sizeof(run->vms[0].domain.uuid),
                 "6b7f4c1e-9a52-4d0e-8f3b-00000a521a7d");
    run->t0_ns = vt_clock_now_ns() + VT_NS_PER_S;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    atomic_store(&stuck.wanted, false);
    run_samples_close(&f->run);
    host_close(f->run.host, on_closed, f);
    wait_for(f, &f->closed);
    f->closed = false;
    hub_close(f->run.hub, on_closed, f);
    wait_for(f, &f->closed);
    vt_ca_free(f->run.ca);
    vir_loop_dispose();
    vt_loop_dispose(&f->run.loop);
    free(f->run.samples);
    free(f->run.vms);
    free(f);
    return 0;
}

/* Where the host is another machine libvirt's numbers are all there is. */
static void far_host_tells_by_libvirt(void **state)
{
    struct fixture *f = *state;

    vt_text_copy(f->run.uri, sizeof(f->run.uri), "test:///default");
    assert_int_equal(run_samples_start(&f->run, NULL), 0);
    while (f->answers == 0)
        assert_true(uv_run(&f->run.loop.uv, UV_RUN_ONCE));
    assert_true(f->stats > 0);
    assert_int_equal(f->seconds, 0);
    assert_int_equal(f->late, 0);
}

static void late_answer_holds_nothing_up(void **state)
{
    struct fixture *f = *state;

    vt_text_copy(f->run.uri, sizeof(f->run.uri), "qemu:///system"); /* this machine */
    atomic_store(&stuck.wanted, true);
    assert_int_equal(run_samples_start(&f->run, NULL), 0);
    while (f->late == 0)
        assert_true(uv_run(&f->run.loop.uv, UV_RUN_ONCE));
    assert_true(atomic_load(&stuck.hanging));
    assert_int_equal(f->answers, 0);
    assert_int_equal(f->seconds, 6); /* one at once, and up to the next question */
    assert_int_equal(f->unanswered, 6);
    assert_true(f->longest_ns < 2 * VT_NS_PER_S);

    atomic_store(&stuck.wanted, false);
    while (f->answers == 0)
        assert_true(uv_run(&f->run.loop.uv, UV_RUN_ONCE));
}

static void answer_after_the_end_is_dropped(void **state)
{
    struct fixture *f = *state;

    vt_text_copy(f->run.uri, sizeof(f->run.uri), "qemu:///system");
    atomic_store(&stuck.wanted, true);
    assert_int_equal(run_samples_start(&f->run, NULL), 0);
    while (!atomic_load(&stuck.hanging))
        uv_run(&f->run.loop.uv, UV_RUN_NOWAIT);
    run_samples_stop(&f->run);
    run_samples_stop(&f->run);
    f->stopped = true;
    atomic_store(&stuck.wanted, false);
    f->answered = false; /* jobs are answered in order: the one that hung has been, before this */
    assert_int_equal(host_list_ours(f->run.host, NULL, on_done, f, NULL), 0);
    wait_for(f, &f->answered);
    assert_int_equal(f->after_stop, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(far_host_tells_by_libvirt),
        T(late_answer_holds_nothing_up),
        T(answer_after_the_end_is_dropped),
    };
    host_call_hook = hook;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
