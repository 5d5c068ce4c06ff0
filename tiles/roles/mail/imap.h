/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imap: reads IMAP4rev1 responses (RFC 3501, RFC 4315) as a client sees them, from pieces of a
 * stream cut anywhere. Literals are handed out as they come and never kept; the rest of a response
 * is kept, bounded, until it is whole. No allocation, no I/O.
 *
 * Order of calls: imap_begin once a stream, then imap_read until no bytes are left. What a response
 * points to lasts until the next call.
 */
#ifndef VTILE_TILES_ROLES_MAIL_IMAP_H
#define VTILE_TILES_ROLES_MAIL_IMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAP_RESPONSE_MAX 8192       /* of all lines of a response, without its literals */
#define IMAP_LITERAL_MAX (64U << 20) /* of one literal */
#define IMAP_LITERALS_MAX 16         /* of one response */
#define IMAP_DEPTH_MAX 16            /* of parentheses */
#define IMAP_TAG_MAX 15

enum imap_result {
    IMAP_MORE,     /* all bytes used, nothing whole */
    IMAP_LITERAL,  /* a piece of a literal */
    IMAP_RESPONSE, /* a whole response */
    IMAP_BAD,      /* the stream cannot be followed any more */
};

enum imap_kind {
    IMAP_CONTINUE, /* "+": go on with the command */
    IMAP_TAGGED,   /* status of the command with that tag */
    IMAP_STATUS,   /* the same without a tag: greeting, warnings, BYE */
    IMAP_EXISTS,
    IMAP_RECENT,
    IMAP_EXPUNGE,
    IMAP_FETCH,
    IMAP_SEARCH,
    IMAP_CAPABILITY,
    IMAP_OTHER, /* any other data: not looked into */
};
enum imap_status { IMAP_OK, IMAP_NO, IMAP_REFUSED /* BAD */, IMAP_BYE, IMAP_PREAUTH };
enum imap_code {
    IMAP_CODE_NONE,
    IMAP_UIDVALIDITY,
    IMAP_UIDNEXT,
    IMAP_APPENDUID,
    IMAP_EXPUNGEISSUED, /* RFC 5530: another session has expunged what was asked for */
    IMAP_CODE_OTHER,
};
enum imap_body { IMAP_BODY_NONE, IMAP_BODY_NIL, IMAP_BODY_QUOTED, IMAP_BODY_LITERAL };
enum imap_flags { IMAP_SEEN = 1, IMAP_DELETED = 2, IMAP_FLAG_OTHER = 4 };

struct imap_response {
    enum imap_kind kind;
    /* TAGGED and STATUS */
    enum imap_status status;
    char tag[IMAP_TAG_MAX + 1];
    enum imap_code code;
    uint32_t code_numbers[2]; /* UIDVALIDITY and UIDNEXT: the first; APPENDUID: validity, UID */
    const char *text;         /* for people, its code included; not terminated */
    size_t text_len;
    /* of a code or data CAPABILITY: LOGIN is not allowed on this connection */
    bool login_disabled;
    uint32_t number; /* EXISTS, RECENT; EXPUNGE and FETCH: the message's number, not 0 */
    /* FETCH: what of it was there */
    bool has_uid, has_flags;
    uint32_t uid;
    unsigned flags;
    enum imap_body body; /* of BODY[] or RFC822, whole */
    /* SEARCH: for imap_next_number */
    const char *numbers;
};

struct imap_reader {
    /* With IMAP_LITERAL: the piece, within the caller's data, and where it stands. */
    const uint8_t *piece;
    size_t piece_len;
    uint32_t literal_at, literal_bytes;
    bool literal_is_body; /* of a FETCH's BODY[] or RFC822 */
    /* With IMAP_RESPONSE. */
    struct imap_response response;

    /* private */
    int state;
    uint32_t left;
    unsigned nliterals;
    uint16_t literal_end[IMAP_LITERALS_MAX]; /* offsets in line, behind the mark */
    size_t len, segment;
    char line[IMAP_RESPONSE_MAX + 1];
};

void imap_begin(struct imap_reader *reader);
/* *ret_used <= len bytes were taken; call again while some are left. With IMAP_BAD *ret_why is a
 * static text. */
enum imap_result imap_read(struct imap_reader *reader, const uint8_t *data, size_t len,
                           size_t *ret_used, const char **ret_why);
/* The next number of a SEARCH response, which imap_read has checked; false at the end. */
bool imap_next_number(const char **numbers, uint32_t *ret);

#endif
