/* SPDX-License-Identifier: Apache-2.0 */
/* load: response times and rates of each driven role of a tile over time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "results/report/parts.h"

#define NPERCENTILES 3
/* A bin shall hold so many requests that its p95 is not its slowest one, but a line shall have so
 * many points that its course is seen. */
#define BIN_REQUESTS 40
#define POINTS_MIN 14

static const int64_t percentiles[NPERCENTILES] = {500000, 950000, 990000};

/* One role's lines, a value a bin. */
struct course {
    float percentile[NPERCENTILES][SAMPLES_BINS_MAX]; /* s; infinite: among failed requests */
    float offered[SAMPLES_BINS_MAX], good[SAMPLES_BINS_MAX], bad[SAMPLES_BINS_MAX]; /* a second */
    double least, most; /* of percentiles that are finite */
    double offered_most;
    bool failed; /* some percentile fell among failed requests */
    const struct samples_axis *axis;
    struct record_sum_operation all;
    size_t bin;
};

/* What charts need of all operations together. */
static void sum_up(struct record_sum_operation *all, const struct record_sum *sum)
{
    all->intended = all->good = all->slow = all->wrong = all->failed = 0;
    vt_hist_init(&all->response);
    for (size_t i = 0; i < sum->noperations; i++) {
        const struct record_sum_operation *op = &sum->operations[i];
        if (op->intended == 0)
            continue;
        all->intended += op->intended;
        all->good += op->good;
        all->slow += op->slow;
        all->wrong += op->wrong;
        all->failed += op->failed;
        if (op->response.count)
            vt_hist_merge(&all->response, &op->response);
    }
}

static void put_percentile(struct course *course, size_t which)
{
    int64_t ns = qos_percentile(&course->all, percentiles[which]);
    double s = (double)ns / (double)VT_NS_PER_S;

    if (ns < 0)
        return;
    if (ns == QOS_BEYOND) {
        course->percentile[which][course->bin] = INFINITY;
        course->failed = true;
        return;
    }
    if (s < 1e-6)
        s = 1e-6; /* has a place on a logarithmic axis */
    course->percentile[which][course->bin] = (float)s;
    if (course->least == 0 || s < course->least)
        course->least = s;
    if (s > course->most)
        course->most = s;
}

/* A bin at the end of the load may be shorter than the others. */
static void close_bin(struct course *course, const struct record_sum *sum)
{
    const struct samples_axis *axis = course->axis;
    int64_t left_s = axis->end_s - (int64_t)course->bin * axis->bin_s;
    double seconds = (double)(left_s < axis->bin_s ? left_s : axis->bin_s);

    sum_up(&course->all, sum);
    for (size_t i = 0; i < NPERCENTILES; i++)
        put_percentile(course, i);
    course->offered[course->bin] = (float)((double)course->all.intended / seconds);
    course->good[course->bin] = (float)((double)course->all.good / seconds);
    course->bad[course->bin] = (float)((double)(course->all.wrong + course->all.failed) / seconds);
    if ((double)course->all.intended / seconds > course->offered_most)
        course->offered_most = (double)course->all.intended / seconds;
}

static int on_bin(void *ctx, int64_t number, struct record_sum *sum)
{
    struct course *course = ctx;

    course->bin = (size_t)number;
    if (course->bin < course->axis->bins)
        close_bin(course, sum);
    record_sum_clear(sum);
    return 0;
}

static void start(struct course *course, const struct samples_axis *axis)
{
    float *const lines[] = {course->percentile[0], course->percentile[1], course->percentile[2],
                            course->offered,       course->good,          course->bad};

    course->axis = axis;
    for (size_t i = 0; i < VT_COUNT(lines); i++) {
        for (size_t k = 0; k < SAMPLES_BINS_MAX; k++)
            lines[i][k] = NAN;
    }
}

/* --- charts --- */

static struct samples_axis cut_axis(const struct samples_axis *all,
                                    const struct vt_record_role *role)
{
    struct samples_axis axis = *all;
    int64_t wanted_s = role->rate > 0 ? (int64_t)BIN_REQUESTS * 1000000 / role->rate + 1 : 1;
    int64_t most_s = axis.end_s / POINTS_MIN;

    if (wanted_s > most_s)
        wanted_s = most_s;
    if (wanted_s > axis.bin_s)
        axis.bin_s = wanted_s;
    axis.bins = (size_t)((axis.end_s + axis.bin_s - 1) / axis.bin_s);
    return axis;
}

