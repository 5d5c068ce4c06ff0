/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result: QoS, score and verdict of one record, and how they are written: the last line of
 * --json, the manifest of an archive, a text for people. The same record gives the same bytes.
 */
#ifndef VTILE_RESULTS_RESULT_H
#define VTILE_RESULTS_RESULT_H

#include "base/error.h"
#include "base/text.h"
#include "results/kept.h"
#include "results/qos.h"
#include "results/record.h"
#include "results/score.h"
#include "results/verdict.h"

/* SPEC is a trademark: these words stand wherever the number is shown. */
#define RESULT_METRIC "vtile score (SPECvirt_sc2013-style, not a SPEC metric)"

/* The rules by which verdict, QoS and score follow from a record. One more whenever a record may
 * give something else than before: what was sealed by these very rules must come out again, what
 * was sealed by others need not. Results without a number are of rules 0. */
#define RESULT_RULES 2

struct result {
    char run[64];
    char wall_start[32]; /* "" when unknown */
    char spec[64];
    char preset[32];
    char load[32], tiles[16], host[256]; /* for people; "" when unknown */
    struct qos qos;
    struct score score;
    struct verdict verdict;
    struct kept kept;
    /* For people: who filled the host; empty unless it was full and QoS failed. */
    struct vt_buf busy;
};

/* Zeroed *ret is filled; dispose also after an error. */
int result_compute(struct record_reader *reader, struct result *ret, struct vt_error *err);
void result_dispose(struct result *result);

/* {"v":1,"type":"result","run":...,"archive":...,"verdict":...,"reasons":[...],"qos":...,"score":
 * ...,"tiles":[{"tile":1,"score":...,"web":{"rate":...,"p95_ms":...}}],...} without newline;
 * "kept" only where something was acknowledged: [{"tile","role","acknowledged","kept","missing"}].
 * archive: path, or NULL: the key is left out (as in a manifest). Keys may be added, none may
 * change: sealed results are held against recomputed ones for ever. "rules" is RESULT_RULES. */
void result_write_json(const struct result *result, const char *archive, struct vt_buf *out);
/* Appends text as a terminal may be given it: control characters escaped. */
void result_print_text(struct vt_buf *out, const char *text);
/* Several lines for people. */
void result_write_text(const struct result *result, struct vt_buf *out);

#endif
