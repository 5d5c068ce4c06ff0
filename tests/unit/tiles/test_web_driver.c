/* SPDX-License-Identifier: Apache-2.0 */
/* The web driver without I/O: requests as stated in pages.h, every way in which an answer can be
 * wrong, answers cut at every byte; and through engine, TLS and a real nginx to an origin. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tests/unit/tiles/load_run.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/web/pages.h"

static const struct driver_target target = {
    .tile = 3, .address = "127.0.0.1", .port = 443, .server_name = "web.test"};

/* A response with that body, in chunks where asked. */
static void respond(struct vt_buf *out, unsigned status, bool chunked, const uint8_t *body,
                    size_t len)
{
    vt_buf_printf(out, "HTTP/1.1 %u X\r\n", status);
    if (!chunked) {
        vt_buf_printf(out, "Content-Length: %zu\r\n\r\n", len);
        vt_buf_add(out, body, len);
        return;
    }
    vt_buf_adds(out, "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < len; at += 1000) {
        size_t n = len - at < 1000 ? len - at : 1000;

        vt_buf_printf(out, "%zx\r\n", n);
        vt_buf_add(out, body + at, n);
        vt_buf_adds(out, "\r\n");
    }
    vt_buf_adds(out, "0\r\n\r\n");
}

static enum driver_verdict converse(const struct driver_step *step, const struct vt_buf *answer,
                                    size_t cut, const char **why)
{
    VT_AUTO_FREE void *conn = calloc(1, web_driver.conn_bytes);
    VT_AUTO_BUF struct vt_buf request = VT_BUF_INIT(4096);
    const uint8_t *data = (const uint8_t *)answer->data;
    enum driver_verdict verdict;
    size_t used;

    web_driver.conn_init(conn, &target);
    web_driver.request(conn, step, &request);
    assert_false(request.failed);
    verdict = web_driver.on_bytes(conn, data, cut, &used, &request, why);
    if (verdict == DRIVER_MORE) {
        assert_int_equal(used, cut);
        verdict = web_driver.on_bytes(conn, data + cut, answer->len - cut, &used, &request, why);
        used += cut;
    }
    if (verdict == DRIVER_DONE) {
        assert_int_equal(used, answer->len);
        assert_true(web_driver.keep(conn));
        assert_int_equal(web_driver.answer_bytes(conn),
                         web_page_bytes(step->operation, step->argument));
    }
    web_driver.conn_fini(conn);
    return verdict;
}

static void test_requests(void **state)
{
    (void)state;
    static const struct driver_step steps[] = {{17, 0, WEB_FILE_CATALOG, 5, 0},
                                               {4294967295, 0, WEB_DOWNLOAD, 63, 0}};
    static const char *const lines[] = {"GET /fileCatalog?r=17&n=5 HTTP/1.1\r\n",
                                        "GET /download/63?r=4294967295&n=63 HTTP/1.1\r\n"};
    VT_AUTO_FREE void *conn = calloc(1, web_driver.conn_bytes);

    web_driver.conn_init(conn, &target);
    for (unsigned i = 0; i < 2; i++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);

        web_driver.request(conn, &steps[i], &out);
        assert_memory_equal(out.data, lines[i], strlen(lines[i]));
        assert_non_null(strstr(out.data, "\r\nHost: web.test\r\n"));
        assert_string_equal(out.data + out.len - 4, "\r\n\r\n");
    }
}

/* The residue is a property of the CRC (it is in many texts on CRC-32: 2144DF1C). */
static void test_contents(void **state)
{
    (void)state;
    VT_AUTO_FREE uint8_t *body = malloc(WEB_BYTES_MAX);
    uint64_t total = 0;

    for (unsigned page = 0; page < WEB_PAGES; page++) {
        for (uint32_t n = 0; n < web_page_forms[page].arguments; n++) {
            uint32_t bytes = web_page_bytes(page, n);
            char line[WEB_LINE_MAX];

            web_page_render(3, page, n, 77, 1234, body);
            snprintf(line, sizeof line, "vtile 3 %s %u %u\n", web_page_forms[page].name, n,
                     page == WEB_DOWNLOAD ? 0U : 77U);
            assert_memory_equal(body, line, strlen(line));
            assert_int_equal(crc32(0, body, bytes), 0x2144df1c);
            if (page == WEB_DOWNLOAD)
                total += bytes;
            else
                assert_in_range(bytes, 2048, 16384);
        }
    }
    assert_int_equal(total, 8912896); /* 8.5 MiB */
}

