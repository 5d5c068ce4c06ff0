/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML reader: what it refuses, where, and at what cost. Binding is in test_yaml_bind.c. */
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "base/yaml.h"
#include "tests/unit/cases.h"
#include "tests/unit/sanitized.h"

static int read_bytes(const char *text, size_t len, struct vt_yaml *ret, struct vt_error *err)
{
    /* A copy without a NUL after it: a read past the end is then seen by the sanitizer. */
    char *copy = malloc(len ? len : 1);
    int rc;

    assert_non_null(copy);
    memcpy(copy, text, len);
    rc = vt_yaml_read_text("t.yaml", copy, len, ret, err);
    free(copy);
    return rc;
}

static void refused_bytes(const char *text, size_t len, int line, int column, const char *why)
{
    struct vt_error err = VT_ERROR_INIT;
    struct vt_yaml yaml;

    if (read_bytes(text, len, &yaml, &err) == 0)
        fail_msg("read: %.60s", text);
    if (!strstr(err.text, why))
        fail_msg("refused with \"%s\", expected \"%s\"", err.text, why);
    assert_string_equal(err.file, "t.yaml");
    assert_int_equal(err.line, line);
    assert_int_equal(err.column, column);
    assert_int_equal(vt_error_exit_code(&err), 2);
}

static void refused(const char *text, int line, int column, const char *why)
{
    refused_bytes(text, strlen(text), line, column, why);
}

static void test_tree(void **state)
{
    const char text[] = "# comment\nname: web\nsizes:\n  tcg: {memory: '128 MiB', vcpus: 1}\n"
                        "limits:\n  - 95 %\n  - NO\nnothing:\nspelled: \"~\"\n";
    const struct vt_yaml_node *node;
    struct vt_yaml yaml;

    (void)state;
    assert_int_equal(read_bytes(text, strlen(text), &yaml, NULL), 0);
    assert_string_equal(yaml.file, "t.yaml");
    assert_int_equal(yaml.root->type, VT_YAML_MAP);
    assert_int_equal(yaml.root->count, 5);
    assert_string_equal(yaml.root->keys[4]->text, "spelled");
    node = vt_yaml_find(yaml.root, "name");
    assert_string_equal(node->text, "web");
    assert_int_equal(node->line, 2);
    assert_int_equal(node->column, 7);
    node = vt_yaml_find(vt_yaml_find(vt_yaml_find(yaml.root, "sizes"), "tcg"), "memory");
    assert_string_equal(node->text, "128 MiB");
    assert_true(node->quoted);
    assert_int_equal(node->line, 4);
    assert_int_equal(node->column, 17);
    node = vt_yaml_find(yaml.root, "limits");
    assert_int_equal(node->type, VT_YAML_LIST);
    assert_int_equal(node->count, 2);
    assert_string_equal(node->items[1]->text, "NO");
    node = vt_yaml_find(yaml.root, "nothing");
    assert_string_equal(node->text, "");
    assert_false(node->quoted);
    assert_true(vt_yaml_find(yaml.root, "spelled")->quoted);
    assert_null(vt_yaml_find(yaml.root, "absent"));
    vt_yaml_dispose(&yaml);
    vt_yaml_dispose(&yaml);
    vt_yaml_dispose(NULL);
}

static void test_no_document(void **state)
{
    static const char *const texts[] = {"", "\n\n", "# only a comment\n", "  # indented\n"};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(texts); i++) {
        struct vt_yaml yaml;

        assert_int_equal(read_bytes(texts[i], strlen(texts[i]), &yaml, NULL), 0);
        assert_int_equal(yaml.root->type, VT_YAML_MAP);
        assert_int_equal(yaml.root->count, 0);
        assert_int_equal(yaml.root->line, 1);
        assert_int_equal(yaml.root->column, 1);
        vt_yaml_dispose(&yaml);
    }
}

