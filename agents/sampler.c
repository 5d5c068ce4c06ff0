/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/sampler.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* The files are short; of /proc/stat the first line is enough. */
#define TEXT_MAX 8192
#define SECTOR_BYTES 512 /* of /proc/diskstats, whatever the disk has */

static int open_proc(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}

void sampler_begin(struct sampler *s)
{
    sampler_end(s);
    s->stat_fd = s->machine ? open_proc("/proc/stat") : -1;
    s->memory_fd = s->machine ? open_proc("/proc/meminfo") : -1;
    s->net_fd = s->machine ? open_proc("/proc/net/dev") : -1;
    s->schedule_fd = s->process ? open_proc("/proc/self/schedstat") : -1;
    s->pressure_fd = s->machine ? open_proc("/proc/pressure/memory") : -1;
    s->vm_fd = s->machine ? open_proc("/proc/vmstat") : -1;
    s->disk_fd = s->machine ? open_proc("/proc/diskstats") : -1;
    s->last_ns = 0;
    s->begun = true;
}

void sampler_end(struct sampler *s)
{
    const int fds[] = {s->stat_fd,     s->memory_fd, s->net_fd, s->schedule_fd,
                       s->pressure_fd, s->vm_fd,     s->disk_fd};
    if (!s->begun)
        return;
    for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    s->begun = false;
}

static bool read_text(int fd, char text[TEXT_MAX])
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, TEXT_MAX - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return true;
}

struct interval {
    json_t *out;
    double seconds; /* 0: the first, without rates */
};

static void put(const struct interval *in, const char *name, double value)
{
    json_object_set_new(in->out, name, json_real(value));
}

static void put_rate(const struct interval *in, const char *name, uint64_t now, uint64_t *last,
                     double unit)
{
    if (in->seconds > 0 && now >= *last)
        put(in, name, (double)(now - *last) * unit / in->seconds);
    *last = now;
}

/* proc(5): user nice system idle iowait irq softirq steal, in ticks. */
static void take_cpu(struct sampler *s, const struct interval *in)
{
    char text[TEXT_MAX];
    unsigned long long v[8];
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    if (!read_text(s->stat_fd, text) ||
        sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
               &v[4], &v[5], &v[6], &v[7]) != 8)
        return;
    put_rate(in, "cpu.user", v[0] + v[1], &s->cpu[0], tick);
    put_rate(in, "cpu.system", v[2] + v[5] + v[6], &s->cpu[2], tick);
    put_rate(in, "cpu.idle", v[3], &s->cpu[3], tick);
    put_rate(in, "cpu.iowait", v[4], &s->cpu[4], tick);
    put_rate(in, "cpu.steal", v[7], &s->cpu[7], tick);
}

static void take_memory(struct sampler *s, const struct interval *in)
{
    char text[TEXT_MAX];
    const char *line = read_text(s->memory_fd, text) ? strstr(text, "MemAvailable:") : NULL;
    if (line)
        put(in, "mem.available_bytes",
            (double)strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024);
}

/* Documentation/accounting/psi.rst: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", in us. */
static void take_pressure(struct sampler *s, const struct interval *in)
{
    char text[TEXT_MAX];
    unsigned long long some, full;
    if (!read_text(s->pressure_fd, text) ||
        sscanf(text,
               "some avg10=%*f avg60=%*f avg300=%*f total=%llu full avg10=%*f avg60=%*f "
               "avg300=%*f total=%llu",
               &some, &full) != 2)
        return;
    put_rate(in, "mem.pressure", some, &s->pressure_us[0], 1e-6);
    put_rate(in, "mem.pressure_full", full, &s->pressure_us[1], 1e-6);
}

/* A line "name value" of text. */
static bool find_value(const char *text, const char *name, uint64_t *ret)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, len) && line[len] == ' ') {
            *ret = strtoull(line + len, NULL, 10);
            return true;
        }
    }
    return false;
}

static void take_vm(struct sampler *s, const struct interval *in)
{
    char text[TEXT_MAX];
    uint64_t kills, swapped_in, swapped_out;
    double page_bytes = (double)sysconf(_SC_PAGESIZE);
    if (!read_text(s->vm_fd, text))
        return;
    if (find_value(text, "oom_kill", &kills))
        put(in, "mem.oom_kills", (double)kills);
    if (find_value(text, "pswpin", &swapped_in) && find_value(text, "pswpout", &swapped_out)) {
        put_rate(in, "swap.in_bytes_s", swapped_in, &s->swapped[0], page_bytes);
        put_rate(in, "swap.out_bytes_s", swapped_out, &s->swapped[1], page_bytes);
    }
}

/* Documentation/admin-guide/iostats.rst. Virtio and other disks whole: their partitions and what is
 * made of them (loops, memory) would count twice. */
static void take_disks(struct sampler *s, const struct interval *in)
{
    char text[TEXT_MAX], *save, *line;
    uint64_t sum[3] = {0};
    if (!read_text(s->disk_fd, text))
        return;
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned long long read, written, busy_ms;
        char name[32];
        if (sscanf(line, " %*u %*u %31s %*u %*u %llu %*u %*u %*u %llu %*u %*u %llu", name, &read,
                   &written, &busy_ms) != 4 ||
            strlen(name) != 3 || name[1] != 'd')
            continue;
        sum[0] += read * SECTOR_BYTES;
        sum[1] += written * SECTOR_BYTES;
        sum[2] += busy_ms;
    }
    put_rate(in, "disk.read_bytes_s", sum[0], &s->disk[0], 1);
    put_rate(in, "disk.write_bytes_s", sum[1], &s->disk[1], 1);
    put_rate(in, "disk.busy", sum[2], &s->disk[2], 1e-3);
}

static void take_net(struct sampler *s, const struct interval *in)
{
    char text[TEXT_MAX], *save, *line;
    uint64_t received = 0, sent = 0;
    if (!read_text(s->net_fd, text))
        return;
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned long long rx, tx;
        char name[32];
        if (sscanf(line, " %31[^:]: %llu %*u %*u %*u %*u %*u %*u %*u %llu", name, &rx, &tx) != 3 ||
            !strcmp(name, "lo"))
            continue;
        received += rx;
        sent += tx;
    }
    put_rate(in, "net.rx_bytes_s", received, &s->received, 1);
    put_rate(in, "net.tx_bytes_s", sent, &s->sent, 1);
}

/* Documentation/scheduler/sched-stats: time on the CPU and time waiting for it, in ns. */
static void take_process(struct sampler *s, const struct interval *in)
{
    char text[TEXT_MAX];
    unsigned long long run_ns, delay_ns;
    if (!read_text(s->schedule_fd, text) || sscanf(text, "%llu %llu", &run_ns, &delay_ns) != 2)
        return;
    put_rate(in, "agent.cpu", run_ns, &s->run_ns, 1e-9);
    put_rate(in, "agent.run_delay", delay_ns, &s->delay_ns, 1e-9);
}

json_t *sampler_take(struct sampler *s, int64_t now_ns)
{
    struct interval in = {json_object(), 0};
    if (!in.out)
        return NULL;
    if (s->last_ns > 0)
        in.seconds = (double)(now_ns - s->last_ns) / (double)VT_NS_PER_S;
    s->last_ns = now_ns;
    take_cpu(s, &in);
    take_memory(s, &in);
    take_net(s, &in);
    take_pressure(s, &in);
    take_vm(s, &in);
    take_disks(s, &in);
    take_process(s, &in);
    return in.out;
}
