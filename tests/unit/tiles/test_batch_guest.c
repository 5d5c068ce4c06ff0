/* SPDX-License-Identifier: Apache-2.0 */
/* The batch guest's workers, where one of them cannot be started. */
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
#include "tiles/roles/registry.h"
#include "tiles/roles/role.h"
#include "tiles/spec/spec.h"

#define S VT_NS_PER_S
#define WINDOW_NS (20 * S)

static bool go_on(void *ctx)
{
    (void)ctx;
    return false;
}

static void count(void *ctx, const struct role_done *done)
{
    (void)done;
    ++*(unsigned *)ctx;
}

/* The second begins its first job late in the window; that it never will is known, and told, before
 * the first has begun one. */
static void test_late_worker_that_cannot_start(void **state)
{
    const struct spec_jobs jobs = {.rate = 1000000,
                                   .window_ns = WINDOW_NS,
                                   .late_share = 750000,
                                   .compress_bytes = 1000,
                                   .compile_functions = 1};
    char folder[] = "/tmp/vtile-batch-XXXXXX", in_the_way[64];
    unsigned told = 0;
    struct role_guest guest = {.role = "batch", .vcpus = 2, .data_dir = folder};
    struct role_work work = {.t0_ns = vt_clock_now_ns(),
                             .times = {.measure_ns = WINDOW_NS},
                             .jobs = &jobs,
                             .facts = json_object(),
                             .stopping = go_on,
                             .done = count,
                             .ctx = &told};
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(in_the_way, sizeof(in_the_way), "%s/worker-1", folder);
    VT_AUTO_FCLOSE FILE *file = fopen(in_the_way, "we");
    assert_non_null(file);
    assert_true(role_batch.guest->work(&guest, &work, &err) < 0);
    assert_true(vt_clock_now_ns() - work.t0_ns < WINDOW_NS / 2);
    assert_int_equal(told, 0);
    assert_non_null(strstr(err.text, "start worker 1"));
    assert_non_null(strstr(err.text, in_the_way));
    json_decref(work.facts);
    unlink(in_the_way);
    snprintf(in_the_way, sizeof(in_the_way), "%s/worker-0", folder);
    rmdir(in_the_way);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_late_worker_that_cannot_start)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
