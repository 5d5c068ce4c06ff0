/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_clock: how many instructions one look at the monotonic clock takes, by single steps: what
 * callgrind does not see, since programs under it have no vDSO. Prints the number.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 1000

static void look(int times)
{
    struct timespec at;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(1);
    raise(SIGSTOP);
    for (int i = 0; i < times; i++)
        clock_gettime(CLOCK_MONOTONIC, &at);
    _exit(0);
}

/* Until the child has ended. */
static long count_steps(int times)
{
    int status = 0;
    long n = 0;
    pid_t child = fork();

    if (child == 0)
        look(times);
    while (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        n++;
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0)
            return -1;
    }
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? n : -1;
}

int main(void)
{
    long few = count_steps(LOOKS), many = count_steps(2 * LOOKS);

    if (few < 0 || many < few) {
        fputs("load_clock: single steps are not possible here\n", stderr);
        return 1;
    }
    printf("%ld\n", (many - few) / LOOKS);
    return 0;
}
