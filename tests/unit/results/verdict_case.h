/* SPDX-License-Identifier: Apache-2.0 */
/* verdict_case: a record with nothing in it that the verdict could name, but for one fault. */
#ifndef VTILE_TESTS_UNIT_RESULTS_VERDICT_CASE_H
#define VTILE_TESTS_UNIT_RESULTS_VERDICT_CASE_H

#include "sample.h"

#include "base/clock.h"
#include "results/result.h"

#define T0_NS (1000 * VT_NS_PER_S)
#define WINDOW_S 200 /* 5 % of it are 10 */

/* What differs from a record without a fault. */
struct fault {
    const char *meta, *value; /* of meta, besides */
    int64_t rtt_ns;           /* of both agents, at begin and end */
    int64_t client_moved_ns, guest_moved_ns;
    int guest_missing, host_missing, client_missing; /* samples of the window */
    /* The load client in so many seconds of it: shares of a CPU; stolen always. */
    int seconds;
    double cpu, delay, steal;
    const char *generator; /* NULL: without fault */
    struct vt_event event;
    const char *second; /* text of another event like it */
};

/* Without a fault: 64 connections, 1,799 gaps in 200 s. */
extern const char verdict_generator_whole[];

void verdict_judge(const struct fault *fault, struct result *result);
/* The path of its record. */
const char *verdict_record(const struct fault *fault);
void assert_nothing(const struct fault *fault);
/* Exactly this reason; words stand in its text. */
void assert_reason(const struct fault *fault, enum verdict_grade grade, const char *code,
                   int64_t number, const char *words);

#endif
