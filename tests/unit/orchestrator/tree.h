/* SPDX-License-Identifier: Apache-2.0 */
/* tree: a folder that stands for a machine's root, with files of /proc and /sys in it. */
#ifndef VTILE_TESTS_UNIT_ORCHESTRATOR_TREE_H
#define VTILE_TESTS_UNIT_ORCHESTRATOR_TREE_H

struct tree {
    char root[64];
};

void tree_make(struct tree *tree);
/* Makes the folders on the way. A file that is there keeps its inode, as files in /proc do. */
void tree_put(const struct tree *tree, const char *path, const char *text);
void tree_remove(const struct tree *tree, const char *path); /* with all below */
void tree_dispose(struct tree *tree);

#endif
