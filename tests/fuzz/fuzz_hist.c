/* SPDX-License-Identifier: Apache-2.0 */
/* Encoded histograms: what is accepted has one form, and its figures are in order. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct vt_hist h, before;
    VT_AUTO_BUF struct vt_buf again = VT_BUF_INIT(1U << 20);
    struct vt_error err = VT_ERROR_INIT;
    size_t used = SIZE_MAX;
    int64_t last = -1;

    vt_hist_init(&h);
    before = h;
    if (vt_hist_decode_add(&h, data, size, &used, &err) < 0) {
        if (used != SIZE_MAX || err.code >= 0 || memcmp(&h, &before, sizeof(h)) != 0)
            abort();
        return 0;
    }
    vt_hist_encode(&h, &again);
    if (used > size || again.len != used || memcmp(again.data, data, used) != 0)
        abort();
    for (uint32_t q = 0; h.count > 0 && q <= 1000000; q += 50000) {
        int64_t v = vt_hist_quantile(&h, q);

        if (v < h.min || v > h.max || v < last)
            abort();
        last = v;
    }
    if (vt_hist_count_upto(&h, h.max) != h.count)
        abort();
    return 0;
}
