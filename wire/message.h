/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message: what stands in the frames. Everything read here may come from a hostile peer: lengths,
 * names, ranges and sums are checked before anything is given out (VT_KIND_REFUSED, -EBADMSG).
 *
 * Calls of the controller; all times on the clock that the name says:
 *   guest   prepare {seed, data_bytes, vcpus, log_requests}   contents and configuration
 *           start {}           servers run
 *           ready {timeout_ns} answers once a real answer came from the server
 *           check {}           facts for the record
 *           logs {max_bytes}   WIRE_LOG frames, then {"logs":[{name, bytes, cut}]}; with
 *                              kept.<role>.<tile>.bits where check has left such (roles/role.h)
 *           sample {}          WIRE_SAMPLE frames each second from now on
 *           work {t0_ns: of the agent's clock, order: of tiles/load/jobs.h}   begins, answers {}
 *           work.stop {}       ends early; work.finished still comes
 *           poweroff {}        answers, then the guest ends
 *   client  load.prepare (an order of tiles/load/order.h)  -> {"hash", "steps", "window_steps"}
 *           load.open {tile, role}    connects          -> {}
 *           load.start {tile, role, t0_ns: of the agent's clock} -> {"fifo": in real time?}
 *           load.stop {tile, role}    ends early; load.finished still comes
 *           load.acknowledged {tile, role}  once it has finished: WIRE_LOG frames of
 *                              acknowledged.<role>.<tile>.bits, then {"bytes"}
 *   both    config {}      what the record keeps of this machine, text by name
 * Events {"kind", "text", ...}: server_died, work.finished ("totals", "overflowed", "why") (guest);
 * load.finished (client; "hash" of the schedule, "totals": see wire_totals_read, "generator": see
 * base/record_generator.h).
 */
#ifndef VTILE_WIRE_MESSAGE_H
#define VTILE_WIRE_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"
#include "base/record_rows.h"
#include "wire/frame.h"

#define WIRE_VERSION_MIN 2                 /* before: seconds of load without rates */
#define WIRE_CONTROLLER "vtile-controller" /* in its certificate, where no address is dialled */
#define WIRE_NAME_MAX 64                   /* with NUL: agents, operations, kinds, series, logs */
#define WIRE_TOKEN_MAX 129                 /* hex, with NUL */
#define WIRE_CSR_MAX 8192
#define WIRE_SERIES_MAX 128
#define WIRE_COUNT_MAX INT64_C(1000000000) /* requests of one operation in one second */
#define WIRE_SECOND_MAX VT_RECORD_SECONDS_MAX

/* Letters, digits, '-', '_', '.'; 1 to WIRE_NAME_MAX - 1 of them. */
bool wire_name_ok(const char *name);

/* --- who is there --- */
struct wire_hello {
    int64_t v, min; /* versions that the sender speaks */
    char agent[WIRE_NAME_MAX];
    char duty[WIRE_NAME_MAX];   /* HELLO */
    char token[WIRE_TOKEN_MAX]; /* ENROL */
    char csr[WIRE_CSR_MAX];     /* ENROL */
};
/* For WIRE_ENROL or WIRE_HELLO; *ret is the caller's. */
int wire_hello_write(enum wire_type type, const struct wire_hello *hello, json_t **ret,
                     struct vt_error *err);
int wire_hello_read(const struct wire_frame *frame, struct wire_hello *ret, struct vt_error *err);
/* The newest version that both speak; else an error that names both ranges. */
int wire_version_choose(const struct wire_hello *hello, int64_t *ret, struct vt_error *err);

/* --- control: an object of JSON --- */
/* what: for messages. *ret is the caller's. */
int wire_json_read(const struct wire_frame *frame, const char *what, json_t **ret,
                   struct vt_error *err);
json_t *wire_call_write(const char *op, const json_t *params); /* NULL: out of memory */
/* op and params are borrowed from call. */
int wire_call_read(const json_t *call, const char **ret_op, const json_t **ret_params,
                   struct vt_error *err);
/* failure NULL: ok with result (borrowed, NULL: {}). */
json_t *wire_reply_write(const json_t *result, const struct vt_error *failure);
/* 0 and the borrowed result, or the agent's failure in *err, with its kind and code. */
int wire_reply_read(const json_t *reply, const json_t **ret_result, struct vt_error *err);

/* --- packed --- */
/* A second of load. Appends the payload. */
int wire_load_write(struct vt_buf *out, unsigned tile, const char *role, unsigned operation,
                    const struct vt_load_second *second, struct vt_error *err);
struct wire_load {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX];
    unsigned operation; /* index; its name, and whether it exists, the reader's user knows */
    struct vt_load_second second; /* operation NULL; histograms below */
    struct vt_hist response, service, wake_lag, rate;
};
int wire_load_read(const struct wire_frame *frame, struct wire_load *ret, struct vt_error *err);

int wire_log_write(struct vt_buf *out, const char *name, const void *data, size_t len,
                   struct vt_error *err);
int wire_log_read(const struct wire_frame *frame, char name[WIRE_NAME_MAX], const uint8_t **ret,
                  size_t *ret_len, struct vt_error *err);

/* Samples: *ret holds "series" with finite numbers under good names; t_ns on the sender's clock. */
int wire_sample_read(const struct wire_frame *frame, int64_t *ret_t_ns, json_t **ret,
                     struct vt_error *err);

/* t0_ns of load.start and of work: seconds late or an hour ahead at most, beyond that a clock went
 * wrong. */
int wire_t0_read(const json_t *params, int64_t *ret_ns, struct vt_error *err);
/* Of a call of work: T0 as above, and from_s: the first second, since T0, that is asked for. Where
 * it is given, the guest was restarted: T0 may be as long ago as a run is, and negative. */
int wire_work_read(const json_t *params, int64_t *ret_t0_ns, bool *ret_resumed, int64_t *ret_from_s,
                   struct vt_error *err);

/* Totals of one role's load, as the member "totals" of load.finished. */
json_t *wire_totals_write(const struct vt_record_totals *totals); /* NULL: out of memory */
int wire_totals_read(const json_t *totals, struct vt_record_totals *ret, struct vt_error *err);

#endif
