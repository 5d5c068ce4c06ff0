/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/watch/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "results/result.h"

#define PLAIN_EVERY_NS (10 * VT_NS_PER_S)
#define BLOCK_MAX (64U << 10)
#define FRAME_MAX (256U << 10)
#define SIZE_MAX_CHARS 1000 /* a terminal that says it is larger is taken as this */

static double seconds(int64_t ns)
{
    return (double)ns / (double)VT_NS_PER_S;
}

/* --- the screen --- */

/* True when the size is another than the last time. */
static bool measure(struct watch_terminal *t)
{
    struct winsize size = {0};
    unsigned columns = 80, rows = 24;

    if (ioctl(fileno(t->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        columns = size.ws_col < SIZE_MAX_CHARS ? size.ws_col : SIZE_MAX_CHARS;
        rows = size.ws_row < SIZE_MAX_CHARS ? size.ws_row : SIZE_MAX_CHARS;
    }
    bool changed = columns != t->columns || rows != t->rows;
    t->columns = columns;
    t->rows = rows;
    return changed;
}

/* To the first painted line. */
static void go_up(struct watch_terminal *t)
{
    if (t->painted > 0)
        vt_buf_printf(&t->frame, "\033[%uA\r", t->painted);
}

/* Each line over what stood there, the rest of it cleared; then all that is below. */
static void add_block(struct watch_terminal *t)
{
    const char *line = t->block.data ? t->block.data : "";

    for (const char *end; (end = strchr(line, '\n')); line = end + 1) {
        vt_buf_add(&t->frame, line, (size_t)(end - line));
        vt_buf_adds(&t->frame, "\033[K\n");
    }
    vt_buf_adds(&t->frame, "\033[J");
}

static void flush_frame(struct watch_terminal *t)
{
    if (!t->frame.failed && t->frame.len > 0)
        fwrite(t->frame.data, 1, t->frame.len, t->out);
    fflush(t->out);
    vt_buf_reset(&t->frame);
}

void watch_terminal_clear(struct watch_terminal *t)
{
    go_up(t);
    if (t->painted > 0)
        vt_buf_adds(&t->frame, "\033[J");
    t->painted = 0;
    vt_buf_reset(&t->block);
    flush_frame(t);
}

/* How lines that stand there were moved by the change is the terminal's own affair. */
static void start_over(struct watch_terminal *t)
{
    unsigned n = t->nnotes < WATCH_NOTES_KEPT ? t->nnotes : WATCH_NOTES_KEPT;

    vt_buf_adds(&t->frame, "\033[H\033[J");
    for (unsigned i = t->nnotes - n; i < t->nnotes; i++) {
        if (t->notes[i % WATCH_NOTES_KEPT])
            vt_buf_adds(&t->frame, t->notes[i % WATCH_NOTES_KEPT]);
        vt_buf_adds(&t->frame, "\n");
    }
    t->painted = 0;
}

static void paint(struct watch_terminal *t, const struct watch_view *view)
{
    bool changed = measure(t);

    if (changed && t->painted > 0)
        start_over(t);
    go_up(t);
    vt_buf_reset(&t->block);
    t->painted = watch_view_paint(view, t->columns, t->rows, t->colour, &t->block);
    add_block(t);
    flush_frame(t);
}

/* A line above the painted ones, which move down. */
static void add_note(struct watch_terminal *t, const char *line)
{
    if (t->tty) {
        char **kept = &t->notes[t->nnotes++ % WATCH_NOTES_KEPT];

        free(*kept);
        *kept = strdup(line);
        go_up(t);
        vt_buf_adds(&t->frame, line);
        vt_buf_adds(&t->frame, "\033[K\n");
        add_block(t);
    } else {
        vt_buf_adds(&t->frame, line);
        vt_buf_adds(&t->frame, "\n");
    }
    flush_frame(t);
}

/* --- events --- */

static void take_phase(struct watch_terminal *t, const struct vt_event *event)
{
    char line[96];
    int n = snprintf(line, sizeof(line), "[%6.1f s] %s", seconds(event->time_ns - t->start_ns),
                     event->phase ? event->phase : "");

    t->next_plain_ns = event->time_ns + PLAIN_EVERY_NS;
    if (t->tty) /* the header names it */
        return;
    if (event->planned_ns > 0 && n > 0 && (size_t)n < sizeof(line))
        snprintf(line + n, sizeof(line) - (size_t)n, " (%.0f s)", seconds(event->planned_ns));
    add_note(t, line);
}

static void take_text(struct watch_terminal *t, const struct vt_event *event)
{
    static const struct {
        const char *name, *colour;
    } levels[] = {{"", ""}, {"warning: ", "\033[33m"}, {"error: ", "\033[31m"}};
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(4 * VT_ERROR_TEXT_MAX);
    const char *colour = t->colour ? levels[event->level].colour : "";

    vt_buf_printf(&text, "[%6.1f s] %s%s%s%s%s", seconds(event->time_ns - t->start_ns), colour,
                  levels[event->level].name, colour[0] ? "\033[0m" : "",
                  event->source ? event->source : "", event->source ? ": " : "");
    /* It may be a guest that says this: nothing of it is an order to the terminal. */
    result_print_text(&text, event->text ? event->text : "");
    if (text.data)
        add_note(t, text.data);
}

static void take(struct vt_sink *sink, const struct vt_event *event)
{
    struct watch_terminal *t = (struct watch_terminal *)sink;

    switch (event->type) {
    case VT_EVENT_PHASE:
        take_phase(t, event);
        break;
    case VT_EVENT_NOTE:
    case VT_EVENT_AGENT:
    case VT_EVENT_VERDICT:
        take_text(t, event);
        break;
    case VT_EVENT_LOAD:
    case VT_EVENT_SAMPLE:
    case VT_EVENT_LOG:
        break;
    }
}

void watch_terminal_show(struct watch_terminal *t, const struct watch_view *view)
{
    int64_t now_ns = vt_clock_now_ns();

    if (view->phase[0] == '\0')
        return;
    if (t->tty) {
        paint(t, view);
    } else if (now_ns >= t->next_plain_ns) {
        t->next_plain_ns = now_ns + PLAIN_EVERY_NS;
        watch_view_print(view, &t->frame);
        vt_buf_adds(&t->frame, "\n");
        flush_frame(t);
    }
}

/* no-color.org: set and not empty. A dumb terminal knows no sequence at all. */
static bool is_dumb(void)
{
    const char *term = getenv("TERM");

    return !term || !term[0] || !strcmp(term, "dumb");
}

void watch_terminal_init(struct watch_terminal *t, FILE *out)
{
    const char *no_color = getenv("NO_COLOR");

    *t = (struct watch_terminal){.sink = {.take = take},
                                 .start_ns = vt_clock_now_ns(),
                                 .out = out,
                                 .block = VT_BUF_INIT(BLOCK_MAX),
                                 .frame = VT_BUF_INIT(FRAME_MAX)};
    t->next_plain_ns = t->start_ns + PLAIN_EVERY_NS;
    t->tty = isatty(fileno(out)) && !is_dumb();
    t->colour = t->tty && !(no_color && no_color[0]);
}

void watch_terminal_dispose(struct watch_terminal *t)
{
    if (t->out)
        watch_terminal_clear(t);
    for (size_t i = 0; i < WATCH_NOTES_KEPT; i++) {
        free(t->notes[i]);
        t->notes[i] = NULL;
    }
    vt_buf_dispose(&t->block);
    vt_buf_dispose(&t->frame);
}

static void take_as_json(struct vt_sink *sink, const struct vt_event *event)
{
    struct watch_json *json = (struct watch_json *)sink;

    vt_buf_reset(&json->line);
    vt_event_write_json(event, &json->line);
    if (json->line.failed)
        return;
    fwrite(json->line.data, 1, json->line.len, json->out);
    fputc('\n', json->out);
    fflush(json->out);
}

void watch_json_init(struct watch_json *json, FILE *out)
{
    *json = (struct watch_json){
        .sink = {.take = take_as_json}, .out = out, .line = VT_BUF_INIT(1U << 20)};
}

void watch_json_dispose(struct watch_json *json)
{
    vt_buf_dispose(&json->line);
}
