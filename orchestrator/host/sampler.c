/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/host/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/sampler_parts.h"

#define FIRST_BYTES 8192
#define COLUMNS 10 /* proc(5): user nice system idle iowait irq softirq steal guest guest_nice */

enum cpu_field { USER, SYSTEM, IDLE, IOWAIT, IRQ, STEAL, GUEST, CPU_FIELDS };
static const char *const cpu_names[] = {"user", "system", "idle", "iowait",
                                        "irq",  "steal",  "guest"};

enum file { STAT, MEMINFO, VMSTAT, KSM, PSI_CPU, PSI_MEMORY, PSI_IO, FILES };
static const char *const paths[] = {"/proc/stat",         "/proc/meminfo",
                                    "/proc/vmstat",       "/sys/kernel/mm/ksm/pages_sharing",
                                    "/proc/pressure/cpu", "/proc/pressure/memory",
                                    "/proc/pressure/io"};

struct cpu {
    bool known;
    uint64_t fields[CPU_FIELDS];
};
/* One number of a line that begins with word. */
struct psi {
    enum file file;
    const char *series, *word;
};
static const struct psi psi[] = {{PSI_CPU, "psi.cpu.some", "some"},
                                 {PSI_MEMORY, "psi.memory.some", "some"},
                                 {PSI_MEMORY, "psi.memory.full", "full"},
                                 {PSI_IO, "psi.io.some", "some"},
                                 {PSI_IO, "psi.io.full", "full"}};

struct host_sampler {
    char root[VT_PATH_MAX], pid_folder[VT_PATH_MAX];
    bool emulated;
    int fds[FILES];
    int64_t last_ns;
    struct sampler_text text;
    struct cpu cpus[HOST_SAMPLER_CPUS_MAX + 1]; /* the last: all together */
    uint64_t swapped[2], stalled[VT_COUNT(psi)];
    bool swap_known, psi_known[VT_COUNT(psi)];
    struct sampler_domains domains;
};

/* --- files and numbers --- */

static bool grow(struct sampler_text *text)
{
    size_t cap = text->cap ? 2 * text->cap : FIRST_BYTES;
    char *data = cap > HOST_SAMPLER_FILE_MAX ? NULL : realloc(text->data, cap);

    if (!data)
        return false;
    text->data = data;
    text->cap = cap;
    return true;
}

bool sampler_read(int fd, struct sampler_text *text)
{
    ssize_t n;

    if (fd < 0 || (!text->data && !grow(text)))
        return false;
    /* Each read makes the text anew, so a second one could not go on where the first was cut. */
    do {
        n = pread(fd, text->data, text->cap - 1, 0);
    } while (n == (ssize_t)text->cap - 1 && grow(text));
    text->len = n > 0 ? (size_t)n : 0;
    text->data[text->len] = '\0';
    return n > 0;
}

bool sampler_read_path(const char *path, struct sampler_text *text)
{
    VT_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return sampler_read(fd, text);
}

uint64_t sampler_number(const char **at)
{
    uint64_t value = 0;

    while (**at == ' ')
        (*at)++;
    while (**at >= '0' && **at <= '9')
        value = value * 10 + (uint64_t)(*(*at)++ - '0');
    return value;
}

void sampler_put(const struct sampler_tick *tick, const char *series, double value)
{
    const struct host_sample sample = {tick->domain, series, value, NULL};

    tick->put(tick->ctx, &sample);
}

void sampler_lack(const struct sampler_tick *tick, const char *series, const char *why)
{
    const struct host_sample sample = {tick->domain, series, NAN, why};

    if (tick->tell)
        tick->put(tick->ctx, &sample);
}

void sampler_put_rate(const struct sampler_tick *tick, const char *series, uint64_t now,
                      uint64_t *last, double unit)
{
    /* Some counters of the kernel step back by a little: idle and iowait do. */
    uint64_t grown = now > *last ? now - *last : 0;

    if (tick->seconds > 0)
        sampler_put(tick, series, (double)grown * unit / tick->seconds);
    *last = now;
}

