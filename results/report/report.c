/* SPDX-License-Identifier: Apache-2.0 */
#include "results/report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "results/report/html.h"
#include "results/report/parts.h"

/* --- reading --- */

static int on_meta(void *ctx, const char *key, const char *value)
{
    struct report *report = ctx;
    size_t bytes = strlen(key) + strlen(value);
    struct report_meta *meta;

    if (report->nmeta == REPORT_META_MAX || report->meta_bytes + bytes > REPORT_META_BYTES_MAX) {
        report->meta_more++;
        return 0;
    }
    meta = &report->meta[report->nmeta];
    meta->key = strdup(key);
    meta->value = strdup(value);
    if (!meta->key || !meta->value) {
        free(meta->key);
        free(meta->value);
        return vt_error_no_memory(report->err, "read the record");
    }
    report->meta_bytes += bytes;
    report->nmeta++;
    return 0;
}

const char *report_meta(const struct report *report, const char *key)
{
    for (size_t i = 0; i < report->nmeta; i++) {
        if (!strcmp(report->meta[i].key, key))
            return report->meta[i].value;
    }
    return NULL;
}

/* One of a few is worth more than one of many: warnings and errors take the place of notes when
 * there are too many. */
static struct report_event *place_for(struct report *report, enum vt_event_level level)
{
    if (report->nevents < REPORT_EVENTS_MAX)
        return &report->events[report->nevents++];
    report->events_more++;
    for (size_t i = 0; level > VT_LEVEL_INFO && i < report->nevents; i++) {
        struct report_event *event = &report->events[i];
        if (event->type != VT_EVENT_NOTE || event->level != VT_LEVEL_INFO)
            continue;
        memmove(event, event + 1, (report->nevents - i - 1) * sizeof(*event));
        return &report->events[report->nevents - 1];
    }
    return NULL;
}

static int on_event(void *ctx, const struct vt_event *from)
{
    struct report *report = ctx;
    struct report_event *event = place_for(report, from->level);

    if (!event)
        return 0;
    *event = (struct report_event){
        .type = from->type, .level = from->level, .time_ns = from->time_ns, .tile = from->tile};
    vt_text_copy(event->source, sizeof(event->source), from->source ? from->source : "");
    vt_text_copy(event->phase, sizeof(event->phase), from->phase ? from->phase : "");
    vt_text_copy(event->text, sizeof(event->text), from->text ? from->text : "");
    return 0;
}

static int read_rows(struct report *report)
{
    int r;

    report->meta = calloc(REPORT_META_MAX, sizeof(*report->meta));
    report->events = calloc(REPORT_EVENTS_MAX, sizeof(*report->events));
    if (!report->meta || !report->events)
        return vt_error_no_memory(report->err, "read the record");
    r = record_walk_meta(report->reader, on_meta, report, report->err);
    if (r == 0)
        r = record_walk_events(report->reader, on_event, report, report->err);
    if (r == 0)
        r = record_read_roles(report->reader, &report->roles, &report->nroles, report->err);
    if (r == 0)
        r = result_compute(report->reader, &report->result, report->err);
    return r;
}

/* T0 stands in the record; one that ended before it had none begins with its first phase. */
static int64_t find_t0(const struct report *report)
{
    const char *text = report_meta(report, RECORD_META_T0);
    int64_t t0_ns;

    if (text && vt_text_parse_int(text, INT64_MIN, INT64_MAX, &t0_ns, NULL) == 0)
        return t0_ns;
    for (size_t i = 0; i < report->nevents; i++) {
        if (report->events[i].type == VT_EVENT_PHASE)
            return report->events[i].time_ns;
    }
    return 0;
}

static int find_axis(struct report *report)
{
    struct samples_axis *axis = &report->samples.axis;
    size_t many =
        report->result.score.ntiles > REPORT_TILES_FEW ? REPORT_BINS_MANY : REPORT_BINS_FEW;
    struct vt_record_schedule schedule;
    const char *ended = report_meta(report, RECORD_META_ENDED);
    bool complete = ended && !strcmp(ended, "complete");
    int64_t end_s = 0;
    int r = 0;

    axis->t0_ns = find_t0(report);
    for (size_t i = 0; r == 0 && i < report->nroles; i++) {
        const struct vt_record_role *role = &report->roles[i];
        if (!role->driven)
            continue;
        r = record_read_load_end(report->reader, role->tile, role->role, &end_s, report->err);
        if (r == 0 && end_s > axis->end_s)
            axis->end_s = end_s;
        if (r < 0 || axis->to_s > 0)
            continue;
        r = record_read_schedule(report->reader, role->tile, role->role, &schedule, report->err);
        if (r == 0) {
            axis->from_s = schedule.from_s;
            axis->to_s = schedule.to_s;
            /* Load that guests make stands in the second in which their window began: what was
             * sampled until it ended belongs to it. */
            if (complete && axis->to_s > axis->end_s)
                axis->end_s = axis->to_s;
        } else if (r == -ENOENT) {
            r = 0;
        }
    }
    samples_axis_cut(axis, many);
    return r;
}

