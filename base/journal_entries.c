/* SPDX-License-Identifier: Apache-2.0 */
#include "base/journal_entries.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/json.h"
#include "base/scope.h"

#define CRC_DIGITS 8
#define PREFIX (CRC_DIGITS + 1) /* and a space */
#define VERSION 1

static const char *state_text(enum vt_journal_state state)
{
    switch (state) {
    case VT_JOURNAL_INTENT:
        return "intent";
    case VT_JOURNAL_APPLIED:
        return "applied";
    case VT_JOURNAL_UNDONE:
        return "undone";
    }
    return "?";
}

/* --- entries --- */

static void dispose_item(struct vt_journal_item *item)
{
    free(item->texts);
    free(item->value);
}

void vt_journal_entries_dispose(struct vt_journal_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        dispose_item(&entries->items[i]);
    free(entries->items);
    *entries = (struct vt_journal_entries){NULL, 0, 0, 0};
}

static int check_text(const char *what, const char *text, size_t max, struct vt_error *err)
{
    size_t len = strnlen(text, max + 1);

    if (len > max)
        return vt_error_set(err, VT_KIND_INFRA, -E2BIG, "%s of more than %zu bytes: %.60s...", what,
                            max, text);
    if (!vt_text_is_utf8(text))
        return vt_error_set(err, VT_KIND_INFRA, -EILSEQ, "%s is not UTF-8: %.60s", what, text);
    return 0;
}

static int check_entry(const struct vt_journal_entry *entry, struct vt_error *err)
{
    int r;

    if (!entry->kind || !entry->kind[0] || !entry->object || !entry->object[0] ||
        !entry->original || !entry->value)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "an intent without kind or object");
    r = check_text("kind", entry->kind, VT_JOURNAL_KIND_MAX, err);
    if (r == 0)
        r = check_text("object", entry->object, VT_JOURNAL_OBJECT_MAX, err);
    if (r == 0)
        r = check_text("original value", entry->original, VT_JOURNAL_VALUE_MAX, err);
    if (r == 0)
        r = check_text("value", entry->value, VT_JOURNAL_VALUE_MAX, err);
    return r;
}

static int make_room(struct vt_journal_entries *entries, struct vt_error *err)
{
    struct vt_journal_item *items;
    size_t cap = entries->cap ? 2 * entries->cap : 16;

    if (entries->count >= VT_JOURNAL_ENTRIES_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -E2BIG, "more than %d entries",
                            VT_JOURNAL_ENTRIES_MAX);
    if (entries->count < entries->cap)
        return 0;
    items = realloc(entries->items, cap * sizeof(*items));
    if (!items)
        return vt_error_no_memory(err, "entries");
    entries->items = items;
    entries->cap = cap;
    return 0;
}

static bool copy_texts(struct vt_journal_item *item, const struct vt_journal_entry *entry)
{
    size_t kind = strlen(entry->kind) + 1, object = strlen(entry->object) + 1;
    size_t original = strlen(entry->original) + 1;

    item->texts = malloc(kind + object + original);
    item->value = strdup(entry->value);
    if (!item->texts || !item->value) {
        dispose_item(item);
        return false;
    }
    memcpy(item->texts, entry->kind, kind);
    memcpy(item->texts + kind, entry->object, object);
    memcpy(item->texts + kind + object, entry->original, original);
    item->entry = (struct vt_journal_entry){
        .id = entry->id,
        .kind = item->texts,
        .object = item->texts + kind,
        .original = item->texts + kind + object,
        .value = item->value,
        .state = VT_JOURNAL_INTENT,
    };
    return true;
}

int vt_journal_entries_add(struct vt_journal_entries *entries, const struct vt_journal_entry *entry,
                           struct vt_error *err)
{
    int r = check_entry(entry, err);

    if (r == 0 && entry->id != entries->count + 1)
        r = vt_error_set(err, VT_KIND_INFRA, -EINVAL, "id %" PRIu64 " where %zu is next", entry->id,
                         entries->count + 1);
    if (r == 0)
        r = make_room(entries, err);
    if (r < 0)
        return r;
    if (!copy_texts(&entries->items[entries->count], entry))
        return vt_error_no_memory(err, "entries");
    entries->count++;
    return 0;
}

void vt_journal_entries_drop_last(struct vt_journal_entries *entries)
{
    dispose_item(&entries->items[--entries->count]);
}

