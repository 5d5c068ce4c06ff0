/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/watch/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/json.h"
#include "base/scope.h"

#define LATEST_MAX 32 /* lines that a new reader is told */
#define END_PATIENCE_MS 2000

struct reader {
    uv_pipe_t pipe; /* first: a pointer to it is one to this */
    struct watch_server *server;
    bool asked, events; /* what it wants is known; every event */
    char request[WATCH_REQUEST_BYTES];
    size_t nrequest;
};

struct watch_server {
    struct vt_sink sink;
    uv_pipe_t pipe;
    uv_timer_t patience;
    char run[16], what[256];
    int64_t start_ns;
    void (*interrupt)(void *ctx, bool now);
    void *ctx;
    struct reader *readers[WATCH_READERS_MAX];
    unsigned nhandles; /* that are not closed yet */
    bool ending;
    struct vt_buf line;
    struct {
        char *text;
        size_t len;
    } latest[LATEST_MAX]; /* a ring */
    unsigned nlatest;
};

int watch_address(const char *folder, struct sockaddr_un *ret, int *ret_fd, struct vt_error *err)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open folder %s", folder);
    memset(ret, 0, sizeof(*ret));
    ret->sun_family = AF_UNIX;
    snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/" WATCH_SOCKET, fd);
    *ret_fd = fd;
    return 0;
}

/* --- the end of handles --- */

static void dispose(struct watch_server *server)
{
    for (size_t i = 0; i < LATEST_MAX; i++)
        free(server->latest[i].text);
    vt_buf_dispose(&server->line);
    free(server);
}

static void handle_closed(struct watch_server *server)
{
    if (--server->nhandles == 0)
        dispose(server);
}

static void own_handle_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void close_own(struct watch_server *server, uv_handle_t *handle)
{
    if (uv_is_closing(handle))
        return;
    handle->data = server;
    uv_close(handle, own_handle_closed);
}

/* Once the last reader is gone there is nothing to be patient for. */
static void end_if_alone(struct watch_server *server)
{
    for (size_t i = 0; i < WATCH_READERS_MAX; i++)
        if (server->readers[i])
            return;
    if (server->ending)
        close_own(server, (uv_handle_t *)&server->patience);
}

static void reader_closed(uv_handle_t *handle)
{
    struct reader *reader = (struct reader *)handle;
    struct watch_server *server = reader->server;

    free(reader);
    handle_closed(server);
}

static void drop(struct reader *reader)
{
    struct watch_server *server = reader->server;

    if (uv_is_closing((uv_handle_t *)&reader->pipe))
        return;
    for (size_t i = 0; i < WATCH_READERS_MAX; i++)
        if (server->readers[i] == reader)
            server->readers[i] = NULL;
    uv_close((uv_handle_t *)&reader->pipe, reader_closed);
    end_if_alone(server);
}

/* --- to a reader --- */

struct sending {
    uv_write_t request;
    char data[];
};

static void sent(uv_write_t *request, int status)
{
    struct reader *reader = (struct reader *)request->handle;

    free(request);
    if (status < 0 || (reader->server->ending &&
                       uv_stream_get_write_queue_size((uv_stream_t *)&reader->pipe) == 0))
        drop(reader);
}

static void send_to(struct reader *reader, const char *data, size_t len)
{
    uv_stream_t *stream = (uv_stream_t *)&reader->pipe;
    struct sending *sending;
    uv_buf_t buf;

    if (uv_is_closing((uv_handle_t *)stream) || len == 0)
        return;
    sending = uv_stream_get_write_queue_size(stream) + len <= WATCH_QUEUE_BYTES
                  ? malloc(sizeof(*sending) + len)
                  : NULL;
    if (!sending) {
        drop(reader);
        return;
    }
    memcpy(sending->data, data, len);
    buf = uv_buf_init(sending->data, (unsigned)len);
    if (uv_write(&sending->request, stream, &buf, 1, sent) < 0) {
        free(sending);
        drop(reader);
    }
}

static void keep(struct watch_server *server, const char *data, size_t len)
{
    unsigned at = server->nlatest++ % LATEST_MAX;

    free(server->latest[at].text);
    server->latest[at].text = malloc(len);
    server->latest[at].len = server->latest[at].text ? len : 0;
    if (server->latest[at].text)
        memcpy(server->latest[at].text, data, len);
}

