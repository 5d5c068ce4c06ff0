/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * hist: log-linear histogram of non-negative int64_t values (ns), 7 bits of mantissa: values
 * below 256 are exact, above that a bucket spans at most 1/128 of its lower edge and its middle is
 * reported, so |reported - true| <= true / 256 (0.39 %; proof in hist.c). Merge is addition: exact
 * and independent of order, the sum too. Record is a few additions: no branch on the buckets, no
 * allocation.
 */
#ifndef VT_BASE_HIST_H
#define VT_BASE_HIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

#define VT_HIST_BITS 7
#define VT_HIST_MAX_VALUE ((INT64_C(1) << 42) - 1) /* 73 minutes; above is clipped and counted */
#define VT_HIST_BUCKETS ((42 - VT_HIST_BITS + 1) * (1 << VT_HIST_BITS))

/* 36 KiB: not for the stack of a small thread. Counts are taken to stay below 2^64. */
struct vt_hist {
    uint64_t count;        /* all values, clipped ones included */
    uint64_t clipped;      /* values above VT_HIST_MAX_VALUE, in the last bucket */
    int64_t min, max;      /* true extremes; count == 0: min = INT64_MAX, max = -1 */
    unsigned __int128 sum; /* exact, of the true values: below 2^64 * 2^63 */
    uint64_t bucket[VT_HIST_BUCKETS];
};

void vt_hist_init(struct vt_hist *h);
void vt_hist_record(struct vt_hist *h, int64_t value); /* a negative value counts as 0 */
void vt_hist_merge(struct vt_hist *into, const struct vt_hist *from);
/* q in millionths: 950000 = p95; more than 1000000 is taken as that. Nearest rank: the value of
 * rank max(1, ceil(q * count / 10^6)) in ascending order, reported as its bucket's middle, clamped
 * into [min, max]; ranks 1 and count give min and max exactly. A rank among the clipped values
 * gives max, so that clipping never flatters. -1 for an empty histogram. */
int64_t vt_hist_quantile(const struct vt_hist *h, uint32_t q_millionths);
/* The same for a rank, 1 being the least value; one above count is taken as count. */
int64_t vt_hist_at_rank(const struct vt_hist *h, uint64_t rank);
/* Number of ranks whose value, as vt_hist_at_rank reports it, is at most limit: of the true values
 * those <= some limit' with |limit' - limit| <= limit / 256. Exact where limit >= max or limit <
 * min. Clipped values are counted only where limit >= max. */
uint64_t vt_hist_count_upto(const struct vt_hist *h, int64_t limit);

/* The same for histograms that are seen one after the other: what is added up gives the number that
 * they would give merged, without being kept. */
struct vt_hist_cut {
    int64_t limit;
    uint64_t count;  /* all values */
    uint64_t middle; /* those in buckets whose middle is at most limit, clipped ones excluded */
    int64_t min, max;
};
void vt_hist_cut_init(struct vt_hist_cut *cut, int64_t limit);
void vt_hist_cut_add(struct vt_hist_cut *cut, const struct vt_hist *h);
uint64_t vt_hist_cut_upto(const struct vt_hist_cut *cut);

/* Sparse form: LEB128 of count, clipped, min, max, sum (ns), number of pairs, then pairs (buckets
 * skipped, count) in ascending order. An empty histogram is the byte 0. Appends to out. */
void vt_hist_encode(const struct vt_hist *h, struct vt_buf *out);
/* Adds the encoded histogram to *into. Refuses with -EBADMSG anything that vt_hist_encode would not
 * have written for some set of values: numbers longer than needed, indices out of range, counts
 * that do not add up, extremes outside their buckets, sums that no such values have; and what
 * would overflow *into. On error *into is unchanged. *ret_used: bytes read; more may follow. */
int vt_hist_decode_add(struct vt_hist *into, const void *data, size_t len, size_t *ret_used,
                       struct vt_error *err);

#endif
