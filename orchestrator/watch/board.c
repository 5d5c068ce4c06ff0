/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/watch/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "results/qos.h"
#include "results/score.h"

#define MILLION 1000000
#define P95 950000
#define WARNINGS_AT_ONCE 16
enum { MEASURE = 2, SEGMENTS = 3 };

struct board_limit {
    const char *operation; /* NULL: the whole role */
    int64_t limit;         /* ns, bytes a second; not of errors */
    struct qos_tally tally;
    bool told;
};
struct board_role {
    const struct spec_role *spec;
    struct board_limit *limits;
    size_t nlimits;
    uint64_t intended, good;
};
struct board_tile {
    struct vt_hist response;
    int64_t first_s, last_s; /* of the segment; -1: none */
    uint64_t intended, not_good;
};

/* --- the limits of a role --- */

static void add_limit(struct board_role *role, const char *operation, enum qos_kind kind,
                      int64_t share, int64_t limit)
{
    struct board_limit *new = &role->limits[role->nlimits++];

    *new = (struct board_limit){.operation = operation, .limit = limit};
    qos_tally_init(&new->tally, kind, share, limit);
}

static void add_times(struct board_role *role, const char *operation,
                      const struct spec_limit *limits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_limit(role, operation, QOS_PERCENTILE, limits[i].percentile, limits[i].limit_ns);
}

/* The ones that results/qos.c judges by. */
static int add_limits(struct board_role *role, bool by_operation, struct vt_error *err)
{
    const struct spec_load *load = &role->spec->load;
    size_t most = SPEC_LIMITS_MAX + 1;

    if (by_operation)
        most += load->noperations * (SPEC_LIMITS_MAX + VT_COUNT(qos_rate_shares));
    role->limits = calloc(most, sizeof(*role->limits));
    if (!role->limits)
        return vt_error_no_memory(err, "limits of %s", role->spec->name);
    add_times(role, NULL, load->limits, load->nlimits);
    for (size_t i = 0; by_operation && i < load->noperations; i++) {
        const struct spec_operation *op = &load->operations[i];

        add_times(role, op->name, op->limits, op->nlimits);
        for (size_t k = 0; k < VT_COUNT(qos_rate_shares); k++)
            if (op->min_bytes_per_s[k] > 0)
                add_limit(role, op->name, QOS_RATE, qos_rate_shares[k], op->min_bytes_per_s[k]);
    }
    add_limit(role, NULL, QOS_ERRORS, MILLION - load->error_share_max, 0);
    return 0;
}

/* --- what comes in --- */

static void reset(struct watch_board *board)
{
    for (unsigned t = 0; t < board->ntiles; t++) {
        vt_hist_init(&board->tiles[t].response);
        board->tiles[t].first_s = board->tiles[t].last_s = -1;
        board->tiles[t].intended = board->tiles[t].not_good = 0;
    }
    for (unsigned i = 0; i < board->ntiles * board->nroles; i++) {
        board->roles[i].intended = board->roles[i].good = 0;
        for (size_t k = 0; k < board->roles[i].nlimits; k++) {
            struct board_limit *limit = &board->roles[i].limits[k];

            qos_tally_init(&limit->tally, limit->tally.kind, limit->tally.share, limit->limit);
        }
    }
}

static struct board_role *find_role(const struct watch_board *board, unsigned tile,
                                    const char *name)
{
    struct board_role *roles = board->roles + (size_t)(tile - 1) * board->nroles;

    for (unsigned r = 0; r < board->nroles; r++)
        if (!strcmp(roles[r].spec->name, name))
            return &roles[r];
    return NULL;
}

static void take_load(struct watch_board *board, const struct vt_event *event)
{
    const struct vt_load_second *load = event->load;
    struct board_role *role;
    struct board_tile *tile;
    int segment = 0;

    if (event->tile < 1 || event->tile > board->ntiles || !event->role || load->second < 0 ||
        load->second >= board->segment_s[SEGMENTS])
        return;
    role = find_role(board, event->tile, event->role);
    while (load->second >= board->segment_s[segment + 1])
        segment++;
    if (!role || segment < board->segment)
        return;
    if (segment > board->segment)
        reset(board);
    board->segment = segment;
    tile = &board->tiles[event->tile - 1];
    if (tile->first_s < 0 || load->second < tile->first_s)
        tile->first_s = load->second;
    if (load->second > tile->last_s)
        tile->last_s = load->second;
    tile->intended += load->intended;
    tile->not_good += load->slow + load->wrong + load->failed;
    if (load->response)
        vt_hist_merge(&tile->response, load->response);
    role->intended += load->intended;
    role->good += load->good;
    for (size_t i = 0; i < role->nlimits; i++) {
        struct board_limit *limit = &role->limits[i];

        if (!limit->operation || !strcmp(limit->operation, load->operation))
            qos_tally_add(&limit->tally, load);
    }
}

