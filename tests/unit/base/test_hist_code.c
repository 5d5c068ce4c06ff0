/* SPDX-License-Identifier: Apache-2.0 */
/* The sparse form of histograms: what is written, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hist.h"
#include "base/rng.h"
#include "base/scope.h"

static struct vt_hist *new_hist(void)
{
    struct vt_hist *h = malloc(sizeof(*h));

    assert_non_null(h);
    vt_hist_init(h);
    return h;
}

static void random_hist(struct vt_hist *h, struct vt_rng *rng)
{
    uint64_t n = vt_rng_below(rng, 60);
    unsigned shift = (unsigned)vt_rng_below(rng, 50);

    vt_hist_init(h);
    while (n-- > 0)
        vt_hist_record(h, (int64_t)(vt_rng_next(rng) >> 1 >> shift >> vt_rng_below(rng, 14)));
}

static void what_is_written_comes_back(void **state)
{
    VT_AUTO_FREE struct vt_hist *h = new_hist();
    VT_AUTO_FREE struct vt_hist *back = new_hist();
    VT_AUTO_FREE struct vt_hist *before = new_hist();
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 1, "code", 0);
    for (int round = 0; round < 1500; round++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 20);
        struct vt_error err = VT_ERROR_INIT;
        size_t used = 0;

        random_hist(h, &rng);
        random_hist(back, &rng);
        *before = *back;
        vt_hist_encode(h, &out);
        assert_false(out.failed);
        /* Cut anywhere: refused, and nothing was added. */
        for (size_t cut = 0; cut < out.len; cut++) {
            VT_AUTO_FREE char *part = malloc(cut + 1);

            memcpy(part, out.data, cut);
            assert_int_equal(vt_hist_decode_add(back, cut ? part : NULL, cut, &used, &err),
                             -EBADMSG);
        }
        assert_memory_equal(back, before, sizeof(*back));
        vt_buf_adds(&out, "more");
        assert_int_equal(vt_hist_decode_add(back, out.data, out.len, &used, &err), 0);
        assert_int_equal(used, out.len - 4);
        vt_hist_merge(before, h);
        assert_memory_equal(back, before, sizeof(*back));
    }
}

/* One form only: whatever is accepted is what would be written for it. */
static void changed_bytes_are_refused_or_mean_something_else(void **state)
{
    VT_AUTO_FREE struct vt_hist *h = new_hist();
    VT_AUTO_FREE struct vt_hist *back = new_hist();
    unsigned refused = 0, tried = 0;
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 2, "code", 0);
    for (int round = 0; round < 60; round++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 20);

        random_hist(h, &rng);
        vt_hist_encode(h, &out);
        for (size_t bit = 0; bit < 8 * out.len; bit++) {
            VT_AUTO_BUF struct vt_buf again = VT_BUF_INIT(1U << 20);
            size_t used;

            out.data[bit / 8] ^= (char)(1 << bit % 8);
            vt_hist_init(back);
            tried++;
            if (vt_hist_decode_add(back, out.data, out.len, &used, NULL) == 0) {
                vt_hist_encode(back, &again);
                assert_int_equal(again.len, used);
                assert_memory_equal(again.data, out.data, used);
            } else {
                refused++;
            }
            out.data[bit / 8] ^= (char)(1 << bit % 8);
        }
    }
    /* The rest are other sums and shifts of all that the same buckets can hold. */
    assert_true(refused > tried / 2);
    print_message("%u of %u refused\n", refused, tried);
}

/* By hand: {count, clipped, min, max, sum, pairs, (gap, count)...}, each below 128 or two bytes. */
static void the_form_is_as_stated(void **state)
{
    VT_AUTO_FREE struct vt_hist *h = new_hist();
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);

    (void)state;
    vt_hist_encode(h, &out);
    assert_int_equal(out.len, 1);
    assert_int_equal(out.data[0], 0);
    vt_buf_reset(&out);
    vt_hist_record(h, 3);
    vt_hist_record(h, 3);
    vt_hist_record(h, 300); /* bucket 1 * 128 + 300 / 2 = 278 */
    vt_hist_encode(h, &out);
    static const uint8_t want[] = {3, 0, 3, 0xac, 2, 0xb2, 2, 2, 3, 2, 0x92, 2, 1};
    assert_int_equal(out.len, sizeof(want));
    assert_memory_equal(out.data, want, sizeof(want));
}

