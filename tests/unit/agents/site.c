/* SPDX-License-Identifier: Apache-2.0 */
#include "site.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tiles/roles/web/pages.h"

static SSL_CTX *tls;
static unsigned site_tile;
static atomic_uint answered;

static void answer(SSL *ssl, const char *request)
{
    char name[32] = "", head[128];
    unsigned argument = 0, sequence = 0, page = 0, file;
    static const char *const names[] = {"home",        "search", "catalog", "product",
                                        "fileCatalog", "file",   "download"};
    sscanf(request, "GET /%31[a-zA-Z]", name);
    while (page < WEB_PAGES - 1 && strcmp(names[page], name) != 0)
        page++;
    const char *query = strchr(request, '?');
    if (query)
        sscanf(query, "?r=%u&n=%u", &sequence, &argument);
    if (sscanf(request, "GET /download/%u", &file) == 1)
        argument = file;
    uint32_t len = web_page_bytes(page, argument);
    uint8_t *body = malloc(len);
    web_page_render(site_tile, page, argument, sequence, 1, body);
    int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", len);
    SSL_write(ssl, head, n);
    SSL_write(ssl, body, (int)len);
    free(body);
    atomic_fetch_add(&answered, 1);
}

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg, n;
    char request[1024];
    SSL *ssl = SSL_new(tls);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1)
        while ((n = SSL_read(ssl, request, sizeof request - 1)) > 0) {
            request[n] = '\0';
            answer(ssl, request); /* requests of a driver come in one piece */
        }
    SSL_free(ssl);
    close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int fd, server = (int)(intptr_t)arg;
    pthread_t thread;
    while ((fd = accept(server, NULL, NULL)) >= 0)
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
    return NULL;
}

const char *site_address(void)
{
    static char text[INET_ADDRSTRLEN];
    unsigned pid = (unsigned)getpid();
    snprintf(text, sizeof text, "127.%u.%u.%u", 128 + pid % 97, pid / 97 % 251, 1 + pid % 251);
    return text;
}

bool site_start(const struct vt_ca *ca, unsigned tile)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(443)};
    struct vt_cert_wanted wanted = {.names = {"web-1"}, .address = site_address(), .server = true};
    struct vt_identity id;
    pthread_t thread;
    int yes = 1, server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, site_address(), &address.sin_addr);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(server, (struct sockaddr *)&address, sizeof address) < 0 || listen(server, 64) < 0)
        return false;
    vt_cert_window(&wanted, 60 * VT_NS_PER_S);
    assert_int_equal(vt_ca_make_identity(ca, &wanted, &id, NULL), 0);
    assert_int_equal(vt_tls_server_ctx(&id, NULL, &tls, NULL), 0);
    vt_identity_dispose(&id);
    site_tile = tile;
    assert_int_equal(pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)server), 0);
    pthread_detach(thread);
    return true;
}

unsigned site_requests(void)
{
    return atomic_load(&answered);
}
