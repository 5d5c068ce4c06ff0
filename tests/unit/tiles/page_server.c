/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/page_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

struct page_peer {
    uv_tcp_t tcp;
    struct page_server *server;
    unsigned index;
    size_t matched; /* of the empty line that ends a request */
    char in[4096];
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void drop(struct page_peer *peer)
{
    peer->server->peers[peer->index] = NULL;
    if (!uv_is_closing((uv_handle_t *)&peer->tcp))
        uv_close((uv_handle_t *)&peer->tcp, on_closed);
}

static void say(struct page_peer *peer, const char *text)
{
    uv_buf_t buf = uv_buf_init((char *)text, (unsigned)strlen(text));

    if (uv_try_write((uv_stream_t *)&peer->tcp, &buf, 1) != (int)buf.len)
        drop(peer);
}

static void take_request(struct page_peer *peer)
{
    struct page_server *server = peer->server;

    assert_true(server->nrequests < PAGE_REQUESTS_MAX);
    server->requests[server->nrequests++] =
        (struct page_request){.at_ns = vt_clock_now_ns(), .connection = peer->index};
    switch (server->what) {
    case PAGE_RIGHT:
        say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        break;
    case PAGE_WRONG:
        say(peer, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        break;
    case PAGE_LAST:
        say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        drop(peer);
        break;
    case PAGE_CUT:
        drop(peer);
        break;
    case PAGE_SILENT:
        break;
    }
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct page_peer *peer = handle->data;

    (void)size;
    *buf = uv_buf_init(peer->in, sizeof peer->in);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    static const char end[] = "\r\n\r\n";
    struct page_peer *peer = stream->data;

    if (n < 0)
        drop(peer);
    for (ssize_t i = 0; i < n && !uv_is_closing((uv_handle_t *)stream); i++) {
        peer->matched = buf->base[i] == end[peer->matched] ? peer->matched + 1 : 0;
        if (peer->matched == strlen(end)) {
            peer->matched = 0;
            take_request(peer);
        }
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct page_server *server = listener->data;
    struct page_peer *peer = calloc(1, sizeof *peer);

    assert_int_equal(status, 0);
    assert_non_null(peer);
    assert_true(server->nconnections < PAGE_CONNECTIONS_MAX);
    peer->server = server;
    peer->index = server->nconnections++;
    peer->tcp.data = peer;
    server->peers[peer->index] = peer;
    assert_int_equal(uv_tcp_init(listener->loop, &peer->tcp), 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&peer->tcp), 0);
    uv_tcp_nodelay(&peer->tcp, 1);
    assert_int_equal(uv_read_start((uv_stream_t *)&peer->tcp, on_alloc, on_read), 0);
}

struct page_server *page_server_start(struct vt_loop *loop)
{
    struct page_server *server = calloc(1, sizeof *server);
    struct sockaddr_in address;
    int len = sizeof address;

    assert_non_null(server);
    assert_int_equal(uv_tcp_init(&loop->uv, &server->listener), 0);
    server->listener.data = server;
    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &address), 0);
    assert_int_equal(uv_tcp_bind(&server->listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&server->listener, 64, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&server->listener, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
    return server;
}

void page_server_drop_all(struct page_server *server)
{
    for (unsigned i = 0; i < server->nconnections; i++)
        if (server->peers[i])
            drop(server->peers[i]);
}

void page_server_stop(struct page_server *server)
{
    page_server_drop_all(server);
    uv_close((uv_handle_t *)&server->listener, NULL);
}
