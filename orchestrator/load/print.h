/* SPDX-License-Identifier: Apache-2.0 */
/* print: what came of `vtile load`, for people and as JSON, and whether it can be believed. */
#ifndef VTILE_ORCHESTRATOR_LOAD_PRINT_H
#define VTILE_ORCHESTRATOR_LOAD_PRINT_H

#include "orchestrator/load/drive.h"

/* Why the generator cannot be believed; false: it can. */
bool load_is_invalid(const struct load_options *options, const struct load_result *result,
                     char *why, size_t size);
/* 130 where it was interrupted, 3 invalid, 1 some answers were wrong or failed, else 0. */
int load_exit_code(const struct load_options *options, const struct load_result *result);
void load_print_text(const struct load_options *options, const struct load_result *result,
                     struct vt_buf *out);
/* One object: {"v":1,"type":"load",...}, see vtile-load(1). */
void load_print_json(const struct load_options *options, const struct load_result *result,
                     struct vt_buf *out);

#endif
