/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

#include "base/record_rows.h"
#include "base/scope.h"
#include "wire/message.h"

#define PIECE_BYTES (64 << 10)
#define QUEUED_MAX (512U << 10)
#define KERNEL_BYTES_MAX (1 << 20)
/* syslog(2) */
#define SYSLOG_READ_ALL 3
#define SYSLOG_SIZE_BUFFER 10

static void tell(struct logs *l, const char *name, bool cut)
{
    json_array_append_new(l->told, json_pack("{s:s, s:I, s:b}", "name", name, "bytes",
                                             (json_int_t)l->sent, "cut", cut));
    l->sent = 0;
}

static bool send_some_bytes(struct uplink *uplink, uint16_t stream, const char *name,
                            const void *data, size_t len)
{
    VT_AUTO_BUF struct vt_buf payload = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    if (wire_log_write(&payload, name, data, len, NULL) < 0)
        return false;
    uplink_send(uplink, WIRE_LOG, stream, payload.data, payload.len);
    return true;
}

void logs_send_bytes(struct uplink *uplink, uint16_t stream, const char *name, const void *data,
                     size_t len)
{
    for (size_t at = 0; at < len; at += PIECE_BYTES)
        send_some_bytes(uplink, stream, name, (const char *)data + at,
                        len - at < PIECE_BYTES ? len - at : PIECE_BYTES);
}

static void send_piece(struct logs *l, const char *name, const char *data, size_t len)
{
    if (send_some_bytes(l->uplink, l->stream, name, data, len))
        l->sent += (int64_t)len;
}

static void send_kernel(struct logs *l)
{
    int size = klogctl(SYSLOG_SIZE_BUFFER, NULL, 0);
    if (size <= 0)
        return; /* not allowed here */
    if (size > KERNEL_BYTES_MAX)
        size = KERNEL_BYTES_MAX;
    VT_AUTO_FREE char *text = malloc((size_t)size);
    int n = text ? klogctl(SYSLOG_READ_ALL, text, size) : -1;
    bool cut = n > l->max_bytes;
    if (cut)
        n = (int)l->max_bytes;
    for (int at = 0; at < n; at += PIECE_BYTES)
        send_piece(l, "kernel", text + at, (size_t)(n - at < PIECE_BYTES ? n - at : PIECE_BYTES));
    if (n > 0)
        tell(l, "kernel", cut);
}

/* What check has left in dir, by role.h's names. */
static void find_kept(struct logs *l)
{
    DIR *dir = opendir(l->dir);
    const struct dirent *entry;
    while (dir && l->nkept < LOGS_KEPT_MAX && (entry = readdir(dir))) {
        size_t len = strlen(entry->d_name), head = strlen(VT_RECORD_KEPT),
               tail = strlen(VT_RECORD_BITS);
        if (len > head + tail && strncmp(entry->d_name, VT_RECORD_KEPT, head) == 0 &&
            strcmp(entry->d_name + len - tail, VT_RECORD_BITS) == 0 && wire_name_ok(entry->d_name))
            vt_text_copy(l->kept[l->nkept++], sizeof l->kept[0], entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static bool open_file(struct logs *l, const char *name, const char *file, int64_t limit)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", l->dir, file);
    l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (l->fd < 0)
        return false;
    vt_text_copy(l->name, sizeof l->name, name);
    l->limit = limit;
    return true;
}

/* The next log that exists; false when there is none left. */
static bool open_next(struct logs *l)
{
    bool opened = false;
    while (!opened && l->log && l->log->name) {
        opened = open_file(l, l->log->name, l->log->file, l->max_bytes);
        l->log++;
    }
    while (!opened && l->next_kept < l->nkept) {
        const char *name = l->kept[l->next_kept++];
        opened = open_file(l, name, name, LOGS_KEPT_BYTES_MAX);
    }
    return opened;
}

/* False when that file is done. */
static bool send_some(struct logs *l)
{
    static char piece[PIECE_BYTES];
    int64_t room = l->limit - l->sent;
    ssize_t n = room > 0 ? read(l->fd, piece, room < PIECE_BYTES ? (size_t)room : PIECE_BYTES) : 0;
    if (n > 0) {
        send_piece(l, l->name, piece, (size_t)n);
        return true;
    }
    bool cut = room <= 0 && read(l->fd, piece, 1) == 1;
    close(l->fd);
    l->fd = -1;
    tell(l, l->name, cut);
    return false;
}

void logs_go_on(struct logs *l)
{
    if (l->stream == 0)
        return;
    while (uplink_is_up(l->uplink) && uplink_queued(l->uplink) < QUEUED_MAX) {
        if (l->fd >= 0) {
            send_some(l);
        } else if (!open_next(l)) {
            json_t *result = json_pack("{s:O}", "logs", l->told);
            uplink_reply(l->uplink, l->stream, result, NULL);
            logs_stop(l);
            return;
        }
    }
}

int logs_start(struct logs *l, struct uplink *uplink, uint16_t stream, const struct role_log *list,
               const char *dir, int64_t max_bytes, struct vt_error *err)
{
    if (l->stream != 0)
        return vt_error_set(err, VT_KIND_INFRA, -EBUSY, "logs are being sent already");
    *l = (struct logs){.uplink = uplink,
                       .log = list,
                       .dir = dir,
                       .stream = stream,
                       .max_bytes = max_bytes,
                       .fd = -1,
                       .told = json_array()};
    find_kept(l);
    send_kernel(l);
    logs_go_on(l);
    return 0;
}

void logs_stop(struct logs *l)
{
    if (l->stream == 0)
        return;
    if (l->fd >= 0)
        close(l->fd);
    json_decref(l->told);
    *l = (struct logs){.fd = -1};
}
