/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/scope.h"
#include "base/text.h"

/* --- buffers --- */

static void a_buffer_ends_exactly_at_its_maximum(void **state)
{
    (void)state;
    for (size_t max = 0; max < 300; max += 7) {
        VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(max);
        struct vt_error err = VT_ERROR_INIT;

        for (size_t i = 0; i < max; i++)
            vt_buf_add(&buf, "x", 1);
        assert_int_equal(buf.len, max);
        assert_int_equal(vt_buf_check(&buf, "b", &err), 0);
        vt_buf_add(&buf, "", 0);
        assert_false(buf.failed);
        vt_buf_adds(&buf, "y");
        assert_true(buf.failed);
        assert_int_equal(buf.len, max);
        assert_int_equal(vt_buf_check(&buf, "frame", &err), -ENOBUFS);
        assert_ptr_equal(strstr(err.text, "frame: "), err.text);
        vt_buf_reset(&buf);
        assert_int_equal(buf.len, 0);
        assert_false(buf.failed);
    }
}

static void a_refused_append_changes_nothing(void **state)
{
    VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(10);

    (void)state;
    vt_buf_adds(&buf, "12345");
    vt_buf_printf(&buf, "%s", "678901");
    assert_true(buf.failed);
    assert_string_equal(buf.data, "12345");
    vt_buf_adds(&buf, "6");
    assert_string_equal(buf.data, "12345");
    vt_buf_reset(&buf);
    vt_buf_printf(&buf, "%d-%d", 1234, 56789);
    assert_string_equal(buf.data, "1234-56789");
    assert_false(buf.failed);
    vt_buf_add(&buf, buf.data, SIZE_MAX);
    assert_true(buf.failed);
}

static void consume_takes_from_the_front(void **state)
{
    VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(100);

    (void)state;
    vt_buf_consume(&buf, 0);
    vt_buf_add(&buf, "ab\0cd", 5);
    vt_buf_consume(&buf, 2);
    assert_int_equal(buf.len, 3);
    assert_memory_equal(buf.data, "\0cd", 4);
    vt_buf_consume(&buf, 3);
    assert_int_equal(buf.len, 0);
    vt_buf_dispose(&buf);
    vt_buf_dispose(&buf);
    vt_buf_adds(&buf, "again");
    assert_string_equal(buf.data, "again");
}

static void copy_says_what_did_not_fit(void **state)
{
    char dst[4] = "zzz";

    (void)state;
    assert_true(vt_text_copy(dst, sizeof(dst), "abc"));
    assert_string_equal(dst, "abc");
    assert_false(vt_text_copy(dst, sizeof(dst), "wxyz"));
    assert_string_equal(dst, "wxy");
    assert_true(vt_text_copy(dst, 1, ""));
    assert_string_equal(dst, "");
    assert_false(vt_text_copy(dst, 0, ""));
}

/* --- numbers --- */
static const struct {
    const char *text;
    uint64_t bytes;
} good_sizes[] = {
    {"0", 0},
    {"4096", 4096},
    {"1B", 1},
    {"64KiB", 65536},
    {"128 MiB", 134217728},
    {"1GiB", 1073741824},
    {"2 TiB", UINT64_C(2199023255552)},
    {"18446744073709551615", UINT64_MAX},
    {"16777215 TiB", UINT64_C(18446742974197923840)},
    {"007", 7},
};

static const char *const bad_sizes[] = {
    "",
    " ",
    "MiB",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1  MiB",
    "1 MiB ",
    "1MB",
    "1M",
    "1mib",
    "1 kiB",
    "1.5GiB",
    "0x10",
    "1e3",
    "1 MiBx",
    "1\tMiB",
    "1PiB",
    "1,000",
    "1 B B",
    "1\nMiB",
    "1\xc2\xa0MiB",
    "\xef\xbc\x91",
    "18446744073709551616",
    "16777216 TiB",
    "99999999999999999999999999999999999999",
    "18014398509481984 KiB",
};

static void sizes_with_units(void **state)
{

    (void)state;
    for (size_t i = 0; i < VT_COUNT(good_sizes); i++) {
        struct vt_error err = VT_ERROR_INIT;
        uint64_t bytes = 1;

        assert_int_equal(vt_text_parse_bytes(good_sizes[i].text, &bytes, &err), 0);
        assert_true(bytes == good_sizes[i].bytes);
    }
    for (size_t i = 0; i < VT_COUNT(bad_sizes); i++) {
        struct vt_error err = VT_ERROR_INIT;
        uint64_t bytes = 77;

        assert_int_equal(vt_text_parse_bytes(bad_sizes[i], &bytes, &err), -EINVAL);
        assert_true(bytes == 77);
        assert_non_null(strstr(err.text, "expected a size"));
        assert_non_null(strstr(err.text, "TiB"));
        assert_int_equal(err.kind, VT_KIND_CONFIG);
    }
    assert_int_equal(vt_text_parse_bytes(NULL, &(uint64_t){0}, NULL), -EINVAL);
}

