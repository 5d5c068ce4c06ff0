/* SPDX-License-Identifier: Apache-2.0 */
/* The mail driver without I/O: conversations cut at every byte, every way in which an answer can be
 * wrong, the walk of its sessions, and messages that check themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "tiles/roles/mail/mail.h"
#include "tiles/roles/registry.h"

#define GREETING "* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN] ready\r\n"
#define SELECTED "* 7 EXISTS\r\n* OK [UIDVALIDITY 7] UIDs valid\r\n* OK [UIDNEXT 9] next\r\n"

static const struct driver_target target = {.tile = 3, .port = MAIL_PORT};

/* A session of user 5 whose connection stands in its mailbox of 7 messages; tags up to v2 are
 * used. */
struct talk {
    void *conn;
    struct vt_buf out;
    enum driver_verdict verdict;
    const char *why;
};

static void begin(struct talk *t)
{
    *t = (struct talk){.out = VT_BUF_INIT(65536)};
    t->conn = calloc(1, mail_driver.conn_bytes);
    assert_non_null(t->conn);
    mail_driver.conn_init(t->conn, &target);
}

static void end(struct talk *t)
{
    mail_driver.conn_fini(t->conn);
    free(t->conn);
    vt_buf_dispose(&t->out);
}

/* Lets the driver hear a piece; what it sends is gathered. */
static void hear(struct talk *t, const void *data, size_t len)
{
    VT_AUTO_FREE uint8_t *copy = malloc(len + !len);
    size_t at = 0;

    assert_non_null(copy);
    memcpy(copy, data, len);
    while (at < len && t->verdict != DRIVER_BAD) {
        size_t used = len + 1;
        enum driver_verdict verdict =
            mail_driver.on_bytes(t->conn, copy + at, len - at, &used, &t->out, &t->why);

        /* Data behind an answer takes nothing from it. */
        if (verdict != DRIVER_MORE || t->verdict == DRIVER_SEND)
            t->verdict = verdict;
        assert_true(used <= len - at);
        at += used;
        if (t->verdict == DRIVER_BAD)
            return;
        if (t->verdict != DRIVER_SEND)
            assert_int_equal(at, len);
    }
}

static void enter(struct talk *t, enum mail_operation operation)
{
    const struct driver_step step = {.operation = operation, .argument = 5U << 24};

    begin(t);
    mail_driver.enter(t->conn, &step, &t->out);
    assert_int_equal(t->out.len, 0); /* the server speaks first */
    hear(t, GREETING, strlen(GREETING));
    assert_int_equal(t->verdict, DRIVER_SEND);
    assert_string_equal(t->out.data, "v1 LOGIN user0005 vtile\r\n");
    vt_buf_reset(&t->out);
    hear(t, "v1 OK in\r\n", 10);
    if (operation == MAIL_SELECT) {
        assert_int_equal(t->verdict, DRIVER_DONE);
        return;
    }
    assert_string_equal(t->out.data, "v2 SELECT INBOX\r\n");
    vt_buf_reset(&t->out);
    hear(t, SELECTED "v2 OK done\r\n", strlen(SELECTED "v2 OK done\r\n"));
    assert_int_equal(t->verdict, DRIVER_DONE);
}

static void ask(struct talk *t, enum mail_operation operation, uint32_t number)
{
    const struct driver_step step = {
        .sequence = 77, .operation = operation, .argument = 5U << 24 | number};

    vt_buf_reset(&t->out);
    mail_driver.request(t->conn, &step, &t->out);
    t->verdict = DRIVER_MORE;
    t->why = NULL;
}

/* The answer to operation, cut at every byte. */
static void expect_answer(enum mail_operation operation, uint32_t number, const char *request,
                          const char *answer, size_t len, enum driver_verdict wanted,
                          const char *why)
{
    for (size_t cut = 0; cut < len; cut++) {
        struct talk t;

        enter(&t, operation);
        ask(&t, operation, number);
        assert_string_equal(t.out.data, request);
        hear(&t, answer, cut);
        hear(&t, answer + cut, len - cut);
        if (t.verdict != wanted || (why && (!t.why || strcmp(t.why, why) != 0)))
            fail_msg("cut at %zu of %s: verdict %d, %s", cut, answer, t.verdict, t.why);
        end(&t);
    }
}

