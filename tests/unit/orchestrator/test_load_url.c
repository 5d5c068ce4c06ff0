/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of `vtile load`: what is asked of whom, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "orchestrator/load/url.h"

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool tls;
        uint16_t port;
        const char *name, *host, *path;
    } good[] = {
        {"http://web.test", false, 80, "web.test", "web.test", "/"},
        {"http://web.test/", false, 80, "web.test", "web.test", "/"},
        {"https://web.test/a/b.html", true, 443, "web.test", "web.test", "/a/b.html"},
        {"HTTPS://Web.Test/A", true, 443, "Web.Test", "Web.Test", "/A"},
        {"http://web.test:80/", false, 80, "web.test", "web.test", "/"},
        {"http://web.test:443/", false, 443, "web.test", "web.test:443", "/"},
        {"https://web.test:443/", true, 443, "web.test", "web.test", "/"},
        {"http://web.test:8080/x", false, 8080, "web.test", "web.test:8080", "/x"},
        {"http://web.test:1/", false, 1, "web.test", "web.test:1", "/"},
        {"http://web.test:65535/", false, 65535, "web.test", "web.test:65535", "/"},
        {"http://web.test:/x", false, 80, "web.test", "web.test", "/x"}, /* RFC 3986 3.2.3 */
        {"http://192.0.2.7/", false, 80, "192.0.2.7", "192.0.2.7", "/"},
        {"http://[::1]/", false, 80, "::1", "[::1]", "/"},
        {"http://[2001:db8::7]:8080/x", false, 8080, "2001:db8::7", "[2001:db8::7]:8080", "/x"},
        {"http://a_b-c.test/", false, 80, "a_b-c.test", "a_b-c.test", "/"},
        {"http://h?x=1&y=%20", false, 80, "h", "h", "/?x=1&y=%20"},
        {"http://h/p?x=a/b:c@d", false, 80, "h", "h", "/p?x=a/b:c@d"},
        {"http://h/p#part", false, 80, "h", "h", "/p"},
        {"http://h#part?no=query", false, 80, "h", "h", "/"},
        {"http://h/p?q#part", false, 80, "h", "h", "/p?q"},
        {"http://h/a//b/../c;d=1", false, 80, "h", "h", "/a//b/../c;d=1"}, /* as it stands */
    };

    for (size_t i = 0; i < VT_COUNT(good); i++) {
        struct load_url url;
        struct vt_error err = VT_ERROR_INIT;

        if (load_url_parse(good[i].text, &url, &err) < 0)
            fail_msg("%s: %s", good[i].text, err.text);
        assert_int_equal(url.tls, good[i].tls);
        assert_int_equal(url.target.port, good[i].port);
        assert_string_equal(url.target.server_name, good[i].name);
        assert_string_equal(url.page.host, good[i].host);
        assert_string_equal(url.page.path, good[i].path);
    }
}

