/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of a tile, from its seconds, and QoS, from their sum as the record has it, agree: also
 * where answers lie in the very bucket of a limit, and where requests are too few. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/rng.h"
#include "base/scope.h"
#include "orchestrator/watch/board.h"
#include "results/qos.h"

#define LIMIT_NS (100 * VT_NS_PER_MS)
#define LIMIT_RATE 1500000

static const char *const operations[] = {"first", "second"};
static const struct spec_preset preset = {.measure_ns = 100 * VT_NS_PER_S,
                                          .limits_by_operation = true};

/* One role: half of its answers within a limit of its own; of each operation 95 % in time and 99 %
 * as fast. The record's role is filled by hand: both must come to the same. */
static struct spec *make_spec(struct vt_record_role *ret)
{
    struct spec *spec = calloc(1, sizeof(*spec));
    struct spec_role *web = &spec->roles[0];

    assert_non_null(spec);
    spec->nroles = 1;
    vt_text_copy(web->name, sizeof(web->name), "web");
    web->driven = true;
    web->load = (struct spec_load){.error_share_max = 10000,
                                   .limits = {{500000, LIMIT_NS}},
                                   .nlimits = 1,
                                   .noperations = VT_COUNT(operations)};
    *ret = (struct vt_record_role){.tile = 1,
                                   .role = "web",
                                   .driven = true,
                                   .error_share_max = 10000,
                                   .limits = {{500000, LIMIT_NS}},
                                   .nlimits = 1,
                                   .noperations = VT_COUNT(operations)};
    for (size_t i = 0; i < VT_COUNT(operations); i++) {
        struct spec_operation *op = &web->load.operations[i];
        struct vt_record_operation *row = &ret->operations[i];

        vt_text_copy(op->name, sizeof(op->name), operations[i]);
        op->limits[0] = (struct spec_limit){950000, LIMIT_NS};
        op->min_bytes_per_s[1] = LIMIT_RATE;
        vt_text_copy(row->name, sizeof(row->name), operations[i]);
        row->limits[0] = (struct vt_record_limit){950000, LIMIT_NS};
        row->min_bytes_per_s[1] = LIMIT_RATE;
        op->nlimits = row->nlimits = 1;
    }
    return spec;
}

static struct record_sum *new_sum(void)
{
    struct record_sum *sum = calloc(1, sizeof(*sum));

    assert_non_null(sum);
    sum->has_rates = true;
    sum->noperations = VT_COUNT(operations);
    sum->operations = calloc(sum->noperations, sizeof(*sum->operations));
    assert_non_null(sum->operations);
    vt_hist_init(&sum->all.response);
    vt_hist_init(&sum->all.rate);
    for (size_t i = 0; i < sum->noperations; i++) {
        vt_text_copy(sum->operations[i].name, VT_RECORD_NAME_MAX, operations[i]);
        vt_hist_init(&sum->operations[i].response);
        vt_hist_init(&sum->operations[i].rate);
    }
    return sum;
}

static void add(struct record_sum_operation *sum, const struct vt_load_second *load)
{
    sum->intended += load->intended;
    sum->good += load->good;
    sum->failed += load->failed;
    vt_hist_merge(&sum->response, load->response);
    vt_hist_merge(&sum->rate, load->rate);
}

/* How answers of one round lie: far within a limit, or in its bucket and those beside it. */
struct odds {
    uint64_t most;   /* answers a second and operation */
    uint64_t near;   /* of 100, near the limit */
    uint64_t width;  /* of what is near */
    uint64_t failed; /* of 1000 */
};

static void draw_second(struct vt_rng *rng, const struct odds *odds, struct vt_load_second *load,
                        struct vt_hist *response, struct vt_hist *rate)
{
    vt_hist_init(response);
    vt_hist_init(rate);
    load->intended = vt_rng_below(rng, odds->most + 1);
    load->good = load->failed = 0;
    for (uint64_t i = 0; i < load->intended; i++) {
        bool near = vt_rng_below(rng, 100) < odds->near;
        int64_t by = (int64_t)vt_rng_below(rng, odds->width) - (int64_t)(odds->width / 2);

        if (vt_rng_below(rng, 1000) < odds->failed) {
            load->failed++;
            continue;
        }
        load->good++;
        vt_hist_record(response, near ? LIMIT_NS + by * 64 : LIMIT_NS / 10);
        near = near && vt_rng_below(rng, 5) == 0; /* a fifth of the misses that times may have */
        vt_hist_record(rate, near ? LIMIT_RATE + by : LIMIT_RATE * 10);
    }
    load->response = response;
    load->rate = rate;
}