static void expect_text(enum mail_operation operation, uint32_t number, const char *request,
                        const char *answer, enum driver_verdict wanted, const char *why)
{
    expect_answer(operation, number, request, answer, strlen(answer), wanted, why);
}

/* --- fetch --- */

static void add_fetch(struct vt_buf *out, uint32_t uid, const uint8_t *body, size_t len)
{
    vt_buf_printf(out, "* 9 EXISTS\r\n* 3 FETCH (UID %u FLAGS (\\Seen) BODY[] {%zu}\r\n", uid, len);
    vt_buf_add(out, body, len);
    vt_buf_adds(out, ")\r\n* 1 FETCH (FLAGS (\\Seen))\r\nv3 OK Fetch completed.\r\n");
}

static void expect_fetch(const struct mail_message *m, uint32_t uid, enum driver_verdict wanted,
                         const char *why, bool every_cut)
{
    VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(1 << 20);
    VT_AUTO_FREE uint8_t *body = malloc(m->bytes);

    mail_render(m, body);
    add_fetch(&answer, uid, body, m->bytes);
    for (size_t cut = 0; cut < answer.len; cut += every_cut ? 1 : answer.len / 3) {
        struct talk t;

        enter(&t, MAIL_FETCH);
        ask(&t, MAIL_FETCH, 2);
        assert_string_equal(t.out.data, "v3 FETCH 3 (UID FLAGS BODY.PEEK[])\r\n");
        hear(&t, answer.data, cut);
        hear(&t, answer.data + cut, answer.len - cut);
        if (t.verdict != wanted || (why && strcmp(t.why, why) != 0))
            fail_msg("cut at %zu: verdict %d, %s", cut, t.verdict, t.why);
        assert_int_equal(mail_driver.answer_bytes(t.conn), m->bytes);
        assert_true(mail_driver.keep(t.conn));
        end(&t);
    }
}

static void test_fetch(void **state)
{
    (void)state;
    struct mail_message m = {.tile = 3, .user = 5, .number = 4, .bytes = mail_bytes(5, 4)};
    struct mail_message appended = {.tile = 3, .user = 5, .sequence = 9, .bytes = 1024};

    expect_fetch(&m, 4, DRIVER_DONE, NULL, true);
    expect_fetch(&appended, 8, DRIVER_DONE, NULL, true);
    expect_fetch(&m, 5, DRIVER_WRONG, "the message is another one than its UID says", false);
    expect_fetch(&appended, 4, DRIVER_WRONG, "the message is another one than its UID says", false);
    m.user = 6;
    expect_fetch(&m, 4, DRIVER_WRONG, "the message is of another mailbox", false);
    m.user = 5;
    m.tile = 2;
    expect_fetch(&m, 4, DRIVER_WRONG, "the message is of another mailbox", false);
    m.tile = 3;
    m.bytes++;
    expect_fetch(&m, 4, DRIVER_WRONG, "the message has not the expected length", false);
}

/* Any bit of a body is seen. */
static void test_changed_byte(void **state)
{
    (void)state;
    const struct mail_message m = {.tile = 3, .user = 5, .sequence = 9, .bytes = 1024};
    uint8_t body[1024];

    mail_render(&m, body);
    for (size_t i = 0; i < sizeof body; i++) {
        VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(1 << 20);
        struct talk t;

        body[i] ^= 1;
        add_fetch(&answer, 8, body, sizeof body);
        body[i] ^= 1;
        enter(&t, MAIL_FETCH);
        ask(&t, MAIL_FETCH, 2);
        hear(&t, answer.data, answer.len);
        assert_int_equal(t.verdict, DRIVER_WRONG);
        assert_string_equal(t.why, "the checksum of the message is wrong");
        end(&t);
    }
}

