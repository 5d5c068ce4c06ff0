/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/watch/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"

#define NOTES_ROWS 5 /* at most so many rows of a terminal are left to notes above the tiles */
#define LINE_MAX_BYTES 256
#define HUNDREDTHS_MAX (INT64_C(1) << 50)

static const char *const mark_names[] = {"-", "ok", "undecided", "broken"};
static const char *const mark_colours[] = {"", "\033[32m", "\033[33m", "\033[31m"};

static double seconds(int64_t ns)
{
    return (double)ns / (double)VT_NS_PER_S;
}

/* --- as JSON --- */

void watch_view_write(const struct watch_view *view, struct vt_buf *out)
{
    struct vt_json w;

    vt_json_message(&w, out, "view");
    vt_json_string(&w, "run", view->run);
    vt_json_string(&w, "phase", view->phase);
    vt_json_int(&w, "elapsed_ns", view->elapsed_ns);
    vt_json_int(&w, "left_ns", view->left_ns);
    vt_json_uint(&w, "warnings", view->warnings);
    vt_json_array(&w, "tiles");
    for (unsigned i = 0; i < view->ntiles; i++) {
        const struct watch_tile *tile = &view->tiles[i];

        vt_json_object(&w, NULL);
        vt_json_uint(&w, "tile", tile->tile);
        vt_json_int(&w, "mark", (int)tile->mark);
        vt_json_int(&w, "score", tile->score);
        vt_json_int(&w, "rate", tile->rate);
        vt_json_int(&w, "p95_ns", tile->p95_ns);
        vt_json_uint(&w, "not_good", tile->not_good);
        vt_json_string(&w, "tightest", tile->tightest);
        vt_json_end(&w);
    }
    vt_json_end(&w);
    vt_json_end(&w);
}

/* Text that a terminal may be given as it is. */
static int read_text(const json_t *obj, const char *key, char *ret, size_t size,
                     struct vt_error *err)
{
    const char *text = NULL;
    int r = vt_json_get_string(obj, key, &text, err);

    if (r < 0)
        return r;
    for (const char *p = text; *p; p++)
        if (*p < ' ' || *p > '~')
            return vt_error_refuse(err, "%s: not a plain text", key);
    if (!vt_text_copy(ret, size, text))
        return vt_error_refuse(err, "%s: longer than %zu bytes", key, size - 1);
    return 0;
}

static int read_tile(const json_t *obj, struct watch_tile *ret, struct vt_error *err)
{
    int64_t tile = 0, mark = 0, not_good = 0;
    int r = vt_json_get_int(obj, "tile", 1, SPEC_TILES_MAX, &tile, err);

    if (r == 0)
        r = vt_json_get_int(obj, "mark", WATCH_UNJUDGED, WATCH_BROKEN, &mark, err);
    if (r == 0)
        r = vt_json_get_int(obj, "score", -1, HUNDREDTHS_MAX, &ret->score, err);
    if (r == 0)
        r = vt_json_get_int(obj, "rate", 0, HUNDREDTHS_MAX, &ret->rate, err);
    if (r == 0)
        r = vt_json_get_int(obj, "p95_ns", -1, INT64_MAX, &ret->p95_ns, err);
    if (r == 0)
        r = vt_json_get_int(obj, "not_good", 0, INT64_MAX, &not_good, err);
    if (r == 0)
        r = read_text(obj, "tightest", ret->tightest, sizeof(ret->tightest), err);
    ret->tile = (unsigned)tile;
    ret->mark = (enum watch_mark)mark;
    ret->not_good = (uint64_t)not_good;
    return r;
}

int watch_view_read(const json_t *message, struct watch_view *ret, struct vt_error *err)
{
    VT_AUTO_FREE struct watch_view *view = calloc(1, sizeof(*view));
    const json_t *tiles = NULL;
    int64_t warnings = 0;
    int r;

    if (!view)
        return vt_error_no_memory(err, "read a view");
    r = read_text(message, "run", view->run, sizeof(view->run), err);
    if (r == 0)
        r = read_text(message, "phase", view->phase, sizeof(view->phase), err);
    if (r == 0)
        r = vt_json_get_int(message, "elapsed_ns", 0, INT64_MAX, &view->elapsed_ns, err);
    if (r == 0)
        r = vt_json_get_int(message, "left_ns", -1, INT64_MAX, &view->left_ns, err);
    if (r == 0)
        r = vt_json_get_int(message, "warnings", 0, INT64_MAX, &warnings, err);
    if (r == 0)
        r = vt_json_get_array(message, "tiles", SPEC_TILES_MAX, &tiles, err);
    for (size_t i = 0; r == 0 && i < json_array_size(tiles); i++)
        r = read_tile(json_array_get(tiles, i), &view->tiles[view->ntiles++], err);
    if (r < 0)
        return r;
    view->warnings = (uint64_t)warnings;
    *ret = *view;
    return 0;
}

static int worse_first(const void *a, const void *b)
{
    const struct watch_tile *x = a, *y = b;

    if (x->mark != y->mark)
        return x->mark > y->mark ? -1 : 1;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->tile < y->tile ? -1 : x->tile > y->tile;
}

void watch_view_sort(struct watch_view *view)
{
    qsort(view->tiles, view->ntiles, sizeof(view->tiles[0]), worse_first);
}

/* --- for people --- */

/* Cut to the terminal's width less one: nothing ever stands in its last column, so that no line
 * wraps and no cursor waits there. */
