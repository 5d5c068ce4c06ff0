/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breadth: the response half of llhttp's conformance set (Markdown: a response, and the events its
 * parser reported). Used are all blocks of type "response"; those of lenient modes, pauses,
 * skipBody and finish test switches that this reader does not have. Compared are whether the
 * stream was refused, else the status of each final response and the bytes of all bodies. Where
 * the two differ on purpose the block's heading stands below with the reason; a heading that does
 * not differ fails too.
 */
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

#define MESSAGES_MAX 8

static const struct {
    const char *heading, *reason;
} differs[] = {
    {"RTSP response", "another protocol"},
    {"ICE response", "another protocol"},
    {"HTTP version 0.9", "only 1.0 and 1.1"},
    /* RFC 9112 2.2 lets empty lines pass before requests alone. */
    {"Response starting with CRLF", "an empty line before a response"},
    {"HTTP 304 with Content-Length", "an empty line before the next response"},
    {"HTTP 100 first, then 400", "an empty line before the next response"},
    {"Should parse multiple events", "an empty line before the next response"},
    {"Invalid space after start line", "a line is judged once it has ended"},
    /* llhttp reads on until close, which RFC 9112 6.3 allows; no server of ours sends that. */
    {"`chunked` before other transfer-encoding", "no coding but chunked"},
    {"multiple transfer-encoding where chunked is not the last one", "no coding but chunked"},
    {"`chunkedchunked` transfer-encoding does not enable chunked enconding",
     "no coding but chunked"},
    /* Neither can move the end of the line: quoted strings hold no CRLF. */
    {"No extension after semicolon", "extensions are skipped, not understood"},
    {"Unbalanced chunk extensions quoting", "extensions are skipped, not understood"},
};
static bool differed[VT_COUNT(differs)];
static unsigned surprises;

struct outcome {
    int status[MESSAGES_MAX];
    unsigned n;
    uint64_t body_bytes;
    bool refused;
};

/* Line ends and escapes as the set's own runner reads them. */
static void unescape(const char *text, size_t len, struct vt_buf *out)
{
    if (len > 0 && text[len - 1] == '\n')
        len--;
    for (size_t i = 0; i < len; i++) {
        char next = text[i] == '\\' && i + 1 < len ? text[i + 1] : 0;

        if (next == '\n') {
            i++;
        } else if (next == 'r' || next == 'n' || next == 't') {
            vt_buf_adds(out, next == 'r' ? "\r" : next == 'n' ? "\n" : "\t");
            i++;
        } else if (text[i] == '\n') {
            vt_buf_adds(out, "\r\n");
        } else {
            vt_buf_add(out, text + i, 1);
        }
    }
}

/* What llhttp reported. Interim responses are messages of their own there, and not here. */
static struct outcome read_log(const char *log, size_t len)
{
    VT_AUTO_FREE char *copy = strndup(log, len);
    struct outcome o = {0};
    int status = 0;
    char *save = NULL;

    assert_non_null(copy);
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *event = strchr(line, ' ');
        unsigned n;

        if (!event)
            continue;
        if (sscanf(event, " headers complete status=%d", &status) == 1) {
            o.refused |= status == 101; /* llhttp pauses there and lets its user decide */
        } else if (strncmp(event, " message complete", 17) == 0 && status >= 200) {
            assert_in_range(o.n, 0, MESSAGES_MAX - 1);
            o.status[o.n++] = status;
        } else if (strstr(event, "span[body]") && sscanf(event, " len=%u", &n) == 1) {
            o.body_bytes += n;
        } else if (sscanf(event, " error code=%u", &n) == 1) {
            /* 5: bytes after a response that ends its connection, where this reader stops. */
            o.refused |= n != 5;
        }
    }
    return o;
}

static struct outcome read_bytes(const char *data, size_t len, size_t piece)
{
    VT_AUTO_FREE struct http_reader *reader = calloc(1, sizeof *reader);
    struct outcome o = {0};
    size_t at = 0, end = 0;

