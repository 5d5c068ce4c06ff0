/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/mail/imap.h"

#include <string.h>
#include <strings.h>

enum reader_state { STATE_LINE, STATE_LITERAL, STATE_WHOLE, STATE_BAD };

/* What is left of a response's text while it is looked at. */
struct cursor {
    const struct imap_reader *reader;
    const char *at, *end;
};

/* --- characters, numbers --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* RFC 3501 9, ATOM-CHAR; with ']' and '\\', which flags and response codes hold. */
static bool is_atom_char(char c)
{
    return (unsigned char)c > ' ' && (unsigned char)c < 0x7f && !strchr("(){%*\"", c);
}

/* number: 1 to 10 digits, at most 2^32 - 1. */
static bool take_number(struct cursor *c, uint32_t *ret)
{
    uint64_t n = 0;
    const char *at = c->at;

    while (at < c->end && is_digit(*at) && at - c->at <= 10)
        n = n * 10 + (uint64_t)(*at++ - '0');
    if (at == c->at || at - c->at > 10 || n > UINT32_MAX)
        return false;
    c->at = at;
    *ret = (uint32_t)n;
    return true;
}

static bool take_char(struct cursor *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* The word, in either case, and that it ends there. */
static bool take_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(c->end - c->at) < n || strncasecmp(c->at, word, n) != 0)
        return false;
    if (c->at + n < c->end && c->at[n] != ' ' && c->at[n] != ']' && c->at[n] != ')')
        return false;
    c->at += n;
    return true;
}

/* --- values: atoms, strings, lists --- */

static bool take_quoted(struct cursor *c)
{
    if (!take_char(c, '"'))
        return false;
    while (c->at < c->end && *c->at != '"') {
        if (*c->at == '\\' && ++c->at == c->end)
            return false;
        c->at++;
    }
    return take_char(c, '"');
}

/* "{n}", where a literal really stood. */
static bool take_literal(struct cursor *c)
{
    for (unsigned i = 0; i < c->reader->nliterals; i++) {
        const char *end = c->reader->line + c->reader->literal_end[i];

        if (c->at < end && memchr(c->at, '{', (size_t)(end - c->at)) == c->at) {
            c->at = end;
            return true;
        }
    }
    return false;
}

static bool take_atom(struct cursor *c)
{
    const char *from = c->at;

    while (c->at < c->end && (is_atom_char(*c->at) || (*c->at == '*' && c->at[-1] == '\\')))
        c->at++;
    return c->at > from;
}

/* Any value; lists without recursion. */
static bool take_value(struct cursor *c)
{
    unsigned depth = 0;

    for (;;) {
        bool whole = true;

        if (take_char(c, '(')) {
            if (++depth > IMAP_DEPTH_MAX)
                return false;
            whole = c->at < c->end && *c->at == ')';
        } else if (c->at < c->end && *c->at == '"') {
            whole = take_quoted(c);
            if (!whole)
                return false;
        } else if (!take_literal(c) && !take_atom(c)) {
            return false;
        }
        if (!whole)
            continue;
        while (depth > 0 && take_char(c, ')'))
            depth--;
        if (depth == 0)
            return true;
        /* Lists of lists, as in BODYSTRUCTURE, stand without a space between. */
        if (!take_char(c, ' ') && !(c->at < c->end && *c->at == '('))
            return false;
    }
}

/* --- FETCH --- */

static bool take_flags(struct cursor *c, unsigned *ret)
{
    unsigned flags = 0;

    if (!take_char(c, '('))
        return false;
    while (!take_char(c, ')')) {
        if (take_word(c, "\\Seen"))
            flags |= IMAP_SEEN;
        else if (take_word(c, "\\Deleted"))
            flags |= IMAP_DELETED;
        else if (take_atom(c))
            flags |= IMAP_FLAG_OTHER;
        else
            return false;
        if (!take_char(c, ' ') && (c->at == c->end || *c->at != ')'))
            return false;
    }
    *ret = flags;
    return true;
}