static void greet(struct reader *reader)
{
    struct watch_server *server = reader->server;
    VT_AUTO_BUF struct vt_buf hello = VT_BUF_INIT(4096);
    unsigned n = server->nlatest < LATEST_MAX ? server->nlatest : LATEST_MAX;
    struct vt_json w;

    vt_json_message(&w, &hello, "hello");
    vt_json_string(&w, "run", server->run);
    vt_json_string(&w, "what", server->what);
    vt_json_int(&w, "pid", getpid());
    vt_json_int(&w, "start_ns", server->start_ns);
    vt_json_end(&w);
    vt_buf_adds(&hello, "\n");
    send_to(reader, hello.data, hello.failed ? 0 : hello.len);
    for (unsigned i = server->nlatest - n; i < server->nlatest; i++)
        send_to(reader, server->latest[i % LATEST_MAX].text, server->latest[i % LATEST_MAX].len);
}

/* --- from a reader --- */

static int take_request(struct reader *reader, const char *line, size_t len)
{
    json_t *message = NULL;
    const char *type = "";
    bool flag = false;
    int r = vt_json_read(line, len, "request", VT_KIND_REFUSED, &message, NULL);

    if (r == 0)
        r = vt_json_get_string(message, "type", &type, NULL);
    if (r == 0 && !reader->asked) {
        r = strcmp(type, "watch") ? -EBADMSG : vt_json_get_bool(message, "events", &flag, NULL);
        reader->asked = r == 0;
        reader->events = flag;
        if (r == 0)
            greet(reader);
    } else if (r == 0) {
        r = strcmp(type, "interrupt") ? -EBADMSG : vt_json_get_bool(message, "now", &flag, NULL);
        if (r == 0 && reader->server->interrupt && !reader->server->ending)
            reader->server->interrupt(reader->server->ctx, flag);
    }
    json_decref(message);
    return r;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct reader *reader = (struct reader *)stream;

    (void)buf; /* it is reader->request, past what is there */
    if (n < 0) {
        drop(reader);
        return;
    }
    reader->nrequest += (size_t)n;
    for (;;) {
        char *end = memchr(reader->request, '\n', reader->nrequest);
        size_t len;

        if (!end)
            break;
        len = (size_t)(end - reader->request);
        if (take_request(reader, reader->request, len) < 0) {
            drop(reader);
            return;
        }
        if (uv_is_closing((uv_handle_t *)stream))
            return;
        reader->nrequest -= len + 1;
        memmove(reader->request, end + 1, reader->nrequest);
    }
    if (reader->nrequest == sizeof(reader->request))
        drop(reader);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct reader *reader = (struct reader *)handle;

    (void)suggested;
    *buf = uv_buf_init(reader->request + reader->nrequest,
                       (unsigned)(sizeof(reader->request) - reader->nrequest));
}

/* Root and the run's own user; the socket's mode says the same. */
static bool may_read(const struct reader *reader)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    uv_os_fd_t fd;

    return uv_fileno((const uv_handle_t *)&reader->pipe, &fd) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct watch_server *server = stream->data;
    struct reader *reader = status == 0 ? calloc(1, sizeof(*reader)) : NULL;
    size_t free_at = 0;

    if (!reader)
        return;
    reader->server = server;
    if (uv_pipe_init(stream->loop, &reader->pipe, 0) != 0) {
        free(reader);
        return;
    }
    server->nhandles++;
    while (free_at < WATCH_READERS_MAX && server->readers[free_at])
        free_at++;
    if (free_at < WATCH_READERS_MAX)
        server->readers[free_at] = reader;
    if (uv_accept(stream, (uv_stream_t *)&reader->pipe) != 0 || free_at == WATCH_READERS_MAX ||
        server->ending || !may_read(reader) ||
        uv_read_start((uv_stream_t *)&reader->pipe, give_room, on_read) != 0)
        drop(reader);
}

/* --- the run's side --- */