static void take(struct vt_sink *sink, const struct vt_event *event)
{
    struct watch_board *board = (struct watch_board *)sink;

    if (event->type == VT_EVENT_PHASE) {
        vt_text_copy(board->phase, sizeof(board->phase), event->phase ? event->phase : "");
        board->phase_start_ns = event->time_ns;
        board->phase_planned_ns = event->planned_ns;
    } else if (event->type == VT_EVENT_LOAD && event->load) {
        take_load(board, event);
    } else if (event->type != VT_EVENT_SAMPLE && event->level != VT_LEVEL_INFO) {
        board->warnings++;
    }
}

/* --- what goes out --- */

/* Of a role that had load. */
static int64_t role_points(const struct board_role *role, const struct board_tile *tile)
{
    const struct spec_load *load = &role->spec->load;
    int64_t seconds = tile->last_s - tile->first_s + 1;

    if (load->loop == SPEC_LOOP_OPEN)
        return score_open_role(role->good, role->intended);
    return score_closed_role(score_rate(role->good, seconds), load->divisor, NULL);
}

static int64_t tile_score(const struct board_role *roles, unsigned nroles,
                          const struct board_tile *tile)
{
    int64_t points[SPEC_ROLES_MAX], weights[SPEC_ROLES_MAX];
    size_t n = 0;

    for (unsigned r = 0; r < nroles; r++) {
        if (!roles[r].spec->scored || roles[r].intended == 0)
            continue;
        points[n] = role_points(&roles[r], tile);
        weights[n++] = roles[r].spec->load.weight;
    }
    return n > 0 ? score_hundredths(score_mean(points, weights, n), SCORE_POINT) : -1;
}

/* "3 s", "250 ms", "1.5 MB/s" */
static void print_limit(const struct board_limit *limit, char *buf, size_t size)
{
    if (limit->tally.kind == QOS_ERRORS)
        vt_text_copy(buf, size, "correct");
    else if (limit->tally.kind == QOS_RATE)
        snprintf(buf, size, "%.4g MB/s", (double)limit->limit / 1e6);
    else if (limit->limit % VT_NS_PER_S == 0 || limit->limit > 10 * VT_NS_PER_S)
        snprintf(buf, size, "%.4g s", (double)limit->limit / (double)VT_NS_PER_S);
    else
        snprintf(buf, size, "%.4g ms", (double)limit->limit / (double)VT_NS_PER_MS);
}

/* Of the requests that may miss the limit, the share that did: above 1 it is broken. */
static double spent(const struct qos_tally *tally)
{
    double allowed = (double)tally->n * (double)(MILLION - tally->share) / MILLION;
    double missed = (double)(tally->n - qos_tally_within(tally));

    return allowed > 0 ? missed / allowed : missed > 0 ? 1e9 : 0;
}

/* Percent of the requests. */
static double percent_within(const struct qos_tally *tally)
{
    return 100 * (double)qos_tally_within(tally) / (double)tally->n;
}

static double percent_wanted(const struct qos_tally *tally)
{
    return 100 * (double)tally->share / MILLION;
}

/* Of a tile that had load: what had none is undecided. */
static void describe(struct watch_tile *ret, const struct board_role *roles, unsigned nroles)
{
    static const enum watch_mark marks[] = {
        [QOS_PASS] = WATCH_OK, [QOS_UNDECIDED] = WATCH_UNDECIDED, [QOS_FAIL] = WATCH_BROKEN};
    const struct board_limit *tightest = NULL;
    const struct board_role *its_role = NULL;
    char limit[24], text[128];

    for (unsigned r = 0; r < nroles; r++) {
        for (size_t i = 0; i < roles[r].nlimits; i++) {
            const struct board_limit *l = &roles[r].limits[i];
            enum watch_mark mark = marks[qos_tally_judge(&l->tally)];

            if (mark > ret->mark)
                ret->mark = mark;
            if (l->tally.n > 0 && (!tightest || spent(&l->tally) > spent(&tightest->tally))) {
                tightest = l;
                its_role = &roles[r];
            }
        }
    }
    if (!tightest)
        return;
    print_limit(tightest, limit, sizeof(limit));
    snprintf(text, sizeof(text), "%.12s%s%.12s %s %.1f/%.4g%%", its_role->spec->name,
             tightest->operation ? " " : "", tightest->operation ? tightest->operation : "", limit,
             percent_within(&tightest->tally), percent_wanted(&tightest->tally));
    vt_text_copy(ret->tightest, sizeof(ret->tightest), text);
}

