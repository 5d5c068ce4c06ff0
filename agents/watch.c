/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

#ifndef P_PIDFD
#define P_PIDFD 3 /* waitid(2), since Linux 5.4 */
#endif

static void on_closed(uv_handle_t *handle)
{
    struct watched *child = handle->data;
    close(child->fd);
    child->watch = NULL;
}

static void let_go(struct watched *child)
{
    if (!uv_is_closing((uv_handle_t *)&child->poll))
        uv_close((uv_handle_t *)&child->poll, on_closed);
}

static void on_end(uv_poll_t *poll, int status, int events)
{
    struct watched *child = poll->data;
    struct watch *watch = child->watch;
    siginfo_t info = {0};
    char text[128];
    (void)status;
    (void)events;
    if (waitid((idtype_t)P_PIDFD, (id_t)child->fd, &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid == 0)
        return; /* not yet */
    if (info.si_code == CLD_EXITED)
        snprintf(text, sizeof text, "%s (pid %d) ended with status %d", child->name,
                 (int)child->pid, info.si_status);
    else
        snprintf(text, sizeof text, "%s (pid %d) was killed by signal %d", child->name,
                 (int)child->pid, info.si_status);
    let_go(child);
    watch->died(watch->ctx, text);
}

static bool is_watched(const struct watch *watch, pid_t pid)
{
    for (unsigned i = 0; i < ROLE_CHILDREN_MAX; i++)
        if (watch->children[i].watch && watch->children[i].pid == pid)
            return true;
    return false;
}

static int add(struct watch *watch, const char *name, pid_t pid, struct vt_error *err)
{
    struct watched *child = watch->children;
    while (child < watch->children + ROLE_CHILDREN_MAX && child->watch)
        child++;
    if (child == watch->children + ROLE_CHILDREN_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -ENOSPC, "watch %s: too many servers", name);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "watch %s (pid %d)", name, (int)pid);
    int rc = uv_poll_init(&watch->loop->uv, &child->poll, fd);
    if (rc < 0) {
        close(fd);
        return vt_error_set(err, VT_KIND_INFRA, rc, "watch %s: %s", name, uv_strerror(rc));
    }
    child->poll.data = child;
    child->watch = watch;
    child->fd = fd;
    child->pid = pid;
    vt_text_copy(child->name, sizeof child->name, name);
    uv_poll_start(&child->poll, UV_READABLE, on_end);
    return 0;
}

int watch_children(struct watch *watch, const struct role_guest *guest, struct vt_error *err)
{
    int rc = 0;
    for (unsigned i = 0; i < guest->nchildren && rc == 0; i++)
        if (!is_watched(watch, guest->children[i].pid))
            rc = add(watch, guest->children[i].name, guest->children[i].pid, err);
    return rc;
}

void watch_stop(struct watch *watch)
{
    for (unsigned i = 0; i < ROLE_CHILDREN_MAX; i++) {
        struct watched *child = &watch->children[i];
        if (!child->watch)
            continue;
        syscall(SYS_pidfd_send_signal, child->fd, SIGTERM, NULL, 0);
        let_go(child);
    }
}
