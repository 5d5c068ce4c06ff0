/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP reader against the public case set (expectations written beside it), each response also
 * cut at every byte, and against bounds that no file can show. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "tests/unit/cases.h"
#include "tests/unit/tiles/case_file.h"
#include "tiles/load/http.h"

#define RESPONSES_MAX 8

struct reading {
    struct {
        int status;
        uint64_t body_bytes;
        bool keep;
        char body[32];
    } responses[RESPONSES_MAX];
    unsigned n;
    const char *why; /* of a refusal, else NULL */
    size_t used;
    bool eof_done;
};

struct feeder {
    struct http_reader reader;
    const bool *heads; /* per request: HEAD */
    unsigned nrequests;
    struct reading out;
    bool in_response;
};

static void feeder_begin(struct feeder *f)
{
    f->in_response = f->out.n < f->nrequests;
    if (f->in_response)
        http_begin(&f->reader, f->heads[f->out.n]);
}

static void feeder_done(struct feeder *f)
{
    unsigned n = f->out.n++;

    f->out.responses[n].status = f->reader.status;
    f->out.responses[n].body_bytes = f->reader.body_bytes;
    f->out.responses[n].keep = f->reader.keep;
    if (f->reader.keep)
        feeder_begin(f);
    else
        f->in_response = false;
}

/* Takes bytes as a connection would: stops where no answer is awaited. */
static void feed(struct feeder *f, const uint8_t *data, size_t len)
{
    size_t at = 0;

    while (f->in_response && !f->out.why) {
        size_t used = 99, body_len = 0;
        const uint8_t *body = NULL;
        const char *why = NULL;
        enum http_result result;

        result = http_read(&f->reader, data + at, len - at, &used, &body, &body_len, &why);
        assert_true(used <= len - at);
        at += used;
        f->out.used += used;
        if (result == HTTP_BODY) {
            char *into = f->out.responses[f->out.n].body;
            size_t have = strlen(into);

            assert_true(body_len > 0 && body >= data && body + body_len <= data + at);
            if (have + body_len < sizeof f->out.responses[0].body)
                memcpy(into + have, body, body_len);
        } else if (result == HTTP_DONE) {
            feeder_done(f);
        } else if (result == HTTP_BAD) {
            assert_non_null(why);
            f->out.why = why;
        } else {
            assert_int_equal(at, len);
            return;
        }
    }
}

static void read_cut(const uint8_t *data, size_t len, size_t cut, const bool *heads,
                     unsigned nrequests, bool eof, bool truncated, struct reading *ret)
{
    VT_AUTO_FREE struct feeder *f = calloc(1, sizeof *f);
    /* Copies of their exact size, so that a sanitizer sees a read past the segment. */
    VT_AUTO_FREE uint8_t *first = malloc(cut > 0 ? cut : 1);
    VT_AUTO_FREE uint8_t *second = malloc(len - cut > 0 ? len - cut : 1);

    assert_true(f && first && second);
    memcpy(first, data, cut);
    memcpy(second, data + cut, len - cut);
    f->heads = heads;
    f->nrequests = nrequests;
    feeder_begin(f);
    feed(f, first, cut);
    feed(f, second, len - cut);
    if (eof && f->in_response && !f->out.why) {
        if (http_eof(&f->reader, truncated, &f->out.why) == HTTP_DONE) {
            f->out.eof_done = true;
            feeder_done(f);
        }
    }
    *ret = f->out;
}