static void test_columns_are_characters(void **state)
{
    const char text[] = "\"gr\xc3\xb6\xc3\x9f"
                        "e\": 1\r\n\"\xe2\x82\xac\": {a: 1, a: 2}\r\n";

    (void)state;
    /* "e" with the euro sign in front: the second a stands in column 13. */
    refused(text, 2, 13, "duplicate key \"a\": it stands at 2:7 already");
}

static void test_refused(void **state)
{
    (void)state;
    refused("a: 1\nb: 2\na: 3\n", 3, 1, "duplicate key \"a\": it stands at 1:1 already");
    refused("a:\n  \"b\": 1\n  b: 2\n", 3, 3, "duplicate key \"b\": it stands at 2:3 already");
    refused("a: {b: 1}\nc: {b: 1, 'b': 1}\n", 2, 11, "it stands at 2:5 already");
    refused("a: &x 1\n", 1, 4, "an anchor");
    refused("a: &x 1\nb: *x\n", 2, 4, "an alias");
    refused("a: *x\n", 1, 4, "an alias");
    refused("a: &a [*a]\n", 1, 8, "an alias");
    refused("a:\n  <<: {b: 1}\n", 2, 3, "a merge key");
    refused("a: !!str 1\n", 1, 4, "a tag");
    refused("a: ! 1\n", 1, 4, "a tag");
    refused("--- !!map\na: 1\n", 1, 5, "a tag");
    refused("%YAML 1.2\n---\na: 1\n", 1, 1, "a directive");
    refused("%TAG ! tag:x,2000:\n---\na: 1\n", 1, 1, "a directive");
    refused("a: 1\n---\nb: 1\n", 2, 1, "a second document");
    refused("a: 1\n...\nb: 1\n", 3, 1, "did not find expected <document start>");
    refused("1: a\n", 1, 1, "put a number in quotes");
    refused("a: {-0x1F: a}\n", 1, 5, "put a number in quotes");
    refused(".5: a\n", 1, 1, "put a number in quotes");
    refused("[a]: b\n", 1, 1, "a key must be text, not a list");
    refused("? {a: b}\n: c\n", 1, 3, "a key must be text, not a map");
    refused("a: {? : b}\n", 1, 7, "an empty key");
    refused("'': b\n", 1, 1, "an empty key");
    refused("a: [b\n", 2, 1, "not YAML: while parsing a flow sequence");
    refused("a: b: c\n", 1, 5, "not YAML: mapping values are not allowed");
    refused("a: \"\\0\"\n", 1, 4, "a NUL character");
    /* libyaml puts this behind the text, at 3:1. */
    refused("a: 1\nb # c", 2, 6, "could not find expected ':'");
}

static void test_bytes_refused(void **state)
{
    (void)state;
    refused("a:\n\tb: 1\n", 2, 1, "a tab in the indentation");
    refused("a:\n  \tb: 1\n", 2, 3, "a tab in the indentation");
    refused("\xef\xbb\xbf"
            "a: 1\n",
            1, 1, "a byte order mark");
    refused("a: \"x\xef\xbb\xbf\"\n", 1, 6, "a byte order mark");
    refused_bytes("\xff\xfe"
                  "a\0:\0",
                  6, 1, 1, "UTF-16");
    refused_bytes("\xfe\xff\0a\0:", 6, 1, 1, "UTF-16");
    refused_bytes("a: 1\0b", 6, 1, 5, "a control character (U+0000)");
    refused("a: 1\nb: \x1b[31m\n", 2, 4, "a control character (U+001B)");
    refused("a: \x7f\n", 1, 4, "a control character");
    refused("a: 1\rb: 2\n", 1, 5, "a carriage return without a line feed");
    refused("a: 1\xc2\x85"
            "b: 2\n",
            1, 5, "a line end other than");
    refused("a: 1\xe2\x80\xa8"
            "b: 2\n",
            1, 5, "a line end other than");
    refused("a: \xff\n", 1, 4, "byte 0xff is no UTF-8");
    refused("a: \xc0\xaf\n", 1, 4, "byte 0xc0 is no UTF-8");         /* overlong "/" */
    refused("a: \xe0\x80\xaf\n", 1, 4, "byte 0xe0 is no UTF-8");     /* overlong */
    refused("a: \xed\xa0\x80\n", 1, 4, "byte 0xed is no UTF-8");     /* a surrogate */
    refused("a: \xf4\x90\x80\x80\n", 1, 4, "byte 0xf4 is no UTF-8"); /* above U+10FFFF */
    refused_bytes("a: \xe2\x82", 5, 1, 4, "byte 0xe2 is no UTF-8");  /* cut */
    refused("a: 1\n  ", 2, 3, "white space without a line end");
}

