/* SPDX-License-Identifier: Apache-2.0 */
/* The IMAP reader: responses printed in RFC 3501, 4315 and 9051, the scripts of dovecot's imaptest,
 * public cases, and bounds; each stream also cut at every byte. */
#include <ctype.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "tests/unit/cases.h"
#include "tests/unit/tiles/case_file.h"
#include "tiles/roles/mail/imap.h"

static const char *const kinds[] = {"+",       "tagged", "status", "EXISTS",     "RECENT",
                                    "EXPUNGE", "FETCH",  "SEARCH", "CAPABILITY", "other"};
static const char *const statuses[] = {"OK", "NO", "BAD", "BYE", "PREAUTH"};

/* A response in words, in the order of its fields. */
static void tell(const struct imap_response *r, struct vt_buf *out)
{
    static const char *const codes[] = {"",           " UIDVALIDITY",   " UIDNEXT",
                                        " APPENDUID", " EXPUNGEISSUED", " code"};
    static const char *const bodies[] = {"", " body=NIL", " body=quoted", " body=literal"};
    const char *numbers = r->numbers;
    uint32_t n;

    vt_buf_adds(out, kinds[r->kind]);
    if (r->kind == IMAP_TAGGED)
        vt_buf_printf(out, " %s", r->tag);
    if (r->kind == IMAP_TAGGED || r->kind == IMAP_STATUS)
        vt_buf_printf(out, " %s%s", statuses[r->status], codes[r->code]);
    for (unsigned i = 0; i < 2 && r->code_numbers[i]; i++)
        vt_buf_printf(out, " %u", r->code_numbers[i]);
    if (r->login_disabled)
        vt_buf_adds(out, " no-login");
    if (r->kind >= IMAP_EXISTS && r->kind <= IMAP_FETCH)
        vt_buf_printf(out, " %u", r->number);
    if (r->has_uid)
        vt_buf_printf(out, " uid=%u", r->uid);
    if (r->has_flags)
        vt_buf_printf(out, " flags=%u", r->flags);
    vt_buf_adds(out, bodies[r->body]);
    while (numbers && imap_next_number(&numbers, &n))
        vt_buf_printf(out, " %u", n);
    vt_buf_adds(out, "\n");
}

/* All responses and literals of a stream that comes in two pieces. */
static void read_cut(const char *data, size_t len, size_t cut, struct vt_buf *out)
{
    VT_AUTO_FREE struct imap_reader *reader = malloc(sizeof *reader);
    size_t ends[] = {cut, len}, at = 0;

    assert_non_null(reader);
    imap_begin(reader);
    for (unsigned i = 0; i < 2; i++) {
        size_t n = ends[i] - at;
        /* Of its exact size, so that a sanitizer sees a read past the piece. */
        VT_AUTO_FREE uint8_t *piece = malloc(n + !n);
        size_t taken = 0;
        bool more = true;

        assert_non_null(piece);
        memcpy(piece, data + at, n);
        at = ends[i];
        while (more) {
            const char *why = NULL;
            size_t used = 99999999;
            enum imap_result result = imap_read(reader, piece + taken, n - taken, &used, &why);

            assert_true(used <= n - taken);
            taken += used;
            switch (result) {
            case IMAP_LITERAL:
                if (reader->literal_at == 0)
                    vt_buf_printf(out, "literal %u%s ", reader->literal_bytes,
                                  reader->literal_is_body ? " body" : "");
                vt_buf_add(out, reader->piece, reader->piece_len);
                if (reader->literal_at + reader->piece_len == reader->literal_bytes)
                    vt_buf_adds(out, "\n");
                break;
            case IMAP_RESPONSE:
                tell(&reader->response, out);
                break;
            case IMAP_BAD:
                assert_non_null(why);
                vt_buf_printf(out, "BAD %s\n", why);
                return;
            default:
                assert_int_equal(taken, n);
                more = false;
            }
        }
    }
}

static void expect(const char *data, size_t len, const char *wanted)
{
    for (size_t cut = 0; cut <= len; cut++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 20);

        read_cut(data, len, cut, &out);
        vt_buf_add(&out, "", 0);
        if (strcmp(out.data ? out.data : "", wanted) != 0)
            fail_msg("cut at %zu of:\n%s\ngave:\n%s\nnot:\n%s", cut, data, out.data, wanted);
    }
}

struct example {
    const char *text, *wanted;
};

