/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "results/result.h"

#define MILLION 1000000
#define MISSED_MAX 16 /* limits named in the JSON line; `results show` has all */

/* --- JSON --- */

static void write_points(struct vt_json *w, const char *key, int64_t points)
{
    vt_json_double(w, key, (double)score_hundredths(points, SCORE_POINT) / 100, 2);
}

/* Whole microseconds, so that the digits are those of an integer. */
static double milliseconds(int64_t ns)
{
    int64_t us = (ns + 500) / 1000;

    return (double)us / 1000;
}

static void write_ms(struct vt_json *w, const char *key, int64_t ns)
{
    if (ns < 0 || ns == QOS_BEYOND)
        vt_json_null(w, key);
    else
        vt_json_double(w, key, milliseconds(ns), 3);
}

static void write_rate(struct vt_json *w, const char *key, int64_t bytes_per_s)
{
    if (bytes_per_s < 0 || bytes_per_s == QOS_BEYOND)
        vt_json_null(w, key);
    else
        vt_json_int(w, key, bytes_per_s);
}

static void write_reasons(struct vt_json *w, const struct verdict *verdict)
{
    vt_json_array(w, "reasons");
    for (size_t i = 0; i < verdict->nreasons; i++) {
        const struct verdict_reason *reason = &verdict->reasons[i];
        vt_json_object(w, NULL);
        vt_json_string(w, "code", reason->code);
        vt_json_string(w, "grade", verdict_grade_name(reason->grade));
        vt_json_int(w, "number", reason->number);
        vt_json_string(w, "text", reason->text);
        vt_json_end(w);
    }
    vt_json_end(w);
}

static void write_line(struct vt_json *w, const struct qos_line *line)
{
    vt_json_object(w, NULL);
    vt_json_uint(w, "tile", line->tile);
    vt_json_string(w, "role", line->role);
    if (*line->operation)
        vt_json_string(w, "operation", line->operation);
    if (line->kind == QOS_PERCENTILE) {
        vt_json_double(w, "percentile", (double)line->percentile / 10000, 4);
        write_ms(w, "limit_ms", line->limit);
        write_ms(w, "value_ms", line->value);
    } else if (line->kind == QOS_RATE) {
        vt_json_double(w, "percentile", (double)line->percentile / 10000, 4);
        write_rate(w, "limit_bytes_per_s", line->limit);
        write_rate(w, "value_bytes_per_s", line->value);
    } else {
        vt_json_double(w, "errors_max", (double)line->limit / MILLION, 6);
        vt_json_double(w, "errors", line->value < 0 ? 0 : (double)line->value / MILLION, 6);
    }
    vt_json_uint(w, "n", line->n);
    vt_json_string(w, "state", qos_state_name(line->state));
    vt_json_end(w);
}

static void write_missed(struct vt_json *w, const struct qos *qos)
{
    size_t n = 0;

    vt_json_array(w, "missed");
    for (int state = QOS_FAIL; state > QOS_PASS; state--) {
        for (size_t i = 0; i < qos->nlines && n < MISSED_MAX; i++) {
            if ((int)qos->lines[i].state != state)
                continue;
            write_line(w, &qos->lines[i]);
            n++;
        }
    }
    vt_json_end(w);
}

static void write_role(struct vt_json *w, const struct score_role *role)
{
    vt_json_object(w, role->role);
    vt_json_double(w, "rate", (double)score_hundredths(role->rate, MILLION) / 100, 2);
    write_ms(w, "p95_ms", role->p95_ns);
    write_points(w, "points", role->points);
    vt_json_uint(w, "good", role->good);
    vt_json_uint(w, "intended", role->intended);
    vt_json_bool(w, "scored", role->scored);
    if (role->clamped)
        vt_json_bool(w, "clamped", true);
    vt_json_end(w);
}

static void write_kept(struct vt_json *w, const struct kept *kept)
{
    vt_json_array(w, "kept");
    for (size_t i = 0; i < kept->nroles; i++) {
        const struct kept_role *role = &kept->roles[i];

        vt_json_object(w, NULL);
        vt_json_uint(w, "tile", role->tile);
        vt_json_string(w, "role", role->role);
        vt_json_uint(w, "acknowledged", role->counts.acknowledged);
        vt_json_uint(w, "kept", role->counts.kept);
        vt_json_uint(w, "missing", role->counts.missing);
        if (role->unknown)
            vt_json_string(w, "unknown", role->unknown);
        vt_json_end(w);
    }
    vt_json_end(w);
}