/* What libyaml reads and YAML 1.2 does not; the yaml-test-suite has more of them. */
static void test_layout_refused(void **state)
{
    (void)state;
    refused("a: [b, c]# d\n", 1, 10, "a comment needs a space");
    refused("a: \"b\"# c\n", 1, 7, "a comment needs a space");
    refused("a: [b,# c\n  d]\n", 1, 7, "a comment needs a space");
    refused("a: ># b\n  c\n", 1, 5, "a comment needs a space");
    refused("a: {b: [c,\nd]}\n", 2, 1, "indent this line further");
    refused("a:\n  b: \"c\n  d\"\n", 3, 3, "indent this line further");
    refused("a: [-]\n", 1, 5, "a bare -");
    refused("a: {?b: c}\n", 1, 5, "a key that begins with ?");
}

static void test_layout_read(void **state)
{
    static const char *const texts[] = {
        "a: [b, # c\n  d # e\n ] # f\n",
        "a: [\n  b,\n  c\n]\n",
        "a: \"b # c\" # d\n",
        "a: 'b\n\n  c'\n",
        "a: | # b\n  c # d\n",
        "? a\n: b\n",
        "a: b?c\n",
        "a:\n- b\n- - c\n",
        "\"a\": 1\n'b': 2\n",
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(texts); i++) {
        struct vt_error err = VT_ERROR_INIT;
        struct vt_yaml yaml;

        if (read_bytes(texts[i], strlen(texts[i]), &yaml, &err) < 0)
            fail_msg("%d:%d: %s in\n%s", err.line, err.column, err.text, texts[i]);
        vt_yaml_dispose(&yaml);
    }
}

/* --- limits --- */

static void test_depth(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 20);
    struct vt_yaml yaml;

    (void)state;
    for (int depth = 0; depth < VT_YAML_DEPTH_MAX; depth++)
        vt_buf_adds(&text, "[");
    for (int depth = 0; depth < VT_YAML_DEPTH_MAX; depth++)
        vt_buf_adds(&text, "]");
    assert_int_equal(read_bytes(text.data, text.len, &yaml, NULL), 0);
    vt_yaml_dispose(&yaml);
    vt_buf_reset(&text);
    for (int depth = 0; depth < 100000; depth++)
        vt_buf_adds(&text, "[");
    refused(text.data, 1, VT_YAML_DEPTH_MAX + 1, "the depth limit, 16 levels");
    vt_buf_reset(&text);
    for (int depth = 0; depth < 200; depth++)
        vt_buf_printf(&text, "%*sa:\n", depth, "");
    refused(text.data, VT_YAML_DEPTH_MAX + 1, VT_YAML_DEPTH_MAX + 1, "the depth limit");
}

static void test_nodes(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 20);
    struct vt_yaml yaml;

    (void)state;
    /* The map itself, and two nodes a line: 4,999 lines fit, of 5,000 the last value does not. */
    for (int i = 0; i < 4999; i++)
        vt_buf_printf(&text, "k%d: v\n", i);
    assert_int_equal(read_bytes(text.data, text.len, &yaml, NULL), 0);
    assert_int_equal(yaml.root->count, 4999);
    vt_yaml_dispose(&yaml);
    for (int i = 4999; i < 10000; i++)
        vt_buf_printf(&text, "k%d: v\n", i);
    refused(text.data, 5000, 8, "the node limit, 10000");
}