static double seconds_since(const struct report *report, int64_t time_ns)
{
    return ((double)time_ns - (double)report->samples.axis.t0_ns) / (double)VT_NS_PER_S;
}

static void find_phases(struct report *report)
{
    double end = (double)report->samples.axis.end_s, second;
    struct svg_phase *last;

    for (size_t i = 0; i < report->nevents; i++) {
        if (report->events[i].type != VT_EVENT_PHASE)
            continue;
        second = seconds_since(report, report->events[i].time_ns);
        last = report->nphases ? &report->phases[report->nphases - 1] : NULL;
        if (last && second < last->to_s)
            last->to_s = second;
        if (last && last->to_s <= 0)
            report->nphases--; /* over before T0 */
        if (second >= end || report->nphases == SVG_PHASES_MAX)
            continue;
        last = &report->phases[report->nphases++];
        *last = (struct svg_phase){.from_s = second, .to_s = end};
        vt_text_copy(last->name, sizeof(last->name), report->events[i].phase);
    }
}

static int compare_tiles(const void *a, const void *b, void *ctx)
{
    const struct report *report = ctx;
    const struct score_tile *x = &report->result.score.tiles[*(const size_t *)a];
    const struct score_tile *y = &report->result.score.tiles[*(const size_t *)b];
    int order = (int)report_tile_state(report, y->tile) - (int)report_tile_state(report, x->tile);

    if (order == 0)
        order = (x->points > y->points) - (x->points < y->points);
    return order ? order : (int)x->tile - (int)y->tile;
}

/* Of each tile, once: the worst of its limits, of which it may have thousands. None: undecided. */
static void find_states(struct report *report)
{
    const struct qos *qos = &report->result.qos;
    bool any[VT_RECORD_TILES_MAX + 1] = {false};

    for (size_t i = 0; i <= VT_RECORD_TILES_MAX; i++)
        report->states[i] = QOS_UNDECIDED;
    for (size_t i = 0; i < qos->nlines; i++) {
        enum qos_state *state = &report->states[qos->lines[i].tile];
        if (!any[qos->lines[i].tile] || qos->lines[i].state > *state)
            *state = qos->lines[i].state;
        any[qos->lines[i].tile] = true;
    }
}

static int read_all(struct report *report)
{
    const struct score *score = &report->result.score;
    int r = read_rows(report);

    if (r == 0)
        r = find_axis(report);
    if (r < 0)
        return r;
    find_phases(report);
    find_states(report);
    report->order = calloc(score->ntiles + 1, sizeof(*report->order));
    if (!report->order)
        return vt_error_no_memory(report->err, "read the record");
    for (size_t i = 0; i < score->ntiles; i++)
        report->order[i] = i;
    if (score->ntiles > 1)
        qsort_r(report->order, score->ntiles, sizeof(*report->order), compare_tiles, report);
    r = samples_read(&report->samples, report->reader, report->err);
    if (r == 0)
        r = breach_find(report->reader, &report->result.qos, &report->breaches, report->err);
    if (r == 0)
        r = cause_find(&report->samples, &report->result.verdict, &report->breaches,
                       &report->causes, report->err);
    return r;
}

static void dispose(struct report *report)
{
    for (size_t i = 0; i < report->nmeta; i++) {
        free(report->meta[i].key);
        free(report->meta[i].value);
    }
    free(report->meta);
    free(report->events);
    free(report->roles);
    free(report->order);
    cause_dispose(&report->causes);
    breach_dispose(&report->breaches);
    samples_dispose(&report->samples);
    result_dispose(&report->result);
}

/* --- what parts share --- */

void report_put_state(const struct report *report, enum qos_state state)
{
    static const char *const signs[] = {"\xe2\x9c\x93", "?", "\xe2\x9c\x97"};

    vt_buf_printf(report->out, "<span class=\"st s%d\">%s %s</span>", (int)state, signs[state],
                  qos_state_name(state));
}

