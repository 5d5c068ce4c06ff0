/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IMAP reader and the mail driver on any bytes. The first byte says which operation the bytes
 * answer and how long the pieces are. The same bytes in one piece must be read to the same end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tiles/roles/mail/imap.h"
#include "tiles/roles/mail/mail.h"
#include "tiles/roles/registry.h"

struct outcome {
    unsigned responses, literals;
    uint64_t sum;
    int bad;
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static void add(struct outcome *o, uint64_t value)
{
    o->sum = (o->sum ^ value) * UINT64_C(0x100000001b3);
}

static void add_response(struct outcome *o, const struct imap_response *r)
{
    const char *numbers = r->numbers;
    uint32_t n;

    o->responses++;
    add(o, r->kind);
    add(o, r->status);
    add(o, r->number);
    add(o, r->uid);
    add(o, r->flags);
    add(o, r->body);
    add(o, r->code_numbers[0]);
    for (size_t i = 0; i < r->text_len; i++)
        add(o, (uint8_t)r->text[i]);
    while (numbers && imap_next_number(&numbers, &n))
        add(o, n);
    require(strlen(r->tag) <= IMAP_TAG_MAX);
}

static struct outcome read_all(const uint8_t *data, size_t len, size_t piece)
{
    static struct imap_reader reader;
    struct outcome o = {0};

    imap_begin(&reader);
    for (size_t at = 0, end = 0;;) {
        const char *why = NULL;
        size_t used = len + 1;

        switch (imap_read(&reader, data + at, end - at, &used, &why)) {
        case IMAP_LITERAL:
            require(reader.piece_len > 0 && reader.piece_len <= used);
            require(reader.piece + reader.piece_len == data + at + used);
            require(reader.literal_at + reader.piece_len <= reader.literal_bytes);
            o.literals += reader.literal_at == 0;
            for (size_t i = 0; i < reader.piece_len; i++)
                add(&o, reader.piece[i]);
            break;
        case IMAP_RESPONSE:
            add_response(&o, &reader.response);
            break;
        case IMAP_MORE:
            require(at + used == end);
            if (end == len)
                return o;
            break;
        default:
            require(why != NULL);
            o.bad = 1;
            return o;
        }
        at += used;
        require(at <= end);
        if (at == end)
            end = piece < len - end ? end + piece : len;
    }
}

/* Enters, then has every step of a session answered by what is left, until it fails. */
static void converse(uint16_t operation, const uint8_t *data, size_t len, size_t piece)
{
    static const struct driver_target target = {.tile = 1};
    struct driver_step step = {.sequence = 7, .operation = operation, .argument = 3U << 24 | 5};
    struct vt_buf out = VT_BUF_INIT(1U << 20);
    void *conn = calloc(1, mail_driver.conn_bytes);
    size_t at = 0;

    require(conn != NULL);
    mail_driver.conn_init(conn, &target);
    if (operation == MAIL_LOGIN)
        mail_driver.request(conn, &step, &out);
    else
        mail_driver.enter(conn, &step, &out);
    while (at < len) {
        size_t n = piece < len - at ? piece : len - at, used = len + 1;
        const char *why = NULL;
        enum driver_verdict verdict = mail_driver.on_bytes(conn, data + at, n, &used, &out, &why);

        require(used <= n && !out.failed);
        at += used;
        if (verdict == DRIVER_BAD || verdict == DRIVER_WRONG)
            require(why != NULL && *why);
        if (verdict == DRIVER_BAD)
            break;
        if (verdict == DRIVER_MORE)
            require(used == n);
        if (verdict == DRIVER_DONE || verdict == DRIVER_WRONG) {
            step.operation = (uint16_t)(1 + (step.operation + step.sequence) % MAIL_LOGOUT);
            step.sequence++;
            step.argument ^= at % 2 ? 1U << 23 : 0x51;
            mail_driver.request(conn, &step, &out);
        }
    }
    mail_driver.conn_fini(conn);
    free(conn);
    vt_buf_dispose(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, pieces;
    size_t piece;

    if (size == 0)
        return 0;
    piece = (data[0] >> 3) + 1U;
    whole = read_all(data + 1, size - 1, size);
    pieces = read_all(data + 1, size - 1, piece);
    require(whole.responses == pieces.responses && whole.literals == pieces.literals &&
            whole.sum == pieces.sum && whole.bad == pieces.bad);
    converse(data[0] % MAIL_OPERATIONS, data + 1, size - 1, piece);
    return 0;
}
