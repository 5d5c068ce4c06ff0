/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mini_run: what a run does to its host, in a child process, since namespaces are entered for good:
 * state folder, journal, network with one tap, embedded host, one VM that finds nothing to boot.
 */
#ifndef VTILE_TESTS_UNIT_ORCHESTRATOR_MINI_RUN_H
#define VTILE_TESTS_UNIT_ORCHESTRATOR_MINI_RUN_H

#include <stdbool.h>
#include <sys/types.h>

/* Made from this process's pid by mini_init, so that two test programs can run side by side. */
extern char mini_run[13], mini_uuid[37], mini_domain[32], mini_tap[16], mini_netns[32];
void mini_init(void);

struct mini {
    const char *state;
    /* Dies by SIGKILL at the n-th point (before or after a call of libvirt, or a step of the
     * journal), counted from 1; 0: lives. */
    int die_at;
    bool stay; /* prints "up" on fd and waits to be killed once the VM runs */
    int fd;
    /* Called in the child once the VM runs, with libvirt's URI; may be NULL. */
    void (*when_up)(const char *uri);
};

/* Returns the child. Its exit code: 0 when all went well and was taken back, 1 with a line on
 * standard error, 2 when it ran past die_at. */
pid_t mini_start(const struct mini *mini);
/* clean_run in a child. Its exit code: 0, or 1 with a line; lines go to standard error when show.
 * *ret_removed: how many objects it took back. */
int mini_clean(const char *state, int *ret_removed, bool show);
/* How many points the last whole run passed; written by a mini with stay false, die_at 0. */
int mini_points(const char *state);

/* True when nothing of the run is left, else what is stands in left. */
bool mini_nothing_left(const char *state, char *left, size_t size);

/* NULL, or why embedded hosts cannot be tried on this machine. */
const char *mini_skip_reason(void);

#endif
