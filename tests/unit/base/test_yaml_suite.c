/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public yaml-test-suite against the reader. yaml_suite.expect states of each case whether it
 * is read or refused, and why; both directions are compared. What is read must give the suite's
 * own event tree. The suite's files are read with libyaml's document loader.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <yaml.h>

#include "base/scope.h"
#include "base/text.h"
#include "base/yaml.h"
#include "tests/unit/cases.h"

#define SUITE "yaml/yaml-test-suite/src"
#define EXPECT VTILE_SOURCE "/tests/unit/base/yaml_suite.expect"
#define CASES_MAX 1000

struct expectation {
    char id[16];
    bool accepted;
    char reason[128]; /* stands in the refusal's text */
    bool seen;
};

struct suite {
    struct expectation expected[CASES_MAX];
    size_t nexpected, cases, wrong;
};

/* --- the suite's notation --- */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Its stand-ins for invisible characters become the characters. A tab is an arrow with a shaft of
 * any length. */
static void from_visible(const char *in, struct vt_buf *out)
{
    static const struct {
        const char *shown, *meant;
    } table[] = {
        {"»", "\t"}, {"␣", " "}, {"↵", ""}, {"←", "\r"}, {"∎\n", ""}, {"⇔", "\xef\xbb\xbf"},
    };

    while (*in) {
        const char *tip = in;
        size_t i = 0;

        while (starts(tip, "—"))
            tip += strlen("—");
        if (tip > in && starts(tip, "»"))
            in = tip;
        while (i < VT_COUNT(table) && !starts(in, table[i].shown))
            i++;
        if (i < VT_COUNT(table)) {
            vt_buf_adds(out, table[i].meant);
            in += strlen(table[i].shown);
        } else {
            vt_buf_add(out, in++, 1);
        }
    }
}

/* The suite's tree without what our nodes do not keep: indentation, styles of maps and lists,
 * explicit document marks; plain and quoted are told apart. */
static void normal_tree(const char *tree, struct vt_buf *out)
{
    while (*tree) {
        size_t len;

        tree += strspn(tree, " ");
        len = strcspn(tree, "\n");
        if (starts(tree, "=VAL ")) {
            vt_buf_adds(out, tree[5] == ':' ? "=VAL :" : "=VAL '");
            vt_buf_add(out, tree + 6, len - 6);
        } else {
            vt_buf_add(out, tree, len < 4 ? len : 4);
        }
        if (len)
            vt_buf_adds(out, "\n");
        tree += len + (tree[len] == '\n');
    }
}

static void our_scalar(const struct vt_yaml_node *node, struct vt_buf *out)
{
    static const char escaped[] = "\n\t\\\r\b", letters[] = "nt\\rb";

    vt_buf_adds(out, node->quoted ? "=VAL '" : "=VAL :");
    for (const char *p = node->text; *p; p++) {
        const char *at = strchr(escaped, *p);

        if (at)
            vt_buf_printf(out, "\\%c", letters[at - escaped]);
        else
            vt_buf_add(out, p, 1);
    }
    vt_buf_adds(out, "\n");
}

static void our_tree(const struct vt_yaml_node *node, struct vt_buf *out)
{
    bool map = node->type == VT_YAML_MAP;

    if (node->type == VT_YAML_SCALAR) {
        our_scalar(node, out);
        return;
    }
    vt_buf_adds(out, map ? "+MAP\n" : "+SEQ\n");
    for (size_t i = 0; i < node->count; i++) {
        if (map)
            our_scalar(node->keys[i], out);
        our_tree(node->items[i], out);
    }
    vt_buf_adds(out, map ? "-MAP\n" : "-SEQ\n");
}

/* --- one case --- */

static struct expectation *find(struct suite *suite, const char *id)
{
    for (size_t i = 0; i < suite->nexpected; i++) {
        if (strcmp(suite->expected[i].id, id) == 0)
            return &suite->expected[i];
    }
    return NULL;
}

static void complain(struct suite *suite, const char *id, const char *what, const char *text)
{
    suite->wrong++;
    fprintf(stderr, "%s: %s: %s\n", id, what, text);
}

static void check_tree(struct suite *suite, const char *id, const struct vt_yaml *yaml,
                       const char *tree)
{
    VT_AUTO_BUF struct vt_buf visible = VT_BUF_INIT(1 << 20);
    VT_AUTO_BUF struct vt_buf theirs = VT_BUF_INIT(1 << 20);
    VT_AUTO_BUF struct vt_buf ours = VT_BUF_INIT(1 << 20);

    from_visible(tree, &visible);
    normal_tree(visible.data, &theirs);
    vt_buf_adds(&ours, "+STR\n");
    /* No document at all reads as an empty map. */
    if (strcmp(theirs.data, "+STR\n-STR\n") != 0) {
        vt_buf_adds(&ours, "+DOC\n");
        our_tree(yaml->root, &ours);
        vt_buf_adds(&ours, "-DOC\n");
    } else if (yaml->root->type != VT_YAML_MAP || yaml->root->count != 0) {
        vt_buf_adds(&ours, "not an empty map\n");
    }
    vt_buf_adds(&ours, "-STR\n");
    if (strcmp(ours.data, theirs.data) != 0) {
        complain(suite, id, "read as", ours.data);
        complain(suite, id, "but the suite has", theirs.data);
    }
}

