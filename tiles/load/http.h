/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http: reads HTTP/1.1 responses (RFC 9112) from pieces of a stream, cut anywhere. Strict where
 * leniency lets two readers see different messages: CRLF only, no space around header names, one
 * framing, lengths that fit. Everything is bounded by the constants below; no allocation.
 *
 * A reader is zeroed before its first use. Order of calls: http_begin -> http_read* until HTTP_DONE
 * or HTTP_BAD; http_eof where the stream ended instead. After HTTP_DONE the next response may begin
 * in the same bytes, if keep.
 */
#ifndef VTILE_TILES_LOAD_HTTP_H
#define VTILE_TILES_LOAD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_LINE_MAX 8192       /* of one line, CRLF included */
#define HTTP_HEAD_MAX 65536      /* of all lines of a response, interim ones and trailers too */
#define HTTP_HEADERS_MAX 128     /* header lines of a response, likewise */
#define HTTP_CHUNK_LINE_MAX 1024 /* chunk size with its extensions */
#define HTTP_INTERIM_MAX 16      /* 1xx responses before the final one */
#define HTTP_KNOWN_MAX 1024      /* a longer head is read line by line each time */

enum http_result {
    HTTP_MORE, /* all bytes used, the response is not whole */
    HTTP_BODY, /* a piece of the body; call again with what is left, even when that is nothing */
    HTTP_DONE, /* whole; bytes after *used belong to no one yet */
    HTTP_BAD,  /* the stream cannot be followed; why says what is wrong */
};

/* The last head that came in one piece, and what it said: servers give the same one over and over,
 * and the same bytes say the same. */
struct http_known_head {
    size_t len; /* 0: none */
    bool head_request, keep;
    int status, state;
    unsigned nheaders;
    uint64_t left;
    uint8_t bytes[HTTP_KNOWN_MAX];
};

struct http_reader {
    /* Of the final response, once its header has been read. */
    int status;
    bool keep;           /* the connection may carry another request */
    uint64_t body_bytes; /* handed out so far */

    /* private */
    int state, version_minor;
    bool head_request, chunked, framing_line, close_asked, keep_asked;
    bool length_set;
    uint64_t length, left;
    unsigned nheaders, ninterim, block_lines;
    size_t head_bytes, line_len;
    char line[HTTP_LINE_MAX];
    struct http_known_head known;
};

/* head_request: the answer to HEAD, which has no body whatever its header says. */
void http_begin(struct http_reader *reader, bool head_request);
/* *ret_used <= len bytes were taken. With HTTP_BODY the piece is body[0 .. body_len), within
 * data. With HTTP_BAD *ret_why is a static text. */
enum http_result http_read(struct http_reader *reader, const uint8_t *data, size_t len,
                           size_t *ret_used, const uint8_t **ret_body, size_t *ret_body_len,
                           const char **ret_why);
/* The stream ended. truncated: without TLS close_notify, so that a body that lasts until close
 * may have been cut. HTTP_DONE or HTTP_BAD. */
enum http_result http_eof(struct http_reader *reader, bool truncated, const char **ret_why);

#endif
