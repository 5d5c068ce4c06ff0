/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role_row: a role of a spec as the record has it: the rates, limits and divisors in force. By this
 * a run is recorded, and by this an audit computes again what must stand in the record.
 */
#ifndef VTILE_ORCHESTRATOR_RUN_ROLE_ROW_H
#define VTILE_ORCHESTRATOR_RUN_ROLE_ROW_H

#include "base/record_rows.h"
#include "tiles/spec/spec.h"

/* share: of the full load, millionths; preset: index into spec_presets(). */
void run_role_row(const struct spec_role *spec, unsigned tile, int preset, int64_t share,
                  struct vt_record_role *ret);

#endif
