/* SPDX-License-Identifier: Apache-2.0 */
/* The app driver without I/O, against answers that nginx, PHP and PostgreSQL gave to its requests:
 * right at every cut, wrong with any byte of the body changed, never followed past a broken head.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/registry.h"

static const struct driver_target target = {.tile = 3, .port = 80, .server_name = "app.test"};

static const struct {
    struct driver_step step;
    const char *answer;
} recorded[] = {
    {{1, 0, APP_BROWSE, 1410631222u, 0},
     "HTTP/1.1 200 OK\r\n"
     "Server: nginx/1.22.1\r\n"
     "Date: Mon, 30 Nov 2026 15:30:30 GMT\r\n"
     "Content-Type: text/plain; charset=utf-8\r\n"
     "Content-Length: 510\r\n"
     "Connection: keep-alive\r\n"
     "\r\n"
     "vtile 3 browse 1410631222 1\n"
     "item 223 82224 1578 part-0223-5840a64bde2c70c2\n"
     "item 224 90143 1236 part-0224-f6781ffc7c63ea73\n"
     "item 225 98062 1985 part-0225-94af99ad1a9b6424\n"
     "item 226 6081 1474 part-0226-32e7135eb8d2ddd5\n"
     "item 227 14000 1676 part-0227-d11e8d0f570a5786\n"
     "item 228 21919 1638 part-0228-6f5606c0f541d137\n"
     "item 229 29838 1251 part-0229-0d8d807193794ae8\n"
     "item 230 37757 1532 part-0230-abc4fa2231b0c499\n"
     "item 231 45676 1131 part-0231-49fc73d3cfe83e4a\n"
     "item 232 53595 1333 part-0232-e833ed846e1fb7fb\n"
     "end df4812ad\n"},
    {{10, 0, APP_PURCHASE, 3109049081u, 0},
     "HTTP/1.1 200 OK\r\n"
     "Server: nginx/1.22.1\r\n"
     "Date: Mon, 30 Nov 2026 15:30:30 GMT\r\n"
     "Content-Type: text/plain; charset=utf-8\r\n"
     "Content-Length: 87\r\n"
     "Connection: keep-alive\r\n"
     "\r\n"
     "vtile 3 purchase 3109049081 10\n"
     "order 5002 customer 41 of 200 total 549779\n"
     "end e9dee3ab\n"},
    {{5, 0, APP_MANAGE, 3158152692u, 0},
     "HTTP/1.1 200 OK\r\n"
     "Server: nginx/1.22.1\r\n"
     "Date: Mon, 30 Nov 2026 15:30:30 GMT\r\n"
     "Content-Type: text/plain; charset=utf-8\r\n"
     "Content-Length: 345\r\n"
     "Connection: keep-alive\r\n"
     "\r\n"
     "vtile 3 manage 3158152692 5\n"
     "customer 190 of 200 balance 8978910\n"
     "order 4981 shipped 326614\n"
     "order 4943 shipped 469628\n"
     "order 4386 shipped 86592\n"
     "order 4108 shipped 110942\n"
     "order 3942 shipped 403504\n"
     "order 3855 shipped 59753\n"
     "order 3732 shipped 259651\n"
     "order 3133 shipped 497368\n"
     "order 2890 shipped 559437\n"
     "order 2853 shipped 197598\n"
     "shipped 0\n"
     "end b5dd3c84\n"},
    {{6, 0, APP_WORKORDER, 2363502770u, 0},
     "HTTP/1.1 200 OK\r\n"
     "Server: nginx/1.22.1\r\n"
     "Date: Mon, 30 Nov 2026 15:30:30 GMT\r\n"
     "Content-Type: text/plain; charset=utf-8\r\n"
     "Content-Length: 83\r\n"
     "Connection: keep-alive\r\n"
     "\r\n"
     "vtile 3 workorder 2363502770 6\n"
     "work 2 item 843 quantity 17 stock 1888\n"
     "end f69ffea1\n"},
};

static enum driver_verdict converse(const struct driver_step *step, const char *answer, size_t len,
                                    size_t cut, bool *acknowledged, const char **why)
{
    VT_AUTO_FREE void *conn = calloc(1, app_driver.conn_bytes);
    VT_AUTO_BUF struct vt_buf request = VT_BUF_INIT(4096);
    const uint8_t *data = (const uint8_t *)answer;
    enum driver_verdict verdict;
    size_t used;

    app_driver.conn_init(conn, &target);
    app_driver.request(conn, step, &request);
    assert_false(request.failed);
    verdict = app_driver.on_bytes(conn, data, cut, &used, &request, why);
    if (verdict == DRIVER_MORE) {
        assert_int_equal(used, cut);
        verdict = app_driver.on_bytes(conn, data + cut, len - cut, &used, &request, why);
        used += cut;
    }
    *acknowledged = app_driver.acknowledges(conn);
    if (verdict == DRIVER_DONE) {
        assert_int_equal(used, len);
        assert_true(app_driver.keep(conn));
    } else {
        assert_false(*acknowledged);
    }
    app_driver.conn_fini(conn);
    return verdict;
}

static void test_requests(void **state)
{
    (void)state;
    static const struct {
        struct driver_step step;
        const char *begin;
    } cases[] = {
        {{17, 0, APP_BROWSE, 5, 0}, "GET /browse?r=17&n=5 HTTP/1.1\r\nHost: app.test\r\n"},
        {{4294967295, 0, APP_PURCHASE, 4294967295, 0},
         "POST /purchase?r=4294967295&n=4294967295 HTTP/1.1\r\n"},
        {{0, 0, APP_MANAGE, 131071, 0}, "POST /manage?r=0&n=131071 HTTP/1.1\r\n"},
        {{1, 0, APP_WORKORDER, 0, 0}, "POST /workorder?r=1&n=0 HTTP/1.1\r\n"},
    };
    VT_AUTO_FREE void *conn = calloc(1, app_driver.conn_bytes);

    app_driver.conn_init(conn, &target);
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
        const char *form, *length;

        app_driver.request(conn, &cases[i].step, &out);
        assert_memory_equal(out.data, cases[i].begin, strlen(cases[i].begin));
        form = strstr(out.data, "\r\n\r\n");
        assert_non_null(form);
        length = strstr(out.data, "\r\nContent-Length: ");
        assert_int_equal(length ? strtoul(length + 18, NULL, 10) : 0, strlen(form + 4));
        if (cases[i].step.operation == APP_MANAGE)
            assert_string_equal(form + 4, "customer=1");
    }
}

/* Every purchase that can be drawn is one the application takes: different items that exist. */
static void test_purchases(void **state)
{
    (void)state;
    uint64_t units = 0, made = 0;

    for (uint32_t argument = 0; argument < 100000; argument++) {
        struct app_purchase purchase;
        struct app_line work = app_work(argument);

        app_purchase(argument, &purchase);
        assert_in_range(purchase.nlines, 1, 5);
        for (unsigned i = 0; i < purchase.nlines; i++) {
            assert_in_range(purchase.lines[i].item, 1, 1000);
            assert_in_range(purchase.lines[i].quantity, 1, 3);
            for (unsigned j = 0; j < i; j++)
                assert_int_not_equal(purchase.lines[i].item, purchase.lines[j].item);
            units += purchase.lines[i].quantity;
        }
        assert_in_range(work.item, 1, 1000);
        assert_in_range(work.quantity, 1, 23);
        made += work.quantity;
    }
    /* Means 6 and 12; standard deviations 3.4 and 6.6, so these bounds are five errors wide. */
    assert_in_range(units, 594600, 605400);
    assert_in_range(made, 1189500, 1210500);
}

