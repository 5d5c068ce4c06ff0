/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"

#define STDERR_TAIL 4096
#define TERM_GRACE_NS (2 * VT_NS_PER_S)
/* What is still in the pipes when the child has ended: no pipe holds more by default. */
#define DRAIN_MAX (UINT32_C(1) << 20)

/* What the child reports when it cannot become the program. */
enum step { STEP_STDIO, STEP_GROUP, STEP_PARENT, STEP_NETNS, STEP_DIR, STEP_CLOSE, STEP_EXEC };
struct failure {
    enum step step;
    int errnum;
};

/* What the child needs, opened in the parent where a failure can still be told well. */
struct prepared {
    const struct vt_proc_spec *spec;
    int stdio[3];
    int netns_fd, report_fd;
    pid_t parent;
};

__attribute__((noreturn)) static void child_fail(const struct prepared *p, enum step step)
{
    struct failure f = {step, errno};

    /* Fits into the pipe at once; nobody to tell when it fails. */
    if (write(p->report_fd, &f, sizeof(f)) != sizeof(f))
        _exit(126);
    _exit(127);
}

/* Only async-signal-safe calls from here to exec: other threads may have held any lock. */
static int child_stdio(const struct prepared *p)
{
    int high[3];

    /* All away from 0..2 first: the wanted ones may stand there crosswise. */
    for (int i = 0; i < 3; i++) {
        high[i] = fcntl(p->stdio[i], F_DUPFD_CLOEXEC, 3);
        if (high[i] < 0)
            return -1;
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(high[i], i) < 0)
            return -1;
    }
    return 0;
}

static void child_signals(void)
{
    struct sigaction sa;
    sigset_t none;

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = SIG_DFL;
    for (int sig = 1; sig < NSIG; sig++)
        sigaction(sig, &sa, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void child_main(const struct prepared *p)
{
    const struct vt_proc_spec *spec = p->spec;

    if (child_stdio(p) < 0)
        child_fail(p, STEP_STDIO);
    if (spec->own_group && setpgid(0, 0) < 0)
        child_fail(p, STEP_GROUP);
    if (spec->die_with_parent) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            child_fail(p, STEP_PARENT);
        /* It may have died before the line above. */
        if (getppid() != p->parent) {
            errno = ESRCH;
            child_fail(p, STEP_PARENT);
        }
    }
    if (p->netns_fd >= 0 && setns(p->netns_fd, CLONE_NEWNET) < 0)
        child_fail(p, STEP_NETNS);
    if (spec->dir && chdir(spec->dir) < 0)
        child_fail(p, STEP_DIR);
    /* Close on exec, so that report_fd still works until then. */
    if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        child_fail(p, STEP_CLOSE);
    child_signals();
    execvpe(spec->argv[0], (char *const *)(uintptr_t)spec->argv,
            spec->env ? (char *const *)(uintptr_t)spec->env : environ);
    child_fail(p, STEP_EXEC);
}

static int report_failure(const struct vt_proc_spec *spec, const struct failure *f,
                          struct vt_error *err)
{
    const char *name = spec->argv[0];

    switch (f->step) {
    case STEP_EXEC:
        return vt_error_errno(err, VT_KIND_INFRA, f->errnum, "start %s", name);
    case STEP_DIR:
        return vt_error_errno(err, VT_KIND_INFRA, f->errnum, "start %s: enter folder %s", name,
                              spec->dir);
    case STEP_NETNS:
        return vt_error_errno(err, VT_KIND_INFRA, f->errnum, "start %s: enter network namespace %s",
                              name, spec->netns_path);
    case STEP_STDIO:
        return vt_error_errno(err, VT_KIND_INFRA, f->errnum, "start %s: set up descriptors", name);
    case STEP_GROUP:
        return vt_error_errno(err, VT_KIND_INFRA, f->errnum, "start %s: make a process group",
                              name);
    case STEP_PARENT:
        return vt_error_errno(err, VT_KIND_INFRA, f->errnum, "start %s: bind to its parent", name);
    case STEP_CLOSE:
        return vt_error_errno(err, VT_KIND_INFRA, f->errnum, "start %s: close descriptors", name);
    }
    return vt_error_set(err, VT_KIND_INFRA, -EIO, "start %s: unknown step failed", name);
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Reads until the pipe closes: with nothing where exec closed it, with a failure otherwise. */
static int await_exec(const struct vt_proc_spec *spec, int fd, pid_t pid, struct vt_error *err)
{
    struct failure f;
    ssize_t n;

    do
        n = read(fd, &f, sizeof(f));
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof(f)) {
        f = (struct failure){STEP_STDIO, n < 0 ? errno : EIO};
        kill(pid, SIGKILL);
    }
    reap(pid);
    return report_failure(spec, &f, err);
}

/* fork with all signals blocked, so that no handler of ours runs in the child. */
static pid_t fork_blocked(const struct prepared *p)
{
    sigset_t all, before;
    pid_t pid;
    int saved;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0)
        child_main(p);
    saved = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return pid;
}