static void durations_need_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"0s", 0},
        {"5ns", 5},
        {"10us", 10000},
        {"250ms", 250000000},
        {"90 s", INT64_C(90000000000)},
        {"2 min", INT64_C(120000000000)},
        {"1 h", INT64_C(3600000000000)},
        {"9223372036854775807ns", INT64_MAX},
        {"2562047 h", INT64_C(9223369200000000000)},
    };
    static const char *const bad[] = {
        "",
        "5",
        "5 ",
        "s",
        "-1s",
        "+1s",
        " 1s",
        "1s ",
        "1  s",
        "1.5s",
        "1m",
        "1sec",
        "1 S",
        "1s1s",
        "1 Min",
        "1hour",
        "1d",
        "1e3ms",
        "0x1s",
        "1\xc2\xb5s",
        "1s\n",
        "inf",
        "nan s",
        "2562048 h",
        "9223372036854775808ns",
        "18446744073709551616ns",
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(good); i++) {
        struct vt_error err = VT_ERROR_INIT;
        int64_t ns = -1;

        assert_int_equal(vt_text_parse_duration(good[i].text, &ns, &err), 0);
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        struct vt_error err = VT_ERROR_INIT;
        int64_t ns = 77;

        assert_int_equal(vt_text_parse_duration(bad[i], &ns, &err), -EINVAL);
        assert_true(ns == 77);
        assert_non_null(strstr(err.text, "expected a duration"));
    }
}

static void whole_numbers_in_range(void **state)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "0x1",
                                      "1.0",
                                      "1e1",
                                      "--1",
                                      "- 1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999"};
    struct vt_error err = VT_ERROR_INIT;
    int64_t v = 0;

    (void)state;
    assert_int_equal(vt_text_parse_int("-9223372036854775808", INT64_MIN, INT64_MAX, &v, &err), 0);
    assert_true(v == INT64_MIN);
    assert_int_equal(vt_text_parse_int("9223372036854775807", INT64_MIN, INT64_MAX, &v, &err), 0);
    assert_true(v == INT64_MAX);
    assert_int_equal(vt_text_parse_int("-0", 0, 0, &v, &err), 0);
    assert_true(v == 0);
    v = 77;
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        assert_int_equal(vt_text_parse_int(bad[i], INT64_MIN, INT64_MAX, &v, &err), -EINVAL);
        assert_true(v == 77);
    }
    assert_int_equal(vt_text_parse_int("0", 1, 26, &v, &err), -EINVAL);
    assert_string_equal(err.text, "\"0\": expected a whole number from 1 to 26");
    assert_int_equal(vt_text_parse_int("27", 1, 26, &v, &err), -EINVAL);
    assert_int_equal(vt_text_parse_int("26", 1, 26, &v, &err), 0);
}

static void fractions_in_range(void **state)
{
    static const char *const bad[] = {"",      ".5",  "5.",  "+1",  " 1",    "1 ",    "1,5",
                                      "0x1p3", "inf", "nan", "1e",  "1e+",   "1.2.3", "1e999",
                                      "-",     "1f",  "1_0", "-.5", "1e1.5", "NaN(1)"};
    struct vt_error err = VT_ERROR_INIT;
    double v = 0;

    (void)state;
    assert_int_equal(vt_text_parse_double("0.05", 0, 1, &v, &err), 0);
    assert_true(v == 0.05);
    assert_int_equal(vt_text_parse_double("-1.5e-3", -1, 1, &v, &err), 0);
    assert_true(v == -1.5e-3);
    v = 77;
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        assert_int_equal(vt_text_parse_double(bad[i], -INFINITY, INFINITY, &v, &err), -EINVAL);
        assert_true(v == 77);
    }
    assert_int_equal(vt_text_parse_double("1.01", 0, 1, &v, &err), -EINVAL);
    assert_string_equal(err.text, "\"1.01\": expected a number from 0 to 1");
}

