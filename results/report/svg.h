/* SPDX-License-Identifier: Apache-2.0 */
/*
 * svg: lines over time. The drawing is 2 units wide a bin and SVG_HEIGHT high, stretched to its
 * place by the browser; all that is text stands outside of it, so that it keeps its size on a
 * small screen. Coordinates are whole numbers: the same record gives the same bytes.
 */
#ifndef VTILE_RESULTS_REPORT_SVG_H
#define VTILE_RESULTS_REPORT_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "results/samples.h"

#define SVG_HEIGHT 200
#define SVG_LINES_MAX 8
#define SVG_LIMITS_MAX 8
#define SVG_MARKS_MAX 60
#define SVG_PHASES_MAX 32

enum svg_unit { SVG_SECONDS, SVG_PER_SECOND, SVG_CPUS, SVG_BYTES, SVG_BYTES_PER_SECOND, SVG_SHARE };

/* Logarithmic from min > 0, or linear from min. */
struct svg_scale {
    bool log;
    double min, max;
};
/* 0 is the top: max and beyond; SVG_HEIGHT the bottom. */
int svg_y(const struct svg_scale *scale, double value);
/* 0 to max, 1, 2 or 5 times a power of ten (bytes: a power of two); to 1 where max is none,
 * and for shares up to one. */
struct svg_scale svg_linear(double max, enum svg_unit unit);
/* Whole decades around both, at least one. */
struct svg_scale svg_decades(double min, double max);

/* "M1 57l2 3 2 -1": bin i at x = 2 i + 1. Values that are not there (NaN) break the line where more
 * than join of them follow one another; a point that stands alone is a line of no length. Where a
 * line runs level its points in between are left out. */
void svg_path(struct vt_buf *out, const float *values, size_t n, const struct svg_scale *scale,
              size_t join);

struct svg_line {
    char label[64]; /* as it is, to be escaped */
    const float *values;
    size_t join;
};
struct svg_limit {
    char label[64];
    double value;
};
struct svg_phase {
    char name[VT_RECORD_NAME_MAX];
    double from_s, to_s;
};
struct svg_mark { /* an event of level warning or error */
    double second;
    int level;
};
struct svg_chart {
    const char *title;
    const struct samples_axis *axis;
    struct svg_scale scale;
    enum svg_unit unit;
    bool small;
    struct svg_line lines[SVG_LINES_MAX];
    size_t nlines;
    struct svg_limit limits[SVG_LIMITS_MAX];
    size_t nlimits;
    const struct svg_phase *phases;
    size_t nphases;
    const struct svg_mark *marks;
    size_t nmarks;
    const char *note; /* NULL: none */
};
void svg_chart_write(struct vt_buf *out, const struct svg_chart *chart);

#endif
