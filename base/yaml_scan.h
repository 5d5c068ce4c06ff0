/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml_scan: what is refused of a YAML text beside the parser's events. Before them: what makes
 * lines and columns mean different things to libyaml, to us and to an editor. Along with them: what
 * libyaml reads although YAML 1.2 does not, or reads as something else.
 */
#ifndef VT_BASE_YAML_SCAN_H
#define VT_BASE_YAML_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "base/error.h"

/* 0 where data is UTF-8 without byte order mark, control characters, line ends other than LF and
 * CR LF, and without tabs in the white space that begins a line. */
int yaml_scan_check(const char *name, const char *data, size_t len, struct vt_error *err);

/* Follows the text from event to event. */
struct yaml_scan {
    const char *name, *data;
    size_t len;
    size_t offset, index;       /* reached so far: bytes, characters (libyaml's index) */
    int line, column;           /* 1-based */
    bool blank;                 /* only spaces since the line began */
    int last_line, last_column; /* of the end of the text */
};

void yaml_scan_begin(struct yaml_scan *scan, const char *name, const char *data, size_t len);
/* To be called with every event in order. in_flow: inside [] or {}; block_column: of the
 * innermost block map or list, 0 where there is none. Refuses: comments without a space before
 * them, "?" without one after it, lines of quoted texts and of [] {} that are not indented
 * further than what they belong to, a bare "-" as a value, blank block texts. */
int yaml_scan_event(struct yaml_scan *scan, const yaml_event_t *event, bool in_flow,
                    int block_column, struct vt_error *err);

/* A place of libyaml's in the text. It counts a last line without a line end as if it had one, and
 * so may point behind the text; that is taken back to its end. */
void yaml_scan_place(const struct yaml_scan *scan, yaml_mark_t mark, int *ret_line,
                     int *ret_column);

#endif