static void check_bad(const char *text, const char *why)
{
    struct load_url url;
    struct vt_error err = VT_ERROR_INIT;

    memset(&url, 0x5a, sizeof url);
    if (load_url_parse(text, &url, &err) == 0)
        fail_msg("%.100s is taken", text);
    assert_int_equal(err.kind, VT_KIND_USAGE);
    if (!strstr(err.text, why))
        fail_msg("%.100s: %s", text, err.text);
    for (const char *p = err.text; *p; p++) /* it goes to a terminal */
        assert_true(*p >= ' ' && *p < 0x7f);
    assert_int_equal(url.page.path[0], 0x5a);
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "is no such URL"},
        {"web.test", "is no such URL"},
        {"/index.html", "is no such URL"},
        {"ftp://web.test/", "is no such URL"},
        {"http:/web.test/", "is no such URL"},
        {"httpx://web.test/", "is no such URL"},
        {" http://web.test/", "is no such URL"},
        {"http://", "no host"},
        {"http:///path", "no host"},
        {"http://:80/", "no host"},
        {"http://?q", "no host"},
        {"http://user@web.test/", "names a user"},
        {"http://user:password@web.test/", "names a user"},
        {"http://web.test:0/", "port"},
        {"http://web.test:65536/", "port"},
        {"http://web.test:99999999999999999999/", "port"},
        {"http://web.test:-1/", "port"},
        {"http://web.test:+80/", "port"},
        {"http://web.test:80a/", "port"},
        {"http://web.test:0x50/", "port"},
        {"http://web.test:80:80/", "port"},
        {"http://::1/", "no host"},
        {"http://[::1/", "no host"},
        {"http://[]/", "no host"},
        {"http://[::1]x/", "no host"},
        {"http://[::1]80/", "no host"},
        {"http://[127.0.0.1]/", "no host"},
        {"http://[web.test]/", "no host"},
        {"http://[fe80::1%25eth0]/", "no host"},
        {"http://[::12345]/", "no host"},
        {"http://web%2etest/", "no host"},
        {"http://web,test/", "no host"},
        {"http://web.test\\@other.test/", "names a user"},
        {"http://web.test/a b", "a space"},
        {"http://web.test/a\tb", "a space"},
        {"http://web.test/a\nX: y", "a space"},
        {"http://web.test/\r\nHost: other", "a space"},
        {"http://web.test/\x1b[31m", "a space"},
        {"http://web.test/\x7f", "a space"},
        {"http://web.test/\xc3\xa4", "beyond ASCII"},
        {"http://w\xc3\xa4 b.test/", "beyond ASCII"},
        {"http://web.test/\xff\xfe", "beyond ASCII"},
    };

    for (size_t i = 0; i < VT_COUNT(bad); i++)
        check_bad(bad[i].text, bad[i].why);
    for (int c = 1; c < 256; c++) {
        char text[] = "http://web.test/x";

        text[strlen(text) - 1] = (char)c;
        if (c <= ' ' || c >= 0x7f)
            check_bad(text, "a space or a character beyond ASCII");
    }
}

/* 8191 bytes are taken, one more is not; so with names: RFC 1035 has 253 characters. */
static void test_lengths(void **state)
{
    (void)state;
    static const char start[] = "http://h/";
    VT_AUTO_FREE char *text = malloc(GET_TEXT_MAX + 1);
    struct load_url url;

    assert_non_null(text);
    memset(text, 'x', GET_TEXT_MAX);
    memcpy(text, start, strlen(start));
    text[GET_TEXT_MAX] = '\0';
    check_bad(text, "is too long");
    text[GET_TEXT_MAX - 1] = '\0';
    assert_int_equal(load_url_parse(text, &url, NULL), 0);
    assert_int_equal(strlen(url.page.path), GET_TEXT_MAX - 1 - strlen("http://h"));
    text[7 + 253] = '\0';
    memset(text + 7, 'x', 253);
    assert_int_equal(load_url_parse(text, &url, NULL), 0);
    assert_int_equal(strlen(url.target.server_name), 253);
    text[7 + 253] = 'x';
    text[7 + 254] = '\0';
    check_bad(text, "no host");
    memset(text + 7, 'x', 600);
    text[7 + 600] = '\0';
    check_bad(text, "a host that is too long");
}

static void test_resolve(void **state)
{
    (void)state;
    struct load_url url;
    struct vt_error err = VT_ERROR_INIT;

    assert_int_equal(load_url_parse("http://[0:0::1]/", &url, NULL), 0);
    assert_int_equal(load_url_resolve(&url, NULL), 0);
    assert_string_equal(url.target.address, "::1");
    assert_int_equal(load_url_parse("http://127.0.0.1/", &url, NULL), 0);
    assert_int_equal(load_url_resolve(&url, NULL), 0);
    assert_string_equal(url.target.address, "127.0.0.1");
    /* RFC 6761: never resolves. */
    assert_int_equal(load_url_parse("http://nobody.invalid/", &url, NULL), 0);
    assert_true(load_url_resolve(&url, &err) < 0);
    assert_int_equal(err.kind, VT_KIND_INFRA);
    assert_non_null(strstr(err.text, "look up nobody.invalid"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_resolve),
    };

    return cmocka_run_group_tests_name("load_url", tests, NULL, NULL);
}
