/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results_report: reports as files: beside a run's archive at its end, or where `vtile results
 * report` is told to write one.
 */
#ifndef VTILE_ORCHESTRATOR_RESULTS_REPORT_H
#define VTILE_ORCHESTRATOR_RESULTS_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "orchestrator/results_archive.h"
#include "results/record.h"

/* "<archive without .vtar>.html"; false where that is too long. */
bool results_report_path(const char *archive, char *path, size_t size);
/* The report of the record that is sealed in archive; a file that is there is replaced as a whole.
 * signer: fingerprint. */
int results_report_write(struct record_reader *reader, const char *archive, const char *signer,
                         const char *path, struct vt_error *err);
/* The command. output: NULL: beside the archive; "-": standard output. */
int results_report(const char *name, const struct results_access *access, const char *output,
                   bool json, struct vt_error *err);

#endif
