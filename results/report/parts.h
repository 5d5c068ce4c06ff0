/* SPDX-License-Identifier: Apache-2.0 */
/* parts: what the parts of a report share. report.c reads all of it first, then each part writes.
 */
#ifndef VTILE_RESULTS_REPORT_PARTS_H
#define VTILE_RESULTS_REPORT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "results/breach.h"
#include "results/cause.h"
#include "results/report/html.h"
#include "results/report/report.h"
#include "results/report/svg.h"
#include "results/result.h"
#include "results/samples.h"

#define REPORT_EVENTS_MAX 2000
#define REPORT_META_MAX 20000
#define REPORT_META_BYTES_MAX ((size_t)16 << 20) /* of all values together */
#define REPORT_VALUE_MAX 4000                    /* bytes of one value that is shown */
#define REPORT_SPEC_MAX (256 * 1024)
#define REPORT_LINES_MAX 3000 /* of one table of limits */
#define REPORT_TILES_OPEN 1   /* so many tiles, the worst first, are unfolded */
#define REPORT_TILES_FEW 4    /* up to here every bin counts; more tiles share fewer */
#define REPORT_BINS_FEW SAMPLES_BINS_MAX
#define REPORT_BINS_MANY 240

struct report_event {
    enum vt_event_type type;
    enum vt_event_level level;
    int64_t time_ns;
    unsigned tile;
    char source[VT_RECORD_NAME_MAX], phase[VT_RECORD_NAME_MAX];
    char text[HTML_CELL_MAX];
};
struct report_meta {
    char *key, *value;
};
struct report {
    struct record_reader *reader;
    const struct report_source *source;
    struct vt_buf *out;
    struct vt_error *err;
    struct result result;
    struct vt_record_role *roles;
    size_t nroles;
    struct report_meta *meta; /* by key */
    size_t nmeta, meta_more, meta_bytes;
    struct report_event *events;
    size_t nevents, events_more;
    struct svg_phase phases[SVG_PHASES_MAX]; /* that reach past T0 */
    size_t nphases;
    struct samples samples;
    struct breaches breaches;
    struct causes causes;
    size_t *order;                                  /* tiles of the score, worst first */
    enum qos_state states[VT_RECORD_TILES_MAX + 1]; /* of tiles, by number */
};

/* NULL when the record has no such key. */
const char *report_meta(const struct report *report, const char *key);
/* "pass" and so on, with a sign that says it without colour; as HTML. */
void report_put_state(const struct report *report, enum qos_state state);
/* A limit in words: "p95 of web, tile 1"; as HTML. */
void report_put_limit_name(const struct report *report, const struct qos_line *line);
/* Its limit or value with its unit; as HTML. */
void report_put_limit_value(const struct report *report, const struct qos_line *line,
                            int64_t value);
enum qos_state report_tile_state(const struct report *report, unsigned tile);

extern const char report_style[];
/* Each writes one part. */
void report_head(const struct report *report);
int report_explain(const struct report *report);
void report_grid(const struct report *report);
void report_missed(const struct report *report);
void report_tile_limits(const struct report *report, unsigned tile);
int report_load(const struct report *report, unsigned tile);
/* The VMs of a tile; 0: hosts, clients. */
void report_machines(const struct report *report, unsigned tile);
void report_events(const struct report *report);
void report_settings(const struct report *report);
void report_configuration(const struct report *report);
int report_origin(const struct report *report);
/* Marks for charts: warnings and errors of the tile and of the whole run. */
size_t report_marks(const struct report *report, unsigned tile, struct svg_mark *marks);

#endif
