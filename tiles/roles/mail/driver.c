/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mail role's load: people who read, file and delete mail over IMAP, each on a TLS connection
 * of their own. Every body is checked to its last byte.
 */
#include <stdio.h>
#include <string.h>

#include "tiles/roles/mail/imap.h"
#include "tiles/roles/mail/mail.h"
#include "tiles/roles/mail/walk.h"
#include "tiles/roles/registry.h"

static const char *const operations[MAIL_OPERATIONS] = {
    "login", "select", "fetch", "search", "append", "store", "expunge", "logout",
};

/* --- a connection --- */

enum stage {
    STAGE_NEW,      /* before the greeting, which nobody waits for */
    STAGE_GREETING, /* before the greeting; then LOGIN */
    STAGE_LOGIN,
    STAGE_SELECT, /* of entering */
    STAGE_GO,     /* APPEND: before "+" */
    STAGE_ANSWER, /* of the step's command */
    STAGE_IDLE,
};

struct mail_conn {
    const struct driver_target *target;
    struct imap_reader reader;
    enum stage stage;
    bool greeted, login_disabled, entering, bye, ended, acknowledged;
    struct driver_step step;
    unsigned tags;
    char tag[IMAP_TAG_MAX + 1];

    /* The mailbox */
    bool exists_known;
    uint32_t exists, count; /* count: of generated messages, its UIDVALIDITY; 0 unknown */
    uint32_t fetched_uid;   /* of a generated message, 0 none */
    uint32_t deleted_uid;   /* marked by this session, 0 none */

    /* The answer so far */
    const char *wrong;
    uint64_t body_bytes;
    uint32_t wanted; /* number or UID of the message asked for; 0 none */
    uint32_t uid, bytes;
    unsigned found; /* FETCH with a body, SEARCH */
    enum imap_body body;
    bool flagged_known, flagged;
    struct mail_check check;
    char why[160]; /* with the server's own text */
};

static void mail_conn_init(void *conn, const struct driver_target *target)
{
    struct mail_conn *c = conn;

    c->target = target;
    imap_begin(&c->reader);
}

static void mail_conn_fini(void *conn)
{
    (void)conn;
}

static uint32_t user_of(const struct mail_conn *c)
{
    return c->step.argument >> WALK_USER_SHIFT;
}

static uint32_t number_of(const struct mail_conn *c)
{
    return c->step.argument % WALK_NUMBERS;
}

static const char *new_tag(struct mail_conn *c)
{
    snprintf(c->tag, sizeof(c->tag), "v%u", ++c->tags);
    return c->tag;
}

/* --- commands --- */

static void send_login(struct mail_conn *c, struct vt_buf *out)
{
    c->stage = STAGE_LOGIN;
    vt_buf_printf(out, "%s LOGIN user%04u " MAIL_PASSWORD "\r\n", new_tag(c), user_of(c));
}

static void send_select(struct mail_conn *c, enum stage stage, struct vt_buf *out)
{
    c->stage = stage;
    c->exists_known = false;
    c->exists = c->count = c->fetched_uid = c->deleted_uid = 0;
    vt_buf_printf(out, "%s SELECT INBOX\r\n", new_tag(c));
}

static void send_append(struct mail_conn *c, struct vt_buf *out)
{
    c->stage = STAGE_GO;
    c->bytes = mail_sizes[number_of(c) % MAIL_SIZES];
    vt_buf_printf(out, "%s APPEND INBOX (\\Seen) {%u}\r\n", new_tag(c), c->bytes);
}

static void send_literal(struct mail_conn *c, struct vt_buf *out)
{
    const struct mail_message message = {
        .tile = c->target->tile,
        .user = user_of(c),
        .sequence = c->step.sequence,
        .bytes = c->bytes,
    };
    uint8_t text[MAIL_BYTES_MAX];

    c->stage = STAGE_ANSWER;
    mail_render(&message, text);
    vt_buf_add(out, text, c->bytes);
    vt_buf_adds(out, "\r\n");
}

