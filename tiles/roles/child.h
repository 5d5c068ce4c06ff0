/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child: a program that a role's work runs to its end, with a deadline and an eye on whether the
 * work is to stop.
 */
#ifndef VTILE_TILES_ROLES_CHILD_H
#define VTILE_TILES_ROLES_CHILD_H

#include "tiles/roles/role.h"

#define CHILD_TAIL_MAX 160

struct child {
    /* caller fills */
    const char *const *argv;
    const char *dir;      /* NULL: the caller's */
    const char *out_path; /* standard output goes there; NULL: to take */
    void (*take)(void *ctx, const char *data, size_t len); /* NULL: dropped */
    void *ctx;
    const struct role_work *work; /* asked whether to stop; NULL: never */
    int64_t until_ns;             /* vt_clock_now_ns(): then it and its children are killed */
    /* shared */
    int exit_code, signal;     /* signal 0: it exited */
    bool late, stopped;        /* killed for it */
    char tail[CHILD_TAIL_MAX]; /* the last line of its standard error */
};

/* Runs it and reaps it; an error only when it could not be run. It and what it starts are the first
 * that the kernel kills when memory runs out. */
int child_run(struct child *child, struct vt_error *err);
/* Runs it for at most limit_ns: an error also where it does not end well, with that code. */
int child_try(const char *const *argv, const char *dir, int64_t limit_ns, int code,
              struct vt_error *err);
/* "" when it ended well, else "gcc ended with 1: fatal error: ...". */
void child_explain(const struct child *child, char *text, size_t size);
/* False: the work is to stop. at_ns: vt_clock_now_ns(). */
bool child_sleep_until(const struct role_work *work, int64_t at_ns);

#endif
