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
#define RESULTS_KEYS_MAX 8

struct results_archive {
    char path[VT_PATH_MAX];
    bool own; /* signed by this installation */
    struct archive_report report;
};

/* What the command line adds to what this installation trusts and can read. */
struct results_access {
    const char *trusted[RESULTS_TRUST_MAX]; /* fingerprints */
    size_t ntrusted;
    const char *keys[RESULTS_KEYS_MAX]; /* files of private keys */
    size_t nkeys;
};

/* name: a path, or a run's id. archive is filled as far as it went; dispose also after an
 * error. */
int results_archive_verify(struct results_archive *archive, const char *name,
                           const struct results_access *access, struct vt_error *err);
int results_archive_open(struct results_archive *archive, const char *name,
                         const struct results_access *access, struct record_reader **ret,
                         struct vt_error *err);
/* The record alone, decrypted where it is encrypted, into a new file. */
int results_archive_unpack(struct results_archive *archive, const char *name,
                           const struct results_access *access, const char *to,
                           struct vt_error *err);
void results_archive_dispose(struct results_archive *archive);

/* Calls with() with what is trusted. */
int results_archive_trust(const char *const *trusted, size_t ntrusted,
                          int (*with)(const struct archive_trust *trust, void *ctx,
                                      struct vt_error *err),
                          void *ctx, struct vt_error *err);
/* Prints the archives of this installation. */
int results_list(const char *const *trusted, size_t ntrusted, bool json, struct vt_error *err);

#endif
