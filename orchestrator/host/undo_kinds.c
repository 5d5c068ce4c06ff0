/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/undo_kinds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "orchestrator/host/outer.h"
#include "orchestrator/host/rtnl.h"

#define NETNS_PREFIX "/run/netns/vt-"
#define TREE_DEPTH_MAX 32
#define END_TIMEOUT_MS 10000

/* Entries come from a file: a path in one must be absolute and without a way up. */
static int check_path(const struct vt_journal_entry *entry, struct vt_error *err)
{
    const char *path = entry->object;

    if (path[0] == '/' && path[1] && !strstr(path, "/../") &&
        (strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0))
        return 0;
    return vt_error_refuse(err, "'%s' is no path to remove", path);
}

/* ---- netns ---- */

static int remove_name(void *ctx)
{
    const char *path = ctx;

    while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
        ;
    if (errno != EINVAL && errno != ENOENT)
        return -errno;
    return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

int undo_netns(const struct undo_context *context, const struct vt_journal_entry *entry,
               struct vt_error *err)
{
    char path[VT_JOURNAL_OBJECT_MAX + 1];

    if (strncmp(entry->object, NETNS_PREFIX, strlen(NETNS_PREFIX)) != 0 ||
        strchr(entry->object + strlen(NETNS_PREFIX), '/'))
        return vt_error_refuse(err, "'%s' is no namespace of ours", entry->object);
    snprintf(path, sizeof(path), "%s", entry->object);
    int code = outer_run(context->outer_mnt_fd, remove_name, path);
    if (context->outer_mnt_fd > 0) /* our copy of the mount, which keeps the namespace too */
        umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    if (code < 0)
        return vt_error_errno(err, VT_KIND_INFRA, -code, "remove the namespace %s", path);
    return 0;
}

/* ---- bridge, tap ---- */

static bool is_namespace(const char *path)
{
    struct statfs info;

    return statfs(path, &info) == 0 && info.f_type == NSFS_MAGIC;
}

int undo_link(const struct undo_context *context, const struct vt_journal_entry *entry,
              struct vt_error *err)
{
    const char *kind = !strcmp(entry->kind, UNDO_BRIDGE) ? "bridge" : "tun";
    struct rtnl_link link;

    (void)context;
    if (entry->value[0] && !is_namespace(entry->value)) /* with it all its links went */
        return 0;
    VT_AUTO_CLOSE int fd = entry->value[0] ? rtnl_open_in(entry->value) : rtnl_open();
    int code = fd < 0 ? fd : rtnl_get(fd, entry->object, &link);
    if (code == 0 && !strcmp(link.kind, kind))
        code = rtnl_delete(fd, link.index);
    if (code < 0 && code != -ENODEV)
        return vt_error_errno(err, VT_KIND_INFRA, -code, "remove the %s %s%s%s", entry->kind,
                              entry->object, entry->value[0] ? " in " : "", entry->value);
    return 0;
}

/* ---- file, folder, tree ---- */

int undo_file(const struct undo_context *context, const struct vt_journal_entry *entry,
              struct vt_error *err)
{
    int code = check_path(entry, err);

    (void)context;
    if (code < 0)
        return code;
    if (entry->original[0])
        return vt_error_set(err, VT_KIND_INFRA, -ENOTSUP,
                            "%s had contents before; putting them back is not possible",
                            entry->object);
    if (unlink(entry->object) < 0 && errno != ENOENT && errno != ENOTDIR)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "remove the file %s", entry->object);
    return 0;
}

int undo_folder(const struct undo_context *context, const struct vt_journal_entry *entry,
                struct vt_error *err)
{
    int code = check_path(entry, err);

    (void)context;
    if (code < 0)
        return code;
    /* Not empty or a mount point: others use it by now. */
    if (rmdir(entry->object) < 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST &&
        errno != EBUSY)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "remove the folder %s", entry->object);
    return 0;
}

static int empty_folder(int parent, const char *name, dev_t device, unsigned depth);

