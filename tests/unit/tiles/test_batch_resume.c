/* SPDX-License-Identifier: Apache-2.0 */
/* Batch in a guest that was restarted: windows whose figures were counted before are left alone,
 * those missed since have failed, and the next one is worked. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/roles/registry.h"

#define S VT_NS_PER_S
#define WINDOWS 4
#define WINDOW_S 3

struct seen {
    pthread_mutex_t lock;
    unsigned told[WINDOWS + 1], missed[WINDOWS + 1]; /* the last: of no window */
};

static bool stopping(void *ctx)
{
    (void)ctx;
    return false;
}

static void done(void *ctx, const struct role_done *done)
{
    struct seen *seen = ctx;
    int64_t window = done->intended_ns / (WINDOW_S * S);

    pthread_mutex_lock(&seen->lock);
    if (window < 0 || window > WINDOWS)
        window = WINDOWS;
    seen->told[window]++;
    seen->missed[window] += done->failed && !strncmp(done->failed, "missed: ", 8);
    pthread_mutex_unlock(&seen->lock);
}

static json_int_t fact(const json_t *facts, const char *name)
{
    return json_integer_value(json_object_get(facts, name));
}

/* Begins so many seconds after T0. */
static void work(int64_t after_s, bool resumed, int64_t from_s, struct seen *seen, json_t *facts)
{
    char folder[] = "/tmp/vb.XXXXXX", worker[64];
    const struct spec_jobs jobs = {
        .rate = 1, .window_ns = WINDOW_S * S, .compress_bytes = 64, .compile_functions = 1};
    struct role_guest guest = {.role = "batch", .tile = 1, .seed = 1, .vcpus = 1};
    const struct role_work order = {
        .t0_ns = vt_clock_now_ns() - after_s * S,
        .resumed = resumed,
        .from_ns = from_s * S,
        .times = {.measure_ns = WINDOWS * WINDOW_S * S},
        .jobs = &jobs,
        .facts = facts,
        .stopping = stopping,
        .done = done,
        .ctx = seen,
    };

    *seen = (struct seen){.lock = PTHREAD_MUTEX_INITIALIZER};
    assert_non_null(mkdtemp(folder));
    guest.data_dir = folder;
    guest.run_dir = folder;
    assert_int_equal(role_batch_guest.work(&guest, &order, NULL), 0);
    snprintf(worker, sizeof(worker), "%s/worker-0", folder);
    assert_int_equal(rmdir(worker), 0); /* jobs leave nothing */
    assert_int_equal(rmdir(folder), 0);
}

/* At 7 s of windows at 0, 3, 6 and 9 s, the first of them counted. */
static void test_goes_on(void **state)
{
    json_t *facts = json_object();
    struct seen seen;

    (void)state;
    if (access("/usr/bin/gcc", X_OK) < 0 || access("/bin/bzip2", X_OK) < 0) {
        json_decref(facts);
        skip();
    }
    work(7, true, 3, &seen, facts);
    assert_int_equal(seen.told[0], 0);
    for (unsigned window = 1; window <= 2; window++) {
        assert_int_equal(seen.told[window], 2);
        assert_int_equal(seen.missed[window], 2);
    }
    /* A busy machine may end them late; they were begun. */
    assert_int_equal(seen.told[3], 2);
    assert_int_equal(seen.missed[3], 0);
    assert_int_equal(seen.told[WINDOWS], 0);
    assert_int_equal(fact(facts, "windows_missed"), 2);
    assert_int_equal(fact(facts, "jobs_done") + fact(facts, "jobs_failed"), 6);
    json_decref(facts);
}

static void test_too_late_for_all(void **state)
{
    json_t *facts = json_object();
    struct seen seen;

    (void)state;
    work(100, true, 0, &seen, facts);
    for (unsigned window = 0; window < WINDOWS; window++) {
        assert_int_equal(seen.told[window], 2);
        assert_int_equal(seen.missed[window], 2);
    }
    assert_int_equal(fact(facts, "jobs_failed"), 2 * WINDOWS);
    assert_string_equal(json_string_value(json_object_get(facts, "first_failure")),
                        "missed: its window began before the guest's work did");
    json_decref(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_too_late_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