static void edited_histograms_are_refused(void **state)
{
    static const struct {
        const char *what;
        uint8_t bytes[24];
        size_t len;
    } table[] = {
        {"longer than needed", {0x80, 0}, 2},
        {"longer than needed inside", {1, 0, 3, 0x83, 0, 3, 1, 3, 1}, 9},
        {"count above 64 bits",
         {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 1, 0, 1},
         17},
        {"sum above 128 bits",
         {1,    0,    3,    3,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
          0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7,    1},
         24},
        {"clipped above count", {1, 2, 3, 3, 3, 1, 3, 1}, 8},
        {"clipped without a large value", {1, 1, 3, 3, 3, 1, 3, 1}, 8},
        {"extremes crossed", {2, 0, 4, 3, 7, 1, 3, 2}, 8},
        {"one value, two extremes", {1, 0, 3, 4, 3, 1, 3, 1}, 8},
        {"no pair", {1, 0, 3, 3, 3, 0}, 6},
        {"counts too few", {2, 0, 3, 3, 6, 1, 3, 1}, 8},
        {"counts too many", {1, 0, 3, 3, 3, 1, 3, 2}, 8},
        {"an empty pair", {1, 0, 3, 3, 3, 2, 3, 1, 0, 0}, 10},
        {"min in another bucket", {2, 0, 2, 3, 5, 1, 3, 2}, 8},
        {"max in another bucket", {2, 0, 3, 4, 7, 1, 3, 2}, 8},
        {"bucket out of range", {1, 0, 3, 3, 3, 1, 0x80, 0x24, 1}, 9},
        {"next bucket out of range", {2, 0, 3, 4, 7, 2, 3, 1, 0xfc, 0x23, 1}, 11},
        {"sum too small", {2, 0, 3, 4, 6, 2, 3, 1, 0, 1}, 10},
        {"sum too large", {2, 0, 3, 4, 8, 2, 3, 1, 0, 1}, 10},
        {"nothing", {0}, 0},
    };
    VT_AUTO_FREE struct vt_hist *h = new_hist();
    VT_AUTO_FREE struct vt_hist *empty = new_hist();
    static const uint8_t good[] = {2, 0, 3, 4, 7, 2, 3, 1, 0, 1};
    size_t used;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(table); i++) {
        struct vt_error err = VT_ERROR_INIT;
        int r = vt_hist_decode_add(h, table[i].bytes, table[i].len, &used, &err);

        if (r != -EBADMSG)
            print_error("accepted: %s\n", table[i].what);
        assert_int_equal(r, -EBADMSG);
        assert_int_equal(err.kind, VT_KIND_REFUSED);
        assert_memory_equal(h, empty, sizeof(*h));
    }
    assert_int_equal(vt_hist_decode_add(h, good, sizeof(good), &used, NULL), 0);
}

/* For a few small values, all sums: exactly those that some values have are accepted. */
static void exactly_the_possible_sums_are_accepted(void **state)
{
    VT_AUTO_FREE struct vt_hist *h = new_hist();

    (void)state;
    /* Values 512..515 share a bucket; 516..519 the next: least 513, largest 518, n in each. */
    for (unsigned a = 1; a <= 3; a++) {
        for (unsigned b = 1; b <= 3; b++) {
            unsigned least = 513 * a + 516 * (b - 1) + 518;
            unsigned most = 513 + 515 * (a - 1) + 518 * b;

            for (unsigned sum = least - 20; sum < most + 20; sum++) {
                uint8_t data[] = {(uint8_t)(a + b),
                                  0,
                                  0x81,
                                  4, /* 513 */
                                  0x86,
                                  4, /* 518 */
                                  (uint8_t)(0x80 | (sum & 0x7f)),
                                  (uint8_t)(sum >> 7),
                                  2,
                                  0x80,
                                  3, /* bucket 2 * 128 + 512 / 4 = 384 */
                                  (uint8_t)a,
                                  0,
                                  (uint8_t)b};
                size_t used;
                int r = vt_hist_decode_add(h, data, sizeof(data), &used, NULL);

                assert_int_equal(r, sum >= least && sum <= most ? 0 : -EBADMSG);
            }
        }
    }
}

static void counts_do_not_overflow(void **state)
{
    VT_AUTO_FREE struct vt_hist *h = new_hist();
    VT_AUTO_FREE struct vt_hist *before = new_hist();
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    size_t used;

    (void)state;
    h->count = h->bucket[0] = UINT64_MAX;
    h->min = h->max = 0;
    vt_hist_encode(h, &out);
    *before = *h;
    assert_int_equal(vt_hist_decode_add(h, out.data, out.len, &used, NULL), -EBADMSG);
    assert_memory_equal(h, before, sizeof(*h));
    vt_hist_init(h);
    assert_int_equal(vt_hist_decode_add(h, out.data, out.len, &used, NULL), 0);
    assert_memory_equal(h, before, sizeof(*h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(changed_bytes_are_refused_or_mean_something_else),
        cmocka_unit_test(the_form_is_as_stated),
        cmocka_unit_test(edited_histograms_are_refused),
        cmocka_unit_test(exactly_the_possible_sums_are_accepted),
        cmocka_unit_test(counts_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
