/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database role's own load: clerks who look items up and place work orders, over kept
 * connections and prepared statements. The statements call functions.sql as the application's user,
 * who may do nothing else; each gives the step's sequence back, so that an answer is known to be
 * that of its request. What follows from the step or the tile (goods.h) is checked, the rest
 * (stocks, numbers) for form and sense.
 */
#include <stdio.h>
#include <string.h>

#include "tiles/load/sql.h"
#include "tiles/roles/app/goods.h"
#include "tiles/roles/database/postgres.h"
#include "tiles/roles/registry.h"

enum operation { READ, WRITE, OPERATIONS };

static const char *const operation_names[OPERATIONS] = {"read", "write"};

static const char *const statements[OPERATIONS] = {
    [READ] = "SELECT $1::bigint, item, price, stock, name FROM browse($2::bigint) LIMIT 1",
    [WRITE] = "SELECT $1::bigint, number, stock"
              " FROM work_order($1::bigint, $2::integer, $3::integer)",
};

/* --- plan --- */

/* Our own mix: looks are four of five, as in the app role's load most of what is asked. */
static const uint32_t mix[OPERATIONS] = {[READ] = 80, [WRITE] = 20};

/* A clerk leaves after each step with this probability, as in the app role's load. Nothing carries
 * over from step to step, so a session met in its middle is like a fresh one. */
#define STEPS_MEAN 20

static bool database_plan(void *state, struct vt_rng *rng, const struct spec_load *load, bool first,
                          bool fresh, uint16_t *operation, uint32_t *argument, int64_t *gap_ns)
{
    (void)state, (void)fresh;
    if (!first && vt_rng_below(rng, STEPS_MEAN) == 0)
        return false;
    *operation = (uint16_t)vt_rng_pick(rng, mix, OPERATIONS);
    *argument = (uint32_t)vt_rng_below(rng, UINT64_C(1) << 32);
    *gap_ns = driver_draw_gap_ns(rng, load);
    return true;
}

/* --- a connection --- */

struct conn {
    unsigned tile;
    struct driver_step step;
    bool acknowledged;
    uint64_t bytes;
};

static void conn_init(void *conn, const struct driver_target *target)
{
    ((struct conn *)conn)->tile = target->tile;
}

static void conn_fini(void *conn)
{
    (void)conn;
}

static void user(const struct driver_target *target, char *name, size_t size)
{
    snprintf(name, size, "app%u", target->tile);
}

static void add(struct sql_call *call, uint32_t number)
{
    snprintf(call->values[call->nvalues++], SQL_VALUE_BYTES, "%u", number);
}

static void call(void *conn, const struct driver_step *step, struct sql_call *ret)
{
    struct conn *c = conn;
    struct app_line work;

    c->step = *step;
    c->acknowledged = false;
    c->bytes = 0;
    ret->statement = step->operation;
    ret->nvalues = 0;
    add(ret, step->sequence);
    if (step->operation == READ) {
        add(ret, step->argument);
        return;
    }
    work = app_work(step->argument);
    add(ret, work.item);
    add(ret, work.quantity);
}

/* --- what an answer says --- */

/* Of the first row; "" where there is nothing. */
static const char *text_at(struct conn *c, const struct sql_rows *rows, unsigned column)
{
    const char *text = NULL;

    if (rows->nrows > 0 && column < rows->ncolumns)
        text = rows->value(rows->result, 0, column);
    c->bytes += text ? strlen(text) : 0;
    return text ? text : "";
}

/* False: it is no number as PostgreSQL writes them, or not in range. */
static bool number_at(struct conn *c, const struct sql_rows *rows, unsigned column, int64_t min,
                      int64_t max)
{
    int64_t value;

    return vt_text_parse_int(text_at(c, rows, column), min, max, &value, NULL) == 0;
}

static bool this_number_at(struct conn *c, const struct sql_rows *rows, unsigned column,
                           uint64_t value)
{
    return number_at(c, rows, column, (int64_t)value, (int64_t)value);
}

static bool judge_read(struct conn *c, const struct sql_rows *rows)
{
    uint32_t item = c->step.argument % APP_ITEMS + 1;
    char name[APP_NAME_MAX];

    app_name(c->tile, item, name);
    return rows->ncolumns == 5 && this_number_at(c, rows, 1, item) &&
           this_number_at(c, rows, 2, app_price(c->tile, item)) &&
           number_at(c, rows, 3, 0, INT64_MAX) && strcmp(text_at(c, rows, 4), name) == 0;
}

static bool judge_write(struct conn *c, const struct sql_rows *rows)
{
    struct app_line work = app_work(c->step.argument);

    return rows->ncolumns == 3 && number_at(c, rows, 1, 1, INT64_MAX) &&
           number_at(c, rows, 2, work.quantity, INT64_MAX);
}

static enum driver_verdict judge(void *conn, const struct sql_rows *rows, const char **why)
{
    struct conn *c = conn;

    if (rows->nrows != 1) {
        *why = "the answer is not one row";
        return DRIVER_WRONG;
    }
    if (!this_number_at(c, rows, 0, c->step.sequence)) {
        *why = "the row is not the one of this request";
        return DRIVER_WRONG;
    }
    if (!(c->step.operation == READ ? judge_read(c, rows) : judge_write(c, rows))) {
        *why = "the row does not say what follows from the request";
        return DRIVER_WRONG;
    }
    c->acknowledged = c->step.operation == WRITE;
    return DRIVER_DONE;
}

static uint64_t answer_bytes(const void *conn)
{
    return ((const struct conn *)conn)->bytes;
}

static bool keep(const void *conn)
{
    (void)conn;
    return true;
}

static bool acknowledges(const void *conn)
{
    return ((const struct conn *)conn)->acknowledged;
}

static const struct driver_sql sql = {
    .database = "postgres",
    .user = user,
    .statements = statements,
    .nstatements = OPERATIONS,
    .call = call,
    .judge = judge,
};

const struct driver database_driver = {
    .name = "database",
    .pooled = true,
    .port = POSTGRES_PORT,
    .operations = operation_names,
    .noperations = OPERATIONS,
    .plan = database_plan,
    .conn_bytes = sizeof(struct conn),
    .conn_init = conn_init,
    .conn_fini = conn_fini,
    .answer_bytes = answer_bytes,
    .keep = keep,
    .acknowledges = acknowledges,
    .sql = &sql,
};
