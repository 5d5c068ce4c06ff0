/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event: what happens in a run, as one stream. Phases, the hub and the samplers emit; the record,
 * the terminal, --json and the report are sinks. An event is a value; its strings live until the
 * call of the sink returns. All on the loop's thread.
 */
#ifndef VT_BASE_EVENT_H
#define VT_BASE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hist.h"
#include "base/text.h"

enum vt_event_type {
    VT_EVENT_NOTE,    /* text; level */
    VT_EVENT_PHASE,   /* phase entered: name in phase, planned length */
    VT_EVENT_AGENT,   /* an agent came, went, was lost: text */
    VT_EVENT_LOAD,    /* one second of one role of one tile and operation */
    VT_EVENT_SAMPLE,  /* one value of a series (guest or host) */
    VT_EVENT_LOG,     /* a chunk of a guest's or server's log */
    VT_EVENT_VERDICT, /* a reason for DEGRADED or INVALID */
};
enum vt_event_level { VT_LEVEL_INFO, VT_LEVEL_WARNING, VT_LEVEL_ERROR };

/* Counters of one second. intended = good + slow + wrong + failed once the window is drained:
 * good: correct and within good_limit; slow: correct, later; wrong: contents or status not as
 * they must be; failed: no whole answer (connection, time-out, open at the end of drain).
 * A request is counted in the second of its intended time. */
struct vt_load_second {
    const char *operation; /* "home", "search", ... */
    int64_t second;        /* since T0 of the load, of the intended time */
    uint64_t intended, good, slow, wrong, failed, bytes;
    /* response (from the intended time) and service: of correct answers, good and slow. Wrong and
     * failed requests stand in the counters alone: QoS puts them beyond every limit, whatever
     * their age. wake_lag: of every request sent. */
    const struct vt_hist *response, *service, *wake_lag;
    /* Bytes of body a second of service time, of correct answers of an operation that has a limit
     * of it; empty for others. */
    const struct vt_hist *rate;
};

struct vt_event {
    enum vt_event_type type;
    enum vt_event_level level;
    int64_t time_ns; /* monotonic clock of the controller */
    unsigned tile;   /* 1-based; 0: the whole run */
    const char *role, *phase;
    const char *source; /* who: "controller", "web-1", "host" */
    const char *text;
    int64_t planned_ns; /* PHASE: 0 = open end */
    /* SAMPLE: "cpu.user", LOG: "nginx.access"; VERDICT: "vm-gone", "code" in JSON */
    const char *series;
    double value; /* SAMPLE; NaN = not available, text says because of what */
    const struct vt_load_second *load;
};

struct vt_sink {
    void (*take)(struct vt_sink *sink, const struct vt_event *event);
    struct vt_sink *next;
};
struct vt_bus {
    struct vt_sink *first;
};

void vt_bus_add(struct vt_bus *bus, struct vt_sink *sink); /* at the end; sink outlives the bus */
void vt_bus_remove(struct vt_bus *bus, struct vt_sink *sink); /* not from inside take */
void vt_bus_emit(struct vt_bus *bus, const struct vt_event *event);
void vt_bus_note(struct vt_bus *bus, enum vt_event_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As JSON and records name it: "note". */
const char *vt_event_type_name(enum vt_event_type type);
/* Load, samples and logs: far more than of all others. */
bool vt_event_type_is_wide(enum vt_event_type type);
/* Of the types that are not wide; false: none has that name. */
bool vt_event_type_find(const char *name, enum vt_event_type *ret);

/* One line of JSON without newline: {"v":1,"type":"phase","time_ns":...}. Keys are the fields'
 * names, absent where NULL or 0; value has 6 decimals, and is null with "why" where not available;
 * a histogram is {"count","p50_ns","p95_ns","p99_ns","max_ns","clipped"}, count 0 alone; one of
 * rates is {"count","min_bytes_per_s","p50_bytes_per_s","clipped"}, absent when empty. */
void vt_event_write_json(const struct vt_event *event, struct vt_buf *out);

#endif
