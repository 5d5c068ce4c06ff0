/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The app role's load: clerks at a supply chain, each with a customer of his own, over kept HTTP
 * connections. goods.h says what an answer must look like; all that follows from the request or
 * from the tile is checked to the last byte, the rest (stocks, numbers) for form and sense.
 */
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "tiles/load/http_exchange.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/registry.h"

/* --- plan --- */

/* Our own mix. Half the steps only look, as in a shop; of those that write, purchases and looking
 * after orders are equally frequent, so that orders do not pile up unshipped; one work order makes
 * as much as two purchases take on average (12 and 2 x 6, goods.h), so that stock stays level. */
static const uint32_t mix[APP_OPERATIONS] = {
    [APP_BROWSE] = 50, [APP_PURCHASE] = 20, [APP_MANAGE] = 20, [APP_WORKORDER] = 10};

/* A clerk leaves after each step with this probability: 20 steps on average. Nothing else carries
 * over from step to step, so a session met in its middle is like a fresh one, and the mix of any
 * second is that above. */
#define STEPS_MEAN 20

struct app_session {
    uint32_t customer;
};

static bool app_plan(void *state, struct vt_rng *rng, const struct spec_load *load, bool first,
                     bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns)
{
    struct app_session *session = state;

    (void)fresh;
    if (first)
        session->customer = (uint32_t)vt_rng_below(rng, APP_CUSTOMERS_MAX);
    else if (vt_rng_below(rng, STEPS_MEAN) == 0)
        return false;
    *operation = (uint16_t)vt_rng_pick(rng, mix, APP_OPERATIONS);
    *argument = session->customer << 16 | (uint32_t)vt_rng_below(rng, 1U << 16);
    *gap_ns = driver_draw_gap_ns(rng, load);
    return true;
}

/* --- a connection --- */

struct app_conn {
    struct http_exchange http;
    const struct driver_target *target;
    enum app_operation operation;
    uint32_t argument, sequence;
    bool too_long, acknowledged;
    size_t len;
    char body[APP_BODY_MAX + 1];
};

static void add_form(struct vt_buf *form, enum app_operation operation, uint32_t argument)
{
    struct app_purchase purchase;
    struct app_line work;

    switch (operation) {
    case APP_PURCHASE:
        app_purchase(argument, &purchase);
        vt_buf_printf(form, "customer=%u&lines=", app_customer_draw(argument));
        for (unsigned i = 0; i < purchase.nlines; i++)
            vt_buf_printf(form, "%s%ux%u", i ? "," : "", purchase.lines[i].item,
                          purchase.lines[i].quantity);
        break;
    case APP_MANAGE:
        vt_buf_printf(form, "customer=%u", app_customer_draw(argument));
        break;
    case APP_WORKORDER:
        work = app_work(argument);
        vt_buf_printf(form, "item=%u&quantity=%u", work.item, work.quantity);
        break;
    default:
        break;
    }
}

/* A form's length is known once it is written, so it is written twice: behind the head, to measure
 * it, and again after the header line that states it. */
