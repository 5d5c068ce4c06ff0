/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/rng.h"
#include "base/scope.h"

/* --- reading --- */

static int read_text(const char *text, size_t len, struct vt_error *err)
{
    json_t *root = NULL;
    /* A copy of the exact size: reading past its end would be seen by the sanitizer. */
    char *copy = malloc(len + (len == 0));
    int r;

    assert_non_null(copy);
    memcpy(copy, text, len);
    r = vt_json_read(copy, len, "frame from web-1", VT_KIND_REFUSED, &root, err);
    assert_true((r == 0) == (root != NULL));
    json_decref(root);
    free(copy);
    return r;
}

static const char *const strict[] = {"{}",
                                     "[]",
                                     " {\"a\" : [1, -2.5e3, true, null, \"\\u00e9\"] }\n",
                                     "[\"\\ud83d\\ude00\"]",
                                     "[\"[[[[[[[[[[[[[[[[[[[[[[[[[\"]",
                                     "[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[\"]"};

static const char *const not_strict[] = {
    "",
    " ",
    "1",
    "\"text\"",
    "null",
    "{",
    "[1,]",
    "{\"a\":1,}",
    "[01]",
    "[+1]",
    "[.5]",
    "[1.]",
    "[1e]",
    "[0x1]",
    "[NaN]",
    "[Infinity]",
    "['a']",
    "{a:1}",
    "[1] [2]",
    "[1]x",
    "[\"\t\"]",
    "[\"\n\"]",
    "[\"\\x41\"]",
    "[\"\\u12\"]",
    "[\"a]",
    "[\"\\",
    "// c\n[]",
    "/**/[]",
    "{\"a\" 1}",
    "{\"a\":}",
    "]",
    "}",
    "[}",
    "{]",
    "[\"\xff\"]",
    "[\"\xc0\xaf\"]",
    "[\"\\ud800\"]",
    "[\"\\u0000\"]",
    "{\"\\u0000\":1}",
    "\xef\xbb\xbf[]",
    "[1e999]",
    "[9223372036854775808]",
    "[-9223372036854775809]",
    "[tru]",
    "[\xed\xa0\x80]",
};

static void what_is_not_strict_json_is_refused(void **state)
{

    (void)state;
    for (size_t i = 0; i < VT_COUNT(strict); i++)
        assert_int_equal(read_text(strict[i], strlen(strict[i]), NULL), 0);
    for (size_t i = 0; i < VT_COUNT(not_strict); i++) {
        struct vt_error err = VT_ERROR_INIT;
        int r = read_text(not_strict[i], strlen(not_strict[i]), &err);

        if (r != -EBADMSG)
            print_error("accepted: %s\n", not_strict[i]);
        assert_int_equal(r, -EBADMSG);
        assert_int_equal(err.kind, VT_KIND_REFUSED);
        assert_string_equal(err.file, "frame from web-1");
    }
    assert_int_equal(read_text("[1\0]", 4, NULL), -EBADMSG);
    assert_int_equal(read_text("[\"a\0b\"]", 7, NULL), -EBADMSG);
    assert_int_equal(read_text("[\"a\\\0\"]", 7, NULL), -EBADMSG);
    assert_int_equal(read_text("[]\0", 3, NULL), -EBADMSG);
}

static void refusals_have_a_position(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    json_t *root;
    char text[200];

    (void)state;
    assert_int_equal(
        vt_json_read("{\n \"a\": 1,\n \"a\": 2}", 19, "m.json", VT_KIND_CONFIG, &root, &err),
        -EBADMSG);
    assert_int_equal(err.kind, VT_KIND_CONFIG);
    assert_int_equal(err.line, 3);
    assert_non_null(strstr(err.text, "duplicate"));
    assert_ptr_equal(strstr(vt_error_print(&err, text, sizeof(text)), "m.json:3:"), text);
    /* The same key, spelt otherwise. */
    assert_int_equal(read_text("{\"a\":1,\"\\u0061\":2}", 18, &err), -EBADMSG);
    assert_int_equal(read_text("{\"o\":{\"b\":1,\"b\":1}}", 19, &err), -EBADMSG);
}

static void depth_and_values_are_bounded(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(VT_JSON_BYTES_MAX + 10);

    (void)state;
    for (unsigned depth = 1; depth < 40; depth++) {
        vt_buf_reset(&text);
        for (unsigned i = 0; i < depth; i++)
            vt_buf_adds(&text, i % 2 ? "{\"k\":" : "[");
        vt_buf_adds(&text, "1");
        for (unsigned i = depth; i-- > 0;)
            vt_buf_adds(&text, i % 2 ? "}" : "]");
        assert_int_equal(read_text(text.data, text.len, &err),
                         depth <= VT_JSON_DEPTH_MAX ? 0 : -EBADMSG);
    }
    /* Four megabytes of brackets: refused before anything recurses. */
    vt_buf_reset(&text);
    for (unsigned i = 0; i < 4 << 20; i += 8)
        vt_buf_adds(&text, "[[[[[[[[");
    assert_int_equal(read_text(text.data, text.len, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "levels"));
    assert_int_equal(err.column, VT_JSON_DEPTH_MAX + 1);
    vt_buf_reset(&text);
    vt_buf_adds(&text, "[0");
    for (unsigned i = 0; i < VT_JSON_VALUES_MAX; i++)
        vt_buf_adds(&text, ",0");
    vt_buf_adds(&text, "]");
    assert_int_equal(read_text(text.data, text.len, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "values"));
    vt_buf_reset(&text);
    while (text.len <= VT_JSON_BYTES_MAX)
        vt_buf_adds(&text, " ");
    assert_int_equal(read_text(text.data, text.len, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "bytes"));
}

