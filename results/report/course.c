/* SPDX-License-Identifier: Apache-2.0 */
/* course: events, as a table and as marks in charts. */
#include "base/clock.h"
#include "base/scope.h"
#include "results/report/html.h"
#include "results/report/parts.h"

static double seconds_of(const struct report *report, const struct report_event *event)
{
    return ((double)event->time_ns - (double)report->samples.axis.t0_ns) / (double)VT_NS_PER_S;
}

size_t report_marks(const struct report *report, unsigned tile, struct svg_mark *marks)
{
    double end = (double)report->samples.axis.end_s;
    size_t n = 0;

    for (size_t i = 0; i < report->nevents && n < SVG_MARKS_MAX; i++) {
        const struct report_event *event = &report->events[i];
        double second = seconds_of(report, event);
        if (event->level == VT_LEVEL_INFO || event->type == VT_EVENT_PHASE || second < 0 ||
            second >= end || (event->tile != 0 && event->tile != tile))
            continue;
        marks[n++] = (struct svg_mark){second, (int)event->level};
    }
    return n;
}

static void put_event(const struct report *report, const struct report_event *event)
{
    static const char *const types[] = {[VT_EVENT_NOTE] = "note",
                                        [VT_EVENT_PHASE] = "phase",
                                        [VT_EVENT_AGENT] = "agent",
                                        [VT_EVENT_VERDICT] = "verdict"};
    static const char *const levels[] = {"", "warning", "error"};
    struct vt_buf *out = report->out;

    vt_buf_printf(out, "<tr class=\"e%d%s\">", (int)event->level,
                  event->type == VT_EVENT_PHASE ? " phase" : "");
    html_number(out, "%.1f", seconds_of(report, event));
    vt_buf_printf(out, "<td>%s%s%s</td>", types[event->type], *levels[event->level] ? ", " : "",
                  levels[event->level]);
    if (event->tile > 0)
        html_number(out, "%u", event->tile);
    else
        html_cell(out, "");
    html_cell(out, event->source);
    html_cell(out, event->type == VT_EVENT_PHASE ? event->phase : event->text);
    vt_buf_adds(out, "</tr>\n");
}

void report_events(const struct report *report)
{
    static const char *const heads[] = {"#second", "kind", "#tile", "who", "what", NULL};

    vt_buf_printf(
        report->out,
        "<section><details%s><summary><h2>Events</h2> %zu</summary>\n"
        "<p class=\"note\">Seconds since the load's start; what is before it is negative."
        " Warnings of limits come from the live view, which counts a request when its"
        " answer comes; this report counts it when it was due: the seconds in which a limit"
        " broke may differ between the two.</p>\n",
        report->nevents <= 60 ? " open" : "", report->nevents + report->events_more);
    html_table(report->out, "events", heads);
    for (size_t i = 0; i < report->nevents; i++)
        put_event(report, &report->events[i]);
    html_table_end(report->out);
    if (report->events_more > 0)
        vt_buf_printf(report->out, "<p class=\"note\">and %zu more, which are in the record</p>\n",
                      report->events_more);
    vt_buf_adds(report->out, "</details></section>\n");
}
