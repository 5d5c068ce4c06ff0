/* SPDX-License-Identifier: Apache-2.0 */
/* summary: what stands at the top: verdict, QoS, score; what failed first and why; the tiles. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "results/report/html.h"
#include "results/report/parts.h"
#include "results/score.h"

#define BREACHES_SHOWN 5
#define CAUSES_SHOWN 8
#define KINDS_SHOWN 10

/* --- head --- */

static void put_fact(const struct report *report, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    vt_buf_adds(report->out, "<span>");
    html_text(report->out, name, HTML_CELL_MAX);
    vt_buf_adds(report->out, " <b>");
    html_text(report->out, value, 120);
    vt_buf_adds(report->out, "</b></span> ");
}

static void put_reason(const struct report *report, const struct verdict_reason *reason,
                       size_t alike)
{
    vt_buf_printf(report->out, "<li>%s <code>", verdict_grade_name(reason->grade));
    html_text(report->out, reason->code, HTML_CELL_MAX);
    vt_buf_adds(report->out, "</code> ");
    html_text(report->out, reason->text, HTML_CELL_MAX);
    if (alike > 0)
        vt_buf_printf(report->out, " (and %zu more of this kind)", alike);
    vt_buf_adds(report->out, "</li>\n");
}

static bool is_alike(const struct verdict_reason *a, const struct verdict_reason *b)
{
    return a->grade == b->grade && !strcmp(a->code, b->code);
}

/* Many tiles give many reasons alike: each kind is told once. Returns whether any were left out. */
static bool put_kinds(const struct report *report)
{
    const struct verdict *verdict = &report->result.verdict;
    size_t shown = 0, left = verdict->more;
    bool folded = false;

    vt_buf_adds(report->out, "<ul>");
    for (int grade = VERDICT_INVALID; grade > VERDICT_VALID; grade--) {
        for (size_t i = 0; i < verdict->nreasons; i++) {
            const struct verdict_reason *reason = &verdict->reasons[i];
            size_t alike = 0, before = 0;
            for (size_t k = 0; k < verdict->nreasons; k++) {
                bool is = is_alike(reason, &verdict->reasons[k]);
                before += is && k < i;
                alike += is && k > i;
            }
            if ((int)reason->grade != grade || before > 0)
                continue;
            folded |= alike > 0;
            if (shown++ < KINDS_SHOWN)
                put_reason(report, reason, alike);
            else
                left += 1 + alike;
        }
    }
    if (left > 0)
        vt_buf_printf(report->out, "<li>and %zu more</li>", left);
    vt_buf_adds(report->out, "</ul>");
    return folded || left > 0;
}

static void put_all_reasons(const struct report *report)
{
    const struct verdict *verdict = &report->result.verdict;

    vt_buf_printf(report->out, "<details><summary>All %zu reasons</summary><ul>\n",
                  verdict->nreasons + verdict->more);
    for (size_t i = 0; i < verdict->nreasons; i++)
        put_reason(report, &verdict->reasons[i], 0);
    if (verdict->more > 0)
        vt_buf_printf(report->out, "<li>and %zu more</li>", verdict->more);
    vt_buf_adds(report->out, "</ul></details>\n");
}

static void put_score(const struct report *report)
{
    const struct score *score = &report->result.score;
    struct vt_buf *out = report->out;

    vt_buf_adds(out, "<div class=\"card\"><h2>Score</h2><p class=\"big\">");
    score_print_points(score->total, out);
    vt_buf_adds(out, "</p><p>" RESULT_METRIC);
    vt_buf_printf(out, "; %zu tile%s, at most 100 each", score->ntiles,
                  score->ntiles == 1 ? "" : "s");
    if (score->ntiles > 1) {
        vt_buf_printf(out, "; worst: <a href=\"#tile-%u\">tile %u</a> with ",
                      score->tiles[score->worst].tile, score->tiles[score->worst].tile);
        score_print_points(score->tiles[score->worst].points, out);
    }
    vt_buf_printf(out, "; loop %s</p></div>\n",
                  score->loop == VT_RECORD_LOOP_OPEN
                      ? "open"
                      : (score->loop == VT_RECORD_LOOP_CLOSED ? "closed" : "mixed or none"));
}