/* As --json prints them, the wide stream only to those who want it. */
static void take(struct vt_sink *sink, const struct vt_event *event)
{
    struct watch_server *server = (struct watch_server *)sink;
    bool wide = vt_event_type_is_wide(event->type);
    bool wanted = !wide;

    for (size_t i = 0; i < WATCH_READERS_MAX; i++)
        wanted = wanted || (server->readers[i] && server->readers[i]->events);
    if (!wanted)
        return;
    vt_buf_reset(&server->line);
    vt_event_write_json(event, &server->line);
    vt_buf_adds(&server->line, "\n");
    if (server->line.failed)
        return;
    if (!wide)
        keep(server, server->line.data, server->line.len);
    for (size_t i = 0; i < WATCH_READERS_MAX; i++) {
        struct reader *reader = server->readers[i];

        if (reader && reader->asked && (!wide || reader->events))
            send_to(reader, server->line.data, server->line.len);
    }
}

struct vt_sink *watch_server_sink(struct watch_server *server)
{
    return &server->sink;
}

void watch_server_show(struct watch_server *server, const struct watch_view *view)
{
    vt_buf_reset(&server->line);
    watch_view_write(view, &server->line);
    vt_buf_adds(&server->line, "\n");
    for (size_t i = 0; i < WATCH_READERS_MAX && !server->line.failed; i++) {
        struct reader *reader = server->readers[i];

        if (reader && reader->asked && !reader->events)
            send_to(reader, server->line.data, server->line.len);
    }
}

static void on_patience(uv_timer_t *timer)
{
    struct watch_server *server = timer->data;

    for (size_t i = 0; i < WATCH_READERS_MAX; i++)
        if (server->readers[i])
            drop(server->readers[i]);
}

void watch_server_end(struct watch_server *server, const char *lines, size_t len)
{
    if (!server || server->ending)
        return;
    server->ending = true;
    close_own(server, (uv_handle_t *)&server->pipe);
    uv_timer_start(&server->patience, on_patience, END_PATIENCE_MS, 0);
    for (size_t i = 0; i < WATCH_READERS_MAX; i++) {
        struct reader *reader = server->readers[i];

        if (reader && reader->asked && len > 0)
            send_to(reader, lines, len);
        else if (reader)
            drop(reader);
    }
    end_if_alone(server);
}

/* --- open --- */

static int listen_at(struct watch_server *server, const char *folder, struct vt_error *err)
{
    struct sockaddr_un address;
    VT_AUTO_CLOSE int folder_fd = -1;
    VT_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before;
    int r = watch_address(folder, &address, &folder_fd, err);

    if (r < 0)
        return r;
    before = umask(0177); /* the file has its mode from the first moment on */
    r = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address));
    umask(before);
    if (r < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make the socket %s/" WATCH_SOCKET,
                              folder);
    if (uv_pipe_open(&server->pipe, fd) != 0)
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "follow the socket %s/" WATCH_SOCKET, folder);
    vt_take_fd(fd);
    if (uv_listen((uv_stream_t *)&server->pipe, WATCH_READERS_MAX, on_connection) != 0)
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "listen at %s/" WATCH_SOCKET, folder);
    return 0;
}

int watch_server_open(struct vt_loop *loop, const char *folder, const char *run, const char *what,
                      int64_t start_ns, void (*interrupt)(void *ctx, bool now), void *ctx,
                      struct watch_server **ret, struct vt_error *err)
{
    struct watch_server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return vt_error_no_memory(err, "let others follow the run");
    *server = (struct watch_server){.sink = {.take = take},
                                    .start_ns = start_ns,
                                    .interrupt = interrupt,
                                    .ctx = ctx,
                                    .nhandles = 2,
                                    .line = VT_BUF_INIT(WATCH_LINE_BYTES)};
    vt_text_copy(server->run, sizeof(server->run), run);
    vt_text_copy(server->what, sizeof(server->what), what);
    uv_pipe_init(&loop->uv, &server->pipe, 0);
    uv_timer_init(&loop->uv, &server->patience);
    server->pipe.data = server->patience.data = server;
    r = listen_at(server, folder, err);
    if (r < 0) {
        watch_server_end(server, "", 0);
        return r;
    }
    *ret = server;
    return 0;
}
