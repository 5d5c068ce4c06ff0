/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml: a strict reader of configuration files. libyaml's events become a bounded tree of
 * nodes with positions; a table of fields binds the tree to a struct. Refused with
 * file:line:column: duplicate keys (with the place of the first), unknown keys (with the nearest
 * known one), keys that are no text or look like numbers, anchors, aliases, merge keys, tags,
 * directives, tabs in the white space that begins a line, a byte order mark, control characters,
 * a second document, non-UTF-8, more than 1 MiB, depth over 16, over 10,000 nodes. Scalars have
 * no type of their own: the wanted type decides ("NO" is text in a text field, and never a
 * boolean). A text without any document reads as an empty map at 1:1.
 */
#ifndef VT_BASE_YAML_H
#define VT_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define VT_YAML_BYTES_MAX (1U << 20)
#define VT_YAML_DEPTH_MAX 16
#define VT_YAML_NODES_MAX 10000
#define VT_YAML_KEY_MAX 256 /* bytes */

enum vt_yaml_type { VT_YAML_SCALAR, VT_YAML_MAP, VT_YAML_LIST };

struct vt_yaml_node {
    enum vt_yaml_type type;
    int line, column;
    bool quoted;      /* scalar: was quoted or a block, so never null */
    const char *text; /* scalar: NUL-terminated, no NUL inside */
    /* map: keys[i] (scalars) -> items[i]; list: items[i] */
    struct vt_yaml_node **keys, **items;
    size_t count;
};

struct vt_yaml {
    char *file; /* as given, for messages */
    struct vt_yaml_node *root;
    void *memory; /* owns the tree */
};

/* Only regular files; never reads more than VT_YAML_BYTES_MAX + 1 bytes. */
int vt_yaml_read_file(const char *path, struct vt_yaml *ret, struct vt_error *err);
int vt_yaml_read_text(const char *name, const char *data, size_t len, struct vt_yaml *ret,
                      struct vt_error *err);
void vt_yaml_dispose(struct vt_yaml *yaml);
/* NULL when absent; map must be a map. */
const struct vt_yaml_node *vt_yaml_find(const struct vt_yaml_node *map, const char *key);

/* --- fields: also for options of the command line and variables of the environment --- */
enum vt_field_type {
    VT_FIELD_TEXT,     /* char[size] inside the struct; min/max: length in bytes, max 0: size - 1;
                        * no control characters */
    VT_FIELD_BOOL,     /* bool; true | false only */
    VT_FIELD_INT,      /* int64_t in [min, max] */
    VT_FIELD_UINT,     /* uint64_t in [(uint64_t)min, (uint64_t)max]: max -1 is the largest */
    VT_FIELD_FIXED,    /* int64_t in millionths: "0.05" -> 50000; no exponent, no rounding loss */
    VT_FIELD_PERCENT,  /* int64_t in millionths, with unit: "92.08 %" -> 920800 */
    VT_FIELD_BYTES,    /* uint64_t, with unit */
    VT_FIELD_DURATION, /* int64_t ns, with unit */
    VT_FIELD_CHOICE,   /* int: index into choices */
    VT_FIELD_MAP,      /* nested struct bound by schema, at offset */
    VT_FIELD_LIST,     /* array of structs bound by schema: see count_offset; min/max: entries */
    VT_FIELD_NAMED,    /* as LIST, written as a map: the key goes into the schema's first field */
    VT_FIELD_CUSTOM,   /* bind() does it */
};

struct vt_schema;
struct vt_field {
    const char *key; /* "" as a schema's only field: a LIST's items are such scalars;
                      * "" as the first: the name of a NAMED's entry */
    enum vt_field_type type;
    size_t offset, size; /* of the member; LIST, NAMED: the array inside the struct */
    int64_t min, max;    /* in the member's own unit, inclusive */
    bool required;
    const char *const *choices;     /* NULL-terminated */
    const struct vt_schema *schema; /* MAP, LIST, NAMED */
    size_t count_offset;            /* LIST, NAMED: size_t member that gets the count */
    int (*bind)(const struct vt_yaml_node *node, const char *file, void *object,
                struct vt_error *err);
    const char *help; /* one line: meaning and unit */
};
struct vt_schema {
    const char *name;
    const struct vt_field *fields;
    size_t nfields, struct_size;
    const void *defaults; /* a struct that entries of LIST and NAMED begin as; NULL: zeroes */
    /* Checks across fields after all are bound, and fills what follows from others; NULL: none. */
    int (*check)(void *object, const struct vt_yaml_node *node, const char *file,
                 struct vt_error *err);
};

/* Binds; fields that are absent and not required keep what *object held (the defaults). The
 * first error in file order is returned, a missing key after what its map holds; *object is then
 * undefined. */
int vt_yaml_bind(const struct vt_yaml *yaml, const struct vt_schema *schema, void *object,
                 struct vt_error *err);
int vt_yaml_bind_node(const struct vt_yaml_node *node, const char *file,
                      const struct vt_schema *schema, void *object, struct vt_error *err);

/* One scalar of any type up to CHOICE into object + offset. The error is "expected <what>, not
 * <text>" without a position. quoted: an empty text or "null" is meant as it stands. */
int vt_field_parse(const struct vt_field *field, const char *text, bool quoted, void *object,
                   struct vt_error *err);
#define VT_FIELD_WORDS_MAX 256
/* What the field takes: "a number from 0.000001 to 1"; cut where out is too small. Returns out. */
const char *vt_field_expect(const struct vt_field *field, char out[VT_FIELD_WORDS_MAX]);
/* The member's value as vt_field_parse reads it ("0.05", "128 MiB"). Returns out. */
const char *vt_field_print(const struct vt_field *field, const void *object,
                           char out[VT_FIELD_WORDS_MAX]);

/* Text from outside for a message: in double quotes, cut, without control characters. */
#define VT_YAML_SHOW_MAX 96
const char *vt_yaml_show(const char *text, char out[VT_YAML_SHOW_MAX]);
/* The i < n whose name(ctx, i) is the likeliest meant by text, -1 where none is close. */
int vt_yaml_nearest(const char *text, const char *(*name)(const void *ctx, size_t i),
                    const void *ctx, size_t n);

#endif