static int make_report_pipe(int fds[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) < 0)
        return -1;
    /* Above 2, where the child's own descriptors will stand. */
    for (int i = 0; i < 2; i++) {
        fds[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 3);
        if (fds[i] < 0) {
            int saved = errno;

            if (i == 1)
                close(fds[0]);
            close(low[0]);
            close(low[1]);
            fds[0] = fds[1] = -1;
            errno = saved;
            return -1;
        }
    }
    close(low[0]);
    close(low[1]);
    return 0;
}

static void resolve_stdio(const struct vt_proc_spec *spec, int null_fd, int stdio[3])
{
    const int wanted[3] = {spec->stdin_fd, spec->stdout_fd, spec->stderr_fd};

    for (int i = 0; i < 3; i++)
        stdio[i] = wanted[i] == VT_PROC_INHERIT ? i : wanted[i] < 0 ? null_fd : wanted[i];
}

int vt_proc_spawn(const struct vt_proc_spec *spec, pid_t *ret_pid, struct vt_error *err)
{
    VT_AUTO_CLOSE int null_fd = -1;
    VT_AUTO_CLOSE int netns_fd = -1;
    VT_AUTO_CLOSE int report_read = -1;
    int report[2];
    const char *name = spec->argv ? spec->argv[0] : NULL;
    struct prepared p;
    pid_t pid;
    int r;

    if (!name || !name[0])
        return vt_error_set(err, VT_KIND_INFRA, -EINVAL, "start a process: no program named");
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "start %s: open /dev/null", name);
    if (spec->netns_path) {
        netns_fd = open(spec->netns_path, O_RDONLY | O_CLOEXEC);
        if (netns_fd < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "start %s: network namespace %s", name,
                                  spec->netns_path);
    }
    if (make_report_pipe(report) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "start %s: make a pipe", name);
    report_read = report[0];
    p = (struct prepared){
        .spec = spec, .netns_fd = netns_fd, .report_fd = report[1], .parent = getpid()};
    resolve_stdio(spec, null_fd, p.stdio);

    pid = fork_blocked(&p);
    r = pid < 0 ? vt_error_errno(err, VT_KIND_INFRA, errno, "start %s: fork", name) : 0;
    close(report[1]);
    if (r == 0)
        r = await_exec(spec, report_read, pid, err);
    if (r == 0)
        *ret_pid = pid;
    return r;
}

