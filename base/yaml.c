/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/yaml_scan.h"

/* libyaml's own bound for an implicit key, in characters. */
#define IMPLICIT_KEY_MAX 1024
/* Power of two, over three times the number of keys that VT_YAML_NODES_MAX allows. */
#define KEY_SLOTS 16384

/* --- memory of a tree: blocks that only grow, freed together --- */

#define BLOCK_BYTES 16384

struct block {
    struct block *next;
    size_t used, size;
    alignas(max_align_t) char data[];
};

static void *tree_alloc(struct vt_yaml *yaml, size_t size)
{
    struct block *block = yaml->memory;
    size_t room;

    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!block || block->size - block->used < size) {
        room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = malloc(sizeof(*block) + room);
        if (!block)
            return NULL;
        block->next = yaml->memory;
        block->used = 0;
        block->size = room;
        yaml->memory = block;
    }
    block->used += size;
    return block->data + block->used - size;
}

void vt_yaml_dispose(struct vt_yaml *yaml)
{
    struct block *block;

    if (!yaml)
        return;
    while ((block = yaml->memory)) {
        yaml->memory = block->next;
        free(block);
    }
    free(yaml->file);
    yaml->file = NULL;
    yaml->root = NULL;
}

/* --- from events to the tree --- */

/* A map or list that is still open. */
struct level {
    struct vt_yaml_node *node;
    bool flow;   /* written with [] or {} */
    int block;   /* column of the innermost block map or list, this one included; 0: none */
    size_t base; /* its first child in reader.held; of a map: keys and values in turn */
};

struct slot {
    const struct vt_yaml_node *map, *key;
};

struct reader {
    struct vt_yaml *yaml;
    yaml_parser_t parser;
    struct yaml_scan scan;
    struct level levels[VT_YAML_DEPTH_MAX];
    size_t depth, nnodes;
    struct vt_yaml_node *held[VT_YAML_NODES_MAX]; /* children of the open levels */
    size_t nheld;
    struct slot slots[KEY_SLOTS];   /* every key of every map, hashed */
    int anchor_line, anchor_column; /* the first anchor, 0: none */
};

__attribute__((format(printf, 4, 5))) static int refuse(const struct reader *r, yaml_mark_t mark,
                                                        struct vt_error *err, const char *fmt, ...)
{
    char text[VT_ERROR_TEXT_MAX];
    int line, column;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    yaml_scan_place(&r->scan, mark, &line, &column);
    return vt_error_at(err, r->yaml->file, line, column, "%s", text);
}

static int no_memory(struct vt_error *err, const char *file)
{
    return vt_error_no_memory(err, "read %s", file);
}

static int refuse_syntax(const struct reader *r, struct vt_error *err)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "cannot be read";
    const char *context = p->context ? p->context : "";
    const char *hint = "";

    if (p->error == YAML_MEMORY_ERROR)
        return no_memory(err, r->yaml->file);
    /* The scanner no longer takes a longer text for a key and then stumbles over its colon. */
    if (p->problem_mark.column > IMPLICIT_KEY_MAX)
        hint = " (a key is longer than the key limit, 256 bytes?)";
    return refuse(r, p->problem_mark, err, "not YAML: %s%s%s%s", context, context[0] ? " " : "",
                  problem, hint);
}

static struct level *top(struct reader *r)
{
    return r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
}

/* Does the next node stand where a map's key is due? */
static bool key_is_due(struct reader *r)
{
    struct level *level = top(r);

    return level && level->node->type == VT_YAML_MAP && (r->nheld - level->base) % 2 == 0;
}

/* Would any YAML schema read this plain text as a number? Two spellings of one number would be
 * one key to a reader with types and two to us. */
static bool looks_like_number(const char *text)
{
    if (*text == '-' || *text == '+')
        text++;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'o' || text[1] == 'b'))
        return text[2] && strspn(text + 2, "0123456789abcdefABCDEF_") == strlen(text + 2);
    if (*text == '.')
        text++;
    return *text >= '0' && *text <= '9' && strspn(text, "0123456789_.:eE+-") == strlen(text);
}

static size_t hash_key(const struct vt_yaml_node *map, const char *key)
{
    /* FNV-1a, begun with the map's address. A file made to collide costs at most
     * VT_YAML_NODES_MAX / 2 probes a key. */
    uint64_t h = UINT64_C(14695981039346656037) ^ (uintptr_t)map;

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * UINT64_C(1099511628211);
    return (size_t)(h ^ h >> 32);
}