void watch_board_view(const struct watch_board *board, int64_t now_ns, struct watch_view *ret)
{
    memset(ret, 0, sizeof(*ret));
    vt_text_copy(ret->run, sizeof(ret->run), board->run);
    vt_text_copy(ret->phase, sizeof(ret->phase), board->phase);
    ret->elapsed_ns = now_ns > board->start_ns ? now_ns - board->start_ns : 0;
    ret->left_ns = -1;
    ret->warnings = board->warnings;
    if (board->phase_planned_ns > 0) {
        ret->left_ns = board->phase_start_ns + board->phase_planned_ns - now_ns;
        ret->left_ns = ret->left_ns > 0 ? ret->left_ns : 0;
    }
    if (board->segment < 0)
        return;
    for (unsigned t = 0; t < board->ntiles; t++) {
        const struct board_tile *tile = &board->tiles[t];
        const struct board_role *roles = board->roles + (size_t)t * board->nroles;
        struct watch_tile *out = &ret->tiles[ret->ntiles++];

        out->tile = t + 1;
        out->score = tile_score(roles, board->nroles, tile);
        out->p95_ns = vt_hist_quantile(&tile->response, P95);
        out->not_good = tile->not_good;
        if (tile->first_s >= 0)
            out->rate = (int64_t)(100 * tile->intended) / (tile->last_s - tile->first_s + 1);
        if (tile->intended > 0)
            describe(out, roles, board->nroles);
    }
    watch_view_sort(ret);
}

static void tell(const struct board_role *role, const struct board_limit *limit, unsigned tile,
                 void (*say)(void *ctx, const char *text), void *ctx)
{
    char text[256], what[24];

    print_limit(limit, what, sizeof(what));
    snprintf(text, sizeof(text),
             "QoS so far broken: tile %u %s%s%s: %.2f %% of %llu requests %s%s, %.4g %% are wanted",
             tile, role->spec->name, limit->operation ? " " : "",
             limit->operation ? limit->operation : "", percent_within(&limit->tally),
             (unsigned long long)limit->tally.n,
             limit->tally.kind == QOS_PERCENTILE ? "within "
             : limit->tally.kind == QOS_RATE     ? "at "
                                                 : "",
             what, percent_wanted(&limit->tally));
    say(ctx, text);
}

/* One error among a few requests is no news: errors too are told by the rule of quantiles. */
static bool is_news(const struct board_limit *limit)
{
    const struct qos_tally *tally = &limit->tally;

    return !limit->told && tally->n > 0 &&
           qos_judge(tally->n, tally->share, qos_tally_within(tally)) == QOS_FAIL;
}

void watch_board_warn(struct watch_board *board, void (*say)(void *ctx, const char *text),
                      void *ctx)
{
    unsigned said = 0;

    if (board->segment != MEASURE)
        return;
    for (unsigned i = 0; i < board->ntiles * board->nroles; i++) {
        struct board_role *role = &board->roles[i];

        for (size_t k = 0; k < role->nlimits && said < WARNINGS_AT_ONCE; k++) {
            struct board_limit *limit = &role->limits[k];

            if (!is_news(limit))
                continue;
            limit->told = true;
            said++;
            tell(role, limit, i / board->nroles + 1, say, ctx);
        }
    }
}

/* --- made and gone --- */

static int make_roles(struct watch_board *board, const struct spec *spec, struct vt_error *err)
{
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < spec->nroles; i++)
        board->nroles += spec->roles[i].driven;
    board->roles = calloc((size_t)board->ntiles * board->nroles + 1, sizeof(*board->roles));
    board->tiles = calloc(board->ntiles, sizeof(*board->tiles));
    if (!board->roles || !board->tiles)
        return vt_error_no_memory(err, "board of %u tiles", board->ntiles);
    for (unsigned t = 0; t < board->ntiles; t++) {
        for (size_t i = 0; r == 0 && i < spec->nroles; i++) {
            if (!spec->roles[i].driven)
                continue;
            board->roles[n].spec = &spec->roles[i];
            r = add_limits(&board->roles[n++], board->by_operation, err);
        }
    }
    return r;
}

int watch_board_init(struct watch_board *board, const struct spec *spec,
                     const struct spec_preset *preset, unsigned tiles, struct vt_error *err)
{
    int r;

    *board = (struct watch_board){.sink = {.take = take},
                                  .start_ns = vt_clock_now_ns(),
                                  .segment = -1,
                                  .by_operation = preset->limits_by_operation,
                                  .ntiles = tiles};
    board->segment_s[1] = preset->ramp_ns / VT_NS_PER_S;
    board->segment_s[2] = board->segment_s[1] + preset->warm_ns / VT_NS_PER_S;
    board->segment_s[3] = board->segment_s[2] + preset->measure_ns / VT_NS_PER_S;
    r = make_roles(board, spec, err);
    if (r < 0)
        watch_board_dispose(board);
    else
        reset(board);
    return r;
}

void watch_board_dispose(struct watch_board *board)
{
    for (size_t i = 0; board->roles && i < (size_t)board->ntiles * board->nroles; i++)
        free(board->roles[i].limits);
    free(board->roles);
    free(board->tiles);
    board->roles = NULL;
    board->tiles = NULL;
}

void watch_board_name(struct watch_board *board, const char *run)
{
    vt_text_copy(board->run, sizeof(board->run), run);
}
