/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/mail/mail.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* [ours] Most messages are small and most bytes are in large ones. */
const uint16_t mail_sizes[MAIL_SIZES] = {1024, 3072, 1024,  6144, 2048, 8192,  1024, 12288,
                                         2048, 4096, 16384, 2048, 3072, 24576, 4096, 8192};

const char *const mail_words[MAIL_WORDS] = {
    "invoice", "meeting", "travel", "report", "offer", "question", "holiday", "delivery",
};

uint32_t mail_count(uint64_t data_bytes)
{
    uint64_t n = data_bytes / ((uint64_t)MAIL_USERS * MAIL_BYTES_MEAN);

    return n < MAIL_COUNT_MIN ? MAIL_COUNT_MIN : n > MAIL_COUNT_MAX ? MAIL_COUNT_MAX : (uint32_t)n;
}

/* 5 has no divisor in common with 16: a mailbox goes through all sizes, each from another one. */
uint32_t mail_bytes(uint32_t user, uint32_t number)
{
    return mail_sizes[(user + 5 * number) % MAIL_SIZES];
}

unsigned mail_word(uint32_t user, uint32_t number)
{
    return (user + number) % MAIL_WORDS;
}

/* --- making one --- */

static size_t render_head(const struct mail_message *m, char *out, size_t size)
{
    int n = snprintf(out, size, "X-Vtile-Message: %u %u %u\r\n", m->tile, m->user, m->number);
    size_t at = (size_t)n;

    if (m->number == 0) {
        n = snprintf(out + at, size - at, "X-Vtile-Step: %u\r\n", m->sequence);
        at += (size_t)n;
    }
    n = snprintf(out + at, size - at,
                 "From: user%04u@tile%u.vtile.test\r\nTo: user%04u@tile%u.vtile.test\r\n"
                 "Subject: %s %u\r\nDate: Mon, 01 Jan 2024 12:00:00 +0000\r\n"
                 "Message-ID: <%u.%u.%u.%u@vtile.test>\r\n\r\n",
                 (m->user + 1) % MAIL_USERS, m->tile, m->user, m->tile,
                 m->number ? mail_words[mail_word(m->user, m->number)] : "appended",
                 m->number ? m->number : m->sequence, m->tile, m->user, m->number, m->sequence);
    return at + (size_t)n;
}

/* Lines of 76 letters, ten from each multiplication of a Weyl sequence: enough to be unlike other
 * messages, and cheap where the CPU is emulated. */
static void render_filler(uint64_t x, uint8_t *out, size_t len)
{
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    uint64_t bits = 0;
    unsigned left = 0, column = 0;
    bool cr = false;

    for (size_t i = 0; i < len; i++) {
        size_t rest = len - i;

        if (cr) {
            out[i] = '\n';
            cr = false;
            column = 0;
            continue;
        }
        /* Three left are a letter more and CRLF. */
        if (rest == 2 || (column >= 76 && rest != 3)) {
            out[i] = '\r';
            cr = true;
            continue;
        }
        if (left == 0) {
            x += UINT64_C(0x9e3779b97f4a7c15);
            bits = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
            left = 10;
        }
        out[i] = (uint8_t)letters[bits >> 58];
        bits <<= 6;
        left--;
        column++;
    }
}

void mail_render(const struct mail_message *m, uint8_t *out)
{
    char head[512], tail[MAIL_TAIL + 1];
    size_t at = render_head(m, head, sizeof(head)), end = m->bytes - MAIL_TAIL;
    uint64_t what = (uint64_t)m->user << 32 ^ (uint64_t)m->sequence << 8 ^ m->number;

    memcpy(out, head, at);
    render_filler(m->seed ^ what * UINT64_C(0xd1342543de82ef95), out + at, end - at);
    snprintf(tail, sizeof(tail), "vtile-crc %08lx\r\n", crc32(0, out, (uInt)end));
    memcpy(out + end, tail, MAIL_TAIL);
}

/* --- checking one --- */

void mail_check_begin(struct mail_check *check, uint32_t bytes)
{
    memset(check, 0, sizeof(*check));
    check->bytes = bytes;
}

void mail_check_piece(struct mail_check *check, const uint8_t *data, size_t len)
{
    uint32_t end = check->bytes < MAIL_TAIL ? 0 : check->bytes - MAIL_TAIL;

    for (size_t i = 0; i < len && check->at + i < sizeof(check->head) - 1; i++)
        check->head[check->at + i] = data[i];
    if (check->at < end) {
        size_t n = len < end - check->at ? len : end - check->at;

        check->crc = (uint32_t)crc32(check->crc, data, (uInt)n);
        check->at += (uint32_t)n;
        data += n;
        len -= n;
    }
    for (; len > 0; len--, check->at++)
        if (check->at - end < MAIL_TAIL)
            check->tail[check->at - end] = *data++;
}

/* "<name>: " and decimal numbers, single spaces between, CRLF; NULL when it is anything else. */
static const char *read_line(const char *line, const char *name, uint32_t *const *numbers,
                             unsigned n)
{
    size_t len = strlen(name);

    if (strncmp(line, name, len) != 0 || line[len] != ':')
        return NULL;
    line += len + 1;
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = 0;
        unsigned digits = 0;

        if (*line++ != ' ')
            return NULL;
        for (; *line >= '0' && *line <= '9' && digits <= 10; digits++)
            value = value * 10 + (uint64_t)(*line++ - '0');
        if (digits == 0 || digits > 10 || value > UINT32_MAX)
            return NULL;
        *numbers[i] = (uint32_t)value;
    }
    return line[0] == '\r' && line[1] == '\n' ? line + 2 : NULL;
}

const char *mail_check_end(const struct mail_check *check, struct mail_identity *ret)
{
    struct mail_identity identity = {0};
    uint32_t *const message[] = {&identity.tile, &identity.user, &identity.number};
    uint32_t *const step[] = {&identity.sequence};
    char tail[MAIL_TAIL + 1];
    const char *line;

    if (check->bytes <= MAIL_TAIL || check->at != check->bytes)
        return "the message is not whole";
    snprintf(tail, sizeof(tail), "vtile-crc %08x\r\n", check->crc);
    if (memcmp(check->tail, tail, MAIL_TAIL) != 0)
        return "the checksum of the message is wrong";
    line = read_line((const char *)check->head, "X-Vtile-Message", message, 3);
    if (line && identity.number == 0)
        line = read_line(line, "X-Vtile-Step", step, 1);
    if (!line)
        return "the message does not say which one it is";
    *ret = identity;
    return NULL;
}
