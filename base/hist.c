/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
#include "base/hist.h"

#include <string.h>

#define SUB_COUNT (INT64_C(1) << VT_HIST_BITS)

/*
 * Buckets. A value v below 2^(B+1), B = VT_HIST_BITS, has bucket v. A larger one, with 2^e <= v <
 * 2^(e+1), has s = e - B >= 1 and bucket s * 2^B + (v >> s); v >> s lies in [2^B, 2^(B+1)), so the
 * buckets of s + 1 follow those of s without gap or overlap, and those of s = 1 follow the exact
 * ones.
 *
 * Bound. A bucket of shift s holds the w = 2^s values [L, L + w - 1] with L = (v >> s) * w >= 2^B *
 * w. Reported is M = L + w / 2 (w = 1: L itself). For any v in it |M - v| <= w / 2 <= L / 2^(B+1)
 * <= v / 256. Clamping into [min, max] of the recorded values only moves M towards the values that
 * the bucket can hold, hence never raises the error.
 */
static unsigned bucket_of(int64_t value)
{
    unsigned shift;

    if (value > VT_HIST_MAX_VALUE)
        return VT_HIST_BUCKETS - 1;
    shift = 63 - VT_HIST_BITS - (unsigned)__builtin_clzll((uint64_t)value | (uint64_t)SUB_COUNT);
    return shift * (unsigned)SUB_COUNT + (unsigned)(value >> shift);
}

static unsigned shift_of(unsigned bucket)
{
    return bucket < 2 * SUB_COUNT ? 0 : bucket / (unsigned)SUB_COUNT - 1;
}

static int64_t lower_edge(unsigned bucket)
{
    unsigned shift = shift_of(bucket);

    return (int64_t)(bucket - shift * (unsigned)SUB_COUNT) << shift;
}

/* The largest value of a bucket. */
static int64_t upper_edge(unsigned bucket)
{
    return lower_edge(bucket) + (INT64_C(1) << shift_of(bucket)) - 1;
}

/* What is reported of its values; without a shift the value itself. */
static int64_t middle_of(unsigned bucket)
{
    return lower_edge(bucket) + (INT64_C(1) << shift_of(bucket)) / 2;
}

void vt_hist_init(struct vt_hist *h)
{
    memset(h, 0, sizeof(*h));
    h->min = INT64_MAX;
    h->max = -1;
}

