/* SPDX-License-Identifier: Apache-2.0 */
/* The whole application, nginx, PHP and PostgreSQL, driven by its driver over real sockets: right
 * answers, refusals of what is no request of ours, and a database killed in mid-purchase that has
 * everything afterwards that was acknowledged before. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tests/unit/tiles/shop.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/registry.h"

static struct shop shop;
static struct driver_target target = {.tile = 3, .port = APP_PORT, .server_name = "app.test"};
static bool present;

static int set_up(void **state)
{
    (void)state;
    present = shop_present();
    if (present) {
        shop_init(&shop, 2 << 20, 1);
        shop_start(&role_database_guest, &shop.database);
        shop_start(&role_app_guest, &shop.app);
        snprintf(target.address, sizeof target.address, "%s", shop.address);
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

/* --- a client on a blocking socket --- */

static int reach(void)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(APP_PORT)};
    struct timeval limit = {.tv_sec = 30};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, shop.address, &peer.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* One step on a connection of its own. answer: filled with what came, may be NULL. */
static enum driver_verdict ask(const struct driver_step *step, bool *acknowledged,
                               struct vt_buf *answer, const char **why)
{
    VT_AUTO_FREE void *conn = calloc(1, app_driver.conn_bytes);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(8192);
    VT_AUTO_CLOSE int fd = reach();
    enum driver_verdict verdict = DRIVER_MORE;
    uint8_t data[1000];

    *why = "no connection";
    if (fd < 0 || !conn)
        return DRIVER_BAD;
    app_driver.conn_init(conn, &target);
    app_driver.request(conn, step, &out);
    if (send(fd, out.data, out.len, MSG_NOSIGNAL) != (ssize_t)out.len)
        return DRIVER_BAD;
    while (verdict == DRIVER_MORE) {
        ssize_t n = recv(fd, data, sizeof data, 0);
        size_t used;

        if (n <= 0)
            return app_driver.on_eof(conn, true, why);
        if (answer)
            vt_buf_add(answer, data, (size_t)n);
        verdict = app_driver.on_bytes(conn, data, (size_t)n, &used, &out, why);
    }
    *acknowledged = app_driver.acknowledges(conn);
    return verdict;
}

/* A step as plan() draws them, by its number alone. */
static struct driver_step draw_step(uint32_t sequence)
{
    struct driver_step step = {.sequence = sequence};
    const struct spec_load load = {0};
    VT_AUTO_FREE void *session = calloc(1, app_driver.session_bytes);
    struct vt_rng rng;
    int64_t gap_ns;

    vt_rng_seed(&rng, 1, "steps", sequence);
    app_driver.plan(session, &rng, &load, true, false, &step.operation, &step.argument, &gap_ns);
    return step;
}

static void test_right(void **state)
{
    (void)state;
    unsigned kept = 0, done[APP_OPERATIONS] = {0};
    json_t *facts;

    if (!present)
        skip();
    for (uint32_t r = 0; r < 200; r++) {
        struct driver_step step = draw_step(r);
        VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(1 << 16);
        bool acknowledged = false;
        const char *why = "";

        if (ask(&step, &acknowledged, &answer, &why) != DRIVER_DONE)
            fail_msg("%s: %s", why, answer.data ? answer.data : "nothing");
        done[step.operation]++;
        kept += acknowledged;
        if (step.operation == APP_PURCHASE || step.operation == APP_WORKORDER)
            assert_true(acknowledged);
        if (step.operation == APP_BROWSE)
            assert_false(acknowledged);
    }
    for (unsigned i = 0; i < APP_OPERATIONS; i++)
        assert_true(done[i] > 0);
    facts = shop_check(&shop);
    shop_nothing_wrong(facts);
    assert_int_equal(shop_fact(facts, "orders"), done[APP_PURCHASE]);
    assert_int_equal(shop_fact(facts, "work_orders"), done[APP_WORKORDER]);
    assert_int_equal(shop_fact(facts, "orders") + shop_fact(facts, "work_orders") +
                         shop_fact(facts, "shipments"),
                     kept);
    json_decref(facts);
}

/* Stated status for each; the database is not asked. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET /nothing?r=1&n=1", 404},  {"GET /purchase?r=1&n=1", 405},
        {"POST /browse?r=1&n=1", 405},  {"GET /browse?r=1", 400},
        {"GET /browse?r=1&n=-1", 400},  {"GET /browse?r=1&n=4294967296", 400},
        {"GET /browse?r[]=1&n=1", 400}, {"POST /purchase?r=1&n=1", 400},
        {"POST /manage?r=1&n=1", 400},  {"GET /browse?r=1&n=1%27%3B--", 400},
    };

    if (!present)
        skip();
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        VT_AUTO_CLOSE int fd = reach();
        char text[256];
        int status = 0;
        ssize_t n;

        assert_true(fd >= 0);
        n = snprintf(text, sizeof text,
                     "%s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                     cases[i].request);
        assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
        n = recv(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
        if (status != cases[i].status)
            fail_msg("%s: %d", cases[i].request, status);
    }
}

/* --- killed in mid-purchase --- */

#define CLIENTS 4
#define STEPS 400 /* of each */

static atomic_uint nacknowledged, nright;
static _Atomic uint8_t acknowledged_steps[CLIENTS * STEPS];
static atomic_bool up_again;

/* Each step once, right or not, as the engine does; the last fifth waits for the restart. */
static void *client(void *first)
{
    for (uint32_t i = 0; i < STEPS; i++) {
        struct driver_step step = draw_step((uint32_t)(uintptr_t)first + i * CLIENTS);
        bool acknowledged = false;
        const char *why;

        while (i == STEPS * 4 / 5 && !atomic_load(&up_again))
            poll(NULL, 0, 1);
        step.sequence += 1000;
        if (ask(&step, &acknowledged, NULL, &why) != DRIVER_DONE)
            continue;
        atomic_fetch_add(&nright, 1);
        acknowledged_steps[step.sequence - 1000] = acknowledged;
        if (acknowledged)
            atomic_fetch_add(&nacknowledged, 1);
    }
    return NULL;
}

static void test_killed(void **state)
{
    (void)state;
    pthread_t threads[CLIENTS];
    unsigned lost = 0, before;
    json_t *facts;

    if (!present)
        skip();
    for (uintptr_t c = 0; c < CLIENTS; c++)
        assert_int_equal(pthread_create(&threads[c], NULL, client, (void *)c), 0);
    while (atomic_load(&nacknowledged) < 100)
        poll(NULL, 0, 1);
    shop_kill(&shop.database, SIGKILL);
    before = atomic_load(&nacknowledged);
    shop_start(&role_database_guest, &shop.database);
    atomic_store(&up_again, true);
    for (unsigned c = 0; c < CLIENTS; c++)
        pthread_join(threads[c], NULL);
    facts = shop_check(&shop);
    shop_nothing_wrong(facts);
    for (uint32_t i = 0; i < CLIENTS * STEPS; i++)
        lost += acknowledged_steps[i] && !shop_keeps(&shop, 3, 1000 + i);
    print_message("%u acknowledged before the kill, %u in all, %u lost; %u of %u right\n", before,
                  atomic_load(&nacknowledged), lost, atomic_load(&nright), CLIENTS * STEPS);
    assert_int_equal(lost, 0);
    /* Served again: of the last fifth, four processes may each meet their dead connection once. */
    assert_true(atomic_load(&nright) >= CLIENTS * STEPS / 5 - 4);
    assert_true(atomic_load(&nright) < CLIENTS * STEPS);
    json_decref(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_killed),
    };

    return cmocka_run_group_tests_name("app", tests, set_up, tear_down);
}
