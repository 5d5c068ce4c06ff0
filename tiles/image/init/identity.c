/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tiles/image/init/init.h"

static void write_file(const char *path, const char *text)
{
    size_t len = strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, len) != (ssize_t)len)
        init_die(errno, "write %s", path);
    close(fd);
}

/* FNV-1a, 64 bit; http://www.isthe.com/chongo/tech/comp/fnv/ */
static uint64_t fnv1a(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3ULL;
    return (hash ^ '/') * 0x100000001b3ULL;
}

/* Unique by run, tile and role, the same after a restart of the guest; marked as a version 4
 * UUID as machine-id(5) asks for. */
static void set_machine_id(const struct vt_confdisk *conf)
{
    uint64_t half[2] = {0xcbf29ce484222325ULL, 0x84222325cbf29ce4ULL};
    char text[34], tile[16];

    snprintf(tile, sizeof tile, "%u", conf->tile);
    for (int i = 0; i < 2; i++)
        half[i] = fnv1a(fnv1a(fnv1a(half[i], conf->run), tile), conf->role);
    half[0] = (half[0] & ~0xf000ULL) | 0x4000;
    half[1] = (half[1] & ~(3ULL << 62)) | 1ULL << 63;
    snprintf(text, sizeof text, "%016llx%016llx\n", (unsigned long long)half[0],
             (unsigned long long)half[1]);
    write_file("/etc/machine-id", text);
}

static void write_hosts(const struct vt_confdisk *conf)
{
    static char text[VT_CONFDISK_PEERS_MAX * 96 + 256];
    size_t len = 0;
    const char *slash = strchr(conf->address, '/');

    len += (size_t)snprintf(text + len, sizeof text - len, "127.0.0.1 localhost\n");
    if (slash)
        len += (size_t)snprintf(text + len, sizeof text - len, "%.*s %s\n",
                                (int)(slash - conf->address), conf->address, conf->hostname);
    for (size_t i = 0; i < conf->n_peers; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s %s\n", conf->peers[i].address,
                                conf->peers[i].name);
    write_file("/etc/hosts", text);
}

void init_set_identity(const struct vt_confdisk *conf)
{
    char name[sizeof conf->hostname + 1];

    if (sethostname(conf->hostname, strlen(conf->hostname)) < 0)
        init_die(errno, "set host name %s", conf->hostname);
    snprintf(name, sizeof name, "%s\n", conf->hostname);
    write_file("/etc/hostname", name);
    set_machine_id(conf);
    write_hosts(conf);
}
