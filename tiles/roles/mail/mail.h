/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mail: what the mail role's driver and its guest agree on: mailboxes, the contents by which a
 * message is checked, and how a session walks. All of it is [ours] but where a source is named.
 *
 * Users user0000 .. user0255, each with an INBOX. A guest fills it with mail_count(data_bytes)
 * messages, UIDs 1 .. count; the mailbox's UIDVALIDITY is that count, so a client learns it from
 * SELECT. What sessions append has greater UIDs. Lines end in CRLF. A message:
 *
 *   X-Vtile-Message: <tile> <user> <number>   decimal; number is the UID, 0 for appended ones
 *   X-Vtile-Step: <sequence>                  appended ones only
 *   From, To, Subject, Date, Message-ID       Subject: a word of mail_words and the number
 *                                             (appended ones: "appended")
 *   (empty line, printable filler)
 *   vtile-crc <8 hex digits>                  CRC-32 (zlib's crc32()) of all before this line
 *
 * A generated message has mail_bytes(user, number) bytes, and its filler comes from the guest's
 * seed. An appended one has mail_sizes[number of the step % MAIL_SIZES] bytes.
 */
#ifndef VTILE_TILES_ROLES_MAIL_MAIL_H
#define VTILE_TILES_ROLES_MAIL_MAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAIL_PORT 993
#define MAIL_USERS 256
#define MAIL_PASSWORD "vtile"
/* Bounds of a mailbox's generated messages: enough to choose from; and what the reader's bound of
 * a response leaves room for in a SEARCH that finds an eighth of them. */
#define MAIL_COUNT_MIN 4
#define MAIL_COUNT_MAX 8192

#define MAIL_SIZES 16
#define MAIL_BYTES_MAX 24576
extern const uint16_t mail_sizes[MAIL_SIZES];
#define MAIL_BYTES_MEAN 6208 /* of mail_sizes, exactly */

#define MAIL_WORDS 8
extern const char *const mail_words[MAIL_WORDS];

enum mail_operation {
    MAIL_LOGIN,
    MAIL_SELECT,
    MAIL_FETCH,
    MAIL_SEARCH,
    MAIL_APPEND,
    MAIL_STORE,
    MAIL_EXPUNGE,
    MAIL_LOGOUT,
    MAIL_OPERATIONS,
};

/* Messages of each mailbox. */
uint32_t mail_count(uint64_t data_bytes);
uint32_t mail_bytes(uint32_t user, uint32_t number);
/* Index into mail_words of a generated message's Subject. */
unsigned mail_word(uint32_t user, uint32_t number);

struct mail_message {
    unsigned tile;
    uint32_t user, number; /* number 0: appended by the step with that sequence */
    uint32_t sequence;
    uint32_t bytes; /* at least 1024 */
    uint64_t seed;  /* of the filler */
};
/* out: bytes long, no NUL behind. */
void mail_render(const struct mail_message *message, uint8_t *out);

/* Checks a message that comes in pieces. */
#define MAIL_LINE_MAX 80 /* of a line that is looked into */
#define MAIL_TAIL 20     /* the last line with its CRLF */
struct mail_check {
    uint32_t bytes, at;
    uint32_t crc;
    uint8_t head[2 * MAIL_LINE_MAX]; /* the first bytes, terminated */
    uint8_t tail[MAIL_TAIL];
};
/* What a right message says of itself. */
struct mail_identity {
    uint32_t tile, user, number, sequence; /* sequence: of appended ones */
};
void mail_check_begin(struct mail_check *check, uint32_t bytes);
void mail_check_piece(struct mail_check *check, const uint8_t *data, size_t len);
/* NULL when it is whole, its checksum right and its head as stated above, else what is wrong. */
const char *mail_check_end(const struct mail_check *check, struct mail_identity *ret);

#endif
