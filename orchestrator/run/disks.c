/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disks: the data disks of VMs: sparse raw files below the state folder. Raw, since a flush of the
 * guest is then one fdatasync of the host; qcow2 would put metadata of its own before it, and grows
 * no slower than a sparse file does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"
#include "orchestrator/run/steps.h"

bool run_has_disks(const struct run *run)
{
    for (unsigned i = 0; i < run->nvms; i++)
        if (run->vms[i].data_disk)
            return true;
    return false;
}

/* Whether the file system takes I/O past the page cache; tmpfs, for one, may not. */
static bool takes_direct(const char *path)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);

    return fd >= 0;
}

static int make_disk(const struct run *run, struct run_vm *vm, struct vt_error *err)
{
    const struct host_info *info = host_info(run->host);
    const char *path = vm->data_disk->path;
    VT_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || ftruncate(fd, (off_t)vm->disk_bytes) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make the data disk %s", path);
    if (info->user_known && fchown(fd, info->user, info->group) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "give %s to QEMU's user (uid %u)", path,
                              (unsigned)info->user);
    vm->data_disk->direct = takes_direct(path);
    return 0;
}

/* No message where all is as it should be. */
static void tell_cached(struct run *run)
{
    for (unsigned i = 0; i < run->nvms; i++)
        if (run->vms[i].data_disk && !run->vms[i].data_disk->direct) {
            run_note(run, VT_LEVEL_WARNING,
                     "data disks go through the host's page cache (flushes reach its storage), "
                     "since the file system of %s takes no direct I/O",
                     run->disk_folder);
            return;
        }
}

int run_make_disks(struct run *run, struct vt_error *err)
{
    char parent[VT_PATH_MAX + 16];
    int ret;

    if (!run_has_disks(run))
        return 0;
    /* A system daemon's QEMUs pass to their own files, and only those are theirs. */
    snprintf(parent, sizeof(parent), "%s/disks", run->state.folder);
    ret = vt_file_make_folders(parent, 0711, VT_KIND_INFRA, err);
    if (ret == 0 && mkdir(run->disk_folder, run->place->folder_mode) < 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "make folder %s", run->disk_folder);
    if (ret == 0 && chmod(run->disk_folder, run->place->folder_mode) < 0)
        ret = vt_error_errno(err, VT_KIND_INFRA, errno, "open folder %s", run->disk_folder);
    for (unsigned i = 0; ret == 0 && i < run->nvms; i++)
        if (run->vms[i].data_disk)
            ret = make_disk(run, &run->vms[i], err);
    if (ret == 0)
        tell_cached(run);
    return ret;
}

int run_record_storage(struct run *run, struct vt_error *err)
{
    const char *all = "none";
    int ret = 0;

    for (unsigned i = 0; ret == 0 && i < run->nvms; i++) {
        const struct run_vm *vm = &run->vms[i];
        const char *storage = vm->data_disk ? "disk" : "tmpfs";
        char key[RECORD_META_KEY_MAX];

        snprintf(key, sizeof(key), RECORD_META_STORAGE ".%s", vm->agent);
        ret = record_put_meta(run->record, key, storage, err);
        if (vm->role->keeps && strcmp(all, "tmpfs") != 0)
            all = storage;
    }
    return ret < 0 ? ret : record_put_meta(run->record, RECORD_META_STORAGE, all, err);
}