static void app_request(void *conn, const struct driver_step *step, struct vt_buf *out)
{
    struct app_conn *c = conn;
    size_t form_at, form_len;

    c->operation = step->operation;
    c->argument = step->argument;
    c->sequence = step->sequence;
    c->too_long = c->acknowledged = false;
    c->len = 0;
    http_begin(&c->http.reader, false);
    vt_buf_printf(out, "%s /%s?r=%u&n=%u HTTP/1.1\r\nHost: %s\r\nUser-Agent: vtile\r\n",
                  c->operation == APP_BROWSE ? "GET" : "POST", app_operation_names[c->operation],
                  step->sequence, step->argument, c->target->server_name);
    if (c->operation == APP_BROWSE) {
        vt_buf_adds(out, "\r\n");
        return;
    }
    form_at = out->len;
    add_form(out, c->operation, c->argument);
    form_len = out->len - form_at;
    out->len = form_at;
    vt_buf_printf(out,
                  "Content-Type: application/x-www-form-urlencoded\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  form_len);
    add_form(out, c->operation, c->argument);
}

/* --- what an answer says --- */

/* Reads the body from its front; once something is not as it must be, it reads nothing more. */
struct cursor {
    const char *at;
    bool off;
};

static bool sees(const struct cursor *cursor, const char *text)
{
    return !cursor->off && strncmp(cursor->at, text, strlen(text)) == 0;
}

static void take(struct cursor *cursor, const char *text)
{
    if (sees(cursor, text))
        cursor->at += strlen(text);
    else
        cursor->off = true;
}

/* At most 15 digits: sums of them stay far from overflow. */
static uint64_t take_number(struct cursor *cursor)
{
    size_t digits = cursor->off ? 0 : strspn(cursor->at, "0123456789");
    uint64_t value = 0;

    if (digits == 0 || digits > 15 || (digits > 1 && *cursor->at == '0')) {
        cursor->off = true;
        return 0;
    }
    for (; digits > 0; digits--)
        value = 10 * value + (uint64_t)(*cursor->at++ - '0');
    return value;
}

static void take_this_number(struct cursor *cursor, uint64_t value)
{
    if (take_number(cursor) != value)
        cursor->off = true;
}

/* "customer <c> of <customers>": how many there are follows from the database's size, which only
 * the answer tells. */
static void take_customer(struct cursor *cursor, uint32_t argument)
{
    uint64_t customer, customers;

    take(cursor, "customer ");
    customer = take_number(cursor);
    take(cursor, " of ");
    customers = take_number(cursor);
    if (customers == 0 || customer != app_customer_draw(argument) % customers + 1)
        cursor->off = true;
}

static void read_browse(struct app_conn *c, struct cursor *cursor)
{
    for (uint32_t i = 0; i < APP_PAGE_ITEMS; i++) {
        uint32_t item = (uint32_t)(((uint64_t)c->argument + i) % APP_ITEMS) + 1;
        char name[APP_NAME_MAX];

        app_name(c->target->tile, item, name);
        take(cursor, "item ");
        take_this_number(cursor, item);
        take(cursor, " ");
        take_this_number(cursor, app_price(c->target->tile, item));
        take(cursor, " ");
        take_number(cursor);
        take(cursor, " ");
        take(cursor, name);
        take(cursor, "\n");
    }
}

/* Only where less is there than this request asked for. */
static void read_refusal(struct cursor *cursor, const struct app_purchase *purchase)
{
    uint64_t item, stock;
    bool short_of_it = false;

    take(cursor, "refused ");
    item = take_number(cursor);
    take(cursor, " ");
    stock = take_number(cursor);
    take(cursor, "\n");
    for (unsigned i = 0; i < purchase->nlines; i++)
        short_of_it |= purchase->lines[i].item == item && stock < purchase->lines[i].quantity;
    cursor->off |= !short_of_it;
}

static void read_purchase(struct app_conn *c, struct cursor *cursor)
{
    struct app_purchase purchase;
    uint64_t total = 0;

    app_purchase(c->argument, &purchase);
    if (sees(cursor, "refused ")) {
        read_refusal(cursor, &purchase);
        return;
    }
    for (unsigned i = 0; i < purchase.nlines; i++)
        total += app_price(c->target->tile, purchase.lines[i].item) * purchase.lines[i].quantity;
    take(cursor, "order ");
    cursor->off |= take_number(cursor) == 0;
    take(cursor, " ");
    take_customer(cursor, c->argument);
    take(cursor, " total ");
    take_this_number(cursor, total);
    take(cursor, "\n");
    c->acknowledged = true;
}

static void read_manage(struct app_conn *c, struct cursor *cursor)
{
    uint64_t newer = UINT64_MAX, balance, sum = 0, shipped, order;

    take_customer(cursor, c->argument);
    take(cursor, " balance ");
    balance = take_number(cursor);
    take(cursor, "\n");
    for (unsigned i = 0; i < 10 && sees(cursor, "order "); i++) {
        take(cursor, "order ");
        order = take_number(cursor);
        cursor->off |= order == 0 || order >= newer;
        newer = order;
        take(cursor, sees(cursor, " open ") ? " open " : " shipped ");
        sum += take_number(cursor);
        take(cursor, "\n");
    }
    /* All orders of the customer make the balance; here are ten of them at most. */
    cursor->off |= sum > balance;
    take(cursor, "shipped ");
    shipped = take_number(cursor);
    take(cursor, "\n");
    c->acknowledged = shipped != 0;
}

static void read_workorder(struct app_conn *c, struct cursor *cursor)
{
    struct app_line work = app_work(c->argument);

    take(cursor, "work ");
    cursor->off |= take_number(cursor) == 0;
    take(cursor, " item ");
    take_this_number(cursor, work.item);
    take(cursor, " quantity ");
    take_this_number(cursor, work.quantity);
    take(cursor, " stock ");
    cursor->off |= take_number(cursor) < work.quantity;
    take(cursor, "\n");
    c->acknowledged = true;
}

static void (*const readers[APP_OPERATIONS])(struct app_conn *c, struct cursor *cursor) = {
    [APP_BROWSE] = read_browse,
    [APP_PURCHASE] = read_purchase,
    [APP_MANAGE] = read_manage,
    [APP_WORKORDER] = read_workorder,
};

static enum driver_verdict wrong(struct app_conn *c, const char *text, const char **why)
{
    c->acknowledged = false;
    *why = text;
    return DRIVER_WRONG;
}

static enum driver_verdict judge(void *conn, const char **why)
{
    struct app_conn *c = conn;
    struct cursor cursor = {.at = c->body};
    char line[96];

    if (c->http.reader.status != 200)
        return wrong(c, "the status is not 200", why);
    if (c->too_long || memchr(c->body, '\0', c->len))
        return wrong(c, "the body is no text of the expected length", why);
    c->body[c->len] = '\0';
    snprintf(line, sizeof(line), "vtile %u %s %u %u\n", c->target->tile,
             app_operation_names[c->operation], c->argument, c->sequence);
    take(&cursor, line);
    if (cursor.off)
        return wrong(c, "the first line is not the one of this request", why);
    readers[c->operation](c, &cursor);
    if (cursor.off)
        return wrong(c, "the answer does not say what follows from the request", why);
    snprintf(line, sizeof(line), "end %08lx\n",
             crc32(crc32(0, NULL, 0), (const Bytef *)c->body, (uInt)(cursor.at - c->body)));
    take(&cursor, line);
    if (cursor.off || *cursor.at != '\0')
        return wrong(c, "the checksum of the body is wrong", why);
    return DRIVER_DONE;
}

static void take_body(void *conn, const uint8_t *body, size_t len)
{
    struct app_conn *c = conn;

    if (len > APP_BODY_MAX - c->len) {
        c->too_long = true;
        return;
    }
    memcpy(c->body + c->len, body, len);
    c->len += len;
}

static void app_conn_init(void *conn, const struct driver_target *target)
{
    struct app_conn *c = conn;

    c->http.take_body = take_body;
    c->http.judge = judge;
    c->target = target;
}

static bool app_acknowledges(const void *conn)
{
    return ((const struct app_conn *)conn)->acknowledged;
}

const struct driver app_driver = {
    .name = "app",
    .pooled = true,
    .port = APP_PORT,
    .operations = app_operation_names,
    .noperations = APP_OPERATIONS,
    .session_bytes = sizeof(struct app_session),
    .plan = app_plan,
    .conn_bytes = sizeof(struct app_conn),
    .conn_init = app_conn_init,
    .conn_fini = http_exchange_fini,
    .request = app_request,
    .on_bytes = http_exchange_bytes,
    .on_eof = http_exchange_eof,
    .answer_bytes = http_exchange_answer_bytes,
    .keep = http_exchange_keep,
    .acknowledges = app_acknowledges,
};
