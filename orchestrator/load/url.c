/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/scope.h"
#include "base/text.h"

#define ACCEPT_MS 3000 /* for one of several addresses */

static int bad(const char *text, const char *why, struct vt_error *err)
{
    char shown[96];
    bool whole = vt_text_copy(shown, sizeof shown, text);

    vt_text_make_plain(shown);
    return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                        "'%s%s' %s; wanted: http://HOST[:PORT]/PATH or https://...", shown,
                        whole ? "" : "...", why);
}

/* What can stand in a line of the request as it is. */
static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f)
            return false;
    return true;
}

/* RFC 1123 2.1, and the underscore that many networks have. */
static bool is_host_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_";
    size_t len = strlen(name);

    return len > 0 && len <= 253 && strspn(name, allowed) == len;
}

/* What stands between "//" and the path; *why is set where it is refused. */
static void take_authority(char *authority, struct load_url *url, const char **why)
{
    bool bracket = authority[0] == '[';
    char *end = bracket ? strchr(authority, ']') : authority + strcspn(authority, ":");
    const struct driver *driver = url->tls ? &get_https : &get_http;
    int64_t port = driver->port;

    if (strchr(authority, '@')) {
        *why = "names a user, which is not supported";
        return;
    }
    if (bracket && end)
        *end++ = '\0';
    if (!end || (*end && *end != ':')) {
        *why = "has no host that can be understood";
        return;
    }
    if (end[0] == ':' && end[1] && vt_text_parse_int(end + 1, 1, UINT16_MAX, &port, NULL) < 0)
        *why = "has a port that is not one of 1 to 65535";
    *end = '\0';
    const char *host = authority + bracket;
    if (bracket ? !strchr(host, ':') || !vt_text_is_ip(host) : !is_host_name(host))
        *why = "has no host that can be understood";
    if (*why)
        return;
    vt_text_copy(url->target.server_name, sizeof url->target.server_name, host);
    url->target.port = (uint16_t)port;
    int n = snprintf(url->page.host, sizeof url->page.host, bracket ? "[%s]" : "%s", host);
    if (port != driver->port)
        snprintf(url->page.host + n, sizeof url->page.host - (size_t)n, ":%d", (int)port);
}

int load_url_parse(const char *text, struct load_url *ret, struct vt_error *err)
{
    struct load_url url = {.tls = !strncasecmp(text, "https://", 8)};
    const char *rest = text + (url.tls ? 8 : 7), *why = NULL;
    char authority[512];
    size_t len;

    if (!url.tls && strncasecmp(text, "http://", 7))
        return bad(text, "is no such URL", err);
    if (strlen(text) >= GET_TEXT_MAX)
        return bad(text, "is too long", err);
    if (!is_plain(text))
        return bad(text, "has a space or a character beyond ASCII (write it as %XX)", err);
    len = strcspn(rest, "/?#");
    if (len >= sizeof authority)
        return bad(text, "has a host that is too long", err);
    memcpy(authority, rest, len);
    authority[len] = '\0';
    take_authority(authority, &url, &why);
    if (why)
        return bad(text, why, err);
    rest += len;
    snprintf(url.page.path, sizeof url.page.path, "%s%.*s", rest[0] == '/' ? "" : "/",
             (int)strcspn(rest, "#"), rest);
    *ret = url;
    return 0;
}

static bool accepts(const struct addrinfo *at, uint16_t port)
{
    VT_AUTO_CLOSE int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    struct sockaddr_storage address = {0};
    struct pollfd opened = {.fd = fd, .events = POLLOUT};
    int why = 0;
    socklen_t len = sizeof why;

    if (fd < 0 || at->ai_addrlen > sizeof address)
        return false;
    memcpy(&address, at->ai_addr, at->ai_addrlen);
    if (address.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&address)->sin_port = htons(port);
    if (connect(fd, (struct sockaddr *)&address, at->ai_addrlen) == 0)
        return true;
    return errno == EINPROGRESS && poll(&opened, 1, ACCEPT_MS) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0;
}

/* The first where somebody listens, else the first: "localhost" is two, servers often listen at
 * one of them. */
static const struct addrinfo *choose(const struct addrinfo *found, uint16_t port)
{
    const struct addrinfo *at = found;

    while (at && found->ai_next && !accepts(at, port))
        at = at->ai_next;
    return at ? at : found;
}

int load_url_resolve(struct load_url *url, struct vt_error *err)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(url->target.server_name, NULL, &wanted, &found);

    if (code == 0) {
        const struct addrinfo *at = choose(found, url->target.port);

        code = getnameinfo(at->ai_addr, at->ai_addrlen, url->target.address,
                           sizeof url->target.address, NULL, 0, NI_NUMERICHOST);
    }
    if (found)
        freeaddrinfo(found);
    return code == 0 ? 0
                     : vt_error_set(err, VT_KIND_INFRA, -EHOSTUNREACH, "look up %.200s: %s",
                                    url->target.server_name, gai_strerror(code));
}
