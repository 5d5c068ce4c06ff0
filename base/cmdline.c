/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cmdline.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"

#define BLANKS " \t\n"

static bool is_told(const char *parameter, size_t whole)
{
    static const char *const told[] = {"isolcpus",
                                       "nohz",
                                       "nohz_full",
                                       "rcu_nocbs",
                                       "rcu_nocb_poll",
                                       "irqaffinity",
                                       "mitigations",
                                       "nosmt",
                                       "maxcpus",
                                       "nr_cpus",
                                       "hugepages",
                                       "hugepagesz",
                                       "default_hugepagesz",
                                       "transparent_hugepage",
                                       "numa",
                                       "numa_balancing",
                                       "intel_iommu",
                                       "amd_iommu",
                                       "iommu",
                                       "idle",
                                       "processor.max_cstate",
                                       "intel_idle.max_cstate",
                                       "intel_pstate",
                                       "amd_pstate",
                                       "cpufreq.default_governor",
                                       "cpuidle.off",
                                       "preempt",
                                       "threadirqs",
                                       "skew_tick",
                                       "tsc",
                                       "clocksource",
                                       "nowatchdog",
                                       "nmi_watchdog",
                                       "workqueue.unbound_cpus",
                                       "rdt",
                                       "psi",
                                       "spectre_v2",
                                       "nospectre_v1",
                                       "nospectre_v2",
                                       "spec_store_bypass_disable",
                                       "l1tf",
                                       "mds",
                                       "nopti",
                                       "pti",
                                       "retbleed",
                                       "kvm.halt_poll_ns",
                                       "mem",
                                       "kernelcore",
                                       "movablecore"};
    const char *equals = memchr(parameter, '=', whole);
    size_t len = equals ? (size_t)(equals - parameter) : whole;

    if (!strncmp(parameter, "kvm_intel.", 10) || !strncmp(parameter, "kvm_amd.", 8))
        return true;
    for (size_t i = 0; i < VT_COUNT(told); i++)
        if (strlen(told[i]) == len && !strncmp(told[i], parameter, len))
            return true;
    return false;
}

void vt_cmdline_told(const char *cmdline, char *ret, size_t size)
{
    size_t n = 0, len;

    for (const char *word = cmdline; *(word += strspn(word, BLANKS)); word += len) {
        len = strcspn(word, BLANKS);
        if (is_told(word, len) && n < size)
            n += (size_t)snprintf(ret + n, size - n, "%s%.*s", n ? " " : "", (int)len, word);
    }
    if (n == 0)
        vt_text_copy(ret, size, "nothing that isolates or tunes");
}