static void expect_all(const struct example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect(examples[i].text, strlen(examples[i].text), examples[i].wanted);
}

/* As the RFCs print them. */
static void test_rfc(void **state)
{
    (void)state;
    static const struct example examples[] = {
        /* RFC 3501 section 8, the sample connection */
        {"* OK IMAP4rev1 Service Ready\r\na001 OK LOGIN completed\r\n"
         "* 18 EXISTS\r\n* FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft)\r\n* 2 RECENT\r\n"
         "* OK [UNSEEN 17] Message 17 is the first unseen message\r\n"
         "* OK [UIDVALIDITY 3857529045] UIDs valid\r\n"
         "a002 OK [READ-WRITE] SELECT completed\r\n",
         "status OK\ntagged a001 OK\nEXISTS 18\nother\nRECENT 2\nstatus OK code\n"
         "status OK UIDVALIDITY 3857529045\ntagged a002 OK code\n"},
        {"* 12 FETCH (FLAGS (\\Seen) INTERNALDATE \"17-Jul-1996 02:44:25 -0700\"\r\n",
         "BAD a bad FETCH\n"},
        {"* 12 FETCH (FLAGS (\\Seen) INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" RFC822.SIZE 4286 "
         "ENVELOPE (\"Wed, 17 Jul 1996 02:23:25 -0700 (PDT)\" \"IMAP4rev1 WG mtg summary and "
         "minutes\" ((\"Terry Gray\" NIL \"gray\" \"cac.washington.edu\")) ((\"Terry Gray\" NIL "
         "\"gray\" \"cac.washington.edu\")) ((\"Terry Gray\" NIL \"gray\" \"cac.washington.edu\")) "
         "((NIL NIL \"imap\" \"cac.washington.edu\")) ((NIL NIL \"minutes\" "
         "\"CNRI.Reston.VA.US\") (\"John Klensin\" NIL \"KLENSIN\" \"MIT.EDU\")) NIL NIL "
         "\"<B27397-0100000@cac.washington.edu>\") BODY (\"TEXT\" \"PLAIN\" (\"CHARSET\" "
         "\"US-ASCII\") NIL NIL \"7BIT\" 3028 92))\r\na003 OK FETCH completed\r\n",
         "FETCH 12 flags=1\ntagged a003 OK\n"},
        {"* 12 FETCH (BODY[HEADER] {4}\r\nab\r\n)\r\na004 OK FETCH completed\r\n",
         "literal 4 ab\r\n\nFETCH 12\ntagged a004 OK\n"},
        {"* 12 FETCH (FLAGS (\\Seen \\Deleted))\r\na005 OK +FLAGS completed\r\n"
         "* BYE IMAP4rev1 server terminating connection\r\na006 OK LOGOUT completed\r\n",
         "FETCH 12 flags=3\ntagged a005 OK\nstatus BYE\ntagged a006 OK\n"},
        /* 6.3.11 APPEND, RFC 4315 APPENDUID */
        {"+ Ready for literal data\r\nA003 OK APPEND completed\r\n"
         "A003 OK [APPENDUID 38505 3955] APPEND completed\r\n",
         "+\ntagged A003 OK\ntagged A003 OK APPENDUID 38505 3955\n"},
        /* 6.4.3 EXPUNGE, 6.4.4 SEARCH, 6.4.8 UID */
        {"* 3 EXPUNGE\r\n* 3 EXPUNGE\r\n* 5 EXPUNGE\r\n* 8 EXPUNGE\r\nA202 OK EXPUNGE completed\r\n"
         "* SEARCH 2 84 882\r\nA282 OK SEARCH completed\r\n* SEARCH\r\nA283 OK SEARCH completed\r\n"
         "* 23 FETCH (FLAGS (\\Seen) UID 4827313)\r\n",
         "EXPUNGE 3\nEXPUNGE 3\nEXPUNGE 5\nEXPUNGE 8\ntagged A202 OK\nSEARCH 2 84 882\n"
         "tagged A282 OK\nSEARCH\ntagged A283 OK\nFETCH 23 uid=4827313 flags=1\n"},
        /* 6.1.1 and 7.2.1 */
        {"* CAPABILITY IMAP4rev1 STARTTLS AUTH=GSSAPI LOGINDISABLED\r\nabcd OK CAPABILITY "
         "completed\r\n* CAPABILITY IMAP4rev1 AUTH=GSSAPI AUTH=PLAIN\r\n",
         "CAPABILITY no-login\ntagged abcd OK\nCAPABILITY\n"},
        {"* OK [CAPABILITY IMAP4rev1 LOGINDISABLED STARTTLS] go\r\n", "status OK code no-login\n"},
        /* 7.1: statuses of all kinds */
        {"* NO Disk is 98% full, please delete unnecessary data\r\n* BAD Disk crash, attempting "
         "salvage\r\nA222 NO COPY failed\r\n* PREAUTH IMAP4rev1 server logged in as Smith\r\n"
         "A2 BAD Command line too long\r\n",
         "status NO\nstatus BAD\ntagged A222 NO\nstatus PREAUTH\ntagged A2 BAD\n"},
        /* RFC 9051 7.5.1, 7.3.1 */
        {"* 4392 FETCH (FLAGS (\\Seen $Forwarded) UID 7)\r\n* LIST () \"/\" {4}\r\nab\"c\r\n"
         "* STATUS blurdybloop (MESSAGES 231 UIDNEXT 44292)\r\n",
         "FETCH 4392 uid=7 flags=5\nliteral 4 ab\"c\nother\nother\n"},
    };

    expect_all(examples, VT_COUNT(examples));
}

