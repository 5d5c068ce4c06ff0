/* SPDX-License-Identifier: Apache-2.0 */
#include "markup.h"

#include <stdbool.h>
#include <string.h>

#include "sample.h"

#include "base/scope.h"

#define DEPTH_MAX 64

static const char *const elements[] = {
    "html", "head",    "meta",    "title", "style", "body",  "header", "section",   "div",
    "p",    "h1",      "h2",      "h3",    "ul",    "ol",    "li",     "b",         "span",
    "code", "small",   "a",       "pre",   "table", "thead", "tbody",  "tr",        "th",
    "td",   "details", "summary", "svg",   "path",  "rect",  "figure", "figcaption"};
static const char *const attributes[] = {
    "lang",       "charset",     "name",  "content", "http-equiv", "class",  "id",
    "href",       "style",       "scope", "open",    "viewBox",    "role",   "d",
    "aria-label", "aria-hidden", "x",     "y",       "width",      "height", "preserveAspectRatio"};

static bool is_one(const char *const *known, size_t n, const char *at, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(known[i]) == len && !memcmp(known[i], at, len))
            return true;
    }
    return false;
}

static void check_value(const char *name, size_t name_len, const char *value, size_t len)
{
    bool href = name_len == 4 && !memcmp(name, "href", 4);
    bool style = name_len == 5 && !memcmp(name, "style", 5);

    assert_null(memchr(value, '<', len));
    if (href)
        assert_int_equal(*value, '#');
    for (size_t i = 0; style && i < len; i++)
        assert_non_null(strchr("abcdefghijklmnopqrstuvwxyz0123456789.:;%-", value[i]));
}

/* Up to the first of those bytes, which must come before end. Functions of whole strings would look
 * at all of a large report for each of its elements where a sanitizer checks their arguments. */
static size_t length_until(const char *at, const char *end, const char *stops, size_t nstops)
{
    size_t len = 0;

    while (at + len < end && !memchr(stops, at[len], nstops))
        len++;
    assert_true(at + len < end);
    return len;
}

/* at is behind the element's name; returns behind '>'. *ret_closed: "/>". */
static const char *check_attributes(const char *at, const char *end, bool *ret_closed)
{
    *ret_closed = false;
    while (*at == ' ') {
        size_t name_len = length_until(++at, end, "=> /", 4);
        const char *name = at;
        if (!is_one(attributes, VT_COUNT(attributes), name, name_len))
            fail_msg("attribute %.*s", (int)name_len, name);
        at += name_len;
        if (*at != '=')
            continue;
        assert_int_equal(at[1], '"');
        at += 2;
        size_t len = length_until(at, end, "\"", 1);
        check_value(name, name_len, at, len);
        at += len + 1;
    }
    if (*at == '/') {
        *ret_closed = true;
        at++;
    }
    assert_int_equal(*at, '>');
    return at + 1;
}

static size_t name_length(const char *at)
{
    size_t len = 0;

    while ((at[len] >= 'a' && at[len] <= 'z') || (at[len] >= '1' && at[len] <= '3'))
        len++;
    return len;
}

void assert_markup(const struct vt_buf *html)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    struct {
        const char *name;
        size_t len;
    } open[DEPTH_MAX] = {{0}};
    const char *at = html->data, *const html_end = html->data + html->len;
    size_t depth = 0;

    assert_int_equal(strlen(html->data), html->len);
    assert_int_equal(strncmp(at, doctype, strlen(doctype)), 0);
    at += strlen(doctype);
    while ((at = memchr(at, '<', (size_t)(html_end - at)))) {
        bool end = at[1] == '/', closed;
        const char *name = at + 1 + end;
        size_t len = name_length(name);
        if (!is_one(elements, VT_COUNT(elements), name, len))
            fail_msg("element %.40s", at);
        at = name + len;
        if (end) {
            assert_int_equal(*at++, '>');
            assert_true(depth > 0);
            depth--;
            if (!open[depth].name || open[depth].len != len ||
                memcmp(open[depth].name, name, len) != 0)
                fail_msg("</%.*s> closes <%.*s>", (int)len, name, (int)open[depth].len,
                         open[depth].name);
            continue;
        }
        at = check_attributes(at, html_end, &closed);
        if (closed || (len == 4 && !memcmp(name, "meta", 4)))
            continue;
        assert_true(depth < DEPTH_MAX);
        open[depth].name = name;
        open[depth++].len = len;
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(html->data, "url("));
    assert_null(strstr(html->data, "@import"));
    assert_null(strstr(html->data, "=\"http"));
}