struct both {
    enum watch_mark mark;
    enum qos_state state;
    uint64_t n;
};

static struct both judge(struct vt_rng *rng, const struct odds *odds)
{
    struct vt_record_role role;
    VT_AUTO_FREE struct spec *spec = make_spec(&role);
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    VT_AUTO_FREE struct vt_hist *hists = calloc(2, sizeof(*hists));
    struct record_sum *sum = new_sum();
    struct watch_board board;
    struct qos qos = {0};
    struct both ret;

    assert_non_null(view);
    assert_non_null(hists);
    assert_int_equal(watch_board_init(&board, spec, &preset, 1, NULL), 0);
    for (int64_t second = 0; second < 6; second++) {
        for (size_t i = 0; i < VT_COUNT(operations); i++) {
            struct vt_load_second load = {.operation = operations[i], .second = second};
            const struct vt_event event = {
                .type = VT_EVENT_LOAD, .tile = 1, .role = "web", .load = &load};

            draw_second(rng, odds, &load, &hists[0], &hists[1]);
            add(&sum->all, &load);
            add(&sum->operations[i], &load);
            board.sink.take(&board.sink, &event);
        }
    }
    watch_board_view(&board, board.start_ns, view);
    assert_int_equal(view->ntiles, 1);
    assert_int_equal(qos_add_role(&qos, &role, sum, true, NULL), 0);
    ret = (struct both){view->tiles[0].mark, qos.state, sum->all.intended};
    qos_dispose(&qos);
    watch_board_dispose(&board);
    record_sum_dispose(sum);
    free(sum);
    return ret;
}

static void the_mark_is_what_qos_comes_to(void **state)
{
    static const struct odds kinds[] = {
        {1, 0, 1, 0},        {8, 10, 100, 30},     {200, 0, 1, 0},
        {200, 10, 16000, 0}, {200, 100, 16000, 0}, {200, 100, 8000, 0},
        {200, 10, 16000, 5}, {200, 1, 1, 10},      {3, 100, 9000, 0},
    };
    static const enum watch_mark marks[] = {WATCH_OK, WATCH_UNDECIDED, WATCH_BROKEN};
    unsigned seen[VT_COUNT(marks)] = {0};
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 1, "watch", 0);
    for (unsigned round = 0; round < 1000; round++) {
        const struct odds *odds = &kinds[round % VT_COUNT(kinds)];
        struct both both = judge(&rng, odds);

        if (both.n == 0) {
            assert_int_equal(both.mark, WATCH_UNJUDGED);
            assert_int_equal(both.state, QOS_UNDECIDED);
            continue;
        }
        if (both.mark != marks[both.state])
            fail_msg("round %u: mark %d, QoS %s", round, (int)both.mark,
                     qos_state_name(both.state));
        seen[both.state]++;
    }
    for (size_t i = 0; i < VT_COUNT(seen); i++)
        assert_true(seen[i] > 20);
}

static void count(void *ctx, const char *text)
{
    (void)text;
    ++*(unsigned *)ctx;
}

/* 1 of 20 is more than the 1 % that may fail: so says the mark. That it stays so nobody knows
 * yet: no warning. 20 of 20 will not mend. */
static void an_error_among_a_few_is_no_news(void **state)
{
    struct vt_record_role role;
    VT_AUTO_FREE struct spec *spec = make_spec(&role);
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    struct vt_load_second load = {.operation = "third", .intended = 20, .good = 19, .failed = 1};
    const struct vt_event event = {.type = VT_EVENT_LOAD, .tile = 1, .role = "web", .load = &load};
    struct watch_board board;
    unsigned said = 0;

    (void)state;
    assert_non_null(view);
    spec->roles[0].load.nlimits = 0;
    assert_int_equal(watch_board_init(&board, spec, &preset, 1, NULL), 0);
    board.sink.take(&board.sink, &event);
    watch_board_view(&board, board.start_ns, view);
    assert_int_equal(view->tiles[0].mark, WATCH_BROKEN);
    watch_board_warn(&board, count, &said);
    assert_int_equal(said, 0);
    load.good = 0;
    load.failed = 20;
    board.sink.take(&board.sink, &event);
    watch_board_warn(&board, count, &said);
    assert_int_equal(said, 1);
    watch_board_dispose(&board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mark_is_what_qos_comes_to),
        cmocka_unit_test(an_error_among_a_few_is_no_news),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
