/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers when memory fails: text.c is compiled here with an allocator that does. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static long allocations_left;

static void *failing_realloc(void *old, size_t size)
{
    return allocations_left-- > 0 ? realloc(old, size) : NULL;
}

#define realloc failing_realloc
#include "base/text.c"
#undef realloc

static void each_failing_allocation_marks_the_buffer(void **state)
{
    long n = 0;
    int r;

    (void)state;
    do {
        struct vt_buf buf = VT_BUF_INIT(100000);
        struct vt_error err = VT_ERROR_INIT;

        allocations_left = n++;
        for (int i = 0; i < 200; i++)
            vt_buf_printf(&buf, "%0100d", i);
        r = vt_buf_check(&buf, "x", &err);
        if (r < 0) {
            assert_int_equal(r, -ENOMEM);
            assert_string_equal(err.text, "x: out of memory");
            /* What was there before is whole. */
            assert_true(buf.len % 100 == 0 && (buf.len == 0 || buf.data[buf.len] == '\0'));
            allocations_left = 1000;
            vt_buf_adds(&buf, "later");
            assert_true(buf.len % 100 == 0);
        } else {
            assert_int_equal(buf.len, 20000);
        }
        vt_buf_dispose(&buf);
    } while (r < 0 && n < 100);
    assert_int_equal(r, 0);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failing_allocation_marks_the_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