static void put_qos(const struct report *report)
{
    const struct qos *qos = &report->result.qos;
    size_t counts[3] = {0};

    for (size_t i = 0; i < qos->nlines; i++)
        counts[qos->lines[i].state]++;
    vt_buf_printf(report->out, "<div class=\"card q%d\"><h2>QoS</h2><p class=\"big\">",
                  (int)qos->state);
    report_put_state(report, qos->state);
    vt_buf_printf(report->out,
                  "</p><p>%zu limit%s: %zu passed, %zu failed, %zu undecided (too few requests to"
                  " tell)</p></div>\n",
                  qos->nlines, qos->nlines == 1 ? "" : "s", counts[QOS_PASS], counts[QOS_FAIL],
                  counts[QOS_UNDECIDED]);
}

void report_head(const struct report *report)
{
    const char *grade = verdict_grade_name(report->result.verdict.grade);
    bool folded;

    vt_buf_adds(report->out, "<header><h1>vtile run ");
    html_text(report->out, report->result.run, HTML_CELL_MAX);
    vt_buf_adds(report->out, "</h1><p class=\"facts\">");
    put_fact(report, "spec", report->result.spec);
    put_fact(report, "preset", report->result.preset);
    put_fact(report, "load", report_meta(report, RECORD_META_LOAD));
    put_fact(report, "tiles", report_meta(report, RECORD_META_TILES));
    put_fact(report, "host", report_meta(report, RECORD_META_HOST));
    put_fact(report, "CPUs by", report_meta(report, RECORD_META_ACCEL));
    put_fact(report, "started", report->result.wall_start);
    vt_buf_printf(report->out,
                  "</p></header>\n<div class=\"cards\"><div class=\"card v%s\"><h2>Verdict</h2>"
                  "<p class=\"big\">%s</p>",
                  grade, grade);
    folded = put_kinds(report);
    vt_buf_adds(report->out, "</div>\n");
    put_qos(report);
    put_score(report);
    vt_buf_adds(report->out, "</div>\n");
    if (folded)
        put_all_reasons(report);
}

/* --- what failed first, and why --- */

static void put_beyond(const struct report *report, const struct qos_line *line)
{
    struct vt_buf *out = report->out;

    vt_buf_printf(out, "%" PRIu64 " of %" PRIu64 " requests ", line->beyond, line->n);
    if (line->kind == QOS_ERRORS) {
        vt_buf_adds(out, "were wrong or failed");
    } else {
        vt_buf_adds(out, line->kind == QOS_RATE ? "were slower than " : "took longer than ");
        report_put_limit_value(report, line, line->limit);
        vt_buf_adds(out, ", were wrong or failed");
    }
    vt_buf_printf(out, " (%" PRIu64 " failed, %" PRIu64 " wrong)", line->failed, line->wrong);
}

/* Seconds since T0, and where in the measure window that is. */
static void put_second(const struct report *report, int64_t second)
{
    vt_buf_printf(report->out, "second %" PRId64 " (%" PRId64 " s into the measure window)", second,
                  second - report->samples.axis.from_s);
}

static void put_breach(const struct report *report, const struct breach *breach)
{
    struct vt_buf *out = report->out;

    vt_buf_printf(out, "<a href=\"#tile-%u\">", breach->line.tile);
    report_put_limit_name(report, &breach->line);
    vt_buf_adds(out, "</a>: ");
    put_beyond(report, &breach->line);
    vt_buf_printf(out, ", %" PRIu64 " may.", breach->allowed);
    if (breach->began_s >= 0) {
        vt_buf_adds(out, " Broken from ");
        put_second(report, breach->began_s);
        vt_buf_adds(out, " on.");
    }
    if (breach->spent_s >= 0) {
        vt_buf_adds(out, " Could not pass any more after ");
        put_second(report, breach->spent_s);
        vt_buf_adds(out, ".");
    }
}