/* Commands on messages of a mailbox. */
static void send_command(struct mail_conn *c, struct vt_buf *out)
{
    uint32_t generated = c->count ? 1 + number_of(c) % c->count : 1;
    bool mark_deleted = c->step.argument & WALK_DELETED;

    c->stage = STAGE_ANSWER;
    vt_buf_printf(out, "%s ", new_tag(c));
    switch (c->step.operation) {
    case MAIL_FETCH:
        c->wanted = c->exists ? 1 + number_of(c) % c->exists : 0;
        if (c->wanted)
            vt_buf_printf(out, "FETCH %u (UID FLAGS BODY.PEEK[])\r\n", c->wanted);
        else
            vt_buf_adds(out, "NOOP\r\n"); /* an empty mailbox has no message to fetch */
        break;
    case MAIL_SEARCH:
        c->wanted = number_of(c) % MAIL_WORDS;
        vt_buf_printf(out, "UID SEARCH SUBJECT %s\r\n", mail_words[c->wanted]);
        break;
    case MAIL_STORE:
        c->wanted = c->fetched_uid ? c->fetched_uid : generated;
        if (mark_deleted)
            c->deleted_uid = c->wanted;
        vt_buf_printf(out, "UID STORE %u +FLAGS (%s)\r\n", c->wanted,
                      mark_deleted ? "\\Deleted" : "\\Seen");
        break;
    case MAIL_EXPUNGE:
        vt_buf_printf(out, "UID EXPUNGE %u\r\n", c->deleted_uid ? c->deleted_uid : generated);
        c->deleted_uid = c->fetched_uid = 0;
        break;
    default:
        vt_buf_adds(out, "LOGOUT\r\n");
    }
}

static void begin_step(struct mail_conn *c, const struct driver_step *step, bool entering)
{
    c->step = *step;
    c->entering = entering;
    c->acknowledged = c->flagged_known = c->flagged = false;
    c->wrong = NULL;
    c->body_bytes = 0;
    c->found = 0;
    c->wanted = c->uid = c->bytes = 0;
    c->body = IMAP_BODY_NONE;
    mail_check_begin(&c->check, 0); /* an empty literal has no piece */
}

/* The greeting may have come already. */
static void begin_login(struct mail_conn *c, struct vt_buf *out)
{
    if (c->greeted && !c->login_disabled)
        send_login(c, out);
    else
        c->stage = STAGE_GREETING;
}

static void mail_enter(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    begin_step(conn, step, true);
    begin_login(conn, out);
}

static void mail_request(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    struct mail_conn *c = conn;

    begin_step(c, step, false);
    switch (step->operation) {
    case MAIL_LOGIN:
        begin_login(c, out);
        break;
    case MAIL_SELECT:
        send_select(c, STAGE_ANSWER, out);
        break;
    case MAIL_APPEND:
        send_append(c, out);
        break;
    default:
        send_command(c, out);
    }
}

/* --- whole answers --- */

static const char *judge_select(const struct mail_conn *c)
{
    if (!c->exists_known)
        return "SELECT did not say how many messages there are";
    return c->count == 0 || c->count > MAIL_COUNT_MAX ? "UIDVALIDITY is not a number of messages"
                                                      : NULL;
}

/* Another session may expunge a generated message while it is asked for: dovecot then says OK,
 * with that code and NIL for a body. Nobody expunges what was appended. */
static bool is_expunged(const struct mail_conn *c, const struct imap_response *response)
{
    return c->body == IMAP_BODY_NIL && response->code == IMAP_EXPUNGEISSUED && c->uid <= c->count;
}

static const char *judge_fetch(struct mail_conn *c, const struct imap_response *response)
{
    struct mail_identity identity;
    const char *why;

    c->fetched_uid = 0;
    if (c->wanted == 0)
        return NULL;
    if (c->found != 1)
        return c->found ? "more than one message came" : "the message did not come";
    if (is_expunged(c, response))
        return NULL;
    if (c->body != IMAP_BODY_LITERAL)
        return "a message without its text";
    why = mail_check_end(&c->check, &identity);
    if (why)
        return why;
    if (identity.tile != c->target->tile || identity.user != user_of(c))
        return "the message is of another mailbox";
    c->fetched_uid = c->uid <= c->count ? c->uid : 0;
    if (identity.number != c->fetched_uid)
        return "the message is another one than its UID says";
    return c->fetched_uid && c->check.bytes != mail_bytes(identity.user, identity.number)
               ? "the message has not the expected length"
               : NULL;
}

static const char *judge_append(struct mail_conn *c, const struct imap_response *response)
{
    const uint32_t *n = response->code_numbers;

    if (response->code == IMAP_APPENDUID && c->count && (n[0] != c->count || n[1] <= c->count))
        return "APPENDUID cannot be";
    c->acknowledged = true;
    return NULL;
}