void vt_hist_record(struct vt_hist *h, int64_t value)
{
    if (value < 0)
        value = 0;
    h->count++;
    h->clipped += value > VT_HIST_MAX_VALUE;
    if (value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
    h->sum += (uint64_t)value;
    h->bucket[bucket_of(value)]++;
}

void vt_hist_merge(struct vt_hist *into, const struct vt_hist *from)
{
    into->count += from->count;
    into->clipped += from->clipped;
    if (from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->sum += from->sum;
    for (unsigned i = 0; i < VT_HIST_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

int64_t vt_hist_at_rank(const struct vt_hist *h, uint64_t rank)
{
    uint64_t seen = 0;

    if (h->count == 0)
        return -1;
    if (rank <= 1)
        return h->min;
    if (rank > h->count - h->clipped || rank == h->count)
        return h->max;
    for (unsigned i = 0; i < VT_HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen >= rank) {
            int64_t middle = middle_of(i);

            return middle < h->min ? h->min : middle > h->max ? h->max : middle;
        }
    }
    return h->max;
}

int64_t vt_hist_quantile(const struct vt_hist *h, uint32_t q_millionths)
{
    if (q_millionths > 1000000)
        q_millionths = 1000000;
    return vt_hist_at_rank(
        h, (uint64_t)(((unsigned __int128)q_millionths * h->count + 999999) / 1000000));
}

void vt_hist_cut_init(struct vt_hist_cut *cut, int64_t limit)
{
    *cut = (struct vt_hist_cut){.limit = limit, .min = INT64_MAX, .max = -1};
}

void vt_hist_cut_add(struct vt_hist_cut *cut, const struct vt_hist *h)
{
    unsigned end, last;

    if (h->count == 0)
        return;
    cut->count += h->count;
    if (h->min < cut->min)
        cut->min = h->min;
    if (h->max > cut->max)
        cut->max = h->max;
    if (cut->limit < 0)
        return;
    last = bucket_of(h->max);
    end = bucket_of(cut->limit);
    end += middle_of(end) <= cut->limit;
    for (unsigned i = bucket_of(h->min); i < end && i <= last; i++)
        cut->middle += h->bucket[i];
    if (end == VT_HIST_BUCKETS)
        cut->middle -= h->clipped;
}

uint64_t vt_hist_cut_upto(const struct vt_hist_cut *cut)
{
    if (cut->limit < cut->min)
        return 0;
    if (cut->limit >= cut->max)
        return cut->count;
    /* The first rank is min and the last one max, wherever the middles of their buckets lie. */
    if (cut->middle == 0)
        return 1;
    return cut->middle < cut->count ? cut->middle : cut->count - 1;
}

uint64_t vt_hist_count_upto(const struct vt_hist *h, int64_t limit)
{
    struct vt_hist_cut cut;

    vt_hist_cut_init(&cut, limit);
    vt_hist_cut_add(&cut, h);
    return vt_hist_cut_upto(&cut);
}

/* --- sparse form --- */

static void put_number(struct vt_buf *out, unsigned __int128 value)
{
    uint8_t bytes[19];
    size_t n = 0;

    do {
        bytes[n] = (uint8_t)(value & 0x7f);
        value >>= 7;
        if (value)
            bytes[n] |= 0x80;
        n++;
    } while (value);
    vt_buf_add(out, bytes, n);
}

void vt_hist_encode(const struct vt_hist *h, struct vt_buf *out)
{
    unsigned pairs = 0, next = 0;

    put_number(out, h->count);
    if (h->count == 0)
        return;
    for (unsigned i = 0; i < VT_HIST_BUCKETS; i++)
        pairs += h->bucket[i] != 0;
    put_number(out, h->clipped);
    put_number(out, (uint64_t)h->min);
    put_number(out, (uint64_t)h->max);
    put_number(out, h->sum);
    put_number(out, pairs);
    for (unsigned i = 0; i < VT_HIST_BUCKETS; i++) {
        if (h->bucket[i] == 0)
            continue;
        put_number(out, i - next);
        put_number(out, h->bucket[i]);
        next = i + 1;
    }
}

struct reader {
    const uint8_t *at, *end;
};

/* A number of at most max, in its shortest form. */
static bool get_number(struct reader *in, unsigned __int128 max, unsigned __int128 *ret)
{
    unsigned __int128 value = 0;

    for (unsigned shift = 0; in->at < in->end && shift < 19 * 7; shift += 7) {
        uint8_t byte = *in->at++;
        unsigned __int128 part = (unsigned __int128)(byte & 0x7f) << shift;

        if (part >> shift != (byte & 0x7f))
            return false;
        value |= part;
        if (byte & 0x80)
            continue;
        if ((byte == 0 && shift > 0) || value > max)
            return false;
        *ret = value;
        return true;
    }
    return false;
}

static bool get_u64(struct reader *in, uint64_t max, uint64_t *ret)
{
    unsigned __int128 value;

    if (!get_number(in, max, &value))
        return false;
    *ret = (uint64_t)value;
    return true;
}

/* What stands before the pairs. */
struct head {
    uint64_t count, clipped, pairs;
    int64_t min, max;
    unsigned __int128 sum;
};

static const char *read_head(struct reader *in, struct head *h)
{
    uint64_t min, max;

    if (!get_u64(in, UINT64_MAX, &h->count))
        return "count is not a number";
    if (h->count == 0)
        return NULL;
    if (!get_u64(in, h->count, &h->clipped))
        return "clipped count is not a number or passes the count";
    if (!get_u64(in, INT64_MAX, &min) || !get_u64(in, INT64_MAX, &max) || min > max)
        return "extremes are not numbers in order";
    if (!get_number(in, ~(unsigned __int128)0, &h->sum))
        return "sum is not a number";
    if (!get_u64(in, VT_HIST_BUCKETS, &h->pairs) || h->pairs == 0)
        return "number of buckets is not a number in range";
    h->min = (int64_t)min;
    h->max = (int64_t)max;
    if ((h->clipped > 0) != (h->max > VT_HIST_MAX_VALUE) ||
        (h->clipped == h->count) != (h->min > VT_HIST_MAX_VALUE))
        return "clipped count does not fit the extremes";
    if (h->count == 1 && h->min != h->max)
        return "one value with two extremes";
    return NULL;
}

/* The least and largest sum that values with these counts can have. */
struct sums {
    unsigned __int128 least, most;
};

static void add_range(struct sums *sums, uint64_t count, int64_t low, int64_t high,
                      const struct head *h)
{
    if (low < h->min)
        low = h->min;
    if (high > h->max)
        high = h->max;
    if (count == 0)
        return;
    sums->least += (unsigned __int128)count * (uint64_t)low;
    sums->most += (unsigned __int128)count * (uint64_t)high;
}

/* One pair. *next: the first bucket that may come. */
static const char *read_pair(struct reader *in, const struct head *h, uint64_t *next,
                             uint64_t *ret_count)
{
    uint64_t gap;

    if (*next >= VT_HIST_BUCKETS || !get_u64(in, VT_HIST_BUCKETS - 1 - *next, &gap))
        return "bucket is not a number in range";
    if (!get_u64(in, h->count, ret_count) || *ret_count == 0)
        return "bucket's count is not a number in range";
    *next += gap + 1;
    return NULL;
}

static const char *check_sums(const struct head *h, struct sums *sums, unsigned last)
{
    bool min_clipped = h->clipped == h->count;
    /* One value is max, not the least of its range; one is min, not the largest of its. */
    int64_t max_low = h->clipped ? VT_HIST_MAX_VALUE + 1 : lower_edge(last);
    int64_t min_high = min_clipped ? INT64_MAX : upper_edge(bucket_of(h->min));

    if (max_low < h->min)
        max_low = h->min;
    if (min_high > h->max)
        min_high = h->max;
    sums->least += (uint64_t)(h->max - max_low);
    sums->most -= (uint64_t)(min_high - h->min);
    return h->sum < sums->least || h->sum > sums->most ? "sum does not fit the buckets" : NULL;
}

/* Reads the pairs without keeping them: everything that can be wrong is found here. */
static const char *check_pairs(struct reader *in, const struct head *h)
{
    struct sums sums = {0, 0};
    uint64_t next = 0, total = 0, count = 0;

    for (uint64_t i = 0; i < h->pairs; i++) {
        const char *why = read_pair(in, h, &next, &count);
        unsigned bucket = (unsigned)next - 1;
        uint64_t clipped = i + 1 == h->pairs ? h->clipped : 0;

        if (why)
            return why;
        if (__builtin_add_overflow(total, count, &total))
            return "counts do not add up";
        if (i == 0 && bucket != bucket_of(h->min))
            return "least value is outside the first bucket";
        if (clipped > count)
            return "more values clipped than the last bucket has";
        add_range(&sums, count - clipped, lower_edge(bucket), upper_edge(bucket), h);
        add_range(&sums, clipped, VT_HIST_MAX_VALUE + 1, INT64_MAX, h);
    }
    if (total != h->count)
        return "counts do not add up";
    if (next - 1 != bucket_of(h->max))
        return "largest value is outside the last bucket";
    return check_sums(h, &sums, (unsigned)next - 1);
}

int vt_hist_decode_add(struct vt_hist *into, const void *data, size_t len, size_t *ret_used,
                       struct vt_error *err)
{
    const uint8_t *start = len ? data : (const uint8_t *)"";
    struct reader in = {start, start + len};
    struct reader pairs;
    struct head h;
    const char *why = read_head(&in, &h);
    uint64_t next = 0, count = 0;

    pairs = in;
    if (!why && h.count > 0)
        why = check_pairs(&in, &h);
    if (!why && into->count > UINT64_MAX - h.count)
        why = "counts too large to be added";
    if (why)
        return vt_error_refuse(err, "damaged histogram: %s (byte %zu)", why,
                               (size_t)(in.at - start));
    *ret_used = (size_t)(in.at - start);
    if (h.count == 0)
        return 0;
    for (uint64_t i = 0; i < h.pairs; i++) {
        read_pair(&pairs, &h, &next, &count);
        into->bucket[next - 1] += count;
    }
    into->count += h.count;
    into->clipped += h.clipped;
    into->sum += h.sum;
    if (h.min < into->min)
        into->min = h.min;
    if (h.max > into->max)
        into->max = h.max;
    return 0;
}
