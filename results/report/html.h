/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html: texts of a record as HTML. A record may come from a stranger: nothing of it becomes
 * markup, and nothing of it is longer than is said here.
 */
#ifndef VTILE_RESULTS_REPORT_HTML_H
#define VTILE_RESULTS_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

#define HTML_CELL_MAX 600 /* bytes of a text in a table; a cut one says so */

/* For content and for attributes in double quotes. Control characters other than tab and newline,
 * what is not UTF-8, and characters that turn the direction of what follows become U+FFFD (what
 * HTML calls the replacement character). At most max bytes of text are taken, then "..." follows.
 */
void html_text(struct vt_buf *out, const char *text, size_t max);
/* <tag class="css">text</tag>, css may be NULL. */
void html_element(struct vt_buf *out, const char *tag, const char *css, const char *text);
/* Cells of a table's row. */
void html_cell(struct vt_buf *out, const char *text);
void html_number(struct vt_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Opens a table that scrolls sideways where it does not fit; heads: NULL-terminated, one that
 * begins with '#' stands over numbers. */
void html_table(struct vt_buf *out, const char *css, const char *const *heads);
void html_table_end(struct vt_buf *out);

/* Numbers as people read them: "1.5 s", "80 ms", "12.0 MiB". */
void html_seconds(struct vt_buf *out, double seconds);
void html_bytes(struct vt_buf *out, double bytes);

#endif