static const char *judge(struct mail_conn *c, const struct imap_response *response)
{
    switch (c->step.operation) {
    case MAIL_SELECT:
        return judge_select(c);
    case MAIL_FETCH:
        return judge_fetch(c, response);
    case MAIL_SEARCH:
        return c->found == 1 ? NULL : "SEARCH did not say what it found";
    case MAIL_APPEND:
        return judge_append(c, response);
    case MAIL_STORE:
        return c->flagged_known && !c->flagged ? "the flag was not stored" : NULL;
    default:
        return NULL;
    }
}

/* "<what>: <the server's text>", printable. */
static const char *quote(struct mail_conn *c, const char *what, const struct imap_response *r)
{
    int len = r->text_len < 120 ? (int)r->text_len : 120;

    snprintf(c->why, sizeof(c->why), "%s: %.*s", what, len, r->text);
    vt_text_make_plain(c->why);
    return c->why;
}

static enum driver_verdict ended(struct mail_conn *c, const char *why, const char **ret_why)
{
    c->stage = STAGE_IDLE;
    if (!why)
        why = c->wrong;
    if (!why)
        return DRIVER_DONE;
    *ret_why = why;
    return DRIVER_WRONG;
}

static enum driver_verdict on_tagged(struct mail_conn *c, struct vt_buf *out, const char **why)
{
    const struct imap_response *r = &c->reader.response;
    bool login = c->stage == STAGE_LOGIN;

    if (c->stage < STAGE_LOGIN || c->stage == STAGE_IDLE || strcmp(r->tag, c->tag) != 0) {
        *why = "an answer with a tag that no command has";
        return DRIVER_BAD;
    }
    if (r->status != IMAP_OK) {
        const char *text = quote(c, r->status == IMAP_NO ? "NO" : "BAD", r);

        c->ended |= login;
        if (!c->entering)
            return ended(c, text, why);
        *why = text;
        return DRIVER_BAD;
    }
    if (c->stage == STAGE_GO) {
        *why = "APPEND ended before its literal";
        return DRIVER_BAD;
    }
    if (login && c->entering && c->step.operation != MAIL_SELECT) {
        send_select(c, STAGE_SELECT, out);
        return DRIVER_SEND;
    }
    if (c->stage == STAGE_SELECT) {
        *why = judge_select(c);
        if (*why)
            return DRIVER_BAD;
    }
    if (c->entering)
        return ended(c, NULL, why);
    c->ended |= c->step.operation == MAIL_LOGOUT;
    return ended(c, judge(c, r), why);
}

/* --- data --- */

static enum driver_verdict on_greeting(struct mail_conn *c, struct vt_buf *out, const char **why)
{
    const struct imap_response *r = &c->reader.response;

    if (r->kind != IMAP_STATUS || r->status != IMAP_OK) {
        *why = r->kind == IMAP_STATUS ? quote(c, "greeting", r) : "no greeting";
        return DRIVER_BAD;
    }
    c->greeted = true;
    c->login_disabled = r->login_disabled;
    if (c->stage == STAGE_NEW)
        return DRIVER_MORE;
    if (c->login_disabled) {
        *why = "LOGINDISABLED";
        return DRIVER_BAD;
    }
    send_login(c, out);
    return DRIVER_SEND;
}

static enum driver_verdict on_status(struct mail_conn *c, const char **why)
{
    const struct imap_response *r = &c->reader.response;

    if (r->code == IMAP_UIDVALIDITY)
        c->count = r->code_numbers[0];
    if (r->status != IMAP_BYE)
        return DRIVER_MORE; /* NO and BAD without a tag are warnings */
    c->bye = true;
    if (c->step.operation == MAIL_LOGOUT && (c->stage == STAGE_ANSWER || c->ended))
        return DRIVER_MORE;
    *why = quote(c, "BYE", r);
    return DRIVER_BAD;
}

static void on_fetch(struct mail_conn *c)
{
    const struct imap_response *r = &c->reader.response;
    bool store = c->stage == STAGE_ANSWER && c->step.operation == MAIL_STORE;

    /* Other sessions' changes of flags come at any time; the last word on a message counts. */
    if (store && r->has_uid && r->has_flags && r->uid == c->wanted) {
        c->flagged_known = true;
        c->flagged = r->flags & (c->step.argument & WALK_DELETED ? IMAP_DELETED : IMAP_SEEN);
    }
    if (r->body == IMAP_BODY_NONE)
        return;
    c->found++;
    c->uid = r->uid;
    c->body = r->body;
    if (c->stage != STAGE_ANSWER || c->step.operation != MAIL_FETCH || r->number != c->wanted)
        c->wrong = "a message that was not asked for";
    else if (!r->has_uid)
        c->wrong = "a message without its UID";
}

