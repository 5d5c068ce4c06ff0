/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"

#define LONG_NS (60 * VT_NS_PER_S)

/* Each test leaves no child behind, zombies included, and no descriptor. */
static unsigned open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static unsigned descriptors_before;

static int remember(void **state)
{
    (void)state;
    descriptors_before = open_descriptors();
    return 0;
}

static int check_nothing_left(void **state)
{
    (void)state;
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        return -1;
    return open_descriptors() == descriptors_before ? 0 : -1;
}

static int run_sh(const char *script, struct vt_buf *out, int64_t timeout_ns, struct vt_error *err)
{
    const char *const argv[] = {"sh", "-c", script, NULL};

    return vt_proc_run(argv, out, timeout_ns, err);
}

static void output_is_returned(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 20);
    struct vt_error err = VT_ERROR_INIT;
    const char *const argv[] = {"printf", "%s|%s", "a b", "$HOME;*", NULL};

    (void)state;
    assert_int_equal(vt_proc_run(argv, &out, LONG_NS, &err), 0);
    assert_string_equal(out.data, "a b|$HOME;*");
    vt_buf_reset(&out);
    /* More than a pipe holds, on both streams. */
    assert_int_equal(
        run_sh("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2", &out, LONG_NS, &err), 0);
    assert_int_equal(out.len, 300000);
    assert_int_equal(run_sh("echo dropped", NULL, 0, &err), 0);
}

static void failures_tell_status_and_last_words(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(run_sh("echo so far; echo no space >&2; exit 3", &out, LONG_NS, &err),
                     -ECHILD);
    assert_string_equal(err.text, "sh: exit status 3: no space");
    assert_string_equal(out.data, "so far\n");
    assert_int_equal(run_sh("exit 1", NULL, LONG_NS, &err), -ECHILD);
    assert_string_equal(err.text, "sh: exit status 1");
    assert_int_equal(run_sh("kill -9 $$", NULL, LONG_NS, &err), -EINTR);
    assert_string_equal(err.text, "sh: killed by signal 9 (Killed)");
    assert_int_equal(run_sh("seq 100000 >&2; exit 1", NULL, LONG_NS, &err), -ECHILD);
    assert_true(strlen(err.text) < VT_ERROR_TEXT_MAX);
    assert_string_equal(err.text + strlen(err.text) - 13, "\n99999\n100000");
    assert_non_null(strstr(err.text, "sh: exit status 1: ..."));
    assert_int_equal(run_sh("printf 'a\\0b' >&2; exit 1", NULL, LONG_NS, &err), -ECHILD);
    assert_string_equal(err.text, "sh: exit status 1: a?b");
    assert_int_equal(run_sh("exit 1", NULL, LONG_NS, NULL), -ECHILD);
}

static void what_cannot_start_is_told_by_spawn(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    const char *const missing[] = {"vtile-no-such-program", NULL};
    const char *const folder[] = {"/", NULL};
    const char *const fine[] = {"true", NULL};
    const char *const nothing[] = {NULL};
    pid_t pid = 77;

    (void)state;
    spec.argv = missing;
    assert_int_equal(vt_proc_spawn(&spec, &pid, &err), -ENOENT);
    assert_string_equal(err.text, "start vtile-no-such-program: No such file or directory");
    spec.argv = folder;
    assert_int_equal(vt_proc_spawn(&spec, &pid, &err), -EACCES);
    spec.argv = nothing;
    assert_int_equal(vt_proc_spawn(&spec, &pid, &err), -EINVAL);
    spec.argv = fine;
    spec.dir = "/nonexistent";
    assert_int_equal(vt_proc_spawn(&spec, &pid, &err), -ENOENT);
    assert_string_equal(err.text,
                        "start true: enter folder /nonexistent: No such file or directory");
    spec.dir = NULL;
    spec.netns_path = "/nonexistent/ns";
    assert_int_equal(vt_proc_spawn(&spec, &pid, &err), -ENOENT);
    spec.netns_path = "/dev/null";
    assert_int_equal(vt_proc_spawn(&spec, &pid, &err), -EINVAL);
    assert_non_null(strstr(err.text, "enter network namespace /dev/null"));
    spec.netns_path = NULL;
    spec.stdout_fd = 987;
    assert_int_equal(vt_proc_spawn(&spec, &pid, &err), -EBADF);
    assert_int_equal(pid, 77);
}

