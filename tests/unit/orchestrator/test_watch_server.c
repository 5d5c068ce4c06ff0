/* SPDX-License-Identifier: Apache-2.0 */
/* A run followed from other terminals: what readers get, and that none of them holds the run up. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "orchestrator/watch/reader.h"
#include "orchestrator/watch/server.h"

#define RUN "0123456789ab"

struct site {
    struct vt_loop loop;
    char runtime[300], folder[400]; /* longer than a socket's address can be */
    struct watch_server *server;
    unsigned interrupts;
    bool now;
};

static void interrupt(void *ctx, bool now)
{
    struct site *site = ctx;

    site->interrupts++;
    site->now = now;
}

static int set_up(void **state)
{
    struct site *site = calloc(1, sizeof(*site));

    assert_non_null(site);
    snprintf(site->runtime, sizeof(site->runtime), "/tmp/vtile-watch-%d-%0150d", (int)getpid(), 0);
    snprintf(site->folder, sizeof(site->folder), "%s/" RUN, site->runtime);
    assert_int_equal(mkdir(site->runtime, 0700), 0);
    assert_int_equal(mkdir(site->folder, 0700), 0);
    assert_int_equal(vt_loop_init(&site->loop, NULL), 0);
    assert_int_equal(watch_server_open(&site->loop, site->folder, RUN, "spec web, 2 tiles", 5,
                                       interrupt, site, &site->server, NULL),
                     0);
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;
    char path[512];

    watch_server_end(site->server, "", 0);
    vt_loop_dispose(&site->loop);
    snprintf(path, sizeof(path), "%s/" WATCH_SOCKET, site->folder);
    unlink(path);
    rmdir(site->folder);
    rmdir(site->runtime);
    free(site);
    return 0;
}

static void turn(struct site *site)
{
    for (unsigned i = 0; i < 4; i++)
        uv_run(&site->loop.uv, UV_RUN_NOWAIT);
}

static void note(struct site *site, const char *text)
{
    struct vt_event event = {.type = VT_EVENT_NOTE, .time_ns = 7, .source = "x", .text = text};
    struct vt_sink *sink = watch_server_sink(site->server);

    sink->take(sink, &event);
}

