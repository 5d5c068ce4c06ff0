/* SPDX-License-Identifier: Apache-2.0 */
#include "results/score.h"

#include <inttypes.h>
#include <stdlib.h>

#include "results/qos.h"

#define MILLION 1000000
#define FULL (100 * SCORE_POINT)

/* a * b / c, half up; c > 0, none negative. */
static int64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
    unsigned __int128 q = ((unsigned __int128)a * b + c / 2) / c;

    return q > INT64_MAX ? INT64_MAX : (int64_t)q;
}

int64_t score_open_role(uint64_t good, uint64_t intended)
{
    return scale(good, FULL, intended);
}

int64_t score_rate(uint64_t good, int64_t seconds)
{
    return scale(good, MILLION, (uint64_t)seconds);
}

int64_t score_closed_role(int64_t achieved, int64_t divisor, bool *ret_clamped)
{
    bool clamped = achieved > divisor;
    int64_t points = 0;

    if (divisor > 0 && achieved > 0)
        points = clamped ? FULL : scale((uint64_t)achieved, FULL, (uint64_t)divisor);
    if (ret_clamped)
        *ret_clamped = divisor > 0 && clamped;
    return points;
}

/* Half up; 0 where there is no weight. */
static int64_t divide(__int128 sum, __int128 weight)
{
    return weight > 0 ? (int64_t)((sum + weight / 2) / weight) : 0;
}

int64_t score_mean(const int64_t *points, const int64_t *weights, size_t n)
{
    __int128 sum = 0, weight = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (__int128)points[i] * weights[i];
        weight += weights[i];
    }
    return divide(sum, weight);
}

int score_add_role(struct score *score, const struct vt_record_role *role,
                   const struct record_sum *sum, int64_t window_s, uint64_t due,
                   struct vt_error *err)
{
    struct score_role *grown, *new;
    const struct record_sum_operation *all = &sum->all;
    uint64_t intended = due > all->intended ? due : all->intended;

    grown = realloc(score->roles, (score->nroles + 1) * sizeof(*grown));
    if (!grown)
        return vt_error_no_memory(err, "score");
    score->roles = grown;
    new = &grown[score->nroles];
    *new = (struct score_role){.tile = role->tile,
                               .scored = role->scored,
                               .weight = role->weight,
                               .good = all->good,
                               .intended = intended};
    vt_text_copy(new->role, sizeof(new->role), role->role);
    new->p95_ns = qos_percentile(all, 950000);
    if (role->loop == VT_RECORD_LOOP_CLOSED) {
        if (window_s > 0)
            new->rate = score_rate(all->good, window_s);
        new->points = score_closed_role(new->rate, role->divisor, &new->clamped);
    } else if (intended) {
        new->points = score_open_role(all->good, intended);
        new->rate = scale(all->good, (uint64_t)role->divisor, intended);
    }
    /* Loops of two kinds have no common score; -1 says so. */
    if (!score->nroles)
        score->loop = role->loop;
    else if (score->loop != role->loop)
        score->loop = -1;
    score->nroles++;
    return 0;
}

/* Sums are exact: a role's points and weight are below 2^37 and 2^30, a record's roles 2^12. */
static void finish_tile(const struct score *score, struct score_tile *tile)
{
    __int128 sum = 0, weight = 0;

    for (size_t i = tile->first; i < tile->first + tile->n; i++) {
        if (!score->roles[i].scored)
            continue;
        sum += (__int128)score->roles[i].points * score->roles[i].weight;
        weight += score->roles[i].weight;
    }
    tile->points = divide(sum, weight);
}

int score_finish(struct score *score, struct vt_error *err)
{
    if (!score->nroles) {
        score->loop = -1;
        return 0;
    }
    score->tiles = calloc(score->nroles, sizeof(*score->tiles));
    if (!score->tiles)
        return vt_error_no_memory(err, "score");
    for (size_t i = 0; i < score->nroles; i++) {
        struct score_tile *last = &score->tiles[score->ntiles ? score->ntiles - 1 : 0];
        if (!score->ntiles || last->tile != score->roles[i].tile) {
            last = &score->tiles[score->ntiles++];
            last->tile = score->roles[i].tile;
            last->first = i;
        }
        last->n++;
    }
    for (size_t i = 0; i < score->ntiles; i++) {
        finish_tile(score, &score->tiles[i]);
        score->total += score->tiles[i].points;
        if (score->tiles[i].points < score->tiles[score->worst].points)
            score->worst = i;
    }
    return 0;
}

void score_dispose(struct score *score)
{
    free(score->roles);
    free(score->tiles);
    *score = (struct score){0};
}

int64_t score_hundredths(int64_t value, int64_t one)
{
    int64_t unit = one / 100;

    return value / unit + (value % unit >= unit / 2); /* value may be the largest there is */
}

static void print_hundredths(int64_t hundredths, struct vt_buf *out)
{
    vt_buf_printf(out, "%" PRId64 ".%02d", hundredths / 100, (int)(hundredths % 100));
}

void score_print_points(int64_t points, struct vt_buf *out)
{
    print_hundredths(score_hundredths(points, SCORE_POINT), out);
}

void score_print_rate(int64_t rate, struct vt_buf *out)
{
    print_hundredths(score_hundredths(rate, MILLION), out);
}