int vt_journal_entries_check_mark(const struct vt_journal_entries *entries, uint64_t id,
                                  enum vt_journal_state state, const char *value,
                                  struct vt_journal_item **ret_item, struct vt_error *err)
{
    enum vt_journal_state now;

    if (id == 0 || id > entries->count)
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "a mark for entry %" PRIu64 " of %zu", id,
                            entries->count);
    now = entries->items[id - 1].entry.state;
    if (state == VT_JOURNAL_INTENT || (now == VT_JOURNAL_UNDONE && state != VT_JOURNAL_UNDONE))
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL,
                            "entry %" PRIu64 " cannot go from %s to %s", id, state_text(now),
                            state_text(state));
    if (value) {
        int r = check_text("value", value, VT_JOURNAL_VALUE_MAX, err);

        if (r < 0)
            return r;
    }
    *ret_item = &entries->items[id - 1];
    return 0;
}

void vt_journal_entries_mark(struct vt_journal_entries *entries, struct vt_journal_item *item,
                             enum vt_journal_state state, char *value)
{
    if (state == VT_JOURNAL_UNDONE && item->entry.state != VT_JOURNAL_UNDONE)
        entries->undone++;
    item->entry.state = state;
    if (value) {
        free(item->value);
        item->value = value;
        item->entry.value = value;
    }
}

/* --- lines --- */

static uint32_t checksum(const char *data, size_t len)
{
    return (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)data, (uInt)len);
}

/* Begins a line; the checksum's place is filled by end_line. */
static size_t begin_line(struct vt_json *w, struct vt_buf *out, const char *op)
{
    size_t start = out->len;

    vt_buf_adds(out, "00000000 ");
    vt_json_begin(w, out);
    vt_json_object(w, NULL);
    if (op)
        vt_json_string(w, "op", op);
    return start;
}

static void end_line(struct vt_json *w, size_t start)
{
    struct vt_buf *out = w->out;
    char digits[CRC_DIGITS + 1];

    vt_json_end(w);
    if (!out->failed) {
        const char *json = out->data + start + PREFIX;

        snprintf(digits, sizeof(digits), "%08" PRIx32, checksum(json, out->len - start - PREFIX));
        memcpy(out->data + start, digits, CRC_DIGITS);
    }
    vt_buf_add(out, "\n", 1);
}

void vt_journal_write_head(struct vt_buf *out)
{
    struct vt_json w;
    size_t start = begin_line(&w, out, NULL);

    vt_json_int(&w, "v", VERSION);
    vt_json_string(&w, "op", "journal");
    end_line(&w, start);
}

void vt_journal_write_intent(struct vt_buf *out, const struct vt_journal_entry *entry)
{
    struct vt_json w;
    size_t start = begin_line(&w, out, "intent");

    vt_json_uint(&w, "id", entry->id);
    vt_json_string(&w, "kind", entry->kind);
    vt_json_string(&w, "object", entry->object);
    vt_json_string(&w, "original", entry->original);
    vt_json_string(&w, "value", entry->value);
    end_line(&w, start);
}

void vt_journal_write_mark(struct vt_buf *out, uint64_t id, enum vt_journal_state state,
                           const char *value)
{
    struct vt_json w;
    size_t start = begin_line(&w, out, "mark");

    vt_json_uint(&w, "id", id);
    vt_json_string(&w, "state", state_text(state));
    if (value)
        vt_json_string(&w, "value", value);
    end_line(&w, start);
}

/* --- replay --- */

static int damage(const char *name, int line, const char *why, struct vt_error *err)
{
    vt_error_at(err, name, line, 0, "damaged journal: %s", why);
    if (err) {
        err->kind = VT_KIND_REFUSED;
        err->code = -EBADMSG;
    }
    return -EBADMSG;
}

/* Whole and as it was written? The line is without its newline. */
static bool is_whole(const char *line, size_t len)
{
    char digits[CRC_DIGITS + 1];

    if (len <= PREFIX || len >= VT_JOURNAL_LINE_MAX || line[CRC_DIGITS] != ' ')
        return false;
    snprintf(digits, sizeof(digits), "%08" PRIx32, checksum(line + PREFIX, len - PREFIX));
    return memcmp(line, digits, CRC_DIGITS) == 0;
}

static int replay_intent(struct vt_journal_entries *entries, const json_t *object,
                         struct vt_error *err)
{
    struct vt_journal_entry entry = {0};
    int64_t id = 0;
    int r = vt_json_get_int(object, "id", 1, VT_JOURNAL_ENTRIES_MAX, &id, err);