static void test_fetch_without_body(void **state)
{
    (void)state;
    static const char request[] = "v3 FETCH 3 (UID FLAGS BODY.PEEK[])\r\n";

    /* Another session expunged it; what was appended nobody expunges. */
    expect_text(MAIL_FETCH, 2, request,
                "* 3 FETCH (UID 4 FLAGS () BODY[] NIL)\r\nv3 OK [EXPUNGEISSUED] gone\r\n",
                DRIVER_DONE, NULL);
    expect_text(MAIL_FETCH, 2, request,
                "* 3 FETCH (UID 8 FLAGS () BODY[] NIL)\r\nv3 OK [EXPUNGEISSUED] gone\r\n",
                DRIVER_WRONG, "a message without its text");
    expect_text(MAIL_FETCH, 2, request, "* 3 FETCH (UID 4 BODY[] NIL)\r\nv3 OK done\r\n",
                DRIVER_WRONG, "a message without its text");
    expect_text(MAIL_FETCH, 2, request, "* 3 FETCH (UID 4 BODY[] {0}\r\n)\r\nv3 OK done\r\n",
                DRIVER_WRONG, "the message is not whole");
    expect_text(MAIL_FETCH, 2, request, "v3 OK done\r\n", DRIVER_WRONG, "the message did not come");
    expect_text(MAIL_FETCH, 2, request, "* 2 FETCH (UID 4 BODY[] NIL)\r\nv3 OK done\r\n",
                DRIVER_WRONG, NULL);
    expect_text(MAIL_FETCH, 2, request,
                "* 1 FETCH (FLAGS ())\r\nv3 NO Some messages no longer exist\r\n", DRIVER_WRONG,
                "NO: Some messages no longer exist");
}

/* --- the other operations --- */

static void test_search(void **state)
{
    (void)state;
    static const char request[] = "v3 UID SEARCH SUBJECT meeting\r\n"; /* of UIDs 4 and 12 */

    expect_text(MAIL_SEARCH, 1, request, "* SEARCH 4\r\nv3 OK done\r\n", DRIVER_DONE, NULL);
    expect_text(MAIL_SEARCH, 1, request, "* OK Hang in there..\r\n* SEARCH\r\nv3 OK done\r\n",
                DRIVER_DONE, NULL);
    expect_text(MAIL_SEARCH, 1, request, "* SEARCH 3\r\nv3 OK done\r\n", DRIVER_WRONG,
                "SEARCH found what it should not");
    expect_text(MAIL_SEARCH, 1, request, "* SEARCH 4 12\r\nv3 OK done\r\n", DRIVER_WRONG,
                "SEARCH found what it should not");
    expect_text(MAIL_SEARCH, 1, request, "v3 OK done\r\n", DRIVER_WRONG,
                "SEARCH did not say what it found");
}

/* What others met (mattnenterprise/rust-imap#81, emailjs/emailjs-imap-client#117 and #60,
 * mjs/imapclient#334): lines that nobody asked for release no command and are none of its results,
 * data before NO make no answer, BYE in the middle ends at once. */
static void test_lines_nobody_asked_for(void **state)
{
    static const char store[] = "v3 UID STORE 4 +FLAGS (\\Seen)\r\n";

    (void)state;
    expect_text(MAIL_STORE, 3, store,
                "* 7 FETCH (UID 12 FLAGS (\\Deleted))\r\n* 8 EXISTS\r\n* 1 RECENT\r\n"
                "* OK [HIGHESTMODSEQ 77] Highest\r\n* OK Still here\r\n"
                "* 4 FETCH (MODSEQ (77) UID 4 FLAGS (\\Seen))\r\nv3 OK done\r\n",
                DRIVER_DONE, NULL);
    expect_text(MAIL_STORE, 3, store, "* OK Still here\r\n* 7 FETCH (UID 4 FLAGS (\\Seen))\r\n",
                DRIVER_MORE, NULL);
    expect_text(MAIL_STORE, 3, store,
                "* 1 FETCH (FLAGS ())\r\n* 2 FETCH (FLAGS ())\r\n"
                "v3 NO Some of the requested messages no longer exist\r\n",
                DRIVER_WRONG, "NO: Some of the requested messages no longer exist");
    expect_text(MAIL_STORE, 3, store, "* 1 FETCH (FLAGS ())\r\n* BYE server shutting down\r\n",
                DRIVER_BAD, "BYE: server shutting down");
    /* Of the 7 two go and two come: there is a 7th, and no 8th. */
    expect_text(MAIL_EXPUNGE, 3, "v3 UID EXPUNGE 4\r\n",
                "* 2 EXPUNGE\r\n* 2 EXPUNGE\r\n* 7 EXISTS\r\n* 7 EXPUNGE\r\nv3 OK expunge\r\n",
                DRIVER_DONE, NULL);
    expect_text(MAIL_EXPUNGE, 3, "v3 UID EXPUNGE 4\r\n",
                "* 2 EXPUNGE\r\n* 2 EXPUNGE\r\n* 7 EXISTS\r\n* 8 EXPUNGE\r\n", DRIVER_BAD,
                "EXPUNGE of a message that is not there");
}