static const char *loop_name(const struct score *score)
{
    if (score->loop == VT_RECORD_LOOP_OPEN)
        return "open";
    return score->loop == VT_RECORD_LOOP_CLOSED ? "closed" : "mixed";
}

static void write_tiles(struct vt_json *w, const struct score *score)
{
    vt_json_array(w, "tiles");
    for (size_t i = 0; i < score->ntiles; i++) {
        const struct score_tile *tile = &score->tiles[i];
        vt_json_object(w, NULL);
        vt_json_uint(w, "tile", tile->tile);
        write_points(w, "score", tile->points);
        for (size_t k = tile->first; k < tile->first + tile->n; k++)
            write_role(w, &score->roles[k]);
        vt_json_end(w);
    }
    vt_json_end(w);
}

void result_write_json(const struct result *result, const char *archive, struct vt_buf *out)
{
    const struct score *score = &result->score;
    struct vt_json w;

    vt_json_message(&w, out, "result");
    vt_json_string(&w, "run", result->run);
    if (archive)
        vt_json_string(&w, "archive", archive);
    vt_json_int(&w, "rules", RESULT_RULES);
    vt_json_string(&w, "verdict", verdict_grade_name(result->verdict.grade));
    write_reasons(&w, &result->verdict);
    vt_json_string(&w, "qos", qos_state_name(result->qos.state));
    write_points(&w, "score", score->total);
    write_tiles(&w, score);
    write_missed(&w, &result->qos);
    vt_json_string(&w, "metric", RESULT_METRIC);
    if (score->nroles)
        vt_json_string(&w, "loop", loop_name(score));
    if (score->ntiles)
        write_points(&w, "worst", score->tiles[score->worst].points);
    vt_json_string(&w, "started", result->wall_start);
    vt_json_string(&w, "spec", result->spec);
    vt_json_string(&w, "preset", result->preset);
    if (*result->load)
        vt_json_double(&w, "load", strtod(result->load, NULL), 6);
    if (result->kept.nroles)
        write_kept(&w, &result->kept);
    vt_json_end(&w);
}

/* --- text --- */

/* A record's texts may come from a stranger: a terminal must not obey them. */
void result_print_text(struct vt_buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < ' ' || c == 0x7f)
            vt_buf_printf(out, "\\x%02x", c);
        else if (c == 0xc2 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0)
            vt_buf_adds(out, "\\xc2"); /* C1 controls in UTF-8 */
        else
            vt_buf_add(out, p, 1);
    }
}

/* Six columns up to a million: lines of the table below fit into 80. */
static void print_short(char buf[24], double value)
{
    int decimals = value < 10 ? 3 : value < 100 ? 2 : value < 10000 ? 1 : 0;

    snprintf(buf, 24, "%.*f", decimals, value);
}

/* milli: thousandths of what is printed, microseconds or bytes. */
static void print_milli(char buf[24], int64_t milli)
{
    print_short(buf, (double)milli / 1000);
}

static void print_value(char buf[24], const struct qos_line *line, int64_t value)
{
    if (value == QOS_BEYOND)
        vt_text_copy(buf, 24, "failed");
    else if (value < 0)
        vt_text_copy(buf, 24, "-");
    else
        print_milli(buf, line->kind == QOS_RATE ? value : (value + 500) / 1000);
}

static void print_line(struct vt_buf *out, const struct qos_line *line)
{
    char what[24], value[24], limit[24], low[24] = "", high[24] = "";

    if (line->kind == QOS_ERRORS) {
        vt_text_copy(what, sizeof(what), "errors %");
        print_short(value, line->value < 0 ? 0 : (double)line->value / 10000);
        print_short(limit, (double)line->limit / 10000);
    } else {
        snprintf(what, sizeof(what), "p%g %s", (double)line->percentile / 10000,
                 line->kind == QOS_RATE ? "kB/s" : "ms");
        print_value(value, line, line->value);
        print_value(limit, line, line->limit);
        print_value(low, line, line->low);
        print_value(high, line, line->high);
    }
    vt_buf_printf(out, "%4u %-8s %-11s %-8s %6s %6s %6s %6s %6" PRIu64 " %s\n", line->tile,
                  line->role, line->operation, what, value, limit, low, high, line->n,
                  qos_state_name(line->state));
    if (line->kind == QOS_ERRORS && line->beyond > 0)
        vt_buf_printf(out, "%26s%" PRIu64 " failed, %" PRIu64 " wrong\n", "", line->failed,
                      line->wrong);
}

