/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a killed driver leaves: QEMUs that no driver speaks for, folders, half-made status. A
 * process is told by its program and its arguments, read again through a pidfd, so that the signal
 * reaches what was looked at and nothing that took its number.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/undo.h"
#include "orchestrator/host/xml.h"

#define ARGUMENTS_MAX 65536
#define END_TIMEOUT_MS 10000

struct search {
    const char *uuid;   /* a whole argument, or NULL */
    const char *within; /* a part of an argument, or NULL */
    ino_t netns;        /* of the network namespace that it is in, or 0: an emulator anywhere */
    const pid_t *keep;
    size_t nkeep;
};

static bool program_is_qemu(pid_t pid)
{
    char link[64], target[PATH_MAX];

    snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n <= 0)
        return false;
    target[n] = 0;
    const char *name = strrchr(target, '/');
    return name && !strncmp(name + 1, "qemu-system-", strlen("qemu-system-"));
}

static bool arguments_match(pid_t pid, const struct search *search)
{
    char path[64];
    VT_AUTO_FREE char *text = calloc(1, ARGUMENTS_MAX + 1);
    ssize_t len = 0, n;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !text)
        return false;
    while (len < ARGUMENTS_MAX && (n = read(fd, text + len, (size_t)(ARGUMENTS_MAX - len))) > 0)
        len += n;
    for (const char *arg = text; arg < text + len; arg += strlen(arg) + 1)
        if ((search->uuid && !strcmp(arg, search->uuid)) ||
            (search->within && strstr(arg, search->within)))
            return true;
    return false;
}

bool embed_is_emulator(const char *root, pid_t pid)
{
    char folder[VT_PATH_MAX];

    snprintf(folder, sizeof(folder), "%s/", root);
    const struct search search = {.within = folder};
    return program_is_qemu(pid) && arguments_match(pid, &search);
}

static bool is_copy_in(pid_t pid, ino_t netns)
{
    char path[64];
    struct stat info, ours;

    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    if (pid == getpid() || stat(path, &info) < 0 || info.st_ino != netns)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    return stat(path, &info) == 0 && stat("/proc/self/exe", &ours) == 0 &&
           info.st_ino == ours.st_ino && info.st_dev == ours.st_dev;
}

static bool is_wanted(pid_t pid, const struct search *search)
{
    if (search->netns)
        return is_copy_in(pid, search->netns);
    for (size_t i = 0; i < search->nkeep; i++)
        if (search->keep[i] == pid)
            return false;
    return program_is_qemu(pid) && arguments_match(pid, search);
}

/* 1 when it ended, 0 when it was another or gone, -ETIMEDOUT. */
static int end(pid_t pid, const struct search *search)
{
    VT_AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd gone = {.fd = fd, .events = POLLIN};

    if (fd < 0 || !is_wanted(pid, search) || syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0))
        return 0;
    return poll(&gone, 1, END_TIMEOUT_MS) == 1 ? 1 : -ETIMEDOUT;
}

static int end_all(const struct search *search)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int ended = 0, failed = 0;

    if (!proc)
        return -errno;
    while ((entry = readdir(proc))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 1 || !is_wanted(pid, search))
            continue;
        int code = end(pid, search);
        if (code < 0)
            failed = code;
        else
            ended += code;
    }
    closedir(proc);
    return failed < 0 ? failed : ended;
}

int embed_end_uuid(const char *uuid)
{
    struct search search = {.uuid = uuid};

    return strlen(uuid) == 36 ? end_all(&search) : 0;
}

int embed_end_strays(const char *root, const pid_t *known, size_t nknown)
{
    char folder[VT_PATH_MAX];

    snprintf(folder, sizeof(folder), "%s/", root);
    const struct search search = {.within = folder, .keep = known, .nkeep = nknown};
    return end_all(&search);
}

int embed_end_probes(const char *root)
{
    char folder[VT_PATH_MAX];

    /* qemuProcessQMPInit: a socket in <root>/lib/qemu/qmp-XXXXXX */
    snprintf(folder, sizeof(folder), "%s/lib/qemu/qmp-", root);
    const struct search search = {.within = folder};
    return end_all(&search);
}

int embed_end_orphans(const char *netns_path)
{
    struct search search = {0};
    struct statfs kind;
    struct stat info;

    if (statfs(netns_path, &kind) < 0 || kind.f_type != NSFS_MAGIC || stat(netns_path, &info) < 0)
        return 0;
    search.netns = info.st_ino;
    return end_all(&search);
}