int vt_proc_wait(pid_t pid, const char *name, struct vt_error *err)
{
    int status;
    pid_t r;

    do
        r = waitpid(pid, &status, 0);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "wait for %s", name);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status))
        return vt_error_set(err, VT_KIND_INFRA, -ECHILD, "%s: exit status %d", name,
                            WEXITSTATUS(status));
    return vt_error_set(err, VT_KIND_INFRA, -EINTR, "%s: killed by signal %d (%s)", name,
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* --- run to the end --- */

struct run {
    const struct vt_proc_spec *spec;
    struct vt_buf *out;
    pid_t pid;
    int pidfd, out_fd, err_fd;
    int64_t deadline_ns; /* 0: none */
    int end_code;        /* why we end it: -ETIMEDOUT, -ENOBUFS, -ECANCELED; 0: we do not */
    int64_t kill_at_ns;  /* SIGTERM was sent; SIGKILL from then on */
    char tail[STDERR_TAIL];
    size_t tail_len;
};

static void signal_child(const struct run *run, int sig)
{
    /* Not reaped yet, so the number is still ours. */
    kill(run->spec->own_group ? -run->pid : run->pid, sig);
}

static void end_child(struct run *run, int code)
{
    if (run->end_code)
        return;
    run->end_code = code;
    run->kill_at_ns = vt_clock_now_ns() + TERM_GRACE_NS;
    signal_child(run, SIGTERM);
}

static void keep_tail(struct run *run, const char *data, size_t len)
{
    if (len >= sizeof(run->tail)) {
        memcpy(run->tail, data + len - sizeof(run->tail), sizeof(run->tail));
        run->tail_len = sizeof(run->tail);
        return;
    }
    if (run->tail_len + len > sizeof(run->tail)) {
        size_t drop = run->tail_len + len - sizeof(run->tail);

        memmove(run->tail, run->tail + drop, run->tail_len - drop);
        run->tail_len -= drop;
    }
    memcpy(run->tail + run->tail_len, data, len);
    run->tail_len += len;
}

/* One read. Returns the number of bytes; 0: nothing there now, or closed (then *fd is -1). */
static size_t read_stream(struct run *run, int *fd)
{
    char data[16384];
    ssize_t n;

    do
        n = read(*fd, data, sizeof(data));
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0) {
        close(*fd);
        *fd = -1;
        return 0;
    }
    if (fd == &run->err_fd)
        keep_tail(run, data, (size_t)n);
    else if (run->out) {
        vt_buf_add(run->out, data, (size_t)n);
        if (run->out->failed)
            end_child(run, run->out->no_memory ? -ENOMEM : -ENOBUFS);
    }
    return (size_t)n;
}

static int poll_timeout_ms(const struct run *run, int64_t now_ns)
{
    int64_t until = run->end_code ? run->kill_at_ns : run->deadline_ns;
    int64_t left;

    if (until == 0)
        return -1;
    left = until - now_ns;
    if (left <= 0)
        return 0;
    left = left / VT_NS_PER_MS + 1;
    return left > 3600000 ? 3600000 : (int)left;
}

static void check_time(struct run *run)
{
    int64_t now = vt_clock_now_ns();

    if (!run->end_code && run->deadline_ns && now >= run->deadline_ns)
        end_child(run, -ETIMEDOUT);
    else if (run->end_code && now >= run->kill_at_ns) {
        signal_child(run, SIGKILL);
        /* Sent once; the end of the child is now certain. */
        run->kill_at_ns = INT64_MAX;
    }
}

static void drain(struct run *run, int *fd)
{
    for (size_t total = 0; *fd >= 0 && total < DRAIN_MAX;) {
        size_t n = read_stream(run, fd);

        if (n == 0)
            return;
        total += n;
    }
}

static void follow(struct run *run, int cancel_fd)
{
    for (;;) {
        struct pollfd fds[4] = {
            {run->pidfd, POLLIN, 0},
            {run->out_fd, POLLIN, 0},
            {run->err_fd, POLLIN, 0},
            {run->end_code ? -1 : cancel_fd, POLLIN, 0},
        };
        int n = poll(fds, VT_COUNT(fds), poll_timeout_ms(run, vt_clock_now_ns()));

        if (n > 0) {
            if (fds[1].revents)
                read_stream(run, &run->out_fd);
            if (fds[2].revents)
                read_stream(run, &run->err_fd);
            if (fds[3].revents)
                end_child(run, -ECANCELED);
            if (fds[0].revents) {
                drain(run, &run->out_fd);
                drain(run, &run->err_fd);
                return;
            }
        }
        check_time(run);
    }
}