static void put_totals(const struct report *report, const struct vt_record_totals *totals)
{
    struct vt_buf *out = report->out;

    if (totals->failed + totals->wrong + totals->connections_failed == 0)
        return;
    vt_buf_adds(out, "<p>In the whole load of ");
    html_text(out, totals->role, HTML_CELL_MAX);
    vt_buf_printf(out,
                  ", tile %u, ramp and warm-up too: %" PRIu64 " requests failed, %" PRIu64
                  " were wrong, %" PRIu64 " connections failed.",
                  totals->tile, totals->failed, totals->wrong, totals->connections_failed);
    if (*totals->first_failure) {
        vt_buf_adds(out, " The first failure: <code>");
        html_text(out, totals->first_failure, HTML_CELL_MAX);
        vt_buf_adds(out, "</code>");
    }
    vt_buf_adds(out, "</p>\n");
}

static void put_list(const struct report *report, size_t from, size_t to)
{
    vt_buf_adds(report->out, "<ul>");
    for (size_t i = from; i < to; i++) {
        vt_buf_adds(report->out, "<li>");
        put_breach(report, &report->breaches.all[i]);
        vt_buf_adds(report->out, "</li>");
    }
    vt_buf_adds(report->out, "</ul>\n");
}

static void put_breaches(const struct report *report)
{
    const struct breaches *breaches = &report->breaches;
    size_t shown = breaches->n < BREACHES_SHOWN ? breaches->n : BREACHES_SHOWN;
    size_t first = breaches->first < shown ? breaches->first : shown;

    vt_buf_adds(report->out, "<p class=\"first\"><b>First to fail:</b> ");
    if (breaches->first > 1) {
        vt_buf_printf(report->out, "%zu limits in the same second, none before the others:</p>",
                      breaches->first);
        put_list(report, 0, first);
    } else {
        put_breach(report, &breaches->all[0]);
        vt_buf_adds(report->out, "</p>\n");
    }
    if (first < shown) {
        vt_buf_adds(report->out, "<p>Then:</p>");
        put_list(report, first, shown);
    }
    if (breaches->n + breaches->more > shown)
        vt_buf_printf(report->out, "<p class=\"note\">and %zu more, below</p>\n",
                      breaches->n + breaches->more - shown);
}

/* Totals are of the whole load, and of a role: one line for each that broke a limit. */
static int put_failures(const struct report *report)
{
    const struct breaches *breaches = &report->breaches;
    size_t shown = breaches->n < BREACHES_SHOWN ? breaches->n : BREACHES_SHOWN;

    for (size_t i = 0; i < shown; i++) {
        const struct qos_line *line = &breaches->all[i].line;
        struct vt_record_totals totals;
        bool again = false;
        int r;
        for (size_t k = 0; k < i; k++)
            again |= line->tile == breaches->all[k].line.tile &&
                     !strcmp(line->role, breaches->all[k].line.role);
        if (again)
            continue;
        r = record_read_totals(report->reader, line->tile, line->role, &totals, report->err);
        if (r == -ENOENT)
            continue;
        if (r < 0)
            return r;
        put_totals(report, &totals);
    }
    return 0;
}

/* Against the first breach: a cause that came after it explains less. Load stands in the second in
 * which it was due, so a job of a long window may have failed long after that. */
static void put_when(const struct report *report, const struct cause *cause)
{
    const struct breaches *breaches = &report->breaches;
    int64_t broke = breaches->n ? breaches->all[0].began_s : -1;

    if (cause->first_s < 0)
        return;
    vt_buf_adds(report->out, "; first at ");
    put_second(report, cause->first_s);
    if (broke >= 0)
        vt_buf_printf(report->out, ", %s",
                      cause->first_s <= broke ? "before the first limit was broken"
                                              : "after what first broke a limit was due");
}

