/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of `vtile load`: what it asks, and which answers are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "tiles/load/get.h"

static const struct get_page page = {.host = "[::1]:8080", .path = "/a?b=%20c"};

static void test_request(void **state)
{
    (void)state;
    const struct driver_target target = {.context = &page};
    const struct driver_step step = {.sequence = 7};
    VT_AUTO_FREE void *conn = calloc(1, get_http.conn_bytes);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536);

    get_http.conn_init(conn, &target);
    get_http.request(conn, &step, &out);
    assert_string_equal(out.data, "GET /a?b=%20c HTTP/1.1\r\nHost: [::1]:8080\r\n"
                                  "User-Agent: vtile\r\n\r\n");
    get_http.conn_fini(conn);
    assert_false(get_http.tls);
    assert_int_equal(get_http.port, 80);
    assert_true(get_https.tls);
    assert_int_equal(get_https.port, 443);
}

/* As long as a URL may be: the same request, each time. */
static void test_long_request(void **state)
{
    (void)state;
    VT_AUTO_FREE struct get_page *long_page = calloc(1, sizeof *long_page);
    const struct driver_target target = {.context = long_page};
    const struct driver_step step = {0};
    VT_AUTO_FREE void *conn = calloc(1, get_http.conn_bytes);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536), want = VT_BUF_INIT(65536);

    vt_text_copy(long_page->host, sizeof long_page->host, "web.test");
    for (size_t len = 400; len < GET_TEXT_MAX; len++) {
        memset(long_page->path, 'x', len);
        long_page->path[0] = '/';
        vt_buf_reset(&want);
        vt_buf_printf(&want, "GET %s HTTP/1.1\r\nHost: web.test\r\nUser-Agent: vtile\r\n\r\n",
                      long_page->path);
        get_http.conn_init(conn, &target);
        for (int i = 0; i < 2; i++) {
            vt_buf_reset(&out);
            get_http.request(conn, &step, &out);
            assert_string_equal(out.data, want.data);
        }
        get_http.conn_fini(conn);
        if (len == 600)
            len = GET_TEXT_MAX - 2;
    }
}

static void check_answer(const char *answer, enum driver_verdict want, const char *want_why)
{
    const struct driver_target target = {.context = &page};
    const struct driver_step step = {0};
    VT_AUTO_FREE void *conn = calloc(1, get_http.conn_bytes);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(65536);
    const char *why = NULL;
    size_t used;

    get_http.conn_init(conn, &target);
    get_http.request(conn, &step, &out);
    assert_int_equal(
        get_http.on_bytes(conn, (const uint8_t *)answer, strlen(answer), &used, &out, &why), want);
    if (want_why)
        assert_string_equal(why, want_why);
    get_http.conn_fini(conn);
}

/* RFC 9110 15: redirections are answers of a server that does what it should. */
static void test_answers(void **state)
{
    (void)state;
    check_answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", DRIVER_DONE, NULL);
    check_answer("HTTP/1.1 204 No Content\r\n\r\n", DRIVER_DONE, NULL);
    check_answer("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                 DRIVER_DONE, NULL);
    check_answer("HTTP/1.1 399 ?\r\nContent-Length: 0\r\n\r\n", DRIVER_DONE, NULL);
    check_answer("HTTP/1.1 400 ?\r\nContent-Length: 0\r\n\r\n", DRIVER_WRONG, "the status is 400");
    check_answer("HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx", DRIVER_WRONG,
                 "the status is 404");
    check_answer("HTTP/1.1 599 ?\r\nContent-Length: 0\r\n\r\n", DRIVER_WRONG, "the status is 599");
    check_answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh", DRIVER_MORE, NULL);
    check_answer("HTTP/2 200\r\n\r\n", DRIVER_BAD, "no HTTP/1 status line");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_request),
                                       cmocka_unit_test(test_long_request),
                                       cmocka_unit_test(test_answers)};

    return cmocka_run_group_tests_name("get", tests, NULL, NULL);
}
