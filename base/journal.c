/* SPDX-License-Identifier: Apache-2.0 */
#include "base/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/journal_entries.h"
#include "base/point.h"
#include "base/scope.h"
#include "base/text.h"

/* How often the file may be replaced under us between open and lock. */
#define OPEN_TRIES 10
#define INTENT_BYTES_MAX (VT_JOURNAL_BYTES_MAX / 4 * 3)

struct vt_journal {
    char *path;
    int fd; /* -1: opened for reading only */
    size_t size;
    bool dirty;  /* written since the last sync */
    bool broken; /* the file may differ from what we know */
    struct vt_journal_entries entries;
};

void (*vt_journal_step_hook)(const char *step);

VT_POINT void vt_journal_point(const char *name)
{
    __asm__ volatile("" : : "r"(name) : "memory");
    if (vt_journal_step_hook)
        vt_journal_step_hook(name);
}

/* --- writing --- */

static int check_usable(const struct vt_journal *journal, struct vt_error *err)
{
    if (journal->fd < 0)
        return vt_error_set(err, VT_KIND_INFRA, -EBADF, "journal %s: opened for reading only",
                            journal->path);
    if (journal->broken)
        return vt_error_set(err, VT_KIND_INFRA, -EIO,
                            "journal %s: an earlier write failed; run `vtile clean`",
                            journal->path);
    return 0;
}

/* All of the line or nothing: what a full disk cuts off is taken back. */
static int append(struct vt_journal *journal, const struct vt_buf *line, size_t max,
                  struct vt_error *err)
{
    int r = vt_buf_check(line, journal->path, err);

    if (r < 0)
        return r;
    if (line->len > max || journal->size > max - line->len)
        return vt_error_set(err, VT_KIND_INFRA, -EFBIG, "journal %s: larger than %zu bytes",
                            journal->path, max);
    vt_journal_point("append");
    r = vt_file_write_all(journal->fd, line->data, line->len);
    if (r < 0) {
        if (ftruncate(journal->fd, (off_t)journal->size) < 0)
            journal->broken = true;
        return vt_error_errno(err, VT_KIND_INFRA, -r, "journal %s: append", journal->path);
    }
    journal->size += line->len;
    journal->dirty = true;
    vt_journal_point("appended");
    return 0;
}

int vt_journal_sync(struct vt_journal *journal, struct vt_error *err)
{
    int r = check_usable(journal, err);

    if (r < 0 || !journal->dirty)
        return r;
    vt_journal_point("sync");
    if (fdatasync(journal->fd) < 0) {
        /* The kernel has marked the lost pages clean: a second try would lie. */
        journal->broken = true;
        return vt_error_errno(err, VT_KIND_INFRA, errno, "journal %s: sync", journal->path);
    }
    journal->dirty = false;
    vt_journal_point("synced");
    return 0;
}

int vt_journal_intent(struct vt_journal *journal, const char *kind, const char *object,
                      const char *original, const char *value, uint64_t *ret_id,
                      struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf line = VT_BUF_INIT(VT_JOURNAL_LINE_MAX);
    struct vt_journal_entry entry = {.id = journal->entries.count + 1,
                                     .kind = kind,
                                     .object = object,
                                     .original = original,
                                     .value = value};
    int r = check_usable(journal, err);

    if (r < 0)
        return r;
    r = vt_journal_entries_add(&journal->entries, &entry, err);
    if (r < 0)
        return vt_error_wrap(err, "journal %s", journal->path);
    vt_journal_write_intent(&line, &entry);
    r = append(journal, &line, INTENT_BYTES_MAX, err);
    if (r < 0) {
        vt_journal_entries_drop_last(&journal->entries);
        return r;
    }
    *ret_id = entry.id;
    return 0;
}

