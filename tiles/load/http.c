/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/http.h"

#include <string.h>
#include <strings.h>

enum http_state {
    STATE_STATUS,
    STATE_HEADER,
    STATE_LENGTH_BODY,
    STATE_CLOSE_BODY,
    STATE_CHUNK_SIZE,
    STATE_CHUNK_DATA,
    STATE_CHUNK_END,
    STATE_TRAILER,
    STATE_DONE,
    STATE_BAD,
};

static enum http_result http_bad(struct http_reader *r, const char *why, const char **ret_why)
{
    r->state = STATE_BAD;
    r->keep = false;
    *ret_why = why;
    return HTTP_BAD;
}

/* What a new header block starts from: the first one, and the one after an interim response. */
static void http_begin_block(struct http_reader *r)
{
    r->state = STATE_STATUS;
    r->status = 0;
    r->version_minor = 0;
    r->chunked = r->framing_line = r->close_asked = r->keep_asked = r->length_set = false;
    r->length = r->left = 0;
    r->block_lines = 0;
}

void http_begin(struct http_reader *r, bool head_request)
{
    http_begin_block(r);
    r->keep = false;
    r->body_bytes = 0;
    r->head_request = head_request;
    r->nheaders = r->ninterim = 0;
    r->head_bytes = r->line_len = 0;
}

