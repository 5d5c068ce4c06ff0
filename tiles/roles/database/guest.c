/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/roles/database/postgres.h"
#include "tiles/roles/kept_bits.h"
#include "tiles/roles/registry.h"
#include "tiles/roles/server.h"
#include "tiles/roles/template.h"

#define ASK_TIMEOUT_NS (10 * VT_NS_PER_S)
#define FIGURES_TIMEOUT_NS (300 * VT_NS_PER_S)
#define FIGURES_BYTES_MAX (64U << 10)
#define SHARED_BUFFERS_MIB_MIN 32
#define SHARED_BUFFERS_MIB_MAX 2048
#define WAL_MIB_MIN 16
#define WAL_MIB_MAX 4096

/* --- prepare --- */

static uint64_t within(uint64_t value, uint64_t min, uint64_t max)
{
    return value < min ? min : value > max ? max : value;
}

static void let_in(struct vt_buf *apps, unsigned tile, const char *address)
{
    vt_buf_printf(apps, "host postgres app%u %s/32 trust\n", tile, address);
}

/* A line an application and tile: which of them belong together is not known here, and each proves
 * itself by its address alone. */
static int write_access(const struct role_guest *guest, const struct postgres_paths *paths,
                        struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf apps = VT_BUF_INIT(16U << 10);
    char out[POSTGRES_PATH_MAX + 32];
    int ret;

    for (unsigned i = 0; i < postgres_ntiles(guest); i++) {
        for (unsigned p = 0; p < guest->npeers; p++)
            if (!strcmp(guest->peers[p].role, "app"))
                let_in(&apps, postgres_tile(guest, i), guest->peers[p].address);
        if (guest->client)
            let_in(&apps, postgres_tile(guest, i), guest->client);
    }
    ret = vt_buf_check(&apps, "access of applications", err);
    if (ret < 0)
        return ret;
    const struct template_value values[] = {{"APPS", apps.data ? apps.data : ""}};

    snprintf(out, sizeof(out), "%s/pg_hba.conf", paths->run);
    return template_fill(guest->files_dir, "pg_hba.conf.in", out, values, VT_COUNT(values), err);
}

static int write_config(const struct role_guest *guest, const struct postgres_paths *paths,
                        struct vt_error *err)
{
    char out[POSTGRES_PATH_MAX + 32], buffers[24], wal[24];
    uint64_t mib = guest->data_bytes * postgres_ntiles(guest) >> 20;
    const struct template_value values[] = {
        {"RUN", paths->run},
        {"ADDRESS", guest->address},
        {"SHARED_BUFFERS_MIB", buffers},
        {"WAL_MIB", wal},
    };

    /* A quarter of the contents stays in memory, half of them may be written between checkpoints;
     * the least is what the smallest guests can afford. */
    snprintf(buffers, sizeof(buffers), "%" PRIu64,
             within(mib / 4, SHARED_BUFFERS_MIB_MIN, SHARED_BUFFERS_MIB_MAX));
    snprintf(wal, sizeof(wal), "%" PRIu64, within(mib / 2, WAL_MIB_MIN, WAL_MIB_MAX));
    snprintf(out, sizeof(out), "%s/postgresql.conf", paths->run);
    return template_fill(guest->files_dir, "postgresql.conf.in", out, values, VT_COUNT(values),
                         err);
}

static int prepare(struct role_guest *guest, struct vt_error *err)
{
    struct postgres_paths paths;
    int ret = postgres_paths(guest, &paths, err);

    if (ret == 0)
        ret = vt_file_make_folders(paths.run, 0700, VT_KIND_INFRA, err);
    if (ret == 0)
        ret = postgres_give(paths.run, err);
    if (ret == 0)
        ret = write_config(guest, &paths, err);
    if (ret == 0)
        ret = write_access(guest, &paths, err);
    if (ret == 0 && access(paths.whole, F_OK) < 0)
        ret = postgres_make(guest, &paths, err);
    return ret;
}

/* --- start, ready --- */

static int start(struct role_guest *guest, struct vt_error *err)
{
    struct postgres_paths paths;
    char config[POSTGRES_PATH_MAX + 48];
    const char *const argv[] = {POSTGRES_BIN "/postgres", "-D", paths.data, "-c", config, NULL};
    const char *as_user[POSTGRES_ARGS_MAX];
    int ret = postgres_paths(guest, &paths, err);

    if (ret < 0)
        return ret;
    snprintf(config, sizeof(config), "config_file=%s/postgresql.conf", paths.run);
    postgres_as_user(argv, as_user);
    return server_start(guest, "postgres", as_user, err);
}

static int ask(const struct postgres_paths *paths, const char *option, const char *query,
               struct vt_buf *out, int64_t timeout_ns, struct vt_error *err)
{
    const char *const argv[] = {POSTGRES_BIN "/psql",
                                "-XAqt",
                                "-v",
                                "ON_ERROR_STOP=1",
                                "-h",
                                paths->run,
                                "-U",
                                POSTGRES_USER,
                                "-d",
                                "postgres",
                                option,
                                query,
                                NULL};

    return vt_proc_run(argv, out, timeout_ns, err);
}

/* The last line of the server's own file says how far it is: an emulated guest is spared programs
 * that ask in vain. One that a killed server left is found out by asking. */
static bool may_answer(const struct postgres_paths *paths)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(4096);
    char path[POSTGRES_PATH_MAX + 32];

    snprintf(path, sizeof(path), "%s/postmaster.pid", paths->data);
    return vt_file_read(path, VT_KIND_INFRA, &text, NULL) == 0 && text.len > 0 &&
           strstr(text.data, "\nready");
}