static void test_key_length(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 20);
    struct vt_yaml yaml;

    (void)state;
    for (int i = 0; i < VT_YAML_KEY_MAX; i++)
        vt_buf_adds(&text, "k");
    vt_buf_adds(&text, ": v\n");
    assert_int_equal(read_bytes(text.data, text.len, &yaml, NULL), 0);
    vt_yaml_dispose(&yaml);
    vt_buf_reset(&text);
    vt_buf_adds(&text, "a:\n  k");
    for (int i = 0; i < VT_YAML_KEY_MAX; i++)
        vt_buf_adds(&text, "k");
    vt_buf_adds(&text, ": v\n");
    refused(text.data, 2, 3, "the key limit, 256 bytes");
}

static void test_size(void **state)
{
    VT_AUTO_FREE char *text = malloc(VT_YAML_BYTES_MAX + 1);
    struct vt_error err = VT_ERROR_INIT;
    struct vt_yaml yaml;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', VT_YAML_BYTES_MAX + 1);
    memcpy(text, "a: ", 3);
    assert_int_equal(vt_yaml_read_text("t.yaml", text, VT_YAML_BYTES_MAX, &yaml, NULL), 0);
    assert_int_equal(strlen(yaml.root->items[0]->text), VT_YAML_BYTES_MAX - 3);
    vt_yaml_dispose(&yaml);
    assert_true(vt_yaml_read_text("t.yaml", text, VT_YAML_BYTES_MAX + 1, &yaml, &err) < 0);
    assert_non_null(strstr(err.text, "the size limit, 1048576 bytes"));
}

/* --- files --- */

static void file_refused(const char *path, const char *why)
{
    struct vt_error err = VT_ERROR_INIT;
    struct vt_yaml yaml;

    assert_true(vt_yaml_read_file(path, &yaml, &err) < 0);
    if (!strstr(err.text, why))
        fail_msg("%s: refused with \"%s\", expected \"%s\"", path, err.text, why);
    assert_int_equal(vt_error_exit_code(&err), 2);
}

static void test_files(void **state)
{
    char folder[] = "/tmp/vtile-yaml-XXXXXX", path[64], fifo[64];
    struct vt_yaml yaml;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a.yaml", folder);
    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a: b\n", 5), 5);
    assert_int_equal(vt_yaml_read_file(path, &yaml, NULL), 0);
    assert_string_equal(yaml.file, path);
    assert_string_equal(yaml.root->items[0]->text, "b");
    vt_yaml_dispose(&yaml);
    assert_int_equal(ftruncate(fd, 50000000), 0);
    file_refused(path, "the size limit, 1048576 bytes");
    close(fd);
    assert_int_equal(unlink(path), 0);
    file_refused(path, "No such file");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    file_refused(fifo, "not a regular file");
    assert_int_equal(unlink(fifo), 0);
    file_refused(folder, "not a regular file");
    file_refused("/dev/zero", "not a regular file");
    assert_int_equal(rmdir(folder), 0);
}

/* --- the public cases, and what reading costs --- */

static const struct {
    const char *name;
    int line, column; /* 0: read */
    const char *why;
} public_cases[] = {
    {"01-duplicate", 6, 1, "duplicate key \"web\": it stands at 1:1 already"},
    {"02-duplicate-flow", 1, 16, "duplicate key \"rate\": it stands at 1:7 already"},
    {"03-duplicate-spelling", 2, 3, "a key must be text"},
    {"04-merge-override", 5, 3, "a merge key"},
    {"11-norway", 0, 0, NULL},
    {"12-null", 0, 0, NULL},
    {"23-laughs", 2, 8, "an alias"},
    {"24-deep", 1, 17, "the depth limit"},
    {"25-self", 1, 8, "an alias"},
    {"26-long-key", 1, 2001, "the key limit"},
    {"27-multi", 3, 1, "a second document"},
    {"28-tag", 1, 4, "a tag"},
};

