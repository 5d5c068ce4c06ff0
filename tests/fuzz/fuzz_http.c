/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-seconds: 45 */
/*
 * The HTTP reader on any bytes. The first byte says how: HEAD or GET, whether the end is TLS's
 * own, and how long the pieces are. The same bytes in one piece must be read to the same end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tiles/load/http.h"

struct outcome {
    unsigned responses;
    uint64_t body_bytes, body_sum;
    const char *why;
    int status;
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static struct outcome read_all(const uint8_t *data, size_t len, size_t piece, int head, int cut)
{
    static struct http_reader reader;
    struct outcome o = {0};
    size_t at = 0, end = 0;

    http_begin(&reader, head);
    for (;;) {
        size_t used = len + 1, body_len = 0;
        const uint8_t *body = NULL;
        enum http_result result =
            http_read(&reader, data + at, end - at, &used, &body, &body_len, &o.why);

        require(used <= end - at);
        at += used;
        if (result == HTTP_BODY) {
            require(body >= data && body_len > 0 && body + body_len == data + at);
            for (size_t i = 0; i < body_len; i++)
                o.body_sum = o.body_sum * 31 + body[i];
            o.body_bytes += body_len;
        } else if (result == HTTP_DONE) {
            require(reader.status >= 200 && reader.status < 600);
            o.responses++;
            o.status = reader.status;
            if (!reader.keep)
                return o;
            http_begin(&reader, head);
        } else if (result == HTTP_BAD) {
            require(o.why != NULL && !reader.keep);
            return o;
        } else if (end == len) {
            if (http_eof(&reader, cut, &o.why) == HTTP_DONE)
                o.responses++;
            return o;
        } else {
            require(at == end);
            end = piece < len - end ? end + piece : len;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, pieces;
    int head, cut;
    size_t piece;

    if (size == 0)
        return 0;
    head = data[0] & 1;
    cut = data[0] >> 1 & 1;
    piece = (data[0] >> 2) + 1;
    whole = read_all(data + 1, size - 1, size, head, cut);
    pieces = read_all(data + 1, size - 1, piece, head, cut);
    require(whole.responses == pieces.responses && whole.status == pieces.status &&
            whole.body_bytes == pieces.body_bytes && whole.body_sum == pieces.body_sum);
    require(!whole.why == !pieces.why);
    return 0;
}
