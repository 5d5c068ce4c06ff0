/* SPDX-License-Identifier: Apache-2.0 */
/* markup: looks at a report as a browser would: only known elements and attributes, all closed. */
#ifndef VTILE_TESTS_UNIT_RESULTS_MARKUP_H
#define VTILE_TESTS_UNIT_RESULTS_MARKUP_H

#include "base/text.h"

/* Fails the test unless every '<' begins a known element with known, harmless attributes, elements
 * are nested, and nothing is loaded or run. */
void assert_markup(const struct vt_buf *html);

#endif
