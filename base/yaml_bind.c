/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/yaml.h"

/* Where in the file we are, for messages: "roles.web.load.rate". One a nesting level, on the
 * stack: the reader's depth limit bounds both. */
struct place {
    const struct place *up; /* NULL: the file's root */
    const char *key;        /* NULL: the entry `index` of a list */
    size_t index;
};

struct binder {
    const char *file;
    struct vt_error *err;
};

#define PLACE_TEXT_MAX 192

/* A key as part of a place: a name of a field as it is, any other text quoted and cut. */
static const char *place_key(const char *key, char out[VT_YAML_SHOW_MAX])
{
    size_t len = strlen(key);

    if (len > 40 ||
        strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != len)
        return vt_yaml_show(key, out);
    memcpy(out, key, len + 1);
    return out;
}

static const char *place_print(const struct place *place, char out[PLACE_TEXT_MAX])
{
    const struct place *chain[VT_YAML_DEPTH_MAX + 1];
    char key[VT_YAML_SHOW_MAX];
    size_t n = 0, len = 0;

    out[0] = '\0';
    for (; place && n < VT_YAML_DEPTH_MAX + 1; place = place->up)
        chain[n++] = place;
    while (n-- > 0 && len < PLACE_TEXT_MAX) {
        if (chain[n]->key)
            len += (size_t)snprintf(out + len, PLACE_TEXT_MAX - len, "%s%s", len ? "." : "",
                                    place_key(chain[n]->key, key));
        else
            len += (size_t)snprintf(out + len, PLACE_TEXT_MAX - len, "[%zu]", chain[n]->index + 1);
    }
    return out;
}

/* "<file>:<line>:<column>: <place>: <text>" */
__attribute__((format(printf, 4, 5))) static int refuse(struct binder *b,
                                                        const struct vt_yaml_node *node,
                                                        const struct place *place, const char *fmt,
                                                        ...)
{
    char text[VT_ERROR_TEXT_MAX - PLACE_TEXT_MAX], where[PLACE_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    place_print(place, where);
    return vt_error_at(b->err, b->file, node->line, node->column, "%s%s%s", where,
                       where[0] ? ": " : "", text);
}

static const char *const type_words[] = {
    [VT_YAML_SCALAR] = "a single value", [VT_YAML_MAP] = "a map", [VT_YAML_LIST] = "a list"};

static int refuse_type(struct binder *b, const struct vt_yaml_node *node, const struct place *place,
                       const char *expected)
{
    char shown[VT_YAML_SHOW_MAX];

    if (node->type != VT_YAML_SCALAR)
        return refuse(b, node, place, "expected %s, not %s", expected, type_words[node->type]);
    if (!node->quoted && !node->text[0])
        return refuse(b, node, place, "expected %s, not an empty value", expected);
    return refuse(b, node, place, "expected %s, not %s", expected, vt_yaml_show(node->text, shown));
}

static const char *field_key(const void *ctx, size_t i)
{
    return ((const struct vt_schema *)ctx)->fields[i].key;
}

static int refuse_unknown(struct binder *b, const struct vt_yaml_node *key,
                          const struct place *place, const struct vt_schema *schema)
{
    char shown[VT_YAML_SHOW_MAX], known[VT_FIELD_WORDS_MAX] = "";
    int nearest = vt_yaml_nearest(key->text, field_key, schema, schema->nfields);
    size_t n = 0;

    vt_yaml_show(key->text, shown);
    if (nearest >= 0)
        return refuse(b, key, place, "unknown key %s: did you mean \"%s\"?", shown,
                      schema->fields[nearest].key);
    for (size_t i = 0; i < schema->nfields && n < sizeof(known); i++) {
        if (schema->fields[i].key[0])
            n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "",
                                  schema->fields[i].key);
    }
    return refuse(b, key, place, "unknown key %s: known here are %s", shown, n ? known : "none");
}

static int bind_map(struct binder *b, const struct vt_yaml_node *node, const struct place *place,
                    const struct vt_schema *schema, void *object);

static int bind_scalar(struct binder *b, const struct vt_yaml_node *node, const struct place *place,
                       const struct vt_field *field, void *object)
{
    struct vt_error why = VT_ERROR_INIT;
    char expected[VT_FIELD_WORDS_MAX];

    if (node->type != VT_YAML_SCALAR)
        return refuse_type(b, node, place, vt_field_expect(field, expected));
    if (vt_field_parse(field, node->text, node->quoted, object, &why) < 0)
        return refuse(b, node, place, "%s", why.text);
    return 0;
}