/* <domain><ending>: whether it belongs to a domain that is not there (any more). */
static bool is_stale(const char *root, char *name, const char *ending)
{
    size_t len = strlen(name);
    char path[VT_PATH_MAX];

    if (len <= strlen(ending) || strcmp(name + len - strlen(ending), ending) != 0 ||
        !strcmp(name, "driver.pid"))
        return false;
    name[len - strlen(ending)] = 0;
    snprintf(path, sizeof(path), "%s/run/qemu/%s.xml", root, name);
    pid_t pid = embed_domain_pid(root, name);
    name[len - strlen(ending)] = ending[0];
    return access(path, F_OK) < 0 && (pid <= 0 || !program_is_qemu(pid));
}

int embed_remove_stale(const char *root)
{
    char path[VT_PATH_MAX];
    struct dirent *entry;
    int n = 0;

    snprintf(path, sizeof(path), "%s/run/qemu", root);
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        if (is_stale(root, entry->d_name, ".pid") || is_stale(root, entry->d_name, ".xml.new"))
            n += unlinkat(dirfd(folder), entry->d_name, 0) == 0;
    if (folder)
        closedir(folder);
    return n;
}

/* libvirt names a domain's folders domain-<id>-<the first 20 bytes of its name>
 * (virDomainDefGetShortName). */
static void remove_folders(const char *root, const char *parent_name, const char *domain)
{
    const struct undo_context context = {0};
    char path[VT_PATH_MAX], ending[32];
    struct dirent *entry;

    snprintf(ending, sizeof(ending), "-%.20s", domain);
    snprintf(path, sizeof(path), "%s/%s", root, parent_name);
    DIR *parent = opendir(path);
    while (parent && (entry = readdir(parent))) {
        size_t len = strlen(entry->d_name);
        if (strncmp(entry->d_name, "domain-", 7) != 0 || len <= strlen(ending) ||
            strcmp(entry->d_name + len - strlen(ending), ending) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s/%s", root, parent_name, entry->d_name);
        const struct vt_journal_entry tree = {
            .kind = UNDO_TREE, .object = path, .original = "", .value = ""};
        undo_entry(&context, &tree, NULL);
    }
    if (parent)
        closedir(parent);
}

void embed_forget_domain(const char *root, const char *domain)
{
    char path[VT_PATH_MAX];

    snprintf(path, sizeof(path), "%s/log/qemu/%s.log", root, domain);
    unlink(path);
    snprintf(path, sizeof(path), "%s/run/qemu/%s.pid", root, domain);
    unlink(path);
    remove_folders(root, "lib/qemu", domain);
    remove_folders(root, "lib/qemu/channel/target", domain);
}

/* The first "<uuid>" of a status file is its domain's. */
static bool is_unstarted(const char *status, char uuid[37])
{
    const char *head = strstr(status, "<domstatus "), *at = strstr(status, "<uuid>");
    struct xml_mark mark;

    if (!head || !at || strlen(at) < 6 + 36 || xml_read_mark(status, &mark, NULL) != 1)
        return false;
    const char *end = strchr(head, '>'), *pid = strstr(head, " pid='0'");
    snprintf(uuid, 37, "%.36s", at + 6);
    return pid && end && pid < end;
}

int embed_forget_unstarted(const char *root)
{
    VT_AUTO_FREE char *status = malloc(XML_READ_MAX + 1);
    char path[VT_PATH_MAX], uuid[37];
    struct dirent *entry;
    int n = 0;

    snprintf(path, sizeof(path), "%s/run/qemu", root);
    DIR *folder = status ? opendir(path) : NULL;
    while (folder && (entry = readdir(folder))) {
        size_t len = strlen(entry->d_name);
        if (len <= 4 || strcmp(entry->d_name + len - 4, ".xml") != 0)
            continue;
        snprintf(path, sizeof(path), "%s/run/qemu/%s", root, entry->d_name);
        VT_AUTO_FCLOSE FILE *f = fopen(path, "re");
        size_t got = f ? fread(status, 1, XML_READ_MAX, f) : 0;
        status[got] = 0;
        if (!is_unstarted(status, uuid) || embed_end_uuid(uuid) < 0)
            continue;
        unlink(path);
        entry->d_name[len - 4] = 0;
        embed_forget_domain(root, entry->d_name);
        n++;
    }
    if (folder)
        closedir(folder);
    return n;
}
