/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal: what was changed outside this process and how to take it back; kept by whoever makes
 * the change. Append-only, a line an event: crc32 of the JSON in 8 hex digits, space, JSON, newline
 *   {"v":1,"op":"journal"}                                                     the first line
 *   {"op":"intent","id":1,"kind":"tap","object":"...","original":"","value":"..."}
 *   {"op":"mark","id":1,"state":"applied|undone"[,"value":"..."]}
 * Order of calls for a change: intent (the original in it), sync, make the change, mark APPLIED; to
 * undo: take back, mark UNDONE. Intents of one stage are synced as one batch before its first
 * write. An intent without APPLIED may or may not have happened: undo must look.
 * A file cut at any byte replays to the events that are whole; a bad line that is not the last is
 * damage (-EBADMSG, line named). So is a file whose first line is not the beginning of ours: what
 * is not a journal is never written to.
 */
#ifndef VT_BASE_JOURNAL_H
#define VT_BASE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define VT_JOURNAL_KIND_MAX 31
#define VT_JOURNAL_OBJECT_MAX 4095
#define VT_JOURNAL_VALUE_MAX 65535
#define VT_JOURNAL_ENTRIES_MAX 1000000
/* Intents may take three quarters of it; marks find room after. */
#define VT_JOURNAL_BYTES_MAX (256U << 20)

enum vt_journal_state { VT_JOURNAL_INTENT, VT_JOURNAL_APPLIED, VT_JOURNAL_UNDONE };

struct vt_journal_entry {
    uint64_t id;          /* 1, 2, ... in order of intent */
    const char *kind;     /* "netns", "bridge", "tap", "domain", "file", "process", ... */
    const char *object;   /* its name: path, interface, domain name */
    const char *original; /* value before, "" where the object did not exist */
    const char *value;    /* value we set or what identifies ours (start time, uuid, ...) */
    enum vt_journal_state state;
};

struct vt_journal;

/* Creates (0600, folder synced) or opens for appending; a cut tail is removed. Holds an exclusive
 * flock until closed: -EBUSY with the holder's pid in the text when another has it. Refused
 * (-EPERM): a symbolic link, what is not a regular file, of another user, writable by others; its
 * contents tell us what to write back. */
int vt_journal_open(const char *path, struct vt_journal **ret, struct vt_error *err);
/* For showing: no lock, nothing written; intent, sync and mark are refused (-EBADF). */
int vt_journal_read(const char *path, struct vt_journal **ret, struct vt_error *err);
struct vt_journal *vt_journal_close(struct vt_journal *journal); /* NULL ok; returns NULL */

/* Appends in memory and to the file, not yet synced. Texts are UTF-8 (-EILSEQ), at most
 * VT_JOURNAL_*_MAX bytes (-E2BIG), kind and object not empty. An append that fails (disk full)
 * leaves file and entries as they were and may be tried again. After a sync that failed nothing is
 * known about the disk: every later change is refused (-EIO). */
int vt_journal_intent(struct vt_journal *journal, const char *kind, const char *object,
                      const char *original, const char *value, uint64_t *ret_id,
                      struct vt_error *err);
int vt_journal_sync(struct vt_journal *journal, struct vt_error *err);
/* Appended and synced. value: NULL keeps the entry's; else replaces it (a pid known only now).
 * INTENT -> APPLIED (again with another value) -> UNDONE, or INTENT -> UNDONE; UNDONE twice does
 * nothing; else -EINVAL. */
int vt_journal_mark(struct vt_journal *journal, uint64_t id, enum vt_journal_state state,
                    const char *value, struct vt_error *err);

/* Entries in order of id, valid until the next call that changes the journal; NULL past the end. */
size_t vt_journal_count(const struct vt_journal *journal);
const struct vt_journal_entry *vt_journal_entry_at(const struct vt_journal *journal, size_t i);
/* True when every entry is UNDONE. */
bool vt_journal_all_undone(const struct vt_journal *journal);

/* Test hook: called with a step's name ("append", "appended", "sync", "synced") before and after
 * each write and each sync; NULL: none. */
extern void (*vt_journal_step_hook)(const char *step);
void vt_journal_point(const char *name);

#endif
