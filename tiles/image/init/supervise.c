/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tiles/image/init/init.h"

#define AGENT "/usr/bin/vtile-agent"
/* An agent that dies at once must not eat the CPU that is being measured. */
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 5000
#define HEALTHY_MS 10000
/* nginx, dovecot and PostgreSQL end within a second or two on SIGTERM. */
#define STOP_WAIT_MS 5000
/* Status of a program that could not be started or loaded, here and by ld.so. */
#define NOT_STARTED 127

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static pid_t start_agent(const char *config_disk)
{
    static char *const env[] = {
        (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        (char *)"HOME=/root", (char *)"LANG=C.UTF-8", NULL};
    char *const argv[] = {(char *)AGENT, (char *)"--guest", (char *)"--config", (char *)config_disk,
                          NULL};
    pid_t pid = fork();

    if (pid == 0) {
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
        execve(AGENT, argv, env);
        init_log("start " AGENT ": %s", strerror(errno));
        _exit(NOT_STARTED);
    }
    if (pid < 0)
        init_log("fork: %s", strerror(errno));
    return pid;
}

/* Waits for one of the signals; 0 when deadline_ms (-1: none) passes first. */
static int wait_signal(const sigset_t *signals, int64_t deadline_ms)
{
    struct timespec left = {0};
    int64_t ms = deadline_ms - now_ms();
    int sig;

    if (deadline_ms < 0)
        sig = sigwaitinfo(signals, NULL);
    else {
        if (ms > 0) {
            left.tv_sec = ms / 1000;
            left.tv_nsec = ms % 1000 * 1000000;
        }
        sig = sigtimedwait(signals, NULL, &left);
    }
    return sig > 0 ? sig : 0;
}

static void end_guest(int sig, const sigset_t *signals) __attribute__((noreturn));
static void end_guest(int sig, const sigset_t *signals)
{
    int64_t deadline_ms = now_ms() + STOP_WAIT_MS;
    bool children = true;

    init_log("%s", sig == SIGHUP ? "restarting" : "powering off");
    kill(-1, SIGTERM);
    while (children && now_ms() < deadline_ms) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        children = waitpid(-1, NULL, WNOHANG) == 0;
        if (children)
            wait_signal(signals, deadline_ms);
    }
    kill(-1, SIGKILL);
    sync();
    reboot(sig == SIGHUP ? RB_AUTOBOOT : RB_POWER_OFF);
    for (;;)
        pause();
}

/* Reaps all that ended. True when the agent was among them; its status is told on the console.
 * One that cannot even be loaded will not be next time: the guest ends, so that its host sees it.
 */
static bool reap(pid_t agent, const sigset_t *signals)
{
    bool ended = false, hopeless = false;
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != agent)
            continue;
        ended = true;
        if (WIFSIGNALED(status))
            init_log("agent killed by signal %d", WTERMSIG(status));
        else
            init_log("agent ended with %d", WEXITSTATUS(status));
        hopeless = WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED;
    }
    if (hopeless)
        end_guest(SIGTERM, signals);
    return ended;
}

void init_supervise(const char *config_disk)
{
    int64_t backoff_ms = BACKOFF_FIRST_MS, started_ms = 0, restart_ms = 0;
    pid_t agent = -1;
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGUSR2);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    reboot(RB_DISABLE_CAD); /* Ctrl-Alt-Del comes as SIGINT instead of a hard reset */
    for (;;) {
        int sig;

        if (agent < 0 && now_ms() >= restart_ms) {
            started_ms = now_ms();
            agent = start_agent(config_disk);
            restart_ms = started_ms + backoff_ms;
        }
        sig = wait_signal(&signals, agent < 0 ? restart_ms : -1);
        if (sig && sig != SIGCHLD)
            end_guest(sig, &signals);
        if (!reap(agent, &signals))
            continue;
        agent = -1;
        if (now_ms() - started_ms >= HEALTHY_MS)
            backoff_ms = BACKOFF_FIRST_MS;
        restart_ms = now_ms() + backoff_ms;
        backoff_ms = backoff_ms * 2 < BACKOFF_MAX_MS ? backoff_ms * 2 : BACKOFF_MAX_MS;
    }
}