/* --- the machine --- */

static void take_cpu(struct host_sampler *s, const struct sampler_tick *tick, const char *line)
{
    const char *at = line + 3;
    bool one = *at >= '0' && *at <= '9';
    uint64_t number = one ? sampler_number(&at) : 0, column[COLUMNS], now[CPU_FIELDS];
    struct cpu *cpu;
    char prefix[16] = "cpu", series[32];

    if (number >= HOST_SAMPLER_CPUS_MAX)
        return;
    if (one)
        snprintf(prefix, sizeof(prefix), "cpu.%u", (unsigned)number);
    cpu = &s->cpus[one ? number : HOST_SAMPLER_CPUS_MAX];
    for (size_t i = 0; i < COLUMNS; i++)
        column[i] = sampler_number(&at);
    now[USER] = column[0] + column[1];
    now[IRQ] = column[5] + column[6];
    now[SYSTEM] = column[2] + now[IRQ];
    now[IDLE] = column[3];
    now[IOWAIT] = column[4];
    now[STEAL] = column[7];
    now[GUEST] = column[8] + column[9];
    for (size_t i = 0; i < CPU_FIELDS; i++) {
        snprintf(series, sizeof(series), "%s.%s", prefix, cpu_names[i]);
        if (i == GUEST && s->domains.emulated)
            sampler_lack(tick, series, "the guests' CPUs are emulated: their time is QEMU's own");
        else if (!cpu->known)
            cpu->fields[i] = now[i];
        else
            sampler_put_rate(tick, series, now[i], &cpu->fields[i],
                             1.0 / (double)sysconf(_SC_CLK_TCK));
    }
    cpu->known = true;
}

static void take_stat(struct host_sampler *s, const struct sampler_tick *tick)
{
    if (!sampler_read(s->fds[STAT], &s->text)) {
        sampler_lack(tick, "cpu.user", "/proc/stat cannot be read");
        return;
    }
    for (const char *line = s->text.data; line && !strncmp(line, "cpu", 3);) {
        take_cpu(s, tick, line);
        line = strchr(line, '\n');
        line += line != NULL;
    }
}

/* The number in the line that begins with word. */
static bool find_number(const char *text, const char *word, uint64_t *ret)
{
    size_t len = strlen(word);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, word, len)) {
            line += len;
            *ret = sampler_number(&line);
            return true;
        }
    }
    return false;
}

static void put_found(struct host_sampler *s, const struct sampler_tick *tick, bool readable,
                      const char *word, const char *series, double unit)
{
    uint64_t value;

    if (readable && find_number(s->text.data, word, &value))
        sampler_put(tick, series, (double)value * unit);
    else
        sampler_lack(tick, series, "the kernel does not tell it");
}

