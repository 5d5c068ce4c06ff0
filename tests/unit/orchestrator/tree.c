/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/orchestrator/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/undo.h"

void tree_make(struct tree *tree)
{
    vt_text_copy(tree->root, sizeof(tree->root), "/tmp/vt-tree-XXXXXX");
    assert_non_null(mkdtemp(tree->root));
}

void tree_put(const struct tree *tree, const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof(full), "%s%s", tree->root, path);
    for (char *slash = strchr(full + strlen(tree->root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    VT_AUTO_FCLOSE FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
}

void tree_remove(const struct tree *tree, const char *path)
{
    char full[512];
    struct undo_context context = {0};
    struct stat info;

    snprintf(full, sizeof(full), "%s%s", tree->root, path);
    assert_int_equal(lstat(full, &info), 0);
    struct vt_journal_entry all = {.kind = S_ISDIR(info.st_mode) ? UNDO_TREE : UNDO_FILE,
                                   .object = full,
                                   .original = "",
                                   .value = ""};
    assert_int_equal(undo_entry(&context, &all, NULL), 0);
}

void tree_dispose(struct tree *tree)
{
    tree_remove(tree, "");
}