static void check_case(const char *name, json_t *expect, const uint8_t *data, size_t len,
                       size_t cut)
{
    bool heads[RESPONSES_MAX] = {false};
    json_t *requests = json_object_get(expect, "requests");
    json_t *responses = json_object_get(expect, "responses");
    unsigned nrequests = (unsigned)json_array_size(requests);
    struct reading reading;

    assert_in_range(nrequests, 1, RESPONSES_MAX);
    for (unsigned i = 0; i < nrequests; i++)
        heads[i] = strcmp(json_string_value(json_array_get(requests, i)), "HEAD") == 0;
    read_cut(data, len, cut, heads, nrequests, json_object_get(expect, "end") != NULL, false,
             &reading);
    if (json_object_get(expect, "error")) {
        if (!reading.why || reading.n != 0)
            fail_msg("%s cut at %zu: not refused", name, cut);
        return;
    }
    if (reading.why)
        fail_msg("%s cut at %zu: refused: %s", name, cut, reading.why);
    if (reading.n != json_array_size(responses))
        fail_msg("%s cut at %zu: %u responses", name, cut, reading.n);
    for (unsigned i = 0; i < reading.n; i++) {
        json_t *one = json_array_get(responses, i);
        json_int_t bytes = json_integer_value(json_array_get(one, 1));

        assert_int_equal(reading.responses[i].status, json_integer_value(json_array_get(one, 0)));
        assert_int_equal(reading.responses[i].body_bytes, bytes);
        assert_string_equal(reading.responses[i].body, bytes > 0 ? "hello" : "");
    }
    if (json_object_get(expect, "reusable"))
        assert_int_equal(reading.responses[reading.n - 1].keep,
                         json_is_true(json_object_get(expect, "reusable")));
    if (json_object_get(expect, "error_after")) /* bytes are left that no request asked for */
        assert_true(reading.used < len);
    else if (reading.responses[reading.n - 1].keep)
        assert_int_equal(reading.used, len);
}

static void test_cases_at_every_cut(void **state)
{
    (void)state;
    json_error_t problem;
    char path[512];
    json_t *cases, *expect;
    const char *name;
    unsigned n = 0;

    if (!cases_path(path, sizeof path, "own/open/http/expect.json"))
        skip();
    cases = json_load_file(path, 0, &problem);
    assert_non_null(cases);
    json_object_foreach(cases, name, expect) {
        char file[128];
        VT_AUTO_FREE uint8_t *data = NULL;
        size_t len, step;

        snprintf(file, sizeof file, "own/open/http/%s.raw", name);
        data = case_file_read(file, &len);
        check_case(name, expect, data, len, 0);
        /* The floods repeat one line of at most 27 bytes: their first 8 KiB hold every kind of
         * cut that is in the rest, and copying 1.2 MB a million times shows nothing more. */
        for (size_t cut = 1; cut < len; cut += step) {
            check_case(name, expect, data, len, cut);
            step = len > 10000 ? (cut < 8192 ? 61 : len / 64) : 1;
        }
        n++;
    }
    assert_int_equal(n, 24);
    json_decref(cases);
}

struct refusal {
    const char *text;
    const char *why;
};

/* RFC 9112 and 9110 name each of these as malformed or as a way to split messages. */
static void test_refusals(void **state)
{
    (void)state;
#define OK "HTTP/1.1 200 OK\r\n"
    static const struct refusal refusals[] = {
        {"HTTP/2.0 200 OK\r\n", "no HTTP/1 status line"},
        {"HTTP/1.2 200 OK\r\n", "unknown HTTP version"},
        {"HTTP/1.1 600 OK\r\n", "bad status code"},
        {"HTTP/1.1 2000 OK\r\n", "bad status code"},
        {"ICY 200 OK\r\n\r\n", "no HTTP/1 status line"},
        {"HTTP/1.1 200 OK\n\n", "a line does not end in CRLF"},
        {OK "A\r: b\r\n", "a line holds a control character"},
        {OK "Content-Length : 5\r\n", "bad header name"},
        {OK ": 5\r\n", "bad header name"},
        {OK "no colon\r\n", "bad header name"},
        {OK " A: b\r\n", "space before the first header"},
        {OK "Content-Length: 1\r\n 0\r\n", "a folded framing header"},
        {OK "Transfer-Encoding: chunked\r\n\t, gzip\r\n", "a folded framing header"},
        {OK "Content-Length:\r\n", "bad content length"},
        {OK "Content-Length: 5,\r\n", "bad content length"},
        {OK "Content-Length: 5, 6\r\n", "two different content lengths"},
        {OK "Content-Length: 0x5\r\n", "bad content length"},
        {OK "Content-Length: -5\r\n", "bad content length"},
        {OK "Content-Length: 9223372036854775808\r\n", "content length overflows"},
        {OK "Transfer-Encoding: gzip, chunked\r\n", "a transfer coding other than chunked"},
        {OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
         "a transfer coding other than chunked"},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "chunks in an HTTP/1.0 response"},
        {OK "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
         "both a content length and chunks"},
        {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "an upgrade that was not asked for"},
        {OK "Transfer-Encoding: chunked\r\n\r\n\r\n", "bad chunk size"},
        {OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "bad chunk size"},
        {OK "Transfer-Encoding: chunked\r\n\r\n1 2\r\n", "bad chunk size"},
        {OK "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", "chunk size overflows"},
        {OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "a chunk is longer than its size"},
        {OK "Transfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n", "bad header name"},
    };

    for (size_t i = 0; i < VT_COUNT(refusals); i++) {
        static const bool head = false;
        size_t len = strlen(refusals[i].text);

        for (size_t cut = 0; cut < len; cut++) {
            struct reading reading;

            read_cut((const uint8_t *)refusals[i].text, len, cut, &head, 1, false, false, &reading);
            if (!reading.why)
                fail_msg("not refused: %s", refusals[i].text);
            assert_string_equal(reading.why, refusals[i].why);
        }
    }
}