static void refused_text_is_shown_harmless_and_short(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    char huge[5000];
    int64_t v;

    (void)state;
    memset(huge, '7', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    assert_int_equal(vt_text_parse_int(huge, 0, 9, &v, &err), -EINVAL);
    assert_true(strlen(err.text) < 150);
    assert_non_null(strstr(err.text, "...\""));
    assert_int_equal(vt_text_parse_int("1\033[2J\n", 0, 9, &v, &err), -EINVAL);
    assert_null(strchr(err.text, '\033'));
    assert_null(strchr(err.text, '\n'));
}

/* --- UTF-8 and hex --- */

/* Against the definition: a code point's shortest encoding and nothing else. */
static void utf8_is_what_unicode_says(void **state)
{
    (void)state;
    for (uint32_t c = 1; c < 0x120000; c += c < 0x3000 ? 1 : 13) {
        char text[5] = {0};
        size_t n;
        bool valid = c < 0xd800 || (c > 0xdfff && c < 0x110000);

        if (c < 0x80) {
            n = 1;
            text[0] = (char)c;
        } else if (c < 0x800) {
            n = 2;
            text[0] = (char)(0xc0 | c >> 6);
            text[1] = (char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            n = 3;
            text[0] = (char)(0xe0 | c >> 12);
            text[1] = (char)(0x80 | (c >> 6 & 0x3f));
            text[2] = (char)(0x80 | (c & 0x3f));
        } else {
            n = 4;
            text[0] = (char)(0xf0 | c >> 18);
            text[1] = (char)(0x80 | (c >> 12 & 0x3f));
            text[2] = (char)(0x80 | (c >> 6 & 0x3f));
            text[3] = (char)(0x80 | (c & 0x3f));
        }
        assert_int_equal(vt_text_utf8_length(text), valid ? n : 0);
        for (size_t cut = 1; cut < n; cut++) {
            char part[5] = {0};

            memcpy(part, text, cut);
            assert_int_equal(vt_text_utf8_length(part), 0);
        }
    }
    assert_false(vt_text_is_utf8("\xc0\x80"));
    assert_false(vt_text_is_utf8("\xc1\xbf"));
    assert_false(vt_text_is_utf8("\xe0\x9f\xbf"));
    assert_false(vt_text_is_utf8("\xf0\x8f\xbf\xbf"));
    assert_false(vt_text_is_utf8("a\x80"));
    assert_false(vt_text_is_utf8("\xff"));
    assert_true(vt_text_is_utf8(""));
}

static void plain_is_printable_ascii(void **state)
{
    char text[] = "a b~\x7f\t\n\xc3\xa9\xe2\x80";

    (void)state;
    vt_text_make_plain(text);
    assert_string_equal(text, "a b~???"
                              "??"
                              "??");
    text[0] = '\0';
    vt_text_make_plain(text);
    assert_string_equal(text, "");
}

static void hex_there_and_back(void **state)
{
    uint8_t in[32], out[32];
    char text[65];
    struct vt_rng rng;

    (void)state;
    vt_text_hex("\x00\xff\x5a", 3, text);
    assert_string_equal(text, "00ff5a");
    assert_true(vt_text_unhex("00Ff5A", out, 3));
    assert_memory_equal(out, "\x00\xff\x5a", 3);
    vt_rng_seed(&rng, 1, "hex", 0);
    for (size_t len = 0; len <= sizeof(in); len++) {
        for (size_t i = 0; i < len; i++)
            in[i] = (uint8_t)vt_rng_next(&rng);
        vt_text_hex(in, len, text);
        assert_int_equal(strlen(text), 2 * len);
        assert_true(vt_text_unhex(text, out, len));
        assert_memory_equal(in, out, len);
        assert_false(vt_text_unhex(text, out, len + 1));
        if (len > 0)
            assert_false(vt_text_unhex(text, out, len - 1));
    }
    assert_false(vt_text_unhex("0g", out, 1));
    assert_false(vt_text_unhex(" 0", out, 1));
    assert_false(vt_text_unhex("0x", out, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_ends_exactly_at_its_maximum),
        cmocka_unit_test(a_refused_append_changes_nothing),
        cmocka_unit_test(consume_takes_from_the_front),
        cmocka_unit_test(copy_says_what_did_not_fit),
        cmocka_unit_test(sizes_with_units),
        cmocka_unit_test(durations_need_a_unit),
        cmocka_unit_test(whole_numbers_in_range),
        cmocka_unit_test(fractions_in_range),
        cmocka_unit_test(refused_text_is_shown_harmless_and_short),
        cmocka_unit_test(utf8_is_what_unicode_says),
        cmocka_unit_test(plain_is_printable_ascii),
        cmocka_unit_test(hex_there_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