static void start_chart(const struct report *report, struct svg_chart *chart,
                        const struct samples_axis *axis, const struct svg_mark *marks,
                        size_t nmarks, const char *title)
{
    *chart = (struct svg_chart){.title = title,
                                .axis = axis,
                                .phases = report->phases,
                                .nphases = report->nphases,
                                .marks = marks,
                                .nmarks = nmarks};
}

static void add_line(struct svg_chart *chart, const char *label, const float *values)
{
    struct svg_line *line = &chart->lines[chart->nlines++];

    vt_text_copy(line->label, sizeof(line->label), label);
    line->values = values;
}

static void put_times(const struct report *report, const struct vt_record_role *role,
                      struct course *course, struct svg_chart *chart)
{
    static const char *const labels[NPERCENTILES] = {"p50", "p95", "p99"};
    double least = course->least, most = course->most;

    for (size_t i = 0; i < NPERCENTILES; i++)
        add_line(chart, labels[i], course->percentile[i]);
    for (size_t i = 0; i < role->nlimits && chart->nlimits < SVG_LIMITS_MAX; i++) {
        struct svg_limit *limit = &chart->limits[chart->nlimits++];
        limit->value = (double)role->limits[i].limit_ns / (double)VT_NS_PER_S;
        snprintf(limit->label, sizeof(limit->label), "limit of p%.6g: %.6g s",
                 (double)role->limits[i].percentile / 1e4, limit->value);
        if (limit->value > most)
            most = limit->value;
        if (least == 0 || limit->value < least)
            least = limit->value;
    }
    chart->unit = SVG_SECONDS;
    chart->scale = svg_decades(least, most);
    if (course->failed)
        chart->note = "A line at the upper edge: the percentile falls among wrong or failed"
                      " requests.";
    svg_chart_write(report->out, chart);
}

static void put_rates(const struct report *report, const struct vt_record_role *role,
                      struct course *course, struct svg_chart *chart)
{
    double planned = (double)role->rate / 1e6, most = course->offered_most;

    add_line(chart, "offered", course->offered);
    add_line(chart, "good", course->good);
    add_line(chart, "wrong or failed", course->bad);
    if (planned > 0) {
        struct svg_limit *limit = &chart->limits[chart->nlimits++];
        limit->value = planned;
        snprintf(limit->label, sizeof(limit->label), "planned: %.6g/s", planned);
        if (planned > most)
            most = planned;
    }
    chart->unit = SVG_PER_SECOND;
    chart->scale = svg_linear(most, SVG_PER_SECOND);
    svg_chart_write(report->out, chart);
}

static int put_role(const struct report *report, const struct vt_record_role *role,
                    struct course *course, const struct svg_mark *marks, size_t nmarks)
{
    const struct samples_axis axis = cut_axis(&report->samples.axis, role);
    struct svg_chart chart;
    char title[128];
    int r;

    start(course, &axis);
    r = record_walk_load(report->reader, role->tile, role->role, 0, axis.end_s, axis.bin_s, on_bin,
                         course, report->err);
    if (r < 0)
        return r;
    snprintf(title, sizeof(title), "%s: response time, in steps of %lld s", role->role,
             (long long)axis.bin_s);
    start_chart(report, &chart, &axis, marks, nmarks, title);
    put_times(report, role, course, &chart);
    snprintf(title, sizeof(title), "%s: requests a second", role->role);
    start_chart(report, &chart, &axis, marks, nmarks, title);
    put_rates(report, role, course, &chart);
    return 0;
}

int report_load(const struct report *report, unsigned tile)
{
    struct svg_mark marks[SVG_MARKS_MAX];
    size_t nmarks = report_marks(report, tile, marks);
    int r = 0;

    if (report->samples.axis.bins == 0)
        return 0;
    vt_buf_adds(report->out, "<div class=\"charts\">\n");
    for (size_t i = 0; r == 0 && i < report->nroles; i++) {
        VT_AUTO_FREE struct course *course = NULL;
        if (report->roles[i].tile != tile || !report->roles[i].driven)
            continue;
        course = calloc(1, sizeof(*course));
        r = course ? put_role(report, &report->roles[i], course, marks, nmarks)
                   : vt_error_no_memory(report->err, "draw the load");
    }
    vt_buf_adds(report->out, "</div>\n");
    return r;
}