static void test_right_at_every_cut(void **state)
{
    (void)state;
    static const struct driver_step step = {77, 0, WEB_FILE, 9, 0};
    VT_AUTO_FREE uint8_t *body = malloc(WEB_BYTES_MAX);

    web_page_render(3, WEB_FILE, 9, 77, 1, body);
    for (int chunked = 0; chunked < 2; chunked++) {
        VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(1 << 20);

        respond(&answer, 200, chunked, body, web_page_bytes(WEB_FILE, 9));
        for (size_t cut = 0; cut < answer.len; cut++) {
            const char *why = "none";

            if (converse(&step, &answer, cut, &why) != DRIVER_DONE)
                fail_msg("cut at %zu: %s", cut, why);
        }
    }
}

/* Every single byte of the body changed is seen; so are an answer meant for another request, a
 * cached one, one of another tile, a short and a long one, another status. */
static void test_wrong(void **state)
{
    (void)state;
    static const struct driver_step step = {77, 0, WEB_FILE, 9, 0};
    static const struct {
        unsigned tile;
        enum web_page page;
        uint32_t argument, sequence;
        const char *why;
    } others[] = {
        {4, WEB_FILE, 9, 77, "the first line is not the one of this request"},
        {3, WEB_FILE, 9, 76, "the first line is not the one of this request"},
        {3, WEB_FILE, 10, 77, "the body has not the expected length"},
        /* as long as the right one, by chance */
        {3, WEB_SEARCH, 9, 77, "the first line is not the one of this request"},
    };
    VT_AUTO_FREE uint8_t *body = malloc(WEB_BYTES_MAX);
    uint32_t bytes = web_page_bytes(WEB_FILE, 9);
    VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(1 << 20);
    const char *why;

    for (unsigned i = 0; i < VT_COUNT(others); i++) {
        vt_buf_reset(&answer);
        web_page_render(others[i].tile, others[i].page, others[i].argument, others[i].sequence, 1,
                        body);
        respond(&answer, 200, false, body, web_page_bytes(others[i].page, others[i].argument));
        assert_int_equal(converse(&step, &answer, 100, &why), DRIVER_WRONG);
        assert_string_equal(why, others[i].why);
    }
    web_page_render(3, WEB_FILE, 9, 77, 1, body);
    vt_buf_reset(&answer);
    respond(&answer, 200, false, body, bytes);
    for (size_t i = 1; i <= bytes; i++) {
        answer.data[answer.len - i] ^= 1;
        assert_int_equal(converse(&step, &answer, answer.len / 2, &why), DRIVER_WRONG);
        answer.data[answer.len - i] ^= 1;
    }
    for (unsigned i = 0; i < 2; i++) {
        vt_buf_reset(&answer);
        respond(&answer, 200, false, body, bytes - 1 + 2 * i);
        assert_int_equal(converse(&step, &answer, 100, &why), DRIVER_WRONG);
        assert_string_equal(why, "the body has not the expected length");
    }
    vt_buf_reset(&answer);
    respond(&answer, 502, false, body, bytes);
    assert_int_equal(converse(&step, &answer, 100, &why), DRIVER_WRONG);
    assert_string_equal(why, "the status is not 200");
    vt_buf_reset(&answer);
    vt_buf_adds(&answer, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n");
    assert_int_equal(converse(&step, &answer, 0, &why), DRIVER_BAD);
}

/* --- an origin behind nginx --- */

/* Answers one request a connection until it is killed. Every hundredth request is answered with
 * one bit changed, every hundredth with what was asked for just before. */
static void origin_serve(int listener, uint8_t *body)
{
    int fd = accept(listener, NULL, NULL);
    char text[2048] = "", name[32];
    size_t len = 0;
    unsigned r, n, page = 0;
    VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(2 << 20);

    while (fd >= 0 && len < sizeof text - 1 && !strstr(text, "\r\n\r\n")) {
        ssize_t got = recv(fd, text + len, sizeof text - 1 - len, 0);

        if (got <= 0)
            break;
        len += (size_t)got;
        text[len] = '\0';
    }
    if (sscanf(text, "GET /%31[a-zA-Z]%*[^?]?r=%u&n=%u ", name, &r, &n) == 3 ||
        sscanf(text, "GET /%31[a-zA-Z]?r=%u&n=%u ", name, &r, &n) == 3) {
        while (page < WEB_PAGES && strcmp(web_page_forms[page].name, name) != 0)
            page++;
        if (page < WEB_PAGES) {
            web_page_render(1, page, n, r % 100 == 50 ? r - 1 : r, 1, body);
            if (r % 100 == 0)
                body[1000] ^= 4;
            respond(&answer, 200, false, body, web_page_bytes(page, n));
            for (size_t at = 0; at < answer.len;) {
                ssize_t put = send(fd, answer.data + at, answer.len - at, MSG_NOSIGNAL);

                if (put <= 0)
                    break;
                at += (size_t)put;
            }
        }
    }
    if (fd >= 0)
        close(fd);
}

static pid_t origin_start(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t parent = getpid(), pid;

    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 128), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    *ret_port = ntohs(address.sin_port);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        uint8_t *body = malloc(WEB_BYTES_MAX);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (body && getppid() == parent)
            origin_serve(listener, body);
        _exit(0);
    }
    close(listener);
    return pid;
}

