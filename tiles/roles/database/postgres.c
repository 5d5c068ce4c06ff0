/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/database/postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/database/cluster.h"
#include "tiles/roles/template.h"

#define LOAD_TIMEOUT_NS (3600 * VT_NS_PER_S)
#define COMMANDS_BYTES_MAX (1U << 20)

/* Rows of a MiB of contents, tables and indexes together (measured with 32 MiB: see
 * tests/unit/tiles/test_database.c). The 1000 items and the empty schema take 0.6 MiB a tile
 * besides, the cluster itself 14. */
#define ORDERS_PER_MIB 2500
#define CUSTOMERS_PER_MIB 100
#define ORDERS_MAX 100000000

int postgres_paths(const struct role_guest *guest, struct postgres_paths *ret, struct vt_error *err)
{
    const int max = POSTGRES_PATH_MAX;

    if (snprintf(ret->data, (size_t)max, "%s/postgres", guest->data_dir) >= max ||
        snprintf(ret->whole, (size_t)max, "%s/postgres.whole", guest->data_dir) >= max ||
        snprintf(ret->run, (size_t)max, "%s/postgres", guest->run_dir) >= max)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "path of the database too long");
    return 0;
}

void postgres_as_user(const char *const *argv, const char *ret[POSTGRES_ARGS_MAX])
{
    static const char *const change[] = {"setpriv",     "--reuid",       POSTGRES_USER, "--regid",
                                         POSTGRES_USER, "--init-groups", "--pdeathsig", "keep"};
    size_t n = 0;

    if (geteuid() == 0)
        for (; n < VT_COUNT(change); n++)
            ret[n] = change[n];
    while (*argv && n < POSTGRES_ARGS_MAX - 1)
        ret[n++] = *argv++;
    ret[n] = NULL;
}

int postgres_give(const char *path, struct vt_error *err)
{
    const struct passwd *user;

    if (geteuid() != 0)
        return 0;
    errno = 0;
    user = getpwnam(POSTGRES_USER);
    if (!user)
        return vt_error_errno(err, VT_KIND_INFRA, errno ? errno : ENOENT, "no user %s",
                              POSTGRES_USER);
    if (chown(path, user->pw_uid, user->pw_gid) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "give %s to %s", path, POSTGRES_USER);
    return 0;
}

unsigned postgres_ntiles(const struct role_guest *guest)
{
    return guest->ntiles > 0 ? guest->ntiles : 1;
}

unsigned postgres_tile(const struct role_guest *guest, unsigned i)
{
    return guest->ntiles > 0 ? guest->tiles[i] : guest->tile;
}

static uint64_t at_most(uint64_t value, uint64_t max)
{
    return value < max ? value : max;
}

int postgres_fill_sql(const struct role_guest *guest, const char *name, unsigned tile,
                      const char *kept, const char *out, struct vt_error *err)
{
    char tile_text[12], seed[24], items[12], suppliers[12], customers[24], orders[24];
    const struct template_value values[] = {
        {"TILE", tile_text},
        {"SEED", seed},
        {"ITEMS", items},
        {"SUPPLIERS", suppliers},
        {"CUSTOMERS", customers},
        {"ORDERS", orders},
        {"KEPT", kept ? kept : "/dev/null"},
    };
    uint64_t mib_q10 = guest->data_bytes >> 10, n;

    snprintf(tile_text, sizeof(tile_text), "%u", tile);
    snprintf(seed, sizeof(seed), "%" PRIu64, (guest->seed + tile) & INT64_MAX);
    snprintf(items, sizeof(items), "%u", APP_ITEMS);
    snprintf(suppliers, sizeof(suppliers), "%u", APP_SUPPLIERS);
    n = at_most(CUSTOMERS_PER_MIB * mib_q10 >> 10, APP_CUSTOMERS_MAX);
    snprintf(customers, sizeof(customers), "%" PRIu64, n > 100 ? n : 100);
    snprintf(orders, sizeof(orders), "%" PRIu64,
             at_most(ORDERS_PER_MIB * mib_q10 >> 10, ORDERS_MAX));
    return template_fill(guest->files_dir, name, out, values, VT_COUNT(values), err);
}