int vt_journal_mark(struct vt_journal *journal, uint64_t id, enum vt_journal_state state,
                    const char *value, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf line = VT_BUF_INIT(VT_JOURNAL_LINE_MAX);
    VT_AUTO_FREE char *kept = NULL;
    struct vt_journal_item *item;
    int r = check_usable(journal, err);

    if (r < 0)
        return r;
    r = vt_journal_entries_check_mark(&journal->entries, id, state, value, &item, err);
    if (r < 0)
        return vt_error_wrap(err, "journal %s", journal->path);
    if (item->entry.state == VT_JOURNAL_UNDONE)
        return 0;
    if (value && !(kept = strdup(value)))
        return vt_error_no_memory(err, "journal %s", journal->path);
    vt_journal_write_mark(&line, id, state, value);
    r = append(journal, &line, VT_JOURNAL_BYTES_MAX, err);
    if (r < 0)
        return r;
    vt_journal_entries_mark(&journal->entries, item, state, vt_take_ptr(kept));
    return vt_journal_sync(journal, err);
}

/* --- opening --- */

/* Two locks: flock keeps others out, whatever else this process opens and closes; the record lock
 * is there because the kernel tells its holder's pid (F_GETLK). */
static int lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    if (fcntl(fd, F_SETLK, &whole) < 0 && errno != EAGAIN && errno != EACCES && errno != ENOLCK)
        return -errno;
    return 0;
}

static pid_t holder_of(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(fd, F_GETLK, &whole) < 0 || whole.l_type == F_UNLCK)
        return 0;
    return whole.l_pid > 0 ? whole.l_pid : 0;
}

static int busy(const char *path, int fd, struct vt_error *err)
{
    pid_t pid = holder_of(fd);

    if (pid > 0)
        return vt_error_set(err, VT_KIND_INFRA, -EBUSY, "journal %s: held by process %d", path,
                            (int)pid);
    return vt_error_set(err, VT_KIND_INFRA, -EBUSY, "journal %s: held already", path);
}

/* Root follows what it says: nobody else may have written it. */
static int check_owner(const char *path, int fd, struct stat *ret_st, struct vt_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "journal %s", path);
    if (!S_ISREG(st.st_mode))
        return vt_error_set(err, VT_KIND_INFRA, -EPERM, "journal %s: not a regular file", path);
    if (st.st_uid != geteuid())
        return vt_error_set(err, VT_KIND_INFRA, -EPERM, "journal %s: belongs to user %u, not to us",
                            path, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return vt_error_set(err, VT_KIND_INFRA, -EPERM,
                            "journal %s: writable by others (mode %03o)", path,
                            (unsigned)st.st_mode & 0777);
    *ret_st = st;
    return 0;
}

static int open_error(const char *path, int errnum, struct vt_error *err)
{
    if (errnum == ELOOP)
        return vt_error_set(err, VT_KIND_INFRA, -EPERM, "journal %s: a symbolic link", path);
    return vt_error_errno(err, VT_KIND_INFRA, errnum, "journal %s: open", path);
}

/* Opens and locks. 1: the file was replaced meanwhile, try again. */
static int open_locked(const char *path, int *ret_fd, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    struct stat st = {0}, now;
    int r;

    fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return open_error(path, errno, err);
    r = check_owner(path, fd, &st, err);
    if (r < 0)
        return r;
    r = lock(fd);
    if (r == -EWOULDBLOCK)
        return busy(path, fd, err);
    if (r < 0)
        return vt_error_errno(err, VT_KIND_INFRA, -r, "journal %s: lock", path);
    if (lstat(path, &now) < 0 || now.st_dev != st.st_dev || now.st_ino != st.st_ino)
        return 1;
    *ret_fd = vt_take_fd(fd);
    return 0;
}

static int read_file(const char *path, int fd, char **ret_data, size_t *ret_len,
                     struct vt_error *err)
{
    VT_AUTO_FREE char *data = NULL;
    struct stat st;
    size_t len = 0, size;

