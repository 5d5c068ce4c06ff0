/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc: child processes without a loop, for set-up steps (mmdebstrap, mkfs.erofs) and for children
 * that the caller watches himself. Children get PR_SET_PDEATHSIG where asked, closed descriptors,
 * default signals, an argument vector (never a shell). May be called from any thread; note that
 * the kernel's "parent" of die_with_parent is the calling thread, not the process.
 */
#ifndef VT_BASE_PROC_H
#define VT_BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/text.h"

struct vt_proc_spec {
    const char *const *argv;  /* argv[0] is looked up in PATH */
    const char *const *env;   /* NULL: the caller's */
    const char *dir;          /* NULL: the caller's */
    int stdin_fd;             /* -1: /dev/null */
    int stdout_fd, stderr_fd; /* -1: /dev/null; VT_PROC_INHERIT: the caller's */
    bool die_with_parent;
    const char *netns_path; /* NULL: the caller's; else setns before exec */
    /* A process group of its own: the terminal's Ctrl-C does not reach it, and vt_proc_run_spec
     * kills the whole group where it must kill. */
    bool own_group;
};
#define VT_PROC_INHERIT (-2)
#define VT_PROC_SPEC_INIT                                                         \
    {                                                                             \
        .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .die_with_parent = true \
    }

/* Starts; an exec that fails is reported here (close-on-exec pipe), not as exit 127. */
int vt_proc_spawn(const struct vt_proc_spec *spec, pid_t *ret_pid, struct vt_error *err);
/* Waits and reaps. 0 when it exited 0; else an error that says how it ended: -ECHILD for a status
 * other than 0, -EINTR for a signal. name: for the message. */
int vt_proc_wait(pid_t pid, const char *name, struct vt_error *err);
/* Runs to the end and reaps; standard output goes to out (may be NULL: dropped), standard error is
 * kept to its last 4 KiB and put into the error. timeout_ns 0: none; past it the child is ended
 * (SIGTERM, two seconds later SIGKILL) and -ETIMEDOUT returned. More output than out->max ends it
 * likewise with -ENOBUFS. The end of the child ends the wait, also when a grandchild holds the
 * pipes open. */
int vt_proc_run(const char *const *argv, struct vt_buf *out, int64_t timeout_ns,
                struct vt_error *err);
/* The same with all settings; spec's stdout_fd and stderr_fd are not looked at. cancel_fd: -1, or a
 * descriptor that, once readable, ends the child: -ECANCELED, kind INTERRUPTED. */
int vt_proc_run_spec(const struct vt_proc_spec *spec, struct vt_buf *out, int64_t timeout_ns,
                     int cancel_fd, struct vt_error *err);

#endif
