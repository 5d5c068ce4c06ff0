/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results_archive: archives as `vtile results` meets them: found by name, trusted as this
 * installation trusts, listed.
 */
#ifndef VTILE_ORCHESTRATOR_RESULTS_ARCHIVE_H
#define VTILE_ORCHESTRATOR_RESULTS_ARCHIVE_H

#include <stdbool.h>

#include "base/domain.h"
#include "base/error.h"
#include "results/archive.h"
#include "results/result.h"

#define RESULTS_TRUST_MAX 64

struct results_archive {
    char path[VT_PATH_MAX];
    bool own; /* signed by this installation */
    struct archive_report report;
};

/* name: a path, or a run's id. archive is filled as far as it went; dispose also after an
 * error. */
int results_archive_verify(struct results_archive *archive, const char *name,
                           const char *const *trusted, size_t ntrusted, struct vt_error *err);
int results_archive_open(struct results_archive *archive, const char *name,
                         const char *const *trusted, size_t ntrusted, struct record_reader **ret,
                         struct vt_error *err);
void results_archive_dispose(struct results_archive *archive);

/* Every value that was sealed must come out again; new keys may stand beside them. */
int results_archive_compare(const struct results_archive *archive, const struct result *result,
                            struct vt_error *err);

/* Calls with() with what is trusted. */
int results_archive_trust(const char *const *trusted, size_t ntrusted,
                          int (*with)(const struct archive_trust *trust, void *ctx,
                                      struct vt_error *err),
                          void *ctx, struct vt_error *err);
/* Prints the archives of this installation. */
int results_list(const char *const *trusted, size_t ntrusted, bool json, struct vt_error *err);

#endif