    if (fstat(fd, &st) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "journal %s", path);
    if (st.st_size > (off_t)VT_JOURNAL_BYTES_MAX)
        return vt_error_set(err, VT_KIND_REFUSED, -EFBIG, "journal %s: larger than %u bytes", path,
                            VT_JOURNAL_BYTES_MAX);
    size = (size_t)st.st_size;
    data = malloc(size + 1);
    if (!data)
        return vt_error_no_memory(err, "journal %s", path);
    while (len < size) {
        ssize_t n = pread(fd, data + len, size - len, (off_t)len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "journal %s: read", path);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    *ret_data = vt_take_ptr(data);
    *ret_len = len;
    return 0;
}

static int load(struct vt_journal *journal, int fd, size_t *ret_len, struct vt_error *err)
{
    VT_AUTO_FREE char *data = NULL;
    int r = read_file(journal->path, fd, &data, ret_len, err);

    if (r < 0)
        return r;
    return vt_journal_replay(&journal->entries, journal->path, data, *ret_len, &journal->size, err);
}

/* Removes a cut tail, writes the first line where there is none, and makes both last. */
static int make_ready(struct vt_journal *journal, size_t len, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf head = VT_BUF_INIT(64);
    bool fresh = journal->size == 0;
    int r = 0;

    if (len > journal->size) {
        if (ftruncate(journal->fd, (off_t)journal->size) < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "journal %s: remove its cut tail",
                                  journal->path);
        journal->dirty = true;
    }
    if (fresh) {
        vt_journal_write_head(&head);
        r = append(journal, &head, INTENT_BYTES_MAX, err);
    }
    if (r == 0)
        r = vt_journal_sync(journal, err);
    if (r == 0 && fresh)
        r = vt_file_sync_folder_of(journal->path, err);
    return r;
}

static struct vt_journal *new_journal(const char *path, struct vt_error *err)
{
    struct vt_journal *journal = calloc(1, sizeof(*journal));

    if (journal) {
        journal->fd = -1;
        journal->path = strdup(path);
    }
    if (!journal || !journal->path) {
        free(journal);
        vt_error_no_memory(err, "journal %s", path);
        return NULL;
    }
    return journal;
}

int vt_journal_open(const char *path, struct vt_journal **ret, struct vt_error *err)
{
    struct vt_journal *journal = new_journal(path, err);
    size_t len = 0;
    int r = 1;

    if (!journal)
        return -ENOMEM;
    for (int i = 0; r == 1 && i < OPEN_TRIES; i++)
        r = open_locked(path, &journal->fd, err);
    if (r == 1)
        r = vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "journal %s: replaced again and again", path);
    if (r == 0)
        r = load(journal, journal->fd, &len, err);
    if (r == 0)
        r = make_ready(journal, len, err);
    if (r < 0) {
        vt_journal_close(journal);
        return r;
    }
    *ret = journal;
    return 0;
}

int vt_journal_read(const char *path, struct vt_journal **ret, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    struct vt_journal *journal;
    struct stat st;
    size_t len;
    int r;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return open_error(path, errno, err);
    r = check_owner(path, fd, &st, err);
    if (r < 0)
        return r;
    journal = new_journal(path, err);
    if (!journal)
        return -ENOMEM;
    r = load(journal, fd, &len, err);
    if (r < 0) {
        vt_journal_close(journal);
        return r;
    }
    *ret = journal;
    return 0;
}

struct vt_journal *vt_journal_close(struct vt_journal *journal)
{
    if (!journal)
        return NULL;
    vt_journal_entries_dispose(&journal->entries);
    vt_scope_close(&journal->fd);
    free(journal->path);
    free(journal);
    return NULL;
}

size_t vt_journal_count(const struct vt_journal *journal)
{
    return journal->entries.count;
}

const struct vt_journal_entry *vt_journal_entry_at(const struct vt_journal *journal, size_t i)
{
    return i < journal->entries.count ? &journal->entries.items[i].entry : NULL;
}

bool vt_journal_all_undone(const struct vt_journal *journal)
{
    return journal->entries.undone == journal->entries.count;
}
