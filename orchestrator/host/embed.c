/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/embed.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/outer.h"
#include "orchestrator/state.h"

#define URI_BEGIN "qemu:///embed?root="
#define QEMU_USER "libvirt-qemu"
#define QEMU_USER_ID 64055 /* what Debian's libvirt-daemon-system takes */
#define KVM_DEVICE "/dev/kvm"
#define RUN_LIBVIRT "/run/libvirt"
#define RUN_MARK_NAME "made-by-vtile"
#define RUN_MARK RUN_LIBVIRT "/" RUN_MARK_NAME
#define USERS_MAX (4 << 20)
#define ORPHAN_PATIENCE_NS (3 * VT_NS_PER_S)
#define LOG_MAX_BYTES (1 << 20)

/* The VMs run as this process's user, without what only a daemon can give them: other users,
 * labels, namespaces, cgroups, virtlogd. Without cpu-unavailable-features libvirt reads which CPU
 * features a VM got as two bit fields; with it, by 400 questions to each QEMU, one a name. */
static const char qemu_conf[] = "user=\"root\"\n"
                                "group=\"root\"\n"
                                "dynamic_ownership=0\n"
                                "remember_owner=0\n"
                                "security_driver=\"none\"\n"
                                "namespaces=[]\n"
                                "cgroup_controllers=[]\n"
                                "stdio_handler=\"file\"\n"
                                "capability_filters=[\"cpu-unavailable-features\"]\n";

static int below(const struct embed *embed, const char *name, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/%s", embed->root, name);

    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Replaces path as a whole. */
static int write_file(const char *path, const void *data, size_t len, mode_t mode,
                      struct vt_error *err)
{
    char temporary[VT_PATH_MAX + 8];

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    VT_AUTO_CLOSE int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len || fchmod(fd, mode) < 0 ||
        rename(temporary, path) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "write %s", path);
    return 0;
}

/* ---- lock ---- */

static void read_holder(int fd, struct embed_holder *ret)
{
    char line[64] = "";
    ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
    int pid = 0;

    memset(ret, 0, sizeof(*ret));
    if (n > 0 && sscanf(line, "%d %32s", &pid, ret->run) >= 1)
        ret->pid = pid;
    if (ret->pid <= 0)
        ret->pid = -1; /* locked, its writer not yet done */
}

static bool is_same_file(int fd, const char *path)
{
    struct stat ours, named;

    return fstat(fd, &ours) == 0 && stat(path, &named) == 0 && ours.st_ino == named.st_ino &&
           ours.st_dev == named.st_dev;
}

static int busy(int fd, const char *root, struct vt_error *err)
{
    struct embed_holder holder;

    read_holder(fd, &holder);
    if (holder.pid < 0)
        return vt_error_set(err, VT_KIND_INFRA, -EBUSY,
                            "the embedded host %s is in use by another vtile", root);
    return vt_error_set(err, VT_KIND_INFRA, -EBUSY,
                        "the embedded host %s is in use by run %s (pid %d): wait for it "
                        "(`vtile watch` follows it, `vtile attach` can end it)",
                        root, holder.run[0] ? holder.run : "?", (int)holder.pid);
}

/* The holder is dead, but a child that it had just forked has the lock until it calls exec. */
static bool is_orphaned(int fd)
{
    int saved = errno;
    struct embed_holder holder;

    read_holder(fd, &holder);
    bool dead = holder.pid > 0 && kill(holder.pid, 0) < 0 && errno == ESRCH;
    errno = saved;
    return dead;
}

