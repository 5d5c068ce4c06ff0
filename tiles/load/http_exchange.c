/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/http_exchange.h"

void http_exchange_fini(void *conn)
{
    (void)conn;
}

enum driver_verdict http_exchange_bytes(void *conn, const uint8_t *data, size_t len, size_t *used,
                                        struct vt_buf *out, const char **why)
{
    struct http_exchange *exchange = conn;

    (void)out;
    *used = 0;
    for (;;) {
        const uint8_t *body;
        size_t body_len, n;
        enum http_result result =
            http_read(&exchange->reader, data + *used, len - *used, &n, &body, &body_len, why);

        *used += n;
        switch (result) {
        case HTTP_MORE:
            return DRIVER_MORE;
        case HTTP_BODY:
            exchange->take_body(conn, body, body_len);
            break;
        case HTTP_DONE:
            return exchange->judge(conn, why);
        default:
            return DRIVER_BAD;
        }
    }
}

enum driver_verdict http_exchange_eof(void *conn, bool truncated, const char **why)
{
    struct http_exchange *exchange = conn;

    return http_eof(&exchange->reader, truncated, why) == HTTP_DONE ? exchange->judge(conn, why)
                                                                    : DRIVER_BAD;
}

uint64_t http_exchange_answer_bytes(const void *conn)
{
    return ((const struct http_exchange *)conn)->reader.body_bytes;
}

bool http_exchange_keep(const void *conn)
{
    return ((const struct http_exchange *)conn)->reader.keep;
}
