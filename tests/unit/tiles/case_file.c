/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/case_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/scope.h"
#include "tests/unit/cases.h"

uint8_t *case_file_read(const char *name, size_t *ret_len)
{
    char path[512];
    VT_AUTO_FCLOSE FILE *file = NULL;
    uint8_t *data;
    long len;

    assert_true(cases_path(path, sizeof path, name));
    file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    len = ftell(file);
    assert_true(len >= 0);
    rewind(file);
    data = malloc((size_t)len + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)len, file), len);
    data[len] = 0;
    *ret_len = (size_t)len;
    return data;
}