static void too_much_output_ends_the_child(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100000);
    struct vt_error err = VT_ERROR_INIT;
    const char *const argv[] = {"yes", NULL};

    (void)state;
    assert_int_equal(vt_proc_run(argv, &out, LONG_NS, &err), -ENOBUFS);
    assert_string_equal(err.text, "yes: ended by us, it wrote more than 100000 bytes");
    assert_true(out.len <= 100000);
    /* Small enough to be in the pipe when the child is gone already. */
    vt_buf_dispose(&out);
    out.max = 3;
    assert_int_equal(run_sh("echo four", &out, LONG_NS, &err), -ENOBUFS);
    vt_buf_dispose(&out);
    out.max = 5;
    assert_int_equal(run_sh("echo four", &out, LONG_NS, &err), 0);
}

static void too_long_ends_the_child(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    const char *const argv[] = {"sleep", "1000", NULL};
    int64_t start = vt_clock_now_ns(), took;

    (void)state;
    assert_int_equal(vt_proc_run(argv, NULL, 50 * VT_NS_PER_MS, &err), -ETIMEDOUT);
    assert_string_equal(err.text, "sleep: ended by us, it took too long");
    took = vt_clock_now_ns() - start;
    assert_true(took >= 50 * VT_NS_PER_MS && took < 30 * VT_NS_PER_S);
}

/* Runs a script that says on descriptor 0 when it is ready to be ended; then ends it. */
static int run_and_cancel(const char *script, bool own_group, struct vt_buf *out,
                          struct vt_error *err)
{
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    const char *const argv[] = {"sh", "-c", script, NULL};
    int fds[2], r;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    spec.argv = argv;
    spec.own_group = own_group;
    spec.stdin_fd = fds[1];
    r = vt_proc_run_spec(&spec, out, LONG_NS, fds[0], err);
    close(fds[0]);
    close(fds[1]);
    return r;
}

static void ending_begins_politely(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    struct vt_error err = VT_ERROR_INIT;
    int64_t start;

    (void)state;
    /* One that can tidy up does; one that does not listen is killed. */
    assert_int_equal(run_and_cancel("trap 'echo tidied; exit 0' TERM; echo >&0;"
                                    "while :; do sleep 0.01; done",
                                    false, &out, &err),
                     -ECANCELED);
    assert_int_equal(err.kind, VT_KIND_INTERRUPTED);
    assert_string_equal(err.text, "sh: ended by us, interrupted");
    assert_string_equal(out.data, "tidied\n");
    start = vt_clock_now_ns();
    assert_int_equal(
        run_and_cancel("trap '' TERM; echo >&0; while :; do sleep 0.01; done", false, NULL, &err),
        -ECANCELED);
    assert_true(vt_clock_now_ns() - start >= 2 * VT_NS_PER_S);
}

static void a_group_is_ended_as_a_whole(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    struct vt_error err = VT_ERROR_INIT;
    pid_t grandchild;

    (void)state;
    assert_int_equal(run_and_cancel("sleep 1000 & echo $!; echo >&0; wait", true, &out, &err),
                     -ECANCELED);
    assert_true(out.len > 1);
    grandchild = (pid_t)strtol(out.data, NULL, 10);
    assert_true(grandchild > 1);
    /* Gone, or a zombie that nobody but init can reap. */
    for (;;) {
        char path[64], stat[256] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)grandchild);
        f = fopen(path, "r");
        if (!f)
            break;
        if (!fgets(stat, sizeof(stat), f))
            stat[0] = '\0';
        fclose(f);
        if (!stat[0] || strstr(stat, ") Z "))
            break;
        poll(NULL, 0, 5);
    }
}

