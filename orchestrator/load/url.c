/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/url.h"

#include <errno.h>
#include <libxml/uri.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"

static int bad(const char *text, const char *why, struct vt_error *err)
{
    return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                        "'%.200s' %s; wanted: http://HOST[:PORT]/PATH or https://...", text, why);
}

/* What goes into a line of the request as it is. */
static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f)
            return false;
    return true;
}

/* "[::1]" is an address without its brackets everywhere but in the header. */
static bool copy_host(const char *server, char *name, size_t size)
{
    size_t len = strlen(server);

    if (server[0] != '[')
        return len > 0 && vt_text_copy(name, size, server);
    if (len < 4 || server[len - 1] != ']' || len - 2 >= size)
        return false;
    memcpy(name, server + 1, len - 2);
    name[len - 2] = 0;
    return true;
}

static int take_parts(const char *text, xmlURIPtr uri, struct load_url *ret, struct vt_error *err)
{
    const struct driver *driver;
    struct load_url url = {0};
    int n;

    if (!uri || !uri->scheme || (strcmp(uri->scheme, "http") && strcmp(uri->scheme, "https")))
        return bad(text, "is no such URL", err);
    if (uri->user)
        return bad(text, "names a user, which is not supported", err);
    if (!uri->server || !is_plain(uri->server) ||
        !copy_host(uri->server, url.target.server_name, sizeof url.target.server_name))
        return bad(text, "names no host that can be looked up", err);
    if (uri->port < 0 || uri->port > UINT16_MAX)
        return bad(text, "has a port out of range", err);
    url.tls = !strcmp(uri->scheme, "https");
    driver = url.tls ? &get_https : &get_http;
    url.target.port = uri->port ? (uint16_t)uri->port : driver->port;
    if (url.target.port == driver->port)
        n = snprintf(url.page.host, sizeof url.page.host, "%s", uri->server);
    else
        n = snprintf(url.page.host, sizeof url.page.host, "%s:%u", uri->server, url.target.port);
    if (n < 0 || (size_t)n >= sizeof url.page.host)
        return bad(text, "names a host that is too long", err);
    n = snprintf(url.page.path, sizeof url.page.path, "%s%s%s",
                 uri->path && uri->path[0] ? uri->path : "/", uri->query_raw ? "?" : "",
                 uri->query_raw ? uri->query_raw : "");
    if (n < 0 || (size_t)n >= sizeof url.page.path || !is_plain(url.page.path))
        return bad(text, "has a path that cannot be asked for", err);
    *ret = url;
    return 0;
}

int load_url_parse(const char *text, struct load_url *ret, struct vt_error *err)
{
    xmlURIPtr uri = strlen(text) < GET_TEXT_MAX ? xmlParseURIRaw(text, 1) : NULL;
    int code = take_parts(text, uri, ret, err);

    xmlFreeURI(uri);
    return code;
}

int load_url_resolve(struct load_url *url, struct vt_error *err)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(url->target.server_name, NULL, &wanted, &found);

    if (code == 0)
        code = getnameinfo(found->ai_addr, found->ai_addrlen, url->target.address,
                           sizeof url->target.address, NULL, 0, NI_NUMERICHOST);
    if (found)
        freeaddrinfo(found);
    return code == 0 ? 0
                     : vt_error_set(err, VT_KIND_INFRA, -EHOSTUNREACH, "look up %.200s: %s",
                                    url->target.server_name, gai_strerror(code));
}