/* BODY[section]<origin>: *whole where neither limits it. */
static bool take_item_name(struct cursor *c, const char **name, size_t *len, bool *whole)
{
    uint32_t origin;

    *name = c->at;
    while (c->at < c->end && is_atom_char(*c->at) && *c->at != '[')
        c->at++;
    *len = (size_t)(c->at - *name);
    *whole = *len == 6 && strncasecmp(*name, "RFC822", 6) == 0;
    if (take_char(c, '[')) {
        const char *from = c->at;

        while (c->at < c->end && *c->at != ']') {
            if (*c->at != '"')
                c->at++;
            else if (!take_quoted(c))
                return false;
        }
        *whole = *len == 4 && strncasecmp(*name, "BODY", 4) == 0 && c->at == from;
        if (!take_char(c, ']'))
            return false;
        if (take_char(c, '<')) {
            *whole = false;
            if (!take_number(c, &origin) || !take_char(c, '>'))
                return false;
        }
    }
    return *len > 0 && take_char(c, ' ');
}

static bool take_body(struct cursor *c, struct imap_response *response)
{
    response->body = c->at == c->end   ? IMAP_BODY_NONE
                     : *c->at == '"'   ? IMAP_BODY_QUOTED
                     : take_literal(c) ? IMAP_BODY_LITERAL
                                       : IMAP_BODY_NIL;
    switch (response->body) {
    case IMAP_BODY_NONE:
        return false;
    case IMAP_BODY_QUOTED:
        return take_quoted(c);
    case IMAP_BODY_NIL:
        return take_word(c, "NIL");
    default:
        return true;
    }
}

static bool take_fetch(struct cursor *c, struct imap_response *response)
{
    if (!take_char(c, ' ') || !take_char(c, '('))
        return false;
    for (;;) {
        const char *name;
        size_t len;
        bool whole, taken;

        if (!take_item_name(c, &name, &len, &whole))
            return false;
        if (whole) {
            taken = response->body == IMAP_BODY_NONE && take_body(c, response);
        } else if (len == 3 && strncasecmp(name, "UID", 3) == 0) {
            taken = take_number(c, &response->uid) && response->uid > 0;
            response->has_uid = true;
        } else if (len == 5 && strncasecmp(name, "FLAGS", 5) == 0) {
            taken = take_flags(c, &response->flags);
            response->has_flags = true;
        } else {
            taken = take_value(c);
        }
        if (!taken)
            return false;
        if (take_char(c, ')'))
            return c->at == c->end;
        if (!take_char(c, ' '))
            return false;
    }
}

/* --- other data --- */

bool imap_next_number(const char **numbers, uint32_t *ret)
{
    struct cursor c = {.at = *numbers, .end = *numbers + strlen(*numbers)};

    if (!take_char(&c, ' ') || !take_number(&c, ret))
        return false;
    *numbers = c.at;
    return true;
}

/* Numbers; "(MODSEQ n)" may follow (RFC 7162), and a space that some servers leave. */
static bool take_search(struct cursor *c, struct imap_response *response)
{
    uint32_t n;

    response->numbers = c->at;
    while (imap_next_number(&c->at, &n))
        if (n == 0)
            return false;
    if (take_char(c, ' ') && c->at < c->end)
        return *c->at == '(' && take_value(c) && c->at == c->end;
    return c->at == c->end;
}

static bool lists_login_disabled(struct cursor c)
{
    while (take_char(&c, ' ')) {
        if (take_word(&c, "LOGINDISABLED"))
            return true;
        while (c.at < c.end && *c.at != ' ' && *c.at != ']')
            c.at++;
    }
    return false;
}

/* --- status --- */

static void take_code(struct cursor c, struct imap_response *response)
{
    uint32_t *n = response->code_numbers;
    const char *end;

    if (!take_char(&c, '['))
        return;
    end = memchr(c.at, ']', (size_t)(c.end - c.at));
    if (!end)
        return; /* text that happens to begin so */
    c.end = end;
    response->code = IMAP_CODE_OTHER;
    if (take_word(&c, "UIDVALIDITY")) {
        if (take_char(&c, ' ') && take_number(&c, &n[0]))
            response->code = IMAP_UIDVALIDITY;
    } else if (take_word(&c, "UIDNEXT")) {
        if (take_char(&c, ' ') && take_number(&c, &n[0]))
            response->code = IMAP_UIDNEXT;
    } else if (take_word(&c, "APPENDUID")) {
        if (take_char(&c, ' ') && take_number(&c, &n[0]) && take_char(&c, ' ') &&
            take_number(&c, &n[1]))
            response->code = IMAP_APPENDUID;
    } else if (take_word(&c, "EXPUNGEISSUED")) {
        response->code = IMAP_EXPUNGEISSUED;
    } else if (take_word(&c, "CAPABILITY")) {
        response->login_disabled = lists_login_disabled(c);
    }
}

