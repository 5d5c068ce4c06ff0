/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cmdline.h"
#include "base/scope.h"

static void put(json_t *facts, const char *name, const char *text)
{
    json_t *value = json_string(text); /* NULL where it is not UTF-8 */
    if (value)
        json_object_set_new(facts, name, value);
}

/* The first line of a file that begins with prefix, without it and the blanks that follow. */
static void put_line(json_t *facts, const char *name, const char *path, const char *prefix)
{
    VT_AUTO_FCLOSE FILE *in = fopen(path, "re");
    char line[1024];
    while (in && fgets(line, sizeof line, in)) {
        if (strncmp(line, prefix, strlen(prefix)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        char *value = line + strlen(prefix);
        put(facts, name, value + strspn(value, " \t:"));
        return;
    }
}

static void put_cmdline(json_t *facts)
{
    VT_AUTO_FCLOSE FILE *in = fopen("/proc/cmdline", "re");
    char line[4096], told[480];
    if (!in || !fgets(line, sizeof line, in))
        return;
    vt_cmdline_told(line, told, sizeof told);
    put(facts, "cmdline", told);
}

json_t *facts_of_machine(void)
{
    json_t *facts = json_object();
    struct utsname name;
    char text[256];
    if (!facts)
        return NULL;
    put(facts, "agent", VTILE_VERSION);
    if (uname(&name) == 0) {
        snprintf(text, sizeof text, "%.80s %.100s", name.release, name.machine);
        put(facts, "kernel", text);
    }
    snprintf(text, sizeof text, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    put(facts, "cpus", text);
    /* By this, a server's wall-clock stamps are held against the schedule. */
    snprintf(text, sizeof text, "%lld", (long long)(vt_clock_wall_ns() - vt_clock_now_ns()));
    put(facts, "wall_offset_ns", text);
    put_cmdline(facts);
    put_line(facts, "cpu", "/proc/cpuinfo", "model name");
    put_line(facts, "memory", "/proc/meminfo", "MemTotal");
    put_line(facts, "clocksource",
             "/sys/devices/system/clocksource/clocksource0/current_clocksource", "");
    put_line(facts, "spectre_v2", "/sys/devices/system/cpu/vulnerabilities/spectre_v2", "");
    return facts;
}