static void test_right_at_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < VT_COUNT(recorded); i++) {
        size_t len = strlen(recorded[i].answer);

        for (size_t cut = 0; cut < len; cut++) {
            const char *why = "none";
            bool acknowledged;

            if (converse(&recorded[i].step, recorded[i].answer, len, cut, &acknowledged, &why) !=
                DRIVER_DONE)
                fail_msg("answer %zu cut at %zu: %s", i, cut, why);
            assert_int_equal(acknowledged, recorded[i].step.operation == APP_PURCHASE ||
                                               recorded[i].step.operation == APP_WORKORDER);
        }
    }
}

static void test_any_byte_changed(void **state)
{
    (void)state;
    for (size_t i = 0; i < VT_COUNT(recorded); i++) {
        VT_AUTO_FREE char *answer = strdup(recorded[i].answer);
        size_t len = strlen(answer);

        for (size_t at = (size_t)(strstr(answer, "\r\n\r\n") + 4 - answer); at < len; at++) {
            const char *why = "none";
            bool acknowledged;

            for (unsigned bit = 0; bit < 8; bit++) {
                answer[at] ^= (char)(1U << bit);
                if (converse(&recorded[i].step, answer, len, len / 2, &acknowledged, &why) !=
                    DRIVER_WRONG)
                    fail_msg("answer %zu: bit %u of byte %zu changed and not seen", i, bit, at);
                answer[at] ^= (char)(1U << bit);
            }
        }
    }
}

/* An answer with a right checksum that does not follow from the request. */
static void sealed(struct vt_buf *out, unsigned status, const char *body)
{
    vt_buf_printf(out, "HTTP/1.1 %u X\r\nContent-Length: %zu\r\n\r\n%send %08lx\n", status,
                  strlen(body) + 13, body, crc32(0, (const Bytef *)body, (uInt)strlen(body)));
}

