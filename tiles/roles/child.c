/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"

#define LOOK_NS (200 * VT_NS_PER_MS)
#define LOOK_MS 200
#define OOM_SCORE "500" /* of 1000: before servers and the agent */

struct pipe_end {
    int read_fd, write_fd;
};

static int make_pipe(struct pipe_end *end, struct vt_error *err)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make a pipe");
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    *end = (struct pipe_end){fds[0], fds[1]};
    return 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void keep_tail(struct child *child, const char *data, size_t len)
{
    size_t have = strlen(child->tail);

    for (size_t i = 0; i < len; i++) {
        bool ended = have > 0 && child->tail[have - 1] == '\n';

        if (ended)
            have = 0;
        if (have < sizeof(child->tail) - 1)
            child->tail[have++] = data[i] ? data[i] : '?';
        child->tail[have] = '\0';
    }
}

/* False at its end. */
static bool read_some(struct child *child, int fd, bool is_error)
{
    char data[8192];
    ssize_t n;

    while ((n = read(fd, data, sizeof(data))) > 0) {
        if (is_error)
            keep_tail(child, data, (size_t)n);
        else if (child->take)
            child->take(child->ctx, data, (size_t)n);
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void volunteer(pid_t pid)
{
    char path[48];
    VT_AUTO_CLOSE int fd = -1;

    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, OOM_SCORE, strlen(OOM_SCORE)) < 0)
        return; /* it is then killed in the kernel's own order */
}

static void look_at_clock(struct child *child, pid_t pid)
{
    if (child->late || child->stopped)
        return;
    child->late = vt_clock_now_ns() >= child->until_ns;
    child->stopped = child->work && child->work->stopping(child->work->ctx);
    if (child->late || child->stopped)
        kill(-pid, SIGKILL);
}

static void follow(struct child *child, pid_t pid, int out_fd, int err_fd)
{
    int status = 0;
    pid_t ended = 0;

    while (ended == 0) {
        struct pollfd fds[2] = {{out_fd, POLLIN, 0}, {err_fd, POLLIN, 0}};
        int64_t left_ms = (child->until_ns - vt_clock_now_ns()) / VT_NS_PER_MS + 1;

        /* Both ended and it lives on: nothing wakes but time. */
        poll(fds, 2, left_ms < 1 ? 1 : left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
        if (out_fd >= 0 && !read_some(child, out_fd, false))
            out_fd = -1;
        if (err_fd >= 0 && !read_some(child, err_fd, true))
            err_fd = -1;
        look_at_clock(child, pid);
        ended = waitpid(pid, &status, WNOHANG);
    }
    if (out_fd >= 0)
        read_some(child, out_fd, false);
    if (err_fd >= 0)
        read_some(child, err_fd, true);
    kill(-pid, SIGKILL); /* what it may have left */
    child->tail[strcspn(child->tail, "\n")] = '\0';
    vt_text_make_plain(child->tail);
    child->signal = ended == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    child->exit_code = ended == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int open_out(const struct child *child, struct pipe_end *out, struct vt_error *err)
{
    if (!child->out_path)
        return make_pipe(out, err);
    out->write_fd = open(child->out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return out->write_fd < 0
               ? vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", child->out_path)
               : 0;
}

int child_run(struct child *child, struct vt_error *err)
{
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    struct pipe_end out = {-1, -1}, error = {-1, -1};
    pid_t pid = 0;
    int ret = open_out(child, &out, err);

    child->exit_code = child->signal = 0;
    child->late = child->stopped = false;
    child->tail[0] = '\0';
    if (ret == 0)
        ret = make_pipe(&error, err);
    if (ret == 0) {
        spec.argv = child->argv;
        spec.dir = child->dir;
        spec.stdout_fd = out.write_fd;
        spec.stderr_fd = error.write_fd;
        spec.own_group = true;
        ret = vt_proc_spawn(&spec, &pid, err);
    }
    close_fd(&out.write_fd);
    close_fd(&error.write_fd);
    if (ret == 0) {
        volunteer(pid);
        follow(child, pid, out.read_fd, error.read_fd);
    }
    close_fd(&out.read_fd);
    close_fd(&error.read_fd);
    return ret;
}

void child_explain(const struct child *child, char *text, size_t size)
{
    const char *name = child->argv[0];

    text[0] = '\0';
    if (child->late)
        vt_text_copy(text, size, "late: it was not done by its deadline");
    else if (child->stopped)
        vt_text_copy(text, size, "stopped");
    else if (child->signal)
        snprintf(text, size, "%s was killed by signal %d", name, child->signal);
    else if (child->exit_code != 0)
        snprintf(text, size, "%s ended with %d%s%s", name, child->exit_code,
                 *child->tail ? ": " : "", child->tail);
}

int child_try(const char *const *argv, const char *dir, int64_t limit_ns, int code,
              struct vt_error *err)
{
    struct child child = {.argv = argv, .dir = dir, .until_ns = vt_clock_now_ns() + limit_ns};
    char why[CHILD_TAIL_MAX + 80];
    int ret = child_run(&child, err);

    if (ret < 0)
        return ret;
    child_explain(&child, why, sizeof(why));
    return *why ? vt_error_set(err, VT_KIND_INFRA, code, "%s", why) : 0;
}

bool child_sleep_until(const struct role_work *work, int64_t at_ns)
{
    for (;;) {
        int64_t left_ns = at_ns - vt_clock_now_ns();
        struct timespec pause;

        if (work->stopping(work->ctx))
            return false;
        if (left_ns <= 0)
            return true;
        if (left_ns > LOOK_NS)
            left_ns = LOOK_NS;
        pause = (struct timespec){.tv_nsec = (long)left_ns};
        nanosleep(&pause, NULL);
    }
}
