/* SPDX-License-Identifier: Apache-2.0 */
/* This machine's own word on itself: /proc, /sys, /etc. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cmdline.h"
#include "base/domain.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/facts.h"

#define FILE_MAX (1U << 20)
#define CPUS_MAX 1024
#define CACHES_MAX 16
#define GOVERNORS_MAX 8
#define CPU_FOLDER "/sys/devices/system/cpu"
#define NODE_FOLDER "/sys/devices/system/node"

/* --- files --- */

/* At most FILE_MAX of a file, which is the caller's; NULL: there is none, or it is empty. */
static char *read_all(const char *root, const char *path)
{
    char full[2 * VT_PATH_MAX];
    VT_AUTO_FREE char *text = NULL;
    size_t len = 0, cap = 4096;

    snprintf(full, sizeof(full), "%s%s", root, path);
    VT_AUTO_CLOSE int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    for (;;) {
        char *grown = realloc(text, cap);
        ssize_t n;

        if (!grown)
            return NULL;
        text = grown;
        n = read(fd, text + len, cap - 1 - len);
        if (n < 0)
            return NULL; /* governor files of some drivers are there and cannot be read */
        len += (size_t)n;
        if (n == 0 || cap == FILE_MAX)
            break;
        if (len == cap - 1)
            cap *= 2;
    }
    text[len] = '\0';
    return len > 0 ? vt_take_ptr(text) : NULL;
}

/* The first line, without its end. */
static bool read_line(const char *root, const char *path, char *line, size_t size)
{
    VT_AUTO_FREE char *text = read_all(root, path);

    if (!text)
        return false;
    text[strcspn(text, "\n")] = '\0';
    vt_text_copy(line, size, text);
    return line[0] != '\0';
}

/* What follows word in the line that begins with it, without separators and quotes. */
static bool find_line(const char *text, const char *word, char *value, size_t size)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        size_t len;

        line += *line == '\n';
        if (strncmp(line, word, strlen(word)) != 0)
            continue;
        line += strlen(word);
        line += strspn(line, " \t:=\"");
        len = strcspn(line, "\"\n");
        snprintf(value, size, "%.*s", (int)(len < size ? len : size - 1), line);
        return value[0] != '\0';
    }
    return false;
}

static void put_file(struct host_facts *facts, const char *root, const char *name, const char *path,
                     const char *why)
{
    char line[400];

    if (read_line(root, path, line, sizeof(line)))
        host_facts_put(facts, name, "%s", line);
    else
        host_facts_lack(facts, name, why);
}

static void put_found(struct host_facts *facts, const char *root, const char *name,
                      const char *path, const char *word)
{
    VT_AUTO_FREE char *text = read_all(root, path);
    char value[400], why[128];

    snprintf(why, sizeof(why), "%s does not tell it", path);
    if (text && find_line(text, word, value, sizeof(value)))
        host_facts_put(facts, name, "%s", value);
    else
        host_facts_lack(facts, name, why);
}

/* "always [madvise] never" -> "madvise". */
static void put_chosen(struct host_facts *facts, const char *root, const char *name,
                       const char *path, const char *why)
{
    char line[256], *from;

    if (!read_line(root, path, line, sizeof(line)) || !(from = strchr(line, '['))) {
        host_facts_lack(facts, name, why);
        return;
    }
    from[strcspn(from, "]")] = '\0';
    host_facts_put(facts, name, "%s", from + 1);
}

/* --- the kernel --- */

static void put_cmdline(struct host_facts *facts, const char *root)
{
    VT_AUTO_FREE char *text = read_all(root, "/proc/cmdline");
    char told[480];

    if (!text) {
        host_facts_lack(facts, "cmdline", "/proc/cmdline cannot be read");
        return;
    }
    vt_cmdline_told(text, told, sizeof(told));
    host_facts_put(facts, "cmdline", "%s", told);
}

static void put_kernel(struct host_facts *facts, const char *root)
{
    char release[256], text[512];

    if (read_line(root, "/proc/sys/kernel/osrelease", release, sizeof(release))) {
        char machine[64] = "";

        /* Since Linux 6.1. */
        read_line(root, "/proc/sys/kernel/arch", machine, sizeof(machine));
        snprintf(text, sizeof(text), "%s%s%s", release, machine[0] ? " " : "", machine);
        host_facts_put(facts, "kernel", "%s", text);
    } else {
        host_facts_lack(facts, "kernel", "/proc/sys/kernel/osrelease cannot be read");
    }
    put_found(facts, root, "distribution", "/etc/os-release", "PRETTY_NAME=");
    put_cmdline(facts, root);
    put_chosen(facts, root, "thp", "/sys/kernel/mm/transparent_hugepage/enabled",
               "the kernel has no transparent huge pages");
    if (!read_line(root, "/sys/kernel/mm/ksm/run", text, sizeof(text)))
        host_facts_lack(facts, "ksm", "the kernel has no KSM");
    else
        host_facts_put(facts, "ksm", "%s", !strcmp(text, "1") ? "on" : "off");
    put_file(facts, root, "clocksource",
             "/sys/devices/system/clocksource/clocksource0/current_clocksource",
             "the kernel does not tell it");
}

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void put_mitigations(struct host_facts *facts, const char *root)
{
    char path[2 * VT_PATH_MAX], name[48];
    struct dirent **entries = NULL;
    int n;

    snprintf(path, sizeof(path), "%s" CPU_FOLDER "/vulnerabilities", root);
    n = scandir(path, &entries, is_entry, alphasort);
    for (int i = 0; i < n; i++) {
        const char *of = entries[i]->d_name;

        if (snprintf(name, sizeof(name), "mitigations.%s", of) < (int)sizeof(name)) {
            snprintf(path, sizeof(path), CPU_FOLDER "/vulnerabilities/%s", of);
            put_file(facts, root, name, path, "it cannot be read");
        }
        free(entries[i]);
    }
    free(entries);
}