/* --- making a cluster --- */

/* A server of one user and no network reads the commands: half the start-ups of loading through a
 * server. It ends at the first error. Small in memory and log: the smallest guests hold both the
 * server and what it writes in 128 MiB. */
static int load(const struct postgres_paths *paths, const char *file, struct vt_error *err)
{
    const char *const argv[] = {POSTGRES_BIN "/postgres",
                                "--single",
                                "-j",
                                "-D",
                                paths->data,
                                "-c",
                                "exit_on_error=on",
                                "-c",
                                "fsync=off",
                                "-c",
                                "wal_level=minimal",
                                "-c",
                                "max_wal_senders=0",
                                "-c",
                                "max_wal_size=4MB",
                                "-c",
                                "min_wal_size=2MB",
                                "-c",
                                "shared_buffers=16MB",
                                "postgres",
                                NULL};
    const char *as_user[POSTGRES_ARGS_MAX];
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    VT_AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    int ret;

    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open %s", file);
    postgres_as_user(argv, as_user);
    spec.argv = as_user;
    spec.own_group = true;
    spec.stdin_fd = fd;
    ret = vt_proc_run_spec(&spec, NULL, LOAD_TIMEOUT_NS, -1, err);
    return ret < 0 ? vt_error_wrap(err, "load %s", file) : 0;
}

/* Adds a file of commands, filled in for a tile. */
static int add_commands(const struct role_guest *guest, const char *name, unsigned tile,
                        const char *path, struct vt_buf *commands, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf filled = VT_BUF_INIT(TEMPLATE_BYTES_MAX);
    int ret = postgres_fill_sql(guest, name, tile, NULL, path, err);

    if (ret == 0)
        ret = vt_file_read(path, VT_KIND_INFRA, &filled, err);
    if (ret < 0)
        return ret;
    vt_buf_add(commands, filled.data, filled.len);
    vt_buf_adds(commands, "\n"); /* an empty line ends a command */
    return vt_buf_check(commands, "commands for the database", err);
}

/* All tiles in one start of the server. */
static int load_tiles(const struct role_guest *guest, const struct postgres_paths *paths,
                      struct vt_error *err)
{
    static const char *const files[] = {"schema.sql", "functions.sql"};
    VT_AUTO_BUF struct vt_buf commands = VT_BUF_INIT((size_t)COMMANDS_BYTES_MAX);
    char path[POSTGRES_PATH_MAX + 32];
    int ret = 0;

    snprintf(path, sizeof(path), "%s/load.sql", paths->run);
    for (unsigned i = 0; i < postgres_ntiles(guest); i++)
        for (size_t f = 0; ret == 0 && f < VT_COUNT(files); f++)
            ret = add_commands(guest, files[f], postgres_tile(guest, i), path, &commands, err);
    if (ret == 0)
        ret = vt_file_write(path, commands.data, commands.len, 0644, err);
    if (ret == 0)
        ret = load(paths, path, err);
    unlink(path);
    return ret;
}

/* What was written without fsync reaches the disk before the cluster counts as whole. */
static int make_last(const struct postgres_paths *paths, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = open(paths->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int ret;

    if (fd < 0 || syncfs(fd) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "sync %s", paths->data);
    ret = vt_file_write(paths->whole, "", 0, 0644, err);
    return ret < 0 ? ret : vt_file_sync_folder_of(paths->whole, err);
}

int postgres_make(const struct role_guest *guest, const struct postgres_paths *paths,
                  struct vt_error *err)
{
    int ret = cluster_lay(guest, paths, err);

    if (ret == 0)
        ret = load_tiles(guest, paths, err);
    return ret < 0 ? ret : make_last(paths, err);
}
