/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/get.h"

#include <stdio.h>

#include "base/scope.h"
#include "tiles/load/http_exchange.h"

#define REQUEST "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: vtile\r\n\r\n"
/* Longer ones are made anew each time. */
#define REQUEST_KEPT_BYTES 512

static const char *const operations[] = {"get"};

struct get_conn {
    struct http_exchange http;
    const struct get_page *page;
    char why[32];
    char request[REQUEST_KEPT_BYTES];
    size_t request_len;
};

static void take_body(void *conn, const uint8_t *body, size_t len)
{
    (void)conn, (void)body, (void)len;
}

static enum driver_verdict judge(void *conn, const char **why)
{
    struct get_conn *c = conn;

    if (c->http.reader.status < 400)
        return DRIVER_DONE;
    snprintf(c->why, sizeof c->why, "the status is %d", c->http.reader.status);
    *why = c->why;
    return DRIVER_WRONG;
}

static void conn_init(void *conn, const struct driver_target *target)
{
    struct get_conn *c = conn;

    c->http.take_body = take_body;
    c->http.judge = judge;
    c->page = target->context;
    c->request_len =
        (size_t)snprintf(c->request, sizeof c->request, REQUEST, c->page->path, c->page->host);
}

static void request(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    struct get_conn *c = conn;

    (void)step;
    http_begin(&c->http.reader, false);
    if (c->request_len < sizeof c->request)
        vt_buf_add(out, c->request, c->request_len);
    else
        vt_buf_printf(out, REQUEST, c->page->path, c->page->host);
}

#define GET(driver_name, with_tls, usual_port)                                                \
    {                                                                                         \
        .name = (driver_name), .tls = (with_tls), .pooled = true, .port = (usual_port),       \
        .operations = operations, .noperations = VT_COUNT(operations),                        \
        .conn_bytes = sizeof(struct get_conn), .conn_init = conn_init,                        \
        .conn_fini = http_exchange_fini, .request = request, .on_bytes = http_exchange_bytes, \
        .on_eof = http_exchange_eof, .answer_bytes = http_exchange_answer_bytes,              \
        .keep = http_exchange_keep,                                                           \
    }

const struct driver get_http = GET("http", false, 80);
const struct driver get_https = GET("https", true, 443);
