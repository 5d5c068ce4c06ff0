/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A domain's QEMU is found by the pid file that libvirt itself keeps: one short read a domain, for
 * each driver, and no call into libvirt. A pid file may outlive its process, so the domain's UUID
 * must stand among that process's arguments. libvirt always asks QEMU to name its threads.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/sampler_parts.h"

#define AGAIN 5             /* takes between two looks for a domain that is not there */
#define PROCESSES_MAX 65536 /* looked at for kernel threads of vhost */

static void close_fd(struct sampler_domains *domains, int *fd)
{
    if (*fd < 0)
        return;
    close(*fd);
    *fd = -1;
    domains->nfds--;
}

static void forget(struct sampler_domains *domains, struct sampler_domain *d, const char *why)
{
    close_fd(domains, &d->stat_fd);
    for (unsigned i = 0; i < d->nthreads; i++)
        close_fd(domains, &d->threads[i].fd);
    free(d->threads);
    d->threads = NULL;
    d->nthreads = 0;
    d->pid = 0;
    d->why = why;
}

/* -1 also where the process has no descriptor to spare. */
static int open_kept(struct sampler_domains *domains, const char *path)
{
    int fd = domains->nfds < domains->nfds_max ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    domains->nfds += fd >= 0;
    return fd;
}

static void thread_path(const struct sampler_domains *domains, pid_t owner, pid_t tid,
                        const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/proc/%d/task/%d/%s", domains->root, (int)owner, (int)tid, name);
}

/* "CPU 3/KVM" -> "vcpu.3", the n-th "vhost-4711" -> "vhost.n"; false: not one to be watched. */
static bool name_thread(const struct sampler_domain *d, pid_t tid, const char *comm, char *name,
                        size_t size)
{
    unsigned number, nvhosts = 0;

    for (unsigned i = 0; i < d->nthreads; i++)
        nvhosts += !strncmp(d->threads[i].name, "vhost.", 6);
    if (sscanf(comm, "CPU %u/", &number) == 1)
        snprintf(name, size, "vcpu.%u", number);
    else if (!strncmp(comm, "ALL CPUs/", 9))
        vt_text_copy(name, size, "vcpu.all");
    else if (!strncmp(comm, "vhost-", 6))
        snprintf(name, size, "vhost.%u", nvhosts);
    else if (tid == d->pid)
        vt_text_copy(name, size, "emulator");
    else
        return false;
    return true;
}

static void add_thread(struct sampler_domains *domains, struct sampler_domain *d, pid_t owner,
                       pid_t tid)
{
    struct sampler_thread thread = {.owner = owner, .tid = tid, .fresh = true}, *grown;
    char path[VT_PATH_MAX + 64];

    thread_path(domains, owner, tid, "comm", path, sizeof(path));
    if (d->nthreads == SAMPLER_THREADS_MAX || !sampler_read_path(path, domains->text) ||
        !name_thread(d, tid, domains->text->data, thread.name, sizeof(thread.name)))
        return;
    grown = realloc(d->threads, (d->nthreads + 1) * sizeof(*grown));
    if (!grown)
        return;
    d->threads = grown;
    thread_path(domains, owner, tid, "schedstat", path, sizeof(path));
    thread.fd = open_kept(domains, path);
    d->threads[d->nthreads++] = thread;
}