static bool take_status(struct cursor *c, struct imap_response *response)
{
    static const char *const words[] = {"OK", "NO", "BAD", "BYE", "PREAUTH"};

    for (unsigned i = 0; i < 5; i++) {
        if (!take_word(c, words[i]))
            continue;
        response->status = (enum imap_status)i;
        take_char(c, ' '); /* some send no text, and then no space */
        response->text = c->at;
        response->text_len = (size_t)(c->end - c->at);
        take_code(*c, response);
        return true;
    }
    return false;
}

/* --- a response --- */

/* Of "* n EXISTS" and its like; false where there is no number. */
static const char *take_numbered(struct cursor *c, struct imap_response *response)
{
    static const struct {
        const char *word;
        enum imap_kind kind;
    } kinds[] = {{"EXISTS", IMAP_EXISTS}, {"RECENT", IMAP_RECENT}, {"EXPUNGE", IMAP_EXPUNGE}};

    if (!take_number(c, &response->number) || !take_char(c, ' '))
        return "a bad number";
    if (take_word(c, "FETCH")) {
        response->kind = IMAP_FETCH;
        return response->number == 0     ? "message number 0"
               : take_fetch(c, response) ? NULL
                                         : "a bad FETCH";
    }
    for (unsigned i = 0; i < 3; i++) {
        if (!take_word(c, kinds[i].word))
            continue;
        response->kind = kinds[i].kind;
        if (c->at != c->end)
            return "text behind a number's word";
        return response->kind == IMAP_EXPUNGE && response->number == 0 ? "message number 0" : NULL;
    }
    response->kind = IMAP_OTHER;
    return NULL;
}

static const char *take_untagged(struct cursor *c, struct imap_response *response)
{
    if (c->at < c->end && is_digit(*c->at))
        return take_numbered(c, response);
    response->kind = IMAP_STATUS;
    if (take_status(c, response))
        return NULL;
    if (take_word(c, "SEARCH")) {
        response->kind = IMAP_SEARCH;
        return take_search(c, response) ? NULL : "a bad SEARCH";
    }
    response->kind = IMAP_OTHER;
    if (take_word(c, "CAPABILITY")) {
        response->kind = IMAP_CAPABILITY;
        response->login_disabled = lists_login_disabled(*c);
        return NULL;
    }
    return take_atom(c) ? NULL : "an untagged response without a name";
}

static const char *take_tagged(struct cursor *c, struct imap_response *response)
{
    const char *from = c->at;
    size_t n;

    response->kind = IMAP_TAGGED;
    while (c->at < c->end && is_atom_char(*c->at) && *c->at != '+')
        c->at++;
    n = (size_t)(c->at - from);
    if (n == 0 || n > IMAP_TAG_MAX || !take_char(c, ' '))
        return "neither a tag nor '*' nor '+'";
    memcpy(response->tag, from, n);
    response->tag[n] = '\0';
    if (!take_status(c, response) || response->status > IMAP_REFUSED)
        return "a tagged response without OK, NO or BAD";
    return NULL;
}

static const char *take_response(struct imap_reader *r)
{
    struct cursor c = {r, r->line, r->line + r->len};

    memset(&r->response, 0, sizeof(r->response));
    if (take_char(&c, '+')) {
        r->response.kind = IMAP_CONTINUE;
        return c.at == c.end || *c.at == ' ' ? NULL : "text right behind '+'";
    }
    if (!take_char(&c, '*'))
        return take_tagged(&c, &r->response);
    return take_char(&c, ' ') ? take_untagged(&c, &r->response) : "no space behind '*'";
}

/* --- the stream --- */

void imap_begin(struct imap_reader *r)
{
    r->state = STATE_LINE;
    r->len = r->segment = 0;
    r->nliterals = 0;
}

static enum imap_result imap_bad(struct imap_reader *r, const char *why, const char **ret_why)
{
    r->state = STATE_BAD;
    *ret_why = why;
    return IMAP_BAD;
}

/* Continuations and status responses end in free text: "{5}" at its end is no literal. */
static bool ends_in_text(const struct imap_reader *r)
{
    struct cursor c = {r, r->line, r->line + r->len};
    struct imap_response ignored = {0};

    return r->line[0] != '*' ||
           (take_char(&c, '*') && take_char(&c, ' ') && take_status(&c, &ignored));
}