static void a_grandchild_with_the_pipes_does_not_hold_us(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    struct vt_error err = VT_ERROR_INIT;
    int64_t start = vt_clock_now_ns();
    pid_t grandchild;

    (void)state;
    assert_int_equal(run_sh("sleep 1000 & echo $!", &out, LONG_NS, &err), 0);
    assert_true(vt_clock_now_ns() - start < LONG_NS);
    grandchild = (pid_t)strtol(out.data, NULL, 10);
    assert_true(grandchild > 1);
    assert_int_equal(kill(grandchild, SIGKILL), 0);
}

/* --- what the child starts with --- */

static void only_three_descriptors_are_open(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    struct vt_error err = VT_ERROR_INIT;
    int leaky = open("/dev/null", O_RDONLY); /* not close-on-exec, as libraries do */
    int high = fcntl(leaky, F_DUPFD, 900);
    const char *const argv[] = {"ls", "/proc/self/fd", NULL};

    (void)state;
    assert_true(high >= 900);
    assert_int_equal(vt_proc_run(argv, &out, LONG_NS, &err), 0);
    close(leaky);
    close(high);
    assert_string_equal(out.data, "0\n1\n2\n3\n"); /* 3: ls's own, of the folder */
}

static void signals_are_as_a_program_expects(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    struct vt_error err = VT_ERROR_INIT;
    const char *const argv[] = {"grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status", NULL};
    sigset_t some, before;
    void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN);
    void (*rt_before)(int) = signal(SIGRTMAX, SIG_IGN);

    (void)state;
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigaddset(&some, SIGUSR1);
    sigprocmask(SIG_BLOCK, &some, &before);
    assert_int_equal(vt_proc_run(argv, &out, LONG_NS, &err), 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, pipe_before);
    signal(SIGRTMAX, rt_before);
    assert_non_null(strstr(out.data, "SigBlk:\t0000000000000000\n"));
    assert_non_null(strstr(out.data, "SigIgn:\t0000000000000000\n"));
}

static void standard_streams_may_be_given_crosswise(void **state)
{
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    struct vt_error err = VT_ERROR_INIT;
    const char *const argv[] = {"sh", "-c", "read x; echo out $x; echo err $x >&2", NULL};
    int in[2], out[2], errs[2], saved[3];
    char text[64];
    pid_t pid;
    int r;

    (void)state;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(errs, O_CLOEXEC), 0);
    assert_int_equal(write(in[1], "hello\n", 6), 6);
    /* The child's stdin stands at 1, its stdout at 2, its stderr at 0. */
    for (int i = 0; i < 3; i++)
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
    dup2(in[0], 1);
    dup2(out[1], 2);
    dup2(errs[1], 0);
    spec.argv = argv;
    spec.stdin_fd = 1;
    spec.stdout_fd = 2;
    spec.stderr_fd = 0;
    r = vt_proc_spawn(&spec, &pid, &err);
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    assert_int_equal(r, 0);
    assert_int_equal(vt_proc_wait(pid, "sh", &err), 0);
    assert_int_equal(read(out[0], text, sizeof(text)), 10);
    assert_memory_equal(text, "out hello\n", 10);
    assert_int_equal(read(errs[0], text, sizeof(text)), 10);
    assert_memory_equal(text, "err hello\n", 10);
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
        close(errs[i]);
    }
}

/* A daemon may run with 0, 1 and 2 closed: our own pipes then get these numbers. */
static void closed_standard_streams_do_no_harm(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    struct vt_error err = VT_ERROR_INIT;
    int saved[3], good, bad;
    const char *const missing[] = {"vtile-no-such-program", NULL};

    (void)state;
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
        close(i);
    }
    good = run_sh("echo out; echo err >&2; exit 4", &out, LONG_NS, &err);
    bad = vt_proc_run(missing, NULL, LONG_NS, NULL);
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    assert_int_equal(good, -ECHILD);
    assert_string_equal(err.text, "sh: exit status 4: err");
    assert_string_equal(out.data, "out\n");
    assert_int_equal(bad, -ENOENT);
}

