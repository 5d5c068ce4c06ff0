/* SPDX-License-Identifier: Apache-2.0 */
#include "results/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "results/record_reader.h"
#include "results/record_schema.h"

/* --- two bitmaps --- */

static unsigned byte_at(const uint8_t *bits, size_t n, size_t at)
{
    return at < n ? bits[at] : 0;
}

void kept_count(const uint8_t *acknowledged, size_t nacknowledged, const uint8_t *kept,
                size_t nkept, struct kept_counts *ret)
{
    size_t n = nacknowledged > nkept ? nacknowledged : nkept;

    *ret = (struct kept_counts){0};
    for (size_t i = 0; i < n; i++) {
        unsigned asked = byte_at(acknowledged, nacknowledged, i), found = byte_at(kept, nkept, i);
        unsigned missing = asked & ~found;

        ret->acknowledged += (unsigned)__builtin_popcount(asked);
        ret->kept += (unsigned)__builtin_popcount(found);
        ret->missing += (unsigned)__builtin_popcount(missing);
        for (unsigned bit = 0; bit < 8 && ret->nfirst < KEPT_FIRST_MAX; bit++)
            if (missing >> bit & 1)
                ret->first[ret->nfirst++] = (uint32_t)(8 * i + bit);
    }
}

/* --- the record's --- */

enum { ACKNOWLEDGED, KEPT, KINDS };

struct bitmap {
    uint8_t *data;
    size_t len;
    char source[VT_RECORD_NAME_MAX];
    bool there, two_sources, too_long;
};
struct bitmaps {
    const struct vt_record_role *roles;
    size_t nroles;
    struct bitmap (*all)[KINDS]; /* of each role */
    size_t bytes;
    struct vt_error *err;
};

/* NULL: of nothing that is known here. */
static struct bitmap *find(const struct bitmaps *b, const char *name)
{
    int kind = strncmp(name, VT_RECORD_KEPT, strlen(VT_RECORD_KEPT)) == 0 ? KEPT : ACKNOWLEDGED;
    const char *role = name + strlen(kind == KEPT ? VT_RECORD_KEPT : VT_RECORD_ACKNOWLEDGED);
    const char *end = name + strlen(name) - strlen(VT_RECORD_BITS);
    const char *dot = memrchr(role, '.', (size_t)(end - role));
    char number[8];
    int64_t tile;

    if (!dot || (size_t)(end - dot) > sizeof(number))
        return NULL;
    memcpy(number, dot + 1, (size_t)(end - dot - 1));
    number[end - dot - 1] = '\0';
    if (vt_text_parse_int(number, 1, VT_RECORD_TILES_MAX, &tile, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < b->nroles; i++) {
        size_t len = (size_t)(dot - role);

        if (b->roles[i].tile == (unsigned)tile && strlen(b->roles[i].role) == len &&
            memcmp(b->roles[i].role, role, len) == 0)
            return &b->all[i][kind];
    }
    return NULL;
}

static int add_piece(struct bitmaps *b, struct bitmap *map, const char *source, const void *data,
                     size_t len)
{
    uint8_t *grown;

    if (!map->there)
        vt_text_copy(map->source, sizeof(map->source), source);
    map->two_sources |= strcmp(map->source, source) != 0;
    map->there = true;
    map->too_long |= len > KEPT_BYTES_MAX - map->len;
    if (map->two_sources || map->too_long || len == 0)
        return 0;
    if (len > KEPT_ALL_BYTES_MAX - b->bytes)
        return vt_error_refuse(b->err, "the record holds more bitmaps than %zu MiB",
                               KEPT_ALL_BYTES_MAX >> 20);
    grown = realloc(map->data, map->len + len);
    if (!grown)
        return vt_error_no_memory(b->err, "read what was kept");
    memcpy(grown + map->len, data, len);
    map->data = grown;
    map->len += len;
    b->bytes += len;
    return 0;
}

static int read_bitmaps(struct bitmaps *b, struct record_reader *reader)
{
    struct record_cursor cursor;
    int r = record_cursor_open(&cursor, reader, "log",
                               "SELECT source, name, data FROM log"
                               " WHERE name GLOB '" VT_RECORD_ACKNOWLEDGED "*" VT_RECORD_BITS "'"
                               " OR name GLOB '" VT_RECORD_KEPT "*" VT_RECORD_BITS "' ORDER BY id",
                               b->err);

    while (r == 0 && (r = record_cursor_step(&cursor, b->err)) == 1) {
        const char *source = record_take_opt_text(&cursor, VT_RECORD_NAME_MAX - 1);
        const char *name = record_take_text(&cursor, RECORD_TEXT_MAX);
        size_t len = 0;
        const void *data = record_take_blob(&cursor, RECORD_BLOB_MAX, &len);

        r = record_cursor_check(&cursor, b->err);
        if (r == 0) {
            struct bitmap *map = find(b, name);

            if (map)
                r = add_piece(b, map, source ? source : "", data, len);
        }
    }
    record_cursor_close(&cursor);
    return r;
}

static const char *why_unknown(const struct bitmap *asked, const struct bitmap *found,
                               uint64_t steps, uint64_t acknowledged)
{
    if (asked->two_sources || found->two_sources)
        return "more than one agent tells of it";
    if (asked->too_long || found->too_long)
        return "a bitmap is too long";
    if (steps > 0 && asked->len != (steps + 7) / 8)
        return "the bitmap of what was acknowledged does not fit its schedule";
    if (acknowledged > 0 && !found->there)
        return "no guest told what it has kept";
    return NULL;
}

static int add_role(struct bitmaps *b, size_t i, struct record_reader *reader, struct kept *kept)
{
    const struct bitmap *asked = &b->all[i][ACKNOWLEDGED], *found = &b->all[i][KEPT];
    struct kept_role *role = &kept->roles[kept->nroles];
    struct vt_record_schedule schedule = {0};
    int r = record_read_schedule(reader, b->roles[i].tile, b->roles[i].role, &schedule, b->err);

    if (r < 0 && r != -ENOENT)
        return r;
    kept->nroles++;
    role->tile = b->roles[i].tile;
    vt_text_copy(role->role, sizeof(role->role), b->roles[i].role);
    kept_count(asked->data, asked->len, found->data, found->len, &role->counts);
    role->unknown = why_unknown(asked, found, schedule.steps, role->counts.acknowledged);
    return 0;
}

int kept_compute(struct record_reader *reader, const struct vt_record_role *roles, size_t nroles,
                 struct kept *ret, struct vt_error *err)
{
    struct bitmaps b = {.roles = roles, .nroles = nroles, .err = err};
    int r;

    b.all = calloc(nroles + 1, sizeof(*b.all));
    ret->roles = calloc(nroles + 1, sizeof(*ret->roles));
    r = b.all && ret->roles ? read_bitmaps(&b, reader)
                            : vt_error_no_memory(err, "read what was kept");
    for (size_t i = 0; r == 0 && i < nroles; i++)
        if (b.all[i][ACKNOWLEDGED].there)
            r = add_role(&b, i, reader, ret);
    for (size_t i = 0; b.all && i < nroles; i++)
        for (int kind = 0; kind < KINDS; kind++)
            free(b.all[i][kind].data);
    free(b.all);
    return r;
}

void kept_dispose(struct kept *kept)
{
    free(kept->roles);
    *kept = (struct kept){0};
}
