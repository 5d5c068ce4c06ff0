/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What roles keep. The data disk: blank it gets a file system, one of ours is repaired and mounted,
 * anything else is left alone. mke2fs writes the superblock last, so a disk on which it was killed
 * is still blank where it counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "tiles/image/image.h"
#include "tiles/image/init/init.h"

#define LABEL IMAGE_SERIAL_DATA
/* What is looked at: up to where ext4 with blocks of 4 KiB keeps its first two blocks. */
#define HEAD_BYTES 8192
/* In the superblock, at byte 1024: magic and volume name.
 * https://docs.kernel.org/filesystems/ext4/globals.html#super-block */
#define MAGIC_AT (1024 + 0x38)
#define LABEL_AT (1024 + 0x78)
#define LABEL_BYTES 16

/* e2fsck(8): errors corrected. */
#define FSCK_CORRECTED 1

#define MIB ((off_t)1 << 20)
#define JOURNAL_MAX_MIB 32

enum contents { BLANK, OURS, OTHER };

static enum contents look(const char *disk)
{
    static uint8_t head[HEAD_BYTES];
    VT_AUTO_CLOSE int fd = open(disk, O_RDONLY | O_CLOEXEC);
    bool blank = true;

    if (fd < 0 || pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
        init_die(errno, "read %s", disk);
    for (size_t i = 0; i < sizeof head && blank; i++)
        blank = head[i] == 0;
    if (blank)
        return BLANK;
    return head[MAGIC_AT] == 0x53 && head[MAGIC_AT + 1] == 0xef &&
                   strncmp((const char *)head + LABEL_AT, LABEL, LABEL_BYTES) == 0
               ? OURS
               : OTHER;
}

/* Its exit status. */
static int run(const char *const *argv)
{
    static char *const env[] = {(char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        execve(argv[0], (char *const *)argv, env);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        init_die(errno, "run %s", argv[0]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* An eighth of a small disk: mke2fs refuses a journal that takes half. */
static int journal_mib(const char *disk)
{
    VT_AUTO_CLOSE int fd = open(disk, O_RDONLY | O_CLOEXEC);
    off_t bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

    if (bytes < 0)
        init_die(errno, "find the size of %s", disk);
    return bytes >= 8 * JOURNAL_MAX_MIB * MIB ? JOURNAL_MAX_MIB : (int)(bytes / 8 / MIB);
}

/* Cheap under emulation: nothing is discarded, since the disk is blank; inode tables are left
 * unwritten; a few inodes, for a guest keeps thousands of files and not millions. */
static void make(const char *disk)
{
    char journal[32];
    const char *const argv[] = {"/usr/sbin/mkfs.ext4",
                                "-q",
                                "-F",
                                "-b",
                                "4096",
                                "-L",
                                LABEL,
                                "-m",
                                "0",
                                "-i",
                                "32768",
                                "-J",
                                journal,
                                "-E",
                                "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
                                disk,
                                NULL};
    int status;

    snprintf(journal, sizeof journal, "size=%d", journal_mib(disk));
    status = run(argv);
    if (status != 0)
        init_die(0, "make a file system on %s: mkfs.ext4 ended with %d", disk, status);
}

/* After a kill the journal is replayed and what it cannot mend is, as far as that needs no answer.
 */
static void repair(const char *disk)
{
    const char *const argv[] = {"/usr/sbin/e2fsck", "-p", disk, NULL};
    int status = run(argv);

    if (status > FSCK_CORRECTED)
        init_die(0, "%s needs repair by hand: e2fsck ended with %d", disk, status);
}

static void make_data_dir(void)
{
    if (mkdir("/var/lib/vtile", 0755) < 0 && errno != EEXIST)
        init_die(errno, "create /var/lib/vtile");
    if (mkdir(IMAGE_DATA_DIR, 0755) < 0 && errno != EEXIST)
        init_die(errno, "create " IMAGE_DATA_DIR);
}

void init_mount_memory(void)
{
    make_data_dir();
    if (mount("data", IMAGE_DATA_DIR, "tmpfs", MS_NOSUID | MS_NODEV, "size=50%,mode=0755") < 0)
        init_die(errno, "mount memory at " IMAGE_DATA_DIR);
}

void init_mount_data(const char *disk)
{
    switch (look(disk)) {
    case BLANK:
        make(disk);
        init_log("%s is blank: made a file system", disk);
        break;
    case OURS:
        repair(disk);
        init_log("%s holds data: kept", disk);
        break;
    case OTHER:
        init_die(0, "%s holds something that is not ours: left alone", disk);
    }
    make_data_dir();
    /* noinit_itable: zeroing what was left unwritten would go on while the load is measured. */
    if (mount(disk, IMAGE_DATA_DIR, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME, "noinit_itable") < 0)
        init_die(errno, "mount %s at " IMAGE_DATA_DIR, disk);
    /* A role must find its folder empty at first. */
    if (rmdir(IMAGE_DATA_DIR "/lost+found") < 0 && errno != ENOENT && errno != ENOTEMPTY)
        init_die(errno, "remove " IMAGE_DATA_DIR "/lost+found");
}