static void folder_and_environment_are_set(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    struct vt_error err = VT_ERROR_INIT;
    const char *const argv[] = {"/bin/sh", "-c", "pwd; echo $ONLY; echo ${HOME-none}", NULL};
    const char *const env[] = {"ONLY=this", NULL};

    (void)state;
    spec.argv = argv;
    spec.env = env;
    spec.dir = "/usr";
    assert_int_equal(vt_proc_run_spec(&spec, &out, LONG_NS, -1, &err), 0);
    assert_string_equal(out.data, "/usr\nthis\nnone\n");
}

static void a_network_namespace_is_entered(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
    struct vt_error err = VT_ERROR_INIT;
    const char *const argv[] = {"readlink", "/proc/self/ns/net", NULL};
    char path[64], link[128] = "";
    int fds[2];
    char ready;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        ready = unshare(CLONE_NEWNET) == 0;
        if (write(fds[1], &ready, 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(fds[0], &ready, 1), 1);
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    if (ready) {
        ssize_t n = readlink(path, link, sizeof(link) - 2);

        assert_true(n > 0);
        memcpy(link + n, "\n", sizeof("\n"));
        spec.argv = argv;
        spec.netns_path = path;
        assert_int_equal(vt_proc_run_spec(&spec, &out, LONG_NS, -1, &err), 0);
        assert_string_equal(out.data, link);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fds[0]);
    close(fds[1]);
    if (!ready) {
        print_message("skipped: no right to make a network namespace\n");
        skip();
    }
}

/* A parent that is killed takes its child along; told by the end of a pipe that only it holds. */
static void children_die_with_their_parent(void **state)
{
    int fds[2];
    struct pollfd end;
    pid_t parent;
    char byte;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    parent = fork();
    if (parent == 0) {
        struct vt_proc_spec spec = VT_PROC_SPEC_INIT;
        const char *const argv[] = {"sh", "-c", "echo; exec sleep 1000", NULL};
        pid_t pid;

        spec.argv = argv;
        spec.stdout_fd = fds[1];
        if (vt_proc_spawn(&spec, &pid, NULL) < 0)
            _exit(1);
        close(fds[1]);
        pause();
        _exit(0);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    end = (struct pollfd){fds[0], POLLIN, 0};
    assert_int_equal(poll(&end, 1, 30000), 1);
    assert_int_equal(read(fds[0], &byte, 1), 0);
    close(fds[0]);
}

static void waiting_for_a_stranger_is_an_error(void **state)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(vt_proc_wait(1, "init", &err), -ECHILD);
    assert_string_equal(err.text, "wait for init: No child processes");
}

#define PROC_TEST(f) cmocka_unit_test_setup_teardown(f, remember, check_nothing_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROC_TEST(output_is_returned),
        PROC_TEST(failures_tell_status_and_last_words),
        PROC_TEST(what_cannot_start_is_told_by_spawn),
        PROC_TEST(too_much_output_ends_the_child),
        PROC_TEST(too_long_ends_the_child),
        PROC_TEST(ending_begins_politely),
        PROC_TEST(a_group_is_ended_as_a_whole),
        PROC_TEST(a_grandchild_with_the_pipes_does_not_hold_us),
        PROC_TEST(only_three_descriptors_are_open),
        PROC_TEST(signals_are_as_a_program_expects),
        PROC_TEST(standard_streams_may_be_given_crosswise),
        PROC_TEST(closed_standard_streams_do_no_harm),
        PROC_TEST(folder_and_environment_are_set),
        PROC_TEST(a_network_namespace_is_entered),
        PROC_TEST(children_die_with_their_parent),
        PROC_TEST(waiting_for_a_stranger_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
