/* SPDX-License-Identifier: Apache-2.0 */
/* "Permission denied" has two doors: a folder that QEMU's user cannot search, and AppArmor. */
#include <errno.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/preflight_checks.h"

#define ACL_USER 0x02 /* linux/posix_acl.h, which is not for user space */
#define ACL_OWNING_GROUP 0x04
#define ACL_GROUP 0x08
#define ACL_MASK 0x10
#define ACL_ENTRIES_MAX 256

/* Bits 4 read, 1 search. An entry for the user decides, then group entries, then the mode. */
static bool allows(const char *path, const struct stat *info, uid_t uid, gid_t gid, unsigned bit)
{
    struct {
        struct posix_acl_xattr_header head;
        struct posix_acl_xattr_entry entries[ACL_ENTRIES_MAX];
    } acl;
    unsigned mask = 7, user = 0, group = 0;
    bool has_user = false, has_group = false;
    ssize_t len;

    if (uid == 0)
        return true;
    if (info->st_uid == uid)
        return info->st_mode >> 6 & bit;
    len = getxattr(path, "system.posix_acl_access", &acl, sizeof(acl));
    for (size_t i = 0; len > (ssize_t)sizeof(acl.head) &&
                       i < ((size_t)len - sizeof(acl.head)) / sizeof(acl.entries[0]);
         i++) {
        const struct posix_acl_xattr_entry *entry = &acl.entries[i];
        if (entry->e_tag == ACL_MASK)
            mask = entry->e_perm;
        if (entry->e_tag == ACL_USER && entry->e_id == uid) {
            has_user = true;
            user = entry->e_perm;
        }
        if ((entry->e_tag == ACL_GROUP && entry->e_id == gid) ||
            (entry->e_tag == ACL_OWNING_GROUP && info->st_gid == gid)) {
            has_group = true;
            group |= entry->e_perm;
        }
    }
    if (has_user)
        return user & mask & bit;
    if (has_group) /* where there is an ACL the mode's group bits are its mask */
        return group & mask & bit;
    return (info->st_gid == gid ? info->st_mode >> 3 : info->st_mode) & bit;
}

int preflight_first_blocked(const char *root, const char *path, uid_t uid, gid_t gid, char *blocked,
                            size_t size)
{
    char full[VT_PATH_MAX];
    size_t prefix = strlen(root);
    int n = snprintf(full, sizeof(full), "%s%s", root, path);

    if (path[0] != '/' || n < 0 || (size_t)n >= sizeof(full))
        return -ENAMETOOLONG;
    for (char *slash = full + prefix;; slash = slash + 1 + strcspn(slash + 1, "/")) {
        struct stat info;
        char kept = slash == full + prefix ? slash[1] : *slash;
        char *end = slash == full + prefix ? slash + 1 : slash; /* the first is "/" itself */

        *end = 0;
        if (stat(full, &info) < 0)
            return -errno;
        if (!allows(full, &info, uid, gid, S_ISDIR(info.st_mode) ? 1 : 4)) {
            snprintf(blocked, size, "%s", full + prefix);
            return 1;
        }
        *end = kept;
        if (!kept)
            return 0;
    }
}

/* Whom a system daemon runs QEMU as: user = "..." of its qemu.conf, else the first of the users
 * that packages make. A name that is not in passwd is nobody we could check. */
static bool find_qemu_user(const struct preflight_needs *needs, uid_t *uid, gid_t *gid)
{
    static const char *const packaged[] = {"libvirt-qemu", "qemu"};
    char text[65536], wanted[64] = "", path[VT_PATH_MAX], line[1024];

    preflight_read(needs, "/etc/libvirt/qemu.conf", text, sizeof(text));
    for (char *save = NULL, *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save))
        if (sscanf(at, " user = \"%63[^\"]\"", wanted) == 1)
            break;
    if (!strcmp(wanted, "root"))
        return false;
    VT_AUTO_FCLOSE FILE *f = fopen(preflight_at(needs, "/etc/passwd", path, sizeof(path)), "re");
    while (f && fgets(line, sizeof(line), f)) {
        char name[64];
        unsigned user, group;
        if (sscanf(line, "%63[^:]:%*[^:]:%u:%u", name, &user, &group) != 3)
            continue;
        if (!strcmp(name, wanted) ||
            (!wanted[0] && (!strcmp(name, packaged[0]) || !strcmp(name, packaged[1])))) {
            *uid = user;
            *gid = group;
            return true;
        }
    }
    return false;
}

static bool apparmor_confines(const struct preflight_needs *needs)
{
    char text[16];

    preflight_read(needs, "/sys/module/apparmor/parameters/enabled", text, sizeof(text));
    return !strcmp(text, "Y");
}

static void check_path(const struct preflight_needs *needs, const char *path, uid_t uid, gid_t gid,
                       struct preflight *preflight)
{
    char blocked[VT_PATH_MAX];
    int code = preflight_first_blocked(needs->root ? needs->root : "", path, uid, gid, blocked,
                                       sizeof(blocked));

    if (code == 1 && !strcmp(blocked, path))
        preflight_findf(preflight, PREFLIGHT_ERROR, "access",
                        "make it readable for that user, or choose another place",
                        "QEMU's user (uid %u) cannot read %s", (unsigned)uid, path);
    else if (code == 1)
        preflight_findf(preflight, PREFLIGHT_ERROR, "access",
                        "set VTILE_STATE and VTILE_CACHE to folders that it can pass, such as "
                        "/var/lib/vtile; vtile changes no modes",
                        "QEMU's user (uid %u) cannot search the folder %s, which is on the way to "
                        "%s",
                        (unsigned)uid, blocked, path);
    else if (code < 0 && code != -ENOENT) /* what will be made is passable up to there */
        preflight_findf(preflight, PREFLIGHT_ERROR, "access", "", "%s: %s", path, strerror(-code));
    /* abstractions/libvirt-qemu: "deny hidden files", @{HOME}/.** */
    if (apparmor_confines(needs) && strstr(path, "/.") &&
        (!strncmp(path, "/home/", 6) || !strncmp(path, "/root/", 6)))
        preflight_findf(preflight, PREFLIGHT_WARNING, "apparmor",
                        "choose a place without a hidden folder in it",
                        "AppArmor's profile for VMs (virt-aa-helper, libvirt-<uuid>) denies hidden "
                        "folders of a home: %s",
                        path);
}

void preflight_check_paths(const struct preflight_needs *needs, struct preflight *preflight)
{
    uid_t uid = needs->qemu_uid;
    gid_t gid = needs->qemu_gid;

    /* The embedded host's QEMUs run as this process's user. */
    if (!needs->qemu_paths || host_uri_is_embed(needs->uri) ||
        (!uid && !find_qemu_user(needs, &uid, &gid)))
        return;
    for (size_t i = 0; needs->qemu_paths[i]; i++)
        check_path(needs, needs->qemu_paths[i], uid, gid, preflight);
}
