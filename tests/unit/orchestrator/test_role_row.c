/* SPDX-License-Identifier: Apache-2.0 */
/* What a role's row of the record says of its schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/role_row.h"

static void test_schedule(void **state)
{
    static const struct {
        const char *spec, *row;
    } cases[] = {{"", ""}, {"poisson", ""}, {"uniform", "uniform"}, {"step:1,2", "step:1,2"}};
    struct spec spec;
    struct vt_record_role row;

    (void)state;
    assert_int_equal(spec_load("web", &spec, NULL), 0);
    for (size_t r = 0; r < spec.nroles; r++) {
        for (size_t i = 0; i < VT_COUNT(cases); i++) {
            struct spec_role *role = &spec.roles[r];

            vt_text_copy(role->load.schedule, sizeof(role->load.schedule), cases[i].spec);
            run_role_row(role, 1, 0, 500000, &row);
            assert_string_equal(row.role, role->name);
            assert_string_equal(row.schedule, role->driven ? cases[i].row : "");
            assert_int_equal(row.rate, role->driven ? 90450000 : 0); /* half of the spec's */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedule)};

    return cmocka_run_group_tests_name("role_row", tests, NULL, NULL);
}
