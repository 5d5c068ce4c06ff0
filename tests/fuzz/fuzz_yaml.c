/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-seconds: 45 */
/*
 * The YAML reader and the schema of specs on any bytes. What is read must keep the reader's bounds
 * and have no key twice in a map; what is refused must say where, inside the text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/yaml.h"
#include "tiles/spec/spec.h"

struct extent {
    int lines;
    size_t nodes, bytes;
};

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static void check_keys(const struct vt_yaml_node *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const char *key = map->keys[i]->text;

        must(map->keys[i]->type == VT_YAML_SCALAR && key[0], "a key is text");
        must(strlen(key) <= VT_YAML_KEY_MAX, "a key is not longer than its limit");
        /* Finds the first of its name: this one. */
        must(vt_yaml_find(map, key) == map->items[i], "a key stands in its map once");
    }
}

static void check_tree(const struct vt_yaml_node *node, int depth, struct extent *extent)
{
    must(node->line >= 1 && node->line <= extent->lines && node->column >= 1,
         "a place in the text");
    must(++extent->nodes <= VT_YAML_NODES_MAX, "the node limit");
    if (node->type == VT_YAML_SCALAR) {
        extent->bytes += strlen(node->text);
        return;
    }
    must(depth < VT_YAML_DEPTH_MAX, "the depth limit");
    if (node->type == VT_YAML_MAP)
        check_keys(node);
    for (size_t i = 0; i < node->count; i++) {
        if (node->type == VT_YAML_MAP)
            check_tree(node->keys[i], depth + 1, extent);
        check_tree(node->items[i], depth + 1, extent);
    }
}

static void check_error(const struct vt_error *err, size_t size, int lines)
{
    must(err->code < 0 && err->text[0] && err->kind == VT_KIND_CONFIG, "a refusal says why");
    must(size > VT_YAML_BYTES_MAX || (err->line >= 1 && err->line <= lines && err->column >= 1),
         "a refusal says where");
    for (const char *p = err->text; *p; p++)
        must((unsigned char)*p >= 0x20 && *p != 0x7f, "a message has no control characters");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct extent extent = {.lines = 1};
    struct vt_error err = VT_ERROR_INIT;
    struct vt_yaml yaml;
    struct spec *spec;

    for (size_t i = 0; i < size; i++)
        extent.lines += data[i] == '\n';
    if (vt_yaml_read_text("fuzz.yaml", (const char *)data, size, &yaml, &err) < 0) {
        check_error(&err, size, extent.lines);
        return 0;
    }
    check_tree(yaml.root, 0, &extent);
    /* An escape of two bytes makes at most three: "\L" is U+2028. */
    must(extent.bytes <= size * 3 / 2, "no text grows");
    vt_yaml_dispose(&yaml);

    spec = calloc(1, sizeof(*spec));
    must(spec != NULL, "memory");
    if (spec_read_text("fuzz.yaml", (const char *)data, size, spec, &err) < 0)
        check_error(&err, size, extent.lines);
    else
        must(spec->nroles >= 1 && spec->nroles <= SPEC_ROLES_MAX, "a spec has roles");
    free(spec);
    return 0;
}
