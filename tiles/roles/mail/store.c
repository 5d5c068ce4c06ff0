/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/mail/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/scope.h"
#include "base/text.h"
#include "tiles/roles/kept_bits.h"
#include "tiles/roles/mail/mail.h"

#define WHOLE "whole" /* a file of dir: the call that made it came to its end */
#define UIDLIST_BYTES_MAX (64U + MAIL_COUNT_MAX * 64U)

/* A message's name without its flags. Its size on disk and over IMAP stand in it, so that the
 * server need not ask for them. */
static void message_name(uint32_t number, uint32_t bytes, char *name, size_t size)
{
    snprintf(name, size, "1704110400.G%u.vtile,S=%u,W=%u", number, bytes, bytes);
}

/* --- making --- */

struct maker {
    const char *dir;
    unsigned tile;
    uint64_t seed;
    uint32_t count;
    uid_t uid;
    gid_t gid;
};

static int make_folder(const struct maker *m, int at, const char *name, int *ret_fd,
                       struct vt_error *err)
{
    int fd;

    if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make mailbox folder %s", name);
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fchown(fd, m->uid, m->gid) < 0) {
        int code = errno;

        if (fd >= 0)
            close(fd);
        return vt_error_errno(err, VT_KIND_INFRA, code, "make mailbox folder %s", name);
    }
    *ret_fd = fd;
    return 0;
}

static int make_file(const struct maker *m, int at, const char *name, const void *data, size_t len,
                     struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int ret = fd < 0 ? -errno : vt_file_write_all(fd, data, len);

    if (ret == 0 && fchown(fd, m->uid, m->gid) < 0)
        ret = -errno;
    return ret < 0 ? vt_error_errno(err, VT_KIND_INFRA, -ret, "make mailbox file %s", name) : 0;
}

/* Dovecot's list of UIDs, version 3: validity, next UID, the mailbox's GUID, then a message a line.
 * With it the messages have the UIDs that mail.h states. */
static int make_uidlist(const struct maker *m, int box, uint32_t user, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(UIDLIST_BYTES_MAX);
    struct vt_rng rng;
    int ret;

    vt_rng_seed(&rng, m->seed, "mail/guid", user);
    vt_buf_printf(&text, "3 V%u N%u G%016" PRIx64 "%016" PRIx64 "\n", m->count, m->count + 1,
                  vt_rng_next(&rng), vt_rng_next(&rng));
    for (uint32_t i = 1; i <= m->count; i++) {
        char name[64];

        message_name(i, mail_bytes(user, i), name, sizeof(name));
        vt_buf_printf(&text, "%u :%s\n", i, name);
    }
    ret = vt_buf_check(&text, "list of UIDs", err);
    return ret < 0 ? ret : make_file(m, box, "dovecot-uidlist", text.data, text.len, err);
}

static int make_messages(const struct maker *m, int cur, uint32_t user, struct vt_error *err)
{
    struct mail_message message = {.tile = m->tile, .user = user, .seed = m->seed};
    uint8_t text[MAIL_BYTES_MAX];
    int ret = 0;

    for (uint32_t i = 1; ret == 0 && i <= m->count; i++) {
        char name[64], file[64];

        message.number = i;
        message.bytes = mail_bytes(user, i);
        mail_render(&message, text);
        message_name(i, message.bytes, name, sizeof(name));
        snprintf(file, sizeof(file), "%.60s:2,", name); /* no flags */
        ret = make_file(m, cur, file, text, message.bytes, err);
    }
    return ret;
}

static int make_mailbox(const struct maker *m, int dir, uint32_t user, struct vt_error *err)
{
    VT_AUTO_CLOSE int box = -1, cur = -1, new = -1, tmp = -1;
    char name[16];
    int ret;

    snprintf(name, sizeof(name), "user%04u", user);
    ret = make_folder(m, dir, name, &box, err);
    if (ret == 0)
        ret = make_folder(m, box, "cur", &cur, err);
    if (ret == 0)
        ret = make_folder(m, box, "new", &new, err);
    if (ret == 0)
        ret = make_folder(m, box, "tmp", &tmp, err);
    if (ret == 0)
        ret = make_messages(m, cur, user, err);
    return ret < 0 ? ret : make_uidlist(m, box, user, err);
}