static struct reading read_text(const char *text, size_t len, bool eof, bool truncated)
{
    static const bool head = false;
    struct reading reading;

    read_cut((const uint8_t *)text, len, len / 2, &head, 1, eof, truncated, &reading);
    return reading;
}

static struct reading read_buf(const struct vt_buf *buf)
{
    assert_false(buf->failed);
    return read_text(buf->data, buf->len, false, false);
}

/* Each bound: exactly it is read, one more is refused. */
static void test_bounds(void **state)
{
    (void)state;
    VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(1 << 20);
    struct reading reading;

    for (int more = 0; more < 2; more++) {
        vt_buf_reset(&buf);
        vt_buf_printf(&buf, OK "Content-Length: 0\r\nA:%0*d\r\n\r\n", HTTP_LINE_MAX - 4 + more, 0);
        reading = read_buf(&buf);
        assert_int_equal(reading.n, more ? 0 : 1);
        if (more)
            assert_string_equal(reading.why, "a line is too long");
    }
    for (int more = 0; more < 2; more++) {
        vt_buf_reset(&buf);
        vt_buf_adds(&buf, OK "Content-Length: 0\r\n");
        for (int i = 1; i < HTTP_HEADERS_MAX + more; i++)
            vt_buf_adds(&buf, "A:\r\n");
        vt_buf_adds(&buf, "\r\n");
        reading = read_buf(&buf);
        assert_int_equal(reading.n, more ? 0 : 1);
        if (more)
            assert_string_equal(reading.why, "too many header lines");
    }
    for (int more = 0; more < 2; more++) {
        vt_buf_reset(&buf);
        for (int i = 0; i < HTTP_INTERIM_MAX + more; i++)
            vt_buf_adds(&buf, "HTTP/1.1 103 Early Hints\r\n\r\n");
        vt_buf_adds(&buf, OK "Content-Length: 0\r\n\r\n");
        reading = read_buf(&buf);
        assert_int_equal(reading.n, more ? 0 : 1);
        if (more)
            assert_string_equal(reading.why, "too many interim responses");
    }
    vt_buf_reset(&buf);
    vt_buf_adds(&buf, OK);
    for (int i = 0; i < 9; i++)
        vt_buf_printf(&buf, "A:%0*d\r\n", 8000, 0);
    reading = read_buf(&buf);
    assert_string_equal(reading.why, "the header is too large");
}

/* RFC 9110 5.5 and 5.6.2: which bytes may stand in a value, and which in a name, wherever in a line
 * they stand. */
