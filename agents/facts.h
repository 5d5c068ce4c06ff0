/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts: what the record keeps of the machine that an agent runs on, text by name: agent (its
 * version), kernel, cmdline (what of it isolates or tunes), cpu, cpus, memory, clocksource,
 * spectre_v2 (mitigations or none), wall_offset_ns (wall clock minus monotonic clock).
 */
#ifndef VTILE_AGENTS_FACTS_H
#define VTILE_AGENTS_FACTS_H

#include <jansson.h>

json_t *facts_of_machine(void); /* NULL: out of memory */

#endif