/* Bodies: where a literal is one, and what only looks like a literal. */
static void test_bodies(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"* 1 FETCH (UID 9 BODY[] {5}\r\n)\r\nA  FLAGS ())\r\n",
         "literal 5 body )\r\nA \nFETCH 1 uid=9 flags=0 body=literal\n"},
        {"* 1 FETCH (BODY[] {0}\r\n UID 9)\r\n", "FETCH 1 uid=9 body=literal\n"},
        {"* 1 FETCH (body[] NIL UID 9)\r\n", "FETCH 1 uid=9 body=NIL\n"},
        {"* 1 FETCH (BODY[] \"a\\\"{5}\" UID 9)\r\n", "FETCH 1 uid=9 body=quoted\n"},
        {"* 1 FETCH (BODY[]<0> {2}\r\nab BODY[1] {1}\r\nc BODY[HEADER.FIELDS (\"]\" X)] {1}\r\nd)"
         "\r\n",
         "literal 2 ab\nliteral 1 c\nliteral 1 d\nFETCH 1\n"},
        {"* 1 FETCH (X (BODY[] {2}\r\nab))\r\n", "literal 2 body ab\nFETCH 1\n"},
        {"* OK it ends in {5}\r\n+ so does this {5}\r\nA1 NO and this {5}\r\n",
         "status OK\n+\ntagged A1 NO\n"},
        {"* OK [odd text\r\n* OK\r\nA1 OK\r\n+\r\n", "status OK\nstatus OK\ntagged A1 OK\n+\n"},
        /* as dovecot answers for what another session has expunged */
        {"* 6 FETCH (UID 7 FLAGS (\\Deleted) BODY[] NIL)\r\n"
         "v8 OK [EXPUNGEISSUED] Some messages were already expunged\r\n",
         "FETCH 6 uid=7 flags=2 body=NIL\ntagged v8 OK EXPUNGEISSUED\n"},
        {"* SEARCH 1 2 (MODSEQ 917162500)\r\n* SEARCH 7 \r\n", "SEARCH 1 2\nSEARCH 7\n"},
    };

    expect_all(examples, VT_COUNT(examples));
}

