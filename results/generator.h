/* SPDX-License-Identifier: Apache-2.0 */
/* generator: what a load client said of its own work, in the record as meta
 * 'generator.<role>.<tile>'. */
#ifndef VTILE_RESULTS_GENERATOR_H
#define VTILE_RESULTS_GENERATOR_H

#include "base/error.h"
#include "base/record_generator.h"
#include "results/record.h"

int generator_put(struct record *record, unsigned tile, const char *role,
                  const struct vt_record_generator *generator, struct vt_error *err);
/* -ENOENT without text in *err when that role has none. */
int generator_read(struct record_reader *reader, unsigned tile, const char *role,
                   struct vt_record_generator *ret, struct vt_error *err);

#endif