static void on_search(struct mail_conn *c)
{
    const char *numbers = c->reader.response.numbers;
    uint32_t uid;

    c->found++;
    while (imap_next_number(&numbers, &uid))
        if (uid > c->count || mail_word(user_of(c), uid) != c->wanted)
            c->wrong = "SEARCH found what it should not";
}

static enum driver_verdict on_response(struct mail_conn *c, struct vt_buf *out, const char **why)
{
    const struct imap_response *r = &c->reader.response;

    if (!c->greeted)
        return on_greeting(c, out, why);
    switch (r->kind) {
    case IMAP_TAGGED:
        return on_tagged(c, out, why);
    case IMAP_CONTINUE:
        if (c->stage == STAGE_GO) {
            send_literal(c, out);
            return DRIVER_SEND;
        }
        *why = "'+' where nothing is to be continued";
        return DRIVER_BAD;
    case IMAP_STATUS:
        return on_status(c, why);
    case IMAP_EXISTS:
        c->exists = r->number;
        c->exists_known = true;
        break;
    case IMAP_EXPUNGE:
        if (r->number > c->exists) {
            *why = "EXPUNGE of a message that is not there";
            return DRIVER_BAD;
        }
        c->exists--;
        break;
    case IMAP_FETCH:
        on_fetch(c);
        break;
    case IMAP_SEARCH:
        on_search(c);
        break;
    default:
        break;
    }
    return DRIVER_MORE;
}

static void on_piece(struct mail_conn *c)
{
    const struct imap_reader *r = &c->reader;

    if (!r->literal_is_body)
        return;
    if (r->literal_at == 0)
        mail_check_begin(&c->check, r->literal_bytes);
    mail_check_piece(&c->check, r->piece, r->piece_len);
    c->body_bytes += r->piece_len;
}

/* Data may also come behind the answer: it is taken with it. */
static enum driver_verdict mail_on_bytes(void *conn, const uint8_t *data, size_t len, size_t *used,
                                         struct vt_buf *out, const char **why)
{
    struct mail_conn *c = conn;
    enum driver_verdict verdict = DRIVER_MORE, next;

    *used = 0;
    for (;;) {
        size_t n;

        switch (imap_read(&c->reader, data + *used, len - *used, &n, why)) {
        case IMAP_MORE:
            *used += n;
            return verdict;
        case IMAP_LITERAL:
            *used += n;
            on_piece(c);
            break;
        case IMAP_RESPONSE:
            *used += n;
            next = on_response(c, out, why);
            if (next == DRIVER_SEND || next == DRIVER_BAD)
                return next;
            if (next != DRIVER_MORE)
                verdict = next;
            break;
        default:
            *used += n;
            return DRIVER_BAD;
        }
    }
}

/* LOGOUT too ends with its tagged answer. */
static enum driver_verdict mail_on_eof(void *conn, bool truncated, const char **why)
{
    (void)conn;
    (void)truncated;
    *why = "the connection ended within an answer";
    return DRIVER_BAD;
}

static uint64_t mail_answer_bytes(const void *conn)
{
    return ((const struct mail_conn *)conn)->body_bytes;
}

static bool mail_keep(const void *conn)
{
    const struct mail_conn *c = conn;

    return !c->bye && !c->ended;
}

static bool mail_acknowledges(const void *conn)
{
    return ((const struct mail_conn *)conn)->acknowledged;
}

const struct driver mail_driver = {
    .name = "mail",
    .tls = true,
    .pooled = false,
    .port = MAIL_PORT,
    .operations = operations,
    .noperations = MAIL_OPERATIONS,
    .session_bytes = sizeof(struct walk_session),
    .plan = walk_plan,
    .conn_bytes = sizeof(struct mail_conn),
    .conn_init = mail_conn_init,
    .conn_fini = mail_conn_fini,
    .enter = mail_enter,
    .request = mail_request,
    .on_bytes = mail_on_bytes,
    .on_eof = mail_on_eof,
    .answer_bytes = mail_answer_bytes,
    .keep = mail_keep,
    .acknowledges = mail_acknowledges,
};
