/* SPDX-License-Identifier: Apache-2.0 */
/* The database role on a real PostgreSQL: contents by the stated formulas and sizes, transactions
 * that add up when many are at it, and what was answered still there after a kill. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tests/unit/tiles/shop.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/database/cluster.h"
#include "tiles/roles/database/postgres.h"
#include "tiles/roles/registry.h"

static struct shop shop;
static bool present;

static void run(const char *script)
{
    const char *const argv[] = {"sh", "-euc", script, NULL};
    struct vt_error err = VT_ERROR_INIT;

    if (vt_proc_run(argv, NULL, 60 * VT_NS_PER_S, &err) < 0)
        fail_msg("%s: %s", script, err.text);
}

/* The role's files as in an image, with the cluster that its recipe makes. (test_app has none.) */
static void make_files(void)
{
    char script[1024];

    snprintf(script, sizeof script, "cp -r %s %s/files; sh %s/image.sh %s/files",
             shop.database_files, shop.dir, shop.database_files, shop.dir);
    run(script);
    snprintf(shop.database_files, sizeof shop.database_files, "%s/files", shop.dir);
}

static int set_up(void **state)
{
    (void)state;
    present = shop_present();
    if (present) {
        shop_init(&shop, 4 << 20, 2);
        make_files();
        shop_start(&role_database_guest, &shop.database);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (present)
        shop_fini(&shop);
    return 0;
}

static json_int_t number_of(unsigned tile, const char *query)
{
    VT_AUTO_FREE char *text = shop_query(&shop, tile, query);

    return strtoll(text, NULL, 10);
}

/* Whatever a killed one has left, the copy is the image's cluster with its modes and owners. */
static void test_cluster(void **state)
{
    (void)state;
    struct postgres_paths paths;
    struct vt_error err = VT_ERROR_INIT;
    char data_dir[128], script[1024];
    struct role_guest guest;

    if (!present)
        skip();
    guest = shop.database;
    guest.data_dir = data_dir;
    snprintf(data_dir, sizeof data_dir, "%s/other", shop.dir);
    snprintf(
        script, sizeof script,
        "cd %s; mkdir -p other/postgres/base/7 other/cluster; echo 14 >other/postgres/PG_VERSION",
        shop.dir);
    run(script);
    assert_int_equal(postgres_paths(&guest, &paths, &err), 0);
    if (cluster_lay(&guest, &paths, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(script, sizeof script,
             "cd %s; [ \"$(ls other)\" = postgres ]; diff -r files/cluster other/postgres\n"
             "list() { (cd $1; find . -printf '%%m %%u %%g %%p\\n' | sort); }\n"
             "[ \"$(list files/cluster)\" = \"$(list other/postgres)\" ]\n"
             "[ \"$(stat -c '%%a %%U' other/postgres)\" = '700 postgres' ]",
             shop.dir);
    run(script);
    /* A server that has just begun; nobody is asked yet. */
    assert_int_equal(role_database_guest.ready(&guest, &err), -EAGAIN);
    snprintf(script, sizeof script,
             "cd %s; : >other/postgres/postmaster.pid; ln -s /etc files/cluster/link", shop.dir);
    run(script);
    assert_int_equal(role_database_guest.ready(&guest, &err), -EAGAIN);
    assert_int_equal(cluster_lay(&guest, &paths, &err), -EINVAL);
    assert_non_null(strstr(err.text, "files/cluster/link"));
}

/* All items of both tiles, by the formulas of goods.c; a page at the end goes on at the front. */
static void test_items(void **state)
{
    (void)state;
    VT_AUTO_FREE char *around = NULL;

    if (!present)
        skip();
    for (unsigned tile = 3; tile <= 4; tile++) {
        VT_AUTO_FREE char *text = shop_query(
            &shop, tile,
            "SELECT b.item, b.price, b.name FROM generate_series(0, 990, 10) g, browse(g) b");
        const char *at = text;
        char name[APP_NAME_MAX], line[96];

        for (uint32_t item = 1; item <= APP_ITEMS; item++) {
            app_name(tile, item, name);
            snprintf(line, sizeof line, "%u|%llu|%s\n", item,
                     (unsigned long long)app_price(tile, item), name);
            assert_memory_equal(at, line, strlen(line));
            at += strlen(line);
        }
        assert_string_equal(at, "");
    }
    around = shop_query(&shop, 3, "SELECT string_agg(item::text, ' ') FROM browse(4294967995)");
    assert_string_equal(around, "996 997 998 999 1000 1 2 3 4 5\n");
}

/* 2500 orders a MiB of contents, and everything adds up before anybody came. */
static void test_sizes(void **state)
{
    (void)state;
    json_t *facts;

    if (!present)
        skip();
    facts = shop_check(&shop);
    shop_nothing_wrong(facts);
    assert_int_equal(shop_fact(facts, "past_orders"), 2 * 4 * 2500);
    assert_int_equal(shop_fact(facts, "orders"), 0);
    print_message("database of two tiles of 4 MiB: %.1f MiB\n",
                  (double)shop_fact(facts, "database_bytes") / 1048576);
    json_decref(facts);
}

/* The application's user may call its functions, and nothing else, of its own tile alone. */
static void test_rights(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "SELECT * FROM orders", "UPDATE items SET stock = 0", "SELECT * FROM tile4.browse(0)",
        "SELECT pg_read_file('postgresql.conf')", "CREATE TABLE t (i int)"};

    if (!present)
        skip();
    for (size_t i = 0; i < VT_COUNT(refused); i++) {
        const char *const argv[] = {POSTGRES_BIN "/psql",
                                    "-XAqt",
                                    "-v",
                                    "ON_ERROR_STOP=1",
                                    "-h",
                                    shop.address,
                                    "-U",
                                    "app3",
                                    "-d",
                                    "postgres",
                                    "-c",
                                    refused[i],
                                    NULL};
        struct vt_error err = VT_ERROR_INIT;

        assert_int_equal(vt_proc_run(argv, NULL, 10 * VT_NS_PER_S, &err), -ECHILD);
        assert_non_null(strstr(err.text, "permission denied"));
    }
}

static void test_transactions(void **state)
{
    (void)state;
    VT_AUTO_FREE char *bought = NULL, *shipped = NULL, *made = NULL, *refused = NULL;
    char line[160], name[64];
    json_int_t stock;

    if (!present)
        skip();
    stock = number_of(3, "SELECT stock FROM browse(6) LIMIT 1");
    assert_in_range(stock, 1000, 1999);
    bought = shop_query(&shop, 3, "SELECT * FROM purchase(100, 405, '{9,7}', '{2,3}')");
    snprintf(line, sizeof line, "6|400|10001|%llu||\n",
             (unsigned long long)(2 * app_price(3, 9) + 3 * app_price(3, 7)));
    assert_string_equal(bought, line);
    assert_int_equal(number_of(3, "SELECT stock FROM browse(6) LIMIT 1"), stock - 3);
    shipped = shop_query(&shop, 3,
                         "SELECT customer, just_shipped, number, shipped FROM "
                         "manage(101, 405) LIMIT 1");
    assert_string_equal(shipped, "6|10001|10001|t\n");
    made = shop_query(&shop, 3, "SELECT * FROM work_order(102, 7, 5)");
    snprintf(line, sizeof line, "1|%lld\n", (long long)stock + 2);
    assert_string_equal(made, line);
    refused = shop_query(&shop, 3, "SELECT * FROM purchase(103, 5, '{8,7}', '{1,9999}')");
    snprintf(line, sizeof line, "6|400|||7|%lld\n", (long long)stock + 2);
    assert_string_equal(refused, line);
    json_decref(shop_check(&shop));
    for (uint32_t i = 99; i < 105; i++)
        assert_int_equal(shop_keeps(&shop, 3, i), i >= 100 && i <= 102);
    assert_false(shop_keeps(&shop, 4, 100));
    snprintf(name, sizeof name, "SELECT count(*) FROM browse(0)");
    assert_int_equal(number_of(4, name), 10);
}

/* --- many at once --- */

#define CLIENTS 8

/* psql -f - per client; each order takes from the same few items. */
static pid_t begin_client(unsigned client, unsigned norders, const char *out_path)
{
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    struct vt_error err = VT_ERROR_INIT;
    char path[128];
    const char *const argv[] = {
        POSTGRES_BIN "/psql", "-XAqt", "-h", shop.address, "-U", "app3", "-d",
        "postgres",           "-f",    path, NULL};
    VT_AUTO_FCLOSE FILE *script = NULL, *out = fopen(out_path, "w");
    pid_t pid;

    snprintf(path, sizeof path, "%s/client%u.sql", shop.dir, client);
    script = fopen(path, "w");
    assert_non_null(script);
    assert_non_null(out);
    for (unsigned i = 0; i < norders; i++) {
        unsigned r = 1000 + i * CLIENTS + client;

        /* Opposite orders of the same items: without one order of locks they would deadlock. */
        fprintf(script,
                "SELECT %u, number FROM purchase(%u, %u, '{%s}', '{1,2,3}') "
                "WHERE number IS NOT NULL;\n",
                r, r, r, client % 2 ? "1,2,3" : "3,2,1");
        if (i % 4 == 0)
            fprintf(script, "SELECT count(*) < 0 FROM work_order(%u, %u, 3);\n", 100000 + r,
                    i % 3 + 1);
    }
    fflush(script);
    spec.argv = argv;
    spec.stdout_fd = fileno(out);
    if (vt_proc_spawn(&spec, &pid, &err) < 0)
        fail_msg("%s", err.text);
    return pid;
}

static void begin_clients(pid_t pids[CLIENTS], unsigned norders)
{
    char path[128];

    for (unsigned c = 0; c < CLIENTS; c++) {
        snprintf(path, sizeof path, "%s/client%u.out", shop.dir, c);
        pids[c] = begin_client(c, norders, path);
    }
}

/* Sequences that a client was answered for. */
static unsigned count_answers(bool all_kept)
{
    unsigned n = 0, sequence;
    char path[128], line[64];

    for (unsigned c = 0; c < CLIENTS; c++) {
        VT_AUTO_FCLOSE FILE *out = NULL;

        snprintf(path, sizeof path, "%s/client%u.out", shop.dir, c);
        out = fopen(path, "r");
        assert_non_null(out);
        while (fgets(line, sizeof line, out)) {
            if (sscanf(line, "%u|", &sequence) != 1 || !strchr(line, '\n'))
                continue;
            n++;
            if (all_kept && !shop_keeps(&shop, 3, sequence))
                fail_msg("order of step %u was answered and is lost", sequence);
        }
    }
    return n;
}

static void test_concurrent(void **state)
{
    (void)state;
    enum { ORDERS = 40 };
    pid_t pids[CLIENTS];
    json_t *facts;

    if (!present)
        skip();
    begin_clients(pids, ORDERS);
    for (unsigned c = 0; c < CLIENTS; c++)
        assert_int_equal(waitpid(pids[c], NULL, 0), pids[c]);
    facts = shop_check(&shop);
    shop_nothing_wrong(facts);
    assert_int_equal(count_answers(true), CLIENTS * ORDERS);
    assert_int_equal(shop_fact(facts, "orders"), 1 + CLIENTS * ORDERS);
    assert_int_equal(shop_fact(facts, "work_orders"), 1 + CLIENTS * ORDERS / 4);
    assert_int_equal(shop_fact(facts, "deadlocks"), 0);
    json_decref(facts);
}

/* kill -9 of the whole server in mid-purchase: the postmaster and its backends share a group of
 * processes only in name, so all that run its program from our folder are killed. */
static void test_killed(void **state)
{
    (void)state;
    pid_t pids[CLIENTS];
    int64_t until_ns = vt_clock_now_ns() + 30 * VT_NS_PER_S;
    unsigned before, answered;
    json_t *facts;

    if (!present)
        skip();
    begin_clients(pids, 4000);
    /* Sequences of the test before are used again: those orders are refused, the later stand. */
    while ((before = count_answers(false)) < 200 && vt_clock_now_ns() < until_ns)
        ;
    shop_kill(&shop.database, SIGKILL);
    for (unsigned c = 0; c < CLIENTS; c++)
        assert_int_equal(waitpid(pids[c], NULL, 0), pids[c]);
    answered = count_answers(false);
    assert_in_range(before, 200, CLIENTS * 4000 - 1);
    assert_in_range(answered, before, CLIENTS * 4000 - 1);
    shop_start(&role_database_guest, &shop.database);
    facts = shop_check(&shop);
    shop_nothing_wrong(facts);
    assert_int_equal(count_answers(true), answered);
    print_message("killed after %u answers; %lld orders there\n", answered,
                  (long long)shop_fact(facts, "orders"));
    json_decref(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items),      cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_rights),     cmocka_unit_test(test_transactions),
        cmocka_unit_test(test_concurrent), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_cluster),
    };

    return cmocka_run_group_tests_name("database", tests, set_up, tear_down);
}
