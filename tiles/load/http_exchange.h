/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_exchange: what drivers over HTTP share: reading the answer to one request and handing its
 * body to the driver. struct http_exchange stands first in the state of such a driver's
 * connections, so that the functions below are that driver's operations as they are.
 */
#ifndef VTILE_TILES_LOAD_HTTP_EXCHANGE_H
#define VTILE_TILES_LOAD_HTTP_EXCHANGE_H

#include "tiles/load/driver.h"
#include "tiles/load/http.h"

struct http_exchange {
    /* The driver fills both when the connection begins. conn: the state that this begins. */
    void (*take_body)(void *conn, const uint8_t *body, size_t len);
    /* The answer is whole: DRIVER_DONE, or DRIVER_WRONG and *why. */
    enum driver_verdict (*judge)(void *conn, const char **why);
    /* shared; the driver calls http_begin with each request */
    struct http_reader reader;
};

/* As struct driver declares them. */
void http_exchange_fini(void *conn);
enum driver_verdict http_exchange_bytes(void *conn, const uint8_t *data, size_t len, size_t *used,
                                        struct vt_buf *out, const char **why);
enum driver_verdict http_exchange_eof(void *conn, bool truncated, const char **why);
uint64_t http_exchange_answer_bytes(const void *conn);
bool http_exchange_keep(const void *conn);

#endif
