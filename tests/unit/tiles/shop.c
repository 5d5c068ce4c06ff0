/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/shop.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/roles/database/postgres.h"
#include "tiles/roles/registry.h"

#define PATIENCE_NS (60 * VT_NS_PER_S)

static bool answers(const char *program, const char *option)
{
    const char *const argv[] = {program, option, NULL};

    return vt_proc_run(argv, NULL, 10 * VT_NS_PER_S, NULL) == 0;
}

bool shop_present(void)
{
    bool present = geteuid() == 0 && answers(POSTGRES_BIN "/postgres", "--version") &&
                   answers("php-fpm8.2", "-v") && answers("nginx", "-v");

    if (!present)
        print_message("needs root and the programs postgres (15), php-fpm8.2 and nginx\n");
    return present;
}

void shop_init(struct shop *shop, uint64_t data_bytes, unsigned ntiles)
{
    memset(shop, 0, sizeof *shop);
    snprintf(shop->dir, sizeof shop->dir, "/tmp/vtile-shop-XXXXXX");
    assert_non_null(mkdtemp(shop->dir));
    assert_int_equal(chmod(shop->dir, 0755), 0);
    /* All of 127/8 is loopback: an address for each process keeps the well-known ports free. */
    snprintf(shop->address, sizeof shop->address, "127.83.%u.%u", (unsigned)getpid() / 250 % 250,
             (unsigned)getpid() % 250 + 1);
    snprintf(shop->data_dir, sizeof shop->data_dir, "%s/data", shop->dir);
    snprintf(shop->run_dir, sizeof shop->run_dir, "%s/db", shop->dir);
    snprintf(shop->app_run_dir, sizeof shop->app_run_dir, "%s/app", shop->dir);
    snprintf(shop->database_files, sizeof shop->database_files, "%s/tiles/roles/database/files",
             VTILE_SOURCE);
    snprintf(shop->app_files, sizeof shop->app_files, "%s/tiles/roles/app/files", VTILE_SOURCE);
    for (const char *const *dir =
             (const char *const[]){shop->data_dir, shop->run_dir, shop->app_run_dir, NULL};
         *dir; dir++)
        assert_int_equal(mkdir(*dir, 0755), 0);
    shop->database = (struct role_guest){
        .role = "database",
        .address = shop->address,
        .tile = 3,
        .seed = 4711,
        .data_bytes = data_bytes,
        .vcpus = 1,
        .files_dir = shop->database_files,
        .data_dir = shop->data_dir,
        .run_dir = shop->run_dir,
        .tiles = {3, 4},
        .ntiles = ntiles,
        .npeers = 1,
    };
    shop->app = (struct role_guest){
        .role = "app",
        .address = shop->address,
        .tile = 3,
        .vcpus = 1,
        .log_requests = true,
        .files_dir = shop->app_files,
        .data_dir = shop->data_dir,
        .run_dir = shop->app_run_dir,
        .npeers = 1,
    };
    snprintf(shop->database.peers[0].role, sizeof shop->database.peers[0].role, "app");
    snprintf(shop->app.peers[0].role, sizeof shop->app.peers[0].role, "database");
    /* A server on loopback sees its clients come from 127.0.0.1 or from its own address. */
    snprintf(shop->database.peers[0].address, sizeof shop->database.peers[0].address, "%s",
             "127.0.0.1");
    snprintf(shop->app.peers[0].address, sizeof shop->app.peers[0].address, "%s", shop->address);
}

void shop_start(const struct role_guest_ops *ops, struct role_guest *guest)
{
    int64_t until_ns = vt_clock_now_ns() + PATIENCE_NS;
    struct vt_error err = VT_ERROR_INIT;
    int ret;

    if (ops->prepare(guest, &err) < 0 || ops->start(guest, &err) < 0)
        fail_msg("%s: %s", guest->role, err.text);
    while ((ret = ops->ready(guest, &err)) == -EAGAIN && vt_clock_now_ns() < until_ns)
        poll(NULL, 0, 20);
    if (ret < 0)
        fail_msg("ready of %s: %s", guest->role, err.text);
}

