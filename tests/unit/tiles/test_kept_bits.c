/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"
#include "tiles/load/schedule.h"
#include "tiles/roles/kept_bits.h"

static void test_bits(void **state)
{
    char dir[] = "/tmp/vt-kept-XXXXXX", path[128];
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(64);
    KEPT_BITS_AUTO struct kept_bits kept = {NULL, 0};
    struct role_guest guest = {.run_dir = dir};

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(kept_bits_init(&kept, NULL), 0);
    assert_int_equal(kept_bits_set(&kept, 17), 1);
    assert_int_equal(kept_bits_set(&kept, 0), 1);
    assert_int_equal(kept_bits_set(&kept, 17), 0);
    assert_int_equal(kept_bits_set(&kept, SCHEDULE_STEPS_MAX), -ERANGE);
    assert_int_equal(kept_bits_set(&kept, UINT32_MAX), -ERANGE);
    kept_bits_path(&guest, "mail", 3, path, sizeof(path));
    assert_string_equal(path + strlen(dir), "/kept.mail.3.bits");
    assert_int_equal(kept_bits_write(&kept, path, NULL), 0);
    assert_int_equal(vt_file_read(path, VT_KIND_INFRA, &text, NULL), 0);
    assert_int_equal(text.len, 3);
    assert_memory_equal(text.data, "\x01\x00\x02", 3);
    assert_int_equal(kept_bits_set(&kept, SCHEDULE_STEPS_MAX - 1), 1);
    assert_int_equal(kept.len, SCHEDULE_STEPS_MAX / 8);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
