/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay of journals. The first byte decides: even, the rest is a file as it is; odd, it is the
 * lines after the first, to which the right checksums are added, as no fuzzer finds those.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/journal_entries.h"

static void add_line(struct vt_buf *file, const char *line, size_t len)
{
    vt_buf_printf(file, "%08lx ", crc32(0, (const Bytef *)line, (uInt)len));
    vt_buf_add(file, line, len);
    vt_buf_add(file, "\n", 1);
}

static void add_lines(struct vt_buf *file, const char *text, size_t len)
{
    vt_journal_write_head(file);
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end ? (size_t)(end - text) : len;

        add_line(file, text, n);
        n += end != NULL;
        text += n;
        len -= n;
    }
}

static void check_entries(const struct vt_journal_entries *entries)
{
    size_t undone = 0;

    for (size_t i = 0; i < entries->count; i++) {
        const struct vt_journal_entry *e = &entries->items[i].entry;

        if (e->id != i + 1 || !e->kind[0] || strlen(e->kind) > VT_JOURNAL_KIND_MAX ||
            !e->object[0] || strlen(e->object) > VT_JOURNAL_OBJECT_MAX ||
            strlen(e->original) > VT_JOURNAL_VALUE_MAX || strlen(e->value) > VT_JOURNAL_VALUE_MAX)
            abort();
        undone += e->state == VT_JOURNAL_UNDONE;
    }
    if (undone != entries->undone)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    VT_AUTO_BUF struct vt_buf file = VT_BUF_INIT(8U << 20);
    struct vt_journal_entries entries = {0}, again = {0};
    struct vt_error err = VT_ERROR_INIT;
    size_t whole = SIZE_MAX, whole_again = 0;

    if (size == 0 || size > 1U << 20)
        return 0;
    vt_buf_adds(&file, "");
    if (data[0] % 2 == 0)
        vt_buf_add(&file, data + 1, size - 1);
    else
        add_lines(&file, (const char *)data + 1, size - 1);
    if (file.failed)
        return 0;
    if (vt_journal_replay(&entries, "fuzz", file.data, file.len, &whole, &err) == 0) {
        /* Its whole lines alone say the same. */
        if (whole > file.len ||
            vt_journal_replay(&again, "fuzz", file.data, whole, &whole_again, &err) < 0 ||
            whole_again != whole || again.count != entries.count)
            abort();
        check_entries(&again);
    } else if (err.code >= 0) {
        abort();
    }
    check_entries(&entries);
    vt_journal_entries_dispose(&entries);
    vt_journal_entries_dispose(&again);
    return 0;
}
