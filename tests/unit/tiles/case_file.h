/* SPDX-License-Identifier: Apache-2.0 */
/* The public case data: VTILE_CASES, or shared/cases beside the project. */
#ifndef VTILE_TESTS_UNIT_TILES_CASES_H
#define VTILE_TESTS_UNIT_TILES_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Path of a file of the case data into buf; false (and a line that says so) when it is absent. */
bool cases_path(const char *name, char *buf, size_t size);
/* The whole file, a zero byte after its end; free() it. The file must be there. */
uint8_t *cases_read(const char *name, size_t *ret_len);

#endif
