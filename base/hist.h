/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * hist: log-linear histogram of non-negative int64_t values (ns), 7 bits of mantissa: values
 * below 256 are exact, above that a bucket spans at most 1/128 of its lower edge and its middle is
 * reported, so |reported - true| <= true / 256 (0.39 %). Merge is addition: exact and
 * independent of order. Record is one increment, no branch on memory, no allocation.
 */
#ifndef VT_BASE_HIST_H
#define VT_BASE_HIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

#define VT_HIST_BITS 7
#define VT_HIST_MAX_VALUE (INT64_C(1) << 42) /* 73 minutes; above is clipped and counted */
#define VT_HIST_BUCKETS ((42 - VT_HIST_BITS + 1) * (1 << VT_HIST_BITS))

struct vt_hist {
    uint64_t count;     /* all values, clipped ones included */
    uint64_t clipped;   /* values above VT_HIST_MAX_VALUE, in the last bucket */
    int64_t min, max;   /* true extremes; count == 0: min = INT64_MAX, max = -1 */
    long double sum;    /* true sum, for the mean */
    uint64_t bucket[VT_HIST_BUCKETS];
};

void vt_hist_init(struct vt_hist *h);
void vt_hist_record(struct vt_hist *h, int64_t value); /* a negative value counts as 0 */
void vt_hist_merge(struct vt_hist *into, const struct vt_hist *from);
/* Value v such that at least ceil(permille_x1000/1e5 ...) -- q is in millionths: 950000 = p95.
 * Nearest rank; result clamped into [min, max]; -1 for an empty histogram. */
int64_t vt_hist_quantile(const struct vt_hist *h, uint32_t q_millionths);
/* Number of values <= limit, within the bucket error. */
uint64_t vt_hist_count_upto(const struct vt_hist *h, int64_t limit);

/* Sparse form: LEB128 of count, clipped, min, max, sum (ns, as integer), number of pairs, then
 * (index gap, count) pairs. Appends to out; an empty histogram is a few bytes. */
void vt_hist_encode(const struct vt_hist *h, struct vt_buf *out);
/* Adds the encoded histogram to *into. Refuses anything vt_hist_encode would not have written
 * (-EBADMSG): indices out of range, counts that do not add up, extremes outside their buckets. On error *into is unchanged. *ret_used: bytes read. */
int vt_hist_decode_add(struct vt_hist *into, const void *data, size_t len, size_t *ret_used,
                       struct vt_error *err);

#endif
