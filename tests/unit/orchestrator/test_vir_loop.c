/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of libvirt-event.h, through libvirt's own entry points. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <libvirt/libvirt.h>

#include "base/clock.h"
#include "base/scope.h"
#include "orchestrator/host/vir_loop.h"

struct fixture {
    struct vt_loop loop;
    int pair[2];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_int_equal(vt_loop_init(&f->loop, NULL), 0);
    assert_int_equal(vir_loop_init(&f->loop, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, f->pair),
                     0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    vir_loop_dispose();
    vt_loop_dispose(&f->loop);
    close(f->pair[0]);
    close(f->pair[1]);
    free(f);
    return 0;
}

/* Runs the loop until *value reaches wanted; a guard timer of 20 s makes a hang a failure. */
static void on_guard(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void run_until(struct fixture *f, atomic_int *value, int wanted)
{
    uv_timer_t guard;
    bool late = false;

    uv_timer_init(&f->loop.uv, &guard);
    guard.data = &late;
    uv_timer_start(&guard, on_guard, 20000, 0);
    while (atomic_load(value) < wanted && !late)
        uv_run(&f->loop.uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&f->loop.uv, UV_RUN_NOWAIT);
    assert_false(late);
}

/* Lets everything that is ready now happen, for checks that something does not. */
static void run_ready(struct fixture *f)
{
    for (int i = 0; i < 50; i++)
        uv_run(&f->loop.uv, UV_RUN_NOWAIT);
}

struct seen {
    atomic_int calls, frees;
    int watch, fd, events;
    bool remove_self;
    int frees_inside; /* value of frees while the callback runs, after it removed itself */
};

static void on_handle(int watch, int fd, int events, void *opaque)
{
    struct seen *seen = opaque;
    char byte;

    seen->watch = watch;
    seen->fd = fd;
    seen->events = events;
    if (events & VIR_EVENT_HANDLE_READABLE)
        while (read(fd, &byte, 1) == 1)
            ;
    if (seen->remove_self) {
        assert_int_equal(virEventRemoveHandle(watch), 0);
        seen->frees_inside = atomic_load(&seen->frees);
    }
    atomic_fetch_add(&seen->calls, 1);
}

static void on_free(void *opaque)
{
    atomic_fetch_add(&((struct seen *)opaque)->frees, 1);
}

static void readable_descriptor_is_told(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    int watch = virEventAddHandle(f->pair[0], VIR_EVENT_HANDLE_READABLE, on_handle, &seen, on_free);

    assert_true(watch > 0);
    run_ready(f);
    assert_int_equal(seen.calls, 0);
    assert_int_equal(write(f->pair[1], "x", 1), 1);
    run_until(f, &seen.calls, 1);
    assert_int_equal(seen.watch, watch);
    assert_int_equal(seen.fd, f->pair[0]);
    assert_int_equal(seen.events, VIR_EVENT_HANDLE_READABLE);
    assert_int_equal(virEventRemoveHandle(watch), 0);
    assert_int_equal(seen.frees, 0); /* not inside the call */
    run_until(f, &seen.frees, 1);
    assert_int_equal(virEventRemoveHandle(watch), -1);
}

static void no_events_means_no_calls(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    int watch = virEventAddHandle(f->pair[0], 0, on_handle, &seen, NULL);

    assert_true(watch > 0);
    shutdown(f->pair[1], SHUT_RDWR); /* a hang-up, which poll(2) reports unasked */
    run_ready(f);
    assert_int_equal(seen.calls, 0);
    virEventUpdateHandle(watch, VIR_EVENT_HANDLE_READABLE);
    run_until(f, &seen.calls, 1);
    assert_true(seen.events & VIR_EVENT_HANDLE_HANGUP);
    virEventUpdateHandle(watch, 0);
    seen.calls = 0;
    run_ready(f);
    assert_int_equal(seen.calls, 0);
    assert_int_equal(virEventRemoveHandle(watch), 0);
}

static void writable_descriptor_is_told(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {.remove_self = true};

    virEventAddHandle(f->pair[0], VIR_EVENT_HANDLE_WRITABLE, on_handle, &seen, on_free);
    run_until(f, &seen.frees, 1);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.events, VIR_EVENT_HANDLE_WRITABLE);
    assert_int_equal(seen.frees_inside, 0);
}

static void one_descriptor_may_be_watched_twice(void **state)
{
    struct fixture *f = *state;
    struct seen reads = {.remove_self = true}, writes = {.remove_self = true};
    int a = virEventAddHandle(f->pair[0], VIR_EVENT_HANDLE_READABLE, on_handle, &reads, on_free);
    int b = virEventAddHandle(f->pair[0], VIR_EVENT_HANDLE_WRITABLE, on_handle, &writes, on_free);

    assert_true(a > 0 && b > 0 && a != b);
    run_until(f, &writes.frees, 1);
    assert_int_equal(writes.fd, f->pair[0]);
    assert_int_equal(write(f->pair[1], "x", 1), 1);
    run_until(f, &reads.frees, 1);
    assert_int_equal(reads.fd, f->pair[0]);
    assert_int_equal(reads.calls, 1);
}

/* libvirt removes a watch and closes its descriptor, which the next open gets again. */
static void reused_descriptor_is_another(void **state)
{
    struct fixture *f = *state;
    struct seen old = {0}, new = {0};
    int first[2], second[2];

    assert_int_equal(pipe(first), 0);
    int a = virEventAddHandle(first[0], VIR_EVENT_HANDLE_READABLE, on_handle, &old, NULL);
    close(first[0]);
    assert_int_equal(pipe(second), 0);
    assert_int_equal(second[0], first[0]);
    fcntl(second[0], F_SETFL, O_NONBLOCK);
    /* The first removes late, when the number is another's already. */
    int b = virEventAddHandle(second[0], VIR_EVENT_HANDLE_READABLE, on_handle, &new, NULL);
    assert_int_equal(virEventRemoveHandle(a), 0);
    assert_int_equal(write(second[1], "x", 1), 1);
    run_until(f, &new.calls, 1);
    assert_int_equal(old.calls, 0);
    assert_int_equal(virEventRemoveHandle(b), 0);
    close(first[1]);
    close(second[0]);
    close(second[1]);
}

struct ticks {
    atomic_int calls, frees;
    int64_t last_ns;
    bool remove_self, keep;
    struct ticks *victim;
    int victim_id;
};

static void on_timeout(int id, void *opaque)
{
    struct ticks *ticks = opaque;

    ticks->last_ns = vt_clock_now_ns();
    if (ticks->remove_self)
        assert_int_equal(virEventRemoveTimeout(id), 0);
    else if (!ticks->keep)
        virEventUpdateTimeout(id, -1);
    if (ticks->victim && atomic_load(&ticks->calls) == 0)
        assert_int_equal(virEventRemoveTimeout(ticks->victim_id), 0);
    atomic_fetch_add(&ticks->calls, 1);
}

static void on_ticks_free(void *opaque)
{
    atomic_fetch_add(&((struct ticks *)opaque)->frees, 1);
}

static void timer_fires_not_early_and_repeats(void **state)
{
    struct fixture *f = *state;
    struct ticks ticks = {.keep = true};
    int64_t start = vt_clock_now_ns();
    int id = virEventAddTimeout(20, on_timeout, &ticks, on_ticks_free);

    run_until(f, &ticks.calls, 1);
    assert_true(ticks.last_ns - start >= 20 * VT_NS_PER_MS);
    run_until(f, &ticks.calls, 3);
    assert_true(ticks.last_ns - start >= 60 * VT_NS_PER_MS);
    virEventUpdateTimeout(id, -1);
    int calls = ticks.calls;
    run_ready(f);
    assert_int_equal(ticks.calls, calls);
    assert_int_equal(virEventRemoveTimeout(id), 0);
    run_until(f, &ticks.frees, 1);
    assert_int_equal(virEventRemoveTimeout(id), -1);
}

static void zero_timer_fires_once_a_round(void **state)
{
    struct fixture *f = *state;
    struct ticks zero = {.keep = true};
    struct seen seen = {.remove_self = true};
    int id = virEventAddTimeout(0, on_timeout, &zero, NULL);

    /* It does not starve descriptors. */
    virEventAddHandle(f->pair[0], VIR_EVENT_HANDLE_READABLE, on_handle, &seen, NULL);
    assert_int_equal(write(f->pair[1], "x", 1), 1);
    run_until(f, &seen.calls, 1);
    run_until(f, &zero.calls, 10);
    assert_int_equal(virEventRemoveTimeout(id), 0);
}

static void timer_removed_by_another_stays_silent(void **state)
{
    struct fixture *f = *state;
    struct ticks victim = {0}, killer = {.remove_self = true, .victim = &victim};

    /* Both are due in one round; the newer stands first in the list and removes the older. */
    killer.victim_id = virEventAddTimeout(0, on_timeout, &victim, on_ticks_free);
    virEventAddTimeout(0, on_timeout, &killer, on_ticks_free);
    run_until(f, &killer.frees, 1);
    run_until(f, &victim.frees, 1);
    assert_int_equal(victim.calls, 0);
    assert_int_equal(killer.calls, 1);
}

/* Threads add, update and remove while the loop runs; each free comes exactly once, on its
 * thread. */
#define THREADS 4
#define ROUNDS 300
struct racer {
    struct fixture *f;
    pthread_t thread;
    struct seen *seen;
    struct ticks *ticks;
    atomic_int *finished;
};

static void *race(void *ctx)
{
    struct racer *racer = ctx;

    for (int i = 0; i < ROUNDS; i++) {
        struct seen *seen = &racer->seen[i];
        struct ticks *ticks = &racer->ticks[i];
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
            abort();
        ticks->keep = true;
        int watch = virEventAddHandle(pair[0], VIR_EVENT_HANDLE_READABLE, on_handle, seen, on_free);
        int timer = virEventAddTimeout(i % 3, on_timeout, ticks, on_ticks_free);
        if (watch < 0 || timer < 0 || write(pair[1], "x", 1) != 1)
            abort();
        virEventUpdateHandle(watch, VIR_EVENT_HANDLE_READABLE | VIR_EVENT_HANDLE_WRITABLE);
        virEventUpdateTimeout(timer, i % 2 ? -1 : 0);
        if (i % 4 == 0)
            while (!atomic_load(&seen->calls))
                usleep(100);
        if (virEventRemoveHandle(watch) < 0 || virEventRemoveTimeout(timer) < 0)
            abort();
        close(pair[0]);
        close(pair[1]);
    }
    atomic_fetch_add(racer->finished, 1);
    virEventAddTimeout(0, on_timeout, &racer->ticks[ROUNDS], on_ticks_free); /* wakes the loop */
    return NULL;
}

static void threads_change_what_the_loop_runs(void **state)
{
    struct fixture *f = *state;
    struct racer racers[THREADS];
    atomic_int finished = 0;

    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){f, 0, calloc(ROUNDS, sizeof(struct seen)),
                                   calloc(ROUNDS + 1, sizeof(struct ticks)), &finished};
        racers[i].ticks[ROUNDS].remove_self = true;
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    run_until(f, &finished, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(racers[i].thread, NULL);
    /* Frees come in order: with a thread's last one all of its own have come. The guard keeps the
     * loop running, which libvirt's watches do not. */
    for (int i = 0; i < THREADS; i++)
        run_until(f, &racers[i].ticks[ROUNDS].frees, 1);
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < ROUNDS; j++) {
            assert_int_equal(racers[i].seen[j].frees, 1);
            assert_int_equal(racers[i].ticks[j].frees, 1);
        }
        free(racers[i].seen);
        free(racers[i].ticks);
    }
}