/* 1 when dir was made whole by a call with the same arguments, 0 when it was not made whole. */
static int look_whole(const char *path, const char *wanted, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(256);
    int ret;

    if (access(path, F_OK) < 0)
        return 0;
    ret = vt_file_read(path, VT_KIND_INFRA, &text, err);
    if (ret < 0)
        return ret;
    if (text.len != strlen(wanted) || memcmp(text.data, wanted, text.len) != 0)
        return vt_error_set(err, VT_KIND_INFRA, -EEXIST, "%s: these mailboxes are of another run",
                            path);
    return 1;
}

int store_make(const char *dir, unsigned tile, uint64_t seed, uint32_t count, uid_t uid, gid_t gid,
               struct vt_error *err)
{
    const struct maker m = {dir, tile, seed, count, uid, gid};
    VT_AUTO_CLOSE int fd = -1;
    char whole[512], wanted[128];
    int ret;

    snprintf(whole, sizeof(whole), "%s/" WHOLE, dir);
    snprintf(wanted, sizeof(wanted), "tile %u seed %" PRIu64 " messages %u\n", tile, seed, count);
    ret = look_whole(whole, wanted, err);
    if (ret != 0)
        return ret < 0 ? ret : 0;
    ret = vt_file_make_folders(dir, 0755, VT_KIND_INFRA, err);
    if (ret == 0)
        ret = make_folder(&m, AT_FDCWD, dir, &fd, err);
    for (uint32_t user = 0; ret == 0 && user < MAIL_USERS; user++)
        ret = make_mailbox(&m, fd, user, err);
    if (ret == 0 && syncfs(fd) < 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "sync %s", dir);
    if (ret == 0)
        ret = vt_file_write(whole, wanted, strlen(wanted), 0644, err);
    if (ret == 0 && syncfs(fd) < 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "sync %s", dir);
    return ret;
}

/* --- looking --- */

struct looker {
    unsigned tile;
    uint32_t user;
    struct kept_bits kept;
    struct store_found found;
};

static const char *keep_sequence(struct looker *l, uint32_t sequence)
{
    int kept = kept_bits_set(&l->kept, sequence);

    l->found.twice += kept == 0;
    return kept < 0 ? "it was appended under a number that no step has" : NULL;
}

static const char *judge_message(struct looker *l, const uint8_t *text, size_t len)
{
    struct mail_identity identity;
    struct mail_check check;
    const char *why;

    if (len == 0 || len > MAIL_BYTES_MAX)
        return "it has not the length of a message";
    mail_check_begin(&check, (uint32_t)len);
    mail_check_piece(&check, text, len);
    why = mail_check_end(&check, &identity);
    if (why)
        return why;
    if (identity.tile != l->tile || identity.user != l->user)
        return "it is of another mailbox";
    if (identity.number == 0) {
        why = keep_sequence(l, identity.sequence);
        l->found.appended += why == NULL;
    }
    l->found.messages += why == NULL;
    return why;
}

static int look_at_message(struct looker *l, int folder, const char *name, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    uint8_t text[MAIL_BYTES_MAX + 1];
    size_t len = 0;
    const char *why;

    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open message %s", name);
    while (len < sizeof(text)) {
        ssize_t n = read(fd, text + len, sizeof(text) - len);

        if (n < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "read message %s", name);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    why = judge_message(l, text, len);
    if (why && l->found.wrong++ == 0)
        snprintf(l->found.first_wrong, sizeof(l->found.first_wrong), "user%04u/%.60s: %s", l->user,
                 name, why);
    return 0;
}

static int look_at_folder(struct looker *l, const char *path, struct vt_error *err)
{
    DIR *folder = opendir(path);
    int ret = 0;

    if (!folder)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open mailbox %s", path);
    for (struct dirent *entry; ret == 0 && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            ret = look_at_message(l, dirfd(folder), entry->d_name, err);
    closedir(folder);
    return ret;
}

int store_look(const char *dir, unsigned tile, const char *bits_path, struct store_found *ret_found,
               struct vt_error *err)
{
    static const char *const folders[] = {"cur", "new"};
    struct looker l = {.tile = tile};
    int ret = kept_bits_init(&l.kept, err);

    for (; ret == 0 && l.user < MAIL_USERS; l.user++) {
        for (unsigned i = 0; ret == 0 && i < VT_COUNT(folders); i++) {
            char path[512];

            snprintf(path, sizeof(path), "%s/user%04u/%s", dir, l.user, folders[i]);
            ret = look_at_folder(&l, path, err);
        }
    }
    if (ret == 0)
        ret = kept_bits_write(&l.kept, bits_path, err);
    kept_bits_dispose(&l.kept);
    if (ret == 0)
        *ret_found = l.found;
    return ret;
}
