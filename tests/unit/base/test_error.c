/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"

static void set_fills_and_returns_the_code(void **state)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(vt_error_set(&err, VT_KIND_USAGE, -ENOENT, "no %s", "spec"), -ENOENT);
    assert_int_equal(err.kind, VT_KIND_USAGE);
    assert_int_equal(err.code, -ENOENT);
    assert_string_equal(err.text, "no spec");
    assert_string_equal(err.file, "");
    assert_int_equal(vt_error_set(&err, VT_KIND_INFRA, 7, "x"), -EINVAL);
    assert_int_equal(vt_error_set(NULL, VT_KIND_INFRA, -EPERM, "x"), -EPERM);
}

static void errno_is_told_in_words(void **state)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(vt_error_errno(&err, VT_KIND_INFRA, EACCES, "open %s", "/x"), -EACCES);
    assert_string_equal(err.text, "open /x: Permission denied");
    assert_int_equal(vt_error_errno(&err, VT_KIND_INFRA, 0, "open"), -EIO);
    assert_int_equal(vt_error_errno(NULL, VT_KIND_INFRA, ENOSPC, "x"), -ENOSPC);
}

static void wrap_keeps_position_and_code(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    char text[200];

    (void)state;
    assert_int_equal(vt_error_at(&err, "a.yaml", 3, 7, "unknown key \"%s\"", "webb"), -EINVAL);
    assert_int_equal(err.kind, VT_KIND_CONFIG);
    assert_int_equal(vt_error_wrap(&err, "read spec %d", 1), -EINVAL);
    assert_string_equal(vt_error_print(&err, text, sizeof(text)),
                        "a.yaml:3:7: read spec 1: unknown key \"webb\"");
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_int_equal(vt_error_wrap(NULL, "x"), -EIO);
}

static void wrapping_no_error_is_not_success(void **state)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(vt_error_wrap(&err, "place tile 3"), -EIO);
    assert_string_equal(err.text, "place tile 3: unknown reason");
    assert_int_equal(vt_error_exit_code(&err), 4);
}

static void print_leaves_unknown_positions_out(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    char text[64];

    (void)state;
    vt_error_at(&err, "f", 0, 4, "t");
    assert_string_equal(vt_error_print(&err, text, sizeof(text)), "f: t");
    vt_error_at(&err, "f", 9, -1, "t");
    assert_string_equal(vt_error_print(&err, text, sizeof(text)), "f:9: t");
    vt_error_set(&err, VT_KIND_INFRA, -EIO, "0123456789");
    assert_string_equal(vt_error_print(&err, text, 8), "0123...");
    assert_string_equal(vt_error_print(&err, text, 1), "");
}

static void arguments_may_point_into_the_error(void **state)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    vt_error_at(&err, "spec.yaml", 1, 1, "inner");
    vt_error_set(&err, VT_KIND_INFRA, -EIO, "outer: %s (%s)", err.text, err.file);
    assert_string_equal(err.text, "outer: inner (spec.yaml)");
    vt_error_at(&err, "other.yaml", 1, 1, "x");
    vt_error_at(&err, err.file, 2, 2, "y");
    assert_string_equal(err.file, "other.yaml");
    vt_error_wrap(&err, "%s", err.text);
    assert_string_equal(err.text, "y: y");
}

/* For each length around the bound, of text whose characters take three bytes: terminated, cut
 * with dots, and valid UTF-8 throughout. */
static void long_texts_are_cut_between_characters(void **state)
{
    static char in[3 * VT_ERROR_TEXT_MAX + 1];

    (void)state;
    for (size_t n = 1; n < VT_ERROR_TEXT_MAX / 3 + 8; n++) {
        struct vt_error err = VT_ERROR_INIT;

        for (size_t i = 0; i < n; i++)
            memcpy(in + 3 * i, "\xe2\x82\xac", 4);
        for (int pad = 0; pad < 3; pad++) {
            size_t whole = 3 * n + (size_t)pad;

            vt_error_set(&err, VT_KIND_INFRA, -EIO, "%.*s%s", pad, "ab", in);
            assert_true(vt_text_is_utf8(err.text));
            if (whole < VT_ERROR_TEXT_MAX) {
                assert_int_equal(strlen(err.text), whole);
            } else {
                assert_true(strlen(err.text) >= VT_ERROR_TEXT_MAX - 4);
                assert_string_equal(err.text + strlen(err.text) - 3, "...");
            }
            vt_error_wrap(&err, "x");
            vt_error_errno(&err, VT_KIND_INFRA, EACCES, "%s", in);
            assert_true(vt_text_is_utf8(err.text));
        }
    }
}

static void exit_codes_follow_kinds(void **state)
{
    static const struct {
        enum vt_kind kind;
        int code;
    } table[] = {{VT_KIND_NONE, 4},  {VT_KIND_USAGE, 2},         {VT_KIND_CONFIG, 2},
                 {VT_KIND_INFRA, 4}, {VT_KIND_INTERRUPTED, 130}, {VT_KIND_REFUSED, 4}};
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(vt_error_exit_code(&err), 0);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        vt_error_set(&err, table[i].kind, -EIO, "x");
        assert_int_equal(vt_error_exit_code(&err), table[i].code);
    }
    vt_error_clear(&err);
    assert_int_equal(vt_error_exit_code(&err), 0);
    vt_error_clear(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_and_returns_the_code),
        cmocka_unit_test(errno_is_told_in_words),
        cmocka_unit_test(wrap_keeps_position_and_code),
        cmocka_unit_test(wrapping_no_error_is_not_success),
        cmocka_unit_test(print_leaves_unknown_positions_out),
        cmocka_unit_test(arguments_may_point_into_the_error),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(exit_codes_follow_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