static void second_loop_is_refused_and_detached_loop_refuses(void **state)
{
    struct fixture *f = *state;
    struct vt_error err = VT_ERROR_INIT;
    struct seen seen = {0};

    assert_int_equal(vir_loop_init(&f->loop, &err), -EBUSY);
    vir_loop_dispose();
    assert_int_equal(
        virEventAddHandle(f->pair[0], VIR_EVENT_HANDLE_READABLE, on_handle, &seen, on_free), -1);
    assert_int_equal(virEventAddTimeout(0, on_timeout, &seen, on_free), -1);
}

static void idle_watch_does_not_hold_the_loop(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    int watch = virEventAddHandle(f->pair[0], VIR_EVENT_HANDLE_READABLE, on_handle, &seen, NULL);

    assert_int_equal(uv_run(&f->loop.uv, UV_RUN_DEFAULT), 0); /* returns at once */
    assert_int_equal(virEventRemoveHandle(watch), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(readable_descriptor_is_told),       T(no_events_means_no_calls),
        T(writable_descriptor_is_told),       T(one_descriptor_may_be_watched_twice),
        T(reused_descriptor_is_another),      T(timer_fires_not_early_and_repeats),
        T(zero_timer_fires_once_a_round),     T(timer_removed_by_another_stays_silent),
        T(threads_change_what_the_loop_runs), T(second_loop_is_refused_and_detached_loop_refuses),
        T(idle_watch_does_not_hold_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