static void typed_look_ups_name_key_and_types(void **state)
{
    json_t *obj = json_loads(
        "{\"s\":\"x\",\"i\":5,\"r\":5.0,\"a\":[1,2],\"o\":{},\"b\":true,\"n\":null}", 0, NULL);
    struct vt_error err = VT_ERROR_INIT;
    const char *s = "kept";
    int64_t i = 77;
    const json_t *v = NULL;
    bool b = false;

    (void)state;
    assert_int_equal(vt_json_get_string(obj, "s", &s, &err), 0);
    assert_string_equal(s, "x");
    assert_int_equal(vt_json_get_int(obj, "i", 0, 5, &i, &err), 0);
    assert_true(i == 5);
    assert_int_equal(vt_json_get_array(obj, "a", 2, &v, &err), 0);
    assert_int_equal(json_array_size(v), 2);
    assert_int_equal(vt_json_get_object(obj, "o", &v, &err), 0);
    assert_int_equal(vt_json_get_bool(obj, "b", &b, &err), 0);
    assert_true(b);
    assert_int_equal(vt_json_opt_int(obj, "none", 0, 9, &i, &err), 0);
    assert_int_equal(vt_json_opt_string(obj, "none", &s, &err), 0);
    assert_true(i == 5 && s[0] == 'x');

    assert_int_equal(vt_json_get_int(obj, "i", 6, 9, &i, &err), -EBADMSG);
    assert_string_equal(err.text, "key \"i\": expected an integer from 6 to 9, found 5");
    assert_int_equal(vt_json_get_int(obj, "r", 0, 9, &i, &err), -EBADMSG);
    assert_string_equal(err.text, "key \"r\": expected an integer, found a fraction");
    assert_int_equal(vt_json_opt_int(obj, "n", 0, 9, &i, &err), -EBADMSG);
    assert_int_equal(vt_json_get_string(obj, "zz", &s, &err), -EBADMSG);
    assert_string_equal(err.text, "key \"zz\" is missing: expected text");
    assert_int_equal(vt_json_opt_string(obj, "i", &s, &err), -EBADMSG);
    assert_int_equal(vt_json_get_array(obj, "a", 1, &v, &err), -EBADMSG);
    assert_string_equal(err.text, "key \"a\": expected at most 1 entries, found 2");
    assert_int_equal(vt_json_get_array(obj, "o", 1, &v, &err), -EBADMSG);
    assert_int_equal(vt_json_get_object(obj, "a", &v, &err), -EBADMSG);
    assert_int_equal(vt_json_get_bool(obj, "i", &b, &err), -EBADMSG);
    assert_int_equal(vt_json_get_string(NULL, "s", &s, &err), -EBADMSG);
    assert_true(i == 5 && s[0] == 'x' && b);
    json_decref(obj);
}

/* --- writing --- */

static void documents_are_written_without_white_space(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1000);
    struct vt_json w;

    (void)state;
    vt_json_begin(&w, &out);
    vt_json_object(&w, NULL);
    vt_json_int(&w, "min", INT64_MIN);
    vt_json_uint(&w, "max", UINT64_MAX);
    vt_json_array(&w, "a");
    vt_json_array(&w, NULL);
    vt_json_end(&w);
    vt_json_object(&w, NULL);
    vt_json_end(&w);
    vt_json_bool(&w, NULL, false);
    vt_json_null(&w, NULL);
    vt_json_end(&w);
    vt_json_string(&w, "s", NULL);
    vt_json_bool(&w, "b", true);
    vt_json_end(&w);
    assert_string_equal(out.data, "{\"min\":-9223372036854775808,\"max\":18446744073709551615,"
                                  "\"a\":[[],{},false,null],\"s\":null,\"b\":true}");
}

static const char *write_double(struct vt_buf *out, double value, int decimals)
{
    struct vt_json w;

    vt_buf_reset(out);
    vt_json_begin(&w, out);
    vt_json_double(&w, NULL, value, decimals);
    return out->data;
}