static void test_bytes_of_lines(void **state)
{
    (void)state;
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (int c = 0; c < 256; c++) {
        for (size_t at = 0; at < 20; at++) {
            char value[] = OK "Content-Length: 0\r\nX: 01234567890123456789\r\n\r\n";
            char name[] = OK "Content-Length: 0\r\nabcdefghijklmnopqrst: x\r\n\r\n";
            bool control = (c < 0x20 && c != '\t') || c == 0x7f;

            if (c == '\n' || c == ':') /* another line, another name */
                continue;
            strstr(value, "0123456789012")[at] = (char)c;
            strstr(name, "abcdefgh")[at] = (char)c;
            struct reading reading = read_text(value, sizeof value - 1, false, false);
            assert_int_equal(reading.why != NULL, control);
            reading = read_text(name, sizeof name - 1, false, false);
            if (at == 0 && (c == ' ' || c == '\t')) /* goes on with the framing header before */
                assert_string_equal(reading.why, "a folded framing header");
            else
                assert_int_equal(reading.why == NULL, c != 0 && strchr(token, c) != NULL);
        }
    }
}

/* A server's second answer has the head of its first: it must be read to the same end, however the
 * bytes come, and not where the question was another one. */
static void test_heads_seen_before(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        bool heads[2];
        int status[2];
        unsigned bytes[2];
        bool keep;
    } cases[] = {
        {OK "Content-Length: 5\r\n\r\nhello", NULL, {0}, {200, 200}, {5, 5}, true},
        {OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
         NULL,
         {0},
         {200, 200},
         {5, 5},
         true},
        {"HTTP/1.1 204 No Content\r\n\r\n", NULL, {0}, {204, 204}, {0, 0}, true},
        {"HTTP/1.1 103 Early Hints\r\n\r\n" OK "Content-Length: 5\r\n\r\nhello",
         NULL,
         {0},
         {200, 200},
         {5, 5},
         true},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
         NULL,
         {0},
         {200, 200},
         {0, 0},
         true},
        /* the same head, asked for by HEAD first, and the other way round */
        {OK "Content-Length: 5\r\n\r\n",
         OK "Content-Length: 5\r\n\r\nhello",
         {true, false},
         {200, 200},
         {0, 5},
         true},
        {OK "Content-Length: 5\r\n\r\nhello",
         OK "Content-Length: 5\r\n\r\n",
         {false, true},
         {200, 200},
         {5, 0},
         true},
        /* one that begins like the first */
        {OK "Content-Length: 0\r\n\r\n",
         OK "Content-Length: 0\r\nConnection: close\r\n\r\n",
         {0},
         {200, 200},
         {0, 0},
         false},
        {OK "Content-Length: 5\r\n\r\nhello",
         "HTTP/1.1 404 OK\r\nContent-Length: 5\r\n\r\nhello",
         {0},
         {200, 404},
         {5, 5},
         true},
    };

    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(1 << 16);

        vt_buf_adds(&buf, cases[i].first);
        vt_buf_adds(&buf, cases[i].second ? cases[i].second : cases[i].first);
        for (size_t cut = 0; cut < buf.len; cut++) {
            struct reading reading;

            read_cut((const uint8_t *)buf.data, buf.len, cut, cases[i].heads, 2, false, false,
                     &reading);
            assert_null(reading.why);
            assert_int_equal(reading.n, 2);
            assert_int_equal(reading.used, buf.len);
            for (int k = 0; k < 2; k++) {
                assert_int_equal(reading.responses[k].status, cases[i].status[k]);
                assert_int_equal(reading.responses[k].body_bytes, cases[i].bytes[k]);
                assert_string_equal(reading.responses[k].body, cases[i].bytes[k] ? "hello" : "");
            }
            assert_int_equal(reading.responses[1].keep, cases[i].keep);
        }
    }
}

