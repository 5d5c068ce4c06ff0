/* SPDX-License-Identifier: Apache-2.0 */
/* judge RECORD: the result of a record that stands in a file of its own, as one line of JSON. */
#include <stdio.h>

#include "base/scope.h"
#include "results/result.h"

int main(int argc, char **argv)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 20);
    struct record_reader *reader = NULL;
    struct result result = {0};
    struct vt_error err = VT_ERROR_INIT;
    int r;

    if (argc != 2) {
        fprintf(stderr, "usage: judge RECORD\n");
        return 2;
    }
    r = record_open_read(argv[1], &reader, &err);
    if (r == 0)
        r = result_compute(reader, &result, &err);
    if (r == 0) {
        result_write_json(&result, NULL, &out);
        r = vt_buf_check(&out, "result", &err);
    }
    if (r < 0)
        fprintf(stderr, "judge: %s\n", err.text);
    else
        printf("%s\n", out.data);
    result_dispose(&result);
    record_reader_close(reader);
    return r < 0;
}
