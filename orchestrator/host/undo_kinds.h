/* SPDX-License-Identifier: Apache-2.0 */
/* What takes each kind of entry back at once. All: 0 also where there is nothing (more). */
#ifndef VTILE_ORCHESTRATOR_HOST_UNDO_KINDS_H
#define VTILE_ORCHESTRATOR_HOST_UNDO_KINDS_H

#include "orchestrator/host/undo.h"

int undo_netns(const struct undo_context *context, const struct vt_journal_entry *entry,
               struct vt_error *err);
int undo_link(const struct undo_context *context, const struct vt_journal_entry *entry,
              struct vt_error *err); /* bridge, tap */
int undo_file(const struct undo_context *context, const struct vt_journal_entry *entry,
              struct vt_error *err);
int undo_folder(const struct undo_context *context, const struct vt_journal_entry *entry,
                struct vt_error *err);
int undo_tree(const struct undo_context *context, const struct vt_journal_entry *entry,
              struct vt_error *err);
int undo_process(const struct undo_context *context, const struct vt_journal_entry *entry,
                 struct vt_error *err);

#endif