static void take_memory(struct host_sampler *s, const struct sampler_tick *tick)
{
    static const char *const swap[] = {"swap.in_bytes_s", "swap.out_bytes_s"};
    static const char *const words[] = {"pswpin ", "pswpout "};
    bool readable = sampler_read(s->fds[MEMINFO], &s->text);

    put_found(s, tick, readable, "MemAvailable:", "mem.available_bytes", 1024);
    put_found(s, tick, readable, "Cached:", "mem.cached_bytes", 1024);
    readable = sampler_read(s->fds[VMSTAT], &s->text);
    for (size_t i = 0; i < VT_COUNT(swap); i++) {
        uint64_t pages;

        if (!readable || !find_number(s->text.data, words[i], &pages))
            sampler_lack(tick, swap[i], "the kernel does not count it");
        else if (s->swap_known)
            sampler_put_rate(tick, swap[i], pages, &s->swapped[i], (double)sysconf(_SC_PAGESIZE));
        else
            s->swapped[i] = pages;
    }
    s->swap_known = readable;
    if (sampler_read(s->fds[KSM], &s->text))
        put_found(s, tick, true, "", "ksm.pages_sharing", 1);
    else
        sampler_lack(tick, "ksm.pages_sharing", "the kernel has no KSM");
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=5784170819", in microseconds. */
static void take_pressure(struct host_sampler *s, const struct sampler_tick *tick)
{
    bool readable = false;

    for (size_t i = 0; i < VT_COUNT(psi); i++) {
        const char *line, *at;
        uint64_t now_us;

        if (i == 0 || psi[i].file != psi[i - 1].file)
            readable = sampler_read(s->fds[psi[i].file], &s->text);
        line = readable ? strstr(s->text.data, psi[i].word) : NULL;
        at = line ? strstr(line, "total=") : NULL;
        if (!at) {
            sampler_lack(tick, psi[i].series,
                         "the kernel was built or started without pressure stall information");
            continue;
        }
        at += strlen("total=");
        now_us = sampler_number(&at);
        if (s->psi_known[i])
            sampler_put_rate(tick, psi[i].series, now_us, &s->stalled[i], 1e-6);
        s->stalled[i] = now_us;
        s->psi_known[i] = true;
    }
}

/* --- all --- */

int host_sampler_new(const struct host_sampler_settings *settings, struct host_sampler **ret,
                     struct vt_error *err)
{
    struct host_sampler *s = calloc(1, sizeof(*s));
    char path[VT_PATH_MAX + 64];
    struct rlimit files;

    if (!s)
        return vt_error_no_memory(err, "sample the host");
    if (!vt_text_copy(s->root, sizeof(s->root), settings->root) ||
        !vt_text_copy(s->pid_folder, sizeof(s->pid_folder), settings->pid_folder)) {
        free(s);
        return vt_error_set(err, VT_KIND_USAGE, -ENAMETOOLONG, "sample the host: path too long");
    }
    for (size_t i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "%s%s", s->root, paths[i]);
        s->fds[i] = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    s->domains.root = s->root;
    s->domains.pid_folder = s->pid_folder;
    s->domains.emulated = settings->emulated;
    s->domains.text = &s->text;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        s->domains.nfds_max = (unsigned)(files.rlim_cur < 1U << 20 ? files.rlim_cur : 1U << 20) / 4;
    *ret = s;
    return 0;
}

int host_sampler_add(struct host_sampler *s, const void *domain, const char *name, const char *uuid,
                     struct vt_error *err)
{
    struct sampler_domain *grown, *d;

    if (s->domains.n == HOST_SAMPLER_DOMAINS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG, "sample the host: more than %d domains",
                            HOST_SAMPLER_DOMAINS_MAX);
    grown = realloc(s->domains.all, (s->domains.n + 1) * sizeof(*grown));
    if (!grown)
        return vt_error_no_memory(err, "sample the host");
    s->domains.all = grown;
    d = &grown[s->domains.n];
    memset(d, 0, sizeof(*d));
    d->who = domain;
    d->stat_fd = -1;
    if (!vt_text_copy(d->name, sizeof(d->name), name) ||
        !vt_text_copy(d->uuid, sizeof(d->uuid), uuid) || !uuid[0] || strchr(name, '/'))
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "sample the host: no domain: '%.80s'",
                            name);
    s->domains.n++;
    return 0;
}

void host_sampler_take(struct host_sampler *s, int64_t now_ns, bool tell, host_sample_put put,
                       void *ctx)
{
    struct sampler_tick tick = {.tell = tell, .put = put, .ctx = ctx};

    if (s->last_ns > 0 && now_ns > s->last_ns)
        tick.seconds = (double)(now_ns - s->last_ns) / (double)VT_NS_PER_S;
    s->last_ns = now_ns;
    take_stat(s, &tick);
    take_memory(s, &tick);
    take_pressure(s, &tick);
    sampler_domains_take(&s->domains, &tick);
}

struct host_sampler *host_sampler_free(struct host_sampler *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < FILES; i++)
        if (s->fds[i] >= 0)
            close(s->fds[i]);
    sampler_domains_dispose(&s->domains);
    free(s->text.data);
    free(s);
    return NULL;
}