static void digits_do_not_depend_on_anything(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1000);
    static const char *const locales[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8"};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(locales); i++) {
        /* Where the machine has no such locale, the rounds are the same. */
        setlocale(LC_ALL, locales[i]);
        assert_string_equal(write_double(&out, 93.71, 2), "93.71");
        assert_string_equal(write_double(&out, 1234567.5, 1), "1234567.5");
        assert_string_equal(write_double(&out, 0.000000001, 9), "0.000000001");
        assert_string_equal(write_double(&out, 3, 0), "3");
        assert_string_equal(write_double(&out, -0.0, 2), "0.00");
        assert_string_equal(write_double(&out, -0.004, 2), "0.00");
        assert_string_equal(write_double(&out, -0.006, 2), "-0.01");
        assert_string_equal(write_double(&out, NAN, 2), "null");
        assert_string_equal(write_double(&out, INFINITY, 2), "null");
        assert_int_equal(strlen(write_double(&out, -1.7976931348623157e308, 9)), 1 + 309 + 10);
    }
    setlocale(LC_ALL, "C");
}

/* Whatever bytes go in, jansson reads the line back; valid text comes back unchanged. */
static void any_text_survives_reading(void **state)
{
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 1, "json", 0);
    for (int round = 0; round < 3000; round++) {
        static const char *const pieces[] = {"\"",
                                             "\\",
                                             "\n",
                                             "\x01",
                                             "\x7f",
                                             "a",
                                             "/",
                                             "\xc3\xa9",
                                             "\xe2\x82\xac",
                                             "\xf0\x9f\x98\x80",
                                             "\xed\xa0\x80",
                                             "\xff",
                                             "\xc3",
                                             "\xf0\x9f",
                                             "\xe2\x80\xa8",
                                             "\x1b"};
        char text[200] = "";
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4000);
        struct vt_json w;
        json_t *root;
        const char *back;

        for (uint64_t n = vt_rng_below(&rng, 30); n > 0; n--)
            strncat(text, pieces[vt_rng_below(&rng, VT_COUNT(pieces))],
                    sizeof(text) - strlen(text) - 1);
        vt_json_begin(&w, &out);
        vt_json_object(&w, NULL);
        vt_json_string(&w, text, text);
        vt_json_end(&w);
        assert_null(memchr(out.data, '\n', out.len));
        assert_null(memchr(out.data, '\x1b', out.len));
        assert_int_equal(vt_json_read(out.data, out.len, "x", VT_KIND_REFUSED, &root, NULL), 0);
        back = json_string_value(json_object_iter_value(json_object_iter(root)));
        assert_string_equal(back, json_object_iter_key(json_object_iter(root)));
        if (vt_text_is_utf8(text))
            assert_string_equal(back, text);
        else
            assert_non_null(strstr(back, "\xef\xbf\xbd"));
        json_decref(root);
    }
}

static void invalid_bytes_become_replacement_characters(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    struct vt_json w;

    (void)state;
    vt_json_begin(&w, &out);
    vt_json_string(&w, NULL,
                   "a\xff"
                   "b\xe2\x82");
    assert_string_equal(out.data, "\"a\xef\xbf\xbd"
                                  "b\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void a_full_buffer_is_seen_at_the_end(void **state)
{
    (void)state;
    for (size_t max = 0; max < 40; max++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(max);
        struct vt_json w;

        vt_json_begin(&w, &out);
        vt_json_object(&w, NULL);
        vt_json_string(&w, "key", "value\n");
        vt_json_double(&w, "d", 0.25, 3);
        vt_json_end(&w);
        assert_int_equal(vt_buf_check(&out, "x", NULL), max < 27 ? -ENOBUFS : 0);
    }
}

/* --- no memory --- */

static long allocations_left;

static void *failing_malloc(size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

static void each_failing_allocation_is_an_error(void **state)
{
    static const char text[] =
        "{\"a\":[1,2.5,\"x\",{\"b\":null}],\"c\":{\"d\":\"\\u00e9 long enough\"}}";
    struct vt_error err = VT_ERROR_INIT;
    json_t *root = NULL;
    long n = 0;
    int r;

    (void)state;
    json_set_alloc_funcs(failing_malloc, free);
    do {
        allocations_left = n++;
        r = vt_json_read(text, strlen(text), "x", VT_KIND_REFUSED, &root, &err);
        if (r < 0)
            assert_true(r == -ENOMEM || r == -EBADMSG);
    } while (r < 0 && n < 1000);
    json_decref(root);
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(r, 0);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_strict_json_is_refused),
        cmocka_unit_test(refusals_have_a_position),
        cmocka_unit_test(depth_and_values_are_bounded),
        cmocka_unit_test(typed_look_ups_name_key_and_types),
        cmocka_unit_test(documents_are_written_without_white_space),
        cmocka_unit_test(digits_do_not_depend_on_anything),
        cmocka_unit_test(any_text_survives_reading),
        cmocka_unit_test(invalid_bytes_become_replacement_characters),
        cmocka_unit_test(a_full_buffer_is_seen_at_the_end),
        cmocka_unit_test(each_failing_allocation_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
