/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_entries: the journal's events in memory and as lines; for journal.c, which knows the
 * file.
 */
#ifndef VT_BASE_JOURNAL_ENTRIES_H
#define VT_BASE_JOURNAL_ENTRIES_H

#include "base/journal.h"
#include "base/text.h"

/* The largest line: all of JSON's worst escapes (six bytes for one), and room for keys. */
#define VT_JOURNAL_LINE_MAX \
    (6U * (VT_JOURNAL_KIND_MAX + VT_JOURNAL_OBJECT_MAX + 2U * VT_JOURNAL_VALUE_MAX) + 256U)

struct vt_journal_item {
    struct vt_journal_entry entry; /* points into the two below */
    char *texts;                   /* kind, object, original, one after the other */
    char *value;
};
struct vt_journal_entries {
    struct vt_journal_item *items;
    size_t count, cap, undone;
};

void vt_journal_entries_dispose(struct vt_journal_entries *entries);

/* Check and change; each is made once when the line is written and once when it is replayed.
 * -EINVAL, -E2BIG, -EILSEQ, -ENOMEM; on error nothing has changed. */
int vt_journal_entries_add(struct vt_journal_entries *entries, const struct vt_journal_entry *entry,
                           struct vt_error *err);
/* The last one, whose line could not be written. */
void vt_journal_entries_drop_last(struct vt_journal_entries *entries);
/* *ret_item: the entry that a mark is for. */
int vt_journal_entries_check_mark(const struct vt_journal_entries *entries, uint64_t id,
                                  enum vt_journal_state state, const char *value,
                                  struct vt_journal_item **ret_item, struct vt_error *err);
/* value: taken over, from malloc; NULL keeps. Cannot fail. */
void vt_journal_entries_mark(struct vt_journal_entries *entries, struct vt_journal_item *item,
                             enum vt_journal_state state, char *value);

/* Lines with newline, appended to out. */
void vt_journal_write_head(struct vt_buf *out);
void vt_journal_write_intent(struct vt_buf *out, const struct vt_journal_entry *entry);
void vt_journal_write_mark(struct vt_buf *out, uint64_t id, enum vt_journal_state state,
                           const char *value);

/* Replays a whole file. *ret_whole: bytes of it that are whole lines; the rest is a cut tail.
 * name: for messages. Damage: -EBADMSG with name and line. */
int vt_journal_replay(struct vt_journal_entries *entries, const char *name, const char *data,
                      size_t len, size_t *ret_whole, struct vt_error *err);

#endif