    if (r == 0)
        r = vt_json_get_string(object, "kind", &entry.kind, err);
    if (r == 0)
        r = vt_json_get_string(object, "object", &entry.object, err);
    if (r == 0)
        r = vt_json_get_string(object, "original", &entry.original, err);
    if (r == 0)
        r = vt_json_get_string(object, "value", &entry.value, err);
    if (r != 0)
        return r;
    if (json_object_size(object) != 6)
        return vt_error_refuse(err, "unknown keys");
    entry.id = (uint64_t)id;
    return vt_journal_entries_add(entries, &entry, err);
}

static int replay_mark(struct vt_journal_entries *entries, const json_t *object,
                       struct vt_error *err)
{
    const char *state_name = "", *value = NULL;
    enum vt_journal_state state;
    struct vt_journal_item *item;
    char *kept = NULL;
    int64_t id = 0;
    int r = vt_json_get_int(object, "id", 1, VT_JOURNAL_ENTRIES_MAX, &id, err);

    if (r == 0)
        r = vt_json_get_string(object, "state", &state_name, err);
    if (r == 0)
        r = vt_json_opt_string(object, "value", &value, err);
    if (r < 0)
        return r;
    if (strcmp(state_name, "applied") == 0)
        state = VT_JOURNAL_APPLIED;
    else if (strcmp(state_name, "undone") == 0)
        state = VT_JOURNAL_UNDONE;
    else
        return vt_error_refuse(err, "unknown state");
    if (json_object_size(object) != (value ? 4U : 3U))
        return vt_error_refuse(err, "unknown keys");
    r = vt_journal_entries_check_mark(entries, (uint64_t)id, state, value, &item, err);
    if (r < 0)
        return r;
    if (value && !(kept = strdup(value)))
        return vt_error_no_memory(err, "entries");
    vt_journal_entries_mark(entries, item, state, kept);
    return 0;
}

static int replay_line(struct vt_journal_entries *entries, const char *name, int line,
                       const char *text, size_t len, struct vt_error *err)
{
    struct vt_error why = VT_ERROR_INIT;
    const char *op = "";
    json_t *object = NULL;
    int r = vt_json_read(text + PREFIX, len - PREFIX, name, VT_KIND_REFUSED, &object, &why);

    if (r == 0)
        r = vt_json_get_string(object, "op", &op, &why);
    if (r == 0 && strcmp(op, "intent") == 0)
        r = replay_intent(entries, object, &why);
    else if (r == 0 && strcmp(op, "mark") == 0)
        r = replay_mark(entries, object, &why);
    else if (r == 0)
        r = vt_error_refuse(&why, "unknown operation");
    json_decref(object);
    if (r == -ENOMEM)
        return vt_error_set(err, VT_KIND_INFRA, r, "%s: out of memory", name);
    return r < 0 ? damage(name, line, why.text, err) : 0;
}

/* The first line has one form only. *ret_len: its length, or 0 where it was cut. */
static int replay_head(const char *name, const char *data, size_t len, size_t *ret_len,
                       struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf head = VT_BUF_INIT(64);
    int r;

    vt_journal_write_head(&head);
    r = vt_buf_check(&head, name, err);
    if (r < 0)
        return r;
    if (len && memcmp(data, head.data, len < head.len ? len : head.len) != 0)
        return damage(name, 1, "not a journal of a known version", err);
    *ret_len = len < head.len ? 0 : head.len;
    return 0;
}

int vt_journal_replay(struct vt_journal_entries *entries, const char *name, const char *data,
                      size_t len, size_t *ret_whole, struct vt_error *err)
{
    size_t at = 0;
    int r = replay_head(name, data, len, &at, err);

    if (r < 0)
        return r;
    *ret_whole = at;
    if (at == 0)
        return 0;
    for (int line = 2; at < len; line++) {
        const char *end = memchr(data + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - (data + at)) : len - at;

        if (!end)
            return 0;
        if (!is_whole(data + at, line_len)) {
            if (at + line_len + 1 == len)
                return 0;
            return damage(name, line, "checksum does not match", err);
        }
        r = replay_line(entries, name, line, data + at, line_len, err);
        if (r < 0)
            return r;
        at += line_len + 1;
        *ret_whole = at;
    }
    return 0;
}