static void test_public_cases(void **state)
{
    char folder[400], path[500];

    (void)state;
    if (!cases_path(folder, sizeof(folder), "own/open/yaml"))
        skip();
    for (size_t i = 0; i < VT_COUNT(public_cases); i++) {
        struct vt_error err = VT_ERROR_INIT;
        struct vt_yaml yaml = {0};
        int rc;

        snprintf(path, sizeof(path), "%s/%s.yaml", folder, public_cases[i].name);
        rc = vt_yaml_read_file(path, &yaml, &err);
        vt_yaml_dispose(&yaml);
        assert_int_equal(rc < 0, public_cases[i].why != NULL);
        assert_int_equal(err.line, public_cases[i].line);
        assert_int_equal(err.column, public_cases[i].column);
        if (public_cases[i].why)
            assert_non_null(strstr(err.text, public_cases[i].why));
    }
}

/* Largest resident size of a child that reads path, or that does nothing where it is NULL. */
static long child_peak_kib(const char *path)
{
    struct rusage usage;
    int status;
    pid_t pid;

    /* Memory that was freed and is still ours would hide what the child needs. */
    malloc_trim(0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct vt_yaml yaml = {0};

        if (path)
            vt_yaml_read_file(path, &yaml, NULL);
        _exit(0);
    }
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    assert_int_equal(status, 0);
    return usage.ru_maxrss;
}

static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Hostile texts that come close to every limit. */
static void make_costly(struct vt_buf *text, int kind)
{
    vt_buf_reset(text);
    if (kind == 0) /* keys made to look alike */
        for (int i = 0; i < 4999; i++)
            vt_buf_printf(text, "%0200d-k: v\n", i);
    if (kind == 1) /* one long text with an escape each character */
        vt_buf_adds(text, "a: \"");
    while (kind == 1 && text->len < VT_YAML_BYTES_MAX - 10)
        vt_buf_adds(text, "\\L");
    if (kind == 1)
        vt_buf_adds(text, "\"\n");
    while (kind == 2 && text->len < VT_YAML_BYTES_MAX) /* depth, as far as the scanner looks */
        vt_buf_adds(text, "[{");
    while (kind == 3 && text->len < VT_YAML_BYTES_MAX - 10) /* comments */
        vt_buf_adds(text, "#\n");
    while (kind == 4 && text->len < VT_YAML_BYTES_MAX - 10) /* a text of very many lines */
        vt_buf_adds(text, text->len ? " b\n" : "a:\n");
    while (kind == 5 && text->len < VT_YAML_BYTES_MAX - 1) /* keys that never get a colon */
        vt_buf_adds(text, "? ");
}

static void test_cost(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(VT_YAML_BYTES_MAX);

    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        char path[] = "/tmp/vtile-yaml-XXXXXX";
        int fd = mkstemp(path);
        int64_t began, spent;
        long more = 0;

        make_costly(&text, kind);
        assert_false(text.failed);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text.data, text.len), text.len);
        close(fd);
        began = cpu_ns();
        {
            struct vt_yaml yaml = {0};

            vt_yaml_read_file(path, &yaml, NULL);
            vt_yaml_dispose(&yaml);
        }
        spent = cpu_ns() - began;
        if (!SANITIZED)
            more = child_peak_kib(path) - child_peak_kib(NULL);
        unlink(path);
        print_message("kind %d: %zu bytes, %.1f ms of CPU, %ld KiB\n", kind, text.len,
                      (double)spent / 1e6, more);
        /* A sanitizer's build is about ten times slower, and is not the one that is promised. */
        assert_true(spent < 50000000 * (SANITIZED ? 20 : 1));
        assert_true(more < 10 * 1024);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_no_document),
        cmocka_unit_test(test_columns_are_characters),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bytes_refused),
        cmocka_unit_test(test_layout_refused),
        cmocka_unit_test(test_layout_read),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_key_length),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_public_cases),
        cmocka_unit_test(test_cost),
    };

    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