static struct load_run run;
static struct nginx nginx;

static void test_through_a_front(void **state)
{
    (void)state;
    static const struct schedule_segment segment = {.length_ns = 3 * VT_NS_PER_S};
    struct schedule schedule;
    struct vt_error err = VT_ERROR_INIT;
    uint64_t wrong = 0, bytes = 0;
    uint16_t port;
    char server[256];
    pid_t origin;

    if (!nginx_present())
        skip();
    origin = origin_start(&port);
    snprintf(server, sizeof server, "location / { proxy_pass http://127.0.0.1:%u; }\n", port);
    nginx_init(&nginx, true, server);
    nginx_start(&nginx);
    load_run_init(&run, &nginx, &web_driver, &schedule, segment.length_ns);
    run.load.think_mean_ns = 5 * VT_NS_PER_S;
    run.load.think_max_ns = 75 * VT_NS_PER_S;
    run.load.think_share = 920800;
    run.load.expected_ns = 100 * VT_NS_PER_MS;
    assert_int_equal(schedule_draw(&web_driver, &run.load, 100000000, &segment, 1, 5, "tile-1/web",
                                   &schedule, &err),
                     0);
    assert_int_equal(schedule.nsteps, 300);
    for (size_t i = 0; i < schedule.nsteps; i++) {
        const struct driver_step *step = &schedule.steps[i];

        bytes += web_page_bytes(step->operation, step->argument);
        /* A static file carries no sequence: it cannot be another request's. */
        wrong += i % 100 == 0 || (i % 100 == 50 && step->operation != WEB_DOWNLOAD);
    }
    load_run(&run);
    print_message("%zu pages, %zu bytes, %zu wrong; first: %s; response p50 %.2f p99 %.2f ms\n",
                  (size_t)run.intended, (size_t)run.bytes, (size_t)run.wrong,
                  run.totals.first_failure, (double)vt_hist_quantile(&run.response, 500000) / 1e6,
                  (double)vt_hist_quantile(&run.response, 990000) / 1e6);
    assert_int_equal(run.wrong, wrong);
    assert_int_equal(run.good, 300 - wrong);
    assert_int_equal(run.bytes, bytes);
    assert_non_null(
        strstr(run.totals.first_failure, " 0 wrong: the checksum of the body is wrong"));
    schedule_dispose(&schedule);
    nginx_fini(&nginx);
    kill(origin, SIGKILL);
    waitpid(origin, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),           cmocka_unit_test(test_contents),
        cmocka_unit_test(test_right_at_every_cut), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_through_a_front),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("web_driver", tests, NULL, NULL);
}
