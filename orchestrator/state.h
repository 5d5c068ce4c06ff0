/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: where this installation keeps what outlives a run ($VTILE_STATE, else /var/lib/vtile for
 * root, else $XDG_STATE_HOME/vtile) and what does not ($VTILE_RUNTIME, else /run/vtile for root,
 * else $XDG_RUNTIME_DIR/vtile); and who it is.
 */
#ifndef VTILE_ORCHESTRATOR_STATE_H
#define VTILE_ORCHESTRATOR_STATE_H

#include <stddef.h>

#include "base/domain.h"
#include "base/error.h"

#define STATE_JOURNAL_SUFFIX ".journal" /* <run> and this, in the folder of journals */

struct state {
    char folder[VT_PATH_MAX];
    char runtime[VT_PATH_MAX];
    char journals[VT_PATH_MAX]; /* <folder>/journal */
    char embed[VT_PATH_MAX];    /* <folder>/embed */
    char controller[33];        /* 32 hex digits, made once: the mark of this installation */
};

/* Resolves names only; touches nothing. controller is read where it exists, else "". */
int state_locate(struct state *ret, struct vt_error *err);
/* Makes the folders (0711, with 0700 below) and the controller's id. */
int state_open(struct state *ret, struct vt_error *err);
/* A folder and its parents, 0700 where they are not there yet. */
int state_make_folder(const char *path, struct vt_error *err);
/* How long the run's id is in the name of its journal; 0: the file is no journal. */
size_t state_journal_run(const char *file);

#endif
