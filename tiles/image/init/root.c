/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tiles/image/init/init.h"

/* What a guest writes (logs, contents, generated configuration) is memory of the guest; half of
 * it is the kernel's own default for tmpfs and leaves the other half to the servers. */
#define MEMORY_SHARE "size=50%,mode=0755"

static void make_dir(const char *path)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        init_die(errno, "create %s", path);
}

static void mount_at(const char *source, const char *target, const char *type, unsigned long flags,
                     const char *options)
{
    make_dir(target);
    if (mount(source, target, type, flags, options) < 0)
        init_die(errno, "mount %s (%s) at %s", source, type, target);
}

/* The three descriptors that the kernel opened are of the initramfs; take the real console. */
static void open_console(void)
{
    int fd = open("/dev/console", O_RDWR | O_NOCTTY);

    if (fd < 0)
        return;
    for (int i = 0; i < 3; i++)
        dup2(fd, i);
    if (fd > 2)
        close(fd);
}

void init_mount_early(void)
{
    mount_at("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
    open_console();
    mount_at("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_at("sys", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static void carry_mount(const char *from, const char *to)
{
    if (mount(from, to, NULL, MS_MOVE, NULL) < 0)
        init_die(errno, "move %s to %s", from, to);
}

static void mount_in_root(void)
{
    mount_at("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=20%");
    mount_at("tmp", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=50%");
    mount_at("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    mount_at("pts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666");
    make_dir("/run/lock");
}

void init_enter_root(const char *packages, const char *roles)
{
    make_dir("/l");
    mount_at(packages, "/l/packages", "erofs", MS_RDONLY, NULL);
    mount_at(roles, "/l/roles", "erofs", MS_RDONLY, NULL);
    mount_at("memory", "/l/memory", "tmpfs", 0, MEMORY_SHARE);
    make_dir("/l/memory/upper");
    make_dir("/l/memory/work");
    mount_at("root", "/root", "overlay", 0,
             "lowerdir=/l/roles:/l/packages,upperdir=/l/memory/upper,workdir=/l/memory/work");
    carry_mount("/dev", "/root/dev");
    carry_mount("/proc", "/root/proc");
    carry_mount("/sys", "/root/sys");
    unlink("/init"); /* its pages stay mapped, its name is of no use */
    if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
        chdir("/") < 0)
        init_die(errno, "enter the root made of %s and %s", packages, roles);
    mount_in_root();
}
