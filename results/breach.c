/* SPDX-License-Identifier: Apache-2.0 */
#include "results/breach.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MILLION 1000000

uint64_t breach_allowed(const struct qos_line *line, uint64_t n)
{
    return qos_allowed(n, line->kind == QOS_ERRORS ? MILLION - line->limit : line->percentile);
}

struct walk {
    struct breach *first; /* of one role */
    size_t n;
};

static void follow(struct breach *breach, int64_t second, const struct record_sum *sum)
{
    const struct qos_line *line = &breach->line;
    struct qos_tally tally;
    uint64_t beyond;

    qos_tally_init(&tally, line->kind, line->percentile, line->limit);
    for (size_t i = 0; i < sum->noperations; i++) {
        const struct record_sum_operation *op = &sum->operations[i];
        if (!*line->operation || !strcmp(line->operation, op->name))
            qos_tally_add_sum(&tally, op);
    }
    beyond = tally.n - qos_tally_within(&tally);
    if (beyond <= breach_allowed(line, tally.n))
        breach->began_s = -1;
    else if (breach->began_s < 0)
        breach->began_s = second;
    if (breach->spent_s < 0 && beyond > breach->allowed)
        breach->spent_s = second;
}

static int on_second(void *ctx, int64_t second, struct record_sum *sum)
{
    const struct walk *walk = ctx;

    for (size_t i = 0; i < walk->n; i++)
        follow(&walk->first[i], second, sum);
    return 0;
}

static bool same_role(const struct qos_line *a, const struct qos_line *b)
{
    return a->tile == b->tile && !strcmp(a->role, b->role);
}

/* Lines of a role stand together, as QoS has them. */
static int follow_role(struct record_reader *reader, struct walk *walk, struct vt_error *err)
{
    const struct qos_line *line = &walk->first->line;
    struct vt_record_schedule schedule;
    int r = record_read_schedule(reader, line->tile, line->role, &schedule, err);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    return record_walk_load(reader, line->tile, line->role, schedule.from_s, schedule.to_s, 1,
                            on_second, walk, err);
}

/* -1, never, comes last. */
static int compare_seconds(int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;

    return (x > y) - (x < y);
}

static int compare(const void *a, const void *b)
{
    const struct breach *x = a, *y = b;
    int order = compare_seconds(x->spent_s, y->spent_s);

    if (order == 0)
        order = compare_seconds(x->began_s, y->began_s);
    /* Then as QoS has them, which is by tile. */
    if (order == 0)
        order = (int)x->line.tile - (int)y->line.tile;
    if (order == 0)
        order = strcmp(x->line.role, y->line.role);
    if (order == 0)
        order = (int)x->line.kind - (int)y->line.kind;
    if (order == 0)
        order = strcmp(x->line.operation, y->line.operation);
    if (order == 0)
        order =
            (x->line.percentile > y->line.percentile) - (x->line.percentile < y->line.percentile);
    return order;
}

static size_t count_first(const struct breaches *breaches)
{
    const struct breach *all = breaches->all;
    size_t n = 0;

    while (n < breaches->n && all[n].spent_s == all[0].spent_s && all[n].began_s == all[0].began_s)
        n++;
    return n;
}

int breach_find(struct record_reader *reader, const struct qos *qos, struct breaches *ret,
                struct vt_error *err)
{
    int r = 0;

    ret->all = calloc(BREACH_MAX, sizeof(*ret->all));
    if (!ret->all)
        return vt_error_no_memory(err, "find what failed first");
    for (size_t i = 0; i < qos->nlines; i++) {
        const struct qos_line *line = &qos->lines[i];
        if (line->state != QOS_FAIL)
            continue;
        if (ret->n == BREACH_MAX) {
            ret->more++;
            continue;
        }
        ret->all[ret->n++] = (struct breach){*line, breach_allowed(line, line->n), -1, -1};
    }
    for (size_t i = 0; r == 0 && i < ret->n;) {
        struct walk walk = {&ret->all[i], 1};
        while (i + walk.n < ret->n && same_role(&walk.first->line, &ret->all[i + walk.n].line))
            walk.n++;
        r = follow_role(reader, &walk, err);
        i += walk.n;
    }
    if (r == 0 && ret->n > 1)
        qsort(ret->all, ret->n, sizeof(*ret->all), compare);
    ret->first = count_first(ret);
    return r;
}

void breach_dispose(struct breaches *breaches)
{
    free(breaches->all);
    *breaches = (struct breaches){0};
}