static void print_tiles(struct vt_buf *out, const struct score *score)
{
    char p95[24];

    for (size_t i = 0; i < score->ntiles; i++) {
        const struct score_tile *tile = &score->tiles[i];
        vt_buf_printf(out, "  tile %u: ", tile->tile);
        score_print_points(tile->points, out);
        vt_buf_adds(out, "\n");
        for (size_t k = tile->first; k < tile->first + tile->n; k++) {
            const struct score_role *role = &score->roles[k];
            if (role->p95_ns < 0 || role->p95_ns == QOS_BEYOND)
                vt_text_copy(p95, sizeof(p95), role->p95_ns < 0 ? "-" : "failed");
            else
                print_milli(p95, (role->p95_ns + 500) / 1000);
            vt_buf_printf(out, "    %-8s ", role->role);
            score_print_points(role->points, out);
            vt_buf_adds(out, " points, ");
            score_print_rate(role->rate, out);
            vt_buf_printf(out, "/s, %" PRIu64 " good of %" PRIu64 ", p95 %s ms\n%s%s", role->good,
                          role->intended, p95, role->scored ? "" : "             not scored\n",
                          role->clamped ? "             above its divisor: counted as 100\n" : "");
        }
    }
}

static void print_kept(struct vt_buf *out, const struct kept *kept)
{
    for (size_t i = 0; i < kept->nroles; i++) {
        const struct kept_role *role = &kept->roles[i];

        vt_buf_printf(out, "%s  tile %u, %s: %" PRIu64 " acknowledged, %" PRIu64 " kept, ",
                      i ? "       " : "kept   ", role->tile, role->role, role->counts.acknowledged,
                      role->counts.kept);
        if (role->unknown)
            vt_buf_printf(out, "missing is not known: %s\n", role->unknown);
        else
            vt_buf_printf(out, "%" PRIu64 " missing\n", role->counts.missing);
    }
}

/* Records hold "0.050000". */
static void print_share(struct vt_buf *out, const char *text)
{
    char share[32];
    size_t len;

    vt_text_copy(share, sizeof(share), text);
    len = strlen(share);
    while (strchr(share, '.') && (share[len - 1] == '0' || share[len - 1] == '.')) {
        len--;
        share[len] = '\0';
    }
    result_print_text(out, share);
}

void result_write_text(const struct result *result, struct vt_buf *out)
{
    const struct score *score = &result->score;

    vt_buf_adds(out, "run      ");
    result_print_text(out, *result->run ? result->run : "-");
    vt_buf_adds(out, "\nstarted  ");
    result_print_text(out, *result->wall_start ? result->wall_start : "-");
    vt_buf_adds(out, "\nspec     ");
    result_print_text(out, *result->spec ? result->spec : "-");
    vt_buf_adds(out, ", preset ");
    result_print_text(out, *result->preset ? result->preset : "-");
    vt_buf_adds(out, ", load ");
    print_share(out, *result->load ? result->load : "-");
    vt_buf_adds(out, ", tiles ");
    result_print_text(out, *result->tiles ? result->tiles : "-");
    vt_buf_adds(out, "\nhost     ");
    result_print_text(out, *result->host ? result->host : "-");
    vt_buf_printf(out, "\nverdict  %s\n", verdict_grade_name(result->verdict.grade));
    for (size_t i = 0; i < result->verdict.nreasons; i++) {
        const struct verdict_reason *reason = &result->verdict.reasons[i];
        vt_buf_printf(out, "  %-8s ", verdict_grade_name(reason->grade));
        result_print_text(out, reason->code);
        vt_buf_adds(out, ": ");
        result_print_text(out, reason->text);
        vt_buf_adds(out, "\n");
    }
    if (result->verdict.more)
        vt_buf_printf(out, "  and %zu more reasons\n", result->verdict.more);
    print_kept(out, &result->kept);
    vt_buf_printf(out, "QoS      %s\n", qos_state_name(result->qos.state));
    if (result->qos.nlines)
        vt_buf_printf(out, "%4s %-8s %-11s %-8s %6s %6s %6s %6s %6s\n", "tile", "role", "operation",
                      "what", "value", "limit", "low", "high", "n");
    for (size_t i = 0; i < result->qos.nlines; i++)
        print_line(out, &result->qos.lines[i]);
    if (result->busy.data)
        vt_buf_adds(out, result->busy.data);
    vt_buf_adds(out, "score    ");
    score_print_points(score->total, out);
    vt_buf_adds(out, "  " RESULT_METRIC "\n");
    if (score->nroles)
        vt_buf_printf(out, "loop     %s\n", loop_name(score));
    print_tiles(out, score);
}
