/* SPDX-License-Identifier: Apache-2.0 */
#include "base/event.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

#define NOTE_MAX 1024

void vt_bus_add(struct vt_bus *bus, struct vt_sink *sink)
{
    struct vt_sink **at = &bus->first;

    while (*at)
        at = &(*at)->next;
    sink->next = NULL;
    *at = sink;
}

void vt_bus_remove(struct vt_bus *bus, struct vt_sink *sink)
{
    struct vt_sink **at = &bus->first;

    while (*at && *at != sink)
        at = &(*at)->next;
    if (*at)
        *at = sink->next;
}

void vt_bus_emit(struct vt_bus *bus, const struct vt_event *event)
{
    for (struct vt_sink *sink = bus->first; sink; sink = sink->next)
        sink->take(sink, event);
}

void vt_bus_note(struct vt_bus *bus, enum vt_event_level level, const char *fmt, ...)
{
    char text[NOTE_MAX];
    struct vt_event event = {
        .type = VT_EVENT_NOTE, .level = level, .source = "controller", .text = text};
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    event.time_ns = vt_clock_now_ns();
    vt_bus_emit(bus, &event);
}

const char *vt_event_type_name(enum vt_event_type type)
{
    switch (type) {
    case VT_EVENT_NOTE:
        return "note";
    case VT_EVENT_PHASE:
        return "phase";
    case VT_EVENT_AGENT:
        return "agent";
    case VT_EVENT_LOAD:
        return "load";
    case VT_EVENT_SAMPLE:
        return "sample";
    case VT_EVENT_LOG:
        return "log";
    case VT_EVENT_VERDICT:
        return "verdict";
    }
    return "?";
}

bool vt_event_type_is_wide(enum vt_event_type type)
{
    return type == VT_EVENT_LOAD || type == VT_EVENT_SAMPLE || type == VT_EVENT_LOG;
}

bool vt_event_type_find(const char *name, enum vt_event_type *ret)
{
    for (enum vt_event_type type = VT_EVENT_NOTE; type <= VT_EVENT_VERDICT; type++) {
        if (vt_event_type_is_wide(type) || strcmp(name, vt_event_type_name(type)) != 0)
            continue;
        *ret = type;
        return true;
    }
    return false;
}

static const char *level_text(enum vt_event_level level)
{
    switch (level) {
    case VT_LEVEL_INFO:
        return "info";
    case VT_LEVEL_WARNING:
        return "warning";
    case VT_LEVEL_ERROR:
        return "error";
    }
    return "?";
}

static void write_if(struct vt_json *w, const char *key, const char *value)
{
    if (value)
        vt_json_string(w, key, value);
}

static void write_times(struct vt_json *w, const char *key, const struct vt_hist *h)
{
    if (!h)
        return;
    vt_json_object(w, key);
    vt_json_uint(w, "count", h->count);
    if (h->count > 0) {
        vt_json_int(w, "p50_ns", vt_hist_quantile(h, 500000));
        vt_json_int(w, "p95_ns", vt_hist_quantile(h, 950000));
        vt_json_int(w, "p99_ns", vt_hist_quantile(h, 990000));
        vt_json_int(w, "max_ns", h->max);
        vt_json_uint(w, "clipped", h->clipped);
    }
    vt_json_end(w);
}

static void write_rates(struct vt_json *w, const struct vt_hist *h)
{
    if (!h || h->count == 0)
        return;
    vt_json_object(w, "rate");
    vt_json_uint(w, "count", h->count);
    vt_json_int(w, "min_bytes_per_s", h->min);
    vt_json_int(w, "p50_bytes_per_s", vt_hist_quantile(h, 500000));
    vt_json_uint(w, "clipped", h->clipped);
    vt_json_end(w);
}

static void write_load(struct vt_json *w, const struct vt_load_second *load)
{
    vt_json_string(w, "operation", load->operation);
    vt_json_int(w, "second", load->second);
    vt_json_uint(w, "intended", load->intended);
    vt_json_uint(w, "good", load->good);
    vt_json_uint(w, "slow", load->slow);
    vt_json_uint(w, "wrong", load->wrong);
    vt_json_uint(w, "failed", load->failed);
    vt_json_uint(w, "bytes", load->bytes);
    write_times(w, "response", load->response);
    write_times(w, "service", load->service);
    write_times(w, "wake_lag", load->wake_lag);
    write_rates(w, load->rate);
}

static void write_sample(struct vt_json *w, const struct vt_event *event)
{
    vt_json_string(w, "series", event->series);
    if (isfinite(event->value)) {
        vt_json_double(w, "value", event->value, 6);
        write_if(w, "text", event->text);
        return;
    }
    vt_json_null(w, "value");
    vt_json_string(w, "why", event->text ? event->text : "not available");
}

void vt_event_write_json(const struct vt_event *event, struct vt_buf *out)
{
    struct vt_json w;

    vt_json_message(&w, out, vt_event_type_name(event->type));
    vt_json_int(&w, "time_ns", event->time_ns);
    if (event->tile > 0)
        vt_json_uint(&w, "tile", event->tile);
    write_if(&w, "role", event->role);
    write_if(&w, "phase", event->phase);
    write_if(&w, "source", event->source);
    switch (event->type) {
    case VT_EVENT_VERDICT:
        write_if(&w, "code", event->series);
        vt_json_string(&w, "level", level_text(event->level));
        write_if(&w, "text", event->text);
        break;
    case VT_EVENT_NOTE:
    case VT_EVENT_AGENT:
        vt_json_string(&w, "level", level_text(event->level));
        write_if(&w, "text", event->text);
        break;
    case VT_EVENT_PHASE:
        vt_json_int(&w, "planned_ns", event->planned_ns);
        write_if(&w, "text", event->text);
        break;
    case VT_EVENT_LOAD:
        if (event->load)
            write_load(&w, event->load);
        break;
    case VT_EVENT_SAMPLE:
        write_sample(&w, event);
        break;
    case VT_EVENT_LOG:
        vt_json_string(&w, "series", event->series);
        write_if(&w, "text", event->text);
        break;
    }
    vt_json_end(&w);
}
