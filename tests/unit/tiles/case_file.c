/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"

bool cases_path(const char *name, char *buf, size_t size)
{
    const char *root = getenv("VTILE_CASES");

    if (root)
        snprintf(buf, size, "%s/data/%s", root, name);
    else
        snprintf(buf, size, "%s/../shared/cases/data/%s", VTILE_SOURCE, name);
    if (access(buf, R_OK) == 0)
        return true;
    print_message("no case data at %s\n", buf);
    return false;
}

uint8_t *cases_read(const char *name, size_t *ret_len)
{
    char path[512];
    VT_AUTO_FCLOSE FILE *file = NULL;
    uint8_t *data;
    long len;

    assert_true(cases_path(name, path, sizeof path));
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
