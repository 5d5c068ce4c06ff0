/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds of load that a restarted guest tells once more are counted once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/scope.h"
#include "orchestrator/run/steps.h"

static const struct {
    const char *operation;
    int64_t second;
    bool new;
} told[] = {
    {"compress", 0, true},   {"compile", 0, true},    {"compress", 10, true},
    {"compile", 10, true},   {"compress", 20, true}, /* here the guest ends */
    {"compress", 20, false}, {"compile", 20, true},   {"compress", 30, true}, /* and here */
    {"compile", 20, false},  {"compress", 30, false}, {"compile", 30, true},
    {"compile", 30, false},
};

static void test_each_second_once(void **state)
{
    struct spec_role spec = {.works = true};
    struct run_vm vm = {.spec = &spec, .role = role_find("batch")};
    struct run_load load = {.vm = &vm};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(told); i++) {
        const struct vt_load_second second = {.operation = told[i].operation,
                                              .second = told[i].second,
                                              .intended = 3,
                                              .good = 2,
                                              .failed = 1};

        assert_int_equal(run_take_second(&load, &second), told[i].new);
    }
    assert_int_equal(load.second, 30);
    assert_int_equal(load.noperations, 2);
    /* Two operations of four seconds. */
    assert_int_equal(load.told.intended, 2 * 4 * 3);
    assert_int_equal(load.told.good, 2 * 4 * 2);
    assert_int_equal(load.told.failed, 2 * 4);
}

/* The client is not restarted: what it says is taken. */
static void test_the_client_is_believed(void **state)
{
    struct spec_role spec = {.works = false};
    struct run_vm vm = {.spec = &spec, .role = role_find("web")};
    struct run_load load = {.vm = &vm};
    const struct vt_load_second second = {.operation = "home", .second = 7};

    (void)state;
    assert_true(run_take_second(&load, &second));
    assert_true(run_take_second(&load, &second));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_second_once),
        cmocka_unit_test(test_the_client_is_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