/* Whether the line ends in "{n}" outside of quotes: then *at is where it begins. */
static const char *find_literal(struct imap_reader *r, size_t *at, bool *found)
{
    bool quoted = false;

    *found = false;
    for (size_t i = r->segment; i < r->len; i++) {
        if (quoted && r->line[i] == '\\')
            i++;
        else if (r->line[i] == '"')
            quoted = !quoted;
        else if (!quoted && r->line[i] == '{') {
            *at = i;
            *found = true;
        }
    }
    if (quoted)
        return "a quoted string does not end in its line";
    *found = *found && r->line[r->len - 1] == '}';
    return NULL;
}

static bool names_body(const struct imap_reader *r, size_t at)
{
    struct cursor c = {r, r->line, r->line + at};
    uint32_t n;

    if (!take_char(&c, '*') || !take_char(&c, ' ') || !take_number(&c, &n) || !take_char(&c, ' ') ||
        !take_word(&c, "FETCH"))
        return false;
    for (unsigned i = 0; i < 2; i++) {
        static const char *const names[] = {"BODY[] ", "RFC822 "};
        size_t len = strlen(names[i]);

        if (at > len && strncasecmp(r->line + at - len, names[i], len) == 0 &&
            strchr(" (", r->line[at - len - 1]))
            return true;
    }
    return false;
}

static const char *begin_literal(struct imap_reader *r, size_t at)
{
    struct cursor c = {r, r->line + at + 1, r->line + r->len};

    if (!take_number(&c, &r->left) || c.at != c.end - 1)
        return "a bad length of a literal";
    if (r->left > IMAP_LITERAL_MAX)
        return "a literal is too long";
    if (r->nliterals == IMAP_LITERALS_MAX)
        return "too many literals";
    r->literal_end[r->nliterals++] = (uint16_t)r->len;
    r->literal_at = 0;
    r->literal_bytes = r->left;
    r->literal_is_body = names_body(r, at);
    r->segment = r->len;
    r->state = STATE_LITERAL;
    return NULL;
}

/* A line is whole, CRLF included. */
static const char *end_line(struct imap_reader *r)
{
    const char *why = NULL;
    bool literal = false;
    size_t at = 0;

    if (r->len - r->segment < 2 || r->line[r->len - 2] != '\r')
        return "a line does not end in CRLF";
    r->len -= 2;
    r->line[r->len] = '\0';
    for (size_t i = r->segment; i < r->len; i++)
        if (r->line[i] == '\0' || r->line[i] == '\r')
            return "a line holds NUL or CR";
    if (!ends_in_text(r))
        why = find_literal(r, &at, &literal);
    if (why)
        return why;
    if (literal)
        return begin_literal(r, at);
    r->state = STATE_WHOLE;
    return take_response(r);
}

enum imap_result imap_read(struct imap_reader *r, const uint8_t *data, size_t len, size_t *ret_used,
                           const char **ret_why)
{
    *ret_used = 0;
    if (r->state == STATE_WHOLE)
        imap_begin(r);
    while (r->state != STATE_BAD) {
        const uint8_t *from = data + *ret_used, *lf;
        size_t n = len - *ret_used;
        const char *why;

        if (r->state == STATE_LITERAL && r->left == 0)
            r->state = STATE_LINE;
        if (n == 0)
            return IMAP_MORE;
        if (r->state == STATE_LITERAL) {
            r->literal_at = r->literal_bytes - r->left;
            r->piece = from;
            r->piece_len = n < r->left ? n : r->left;
            r->left -= (uint32_t)r->piece_len;
            *ret_used += r->piece_len;
            return IMAP_LITERAL;
        }
        lf = memchr(from, '\n', n);
        if (lf)
            n = (size_t)(lf - from) + 1;
        if (n > IMAP_RESPONSE_MAX - r->len)
            return imap_bad(r, "a response is too long", ret_why);
        memcpy(r->line + r->len, from, n);
        r->len += n;
        *ret_used += n;
        if (!lf)
            return IMAP_MORE;
        why = end_line(r);
        if (why)
            return imap_bad(r, why, ret_why);
        if (r->state == STATE_WHOLE)
            return IMAP_RESPONSE;
    }
    return imap_bad(r, "the stream was refused before", ret_why);
}
