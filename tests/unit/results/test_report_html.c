/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "sample.h"

#include "results/report/html.h"

#define REPLACED "\xef\xbf\xbd" /* U+FFFD */

static void assert_text(const char *text, size_t max, const char *expected)
{
    struct vt_buf out = VT_BUF_INIT(1 << 16);

    html_text(&out, text, max);
    assert_string_equal(out.data ? out.data : "", expected);
    vt_buf_dispose(&out);
}

static void test_markup(void **state)
{
    (void)state;
    assert_text("<script>alert('x & \"y\"')</script>", 100,
                "&lt;script&gt;alert(&#39;x &amp; &quot;y&quot;&#39;)&lt;/script&gt;");
    assert_text("&amp;", 100, "&amp;amp;");
    assert_text("", 100, "");
}

static void test_controls(void **state)
{
    (void)state;
    assert_text("a\tb\nc", 100, "a\tb\nc");
    assert_text("a\x1b[31m\x7f\x01z", 100, "a" REPLACED "[31m" REPLACED REPLACED "z");
    assert_text("\xc2\x85next line", 100, REPLACED "next line"); /* U+0085, a C1 control */
    assert_text("\xc2\xa0", 100, "\xc2\xa0");                    /* a no-break space is none */
}

/* Unicode's bidirectional controls could make a text read otherwise than it is. */
static void test_direction(void **state)
{
    /* NOLINTBEGIN(misc-misleading-bidirectional): that is what is tested */
    static const char *const turns[] = {"\xe2\x80\xae", "\xe2\x80\xaa", "\xe2\x81\xa6",
                                        "\xe2\x81\xa9", "\xe2\x80\x8f", "\xd8\x9c"};
    /* NOLINTEND(misc-misleading-bidirectional) */

    (void)state;
    for (size_t i = 0; i < sizeof(turns) / sizeof(*turns); i++)
        assert_text(turns[i], 100, REPLACED);
    assert_text("\xe2\x80\xa6", 100, "\xe2\x80\xa6"); /* an ellipsis stands beside them */
}

static void test_not_utf8(void **state)
{
    (void)state;
    assert_text("\xff\xfe<", 100, REPLACED REPLACED "&lt;");
    assert_text("\xc0\xbc", 100, REPLACED REPLACED); /* an overlong '<' */
    assert_text("\xe2\x82", 100, REPLACED REPLACED); /* cut */
    assert_text("gr\xc3\xbc\xc3\x9f", 100, "gr\xc3\xbc\xc3\x9f");
}

static void test_cut(void **state)
{
    (void)state;
    assert_text("abcdef", 3, "abc...");
    assert_text("abc", 3, "abc");
    assert_text("<<<<", 2, "&lt;&lt;...");
    /* A character is not cut in two. */
    assert_text("a\xe2\x82\xac!", 2, "a\xe2\x82\xac...");
}

static void assert_number(void (*put)(struct vt_buf *, double), double value, const char *expected)
{
    struct vt_buf out = VT_BUF_INIT(256);

    put(&out, value);
    assert_string_equal(out.data, expected);
    vt_buf_dispose(&out);
}

static void test_numbers(void **state)
{
    (void)state;
    assert_number(html_seconds, 0.08, "80 ms");
    assert_number(html_seconds, 3, "3 s");
    assert_number(html_seconds, 0.00025, "250 \xc2\xb5s");
    assert_number(html_seconds, 0.9999, "1 s");
    assert_number(html_bytes, 512, "512 B");
    assert_number(html_bytes, 1536, "1.5 KiB");
    assert_number(html_bytes, 128.0 * 1024 * 1024, "128 MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markup),    cmocka_unit_test(test_controls),
        cmocka_unit_test(test_direction), cmocka_unit_test(test_not_utf8),
        cmocka_unit_test(test_cut),       cmocka_unit_test(test_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
