/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/watch/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "results/result.h"

#define PLAIN_EVERY_NS (10 * VT_NS_PER_S)
#define P95 950000

static double seconds(int64_t ns)
{
    return (double)ns / (double)VT_NS_PER_S;
}

static void clear_line(struct watch_terminal *t)
{
    if (t->painted)
        fputs("\r\033[K", t->out);
    t->painted = false;
}

/* "web 9.1/s  p95 84 ms  ok": what the phase's load looks like so far. */
static void write_load(const struct watch_terminal *t, char *buf, size_t size)
{
    int64_t p95 = vt_hist_quantile(t->response, P95);
    const char *mark = "no limit";

    buf[0] = '\0';
    if (p95 < 0)
        return;
    if (t->limit_p95_ns > 0)
        mark = p95 <= t->limit_p95_ns ? "QoS ok" : "QoS broken";
    snprintf(buf, size, "  %.1f/s  p95 %.1f ms  %s  not good %llu", (double)t->last_second_intended,
             seconds(p95) * 1e3, mark, (unsigned long long)t->not_good);
}

static void write_line(struct watch_terminal *t, int64_t now_ns)
{
    char load[160], left[32] = "";

    write_load(t, load, sizeof(load));
    if (t->phase_planned_ns > 0) {
        int64_t rest = t->phase_start_ns + t->phase_planned_ns - now_ns;

        snprintf(left, sizeof(left), "  %.0f s left", seconds(rest > 0 ? rest : 0));
    }
    fprintf(t->out, "[%6.1f s] %-9s%s%s", seconds(now_ns - t->start_ns), t->phase, left, load);
    if (t->warnings > 0)
        fprintf(t->out, "  warnings %llu", (unsigned long long)t->warnings);
}

static void take_phase(struct watch_terminal *t, const struct vt_event *event)
{
    vt_text_copy(t->phase, sizeof(t->phase), event->phase ? event->phase : "");
    t->phase_start_ns = event->time_ns;
    t->phase_planned_ns = event->planned_ns;
    t->next_plain_ns = event->time_ns + PLAIN_EVERY_NS;
    vt_hist_init(t->response);
    t->not_good = t->last_second_intended = 0;
    t->last_second = -1;
    if (t->tty)
        return;
    fprintf(t->out, "[%6.1f s] %s", seconds(event->time_ns - t->start_ns), t->phase);
    if (event->planned_ns > 0)
        fprintf(t->out, " (%.0f s)", seconds(event->planned_ns));
    fputc('\n', t->out);
}

static void take_load(struct watch_terminal *t, const struct vt_load_second *load)
{
    if (load->second != t->last_second) {
        t->last_second = load->second;
        t->last_second_intended = 0;
    }
    t->last_second_intended += load->intended;
    t->not_good += load->slow + load->wrong + load->failed;
    vt_hist_merge(t->response, load->response);
}

static void take_text(struct watch_terminal *t, const struct vt_event *event)
{
    static const char *const names[] = {"", "warning: ", "error: "};
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(4 * VT_ERROR_TEXT_MAX);

    /* It may be a guest that says this: nothing of it is an order to the terminal. */
    result_print_text(&text, event->text ? event->text : "");
    if (event->level != VT_LEVEL_INFO)
        t->warnings++;
    clear_line(t);
    fprintf(t->out, "[%6.1f s] %s%s%s%s\n", seconds(event->time_ns - t->start_ns),
            names[event->level], event->source ? event->source : "", event->source ? ": " : "",
            text.data ? text.data : "");
}

static void take(struct vt_sink *sink, const struct vt_event *event)
{
    struct watch_terminal *t = (struct watch_terminal *)sink;

    switch (event->type) {
    case VT_EVENT_PHASE:
        clear_line(t);
        take_phase(t, event);
        break;
    case VT_EVENT_LOAD:
        take_load(t, event->load);
        return;
    case VT_EVENT_NOTE:
    case VT_EVENT_AGENT:
    case VT_EVENT_VERDICT:
        take_text(t, event);
        break;
    case VT_EVENT_SAMPLE:
    case VT_EVENT_LOG:
        return;
    }
    fflush(t->out);
}

void watch_terminal_tick(struct watch_terminal *t)
{
    int64_t now_ns = vt_clock_now_ns();

    if (t->phase[0] == '\0')
        return;
    if (t->tty) {
        clear_line(t);
        write_line(t, now_ns);
        t->painted = true;
    } else if (now_ns >= t->next_plain_ns) {
        t->next_plain_ns += PLAIN_EVERY_NS;
        write_line(t, now_ns);
        fputc('\n', t->out);
    }
    fflush(t->out);
}

int watch_terminal_init(struct watch_terminal *t, FILE *out, const struct spec *spec,
                        struct vt_error *err)
{
    memset(t, 0, sizeof(*t));
    t->response = malloc(sizeof(*t->response));
    if (!t->response)
        return vt_error_no_memory(err, "terminal");
    vt_hist_init(t->response);
    t->sink.take = take;
    t->out = out;
    t->tty = isatty(fileno(out));
    t->start_ns = vt_clock_now_ns();
    for (size_t r = 0; r < spec->nroles; r++) {
        const struct spec_role *role = &spec->roles[r];

        for (size_t i = 0; role->driven && i < role->load.nlimits; i++)
            if (role->load.limits[i].percentile == P95 &&
                (t->limit_p95_ns == 0 || role->load.limits[i].limit_ns < t->limit_p95_ns))
                t->limit_p95_ns = role->load.limits[i].limit_ns;
    }
    return 0;
}

void watch_terminal_dispose(struct watch_terminal *t)
{
    clear_line(t);
    free(t->response);
    t->response = NULL;
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
