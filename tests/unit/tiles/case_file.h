/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VTILE_TESTS_UNIT_TILES_CASE_FILE_H
#define VTILE_TESTS_UNIT_TILES_CASE_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The whole file of the case data (see tests/unit/cases.h), a zero byte after its end; free() it.
 * It must be there. */
uint8_t *case_file_read(const char *name, size_t *ret_len);

#endif
