/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/database/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"

/* An emulated guest that shares its CPUs with others; the work itself takes a second. */
#define MAKE_TIMEOUT_NS (300 * VT_NS_PER_S)
#define COPY_BYTES (256U << 10)

/* --- copying --- */

static int copy_bytes(int in, int out, char *buffer)
{
    ssize_t n;

    while ((n = read(in, buffer, COPY_BYTES)) > 0) {
        int ret = vt_file_write_all(out, buffer, (size_t)n);

        if (ret < 0)
            return ret;
    }
    return n < 0 ? -errno : 0;
}

static int copy_file(const FTSENT *entry, const char *to, char *buffer)
{
    VT_AUTO_CLOSE int in = open(entry->fts_path, O_RDONLY | O_CLOEXEC);
    VT_AUTO_CLOSE int out = in < 0 ? -1
                                   : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                          entry->fts_statp->st_mode & 07777);

    if (out < 0)
        return -errno;
    if (geteuid() == 0 && fchown(out, entry->fts_statp->st_uid, entry->fts_statp->st_gid) < 0)
        return -errno;
    return copy_bytes(in, out, buffer);
}

static int copy_entry(const FTSENT *entry, const char *to, char *buffer)
{
    switch (entry->fts_info) {
    case FTS_D:
        if (mkdir(to, entry->fts_statp->st_mode & 07777) < 0 ||
            (geteuid() == 0 && chown(to, entry->fts_statp->st_uid, entry->fts_statp->st_gid) < 0))
            return -errno;
        return 0;
    case FTS_DP:
        return 0;
    case FTS_F:
        return copy_file(entry, to, buffer);
    case FTS_ERR:
    case FTS_NS:
    case FTS_DNR:
        return entry->fts_errno ? -entry->fts_errno : -EIO;
    default:
        return -EINVAL;
    }
}

int cluster_copy(const char *from, const char *to, struct vt_error *err)
{
    char *const roots[] = {(char *)from, NULL};
    VT_AUTO_FREE char *buffer = malloc(COPY_BYTES);
    char path[POSTGRES_PATH_MAX];
    int ret = 0;
    FTS *fts;

    if (!buffer)
        return vt_error_no_memory(err, "copy %s", from);
    fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (!fts)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "read %s", from);
    errno = 0;
    for (FTSENT *entry; ret == 0 && (entry = fts_read(fts));) {
        int n = snprintf(path, sizeof(path), "%s%s", to, entry->fts_path + strlen(from));

        ret = n < (int)sizeof(path) ? copy_entry(entry, path, buffer) : -ENAMETOOLONG;
        if (ret < 0)
            vt_error_errno(err, VT_KIND_INFRA, -ret, "copy %s to %s", entry->fts_path, to);
        errno = 0;
    }
    if (ret == 0 && errno != 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "read %s", from);
    fts_close(fts);
    return ret;
}

/* --- a new one --- */

static int make_new(const char *recipe, const char *folder, const char *made, const char *to,
                    struct vt_error *err)
{
    const char *const argv[] = {"sh", recipe, folder, NULL};
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    int ret;

    spec.argv = argv;
    spec.own_group = true;
    ret = vt_proc_run_spec(&spec, NULL, MAKE_TIMEOUT_NS, -1, err);
    if (ret == 0 && rename(made, to) < 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "rename %s to %s", made, to);
    return ret;
}

int cluster_lay(const struct role_guest *guest, const struct postgres_paths *paths,
                struct vt_error *err)
{
    char ready[POSTGRES_PATH_MAX], recipe[POSTGRES_PATH_MAX], made[POSTGRES_PATH_MAX];
    const char *const rm[] = {"rm", "-rf", "--", paths->data, made, NULL};
    const int max = POSTGRES_PATH_MAX;
    int ret = 0;

    if (snprintf(ready, (size_t)max, "%s/cluster", guest->files_dir) >= max ||
        snprintf(recipe, (size_t)max, "%s/image.sh", guest->files_dir) >= max ||
        snprintf(made, (size_t)max, "%s/cluster", guest->data_dir) >= max)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path of a cluster too long");
    if (access(paths->data, F_OK) == 0 || access(made, F_OK) == 0)
        ret = vt_proc_run(rm, NULL, MAKE_TIMEOUT_NS, err);
    if (ret == 0)
        /* An image that somebody else made has none. */
        ret = access(ready, F_OK) == 0 ? cluster_copy(ready, paths->data, err)
                                       : make_new(recipe, guest->data_dir, made, paths->data, err);
    return ret < 0 ? vt_error_wrap(err, "make a cluster in %s", paths->data) : 0;
}