void report_put_limit_name(const struct report *report, const struct qos_line *line)
{
    if (line->kind == QOS_ERRORS)
        vt_buf_adds(report->out, "the share of errors");
    else if (line->kind == QOS_RATE)
        vt_buf_printf(report->out, "the least rate of %.6g %%", (double)line->percentile / 1e4);
    else
        vt_buf_printf(report->out, "p%.6g", (double)line->percentile / 1e4);
    vt_buf_adds(report->out, " of ");
    html_text(report->out, line->role, HTML_CELL_MAX);
    if (*line->operation) {
        vt_buf_adds(report->out, " ");
        html_text(report->out, line->operation, HTML_CELL_MAX);
    }
    vt_buf_printf(report->out, ", tile %u", line->tile);
}

void report_put_limit_value(const struct report *report, const struct qos_line *line, int64_t value)
{
    if (value < 0)
        vt_buf_adds(report->out, "\xe2\x80\x93");
    else if (value == QOS_BEYOND)
        vt_buf_adds(report->out, "failed");
    else if (line->kind == QOS_PERCENTILE)
        html_seconds(report->out, (double)value / (double)VT_NS_PER_S);
    else if (line->kind == QOS_RATE)
        vt_buf_printf(report->out, "%lld B/s", (long long)value);
    else
        vt_buf_printf(report->out, "%.4g %%", (double)value / 1e4);
}

enum qos_state report_tile_state(const struct report *report, unsigned tile)
{
    return report->states[tile];
}

/* --- writing --- */

static int put_tile(const struct report *report, size_t place)
{
    const struct score_tile *tile = &report->result.score.tiles[report->order[place]];
    int r;

    vt_buf_printf(report->out, "<details class=\"tile\" id=\"tile-%u\"%s><summary><b>Tile %u</b> ",
                  tile->tile, place < REPORT_TILES_OPEN ? " open" : "", tile->tile);
    score_print_points(tile->points, report->out);
    vt_buf_adds(report->out, " points ");
    report_put_state(report, report_tile_state(report, tile->tile));
    vt_buf_adds(report->out, "</summary>\n");
    r = report_load(report, tile->tile);
    if (r < 0)
        return r;
    report_tile_limits(report, tile->tile);
    report_machines(report, tile->tile);
    vt_buf_adds(report->out, "</details>\n");
    return 0;
}

static int put_tiles(const struct report *report)
{
    const struct score *score = &report->result.score;
    const struct samples_axis *axis = &report->samples.axis;
    int r = 0;

    vt_buf_adds(report->out, "<section><h2>Course of each tile</h2>\n");
    if (axis->end_s == 0) {
        vt_buf_adds(report->out,
                    "<p>No load stands in this record: there is no course to draw.</p>\n");
    } else {
        vt_buf_printf(report->out,
                      "<p class=\"note\">Time is in seconds since the load's start; machines are"
                      " shown in steps of %lld s. Bands are phases, the framed one is the measure "
                      "window [%lld,"
                      " %lld). Upright lines are warnings and errors. A line that is interrupted"
                      " has no samples there.%s</p>\n",
                      (long long)axis->bin_s, (long long)axis->from_s, (long long)axis->to_s,
                      score->ntiles > 1 ? " The worst tile comes first; the others unfold." : "");
    }
    for (size_t i = 0; r == 0 && i < score->ntiles; i++)
        r = put_tile(report, i);
    vt_buf_adds(report->out, "</section>\n");
    return r;
}

static int put_all(const struct report *report)
{
    struct vt_buf *out = report->out;
    int r;

    vt_buf_adds(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"
                     " style-src 'unsafe-inline'\"><title>vtile run ");
    html_text(out, report->result.run, HTML_CELL_MAX);
    vt_buf_printf(out, "</title><style>%s</style></head><body>\n", report_style);
    report_head(report);
    r = report_explain(report);
    if (r < 0)
        return r;
    report_grid(report);
    report_missed(report);
    r = put_tiles(report);
    if (r < 0)
        return r;
    vt_buf_adds(out, "<section><h2>Host and load client</h2>\n");
    report_machines(report, 0);
    vt_buf_adds(out, "</section>\n");
    report_events(report);
    report_settings(report);
    report_configuration(report);
    r = report_origin(report);
    if (r < 0)
        return r;
    vt_buf_adds(out, "</body></html>\n");
    return vt_buf_check(out, "write the report", report->err);
}

int report_write(struct record_reader *reader, const struct report_source *source,
                 struct vt_buf *out, struct vt_error *err)
{
    struct report *report = calloc(1, sizeof(*report));
    int r;

    if (!report)
        return vt_error_no_memory(err, "write the report");
    report->reader = reader;
    report->source = source;
    report->out = out;
    report->err = err;
    r = read_all(report);
    if (r == 0)
        r = put_all(report);
    dispose(report);
    free(report);
    return r;
}