static void test_store_and_expunge(void **state)
{
    (void)state;
    uint32_t deleted = 1U << 23;

    expect_text(MAIL_STORE, 3, "v3 UID STORE 4 +FLAGS (\\Seen)\r\n",
                "* 2 FETCH (FLAGS ())\r\n* 4 FETCH (UID 4 FLAGS (\\Seen))\r\nv3 OK done\r\n",
                DRIVER_DONE, NULL);
    expect_text(MAIL_STORE, 3 | deleted, "v3 UID STORE 4 +FLAGS (\\Deleted)\r\n",
                "* 4 FETCH (UID 4 FLAGS (\\Seen))\r\nv3 OK done\r\n", DRIVER_WRONG,
                "the flag was not stored");
    /* A message that is gone */
    expect_text(MAIL_STORE, 3, "v3 UID STORE 4 +FLAGS (\\Seen)\r\n", "v3 OK done\r\n", DRIVER_DONE,
                NULL);
    expect_text(MAIL_EXPUNGE, 3, "v3 UID EXPUNGE 4\r\n",
                "* 2 EXPUNGE\r\n* 2 EXPUNGE\r\nv3 OK done\r\n* 9 EXISTS\r\n", DRIVER_DONE, NULL);
    expect_text(MAIL_EXPUNGE, 3, "v3 UID EXPUNGE 4\r\n", "* 8 EXPUNGE\r\n", DRIVER_BAD,
                "EXPUNGE of a message that is not there");
}

/* What a session read is what it deletes, and only that. */
static void test_deletes_what_it_read(void **state)
{
    (void)state;
    const struct mail_message m = {.tile = 3, .user = 5, .number = 6, .bytes = mail_bytes(5, 6)};
    VT_AUTO_BUF struct vt_buf answer = VT_BUF_INIT(1 << 20);
    VT_AUTO_FREE uint8_t *body = malloc(m.bytes);
    struct talk t;

    mail_render(&m, body);
    add_fetch(&answer, 6, body, m.bytes);
    enter(&t, MAIL_FETCH);
    ask(&t, MAIL_FETCH, 2);
    hear(&t, answer.data, answer.len);
    assert_int_equal(t.verdict, DRIVER_DONE);
    ask(&t, MAIL_STORE, 1U << 23 | 1);
    assert_string_equal(t.out.data, "v4 UID STORE 6 +FLAGS (\\Deleted)\r\n");
    hear(&t, "v4 OK\r\n", 7);
    ask(&t, MAIL_EXPUNGE, 1);
    assert_string_equal(t.out.data, "v5 UID EXPUNGE 6\r\n");
    end(&t);
}