    assert_non_null(reader);
    http_begin(reader, false);
    for (;;) {
        size_t used = 0, body_len = 0;
        const uint8_t *body;
        const char *why;

        switch (http_read(reader, (const uint8_t *)data + at, end - at, &used, &body, &body_len,
                          &why)) {
        case HTTP_MORE:
            if (end == len)
                return o;
            end = end + piece < len ? end + piece : len;
            break;
        case HTTP_BODY:
            o.body_bytes += body_len;
            break;
        case HTTP_DONE:
            assert_in_range(o.n, 0, MESSAGES_MAX - 1);
            o.status[o.n++] = reader->status;
            if (!reader->keep)
                return o;
            http_begin(reader, false);
            break;
        case HTTP_BAD:
            o.refused = true;
            return o;
        }
        at += used;
    }
}

static bool same(const struct outcome *a, const struct outcome *b)
{
    if (a->refused || b->refused)
        return a->refused == b->refused;
    return a->n == b->n && a->body_bytes == b->body_bytes &&
           memcmp(a->status, b->status, sizeof a->status) == 0;
}

static void check_block(const char *file, const char *heading, const char *text, size_t text_len,
                        const char *log, size_t log_len)
{
    VT_AUTO_BUF struct vt_buf input = VT_BUF_INIT(1 << 16);
    struct outcome want = read_log(log, log_len);

    unescape(text, text_len, &input);
    assert_false(input.failed);
    for (size_t piece = 1; piece <= input.len; piece = piece == 1 ? input.len : input.len + 1) {
        struct outcome got = read_bytes(input.data, input.len, piece);
        size_t i = 0;

        if (same(&got, &want))
            continue;
        while (i < VT_COUNT(differs) && strcmp(differs[i].heading, heading) != 0)
            i++;
        if (i < VT_COUNT(differs)) {
            differed[i] = true;
            continue;
        }
        surprises++;
        print_message(
            "%s: %s, in pieces of %zu: %u responses, %zu body bytes, %s; wanted %u, %zu, %s\n",
            file, heading, piece, got.n, (size_t)got.body_bytes, got.refused ? "refused" : "taken",
            want.n, (size_t)want.body_bytes, want.refused ? "refused" : "taken");
    }
}

/* The fenced block after *at that begins with fence; moves *at behind it. */
static const char *block(const char **at, const char *fence, size_t *ret_len)
{
    const char *begin = strstr(*at, fence), *end;

    assert_non_null(begin);
    begin += strlen(fence);
    end = strstr(begin, "\n```");
    assert_non_null(end);
    *ret_len = (size_t)(end + 1 - begin);
    *at = end + 4;
    return begin;
}

static unsigned check_file(const char *file)
{
    VT_AUTO_FREE char *text = NULL;
    char path[128], heading[128] = "";
    size_t len, text_len, log_len;
    unsigned n = 0;

    snprintf(path, sizeof path, "http/llhttp/test/response/%s", file);
    text = (char *)case_file_read(path, &len);
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        const char *input, *log;

        if (*at == '#')
            snprintf(heading, sizeof heading, "%.*s", (int)strcspn(at + strspn(at, "# "), "\n"),
                     at + strspn(at, "# "));
        if (strncmp(at, "<!-- meta={", 11) != 0)
            continue;
        if (strncmp(at, "<!-- meta={\"type\": \"response\"", 29) != 0 ||
            memmem(at, strcspn(at, "\n"), "pause", 5) ||
            memmem(at, strcspn(at, "\n"), "skipBody", 8))
            continue;
        input = block(&at, "```http\n", &text_len);
        log = block(&at, "```log\n", &log_len);
        check_block(file, heading, input, text_len, log, log_len);
        n++;
    }
    return n;
}

static void test_llhttp(void **state)
{
    (void)state;
    static const char *const files[] = {
        "connection.md", "content-length.md", "invalid.md",           "pipelining.md",
        "sample.md",     "finish.md",         "transfer-encoding.md",
    };
    char path[512];
    unsigned n = 0;

    if (!cases_path(path, sizeof path, "http/llhttp/test/response/sample.md"))
        skip();
    for (size_t i = 0; i < VT_COUNT(files); i++)
        n += check_file(files[i]);
    for (size_t i = 0; i < VT_COUNT(differs); i++)
        if (!differed[i])
            fail_msg("%s no longer differs", differs[i].heading);
    print_message("%u blocks, %zu of them differ on purpose\n", n, VT_COUNT(differs));
    assert_int_equal(surprises, 0);
    assert_in_range(n, 50, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llhttp),
    };

    return cmocka_run_group_tests_name("http_llhttp", tests, NULL, NULL);
}