/* A lock of the open file description, which a look (F_OFD_GETLK) does not disturb. */
static int take_lock(struct embed *embed, const char *run, struct vt_error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const struct timespec pause = {.tv_nsec = 10 * VT_NS_PER_MS};
    int64_t end_ns = vt_clock_now_ns() + ORPHAN_PATIENCE_NS;
    char path[VT_PATH_MAX], line[64];

    below(embed, "vtile.lock", path, sizeof(path));
    for (;;) {
        VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return vt_error_errno(err, VT_KIND_CONFIG, errno, "open %s", path);
        if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
            if ((errno == EAGAIN || errno == EACCES) && is_orphaned(fd) &&
                vt_clock_now_ns() < end_ns) {
                nanosleep(&pause, NULL);
                continue;
            }
            if (errno == EAGAIN || errno == EACCES)
                return busy(fd, embed->root, err);
            return vt_error_errno(err, VT_KIND_INFRA, errno, "lock %s", path);
        }
        /* The holder before us removes the file as it goes: then ours is nobody's. */
        if (!is_same_file(fd, path))
            continue;
        int n = snprintf(line, sizeof(line), "%d %.32s\n", (int)getpid(), run ? run : "?");
        if (ftruncate(fd, 0) < 0 || pwrite(fd, line, (size_t)n, 0) != n)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "write %s", path);
        embed->lock_fd = vt_take_fd(fd);
        return 0;
    }
}

int embed_read_holder(const char *root, struct embed_holder *ret, struct vt_error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct embed_holder holder = {0};
    char path[VT_PATH_MAX];

    snprintf(path, sizeof(path), "%s/vtile.lock", root);
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno != ENOENT)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "open %s", path);
    if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "look at the lock of %s", path);
    if (fd >= 0 && lock.l_type != F_UNLCK)
        read_holder(fd, &holder);
    *ret = holder;
    return 0;
}

/* ---- folder ---- */

static int prepare(struct embed *embed, struct vt_error *err)
{
    char path[VT_PATH_MAX], log[VT_PATH_MAX + 16];
    struct stat info;
    int code;

    below(embed, "etc", path, sizeof(path));
    if ((code = state_make_folder(path, err)) < 0)
        return code;
    below(embed, "log", path, sizeof(path));
    if ((code = state_make_folder(path, err)) < 0)
        return code;
    below(embed, "etc/qemu.conf", path, sizeof(path));
    if ((code = write_file(path, qemu_conf, sizeof(qemu_conf) - 1, 0600, err)) < 0)
        return code;
    /* The driver talks to standard error unless told otherwise. */
    below(embed, "log/libvirt.log", path, sizeof(path));
    if (stat(path, &info) == 0 && info.st_size > LOG_MAX_BYTES && truncate(path, 0) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "empty %s", path);
    snprintf(log, sizeof(log), "3:file:%s", path);
    if (setenv("LIBVIRT_LOG_OUTPUTS", log, 0) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "set LIBVIRT_LOG_OUTPUTS");
    return 0;
}

int embed_open(const char *root, const char *run, struct embed *ret, struct vt_error *err)
{
    struct embed embed = {.lock_fd = -1, .outer_mnt_fd = -1, .run_fd = -1};
    int code;

    if (root[0] != '/' || strpbrk(root, "?&#%") || strlen(root) > EMBED_ROOT_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG,
                            "the embedded host's folder must be an absolute path of at most %d "
                            "bytes, since sockets stand in it, without ?, &, # or %%: '%s' has "
                            "%zu; set VTILE_STATE to a shorter one",
                            EMBED_ROOT_MAX, root, strlen(root));
    vt_text_copy(embed.root, sizeof(embed.root), root);
    snprintf(embed.uri, sizeof(embed.uri), URI_BEGIN "%s", embed.root);
    if ((code = state_make_folder(root, err)) < 0 || (code = take_lock(&embed, run, err)) < 0)
        return code;
    if ((code = prepare(&embed, err)) < 0) {
        embed_close(&embed);
        return vt_error_wrap(err, "prepare the embedded host");
    }
    embed.unstarted = embed_forget_unstarted(root);
    *ret = embed;
    return 0;
}

const char *embed_root_of(const char *uri)
{
    return strncmp(uri, URI_BEGIN, strlen(URI_BEGIN)) ? NULL : uri + strlen(URI_BEGIN);
}

/* ---- mount namespace ---- */

