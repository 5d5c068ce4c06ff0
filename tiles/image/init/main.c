/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "tiles/image/image.h"
#include "tiles/image/init/init.h"

#define LINE_MAX_BYTES 512

static void write_line(const char *fmt, va_list ap, int errnum)
    __attribute__((format(printf, 1, 0)));
static void write_line(const char *fmt, va_list ap, int errnum)
{
    char line[LINE_MAX_BYTES] = "vtile-init: ";
    size_t len = strlen(line);
    int n = vsnprintf(line + len, sizeof line - len - 1, fmt, ap);

    if (n > 0)
        len = strlen(line);
    if (errnum) {
        snprintf(line + len, sizeof line - len - 1, ": %s", strerror(errnum));
        len = strlen(line);
    }
    line[len++] = '\n';
    /* A console that takes nothing must not stop the guest. */
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}

void init_log(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_line(fmt, ap, 0);
    va_end(ap);
}

void init_die(int errnum, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_line(fmt, ap, errnum);
    va_end(ap);
    init_log("cannot go on, powering off");
    sync();
    reboot(RB_POWER_OFF);
    _exit(1); /* not PID 1 of a machine, or no power to switch: the kernel panics */
}

static void read_config(const char *disk, struct vt_confdisk *ret)
{
    struct vt_error err = VT_ERROR_INIT;

    if (vt_confdisk_read(disk, ret, &err) < 0)
        init_die(0, "%s", err.text);
}

int main(void)
{
    static struct vt_confdisk conf;
    char packages[INIT_DISK_PATH_MAX], roles[INIT_DISK_PATH_MAX], config[INIT_DISK_PATH_MAX];
    char data[INIT_DISK_PATH_MAX];
    bool has_data;

    if (getpid() != 1) {
        fputs("vtile-init: this is PID 1 of a vtile guest and runs nowhere else\n", stderr);
        return 2;
    }
    init_mount_early();
    init_load_modules();
    init_find_disk(IMAGE_SERIAL_PACKAGES, packages);
    init_find_disk(IMAGE_SERIAL_ROLES, roles);
    init_find_disk(IMAGE_SERIAL_CONFIG, config);
    read_config(config, &conf);
    has_data = strcmp(vt_confdisk_param(&conf, IMAGE_PARAM_DATA, "0"), "1") == 0;
    if (has_data)
        init_find_disk(IMAGE_SERIAL_DATA, data);
    init_load_data_modules(has_data);
    init_enter_root(packages, roles);
    init_set_identity(&conf);
    init_set_network(&conf);
    if (has_data)
        init_mount_data(data);
    else
        init_mount_memory();
    init_log("%s is up", conf.hostname);
    explicit_bzero(&conf, sizeof conf);
    init_supervise(config);
}