static void open_reader(struct site *site, struct watch_reader *reader, bool events)
{
    struct vt_error err = VT_ERROR_INIT;

    if (watch_reader_open(reader, site->runtime, "0123", events, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(fcntl(reader->fd, F_SETFL, O_NONBLOCK), 0);
    turn(site);
}

/* The next line, of that type. */
static void expect_line(struct watch_reader *reader, const char *type, const char *part)
{
    char head[64];
    size_t len = 0;
    const char *line = watch_reader_line(reader, &len);

    if (!line && watch_reader_fill(reader, NULL) > 0)
        line = watch_reader_line(reader, &len);
    if (!line) {
        fail_msg("no line of type %s", type);
        return;
    }
    snprintf(head, sizeof(head), "{\"v\":1,\"type\":\"%s\",", type);
    assert_memory_equal(line, head, strlen(head));
    assert_non_null(memmem(line, len, part, strlen(part)));
}

static bool has_ended(const struct watch_reader *reader)
{
    char data[65536];
    ssize_t n;

    while ((n = read(reader->fd, data, sizeof(data))) > 0)
        continue;
    return n == 0 || errno == ECONNRESET;
}

static void readers_get_what_they_asked_for(void **state)
{
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    struct site *site = *state;
    struct watch_reader people, program;
    struct vt_event sample = {.type = VT_EVENT_SAMPLE, .time_ns = 7, .series = "cpu", .value = 1};
    struct vt_sink *sink = watch_server_sink(site->server);
    const char last[] = "{\"v\":1,\"type\":\"result\",\"x\":1}\n"
                        "{\"v\":1,\"type\":\"end\",\"exit_code\":3,\"text\":\"\"}\n";
    char path[512];
    struct stat info;

    assert_non_null(view);
    snprintf(path, sizeof(path), "%s/" WATCH_SOCKET, site->folder);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    note(site, "before anybody came");
    open_reader(site, &people, false);
    open_reader(site, &program, true);
    expect_line(&people, "hello", "\"run\":\"" RUN "\",\"what\":\"spec web, 2 tiles\"");
    expect_line(&program, "hello", "\"start_ns\":5");
    expect_line(&people, "note", "before anybody came");
    expect_line(&program, "note", "before anybody came");
    sink->take(sink, &sample);
    watch_server_show(site->server, view);
    note(site, "later");
    turn(site);
    expect_line(&people, "view", "\"tiles\":[]");
    expect_line(&people, "note", "later");
    expect_line(&program, "sample", "\"series\":\"cpu\"");
    expect_line(&program, "note", "later");
    watch_server_end(site->server, last, sizeof(last) - 1);
    turn(site);
    expect_line(&people, "result", "\"x\":1");
    expect_line(&people, "end", "\"exit_code\":3");
    assert_true(has_ended(&people));
    assert_true(has_ended(&program));
    site->server = NULL;
    watch_reader_close(&people);
    watch_reader_close(&program);
}

/* Both queues, the kernel's and ours, are bounded: 64 MiB do not fit. */
static void a_slow_reader_is_dropped_alone(void **state)
{
    struct site *site = *state;
    struct watch_reader slow, quick;
    char *text = malloc(16384);
    size_t got = 0, len;

    assert_non_null(text);
    memset(text, 'a', 16383);
    text[16383] = '\0';
    open_reader(site, &slow, false);
    open_reader(site, &quick, false);
    expect_line(&quick, "hello", RUN);
    for (unsigned i = 0; i < 4096; i++) {
        note(site, text);
        turn(site);
        do {
            while (watch_reader_line(&quick, &len))
                got++;
        } while (watch_reader_fill(&quick, NULL) > 0);
    }
    assert_int_equal(got, 4096);
    assert_true(has_ended(&slow));
    note(site, "the last one");
    turn(site);
    expect_line(&quick, "note", "the last one");
    watch_reader_close(&slow);
    watch_reader_close(&quick);
    free(text);
}

static void requests_are_bounded(void **state)
{
    struct site *site = *state;
    char longest[WATCH_REQUEST_BYTES + 1];
    const char *const bad[] = {
        "{}\n", "nonsense\n", "{\"v\":1,\"type\":\"watch\",\"events\":1}\n",
        "{\"v\":1,\"type\":\"interrupt\",\"now\":true,\"x\":[[[[[[[[[[[[[[[[[["
        "]]]]]]]]]]]]]]]]]]}\n",
        longest};

    memset(longest, ' ', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        struct watch_reader reader;

        open_reader(site, &reader, false);
        assert_int_equal(write(reader.fd, bad[i], strlen(bad[i])), strlen(bad[i]));
        turn(site);
        assert_true(has_ended(&reader));
        watch_reader_close(&reader);
        turn(site);
    }
    assert_int_equal(site->interrupts, 0);
}

static void no_more_readers_than_there_is_room_for(void **state)
{
    struct site *site = *state;
    struct watch_reader readers[WATCH_READERS_MAX + 1];

    for (size_t i = 0; i < VT_COUNT(readers); i++)
        open_reader(site, &readers[i], false);
    for (size_t i = 0; i < VT_COUNT(readers); i++) {
        assert_int_equal(has_ended(&readers[i]), i == WATCH_READERS_MAX);
        watch_reader_close(&readers[i]);
    }
}

static void a_reader_ends_the_run(void **state)
{
    struct site *site = *state;
    struct watch_reader reader;

    open_reader(site, &reader, false);
    assert_int_equal(watch_reader_interrupt(&reader, false, NULL), 0);
    turn(site);
    assert_int_equal(site->interrupts, 1);
    assert_false(site->now);
    assert_int_equal(watch_reader_interrupt(&reader, true, NULL), 0);
    turn(site);
    assert_int_equal(site->interrupts, 2);
    assert_true(site->now);
    watch_reader_close(&reader);
}

static void runs_are_found_by_name(void **state)
{
    struct site *site = *state;
    struct watch_reader reader;
    struct vt_error err = VT_ERROR_INIT;

    assert_true(watch_reader_open(&reader, site->runtime, "02", false, &err) < 0);
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_non_null(strstr(err.text, "no run 02 goes on here"));
    watch_reader_close(&reader);
    assert_int_equal(watch_reader_open(&reader, site->runtime, NULL, false, &err), 0);
    watch_reader_close(&reader);
}

#define WITH_SITE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SITE(readers_get_what_they_asked_for),
        WITH_SITE(a_slow_reader_is_dropped_alone),
        WITH_SITE(requests_are_bounded),
        WITH_SITE(no_more_readers_than_there_is_room_for),
        WITH_SITE(a_reader_ends_the_run),
        WITH_SITE(runs_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