/* What follows a known head is read anew each time: it is no part of a head. */
static void test_trailers_after_known_heads(void **state)
{
    static const char text[] = OK "Transfer-Encoding: chunked\r\n\r\n0;a=b\r\nA: b\r\n c\r\n\r\n";
    static struct http_reader reader;

    (void)state;
    for (int i = 0; i < 8; i++) {
        size_t used = 0, body_len = 0;
        const uint8_t *body = NULL;
        const char *why = NULL;

        http_begin(&reader, false);
        assert_int_equal(
            http_read(&reader, (const uint8_t *)text, strlen(text), &used, &body, &body_len, &why),
            HTTP_DONE);
        assert_int_equal(used, strlen(text));
        assert_true(reader.keep);
    }
}

/* The longest head that is remembered and one byte more; the bounds count it as before. */
static void test_long_heads_seen_before(void **state)
{
    (void)state;
    static const bool heads[3] = {false};

    for (int more = 0; more < 2; more++) {
        VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(1 << 16);
        const int rest = (int)strlen(OK "Content-Length: 5\r\nA:\r\n\r\n");
        struct reading reading;

        for (int k = 0; k < 3; k++)
            vt_buf_printf(&buf, OK "Content-Length: 5\r\nA:%0*d\r\n\r\nhello",
                          HTTP_KNOWN_MAX - rest + more, 0);
        read_cut((const uint8_t *)buf.data, buf.len, 0, heads, 3, false, false, &reading);
        assert_null(reading.why);
        assert_int_equal(reading.n, 3);
        assert_int_equal(reading.responses[2].body_bytes, 5);
    }
    for (int more = 0; more < 2; more++) {
        VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(1 << 16);
        struct reading reading;

        for (int k = 0; k < 2; k++) {
            vt_buf_adds(&buf, OK "Transfer-Encoding: chunked\r\n\r\n0\r\n");
            for (int i = 1; i < HTTP_HEADERS_MAX + more * k; i++)
                vt_buf_adds(&buf, "A:\r\n");
            vt_buf_adds(&buf, "\r\n");
        }
        read_cut((const uint8_t *)buf.data, buf.len, 0, heads, 2, false, false, &reading);
        assert_int_equal(reading.n, more ? 1 : 2);
        if (more)
            assert_string_equal(reading.why, "too many header lines");
    }
}

/* Many chunks are body, not header: only the size line of each is bounded. */
static void test_many_chunks(void **state)
{
    (void)state;
    VT_AUTO_BUF struct vt_buf buf = VT_BUF_INIT(1 << 20);
    struct reading reading;

    vt_buf_adds(&buf, OK "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20000; i++)
        vt_buf_adds(&buf, "1;e=f\r\nx\r\n");
    vt_buf_adds(&buf, "0\r\n\r\n");
    reading = read_buf(&buf);
    assert_null(reading.why);
    assert_int_equal(reading.responses[0].body_bytes, 20000);
}

/* RFC 9112 9.8: without close_notify a body that lasts until close may be cut; one that is whole
 * by its own framing is whole. */
static void test_end_of_stream(void **state)
{
    (void)state;
    static const char until_close[] = OK "\r\nhello";
    static const char whole[] = OK "Content-Length: 5\r\n\r\nhello";
    struct reading reading;

    reading = read_text(until_close, strlen(until_close), true, false);
    assert_int_equal(reading.n, 1);
    assert_false(reading.responses[0].keep);
    reading = read_text(until_close, strlen(until_close), true, true);
    assert_int_equal(reading.n, 0);
    assert_non_null(reading.why);
    reading = read_text(whole, strlen(whole), true, true);
    assert_int_equal(reading.n, 1);
    assert_false(reading.eof_done);
    reading = read_text(whole, strlen(whole) - 1, true, false);
    assert_int_equal(reading.n, 0);
    reading = read_text("", 0, true, false);
    assert_int_equal(reading.n, 0);
    assert_non_null(reading.why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_at_every_cut),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_bytes_of_lines),
        cmocka_unit_test(test_heads_seen_before),
        cmocka_unit_test(test_trailers_after_known_heads),
        cmocka_unit_test(test_long_heads_seen_before),
        cmocka_unit_test(test_many_chunks),
        cmocka_unit_test(test_end_of_stream),
    };

    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