static int ready(struct role_guest *guest, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    struct postgres_paths paths;
    char query[64];
    int ret = postgres_paths(guest, &paths, err);

    if (ret == 0 && !may_answer(&paths))
        return vt_error_set(err, VT_KIND_INFRA, -EAGAIN, "the database is starting");
    for (unsigned i = 0; ret == 0 && i < postgres_ntiles(guest); i++) {
        snprintf(query, sizeof(query), "SELECT * FROM tile%u.browse(0)", postgres_tile(guest, i));
        ret = ask(&paths, "-c", query, &out, ASK_TIMEOUT_NS, err);
        if (ret == 0 && out.len == 0)
            ret = vt_error_set(err, VT_KIND_INFRA, -ENODATA, "ask the database: it has no items");
        vt_buf_reset(&out);
    }
    /* It may be recovering from a crash, or not have made its socket yet. */
    return ret == -ECHILD ? -EAGAIN : ret;
}

/* --- check --- */

/* Adds up over tiles. */
static int add_fact(json_t *facts, const char *name, json_int_t value, struct vt_error *err)
{
    value += json_integer_value(json_object_get(facts, name));
    if (json_object_set_new(facts, name, json_integer(value)))
        return vt_error_no_memory(err, "facts of the database");
    return 0;
}

static int take_figures(json_t *facts, char *text, struct vt_error *err)
{
    char *rest = text;
    int ret = 0;

    for (char *line; ret == 0 && (line = strsep(&rest, "\n"));) {
        char *bar = strchr(line, '|');
        int64_t value;

        if (!*line)
            continue;
        if (!bar)
            return vt_error_set(err, VT_KIND_INFRA, -EPROTO, "figures of the database: '%.60s'",
                                line);
        *bar = '\0';
        ret = vt_text_parse_int(bar + 1, 0, INT64_MAX / 2, &value, err);
        if (ret == 0)
            ret = add_fact(facts, line, value, err);
    }
    return ret;
}

/* A sequence a line -> a bit each. */
static int write_kept(const char *list, const char *bits_path, struct vt_error *err)
{
    VT_AUTO_FCLOSE FILE *file = fopen(list, "re");
    KEPT_BITS_AUTO struct kept_bits kept = {NULL, 0};
    char line[64];
    int ret;

    if (!file)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open %s", list);
    ret = kept_bits_init(&kept, err);
    if (ret < 0)
        return ret;
    while (fgets(line, sizeof(line), file)) {
        int64_t sequence;

        line[strcspn(line, "\n")] = '\0';
        if (vt_text_parse_int(line, 0, INT64_MAX, &sequence, err) < 0)
            return vt_error_wrap(err, "%s", list);
        kept_bits_set(&kept, (uint64_t)sequence); /* one that no step has is a probe's */
    }
    return kept_bits_write(&kept, bits_path, err);
}

static int check_tile(const struct role_guest *guest, const struct postgres_paths *paths,
                      unsigned tile, json_t *facts, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(FIGURES_BYTES_MAX);
    char sql[POSTGRES_PATH_MAX + 32], list[POSTGRES_PATH_MAX + 32], bits[POSTGRES_PATH_MAX + 32];
    int ret;

    snprintf(sql, sizeof(sql), "%s/figures.sql", paths->run);
    snprintf(list, sizeof(list), "%s/kept.list", paths->run);
    /* A spec lets either of them drive it, not both: their steps have the same numbers. */
    kept_bits_path(guest, guest->client ? guest->role : "app", tile, bits, sizeof(bits));
    ret = postgres_fill_sql(guest, "figures.sql", tile, list, sql, err);
    if (ret == 0)
        ret = ask(paths, "-f", sql, &out, FIGURES_TIMEOUT_NS, err);
    if (ret == 0)
        ret = take_figures(facts, out.data, err);
    if (ret == 0)
        ret = write_kept(list, bits, err);
    unlink(sql);
    unlink(list);
    return ret < 0 ? vt_error_wrap(err, "check tile %u", tile) : 0;
}

static int check(struct role_guest *guest, json_t *facts, struct vt_error *err)
{
    static const char totals[] =
        "SELECT 'commits', xact_commit FROM pg_stat_database WHERE datname = 'postgres'"
        " UNION ALL SELECT 'rollbacks', xact_rollback FROM pg_stat_database"
        " WHERE datname = 'postgres'"
        " UNION ALL SELECT 'deadlocks', deadlocks FROM pg_stat_database"
        " WHERE datname = 'postgres'"
        " UNION ALL SELECT 'database_bytes', pg_database_size('postgres')";
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(FIGURES_BYTES_MAX);
    struct postgres_paths paths;
    int ret = postgres_paths(guest, &paths, err);

    if (ret == 0)
        ret = ask(&paths, "-c", totals, &out, FIGURES_TIMEOUT_NS, err);
    if (ret == 0)
        ret = take_figures(facts, out.data, err);
    for (unsigned i = 0; ret == 0 && i < postgres_ntiles(guest); i++)
        ret = check_tile(guest, &paths, postgres_tile(guest, i), facts, err);
    return ret;
}

static const struct role_log logs[] = {
    {"postgres.log", "postgres/postgres.log"},
    {NULL, NULL},
};

const struct role_guest_ops role_database_guest = {
    .prepare = prepare,
    .start = start,
    .ready = ready,
    .check = check,
    .logs = logs,
};