static void test_refused(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {"* OK no CR\n", "BAD a line does not end in CRLF\n"},
        {"A1 OK a\rb\r\n", "BAD a line holds NUL or CR\n"},
        {"*OK\r\n", "BAD no space behind '*'\n"},
        {"+go\r\n", "BAD text right behind '+'\n"},
        {"\r\n", "BAD neither a tag nor '*' nor '+'\n"},
        {"A234567890123456 OK long tag\r\n", "BAD neither a tag nor '*' nor '+'\n"},
        {"A1 BYE x\r\n", "BAD a tagged response without OK, NO or BAD\n"},
        {"A1 OKAY x\r\n", "BAD a tagged response without OK, NO or BAD\n"},
        {"* 0 EXPUNGE\r\n", "BAD message number 0\n"},
        {"* 0 FETCH (UID 1)\r\n", "BAD message number 0\n"},
        {"* 4294967296 EXISTS\r\n", "BAD a bad number\n"},
        {"* 12345678901 EXISTS\r\n", "BAD a bad number\n"},
        {"* 1 EXISTS x\r\n", "BAD text behind a number's word\n"},
        {"* 1 FETCH (UID 0)\r\n", "BAD a bad FETCH\n"},
        {"* 1 FETCH (UID 1) x\r\n", "BAD a bad FETCH\n"},
        {"* 1 FETCH (FLAGS (\\Seen)\r\n", "BAD a bad FETCH\n"},
        {"* 1 FETCH (BODY[] {1}\r\na BODY[] {1}\r\nb)\r\n",
         "literal 1 body a\nliteral 1 body b\nBAD a bad FETCH\n"},
        {"* 1 FETCH (BODY[] x)\r\n", "BAD a bad FETCH\n"},
        {"* SEARCH 1 x\r\n", "BAD a bad SEARCH\n"},
        {"* SEARCH 0\r\n", "BAD a bad SEARCH\n"},
        {"* LIST () \"/\" \"a\r\n", "BAD a quoted string does not end in its line\n"},
        {"* LIST () \"/\" {1+}\r\n", "BAD a bad length of a literal\n"},
        {"* LIST () \"/\" {67108865}\r\n", "BAD a literal is too long\n"},
        {"* 1 FETCH (X ((((((((((((((((a)))))))))))))))))\r\n", "FETCH 1\n"},
        {"* 1 FETCH (X (((((((((((((((((a))))))))))))))))))\r\n", "BAD a bad FETCH\n"},
    };

    expect_all(examples, VT_COUNT(examples));
    expect("* OK a\0b\r\n", 10, "BAD a line holds NUL or CR\n");
}

/* The longest response and the most literals there may be, and one more. */
static void test_bounds(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 20);
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 20);
        VT_AUTO_BUF struct vt_buf literals = VT_BUF_INIT(1 << 20);

        vt_buf_adds(&text, "* OK ");
        while (text.len < IMAP_RESPONSE_MAX - 2 + more)
            vt_buf_adds(&text, "x");
        vt_buf_adds(&text, "\r\n");
        read_cut(text.data, text.len, 100, &out);
        assert_string_equal(out.data, more ? "BAD a response is too long\n" : "status OK\n");

        vt_buf_reset(&out);
        vt_buf_adds(&literals, "* LIST (");
        for (unsigned i = 0; i < IMAP_LITERALS_MAX + more; i++)
            vt_buf_adds(&literals, i ? " {0}\r\n" : "{0}\r\n");
        vt_buf_adds(&literals, ")\r\n");
        read_cut(literals.data, literals.len, 100, &out);
        assert_string_equal(out.data, more ? "BAD too many literals\n" : "other\n");
    }
}

/* Cases met by others (mattnenterprise/rust-imap#81, emailjs/emailjs-imap-client#117 and #60,
 * mjs/imapclient#334). The command's own answer: its status, and how many messages there are then.
 */
static void check_case(const char *name, json_t *wanted, const char *data, size_t len, size_t cut)
{
    const char *cmd = json_string_value(json_object_get(wanted, "cmd"));
    bool fails = json_object_get(wanted, "result") != NULL;
    const char *status = json_string_value(json_object_get(wanted, "status"));
    json_t *exists = json_object_get(wanted, "exists");
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 16);
    char end[64];
    long n = 0;

    if (strstr(cmd, "(9 messages before)"))
        n = 9;
    read_cut(data, len, cut, &out);
    if (!out.data) {
        fail();
        return;
    }
    for (char *line = out.data; line && *line; line = strchr(line, '\n') + 1) {
        if (!strncmp(line, "EXISTS ", 7))
            n = strtol(line + 7, NULL, 10);
        else if (!strncmp(line, "EXPUNGE ", 8))
            n--;
    }
    snprintf(end, sizeof end, "tagged %.*s %s\n", (int)strcspn(cmd, " "), cmd,
             status ? status : "OK");
    if (fails && (!strstr(out.data, "status BYE\n") || strstr(out.data, "tagged")))
        fail_msg("%s cut at %zu: no BYE in %s", name, cut, out.data);
    if (!fails && (out.len < strlen(end) || strcmp(out.data + out.len - strlen(end), end) != 0 ||
                   strstr(out.data, "tagged") != out.data + out.len - strlen(end)))
        fail_msg("%s cut at %zu: not ended by %s: %s", name, cut, end, out.data);
    if (exists)
        assert_int_equal(n, json_integer_value(exists));
}

