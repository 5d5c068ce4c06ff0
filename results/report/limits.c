/* SPDX-License-Identifier: Apache-2.0 */
/* limits: QoS as tables: what was missed, and all of a tile; its roles' points. */
#include <inttypes.h>

#include "results/report/html.h"
#include "results/report/parts.h"
#include "results/score.h"

static const char *const heads[] = {
    "state",          "tile",      "role",    "operation", "limit on", "#limit", "#value",
    "#95 % interval", "#requests", "#beyond", "#failed",   "#wrong",   NULL};

static void put_kind(const struct report *report, const struct qos_line *line)
{
    vt_buf_adds(report->out, "<td>");
    if (line->kind == QOS_ERRORS)
        vt_buf_adds(report->out, "errors, at most");
    else
        vt_buf_printf(report->out, "%s of %.6g %%, at %s", line->kind == QOS_RATE ? "rate" : "time",
                      (double)line->percentile / 1e4, line->kind == QOS_RATE ? "least" : "most");
    vt_buf_adds(report->out, "</td>");
}

static void put_value(const struct report *report, const struct qos_line *line, int64_t value)
{
    vt_buf_adds(report->out, "<td class=\"n\">");
    report_put_limit_value(report, line, value);
    vt_buf_adds(report->out, "</td>");
}

/* A value that falls among the requests without an answer says how many those are at least. */
static void put_found(const struct report *report, const struct qos_line *line)
{
    if (line->kind == QOS_ERRORS || line->value != QOS_BEYOND)
        put_value(report, line, line->value);
    else
        vt_buf_printf(report->out, "<td class=\"n\">more than %.6g %% failed%s</td>",
                      (double)(1000000 - line->percentile) / 1e4,
                      line->wrong > 0 ? " or wrong" : "");
}

static void put_line(const struct report *report, const struct qos_line *line)
{
    struct vt_buf *out = report->out;

    vt_buf_adds(out, "<tr><td>");
    report_put_state(report, line->state);
    vt_buf_printf(out, "</td><td>%u</td>", line->tile);
    html_cell(out, line->role);
    html_cell(out, *line->operation ? line->operation : "all");
    put_kind(report, line);
    put_value(report, line, line->limit);
    put_found(report, line);
    vt_buf_adds(out, "<td class=\"n\">");
    if (line->kind != QOS_ERRORS) {
        report_put_limit_value(report, line, line->low);
        vt_buf_adds(out, " to ");
        report_put_limit_value(report, line, line->high);
    }
    vt_buf_adds(out, "</td>");
    html_number(out, "%" PRIu64, line->n);
    html_number(out, "%" PRIu64, line->beyond);
    html_number(out, "%" PRIu64, line->failed);
    html_number(out, "%" PRIu64, line->wrong);
    vt_buf_adds(out, "</tr>\n");
}

static void put_more(const struct report *report, size_t more)
{
    if (more > 0)
        vt_buf_printf(report->out, "<p class=\"note\">and %zu more lines</p>\n", more);
}

static void put_those(const struct report *report, enum qos_state state, const char *title)
{
    const struct qos *qos = &report->result.qos;
    size_t n = 0, more = 0;

    for (size_t i = 0; i < qos->nlines; i++) {
        if (qos->lines[i].state != state)
            continue;
        if (n == 0) {
            vt_buf_printf(report->out, "<section><h2>%s</h2>\n", title);
            html_table(report->out, "qos", heads);
        }
        if (n++ < REPORT_LINES_MAX / 10)
            put_line(report, &qos->lines[i]);
        else
            more++;
    }
    if (n == 0)
        return;
    html_table_end(report->out);
    put_more(report, more);
    vt_buf_adds(report->out, "</section>\n");
}

void report_missed(const struct report *report)
{
    put_those(report, QOS_FAIL, "Limits not met");
    put_those(report, QOS_UNDECIDED, "Limits that too few requests leave undecided");
}

static void put_points(const struct report *report, unsigned tile)
{
    static const char *const columns[] = {"role",  "#points",   "#rate /s", "#weight",
                                          "#good", "#intended", "scored",   NULL};
    const struct score *score = &report->result.score;

    html_table(report->out, "points", columns);
    for (size_t i = 0; i < score->nroles; i++) {
        const struct score_role *role = &score->roles[i];
        if (role->tile != tile)
            continue;
        vt_buf_adds(report->out, "<tr>");
        html_cell(report->out, role->role);
        vt_buf_adds(report->out, "<td class=\"n\">");
        score_print_points(role->points, report->out);
        vt_buf_adds(report->out, "</td><td class=\"n\">");
        score_print_rate(role->rate, report->out);
        vt_buf_adds(report->out, "</td>");
        html_number(report->out, "%.6g", (double)role->weight / 1e6);
        html_number(report->out, "%" PRIu64, role->good);
        html_number(report->out, "%" PRIu64, role->intended);
        html_cell(report->out, !role->scored ? "no" : (role->clamped ? "yes, at most 100" : "yes"));
        vt_buf_adds(report->out, "</tr>\n");
    }
    html_table_end(report->out);
}

void report_tile_limits(const struct report *report, unsigned tile)
{
    const struct qos *qos = &report->result.qos;
    size_t n = 0, more = 0;

    vt_buf_adds(report->out, "<h3>Points and limits</h3>\n");
    put_points(report, tile);
    html_table(report->out, "qos", heads);
    for (size_t i = 0; i < qos->nlines; i++) {
        if (qos->lines[i].tile != tile)
            continue;
        if (n++ < REPORT_LINES_MAX)
            put_line(report, &qos->lines[i]);
        else
            more++;
    }
    html_table_end(report->out);
    put_more(report, more);
}
