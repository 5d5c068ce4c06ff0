/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/outer.h"

#include <errno.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int outer_run(int mnt_fd, int (*step)(void *ctx), void *ctx)
{
    int status;

    if (mnt_fd <= 0)
        return step(ctx);
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        int code = setns(mnt_fd, CLONE_NEWNS) < 0 ? -errno : step(ctx);
        _exit(code < 0 ? -code & 0xff : 0);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

int outer_check_alone(struct vt_error *err)
{
    struct stat tasks;

    /* Two links and one for each thread. */
    if (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3)
        return 0;
    return vt_error_set(err, VT_KIND_INFRA, -EINVAL,
                        "namespaces must be entered before any thread is started");
}
