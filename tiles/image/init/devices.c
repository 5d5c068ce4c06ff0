/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/scope.h"
#include "tiles/image/init/init.h"

#define MODULES_DIR "/modules"
#define DISK_WAIT_MS 10000
#define DISK_POLL_MS 10

static int skip_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Of "<n>-<name>.ko": one that only a data disk needs, with those that come with it. */
static bool is_for_data(const char *file)
{
    static const char *const names[] = {"crc16", "mbcache", "jbd2", "ext4"};
    const char *name = strchr(file, '-');

    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i]);

        if (strncmp(name + 1, names[i], len) == 0 && strcmp(name + 1 + len, ".ko") == 0)
            return true;
    }
    return false;
}

static void load_module(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
        init_die(errno, "load module %s", path);
    close(fd);
}

/* Those for the data disk or the others. The initramfs is memory, and nothing reads a module's file
 * again: it is removed, loaded or not. */
static void take_modules(bool for_data, bool load)
{
    struct dirent **names;
    int n = scandir(MODULES_DIR, &names, skip_dots, alphasort);

    if (n < 0)
        init_die(errno, "read " MODULES_DIR " of the initramfs");
    for (int i = 0; i < n; i++) {
        char path[sizeof MODULES_DIR + 256];

        snprintf(path, sizeof path, MODULES_DIR "/%.255s", names[i]->d_name);
        if (is_for_data(names[i]->d_name) == for_data) {
            if (load)
                load_module(path);
            unlink(path);
        }
        free(names[i]);
    }
    free(names);
}

void init_load_modules(void)
{
    take_modules(false, true);
}

void init_load_data_modules(bool wanted)
{
    take_modules(true, wanted);
}

/* False where the disk has no serial or another one. */
static bool has_serial(const char *disk, const char *serial)
{
    char path[300], text[64];

    snprintf(path, sizeof path, "/sys/block/%.255s/serial", disk);
    return init_read_attribute(path, text, sizeof text) && strcmp(text, serial) == 0;
}

static bool find_disk(const char *serial, char path[INIT_DISK_PATH_MAX])
{
    DIR *dir = opendir("/sys/block");
    bool found = false;

    if (!dir)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(dir));) {
        if (entry->d_name[0] != 'v' || !has_serial(entry->d_name, serial))
            continue;
        found = snprintf(path, INIT_DISK_PATH_MAX, "/dev/%s", entry->d_name) < INIT_DISK_PATH_MAX;
    }
    closedir(dir);
    return found && access(path, R_OK) == 0;
}

void init_find_disk(const char *serial, char path[INIT_DISK_PATH_MAX])
{
    const struct timespec wait = {.tv_nsec = DISK_POLL_MS * 1000000L};

    for (int ms = 0; ms <= DISK_WAIT_MS; ms += DISK_POLL_MS) {
        if (find_disk(serial, path))
            return;
        nanosleep(&wait, NULL);
    }
    init_die(0, "no virtio disk with serial %s after %d s", serial, DISK_WAIT_MS / 1000);
}