static void test_sense(void **state)
{
    (void)state;
    struct driver_step purchase = {9, 0, APP_PURCHASE, 77, 0}, manage = {9, 0, APP_MANAGE, 0, 0};
    struct app_purchase wanted;
    char refused[2][96];

    app_purchase(77, &wanted);
    for (unsigned i = 0; i < 2; i++)
        snprintf(refused[i], sizeof refused[i], "vtile 3 purchase 77 9\nrefused %u %u\n",
                 wanted.lines[0].item, wanted.lines[0].quantity - 1 + i);
    const struct {
        const struct driver_step *step;
        const char *body;
        enum driver_verdict verdict;
        bool acknowledged;
    } cases[] = {
        /* less there than asked for: right, and promises nothing */
        {&purchase, refused[0], DRIVER_DONE, false},
        /* enough there */
        {&purchase, refused[1], DRIVER_WRONG, false},
        {&purchase, "vtile 3 purchase 77 9\nrefused 1001 0\n", DRIVER_WRONG, false},
        {&purchase, "vtile 4 purchase 77 9\nrefused 1 0\n", DRIVER_WRONG, false},
        {&manage, "vtile 3 manage 0 9\ncustomer 1 of 100 balance 0\nshipped 0\n", DRIVER_DONE,
         false},
        {&manage, "vtile 3 manage 0 9\ncustomer 1 of 100 balance 7\norder 5 shipped 7\nshipped 5\n",
         DRIVER_DONE, true},
        /* more in ten orders than in all */
        {&manage, "vtile 3 manage 0 9\ncustomer 1 of 100 balance 6\norder 5 open 7\nshipped 0\n",
         DRIVER_WRONG, false},
        /* not from the newest on */
        {&manage,
         "vtile 3 manage 0 9\ncustomer 1 of 100 balance 9\norder 5 open 2\norder 5 open 2\n"
         "shipped 0\n",
         DRIVER_WRONG, false},
        {&manage, "vtile 3 manage 0 9\ncustomer 2 of 100 balance 0\nshipped 0\n", DRIVER_WRONG,
         false},
        {&manage, "vtile 3 manage 0 9\ncustomer 01 of 100 balance 0\nshipped 0\n", DRIVER_WRONG,
         false},
    };

    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(4096);
        const char *why = "none";
        bool acknowledged;

        sealed(&answer, 200, cases[i].body);
        if (converse(cases[i].step, answer.data, answer.len, 20, &acknowledged, &why) !=
            cases[i].verdict)
            fail_msg("case %zu: %s", i, why);
        assert_int_equal(acknowledged, cases[i].acknowledged);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const struct driver_step step = {9, 0, APP_MANAGE, 0, 0};
    VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(1 << 20);
    const char *why = "none";
    bool acknowledged;

    sealed(&answer, 503, "vtile 3 manage 0 9\ncustomer 1 of 100 balance 0\nshipped 0\n");
    assert_int_equal(converse(&step, answer.data, answer.len, 30, &acknowledged, &why),
                     DRIVER_WRONG);
    assert_string_equal(why, "the status is not 200");
    /* far longer than any answer: read to its end, and wrong */
    vt_buf_reset(&answer);
    vt_buf_adds(&answer, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    for (unsigned i = 0; i < 100000; i++)
        vt_buf_add(&answer, "x", 1);
    assert_int_equal(converse(&step, answer.data, answer.len, 3000, &acknowledged, &why),
                     DRIVER_WRONG);
    vt_buf_reset(&answer);
    vt_buf_adds(&answer, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n");
    assert_int_equal(converse(&step, answer.data, answer.len, 0, &acknowledged, &why), DRIVER_BAD);
}

/* The mix is 50 20 20 10 % from the first step on, sessions last 20 steps on average. */
static void test_plan(void **state)
{
    (void)state;
    const struct spec_load load = {.think_mean_ns = 5 * VT_NS_PER_S,
                                   .think_max_ns = 75 * VT_NS_PER_S,
                                   .think_share = 1000000,
                                   .expected_ns = 100 * VT_NS_PER_MS};
    unsigned n[APP_OPERATIONS] = {0}, steps = 0, sessions = 20000;
    struct vt_rng rng;

    vt_rng_seed(&rng, 5, "plan", 0);
    for (unsigned s = 0; s < sessions; s++) {
        VT_AUTO_FREE void *session = calloc(1, app_driver.session_bytes);
        uint32_t argument, customer = 0;
        uint16_t operation;
        int64_t gap_ns;

        for (bool first = true;
             app_driver.plan(session, &rng, &load, first, s % 2, &operation, &argument, &gap_ns);
             first = false, steps++) {
            if (first)
                customer = argument >> 16;
            assert_int_equal(argument >> 16, customer);
            assert_in_range(gap_ns, 100 * VT_NS_PER_MS, 76 * VT_NS_PER_S);
            n[operation]++;
        }
    }
    /* Geometric of mean 20: standard deviation 19.5 a session, 0.14 of the mean; five of them. */
    assert_in_range(steps, 193 * sessions / 10, 207 * sessions / 10);
    /* 400,000 draws: standard deviation at most 0.08 %. */
    assert_in_range(n[APP_BROWSE] * 1000ULL / steps, 496, 504);
    assert_in_range(n[APP_PURCHASE] * 1000ULL / steps, 196, 204);
    assert_in_range(n[APP_MANAGE] * 1000ULL / steps, 196, 204);
    assert_in_range(n[APP_WORKORDER] * 1000ULL / steps, 97, 103);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_purchases),
        cmocka_unit_test(test_right_at_every_cut),
        cmocka_unit_test(test_any_byte_changed),
        cmocka_unit_test(test_sense),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_plan),
    };

    return cmocka_run_group_tests_name("app_driver", tests, NULL, NULL);
}