static bool is_control(unsigned char c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

/* Whether one of eight bytes is below 0x20 or is 0x7f. Subtracting 0x20 from each, or 1 from each
 * XORed with 0x7f, sets the top bit of a byte that had none only where it borrowed; the lowest byte
 * that borrows is one that is looked for. A tab is found too: the caller looks at each. */
static bool may_hold_control(const char *bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t x, del;

    memcpy(&x, bytes, sizeof x);
    del = x ^ ones * 0x7f;
    return (((x - ones * 0x20) & ~x) | ((del - ones) & ~del)) & ones * 0x80;
}

static bool has_control(const char *line, size_t len)
{
    size_t i = 0;

    while (i < len) {
        size_t n = len - i < sizeof(uint64_t) ? len - i : sizeof(uint64_t);

        if (n == sizeof(uint64_t) && !may_hold_control(line + i)) {
            i += n;
            continue;
        }
        for (size_t end = i + n; i < end; i++)
            if (is_control((unsigned char)line[i]))
                return true;
    }
    return false;
}

/* The next line without its CRLF: *line points into data, or into r->line where it came in several
 * pieces. HTTP_DONE when there is one. */
static enum http_result http_line(struct http_reader *r, const uint8_t *data, size_t len,
                                  size_t *used, const char **line, size_t *line_len,
                                  const char **why)
{
    bool chunk_line = r->state == STATE_CHUNK_SIZE || r->state == STATE_CHUNK_END;
    size_t max = chunk_line ? HTTP_CHUNK_LINE_MAX : HTTP_LINE_MAX;
    const uint8_t *lf = len > 0 ? memchr(data, '\n', len) : NULL;
    size_t n = lf ? (size_t)(lf - data) + 1 : len;

    *used = 0;
    if (r->line_len + n > max)
        return http_bad(r, "a line is too long", why);
    if (!chunk_line) {
        r->head_bytes += n;
        if (r->head_bytes > HTTP_HEAD_MAX)
            return http_bad(r, "the header is too large", why);
    }
    *used = n;
    if (lf && r->line_len == 0) {
        *line = (const char *)data;
        *line_len = n;
    } else {
        if (n > 0)
            memcpy(r->line + r->line_len, data, n);
        r->line_len += n;
        if (!lf)
            return HTTP_MORE;
        *line = r->line;
        *line_len = r->line_len;
        r->line_len = 0;
    }
    if (*line_len < 2 || (*line)[*line_len - 2] != '\r')
        return http_bad(r, "a line does not end in CRLF", why);
    *line_len -= 2;
    if (has_control(*line, *line_len))
        return http_bad(r, "a line holds a control character", why);
    return HTTP_DONE;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* RFC 9112 4: HTTP-version SP status-code SP [reason]; the last SP is often missing and harmless.
 */
static const char *http_status_line(struct http_reader *r, const char *line, size_t len)
{
    if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ')
        return "no HTTP/1 status line";
    if (line[7] != '0' && line[7] != '1')
        return "unknown HTTP version";
    r->version_minor = line[7] - '0';
    if (line[9] < '1' || line[9] > '5' || !is_digit(line[10]) || !is_digit(line[11]))
        return "bad status code";
    if (len > 12 && line[12] != ' ')
        return "bad status code";
    r->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    return NULL;
}

/* RFC 9110 5.6.2: characters of a token. */
static const bool in_token[256] = {
    ['!'] = true,         ['#'] = true,         ['$'] = true,         ['%'] = true, ['&'] = true,
    ['\''] = true,        ['*'] = true,         ['+'] = true,         ['-'] = true, ['.'] = true,
    ['^'] = true,         ['_'] = true,         ['`'] = true,         ['|'] = true, ['~'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!in_token[(unsigned char)text[i]])
            return false;
    return len > 0;
}

static bool text_is(const char *text, size_t len, const char *want)
{
    return len == strlen(want) && strncasecmp(text, want, len) == 0;
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t'))
        (*len)--;
}

/* Takes the first member off a comma-separated list; false when nothing is left. */
static bool list_next(const char **text, size_t *len, const char **member, size_t *member_len)
{
    const char *comma;

    if (*len == 0)
        return false;
    comma = memchr(*text, ',', *len);
    *member = *text;
    *member_len = comma ? (size_t)(comma - *text) : *len;
    *text += *member_len + (comma ? 1 : 0);
    *len -= *member_len + (comma ? 1 : 0);
    trim(member, member_len);
    return true;
}

/* RFC 9110 8.6: the same length said several times is one length; anything else is refused. */
static const char *http_content_length(struct http_reader *r, const char *value, size_t len)
{
    const char *member;
    size_t n;

    if (len == 0 || value[len - 1] == ',')
        return "bad content length";
    while (list_next(&value, &len, &member, &n)) {
        uint64_t length = 0;

        if (n == 0)
            return "bad content length";
        for (size_t i = 0; i < n; i++) {
            if (!is_digit(member[i]))
                return "bad content length";
            if (length > (INT64_MAX - 9) / 10)
                return "content length overflows";
            length = length * 10 + (uint64_t)(member[i] - '0');
        }
        if (r->length_set && r->length != length)
            return "two different content lengths";
        r->length_set = true;
        r->length = length;
    }
    return NULL;
}

static const char *http_header_line(struct http_reader *r, const char *line, size_t len)
{
    const char *colon, *value, *member;
    size_t value_len, n;

    if (++r->nheaders > HTTP_HEADERS_MAX)
        return "too many header lines";
    r->block_lines++;
    if (line[0] == ' ' || line[0] == '\t') { /* obs-fold: goes on with the line before */
        if (r->block_lines == 1)
            return "space before the first header";
        return r->framing_line ? "a folded framing header" : NULL;
    }
    colon = memchr(line, ':', len);
    if (!colon || !is_token(line, (size_t)(colon - line)))
        return "bad header name";
    r->framing_line = false;
    if (r->state == STATE_TRAILER)
        return NULL;
    n = (size_t)(colon - line);
    value = colon + 1;
    value_len = len - n - 1;
    trim(&value, &value_len);
    if (text_is(line, n, "content-length")) {
        r->framing_line = true;
        return http_content_length(r, value, value_len);
    }
    if (text_is(line, n, "transfer-encoding")) {
        r->framing_line = true;
        if (r->chunked || !text_is(value, value_len, "chunked"))
            return "a transfer coding other than chunked";
        r->chunked = true;
    } else if (text_is(line, n, "connection")) {
        r->framing_line = true;
        while (list_next(&value, &value_len, &member, &n)) {
            r->close_asked |= text_is(member, n, "close");
            r->keep_asked |= text_is(member, n, "keep-alive");
        }
    }
    return NULL;
}

/* The empty line after the header: how the body ends (RFC 9112 6.3). */
static const char *http_head_end(struct http_reader *r)
{
    if (r->status == 101)
        return "an upgrade that was not asked for";
    if (r->chunked && r->length_set)
        return "both a content length and chunks";
    if (r->chunked && r->version_minor == 0)
        return "chunks in an HTTP/1.0 response";
    if (r->status < 200) {
        if (++r->ninterim > HTTP_INTERIM_MAX)
            return "too many interim responses";
        http_begin_block(r);
        return NULL;
    }
    r->keep = r->version_minor == 0 ? r->keep_asked && !r->close_asked : !r->close_asked;
    if (r->head_request || r->status == 204 || r->status == 304) {
        r->state = STATE_DONE;
    } else if (r->chunked) {
        r->state = STATE_CHUNK_SIZE;
    } else if (r->length_set) {
        r->left = r->length;
        r->state = r->left > 0 ? STATE_LENGTH_BODY : STATE_DONE;
    } else {
        r->keep = false;
        r->state = STATE_CLOSE_BODY;
    }
    return NULL;
}

/* RFC 9112 7.1: 1*HEXDIG [BWS ";" extension]. Extensions are skipped, not understood. */
static const char *http_chunk_size(struct http_reader *r, const char *line, size_t len)
{
    uint64_t size = 0;
    size_t i;

    for (i = 0; i < len; i++) {
        char c = line[i];
        unsigned digit;

        if (is_digit(c))
            digit = (unsigned)(c - '0');
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        else
            break;
        if (size > (uint64_t)INT64_MAX >> 4)
            return "chunk size overflows";
        size = size << 4 | digit;
    }
    if (i == 0 || (i < len && line[i] != ';'))
        return "bad chunk size";
    r->left = size;
    r->state = size > 0 ? STATE_CHUNK_DATA : STATE_TRAILER;
    if (size == 0)
        r->block_lines = 0;
    return NULL;
}

static const char *http_take_line(struct http_reader *r, const char *line, size_t len)
{
    switch (r->state) {
    case STATE_STATUS:
        r->state = STATE_HEADER;
        return http_status_line(r, line, len);
    case STATE_HEADER:
        return len > 0 ? http_header_line(r, line, len) : http_head_end(r);
    case STATE_CHUNK_SIZE:
        return http_chunk_size(r, line, len);
    case STATE_CHUNK_END:
        r->state = STATE_CHUNK_SIZE;
        return len > 0 ? "a chunk is longer than its size" : NULL;
    default: /* STATE_TRAILER */
        if (len > 0)
            return http_header_line(r, line, len);
        r->state = STATE_DONE;
        return NULL;
    }
}

/* A piece of the body out of data; the state moves on when the last byte has been handed out. */
static enum http_result http_body(struct http_reader *r, const uint8_t *data, size_t len,
                                  size_t *used, const uint8_t **body, size_t *body_len)
{
    size_t n = len;

    if (r->state != STATE_CLOSE_BODY) {
        if (n > r->left)
            n = (size_t)r->left;
        r->left -= n;
        if (r->left == 0)
            r->state = r->state == STATE_LENGTH_BODY ? STATE_DONE : STATE_CHUNK_END;
    }
    *used += n;
    *body = data;
    *body_len = n;
    r->body_bytes += n;
    return HTTP_BODY;
}

/* --- heads seen before --- */

static bool before_head(const struct http_reader *r)
{
    return r->state == STATE_STATUS && r->head_bytes == 0;
}

static void take_known_head(struct http_reader *r, const uint8_t *data, size_t len, size_t *used)
{
    const struct http_known_head *known = &r->known;

    if (known->len == 0 || len < known->len || !before_head(r) ||
        known->head_request != r->head_request || memcmp(data, known->bytes, known->len) != 0)
        return;
    r->status = known->status;
    r->keep = known->keep;
    r->state = known->state;
    r->left = known->left;
    r->nheaders = known->nheaders; /* trailers count too */
    r->head_bytes = known->len;
    *used = known->len;
}

static void remember_head(struct http_reader *r, const uint8_t *data, size_t len)
{
    struct http_known_head *known = &r->known;

    if (len > sizeof known->bytes)
        return;
    known->len = len;
    known->head_request = r->head_request;
    known->keep = r->keep;
    known->status = r->status;
    known->state = r->state;
    known->nheaders = r->nheaders;
    known->left = r->left;
    memcpy(known->bytes, data, len);
}

enum http_result http_read(struct http_reader *r, const uint8_t *data, size_t len, size_t *ret_used,
                           const uint8_t **ret_body, size_t *ret_body_len, const char **ret_why)
{
    bool in_head; /* one that begins with data and is read line by line */

    *ret_used = 0;
    take_known_head(r, data, len, ret_used);
    in_head = before_head(r);
    while (r->state != STATE_DONE) {
        const char *line, *why;
        size_t line_len, n;
        enum http_result result;

        if (r->state == STATE_BAD)
            return http_bad(r, "the stream was refused before", ret_why);
        if (*ret_used == len)
            return HTTP_MORE;
        if (r->state == STATE_LENGTH_BODY || r->state == STATE_CLOSE_BODY ||
            r->state == STATE_CHUNK_DATA)
            return http_body(r, data + *ret_used, len - *ret_used, ret_used, ret_body,
                             ret_body_len);
        result = http_line(r, data + *ret_used, len - *ret_used, &n, &line, &line_len, ret_why);
        *ret_used += n;
        if (result != HTTP_DONE)
            return result;
        why = http_take_line(r, line, line_len);
        if (why)
            return http_bad(r, why, ret_why);
        if (in_head && r->state != STATE_STATUS && r->state != STATE_HEADER) {
            remember_head(r, data, *ret_used);
            in_head = false;
        }
    }
    return HTTP_DONE;
}

enum http_result http_eof(struct http_reader *r, bool truncated, const char **ret_why)
{
    if (r->state == STATE_DONE)
        return HTTP_DONE;
    if (r->state != STATE_CLOSE_BODY)
        return http_bad(r, "the connection ended within the response", ret_why);
    if (truncated)
        return http_bad(r, "TLS ended without close_notify within a body that lasts until close",
                        ret_why);
    r->state = STATE_DONE;
    return HTTP_DONE;
}