/* Puts the last words of the child behind the reason, without the newline at their end. */
static void add_tail(struct run *run, struct vt_error *err)
{
    struct vt_error reason;
    size_t start = 0, room;

    while (run->tail_len > 0 && (unsigned char)run->tail[run->tail_len - 1] <= ' ')
        run->tail_len--;
    if (!err || run->tail_len == 0)
        return;
    reason = *err;
    /* The end says why: the beginning is what is left out. */
    room = sizeof(reason.text) - strlen(reason.text) - 16;
    if (strlen(reason.text) + 16 >= sizeof(reason.text))
        return;
    if (run->tail_len > room)
        start = run->tail_len - room;
    for (size_t i = start; i < run->tail_len; i++) {
        if (run->tail[i] == '\0')
            run->tail[i] = '?';
    }
    vt_error_set(err, reason.kind, reason.code, "%s: %s%.*s", reason.text, start ? "..." : "",
                 (int)(run->tail_len - start), run->tail + start);
}

static int judge(struct run *run, struct vt_error *err)
{
    const char *name = run->spec->argv[0];
    int r = vt_proc_wait(run->pid, name, err);

    switch (run->end_code) {
    case 0:
        break;
    case -ETIMEDOUT:
        r = vt_error_set(err, VT_KIND_INFRA, -ETIMEDOUT, "%s: ended by us, it took too long", name);
        break;
    case -ECANCELED:
        return vt_error_set(err, VT_KIND_INTERRUPTED, -ECANCELED, "%s: ended by us, interrupted",
                            name);
    case -ENOMEM:
        r = vt_error_no_memory(err, "%s: its output", name);
        break;
    default:
        r = vt_error_set(err, VT_KIND_INFRA, run->end_code,
                         "%s: ended by us, it wrote more than %zu bytes", name, run->out->max);
    }
    if (r < 0)
        add_tail(run, err);
    return r;
}

static int make_stream(int *ret_read, int *ret_write)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    *ret_read = fds[0];
    *ret_write = fds[1];
    /* Ours only: a child's end must block as programs expect. */
    return fcntl(fds[0], F_SETFL, O_NONBLOCK);
}

int vt_proc_run_spec(const struct vt_proc_spec *spec, struct vt_buf *out, int64_t timeout_ns,
                     int cancel_fd, struct vt_error *err)
{
    VT_AUTO_CLOSE int out_write = -1;
    VT_AUTO_CLOSE int err_write = -1;
    struct vt_proc_spec own = *spec;
    struct run run = {.spec = spec, .out = out, .pidfd = -1, .out_fd = -1, .err_fd = -1};
    int r;

    if ((out && make_stream(&run.out_fd, &out_write) < 0) ||
        make_stream(&run.err_fd, &err_write) < 0) {
        r = vt_error_errno(err, VT_KIND_INFRA, errno, "start %s: make a pipe",
                           spec->argv && spec->argv[0] ? spec->argv[0] : "a process");
        goto out;
    }
    own.stdout_fd = out_write;
    own.stderr_fd = err_write;
    r = vt_proc_spawn(&own, &run.pid, err);
    if (r < 0)
        goto out;
    close(vt_take_fd(err_write));
    if (out)
        close(vt_take_fd(out_write));
    if (timeout_ns > 0)
        run.deadline_ns = vt_clock_now_ns() + timeout_ns;
    run.pidfd = (int)syscall(SYS_pidfd_open, run.pid, 0);
    if (run.pidfd < 0) {
        r = vt_error_errno(err, VT_KIND_INFRA, errno, "watch %s: pidfd_open", spec->argv[0]);
        signal_child(&run, SIGKILL);
        reap(run.pid);
        goto out;
    }
    follow(&run, cancel_fd);
    if (run.end_code && spec->own_group)
        signal_child(&run, SIGKILL); /* grandchildren; the leader is not reaped yet */
    r = judge(&run, err);
out:
    vt_scope_close(&run.pidfd);
    vt_scope_close(&run.out_fd);
    vt_scope_close(&run.err_fd);
    return r;
}

int vt_proc_run(const char *const *argv, struct vt_buf *out, int64_t timeout_ns,
                struct vt_error *err)
{
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;

    spec.argv = argv;
    return vt_proc_run_spec(&spec, out, timeout_ns, -1, err);
}