static int check_key(struct reader *r, const struct vt_yaml_node *key, struct vt_error *err)
{
    const struct vt_yaml_node *map = top(r)->node;
    const char *file = r->yaml->file;
    char shown[VT_YAML_SHOW_MAX];
    size_t i;

    if (!key->quoted && strcmp(key->text, "<<") == 0)
        return vt_error_at(err, file, key->line, key->column,
                           "a merge key (<<): write the values out");
    if (strlen(key->text) > VT_YAML_KEY_MAX)
        return vt_error_at(err, file, key->line, key->column,
                           "a key longer than the key limit, %d bytes", VT_YAML_KEY_MAX);
    if (!key->text[0])
        return vt_error_at(err, file, key->line, key->column, "an empty key");
    if (!key->quoted && looks_like_number(key->text))
        return vt_error_at(err, file, key->line, key->column,
                           "key %s: a key must be text: put a number in quotes",
                           vt_yaml_show(key->text, shown));
    for (i = hash_key(map, key->text) % KEY_SLOTS; r->slots[i].key; i = (i + 1) % KEY_SLOTS) {
        const struct slot *slot = &r->slots[i];

        if (slot->map == map && strcmp(slot->key->text, key->text) == 0)
            return vt_error_at(err, file, key->line, key->column,
                               "duplicate key %s: it stands at %d:%d already",
                               vt_yaml_show(key->text, shown), slot->key->line, slot->key->column);
    }
    r->slots[i] = (struct slot){map, key};
    return 0;
}

/* Makes a node and puts it into the open level, or at the root. */
static int add_node(struct reader *r, enum vt_yaml_type type, yaml_mark_t mark,
                    struct vt_yaml_node **ret, struct vt_error *err)
{
    struct vt_yaml_node *node;

    if (r->nnodes >= VT_YAML_NODES_MAX) {
        refuse(r, mark, err, "more than the node limit, %d keys and values", VT_YAML_NODES_MAX);
        return -EINVAL; /* as refuse() does, which analyzers do not see */
    }
    node = tree_alloc(r->yaml, sizeof(*node));
    if (!node)
        return no_memory(err, r->yaml->file);
    *node = (struct vt_yaml_node){.type = type};
    yaml_scan_place(&r->scan, mark, &node->line, &node->column);
    r->nnodes++;
    if (r->depth > 0)
        r->held[r->nheld++] = node;
    else
        r->yaml->root = node;
    *ret = node;
    return 0;
}

/* An anchor is remembered and refused where it is used, for that is where the fault is
 * understood; one that is never used is refused at the document's end. */
static int check_properties(struct reader *r, const yaml_event_t *event, const void *anchor,
                            const void *tag, struct vt_error *err)
{
    if (tag)
        return refuse(r, event->start_mark, err, "a tag (!): a value's type follows from its key");
    if (anchor && !r->anchor_line) {
        yaml_scan_place(&r->scan, event->start_mark, &r->anchor_line, &r->anchor_column);
    }
    return 0;
}

static int on_scalar(struct reader *r, const yaml_event_t *event, struct vt_error *err)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    bool is_key = key_is_due(r);
    struct vt_yaml_node *node;
    char *text;
    int rc = check_properties(r, event, event->data.scalar.anchor, event->data.scalar.tag, err);

    if (rc < 0)
        return rc;
    if (memchr(value, '\0', len))
        return refuse(r, event->start_mark, err, "a NUL character in a text");
    rc = add_node(r, VT_YAML_SCALAR, event->start_mark, &node, err);
    if (rc < 0)
        return rc;
    text = tree_alloc(r->yaml, len + 1);
    if (!text)
        return no_memory(err, r->yaml->file);
    memcpy(text, value, len);
    text[len] = '\0';
    node->text = text;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return is_key ? check_key(r, node, err) : 0;
}

static int on_open(struct reader *r, enum vt_yaml_type type, bool flow, yaml_mark_t mark,
                   struct vt_error *err)
{
    const struct level *outer = top(r);
    struct vt_yaml_node *node;
    int rc;

    if (key_is_due(r))
        return refuse(r, mark, err, "a key must be text, not a %s",
                      type == VT_YAML_MAP ? "map" : "list");
    if (r->depth >= VT_YAML_DEPTH_MAX)
        return refuse(r, mark, err, "nested deeper than the depth limit, %d levels",
                      VT_YAML_DEPTH_MAX);
    rc = add_node(r, type, mark, &node, err);
    if (rc < 0)
        return rc;
    r->levels[r->depth++] = (struct level){.node = node, .flow = flow, .base = r->nheld};
    top(r)->block = !flow ? node->column : outer ? outer->block : 0;
    return 0;
}

/* Moves the children of the innermost level from held into its node. */
static int on_close(struct reader *r, struct vt_error *err)
{
    struct level *level = top(r);
    struct vt_yaml_node *node = level->node, **from = r->held + level->base;
    size_t n = r->nheld - level->base;

    if (n > 0) {
        struct vt_yaml_node **array = tree_alloc(r->yaml, n * sizeof(struct vt_yaml_node *));

        if (!array)
            return no_memory(err, r->yaml->file);
        if (node->type == VT_YAML_LIST) {
            memcpy(array, from, n * sizeof(struct vt_yaml_node *));
            node->items = array;
            node->count = n;
        } else {
            node->keys = array;
            node->items = array + n / 2;
            node->count = n / 2;
            for (size_t i = 0; i < node->count; i++) {
                node->keys[i] = from[2 * i];
                node->items[i] = from[2 * i + 1];
            }
        }
    }
    r->nheld = level->base;
    r->depth--;
    return 0;
}

