/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clean: takes back what dead runs left: first the open entries of journals whose lock is free,
 * then domains that carry this installation's mark although no journal names them. Live runs (their
 * journal is locked) and everything that is not ours are left alone.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_CLEAN_H
#define VTILE_ORCHESTRATOR_HOST_CLEAN_H

#include <stddef.h>

#include "base/loop.h"

struct clean_settings {
    const char *state;      /* journals stand in <state>/journal, one <run>.journal a run */
    const char *embed_root; /* "" = no embedded host */
    const char *system_uri; /* NULL = none, else looked at for marked domains */
    const char *controller; /* this installation's id; NULL = only journals */
    /* One line for people about each thing removed or kept; may be NULL. */
    void (*say)(void *ctx, const char *line);
    void *ctx;
};
struct clean_result {
    size_t removed;   /* objects taken back */
    size_t left;      /* that failed; err of clean_run tells the first */
    size_t live_runs; /* left alone */
};

/* Blocks; makes its own loop. Before any thread exists (it may enter namespaces). 0 when nothing is
 * left over; a second call then removes nothing. */
int clean_run(const struct clean_settings *settings, struct clean_result *ret,
              struct vt_error *err);

#endif