static void test_cases(void **state)
{
    (void)state;
    char path[512];
    const char *name;
    json_t *all, *wanted;

    if (!cases_path(path, sizeof path, "own/open/imap/expect.json"))
        skip();
    all = json_load_file(path, 0, NULL);
    assert_true(json_object_size(all) >= 7);
    json_object_foreach(all, name, wanted) {
        char file[128];
        size_t len;

        snprintf(file, sizeof file, "own/open/imap/%s.raw", name);
        VT_AUTO_FREE uint8_t *data = case_file_read(file, &len);
        for (size_t cut = 0; cut <= len; cut++)
            check_case(name, wanted, (const char *)data, len, cut);
    }
    json_decref(all);
}

/* --- imaptest --- */

/* A line of a script as a server would send it: "$name" and "${name}" stand for what the server
 * chooses, "$$name" for a keyword. */
static void add_plain(struct vt_buf *out, const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] != '$' || i + 1 == len) {
            vt_buf_add(out, &line[i], 1);
            continue;
        }
        if (line[i + 1] == '$') {
            vt_buf_add(out, &line[++i], 1);
            continue;
        }
        /* Texts of messages are strings, all else may be a number. */
        vt_buf_adds(out, strchr("fh", line[i + 1]) ? "\"7\"" : "7");
        while (i + 1 < len && (isalnum((unsigned char)line[i + 1]) || strchr("!{}", line[i + 1])))
            i++;
    }
}

/* What the script says that a line is, in our words; NULL: the script says no more than that it is
 * no other kind. */
static const char *kind_of_script_line(const char *line)
{
    static const char *const words[][2] = {
        {" exists", "EXISTS "},
        {" recent", "RECENT "},
        {" expunge", "EXPUNGE "},
        {" fetch ", "FETCH "},
    };
    static const char *const second[][2] = {
        {"ok ", "status OK"},    {"no ", "status NO"},         {"bye", "status BYE"},
        {"search", "SEARCH"},    {"capability", "CAPABILITY"}, {"list ", "other"},
        {"lsub ", "other"},      {"status ", "other"},         {"flags ", "other"},
        {"namespace ", "other"},
    };
    const char *word = line + 2 + strcspn(line + 2, " ");

    for (size_t i = 0; i < VT_COUNT(words); i++)
        if (strchr("0123456789$", line[2]) && !strncmp(word, words[i][0], strlen(words[i][0])))
            return words[i][1];
    for (size_t i = 0; i < VT_COUNT(second); i++)
        if (!strncmp(line + 2, second[i][0], strlen(second[i][0])))
            return second[i][1];
    return NULL;
}

static void check_script_line(const char *script, const char *line, size_t len)
{
    const char *wanted = kind_of_script_line(line);
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 16);

    add_plain(&text, line, len);
    vt_buf_adds(&text, "\r\n");
    for (size_t cut = 0; cut <= text.len; cut++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1 << 16);

        read_cut(text.data, text.len, cut, &out);
        vt_buf_add(&out, "", 0);
        if (!wanted || !out.data || strncmp(out.data, wanted, strlen(wanted)) != 0)
            fail_msg("%s: %.*s: %s, not %s", script, (int)len, line,
                     out.data ? out.data : "nothing", wanted ? wanted : "known");
    }
}

/* Every untagged response of the scripts that fits on a line (dovecot/imaptest, src/tests). */
static void test_imaptest(void **state)
{
    static const char *const scripts[] = {
        "append", "append-binary", "atoms",    "close",  "expunge",     "expunge2",
        "fetch",  "fetch-body",    "list",     "logout", "multiappend", "mutf7",
        "nil",    "notify",        "pipeline", "select", "store",
    };
    unsigned lines = 0;
    char path[512];

    (void)state;
    if (!cases_path(path, sizeof path, "imap/imaptest/fetch"))
        skip();
    for (size_t i = 0; i < VT_COUNT(scripts); i++) {
        char file[128];
        size_t len;

        snprintf(file, sizeof file, "imap/imaptest/%s", scripts[i]);
        VT_AUTO_FREE uint8_t *data = case_file_read(file, &len);
        for (const char *line = (const char *)data; *line; line += line[0] == '\n') {
            size_t n = strcspn(line, "\n");

            if (!strncmp(line, "* ", 2) && !memmem(line, n, "{{{", 3)) {
                check_script_line(scripts[i], line, n);
                lines++;
            }
            line += n;
        }
    }
    print_message("%u lines\n", lines);
    assert_true(lines > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc),     cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_cases),   cmocka_unit_test(test_imaptest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
