/* SPDX-License-Identifier: Apache-2.0 */
#include "results/record_row.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"

#define ROW_VERSION 2
#define ROW_VERSION_WITHOUT_RATES 1

static void add_leb(struct vt_buf *out, uint64_t value)
{
    uint8_t byte;

    do {
        byte = value & 0x7f;
        value >>= 7;
        if (value)
            byte |= 0x80;
        vt_buf_add(out, &byte, 1);
    } while (value);
}

void record_row_begin(struct vt_buf *row)
{
    const uint8_t version = ROW_VERSION;

    vt_buf_reset(row);
    vt_buf_add(row, &version, 1);
}

void record_row_add(struct vt_buf *row, const struct vt_load_second *second)
{
    static const struct vt_hist empty = {.min = INT64_MAX, .max = -1};
    const struct vt_hist *hists[] = {second->response, second->service, second->wake_lag,
                                     second->rate};
    size_t len = strlen(second->operation);

    add_leb(row, len);
    vt_buf_add(row, second->operation, len);
    add_leb(row, second->intended);
    add_leb(row, second->good);
    add_leb(row, second->slow);
    add_leb(row, second->wrong);
    add_leb(row, second->failed);
    add_leb(row, second->bytes);
    for (size_t i = 0; i < VT_COUNT(hists); i++)
        vt_hist_encode(hists[i] ? hists[i] : &empty, row);
}

struct cursor {
    const uint8_t *at, *end;
};

static int refuse(struct vt_error *err, const char *what)
{
    return vt_error_refuse(err, "row of load: %s", what);
}

/* Only the shortest form is accepted: one value, one encoding. */
static int take_leb(struct cursor *c, uint64_t max, uint64_t *ret, struct vt_error *err)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 63; shift += 7) {
        if (c->at == c->end)
            return refuse(err, "cut");
        uint8_t byte = *c->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (shift && !byte)
            return refuse(err, "number not in its shortest form");
        if (value > max)
            return refuse(err, "number out of range");
        *ret = value;
        return 0;
    }
    return refuse(err, "number too long");
}

bool record_name_ok(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
            return false;
    }
    return len > 0 && len < VT_RECORD_NAME_MAX;
}

/* Finds the operation, or makes it. *ret_index is also the caller's guard against doubles. */
static int find_operation(struct record_sum *sum, const uint8_t *name, size_t len,
                          size_t *ret_index, struct vt_error *err)
{
    struct record_sum_operation *grown, *op;

    for (size_t i = 0; i < sum->noperations; i++) {
        op = &sum->operations[i];
        if (strlen(op->name) == len && !memcmp(op->name, name, len)) {
            *ret_index = i;
            return 0;
        }
    }
    if (sum->noperations == VT_RECORD_OPERATIONS_MAX)
        return refuse(err, "too many operations");
    grown = realloc(sum->operations, (sum->noperations + 1) * sizeof(*grown));
    if (!grown)
        return vt_error_no_memory(err, "sum up load");
    sum->operations = grown;
    op = &grown[sum->noperations];
    memset(op, 0, sizeof(*op));
    memcpy(op->name, name, len);
    vt_hist_init(&op->response);
    vt_hist_init(&op->service);
    vt_hist_init(&op->wake_lag);
    vt_hist_init(&op->rate);
    *ret_index = sum->noperations++;
    return 0;
}

static int take_counts(struct cursor *c, struct record_sum_operation *op, struct vt_error *err)
{
    uint64_t *counts[] = {&op->intended, &op->good, &op->slow, &op->wrong, &op->failed, &op->bytes};
    uint64_t value[6];
    int r;

    for (size_t i = 0; i < 6; i++) {
        r = take_leb(c, RECORD_COUNT_MAX, &value[i], err);
        if (r < 0)
            return r;
    }
    if (value[1] + value[2] + value[3] + value[4] > value[0])
        return refuse(err, "more requests ended than were intended");
    for (size_t i = 0; i < 6; i++)
        *counts[i] += value[i];
    return 0;
}

static int take_hist(struct cursor *c, struct vt_hist *hist, struct vt_error *err)
{
    size_t used = 0;
    int r = vt_hist_decode_add(hist, c->at, (size_t)(c->end - c->at), &used, err);

    if (r < 0) {
        vt_error_wrap(err, "row of load");
        return r;
    }
    c->at += used;
    if (hist->count >> 62)
        return refuse(err, "histogram counts too much");
    return 0;
}

static int take_operation(struct cursor *c, struct record_sum_operation *op, bool has_rates,
                          struct vt_error *err)
{
    struct vt_hist *hists[] = {&op->response, &op->service, &op->wake_lag, &op->rate};
    uint64_t correct = op->good + op->slow, rates = op->rate.count;
    int r = take_counts(c, op, err);

    for (size_t i = 0; r == 0 && i < VT_COUNT(hists) - !has_rates; i++)
        r = take_hist(c, hists[i], err);
    if (r < 0)
        return r;
    correct = op->good + op->slow - correct;
    rates = op->rate.count - rates;
    return rates == 0 || rates == correct
               ? 0
               : refuse(err, "neither no rates nor one of each correct answer");
}

int record_row_sum(const void *data, size_t len, struct record_sum *sum, struct vt_error *err)
{
    struct cursor c = {data, (const uint8_t *)data + len};
    uint64_t name_len;
    uint32_t seen = 0;
    size_t index = 0;
    int r;

    if (len < 1 || *c.at++ != (sum->has_rates ? ROW_VERSION : ROW_VERSION_WITHOUT_RATES))
        return refuse(err, "unknown version");
    while (c.at < c.end) {
        r = take_leb(&c, VT_RECORD_NAME_MAX - 1, &name_len, err);
        if (r < 0)
            return r;
        if (name_len > (size_t)(c.end - c.at) || !record_name_ok((const char *)c.at, name_len))
            return refuse(err, "operation's name");
        r = find_operation(sum, c.at, name_len, &index, err);
        if (r < 0)
            return r;
        c.at += name_len;
        if (seen & 1U << index)
            return refuse(err, "operation twice");
        seen |= 1U << index;
        r = take_operation(&c, &sum->operations[index], sum->has_rates, err);
        if (r < 0)
            return r;
    }
    sum->seconds++;
    return 0;
}
