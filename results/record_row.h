/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_row: one second of one role's load as a blob: a byte 2 (its version), then for each
 * operation LEB128 of the name's length, the name, LEB128 of intended, good, slow, wrong, failed,
 * bytes, then the sparse histograms (base/hist.h) of response, service, wake lag and rate. Version
 * 1, of records of version 1, has no rates.
 */
#ifndef VTILE_RESULTS_RECORD_ROW_H
#define VTILE_RESULTS_RECORD_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/event.h"
#include "base/text.h"
#include "results/record.h"

/* Of one counter in one row: sums over all seconds then stay below 2^63. */
#define RECORD_COUNT_MAX (UINT64_C(1) << 40)

/* Of roles, operations and agents: printable ASCII without blank, quote or backslash, at least 1
 * and less than VT_RECORD_NAME_MAX. */
bool record_name_ok(const char *name, size_t len);

void record_row_begin(struct vt_buf *row);
void record_row_add(struct vt_buf *row, const struct vt_load_second *second);

/* Adds all of the row to *sum, operation by operation. On error *sum holds a part of it. The row's
 * version must be that of sum->has_rates. */
int record_row_sum(const void *data, size_t len, struct record_sum *sum, struct vt_error *err);

#endif
