/* SPDX-License-Identifier: Apache-2.0 */
/*
 * undo: what each kind of journal entry needs to be taken back. The same table serves teardown and
 * `vtile clean`, so an undo trusts nothing: it looks whether the object is there and still the one
 * that the entry means; what is gone is success, what is another's stays.
 */
#ifndef VTILE_ORCHESTRATOR_HOST_UNDO_H
#define VTILE_ORCHESTRATOR_HOST_UNDO_H

#include "base/journal.h"
#include "base/loop.h"

/* kind      object             value
 * netns     /run/netns/vt-x    ""
 * bridge    name               path of its netns, "" for the one that undo runs in
 * tap       name               the same
 * file      path               "" (a file, socket or link that we make)
 * folder    path               "" (removed where it is empty)
 * tree      path               "" (a folder with all that is in it; one file system, no links)
 * process   a name for people  "<pid> <start time>", put in when marked APPLIED; undo_process_value
 * domain    name               "<uuid> <uri>"
 * A process must be made to die with its parent until it is marked. */
#define UNDO_NETNS "netns"
#define UNDO_BRIDGE "bridge"
#define UNDO_TAP "tap"
#define UNDO_FILE "file"
#define UNDO_FOLDER "folder"
#define UNDO_TREE "tree"
#define UNDO_PROCESS "process"
#define UNDO_DOMAIN "domain"

struct host;

struct undo_context {
    /* Gives the open host of a URI, NULL with err when there is none. May be NULL. */
    struct host *(*host)(void *ctx, const char *uri, struct vt_error *err);
    void *ctx;
    int outer_mnt_fd; /* of struct embed: where names are mounted; 0 or -1: here */
    /* An entry was taken back; may be NULL. */
    void (*undone)(void *ctx, const struct vt_journal_entry *entry);
};

/* Takes back every entry with id >= from_id that is not UNDONE, the last first, and marks it.
 * Domains go through their host, all else at once on this thread. An entry that fails is reported,
 * stays open, and the rest goes on. done: number of entries left, err: the first failure; called
 * exactly once, never from inside undo_start. */
typedef void (*undo_done)(void *ctx, size_t left, const struct vt_error *err);
int undo_start(struct vt_loop *loop, struct vt_journal *journal, uint64_t from_id,
               const struct undo_context *context, undo_done done, void *ctx, struct vt_error *err);

/* One entry now, not marked; not for domains (-ENOTSUP). */
int undo_entry(const struct undo_context *context, const struct vt_journal_entry *entry,
               struct vt_error *err);

/* "<pid> <start time>": start time from /proc/<pid>/stat, so a recycled pid is never taken for
 * ours. 0 or -ESRCH. */
int undo_process_value(pid_t pid, char *value, size_t size);

#endif
