/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_curl URL CONNECTIONS SECONDS: a closed loop with libcurl's multi interface, driven by
 * epoll (curl_multi_socket_action): each transfer begins again as soon as it has ended, on a kept
 * connection. Certificates are not checked. Prints the number of answers.
 */
#include <curl/curl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/text.h"

#define CONNECTIONS_MAX 4096
#define EVENTS 1024

static struct {
    CURLM *multi;
    int epoll;
    int64_t wake_ns; /* when libcurl wants to be called; 0: not */
    int64_t end_ns;
    uint64_t answers;
} load;

static void die(const char *what)
{
    fprintf(stderr, "load_curl: %s\n", what);
    exit(1);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
    struct epoll_event event = {.data.fd = fd};

    (void)easy, (void)ctx;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(load.epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN)
        event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        event.events |= EPOLLOUT;
    epoll_ctl(load.epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (!known)
        curl_multi_assign(load.multi, fd, &load);
    return 0;
}

static int on_timer(CURLM *multi, long wait_ms, void *ctx)
{
    (void)multi, (void)ctx;
    load.wake_ns = wait_ms < 0 ? 0 : vt_clock_now_ns() + wait_ms * VT_NS_PER_MS;
    return 0;
}

static size_t drop(char *data, size_t size, size_t n, void *ctx)
{
    (void)data, (void)ctx;
    return size * n;
}

static void add(const char *url)
{
    CURL *easy = curl_easy_init();

    if (!easy)
        die("no memory");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_3);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_multi_add_handle(load.multi, easy);
}

static void take_ended(int64_t now_ns)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(load.multi, &left))) {
        CURL *easy = message->easy_handle;

        if (message->msg != CURLMSG_DONE)
            continue;
        if (message->data.result != CURLE_OK)
            die(curl_easy_strerror(message->data.result));
        load.answers++;
        curl_multi_remove_handle(load.multi, easy);
        if (now_ns < load.end_ns)
            curl_multi_add_handle(load.multi, easy);
    }
}

static int wait_ms(int64_t now_ns)
{
    int64_t at_ns = load.wake_ns > 0 && load.wake_ns < load.end_ns ? load.wake_ns : load.end_ns;

    return at_ns <= now_ns ? 0 : (int)((at_ns - now_ns + VT_NS_PER_MS - 1) / VT_NS_PER_MS);
}

static int action_of(uint32_t events)
{
    return (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
           (events & ~(uint32_t)EPOLLOUT ? CURL_CSELECT_IN : 0);
}

static void run(void)
{
    struct epoll_event events[EVENTS];
    int64_t now_ns = vt_clock_now_ns();
    int running = 0;

    curl_multi_socket_action(load.multi, CURL_SOCKET_TIMEOUT, 0, &running);
    while (now_ns < load.end_ns) {
        int n = epoll_wait(load.epoll, events, EVENTS, wait_ms(now_ns));

        for (int i = 0; i < n; i++)
            curl_multi_socket_action(load.multi, events[i].data.fd, action_of(events[i].events),
                                     &running);
        now_ns = vt_clock_now_ns();
        if (load.wake_ns > 0 && now_ns >= load.wake_ns) {
            load.wake_ns = 0;
            curl_multi_socket_action(load.multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        take_ended(now_ns);
    }
}

int main(int argc, char **argv)
{
    int64_t connections, seconds;

    if (argc != 4 || vt_text_parse_int(argv[2], 1, CONNECTIONS_MAX, &connections, NULL) < 0 ||
        vt_text_parse_int(argv[3], 1, 3600, &seconds, NULL) < 0) {
        fputs("usage: load_curl URL CONNECTIONS SECONDS\n", stderr);
        return 2;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    load.multi = curl_multi_init();
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!load.multi || load.epoll < 0)
        die("cannot begin");
    curl_multi_setopt(load.multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(load.multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(load.multi, CURLMOPT_MAXCONNECTS, (long)connections);
    for (int64_t i = 0; i < connections; i++)
        add(argv[1]);
    load.end_ns = vt_clock_now_ns() + seconds * VT_NS_PER_S;
    run();
    printf("%" PRIu64 "\n", load.answers);
    return 0;
}
