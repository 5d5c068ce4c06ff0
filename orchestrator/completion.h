/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion: `vtile completion bash`: a script for bash, made from the table of commands: their
 * names, the verbs in their usage, their options.
 */
#ifndef VTILE_ORCHESTRATOR_COMPLETION_H
#define VTILE_ORCHESTRATOR_COMPLETION_H

#include <stddef.h>

#include "base/text.h"
#include "orchestrator/command.h"

/* The words that can follow the command's name, from lines "vtile NAME word|word ..." of its usage,
 * with a space before each. */
void completion_verbs(const struct command *command, struct vt_buf *out);
void completion_write_bash(const struct command *table, size_t n, struct vt_buf *out);

#endif
