/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of load: what is accepted has sums that fit together. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "results/record_row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct record_sum sum;
    struct vt_error err = VT_ERROR_INIT;
    int r;

    memset(&sum, 0, sizeof(sum));
    sum.has_rates = size > 0 && data[0] != 1;
    r = record_row_sum(data, size, &sum, &err);
    if (r < 0 && err.code != r)
        abort();
    if (sum.noperations > VT_RECORD_OPERATIONS_MAX)
        abort();
    for (size_t i = 0; r == 0 && i < sum.noperations; i++) {
        const struct record_sum_operation *op = &sum.operations[i];
        if (op->good + op->slow + op->wrong + op->failed > op->intended || !op->name[0] ||
            op->rate.count > op->good + op->slow)
            abort();
    }
    record_sum_dispose(&sum);
    return 0;
}