/* Puts a copy of file with one more line over it. */
static int cover(const struct embed *embed, const char *file, const char *name, const char *line,
                 struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(USERS_MAX);
    char copy[VT_PATH_MAX];
    int code = vt_file_read(file, VT_KIND_INFRA, &text, err);

    if (code < 0)
        return code;
    if (text.len && text.data[text.len - 1] != '\n')
        vt_buf_adds(&text, "\n");
    vt_buf_adds(&text, line);
    below(embed, name, copy, sizeof(copy));
    if ((code = vt_buf_check(&text, file, err)) < 0 ||
        (code = write_file(copy, text.data, text.len, 0644, err)) < 0)
        return code;
    if (mount(copy, file, NULL, MS_BIND, NULL) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "mount %s over %s", copy, file);
    return 0;
}

static int cover_users(const struct embed *embed, struct vt_error *err)
{
    bool no_user = !getpwnam(QEMU_USER), no_group = !getgrnam(QEMU_USER);
    unsigned id = QEMU_USER_ID;
    char line[96];
    int code = 0;

    while (getpwuid(id) || getgrgid(id))
        id++;
    if (no_user) {
        snprintf(line, sizeof(line), QEMU_USER ":x:%u:%u::/nonexistent:/usr/sbin/nologin\n", id,
                 id);
        code = cover(embed, "/etc/passwd", "etc/passwd", line, err);
    }
    if (code == 0 && no_group) {
        snprintf(line, sizeof(line), QEMU_USER ":x:%u:\n", id);
        code = cover(embed, "/etc/group", "etc/group", line, err);
    }
    return code;
}

/* A KVM that runs nothing is hidden from the driver behind a file that root cannot write either
 * (read-only mount): it would offer it, and on CPUs whose CPUID differs from core to core it takes
 * its cached answers for outdated whenever its thread has moved, and asks the emulators again. */