/* --- CPUs and memory --- */

struct governors {
    char name[32];
    unsigned cpus;
};

static void count_governor(struct governors *all, unsigned *n, const char *name)
{
    unsigned i = 0;

    while (i < *n && strcmp(all[i].name, name) != 0)
        i++;
    if (i == GOVERNORS_MAX)
        return;
    if (i == *n) {
        vt_text_copy(all[i].name, sizeof(all[i].name), name);
        all[(*n)++].cpus = 0;
    }
    all[i].cpus++;
}

static void put_governor(struct host_facts *facts, const char *root)
{
    struct governors all[GOVERNORS_MAX];
    char path[128], name[32], text[GOVERNORS_MAX * 48] = "";
    unsigned n = 0;
    size_t len = 0;

    for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++) {
        snprintf(path, sizeof(path), CPU_FOLDER "/cpu%u/cpufreq/scaling_governor", cpu);
        if (read_line(root, path, name, sizeof(name)))
            count_governor(all, &n, name);
    }
    for (unsigned i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s (%u CPU%s)", i ? ", " : "",
                                all[i].name, all[i].cpus, all[i].cpus == 1 ? "" : "s");
    if (n > 0)
        host_facts_put(facts, "governor", "%s", text);
    else
        host_facts_lack(facts, "governor",
                        "the kernel sets no frequency here (no driver, or a virtual machine)");
}

/* The caches of the first CPU, each as "48 KiB, shared by CPUs 0-1". */
static void put_caches(struct host_facts *facts, const char *root)
{
    for (unsigned i = 0; i < CACHES_MAX; i++) {
        char path[160], level[8], type[24], size[24], cpus[128] = "?", name[48];
        struct {
            const char *file;
            char *text;
            size_t room;
        } files[] = {{"level", level, sizeof(level)},
                     {"type", type, sizeof(type)},
                     {"size", size, sizeof(size)},
                     {"shared_cpu_list", cpus, sizeof(cpus)}};
        bool all = true;

        for (size_t f = 0; f < VT_COUNT(files); f++) {
            snprintf(path, sizeof(path), CPU_FOLDER "/cpu0/cache/index%u/%s", i, files[f].file);
            all &= read_line(root, path, files[f].text, files[f].room) || f == 3;
        }
        if (!all)
            continue;
        snprintf(name, sizeof(name), "cache.l%s%s", level,
                 !strcmp(type, "Data")          ? "d"
                 : !strcmp(type, "Instruction") ? "i"
                                                : "");
        host_facts_put(facts, name, "%s, shared by CPUs %s", size, cpus);
    }
}

/* Where libvirt does not tell: counted from the kernel's ids. */
static void put_topology(struct host_facts *facts, const char *root)
{
    VT_AUTO_FREE char *text = read_all(root, "/proc/cpuinfo");
    char value[64];
    unsigned long siblings = 0, cores = 0, package = 0, packages = 0;

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, "physical id", 11)) {
            package = strtoul(line + 11 + strspn(line + 11, " \t:"), NULL, 10);
            if (package < CPUS_MAX && package + 1 > packages)
                packages = package + 1;
        }
    }
    if (text && find_line(text, "siblings", value, sizeof(value)))
        siblings = strtoul(value, NULL, 10);
    if (text && find_line(text, "cpu cores", value, sizeof(value)))
        cores = strtoul(value, NULL, 10);
    if (packages > 0)
        host_facts_put(facts, "sockets", "%lu", packages);
    if (cores > 0)
        host_facts_put(facts, "cores", "%lu", cores);
    if (cores > 0 && siblings >= cores)
        host_facts_put(facts, "threads", "%lu", siblings / cores);
}

static void put_nodes(struct host_facts *facts, const char *root)
{
    unsigned n = 0;

    for (unsigned node = 0; node < HOST_FACT_NODES_MAX; node++) {
        char path[128], full[2 * VT_PATH_MAX], name[48], cpus[256];
        VT_AUTO_FREE char *text = NULL;
        const char *total;

        snprintf(full, sizeof(full), "%s" NODE_FOLDER "/node%u", root, node);
        if (access(full, F_OK) < 0)
            continue;
        n++;
        snprintf(path, sizeof(path), NODE_FOLDER "/node%u/cpulist", node);
        snprintf(name, sizeof(name), "numa.%u.cpulist", node);
        if (read_line(root, path, cpus, sizeof(cpus))) /* empty where it has memory alone */
            host_facts_put(facts, name, "%s", cpus);
        snprintf(path, sizeof(path), NODE_FOLDER "/node%u/meminfo", node);
        snprintf(name, sizeof(name), "numa.%u.memory_bytes", node);
        text = read_all(root, path);
        total = text ? strstr(text, "MemTotal:") : NULL;
        if (total)
            host_facts_put(facts, name, "%llu",
                           strtoull(total + strlen("MemTotal:"), NULL, 10) * 1024);
    }
    if (n > 0)
        host_facts_put(facts, "numa.nodes", "%u", n);
}

void host_facts_add_machine(struct host_facts *facts, const char *root)
{
    put_kernel(facts, root);
    put_found(facts, root, "cpu", "/proc/cpuinfo", "model name");
    put_found(facts, root, "memory", "/proc/meminfo", "MemTotal");
    put_topology(facts, root);
    put_nodes(facts, root);
    put_caches(facts, root);
    put_governor(facts, root);
    put_file(facts, root, "smt", CPU_FOLDER "/smt/control", "the kernel does not tell it");
    put_mitigations(facts, root);
}