/* Whether a process works in the cluster's folder, as all of PostgreSQL's do. */
static bool lives(const char *data_dir)
{
    DIR *proc = opendir("/proc");
    char link[300], at[256], wanted[160];
    bool found = false;

    assert_non_null(proc);
    snprintf(wanted, sizeof wanted, "%s/postgres", data_dir);
    for (const struct dirent *entry; (entry = readdir(proc));) {
        ssize_t n;

        snprintf(link, sizeof link, "/proc/%s/cwd", entry->d_name);
        n = readlink(link, at, sizeof at - 1);
        at[n > 0 ? n : 0] = '\0';
        found |= strcmp(at, wanted) == 0;
    }
    closedir(proc);
    return found;
}

/* A postmaster that is killed leaves its children to notice that; until they have, none starts. */
void shop_kill(struct role_guest *guest, int signal)
{
    int64_t until_ns = vt_clock_now_ns() + PATIENCE_NS;

    for (unsigned i = 0; i < guest->nchildren; i++) {
        if (guest->children[i].pid <= 0)
            continue;
        kill(guest->children[i].pid, signal);
        waitpid(guest->children[i].pid, NULL, 0);
        guest->children[i].pid = 0;
    }
    guest->nchildren = 0;
    while (strcmp(guest->role, "database") == 0 && lives(guest->data_dir)) {
        if (vt_clock_now_ns() > until_ns)
            fail_msg("servers of %s do not end", guest->role);
        poll(NULL, 0, 10);
    }
}

json_t *shop_check(struct shop *shop)
{
    json_t *facts = json_object();
    struct vt_error err = VT_ERROR_INIT;

    if (role_database_guest.check(&shop->database, facts, &err) < 0)
        fail_msg("check: %s", err.text);
    return facts;
}

json_int_t shop_fact(const json_t *facts, const char *name)
{
    const json_t *fact = json_object_get(facts, name);

    if (!json_is_integer(fact))
        fail_msg("no fact %s", name);
    return json_integer_value(fact);
}

void shop_nothing_wrong(const json_t *facts)
{
    unsigned n = 0;
    const char *name;
    json_t *fact;

    json_object_foreach((json_t *)facts, name, fact) {
        if (strncmp(name, "wrong.", 6) != 0)
            continue;
        n++;
        if (json_integer_value(fact) != 0)
            fail_msg("%s: %lld", name, (long long)json_integer_value(fact));
    }
    assert_int_equal(n, 6);
}

bool shop_keeps(const struct shop *shop, unsigned tile, uint32_t sequence)
{
    VT_AUTO_BUF struct vt_buf bits = VT_BUF_INIT(1 << 20);
    struct vt_error err = VT_ERROR_INIT;
    char path[128];

    snprintf(path, sizeof path, "%s/kept.%s.%u.bits", shop->run_dir,
             shop->database.client ? "database" : "app", tile);
    if (vt_file_read(path, VT_KIND_INFRA, &bits, &err) < 0)
        fail_msg("%s", err.text);
    return sequence / 8 < bits.len && ((uint8_t)bits.data[sequence / 8] >> sequence % 8 & 1);
}

char *shop_query(const struct shop *shop, unsigned tile, const char *query)
{
    struct vt_buf out = VT_BUF_INIT(1 << 20);
    struct vt_error err = VT_ERROR_INIT;
    char user[16];
    const char *const argv[] = {POSTGRES_BIN "/psql",
                                "-XAqt",
                                "-v",
                                "ON_ERROR_STOP=1",
                                "-h",
                                shop->address,
                                "-U",
                                user,
                                "-d",
                                "postgres",
                                "-c",
                                query,
                                NULL};

    snprintf(user, sizeof user, "app%u", tile);
    if (vt_proc_run(argv, &out, PATIENCE_NS, &err) < 0)
        fail_msg("%s: %s", query, err.text);
    return out.data ? out.data : strdup("");
}

void shop_fini(struct shop *shop)
{
    const char *const argv[] = {"rm", "-r", "--", shop->dir, NULL};

    /* In order: php-fpm's processes outlive a killed master. */
    shop_kill(&shop->app, SIGTERM);
    shop_kill(&shop->database, SIGINT);
    assert_int_equal(vt_proc_run(argv, NULL, 0, NULL), 0);
}