static int cover_kvm(const struct embed *embed, struct vt_error *err)
{
    char path[VT_PATH_MAX];
    int code;

    if (access(KVM_DEVICE, F_OK) < 0 || host_kvm_runs(KVM_DEVICE, NULL, 0))
        return 0;
    below(embed, "etc/no-kvm", path, sizeof(path));
    code = write_file(path, "", 0, 0400, err);
    if (code < 0)
        return code;
    if (mount(path, KVM_DEVICE, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, KVM_DEVICE, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "hide " KVM_DEVICE);
    return 0;
}

/* Makes /run/libvirt where it is missing, with a mark in it that says so, and holds a shared lock
 * on it as long as it is covered here: removing it would take the cover away. */
static int hold_run_libvirt(struct embed *embed, struct vt_error *err)
{
    struct stat info;

    for (;;) {
        if (mkdir(RUN_LIBVIRT, 0755) == 0) {
            int mark = open(RUN_MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            if (mark < 0 && errno == ENOENT)
                continue;
            if (mark < 0 || close(mark) < 0)
                return vt_error_errno(err, VT_KIND_INFRA, errno, "write " RUN_MARK);
        } else if (errno != EEXIST) {
            return vt_error_errno(err, VT_KIND_INFRA, errno, "make the folder " RUN_LIBVIRT);
        }
        VT_AUTO_CLOSE int fd = open(RUN_LIBVIRT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0 || flock(fd, LOCK_SH) < 0 || fstat(fd, &info) < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "lock " RUN_LIBVIRT);
        if (info.st_nlink == 0) /* removed by its last user before we had the lock */
            continue;
        embed->run_fd = vt_take_fd(fd);
        return 0;
    }
}

static int remove_run_libvirt(void *ctx)
{
    int fd = open(RUN_LIBVIRT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)ctx;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(fd, RUN_MARK_NAME, 0) == 0)
        rmdir(RUN_LIBVIRT); /* not empty: libvirt's daemon uses it by now */
    if (fd >= 0)
        close(fd);
    return 0;
}

int embed_enter(struct embed *embed, struct vt_error *err)
{
    char run[VT_PATH_MAX];
    int code;

    below(embed, "run-libvirt", run, sizeof(run));
    if ((code = outer_check_alone(err)) < 0 || (code = state_make_folder(run, err)) < 0 ||
        (code = hold_run_libvirt(embed, err)) < 0)
        return code;
    embed->outer_mnt_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (embed->outer_mnt_fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open /proc/self/ns/mnt");
    if (unshare(CLONE_NEWNS) < 0) {
        code = vt_error_errno(err, VT_KIND_CONFIG, errno,
                              "make a mount namespace for the embedded host (run as root)");
        close(embed->outer_mnt_fd);
        embed->outer_mnt_fd = -1;
        return code;
    }
    /* What the machine mounts still arrives here, nothing of ours goes there. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "keep our mounts to ourselves");
    if (mount(run, RUN_LIBVIRT, NULL, MS_BIND, NULL) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "mount %s over " RUN_LIBVIRT, run);
    code = cover_users(embed, err);
    return code < 0 ? code : cover_kvm(embed, err);
}

void embed_outer_uri(const struct embed *embed, const char *uri, char *ret, size_t size)
{
    static const char *const sockets[] = {"virtqemud-sock", "libvirt-sock"};
    char path[64];

    snprintf(ret, size, "%s", uri);
    if (!embed->root[0] || embed->outer_mnt_fd < 0 || strcmp(uri, "qemu:///system") != 0)
        return;
    for (size_t i = 0; i < VT_COUNT(sockets); i++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", embed->run_fd, sockets[i]);
        if (host_daemon_answers(path)) {
            snprintf(ret, size, "qemu+unix:///system?socket=%s", path);
            return;
        }
    }
}

/* ---- what is below the folder ---- */

pid_t embed_domain_pid(const char *root, const char *domain)
{
    char path[VT_PATH_MAX], text[32] = "";
    int64_t pid;

    snprintf(path, sizeof(path), "%s/run/qemu/%s.pid", root, domain);
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return 0;
    text[strcspn(text, "\n")] = 0;
    return vt_text_parse_int(text, 1, INT32_MAX, &pid, NULL) == 0 ? (pid_t)pid : 0;
}

/* libvirt keeps its answers under the SHA-256 of the binary's path, with the binary's ctime inside
 * (virFileCache, virQEMUCapsIsValid). */
bool embed_cache_is_cold(const char *root, const char *emulator)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1], path[VT_PATH_MAX], wanted[64], head[512] = "";
    struct stat binary;

    if (stat(emulator, &binary) < 0 ||
        !EVP_Digest(emulator, strlen(emulator), digest, &len, EVP_sha256(), NULL))
        return true;
    vt_text_hex(digest, len, hex);
    snprintf(path, sizeof(path), "%s/cache/qemu/capabilities/%s.xml", root, hex);
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, head, sizeof(head) - 1) <= 0)
        return true;
    snprintf(wanted, sizeof(wanted), "<qemuctime>%jd</qemuctime>", (intmax_t)binary.st_ctime);
    return !strstr(head, wanted);
}

/* The driver leaves its pid file when its last connection closes. A virsh that has the folder open
 * keeps its own. */
static void remove_driver_pid(const struct embed *embed)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[VT_PATH_MAX];

    below(embed, "run/qemu/driver.pid", path, sizeof(path));
    VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK)
        unlink(path);
}

void embed_close(struct embed *embed)
{
    char path[VT_PATH_MAX];

    if (!embed->root[0] || embed->lock_fd < 0)
        return;
    embed_end_probes(embed->root); /* of a driver that was given up while it waited for one */
    remove_driver_pid(embed);
    if (embed->run_fd >= 0)
        close(embed->run_fd);
    embed->run_fd = -1;
    outer_run(embed->outer_mnt_fd, remove_run_libvirt, NULL);
    /* Removed before it is unlocked: a later opener sees that its file is another. */
    below(embed, "vtile.lock", path, sizeof(path));
    unlink(path);
    close(embed->lock_fd);
    embed->lock_fd = -1;
    if (embed->outer_mnt_fd >= 0)
        close(embed->outer_mnt_fd);
    embed->outer_mnt_fd = -1;
}