static void check_case(struct suite *suite, const char *id, const char *text, const char *tree,
                       bool fail)
{
    VT_AUTO_BUF struct vt_buf input = VT_BUF_INIT(1 << 20);
    struct vt_error err = VT_ERROR_INIT;
    struct expectation *expected = find(suite, id);
    struct vt_yaml yaml = {0};
    bool accepted;

    suite->cases++;
    vt_buf_adds(&input, "");
    from_visible(text, &input);
    accepted = vt_yaml_read_text(id, input.data, input.len, &yaml, &err) == 0;
    if (expected)
        expected->seen = true;
    if (!expected)
        complain(suite, id, "not in the list", accepted ? "accepted" : err.text);
    else if (accepted != expected->accepted)
        complain(suite, id, accepted ? "read, against the list" : "refused, against the list",
                 err.text);
    else if (!accepted && !strstr(err.text, expected->reason))
        complain(suite, id, "refused for another reason than listed", err.text);
    if (!accepted && (err.kind != VT_KIND_CONFIG || err.line < 1 || err.column < 1))
        complain(suite, id, "refused without a position", err.text);
    if (accepted && fail)
        complain(suite, id, "read", "although the suite calls it an error");
    if (accepted && !fail)
        check_tree(suite, id, &yaml, tree);
    vt_yaml_dispose(&yaml);
}

/* --- the suite's files --- */

static const char *member(yaml_document_t *doc, const yaml_node_t *map, const char *key)
{
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *k = yaml_document_get_node(doc, p->key);
        const yaml_node_t *v = yaml_document_get_node(doc, p->value);

        if (strcmp((const char *)k->data.scalar.value, key) == 0 && v->type == YAML_SCALAR_NODE)
            return (const char *)v->data.scalar.value;
    }
    return NULL;
}

static void check_document(struct suite *suite, const char *name, yaml_document_t *doc)
{
    yaml_node_t *list = yaml_document_get_root_node(doc);
    const char *tree = "";
    size_t n, i = 0;

    assert_non_null(list);
    assert_int_equal(list->type, YAML_SEQUENCE_NODE);
    n = (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
    for (yaml_node_item_t *item = list->data.sequence.items.start;
         item < list->data.sequence.items.top; item++, i++) {
        const yaml_node_t *map = yaml_document_get_node(doc, *item);
        const char *text = member(doc, map, "yaml"), *fail = member(doc, map, "fail");
        char id[16];

        /* A case without a tree has that of the case before it in its file. */
        if (member(doc, map, "tree"))
            tree = member(doc, map, "tree");
        snprintf(id, sizeof(id), n > 1 ? "%.4s/%02zu" : "%.4s", name, i);
        assert_non_null(text);
        check_case(suite, id, text, tree, fail && strcmp(fail, "true") == 0);
    }
}

static void check_file(struct suite *suite, const char *folder, const char *name)
{
    char path[1024];
    VT_AUTO_FCLOSE FILE *file = NULL;
    yaml_parser_t parser;
    yaml_document_t doc;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_true(yaml_parser_initialize(&parser));
    yaml_parser_set_input_file(&parser, file);
    assert_true(yaml_parser_load(&parser, &doc));
    check_document(suite, name, &doc);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
}

/* Lines "<id> accepted" and "<id> refused: <part of the reason>". */
static void read_expectations(struct suite *suite)
{
    VT_AUTO_FCLOSE FILE *file = fopen(EXPECT, "re");
    char line[256];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        struct expectation *e = &suite->expected[suite->nexpected];
        char word[16];

        if (line[0] == '#' || line[0] == '\n')
            continue;
        assert_true(suite->nexpected < CASES_MAX);
        assert_true(sscanf(line, "%15s %15s %127[^\n]", e->id, word, e->reason) >= 2);
        e->accepted = strcmp(word, "accepted") == 0;
        assert_true(e->accepted || (strcmp(word, "refused:") == 0 && e->reason[0]));
        suite->nexpected++;
    }
}

static void test_suite(void **state)
{
    VT_AUTO_FREE struct suite *suite = calloc(1, sizeof(*suite));
    char folder[400];
    struct dirent *entry;
    DIR *dir;

    (void)state;
    if (!cases_path(folder, sizeof(folder), SUITE))
        skip();
    assert_non_null(suite);
    read_expectations(suite);
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (strlen(entry->d_name) == strlen("229Q.yaml") && entry->d_name[0] != '.')
            check_file(suite, folder, entry->d_name);
    }
    closedir(dir);
    for (size_t i = 0; i < suite->nexpected; i++) {
        if (!suite->expected[i].seen)
            complain(suite, suite->expected[i].id, "listed", "but not in the suite");
    }
    print_message("%zu cases of the suite, %zu differ from the list\n", suite->cases, suite->wrong);
    assert_int_equal(suite->wrong, 0);
    /* 351 files, some with several cases. */
    assert_true(suite->cases >= 351);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_suite)};

    return cmocka_run_group_tests_name("yaml_suite", tests, NULL, NULL);
}
