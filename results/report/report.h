/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report: one self-contained HTML file that says what a record holds: verdict, what failed first
 * and why, tiles, limits, the course over time, configuration. No script, nothing loaded from
 * elsewhere; the same archive gives the same bytes.
 */
#ifndef VTILE_RESULTS_REPORT_REPORT_H
#define VTILE_RESULTS_REPORT_REPORT_H

#include <stddef.h>

#include "base/error.h"
#include "base/text.h"
#include "results/record.h"

#define REPORT_SUFFIX ".html"
/* Bound of the whole file; docs/report.md says how large reports are. */
#define REPORT_BYTES_MAX ((size_t)64 << 20)

/* Where the record came from; "" where that is not known. */
struct report_source {
    const char *archive_sha256; /* hex */
    const char *signer;         /* fingerprint, hex */
};

/* Appends to out, whose max is REPORT_BYTES_MAX at most. */
int report_write(struct record_reader *reader, const struct report_source *source,
                 struct vt_buf *out, struct vt_error *err);

#endif
