/* SPDX-License-Identifier: Apache-2.0 */
#include "results/report/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "results/report/html.h"

/* Shares are of intervals that are not quite a second long. */
#define SHARE_WHOLE 1.1

/* --- scales --- */

int svg_y(const struct svg_scale *scale, double value)
{
    double share;

    if (value >= scale->max)
        return 0;
    if (!(value > scale->min))
        return SVG_HEIGHT;
    if (scale->log)
        share = (log10(value) - log10(scale->min)) / (log10(scale->max) - log10(scale->min));
    else
        share = (value - scale->min) / (scale->max - scale->min);
    return SVG_HEIGHT - (int)lround(share * SVG_HEIGHT);
}

struct svg_scale svg_linear(double max, enum svg_unit unit)
{
    static const double steps[] = {1, 2, 5, 10};
    struct svg_scale scale = {.max = 1};
    double power;

    if (!(max > 0) || !isfinite(max) || (unit == SVG_SHARE && max < SHARE_WHOLE))
        return scale;
    if (unit == SVG_BYTES || unit == SVG_BYTES_PER_SECOND) {
        while (scale.max < max)
            scale.max *= 2;
        return scale;
    }
    power = pow(10, floor(log10(max)));
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        scale.max = steps[i] * power;
        if (scale.max >= max)
            break;
    }
    return scale;
}

struct svg_scale svg_decades(double min, double max)
{
    struct svg_scale scale = {.log = true, .min = 1e-3, .max = 1e-2};

    if (min > 0 && isfinite(min))
        scale.min = pow(10, floor(log10(min)));
    scale.max = scale.min * 10;
    while (isfinite(max) && scale.max < max)
        scale.max *= 10;
    return scale;
}

/* --- a line --- */

struct pen {
    struct vt_buf *out;
    bool down;  /* a stretch has begun */
    bool drawn; /* and has more than its first point */
    int x, y;   /* last point written */
    int held_x; /* level with it, not yet written; -1: none */
};

static void draw_to(struct pen *pen, int x, int y)
{
    vt_buf_printf(pen->out, "%s%d %d", pen->drawn ? " " : "l", x - pen->x, y - pen->y);
    pen->drawn = true;
    pen->x = x;
    pen->y = y;
}

static void put_held(struct pen *pen)
{
    if (pen->held_x >= 0)
        draw_to(pen, pen->held_x, pen->y);
    pen->held_x = -1;
}

static void lift(struct pen *pen)
{
    if (!pen->down)
        return;
    put_held(pen);
    if (!pen->drawn)
        vt_buf_adds(pen->out, "h0");
    pen->down = false;
}

static void put_point(struct pen *pen, int x, int y)
{
    if (!pen->down) {
        vt_buf_printf(pen->out, "M%d %d", x, y);
        *pen = (struct pen){.out = pen->out, .down = true, .x = x, .y = y, .held_x = -1};
    } else if (y == pen->y) {
        pen->held_x = x;
    } else {
        put_held(pen);
        draw_to(pen, x, y);
    }
}

void svg_path(struct vt_buf *out, const float *values, size_t n, const struct svg_scale *scale,
              size_t join)
{
    struct pen pen = {.out = out, .held_x = -1};
    size_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        if (isnan(values[i])) {
            if (++missing > join)
                lift(&pen);
            continue;
        }
        missing = 0;
        put_point(&pen, 2 * (int)i + 1, svg_y(scale, (double)values[i]));
    }
    lift(&pen);
}

/* --- a chart --- */

static double share_of(const struct samples_axis *axis, double second)
{
    double end = (double)(axis->bin_s * (int64_t)axis->bins);

    if (second <= 0 || end <= 0)
        return 0;
    return second >= end ? 1 : second / end;
}

static double x_of(const struct samples_axis *axis, double second)
{
    return 2 * (double)axis->bins * share_of(axis, second);
}

static void write_value(struct vt_buf *out, double value, enum svg_unit unit)
{
    switch (unit) {
    case SVG_SECONDS:
        html_seconds(out, value);
        break;
    case SVG_BYTES:
        html_bytes(out, value);
        break;
    case SVG_BYTES_PER_SECOND:
        html_bytes(out, value);
        vt_buf_adds(out, "/s");
        break;
    case SVG_SHARE:
        vt_buf_printf(out, "%.3g %%", 100 * value);
        break;
    case SVG_PER_SECOND:
        vt_buf_printf(out, "%.6g/s", value);
        break;
    case SVG_CPUS:
        vt_buf_printf(out, "%.3g", value);
        break;
    }
}

static void write_tick(struct vt_buf *out, const struct svg_chart *chart, double value)
{
    vt_buf_printf(out, "<span style=\"top:%.1f%%\">",
                  100.0 * svg_y(&chart->scale, value) / SVG_HEIGHT);
    write_value(out, value, chart->unit);
    vt_buf_adds(out, "</span>");
}

/* Ticks are few: a decade each (every other, third ... where there are many), or three. */
static void write_ticks(struct vt_buf *out, const struct svg_chart *chart)
{
    const struct svg_scale *scale = &chart->scale;

    vt_buf_adds(out, "<div class=\"y\">");
    if (scale->log) {
        int decades = (int)lround(log10(scale->max / scale->min));
        int step = (decades + 4) / 5;
        for (int i = 0; i <= decades; i += step > 0 ? step : 1)
            write_tick(out, chart, scale->min * pow(10, i));
    } else {
        write_tick(out, chart, scale->min);
        if (!chart->small)
            write_tick(out, chart, scale->max / 2);
        write_tick(out, chart, scale->max);
    }
    vt_buf_adds(out, "</div>");
}

