/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show: what is seen of a run while it goes, and by what it is ended: terminal or --json, readers
 * from other terminals, signals. Order of calls: open -> listen? -> end -> (the loop has run out)
 * -> dispose.
 */
#ifndef VTILE_ORCHESTRATOR_RUN_SHOW_H
#define VTILE_ORCHESTRATOR_RUN_SHOW_H

#include "orchestrator/run/run.h"

struct show;

/* detach_fd: of run_detach, -1: the run stays in front. */
int show_open(struct run *run, int detach_fd, struct vt_error *err);
/* Lets others follow; the run's folder is there. */
int show_listen(struct run *run, struct vt_error *err);
/* A phase begins. The one after `open` is where a detached run leaves its terminal. */
void show_entered(struct run *run, const struct phase *phase);
/* Last words to readers; handles are closed. exit_code: of the run. */
void show_end(struct run *run, int exit_code);
void show_dispose(struct run *run);

/* detach.c. Forks; returns 0 in the child with what it tells its parent by in *ret_fd, and in the
 * parent, once the child has detached or ended, 1 with the exit code. */
int run_detach(bool json, int *ret_fd, int *ret_code, struct vt_error *err);
/* In the child: the rest of what it says goes to the file log, and the parent ends well. */
int run_leave_terminal(int fd, const char *run, const char *log, struct vt_error *err);

#endif