static void test_append(void **state)
{
    (void)state;
    static const char answer[] = "* 8 EXISTS\r\n* 1 RECENT\r\nv3 OK [APPENDUID 7 8] done\r\n";
    struct talk t;

    for (size_t cut = 0; cut < strlen(answer); cut++) {
        struct mail_check check;
        struct mail_identity identity;

        enter(&t, MAIL_APPEND);
        ask(&t, MAIL_APPEND, 16);
        assert_string_equal(t.out.data, "v3 APPEND INBOX (\\Seen) {1024}\r\n");
        vt_buf_reset(&t.out);
        hear(&t, "* 7 EXISTS\r\n+ OK\r\n", 18);
        assert_int_equal(t.verdict, DRIVER_SEND);
        assert_false(mail_driver.acknowledges(t.conn));
        assert_int_equal(t.out.len, 1026);
        assert_string_equal(t.out.data + 1024, "\r\n");
        mail_check_begin(&check, 1024);
        mail_check_piece(&check, (const uint8_t *)t.out.data, 1024);
        assert_null(mail_check_end(&check, &identity));
        assert_int_equal(identity.user, 5);
        assert_int_equal(identity.number, 0);
        assert_int_equal(identity.sequence, 77);
        hear(&t, answer, cut);
        assert_false(mail_driver.acknowledges(t.conn));
        hear(&t, answer + cut, strlen(answer) - cut);
        assert_int_equal(t.verdict, DRIVER_DONE);
        assert_true(mail_driver.acknowledges(t.conn));
        end(&t);
    }
    expect_text(MAIL_APPEND, 0, "v3 APPEND INBOX (\\Seen) {1024}\r\n", "v3 NO [OVERQUOTA] full\r\n",
                DRIVER_WRONG, "NO: [OVERQUOTA] full");
    expect_text(MAIL_APPEND, 0, "v3 APPEND INBOX (\\Seen) {1024}\r\n", "v3 OK done\r\n", DRIVER_BAD,
                "APPEND ended before its literal");
    expect_text(MAIL_APPEND, 0, "v3 APPEND INBOX (\\Seen) {1024}\r\n",
                "+\r\nv3 OK [APPENDUID 7 7] done\r\n", DRIVER_WRONG, "APPENDUID cannot be");
}

static void test_select(void **state)
{
    (void)state;
    static const char request[] = "v2 SELECT INBOX\r\n";

    expect_text(MAIL_SELECT, 0, request, SELECTED "v2 OK done\r\n", DRIVER_DONE, NULL);
    expect_text(MAIL_SELECT, 0, request, "* 7 EXISTS\r\nv2 OK done\r\n", DRIVER_WRONG,
                "UIDVALIDITY is not a number of messages");
    expect_text(MAIL_SELECT, 0, request, "* OK [UIDVALIDITY 7] x\r\nv2 OK done\r\n", DRIVER_WRONG,
                "SELECT did not say how many messages there are");
}

/* --- streams that cannot be followed, and the ends of a session --- */

static void test_bad(void **state)
{
    (void)state;
    static const char request[] = "v3 UID SEARCH SUBJECT invoice\r\n";

    expect_text(MAIL_SEARCH, 0, request, "v2 OK done\r\n", DRIVER_BAD,
                "an answer with a tag that no command has");
    expect_text(MAIL_SEARCH, 0, request, "* SEARCH\r\nv3 OK done\r\nv3 OK again\r\n", DRIVER_BAD,
                NULL);
    expect_text(MAIL_SEARCH, 0, request, "+ go on\r\n", DRIVER_BAD,
                "'+' where nothing is to be continued");
    expect_text(MAIL_SEARCH, 0, request, "* BYE shutting\x01 down\r\n", DRIVER_BAD,
                "BYE: shutting? down");
    expect_text(MAIL_SEARCH, 0, request, "* SEARCH x\r\n", DRIVER_BAD, "a bad SEARCH");
    expect_text(MAIL_SEARCH, 0, request, "v3 BAD what?\r\n", DRIVER_WRONG, "BAD: what?");
}

static void greet(const char *text, enum driver_verdict wanted, const char *why)
{
    const struct driver_step step = {.operation = MAIL_LOGIN, .argument = 5U << 24};
    struct talk t;

    begin(&t);
    mail_driver.request(t.conn, &step, &t.out);
    assert_int_equal(t.out.len, 0);
    hear(&t, text, strlen(text));
    assert_int_equal(t.verdict, wanted);
    if (why)
        assert_string_equal(t.why, why);
    end(&t);
}

