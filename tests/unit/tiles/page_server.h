/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server on the loop of the client that it serves, so that a test sees both sides in
 * one order. What it does with the requests that come may be changed at any time. */
#ifndef VTILE_TESTS_UNIT_TILES_PAGE_SERVER_H
#define VTILE_TESTS_UNIT_TILES_PAGE_SERVER_H

#include "base/loop.h"

enum page_what {
    PAGE_RIGHT,  /* 200 and five bytes */
    PAGE_WRONG,  /* 503 */
    PAGE_LAST,   /* 200 with "Connection: close", and closes */
    PAGE_CUT,    /* closes without an answer */
    PAGE_SILENT, /* never answers */
};

#define PAGE_CONNECTIONS_MAX 200000
#define PAGE_REQUESTS_MAX 200000
struct page_server {
    uv_tcp_t listener;
    uint16_t port;
    enum page_what what;
    unsigned nconnections, nrequests;
    struct page_peer *peers[PAGE_CONNECTIONS_MAX]; /* NULL: gone */
    /* Of each request, in their order. */
    struct page_request {
        int64_t at_ns;
        unsigned connection;
    } requests[PAGE_REQUESTS_MAX];
};

struct page_server *page_server_start(struct vt_loop *loop);
void page_server_drop_all(struct page_server *server); /* ends its connections */
/* Closes everything; free() it once the loop is disposed of. */
void page_server_stop(struct page_server *server);

#endif