static void put_causes(const struct report *report)
{
    const struct causes *causes = &report->causes;
    size_t shown = causes->n < CAUSES_SHOWN ? causes->n : CAUSES_SHOWN;

    if (causes->n == 0) {
        vt_buf_adds(report->out,
                    "<p>No evident cause stands in the samples: no machine was out of memory or"
                    " CPU, and the load generator was in time.</p>\n");
        return;
    }
    vt_buf_adds(report->out, report->breaches.n
                                 ? "<p><b>What stood in the way</b>, as far as the samples show it:"
                                 : "<p><b>Scarce all the same</b>, as the samples show:");
    vt_buf_adds(report->out, "</p><ul class=\"causes\">");
    for (size_t i = 0; i < shown; i++) {
        const struct cause *cause = &causes->all[i];
        vt_buf_printf(report->out, "<li><code>%s</code> ", cause_code_name(cause->code));
        html_text(report->out, cause->text, HTML_CELL_MAX);
        put_when(report, cause);
        vt_buf_adds(report->out, ".</li>");
    }
    if (causes->n + causes->more > shown)
        vt_buf_printf(report->out, "<li>and %zu more of the kind</li>",
                      causes->n + causes->more - shown);
    vt_buf_adds(report->out, "</ul>\n");
}

static void put_ending(const struct report *report)
{
    const char *ended = report_meta(report, RECORD_META_ENDED);

    if (ended && !strcmp(ended, "complete"))
        return;
    vt_buf_adds(report->out, "<p class=\"first\"><b>The run did not come to its end:</b> ");
    html_text(report->out, ended ? ended : "the record does not say how it ended", HTML_CELL_MAX);
    vt_buf_adds(report->out, "</p>\n");
}

static const char *undecided_because(const struct report *report)
{
    const char *ended = report_meta(report, RECORD_META_ENDED);

    if (ended && !strcmp(ended, "complete"))
        return "they need more requests, so a longer preset or more load";
    if (ended && !strcmp(ended, "interrupted"))
        return "the run was interrupted before there were enough requests";
    return "the run did not come to its end, so there were not enough requests";
}

int report_explain(const struct report *report)
{
    const struct qos *qos = &report->result.qos;
    int r = 0;

    vt_buf_adds(report->out, "<section><h2>What happened</h2>\n");
    put_ending(report);
    if (report->breaches.n > 0) {
        put_breaches(report);
        r = put_failures(report);
        put_causes(report);
    } else if (qos->nlines == 0) {
        vt_buf_adds(report->out, "<p>No limit could be judged.</p>\n");
    } else {
        if (qos->state == QOS_PASS)
            vt_buf_adds(report->out, "<p>Every limit was kept.</p>\n");
        else
            vt_buf_printf(report->out,
                          "<p>No limit was broken, but some could not be decided: %s.</p>\n",
                          undecided_because(report));
        if (report->causes.n > 0)
            put_causes(report);
    }
    vt_buf_adds(report->out, "</section>\n");
    return r;
}

/* --- grid --- */

void report_grid(const struct report *report)
{
    const struct score *score = &report->result.score;
    struct vt_buf *out = report->out;

    if (score->ntiles == 0)
        return;
    vt_buf_adds(out, "<section><h2>Tiles</h2><ol class=\"grid\">\n");
    for (size_t i = 0; i < score->ntiles; i++) {
        const struct score_tile *tile = &score->tiles[i];
        enum qos_state state = report_tile_state(report, tile->tile);
        vt_buf_printf(out, "<li class=\"q%d\"><a href=\"#tile-%u\"><b>%u</b> ", (int)state,
                      tile->tile, tile->tile);
        report_put_state(report, state);
        vt_buf_adds(out, "<span class=\"pts\">");
        score_print_points(tile->points, out);
        vt_buf_adds(out, "</span></a></li>\n");
    }
    vt_buf_adds(out, "</ol></section>\n");
}