static void test_greetings(void **state)
{
    (void)state;
    greet(GREETING, DRIVER_SEND, NULL);
    greet(GREETING "v1 OK [CAPABILITY IMAP4rev1] in\r\n", DRIVER_DONE, NULL);
    greet(GREETING "v1 NO [AUTHENTICATIONFAILED] no\r\n", DRIVER_WRONG,
          "NO: [AUTHENTICATIONFAILED] no");
    greet("* OK [CAPABILITY IMAP4rev1 LOGINDISABLED] ready\r\n", DRIVER_BAD, "LOGINDISABLED");
    greet("* BYE too many\r\n", DRIVER_BAD, "greeting: too many");
    greet("* PREAUTH welcome\r\n", DRIVER_BAD, NULL);
    greet("v1 OK\r\n", DRIVER_BAD, "no greeting");
    greet("HTTP/1.1 400 Bad Request\r\n", DRIVER_BAD, NULL);
}

static void test_logout(void **state)
{
    (void)state;
    struct talk t;
    const char *why = NULL;

    expect_text(MAIL_LOGOUT, 0, "v3 LOGOUT\r\n", "* BYE bye\r\nv3 OK done\r\n", DRIVER_DONE, NULL);
    enter(&t, MAIL_LOGOUT);
    ask(&t, MAIL_LOGOUT, 0);
    hear(&t, "* BYE bye\r\n", 11);
    /* The tagged answer ends it, not the stream. */
    assert_int_equal(mail_driver.on_eof(t.conn, false, &why), DRIVER_BAD);
    hear(&t, "v3 OK\r\n", 7);
    assert_int_equal(t.verdict, DRIVER_DONE);
    assert_false(mail_driver.keep(t.conn));
    end(&t);
}

/* --- plan --- */

/* The mix that 51 sessions of 361 steps have; 2,000,000 steps differ from it by less than four
 * standard deviations of independent draws (sessions correlate little). */
static void test_walk(void **state)
{
    (void)state;
    static const double visits[MAIL_OPERATIONS] = {51, 51, 120, 23, 17, 30, 18, 51};
    const struct spec_load load = {.expected_ns = 7, .think_share = 0};
    uint64_t seen[2][MAIL_OPERATIONS] = {{0}};
    struct vt_rng rng;
    unsigned n = 400000;

    vt_rng_seed(&rng, 1, "walk", 0);
    for (unsigned i = 0; i < n; i++) {
        VT_AUTO_FREE void *session = calloc(1, mail_driver.session_bytes);
        bool first = true, fresh = i % 2;
        uint16_t operation, before = MAIL_LOGOUT;
        uint32_t argument, user = 0;
        int64_t gap_ns;

        while (
            mail_driver.plan(session, &rng, &load, first, fresh, &operation, &argument, &gap_ns)) {
            assert_int_equal(gap_ns, 7);
            if (first && fresh)
                assert_int_equal(operation, MAIL_LOGIN);
            if (first)
                user = argument >> 24;
            assert_int_equal(argument >> 24, user);
            if (!first && operation == MAIL_EXPUNGE)
                assert_int_equal(before, MAIL_STORE);
            if (fresh)
                seen[0][operation]++;
            else if (first)
                seen[1][operation]++;
            before = operation;
            first = false;
        }
        assert_int_equal(before, MAIL_LOGOUT);
    }
    for (unsigned k = 0; k < 2; k++) {
        double total = 0;

        for (unsigned i = 0; i < MAIL_OPERATIONS; i++)
            total += (double)seen[k][i];
        for (unsigned i = 0; i < MAIL_OPERATIONS; i++) {
            double p = visits[i] / 361, sd = sqrt(p * (1 - p) / total);

            if (fabs((double)seen[k][i] / total - p) > (k == 0 ? 8 : 4) * sd)
                fail_msg("%s: %f, not %f", mail_driver.operations[i], (double)seen[k][i] / total,
                         p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fetch),
        cmocka_unit_test(test_changed_byte),
        cmocka_unit_test(test_fetch_without_body),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_store_and_expunge),
        cmocka_unit_test(test_lines_nobody_asked_for),
        cmocka_unit_test(test_deletes_what_it_read),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_greetings),
        cmocka_unit_test(test_logout),
        cmocka_unit_test(test_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
