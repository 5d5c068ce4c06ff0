/* SPDX-License-Identifier: Apache-2.0 */
/* Signals around the fork of --detach: none of them is lost. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "orchestrator/run/show.h"

#define CHILD_SECONDS 5 /* then it ends by itself: nobody told it to */
#define LOST 9

static void before_fork(void)
{
    raise(SIGINT);
}

static void after_fork(void)
{
    raise(SIGTERM);
}

static void end_by_itself(int signum)
{
    (void)signum;
    _exit(LOST);
}

/* In a process of its own, since signals meant for the run end it. The parent's code is that of a
 * run that was killed, 4; the run ends with LOST when it hears of nothing. */
static int detach_with(void (*prepare)(void), void (*parent)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        int fd = -1, code = 0, ret;

        signal(SIGALRM, end_by_itself);
        pthread_atfork(prepare, parent, NULL);
        ret = run_detach(false, &fd, &code, NULL);
        if (ret == 0) {
            alarm(CHILD_SECONDS);
            for (;;)
                pause();
        }
        _exit(ret < 0 ? 99 : code);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void signal_before_the_child_is_known_reaches_it(void **state)
{
    (void)state;
    assert_int_equal(detach_with(NULL, after_fork), 4);
}

static void signal_before_there_is_a_child_reaches_it(void **state)
{
    (void)state;
    assert_int_equal(detach_with(before_fork, NULL), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signal_before_the_child_is_known_reaches_it),
        cmocka_unit_test(signal_before_there_is_a_child_reaches_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
