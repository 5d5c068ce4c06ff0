/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "base/cmdline.h"

static void test_keeps_what_tunes(void **state)
{
    char told[128];

    (void)state;
    vt_cmdline_told(
        "ro root=/dev/sda1 isolcpus=2-3 secret.token=4711 nosmt nosmtx=1 kvm_amd.avic=1\n", told,
        sizeof(told));
    assert_string_equal(told, "isolcpus=2-3 nosmt kvm_amd.avic=1");
    vt_cmdline_told("ro quiet password=isolcpus=1", told, sizeof(told));
    assert_string_equal(told, "nothing that isolates or tunes");
    vt_cmdline_told("", told, sizeof(told));
    assert_string_equal(told, "nothing that isolates or tunes");
}

static void test_is_cut(void **state)
{
    char told[16];

    (void)state;
    vt_cmdline_told("isolcpus=2-3 nohz_full=2-3 mitigations=off", told, sizeof(told));
    assert_string_equal(told, "isolcpus=2-3 no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_what_tunes),
        cmocka_unit_test(test_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
