/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml_scan: what is refused of a YAML text before a parser sees it, so that lines and columns
 * mean the same to libyaml, to us and to an editor.
 */
#ifndef VT_BASE_YAML_SCAN_H
#define VT_BASE_YAML_SCAN_H

#include <stddef.h>

#include "base/error.h"

/* 0 where data is UTF-8 without byte order mark, control characters, line ends other than LF and
 * CR LF, and without tabs in the white space that begins a line. */
int yaml_scan_check(const char *name, const char *data, size_t len, struct vt_error *err);

#endif