static void write_back(struct vt_buf *out, const struct svg_chart *chart)
{
    const struct samples_axis *axis = chart->axis;
    double from = x_of(axis, (double)axis->from_s), to = x_of(axis, (double)axis->to_s);

    for (size_t i = 0; i < chart->nphases; i++) {
        double x = x_of(axis, chart->phases[i].from_s);
        double end = x_of(axis, chart->phases[i].to_s);
        if (end > x && i % 2)
            vt_buf_printf(out,
                          "<rect class=\"ph\" x=\"%.1f\" y=\"0\" width=\"%.1f\""
                          " height=\"%d\"/>",
                          x, end - x, SVG_HEIGHT);
    }
    if (to > from)
        vt_buf_printf(out, "<rect class=\"win\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>",
                      from, to - from, SVG_HEIGHT);
    for (size_t i = 0; i < chart->nmarks; i++) {
        double x = x_of(axis, chart->marks[i].second);
        vt_buf_printf(out, "<path class=\"ev%d\" d=\"M%.1f 0v%d\"/>", chart->marks[i].level, x,
                      SVG_HEIGHT);
    }
}

static void write_drawing(struct vt_buf *out, const struct svg_chart *chart)
{
    vt_buf_printf(out,
                  "<svg viewBox=\"0 0 %zu %d\" preserveAspectRatio=\"none\" role=\"img\""
                  " aria-label=\"",
                  2 * chart->axis->bins, SVG_HEIGHT);
    html_text(out, chart->title, HTML_CELL_MAX);
    vt_buf_adds(out, "\">");
    write_back(out, chart);
    for (size_t i = 0; i < chart->nlimits; i++)
        vt_buf_printf(out, "<path class=\"lim\" d=\"M0 %dh%zu\"/>",
                      svg_y(&chart->scale, chart->limits[i].value), 2 * chart->axis->bins);
    for (size_t i = 0; i < chart->nlines; i++) {
        vt_buf_printf(out, "<path class=\"l%zu\" d=\"", i);
        svg_path(out, chart->lines[i].values, chart->axis->bins, &chart->scale,
                 chart->lines[i].join);
        vt_buf_adds(out, "\"/>");
    }
    vt_buf_adds(out, "</svg>");
}

/* Times at the ends of the measure window, or of the whole; phases' names at their place. */
static void write_times(struct vt_buf *out, const struct svg_chart *chart)
{
    const struct samples_axis *axis = chart->axis;

    vt_buf_adds(out, "<div class=\"x\">");
    for (size_t i = 0; i < chart->nphases && !chart->small; i++) {
        double from = share_of(axis, chart->phases[i].from_s);
        double to = share_of(axis, chart->phases[i].to_s);
        if (to - from < 0.05)
            continue;
        vt_buf_printf(out, "<span style=\"left:%.1f%%;width:%.1f%%\">", 100 * from,
                      100 * (to - from));
        html_text(out, chart->phases[i].name, VT_RECORD_NAME_MAX);
        vt_buf_adds(out, "</span>");
    }
    vt_buf_printf(out, "</div><div class=\"t\"><span>0 s</span><span>%lld s</span></div>",
                  (long long)axis->end_s);
}

static void write_legend(struct vt_buf *out, const struct svg_chart *chart)
{
    vt_buf_adds(out, "<figcaption><b>");
    html_text(out, chart->title, HTML_CELL_MAX);
    vt_buf_adds(out, "</b>");
    for (size_t i = 0; i < chart->nlines; i++) {
        vt_buf_printf(out,
                      " <span class=\"key\"><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\">"
                      "<path class=\"l%zu\" d=\"M0 4h24\"/></svg>",
                      i);
        html_text(out, chart->lines[i].label, HTML_CELL_MAX);
        vt_buf_adds(out, "</span>");
    }
    for (size_t i = 0; i < chart->nlimits; i++) {
        vt_buf_adds(out, " <span class=\"key\"><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\">"
                         "<path class=\"lim\" d=\"M0 4h24\"/></svg>");
        html_text(out, chart->limits[i].label, HTML_CELL_MAX);
        vt_buf_adds(out, "</span>");
    }
    vt_buf_adds(out, "</figcaption>");
}

void svg_chart_write(struct vt_buf *out, const struct svg_chart *chart)
{
    vt_buf_printf(out, "<figure class=\"chart%s\">", chart->small ? " small" : "");
    write_legend(out, chart);
    vt_buf_adds(out, "<div class=\"plot\">");
    write_ticks(out, chart);
    vt_buf_adds(out, "<div class=\"area\">");
    write_drawing(out, chart);
    vt_buf_adds(out, "</div>");
    write_times(out, chart);
    vt_buf_adds(out, "</div>");
    if (chart->note) {
        vt_buf_adds(out, "<p class=\"note\">");
        html_text(out, chart->note, HTML_CELL_MAX);
        vt_buf_adds(out, "</p>");
    }
    vt_buf_adds(out, "</figure>\n");
}