static void add_line(struct vt_buf *out, const char *text, unsigned columns)
{
    size_t len = strlen(text), most = columns > 1 ? columns - 1 : 0;

    vt_buf_add(out, text, len < most ? len : most);
    vt_buf_adds(out, "\n");
}

static void print_hundredths(char *buf, size_t size, int64_t value)
{
    if (value < 0)
        vt_text_copy(buf, size, "-");
    else
        snprintf(buf, size, "%lld.%02lld", (long long)value / 100, (long long)value % 100);
}

static void print_p95(char *buf, size_t size, int64_t p95_ns)
{
    if (p95_ns < 0)
        vt_text_copy(buf, size, "-");
    else
        snprintf(buf, size, "%.1f", seconds(p95_ns) * 1e3);
}

static int64_t total_score(const struct watch_view *view)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < view->ntiles; i++) {
        if (view->tiles[i].score < 0)
            return -1;
        sum += view->tiles[i].score;
    }
    return view->ntiles ? sum : -1;
}

static size_t print_head(const struct watch_view *view, char *buf, size_t size)
{
    size_t n =
        (size_t)snprintf(buf, size, "[%6.1f s] %-9s", seconds(view->elapsed_ns), view->phase);

    if (view->left_ns >= 0)
        n += (size_t)snprintf(buf + n, size - n, "  %.0f s left", seconds(view->left_ns));
    return n;
}

static void paint_head(const struct watch_view *view, unsigned columns, struct vt_buf *out)
{
    char line[LINE_MAX_BYTES], score[32];
    size_t n = print_head(view, line, sizeof(line));

    if (view->ntiles > 0) {
        print_hundredths(score, sizeof(score), total_score(view));
        n += (size_t)snprintf(line + n, sizeof(line) - n, "  %u tile%s, score so far %s",
                              view->ntiles, view->ntiles == 1 ? "" : "s", score);
    }
    if (view->warnings > 0)
        snprintf(line + n, sizeof(line) - n, "  warnings %llu", (unsigned long long)view->warnings);
    add_line(out, line, columns);
}

static void paint_tile(const struct watch_tile *tile, unsigned columns, bool colour,
                       struct vt_buf *out)
{
    char line[LINE_MAX_BYTES], score[32], rate[32], p95[32];
    const char *mark = mark_names[tile->mark];
    unsigned first, last;

    print_hundredths(score, sizeof(score), tile->score);
    print_hundredths(rate, sizeof(rate), tile->rate);
    print_p95(p95, sizeof(p95), tile->p95_ns);
    snprintf(line, sizeof(line), "%5u  %-9s %7s %8s %8s %8llu  %s", tile->tile, mark, score, rate,
             p95, (unsigned long long)tile->not_good, tile->tightest);
    first = 7;
    last = first + (unsigned)strlen(mark);
    if (!colour || !mark_colours[tile->mark][0] || last >= columns) {
        add_line(out, line, columns);
        return;
    }
    vt_buf_add(out, line, first);
    vt_buf_printf(out, "%s%s\033[0m", mark_colours[tile->mark], mark);
    add_line(out, line + last, columns - last);
}

unsigned watch_view_paint(const struct watch_view *view, unsigned columns, unsigned rows,
                          bool colour, struct vt_buf *out)
{
    unsigned spare = rows / 4 < NOTES_ROWS ? rows / 4 : NOTES_ROWS;
    unsigned most = rows > spare + 1 ? rows - 1 - spare : 1; /* the cursor rests below them */
    unsigned lines = 1, shown = 0, room;
    char more[64];

    paint_head(view, columns, out);
    if (view->ntiles == 0 || most < 3)
        return lines;
    add_line(out, " tile  QoS         score   rate/s   p95 ms not good  tightest limit", columns);
    lines++;
    room = most - lines;
    shown = view->ntiles <= room ? view->ntiles : room - 1;
    for (unsigned i = 0; i < shown; i++)
        paint_tile(&view->tiles[i], columns, colour, out);
    lines += shown;
    if (shown < view->ntiles) {
        unsigned left = view->ntiles - shown;

        snprintf(more, sizeof(more), "        and %u better tile%s", left, left == 1 ? "" : "s");
        add_line(out, more, columns);
        lines++;
    }
    return lines;
}

void watch_view_print(const struct watch_view *view, struct vt_buf *out)
{
    char line[LINE_MAX_BYTES], p95[32], score[32];
    const struct watch_tile *worst = &view->tiles[0];
    size_t n = print_head(view, line, sizeof(line));
    int64_t rate = 0;
    uint64_t not_good = 0;

    for (unsigned i = 0; i < view->ntiles; i++) {
        rate += view->tiles[i].rate;
        not_good += view->tiles[i].not_good;
    }
    if (view->ntiles > 0 && worst->p95_ns >= 0) {
        print_p95(p95, sizeof(p95), worst->p95_ns);
        print_hundredths(score, sizeof(score), worst->score);
        n += (size_t)snprintf(line + n, sizeof(line) - n, "  %.1f/s", (double)rate / 100);
        if (view->ntiles > 1)
            n += (size_t)snprintf(line + n, sizeof(line) - n, "  worst tile %u:", worst->tile);
        n += (size_t)snprintf(line + n, sizeof(line) - n, "  p95 %s ms  QoS %s  score %s", p95,
                              mark_names[worst->mark], score);
        n += (size_t)snprintf(line + n, sizeof(line) - n, "  not good %llu",
                              (unsigned long long)not_good);
    }
    if (view->warnings > 0)
        snprintf(line + n, sizeof(line) - n, "  warnings %llu", (unsigned long long)view->warnings);
    vt_buf_adds(out, line);
}