static pid_t to_pid(const char *text)
{
    char *end;
    long pid = strtol(text, &end, 10);

    return end != text && (!*end || *end == '\n') && pid > 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static int by_tid(const void *a, const void *b)
{
    const pid_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* In the order of their ids, so that the n-th vhost thread is always the same. */
static void add_threads(struct sampler_domains *domains, struct sampler_domain *d)
{
    char path[VT_PATH_MAX + 64];
    pid_t tids[4 * SAMPLER_THREADS_MAX]; /* with QEMU's own helpers, which come and go */
    unsigned n = 0;
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/proc/%d/task", domains->root, (int)d->pid);
    DIR *folder = opendir(path);
    while (folder && n < VT_COUNT(tids) && (entry = readdir(folder)))
        if ((tids[n] = to_pid(entry->d_name)) > 0)
            n++;
    if (folder)
        closedir(folder);
    qsort(tids, n, sizeof(*tids), by_tid);
    for (unsigned i = 0; i < n; i++)
        add_thread(domains, d, d->pid, tids[i]);
}

static bool is_emulator(struct sampler_domains *domains, pid_t pid, const char *uuid)
{
    char path[VT_PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/proc/%d/cmdline", domains->root, (int)pid);
    return sampler_read_path(path, domains->text) &&
           memmem(domains->text->data, domains->text->len, uuid, strlen(uuid));
}

static void find(struct sampler_domains *domains, struct sampler_domain *d)
{
    char path[2 * VT_PATH_MAX + 128];
    pid_t pid;

    snprintf(path, sizeof(path), "%s%s/%s.pid", domains->root, domains->pid_folder, d->name);
    pid = sampler_read_path(path, domains->text) ? to_pid(domains->text->data) : 0;
    if (pid == 0) {
        d->why = "libvirt has no pid file of it";
        return;
    }
    if (!is_emulator(domains, pid, d->uuid)) {
        d->why = "its QEMU has ended";
        return;
    }
    d->pid = pid;
    d->fresh = true;
    snprintf(path, sizeof(path), "%s/proc/%d/stat", domains->root, (int)pid);
    d->stat_fd = open_kept(domains, path);
    add_threads(domains, d);
}

static struct sampler_domain *find_pid(struct sampler_domains *domains, pid_t pid)
{
    for (unsigned i = 0; i < domains->n; i++)
        if (domains->all[i].pid == pid)
            return &domains->all[i];
    return NULL;
}

/* Before Linux 6.4 vhost's threads are the kernel's own, named after the process that they serve.
 */
static void find_kernel_threads(struct sampler_domains *domains)
{
    char path[VT_PATH_MAX + 64];
    unsigned seen = 0;
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/proc", domains->root);
    DIR *folder = opendir(path);
    while (folder && seen < PROCESSES_MAX && (entry = readdir(folder))) {
        pid_t tid = to_pid(entry->d_name), served = 0;
        struct sampler_domain *d;

        if (tid == 0)
            continue;
        seen++;
        thread_path(domains, tid, tid, "comm", path, sizeof(path));
        if (!sampler_read_path(path, domains->text) ||
            sscanf(domains->text->data, "vhost-%d", &served) != 1)
            continue;
        d = served > 0 ? find_pid(domains, served) : NULL;
        if (d)
            add_thread(domains, d, tid, tid);
    }
    if (folder)
        closedir(folder);
}

static bool has_thread(const struct sampler_domain *d, const char *prefix)
{
    for (unsigned i = 0; i < d->nthreads; i++)
        if (!strncmp(d->threads[i].name, prefix, strlen(prefix)))
            return true;
    return false;
}

static void find_missing(struct sampler_domains *domains)
{
    bool found = false;

    for (unsigned i = 0; i < domains->n; i++) {
        struct sampler_domain *d = &domains->all[i];

        if (d->pid > 0)
            continue;
        find(domains, d);
        found |= d->pid > 0 && !has_thread(d, "vhost.");
    }
    if (found && !domains->emulated)
        find_kernel_threads(domains);
}

/* Documentation/scheduler/sched-stats: time on the CPU and time waiting for it, in ns. */
static bool read_thread(struct sampler_domains *domains, const struct sampler_thread *thread,
                        uint64_t *ret_run_ns, uint64_t *ret_delay_ns)
{
    char path[VT_PATH_MAX + 64];
    const char *at;
    bool ok;

    if (thread->fd >= 0) {
        ok = sampler_read(thread->fd, domains->text);
    } else {
        thread_path(domains, thread->owner, thread->tid, "schedstat", path, sizeof(path));
        ok = sampler_read_path(path, domains->text);
    }
    if (!ok)
        return false;
    at = domains->text->data;
    *ret_run_ns = sampler_number(&at);
    *ret_delay_ns = sampler_number(&at);
    return true;
}

/* Returns what it ran since the last take. */
static uint64_t take_thread(struct sampler_domains *domains, const struct sampler_tick *tick,
                            struct sampler_thread *thread)
{
    static const double ns = 1e-9;
    bool main_thread = !strcmp(thread->name, "emulator");
    uint64_t run_ns, delay_ns, ran_ns = 0;
    char cpu[32], delay[32];

    snprintf(cpu, sizeof(cpu), "%s.cpu", thread->name);
    snprintf(delay, sizeof(delay), "%s.run_delay", thread->name);
    if (thread->gone || !read_thread(domains, thread, &run_ns, &delay_ns)) {
        thread->gone = true;
        close_fd(domains, &thread->fd);
        sampler_lack(tick, delay, "the thread has ended");
        return 0;
    }
    if (!thread->fresh) {
        ran_ns = run_ns > thread->run_ns ? run_ns - thread->run_ns : 0;
        if (!main_thread)
            sampler_put_rate(tick, cpu, run_ns, &thread->run_ns, ns);
        sampler_put_rate(tick, delay, delay_ns, &thread->delay_ns, ns);
    }
    thread->run_ns = run_ns;
    thread->delay_ns = delay_ns;
    thread->fresh = false;
    return ran_ns;
}

/* User and system time of all threads of the process, in ticks: fields 14 and 15 of stat. */
static bool read_ticks(struct sampler_domains *domains, struct sampler_domain *d, uint64_t *ret)
{
    char path[VT_PATH_MAX + 64];
    const char *at;
    bool ok;

    if (d->stat_fd >= 0) {
        ok = sampler_read(d->stat_fd, domains->text);
    } else {
        snprintf(path, sizeof(path), "%s/proc/%d/stat", domains->root, (int)d->pid);
        ok = sampler_read_path(path, domains->text);
    }
    at = ok ? strrchr(domains->text->data, ')') : NULL;
    for (unsigned field = 2; at && field < 14; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return false;
    *ret = sampler_number(&at);
    *ret += sampler_number(&at);
    return true;
}

static void take_domain(struct sampler_domains *domains, const struct sampler_tick *tick,
                        struct sampler_domain *d)
{
    double tick_ns = (double)VT_NS_PER_S / (double)sysconf(_SC_CLK_TCK), rest_ns;
    uint64_t ticks = 0, others_ns = 0;

    if (d->pid > 0 && !read_ticks(domains, d, &ticks))
        forget(domains, d, "its QEMU has ended");
    if (d->pid == 0) {
        sampler_lack(tick, "emulator.cpu", d->why);
        return;
    }
    for (unsigned i = 0; i < d->nthreads; i++) {
        struct sampler_thread *thread = &d->threads[i];
        uint64_t ran_ns = take_thread(domains, tick, thread);

        if (thread->owner == d->pid && thread->tid != d->pid)
            others_ns += ran_ns;
    }
    rest_ns = (double)(ticks > d->ticks ? ticks - d->ticks : 0) * tick_ns - (double)others_ns;
    if (!d->fresh && tick->seconds > 0)
        sampler_put(tick, "emulator.cpu",
                    rest_ns > 0 ? rest_ns / (double)VT_NS_PER_S / tick->seconds : 0);
    d->ticks = ticks;
    d->fresh = false;
    if (!has_thread(d, "vcpu."))
        sampler_lack(tick, "vcpu.0.run_delay", "QEMU has no thread named after a vCPU");
    if (!has_thread(d, "vhost."))
        sampler_lack(tick, "vhost.0.run_delay",
                     domains->emulated ? "with emulated CPUs QEMU moves the packets itself"
                                       : "QEMU has no vhost thread");
}

void sampler_domains_take(struct sampler_domains *domains, struct sampler_tick *tick)
{
    if (domains->takes++ % AGAIN == 0)
        find_missing(domains);
    for (unsigned i = 0; i < domains->n; i++) {
        tick->domain = domains->all[i].who;
        take_domain(domains, tick, &domains->all[i]);
    }
    tick->domain = NULL;
}

void sampler_domains_dispose(struct sampler_domains *domains)
{
    for (unsigned i = 0; i < domains->n; i++)
        forget(domains, &domains->all[i], NULL);
    free(domains->all);
    domains->all = NULL;
    domains->n = 0;
}
