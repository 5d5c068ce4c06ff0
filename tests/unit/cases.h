/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases: test input that lies beside the project and is no part of it: in $VTILE_CASES, else in
 * ../shared/cases beside the sources. A test that finds none skips and says so.
 */
#ifndef VTILE_TESTS_UNIT_CASES_H
#define VTILE_TESTS_UNIT_CASES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "<cases>/data/<relative>" into path; false, with a line that says so, where it is not there. */
static inline bool cases_path(char *path, size_t size, const char *relative)
{
    const char *root = getenv("VTILE_CASES");

    if (root && root[0])
        snprintf(path, size, "%s/data/%s", root, relative);
    else
        snprintf(path, size, "%s/../shared/cases/data/%s", VTILE_SOURCE, relative);
    if (access(path, R_OK) == 0)
        return true;
    fprintf(stderr, "skipped: no test input at %s (set VTILE_CASES)\n", path);
    return false;
}

#endif