static int on_document(struct reader *r, const yaml_event_t *event, struct vt_error *err)
{
    if (r->yaml->root)
        return refuse(r, event->start_mark, err, "a second document (---): a file holds one");
    if (event->data.document_start.version_directive ||
        event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end)
        return refuse(r, event->start_mark, err, "a directive (%%) before the document");
    return 0;
}

static int on_list(struct reader *r, const yaml_event_t *event, struct vt_error *err)
{
    bool flow = event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    int rc = check_properties(r, event, event->data.sequence_start.anchor,
                              event->data.sequence_start.tag, err);

    return rc < 0 ? rc : on_open(r, VT_YAML_LIST, flow, event->start_mark, err);
}

static int on_map(struct reader *r, const yaml_event_t *event, struct vt_error *err)
{
    bool flow = event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
    int rc = check_properties(r, event, event->data.mapping_start.anchor,
                              event->data.mapping_start.tag, err);

    return rc < 0 ? rc : on_open(r, VT_YAML_MAP, flow, event->start_mark, err);
}

static int on_event(struct reader *r, const yaml_event_t *event, struct vt_error *err)
{
    const struct level *level = top(r);
    int rc = yaml_scan_event(&r->scan, event, level && level->flow, level ? level->block : 0, err);

    if (rc < 0)
        return rc;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return on_document(r, event, err);
    case YAML_DOCUMENT_END_EVENT:
        if (r->anchor_line)
            return vt_error_at(err, r->yaml->file, r->anchor_line, r->anchor_column,
                               "an anchor (&): anchors are not read");
        return 0;
    case YAML_ALIAS_EVENT:
        return refuse(r, event->start_mark, err,
                      "an alias (*): write the value out where it is used");
    case YAML_SCALAR_EVENT:
        return on_scalar(r, event, err);
    case YAML_SEQUENCE_START_EVENT:
        return on_list(r, event, err);
    case YAML_MAPPING_START_EVENT:
        return on_map(r, event, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_close(r, err);
    default:
        return 0;
    }
}

static int read_events(struct reader *r, struct vt_error *err)
{
    bool done = false;
    int rc = 0;

    while (rc == 0 && !done) {
        yaml_event_t event;

        if (!yaml_parser_parse(&r->parser, &event))
            return refuse_syntax(r, err);
        done = event.type == YAML_STREAM_END_EVENT;
        rc = on_event(r, &event, err);
        yaml_event_delete(&event);
    }
    if (rc == 0 && !r->yaml->root)
        rc = add_node(r, VT_YAML_MAP, (yaml_mark_t){0}, &r->yaml->root, err);
    return rc;
}

int vt_yaml_read_text(const char *name, const char *data, size_t len, struct vt_yaml *ret,
                      struct vt_error *err)
{
    struct vt_yaml yaml = {0};
    VT_AUTO_FREE struct reader *r = NULL;
    int rc;

    if (len > VT_YAML_BYTES_MAX)
        return vt_error_at(err, name, 0, 0, "larger than the size limit, %u bytes",
                           VT_YAML_BYTES_MAX);
    rc = yaml_scan_check(name, data, len, err);
    if (rc < 0)
        return rc;
    yaml.file = strdup(name);
    r = calloc(1, sizeof(*r));
    if (!yaml.file || !r || !yaml_parser_initialize(&r->parser)) {
        free(yaml.file);
        return no_memory(err, name);
    }
    r->yaml = &yaml;
    yaml_scan_begin(&r->scan, name, data, len);
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)data, len);
    rc = read_events(r, err);
    yaml_parser_delete(&r->parser);
    if (rc < 0) {
        vt_yaml_dispose(&yaml);
        return rc;
    }
    *ret = yaml;
    return 0;
}

int vt_yaml_read_file(const char *path, struct vt_yaml *ret, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    VT_AUTO_FREE char *data = NULL;
    size_t len = 0;
    struct stat st;
    int rc = vt_file_open(path, VT_KIND_CONFIG, &fd, err);

    if (rc < 0)
        return rc;
    if (fstat(fd, &st) < 0)
        return vt_error_errno(err, VT_KIND_CONFIG, errno, "read %s", path);
    data = st.st_size > VT_YAML_BYTES_MAX ? NULL : malloc(VT_YAML_BYTES_MAX + 1);
    if (!data) {
        if (st.st_size <= VT_YAML_BYTES_MAX)
            return no_memory(err, path);
        return vt_error_at(err, path, 0, 0, "larger than the size limit, %u bytes",
                           VT_YAML_BYTES_MAX);
    }
    while (len <= VT_YAML_BYTES_MAX) {
        ssize_t n = read(fd, data + len, VT_YAML_BYTES_MAX + 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return vt_error_errno(err, VT_KIND_CONFIG, errno, "read %s", path);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return vt_yaml_read_text(path, data, len, ret, err);
}

const struct vt_yaml_node *vt_yaml_find(const struct vt_yaml_node *map, const char *key)
{
    for (size_t i = 0; map->type == VT_YAML_MAP && i < map->count; i++) {
        if (strcmp(map->keys[i]->text, key) == 0)
            return map->items[i];
    }
    return NULL;
}
