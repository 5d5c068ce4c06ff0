/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/watch/reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/domain.h"
#include "base/file.h"
#include "base/scope.h"
#include "orchestrator/watch/server.h"

#define RUN_DIGITS 12
#define LINE_MAX_BYTES (8U << 20) /* more than any line of a run */
#define READ_BYTES 65536
#define NAMES_MAX 256

/* --- finding it --- */

struct found {
    char run[16];
    unsigned n;
    char names[NAMES_MAX]; /* "1a2b3c4d5e6f 0123..." */
};

static bool has_socket(const char *runtime, const char *run)
{
    char path[VT_PATH_MAX + 64];
    struct stat info;

    snprintf(path, sizeof(path), "%s/%s/" WATCH_SOCKET, runtime, run);
    return stat(path, &info) == 0 && S_ISSOCK(info.st_mode);
}

static void look_at(struct found *found, const char *runtime, const char *entry, const char *name)
{
    size_t len = strlen(found->names);

    if (strlen(entry) != RUN_DIGITS || strspn(entry, "0123456789abcdef") != RUN_DIGITS ||
        (name && strncmp(entry, name, strlen(name)) != 0) || !has_socket(runtime, entry))
        return;
    found->n++;
    vt_text_copy(found->run, sizeof(found->run), entry);
    if (len + RUN_DIGITS + 2 < sizeof(found->names))
        snprintf(found->names + len, sizeof(found->names) - len, "%s%s", len ? " " : "", entry);
}

static int find(const char *runtime, const char *name, struct found *ret, struct vt_error *err)
{
    DIR *folder = opendir(runtime);
    const struct dirent *entry;

    if (!folder && errno != ENOENT)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "look for runs in %s", runtime);
    while (folder && (entry = readdir(folder)))
        look_at(ret, runtime, entry->d_name, name);
    if (folder)
        closedir(folder);
    if (ret->n == 1)
        return 0;
    if (ret->n > 1)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "%u runs go on here: name one of %s",
                            ret->n, ret->names);
    return vt_error_set(err, VT_KIND_CONFIG, -ENOENT,
                        "no run%s%s goes on here (%s); `vtile results list` has those that ended",
                        name ? " " : "", name ? name : "", runtime);
}

/* --- the connection --- */

static int connect_to(struct watch_reader *reader, const char *folder, struct vt_error *err)
{
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    VT_AUTO_CLOSE int folder_fd = -1;
    VT_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r = watch_address(folder, &address, &folder_fd, err);

    if (r < 0)
        return r;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return errno == ECONNREFUSED
                   ? vt_error_set(err, VT_KIND_CONFIG, -ECONNREFUSED,
                                  "run %s is dead; `vtile clean` removes what it left behind",
                                  reader->run)
                   : vt_error_errno(err, VT_KIND_CONFIG, errno, "connect to run %s", reader->run);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        (peer.uid != 0 && peer.uid != geteuid()))
        return vt_error_refuse(err, "run %s belongs to user %u", reader->run, (unsigned)peer.uid);
    reader->fd = vt_take_fd(fd);
    return 0;
}

static int ask(struct watch_reader *reader, const char *request, struct vt_error *err)
{
    int r = vt_file_write_all(reader->fd, request, strlen(request));

    return r < 0 ? vt_error_errno(err, VT_KIND_INFRA, -r, "write to run %s", reader->run) : 0;
}

int watch_reader_open(struct watch_reader *reader, const char *runtime, const char *name,
                      bool events, struct vt_error *err)
{
    struct found found = {0};
    char folder[VT_PATH_MAX + 32];
    int r;

    *reader = (struct watch_reader){.fd = -1, .in = VT_BUF_INIT(LINE_MAX_BYTES)};
    r = find(runtime, name, &found, err);
    if (r < 0)
        return r;
    vt_text_copy(reader->run, sizeof(reader->run), found.run);
    snprintf(folder, sizeof(folder), "%s/%s", runtime, found.run);
    r = connect_to(reader, folder, err);
    if (r == 0)
        r = ask(reader,
                events ? "{\"v\":1,\"type\":\"watch\",\"events\":true}\n"
                       : "{\"v\":1,\"type\":\"watch\",\"events\":false}\n",
                err);
    return r;
}

void watch_reader_close(struct watch_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    reader->fd = -1;
    vt_buf_dispose(&reader->in);
}

int watch_reader_interrupt(struct watch_reader *reader, bool now, struct vt_error *err)
{
    return ask(reader,
               now ? "{\"v\":1,\"type\":\"interrupt\",\"now\":true}\n"
                   : "{\"v\":1,\"type\":\"interrupt\",\"now\":false}\n",
               err);
}

int watch_reader_fill(struct watch_reader *reader, struct vt_error *err)
{
    char data[READ_BYTES];
    ssize_t n = read(reader->fd, data, sizeof(data));

    if (n < 0 && errno == EINTR)
        return 1;
    if (n < 0 && errno != ECONNRESET)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "read from run %s", reader->run);
    if (n <= 0)
        return 0;
    vt_buf_consume(&reader->in, reader->taken);
    reader->taken = 0;
    vt_buf_add(&reader->in, data, (size_t)n);
    return reader->in.failed ? vt_error_refuse(err, "run %s says too much in one line", reader->run)
                             : 1;
}

const char *watch_reader_line(struct watch_reader *reader, size_t *ret_len)
{
    const char *line = reader->in.data ? reader->in.data + reader->taken : NULL;
    const char *end = line ? memchr(line, '\n', reader->in.len - reader->taken) : NULL;

    if (!end)
        return NULL;
    *ret_len = (size_t)(end - line);
    reader->taken += *ret_len + 1;
    return line;
}

/* --- what it says --- */

bool watch_event_read(const json_t *message, struct vt_event *ret)
{
    const char *type = NULL, *level = "info";
    struct vt_event event = {0};

    if (vt_json_get_string(message, "type", &type, NULL) < 0 ||
        !vt_event_type_find(type, &event.type) ||
        vt_json_get_int(message, "time_ns", 0, INT64_MAX, &event.time_ns, NULL) < 0 ||
        vt_json_opt_string(message, "level", &level, NULL) < 0 ||
        vt_json_opt_string(message, "source", &event.source, NULL) < 0 ||
        vt_json_opt_string(message, "phase", &event.phase, NULL) < 0 ||
        vt_json_opt_string(message, "text", &event.text, NULL) < 0 ||
        vt_json_opt_int(message, "planned_ns", 0, INT64_MAX, &event.planned_ns, NULL) < 0)
        return false;
    event.level = !strcmp(level, "error")     ? VT_LEVEL_ERROR
                  : !strcmp(level, "warning") ? VT_LEVEL_WARNING
                                              : VT_LEVEL_INFO;
    *ret = event;
    return true;
}
