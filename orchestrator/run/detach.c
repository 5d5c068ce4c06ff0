/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detach: --detach. The run is made by a child in a session of its own, from the first step on,
 * since libvirt, libuv and namespaces do not outlive a fork. Its parent stays in front, passes
 * signals on, and ends when the child has left the terminal or has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/run/show.h"

#define MESSAGE_MAX (VT_PATH_MAX + 64)

static volatile sig_atomic_t child_pid;

static void pass_on(int signum)
{
    if (child_pid > 0)
        kill((pid_t)child_pid, signum);
}

static const int signums[] = {SIGINT, SIGTERM, SIGHUP};

static void heed_signals(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    struct sigaction now;

    for (size_t i = 0; i < VT_COUNT(signums); i++)
        if (sigaction(signums[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(signums[i], &action, NULL);
}

/* "<run> <log>" when the child has left, nothing when it ended before. */
static size_t read_message(int fd, char message[MESSAGE_MAX])
{
    size_t len = 0;

    while (len < MESSAGE_MAX - 1) {
        ssize_t n = read(fd, message + len, MESSAGE_MAX - 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    message[len] = '\0';
    return len;
}

static void tell(bool json, const char *run, const char *log)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(2 * MESSAGE_MAX);
    struct vt_json w;

    if (!json) {
        printf("run %s goes on in the background\n"
               "  vtile watch %s    follows it\n"
               "  vtile attach %s   follows it, can end it, and ends with its exit code\n"
               "  %s keeps what it says\n",
               run, run, run, log);
        return;
    }
    vt_json_message(&w, &out, "detached");
    vt_json_string(&w, "run", run);
    vt_json_string(&w, "log", log);
    vt_json_end(&w);
    puts(out.data ? out.data : "");
}

static int wait_for(pid_t pid, int fd, bool json)
{
    char message[MESSAGE_MAX], *log;
    int status = 0;

    if (read_message(fd, message) > 0 && (log = strchr(message, ' '))) {
        *log++ = '\0';
        tell(json, message, log);
        return 0;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

/* What comes while they are held is delivered when they are let go. */
static void hold_signals(sigset_t *ret_before)
{
    sigset_t held;

    sigemptyset(&held);
    for (size_t i = 0; i < VT_COUNT(signums); i++)
        sigaddset(&held, signums[i]);
    sigprocmask(SIG_BLOCK, &held, ret_before);
}

int run_detach(bool json, int *ret_fd, int *ret_code, struct vt_error *err)
{
    sigset_t before;
    int fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "make a pipe for --detach");
    fflush(stdout);
    /* Until it is known whom to pass them on to, and until the child has what it does about them.
     */
    hold_signals(&before);
    pid = fork();
    if (pid < 0) {
        int saved = errno;

        sigprocmask(SIG_SETMASK, &before, NULL);
        close(fds[0]);
        close(fds[1]);
        return vt_error_errno(err, VT_KIND_INFRA, saved, "start the run in the background");
    }
    if (pid == 0) {
        close(fds[0]);
        setsid(); /* Ctrl-C comes from the parent alone, and a terminal that goes away does not */
        sigprocmask(SIG_SETMASK, &before, NULL);
        *ret_fd = fds[1];
        return 0;
    }
    child_pid = pid;
    heed_signals(pass_on);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(fds[1]);
    *ret_code = wait_for(pid, fds[0], json);
    close(fds[0]);
    return 1;
}

int run_leave_terminal(int fd, const char *run, const char *log, struct vt_error *err)
{
    char message[MESSAGE_MAX];
    VT_AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    VT_AUTO_CLOSE int out = open(log, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    int n = snprintf(message, sizeof(message), "%s %s", run, log);

    if (out < 0 || null < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "write %s", log);
    fflush(stdout);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "leave the terminal");
    vt_file_write_all(fd, message, (size_t)n); /* a parent that is gone needs no word */
    close(fd);
    return 0;
}