static int remove_at(int folder, const char *name, dev_t device, unsigned depth)
{
    struct stat info;

    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(info.st_mode))
        return unlinkat(folder, name, 0) < 0 && errno != ENOENT ? -errno : 0;
    if (info.st_dev != device)
        return -EXDEV; /* something is mounted there: not ours */
    int code = empty_folder(folder, name, device, depth);
    if (code == 0 && unlinkat(folder, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        code = -errno;
    return code;
}

static int empty_folder(int parent, const char *name, dev_t device, unsigned depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int code = 0;

    if (!folder) {
        code = errno == ENOENT ? 0 : -errno;
        if (fd >= 0)
            close(fd);
        return code;
    }
    while (code == 0 && (errno = 0, entry = readdir(folder))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        code = depth == 0 ? -ELOOP : remove_at(dirfd(folder), entry->d_name, device, depth - 1);
    }
    if (code == 0 && !entry && errno)
        code = -errno;
    closedir(folder);
    return code;
}

int undo_tree(const struct undo_context *context, const struct vt_journal_entry *entry,
              struct vt_error *err)
{
    struct stat info;
    int code = check_path(entry, err);

    (void)context;
    if (code < 0)
        return code;
    if (!strchr(entry->object + 1, '/'))
        return vt_error_refuse(err, "'%s' stands in the root folder: not removed", entry->object);
    if (lstat(entry->object, &info) < 0) {
        code = errno == ENOENT ? 0 : -errno;
    } else if (!S_ISDIR(info.st_mode)) {
        code = -ENOTDIR;
    } else {
        code = empty_folder(AT_FDCWD, entry->object, info.st_dev, TREE_DEPTH_MAX);
        if (code == 0 && rmdir(entry->object) < 0 && errno != ENOENT)
            code = -errno;
    }
    if (code < 0)
        return vt_error_errno(err, VT_KIND_INFRA, -code, "remove the folder %s with its contents",
                              entry->object);
    return 0;
}

/* ---- process ---- */

/* Field 22 of /proc/<pid>/stat, in ticks since boot; the second field may hold spaces and ')'. */
static int read_start_time(pid_t pid, uint64_t *ret)
{
    char path[64], text[1024];
    VT_AUTO_CLOSE int fd = -1;
    unsigned field = 2;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return -ESRCH;
    text[n] = 0;
    const char *at = strrchr(text, ')');
    while (at && field < 22) {
        at = strchr(at + 1, ' ');
        field++;
    }
    return at && sscanf(at, "%" SCNu64, ret) == 1 ? 0 : -ESRCH;
}

int undo_process_value(pid_t pid, char *value, size_t size)
{
    uint64_t start;
    int code = read_start_time(pid, &start);

    if (code == 0)
        snprintf(value, size, "%d %" PRIu64, (int)pid, start);
    return code;
}

int undo_process(const struct undo_context *context, const struct vt_journal_entry *entry,
                 struct vt_error *err)
{
    uint64_t wanted, start;
    int pid, used = 0;

    (void)context;
    if (!entry->value[0]) /* never marked: it died with its parent */
        return 0;
    if (sscanf(entry->value, "%d %" SCNu64 "%n", &pid, &wanted, &used) != 2 || pid <= 1 ||
        entry->value[used])
        return vt_error_refuse(err, "'%s' is no pid and start time", entry->value);
    /* Looked at after the pidfd is open: then the signal reaches what was looked at. */
    VT_AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 || read_start_time(pid, &start) < 0 || start != wanted)
        return 0;
    struct pollfd gone = {.fd = fd, .events = POLLIN};
    if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "end %s (pid %d)", entry->object, pid);
    if (poll(&gone, 1, END_TIMEOUT_MS) != 1)
        return vt_error_set(err, VT_KIND_INFRA, -ETIMEDOUT, "%s (pid %d) does not end",
                            entry->object, pid);
    waitpid(pid, NULL, WNOHANG); /* where it is our own child */
    return 0;
}
