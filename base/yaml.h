/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml: a strict reader of configuration files. libyaml's events become a bounded tree of
 * nodes with positions; a table of fields binds the tree to a struct. Refused with
 * file:line:column: duplicate keys (with the place of the first), unknown keys (with the nearest
 * known one), anchors, aliases, merge keys, tags, tabs as indentation, a byte order mark, a second
 * document, non-UTF-8, more than 1 MiB, depth over 16, over 10,000 nodes. Scalars have no type of
 * their own: the wanted type decides ("NO" is text in a text field, and never a boolean).
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

enum vt_yaml_type { VT_YAML_SCALAR, VT_YAML_MAP, VT_YAML_LIST };

struct vt_yaml_node {
    enum vt_yaml_type type;
    int line, column;
    bool quoted;      /* scalar: was quoted, so never null */
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

int vt_yaml_read_file(const char *path, struct vt_yaml *ret, struct vt_error *err);
int vt_yaml_read_text(const char *name, const char *data, size_t len, struct vt_yaml *ret,
                      struct vt_error *err);
void vt_yaml_dispose(struct vt_yaml *yaml);
/* NULL when absent; map must be a map. */
const struct vt_yaml_node *vt_yaml_find(const struct vt_yaml_node *map, const char *key);

/* --- fields --- */
enum vt_field_type {
    VT_FIELD_TEXT,     /* char[size] inside the struct; min/max: length in bytes */
    VT_FIELD_BOOL,     /* bool; true | false only */
    VT_FIELD_INT,      /* int64_t in [min, max] */
    VT_FIELD_FIXED,    /* int64_t in millionths: "0.05" -> 50000; no exponent, no rounding loss */
    VT_FIELD_BYTES,    /* uint64_t, with unit */
    VT_FIELD_DURATION, /* int64_t ns, with unit */
    VT_FIELD_CHOICE,   /* int: index into choices */
    VT_FIELD_MAP,      /* nested struct bound by schema, at offset */
    VT_FIELD_LIST,     /* array of structs bound by schema: see count_offset; min/max: entries */
    VT_FIELD_CUSTOM,   /* bind() does it */
};

struct vt_schema;
struct vt_field {
    const char *key;
    enum vt_field_type type;
    size_t offset, size;   /* of the member; LIST: the array inside the struct */
    int64_t min, max;      /* in the member's own unit, inclusive */
    bool required;
    const char *const *choices;      /* NULL-terminated */
    const struct vt_schema *schema;  /* MAP, LIST */
    size_t count_offset;             /* LIST: size_t member that gets the count */
    int (*bind)(const struct vt_yaml_node *node, const char *file, void *object,
                struct vt_error *err);
    const char *help; /* one line: meaning and unit */
};
struct vt_schema {
    const char *name;
    const struct vt_field *fields;
    size_t nfields, struct_size;
    /* Checks across fields after all are bound; NULL: none. */
    int (*check)(const void *object, const struct vt_yaml_node *node, const char *file,
                 struct vt_error *err);
};

/* Binds; fields that are absent and not required keep what *object held (the defaults). The
 * first error in file order is returned; *object is then undefined. */
int vt_yaml_bind(const struct vt_yaml *yaml, const struct vt_schema *schema, void *object,
                 struct vt_error *err);
int vt_yaml_bind_node(const struct vt_yaml_node *node, const char *file,
                      const struct vt_schema *schema, void *object, struct vt_error *err);

#endif