/* One entry of a LIST or NAMED; name: its key, of a NAMED. */
static int bind_entry(struct binder *b, const struct vt_yaml_node *name,
                      const struct vt_yaml_node *node, const struct place *place,
                      const struct vt_schema *schema, void *object)
{
    int rc;

    if (schema->defaults)
        memcpy(object, schema->defaults, schema->struct_size);
    else
        memset(object, 0, schema->struct_size);
    if (name) {
        rc = bind_scalar(b, name, place, &schema->fields[0], object);
        return rc < 0 ? rc : bind_map(b, node, place, schema, object);
    }
    if (schema->nfields == 1 && !schema->fields[0].key[0])
        return bind_scalar(b, node, place, &schema->fields[0], object);
    return bind_map(b, node, place, schema, object);
}

static int bind_entries(struct binder *b, const struct vt_yaml_node *node,
                        const struct place *place, const struct vt_field *field, void *object)
{
    bool named = field->type == VT_FIELD_NAMED;
    size_t size = field->schema->struct_size;
    char *array = (char *)object + field->offset;

    assert((uint64_t)field->max <= field->size / size);
    if (node->type != (named ? VT_YAML_MAP : VT_YAML_LIST))
        return refuse_type(b, node, place, named ? "a map" : "a list");
    for (size_t i = 0; i < node->count; i++) {
        const struct vt_yaml_node *name = named ? node->keys[i] : NULL;
        struct place inside = {place, name ? name->text : NULL, i};
        int rc;

        if (i >= (size_t)field->max)
            return refuse(b, name ? name : node->items[i], place, "expected at most %lld entries",
                          (long long)field->max);
        rc = bind_entry(b, name, node->items[i], &inside, field->schema, array + i * size);
        if (rc < 0)
            return rc;
    }
    if (node->count < (size_t)field->min)
        return refuse(b, node, place, "expected at least %lld %s", (long long)field->min,
                      field->min == 1 ? "entry" : "entries");
    *(size_t *)(void *)((char *)object + field->count_offset) = node->count;
    return 0;
}

static int bind_field(struct binder *b, const struct vt_yaml_node *node, const struct place *place,
                      const struct vt_field *field, void *object)
{
    switch (field->type) {
    case VT_FIELD_MAP:
        return bind_map(b, node, place, field->schema, (char *)object + field->offset);
    case VT_FIELD_LIST:
    case VT_FIELD_NAMED:
        return bind_entries(b, node, place, field, object);
    case VT_FIELD_CUSTOM:
        return field->bind(node, b->file, object, b->err);
    default:
        return bind_scalar(b, node, place, field, object);
    }
}

static int check_required(struct binder *b, const struct vt_yaml_node *node,
                          const struct place *place, const struct vt_schema *schema)
{
    char expected[VT_FIELD_WORDS_MAX];

    for (size_t i = 0; i < schema->nfields; i++) {
        const struct vt_field *field = &schema->fields[i];

        if (!field->required || !field->key[0] || vt_yaml_find(node, field->key))
            continue;
        return refuse(b, node, place, "the key \"%s\" is missing%s%s: expected %s", field->key,
                      field->help ? ", " : "", field->help ? field->help : "",
                      vt_field_expect(field, expected));
    }
    return 0;
}

static int bind_map(struct binder *b, const struct vt_yaml_node *node, const struct place *place,
                    const struct vt_schema *schema, void *object)
{
    int rc;

    if (node->type != VT_YAML_MAP)
        return refuse_type(b, node, place, "a map");
    for (size_t i = 0; i < node->count; i++) {
        const struct vt_field *field = NULL;
        struct place inside = {place, node->keys[i]->text, 0};

        for (size_t k = 0; k < schema->nfields && !field; k++) {
            if (schema->fields[k].key[0] && strcmp(schema->fields[k].key, inside.key) == 0)
                field = &schema->fields[k];
        }
        if (!field)
            return refuse_unknown(b, node->keys[i], place, schema);
        rc = bind_field(b, node->items[i], &inside, field, object);
        if (rc < 0)
            return rc;
    }
    rc = check_required(b, node, place, schema);
    if (rc < 0 || !schema->check)
        return rc;
    return schema->check(object, node, b->file, b->err);
}

int vt_yaml_bind_node(const struct vt_yaml_node *node, const char *file,
                      const struct vt_schema *schema, void *object, struct vt_error *err)
{
    /* A caller that passes NULL still gets the code of what failed first. */
    struct vt_error unwanted = VT_ERROR_INIT;
    struct binder b = {file, err ? err : &unwanted};

    return bind_map(&b, node, NULL, schema, object);
}

int vt_yaml_bind(const struct vt_yaml *yaml, const struct vt_schema *schema, void *object,
                 struct vt_error *err)
{
    return vt_yaml_bind_node(yaml->root, yaml->file, schema, object, err);
}
