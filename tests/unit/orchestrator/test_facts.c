/* SPDX-License-Identifier: Apache-2.0 */
/* What a host says of itself: captured trees of real machines, held against what lscpu said there,
 * and libvirt's test driver. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/proc.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/facts.h"
#include "orchestrator/host/host.h"
#include "orchestrator/host/vir_loop.h"
#include "tests/unit/cases.h"
#include "tests/unit/orchestrator/tree.h"

struct fixture {
    struct tree tree;
    struct host_facts facts;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    tree_make(&f->tree);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    tree_dispose(&f->tree);
    free(f);
    return 0;
}

static void assert_fact(const struct fixture *f, const char *name, const char *value)
{
    const char *found = host_facts_find(&f->facts, name);

    if (!found || strcmp(found, value) != 0)
        fail_msg("%s: '%s', not '%s'", name, found ? found : "nothing", value);
}

static void assert_lacks(const struct fixture *f, const char *name, const char *why)
{
    const char *found = host_facts_find(&f->facts, name);

    if (!found || strncmp(found, "not available, because ", 23) != 0 || !strstr(found, why))
        fail_msg("%s: '%s'", name, found ? found : "nothing");
}

/* A machine that util-linux keeps for its lscpu: sysfs and cpuinfo. False: no such input here. */
static bool unpack(struct fixture *f, const char *machine)
{
    char archive[512], name[128], only[5][192];
    struct vt_error err = VT_ERROR_INIT;

    snprintf(name, sizeof(name), "topology/lscpu-dumps/%s.tar.gz", machine);
    if (!cases_path(archive, sizeof(archive), name))
        return false;
    snprintf(only[0], sizeof(only[0]), "%s/proc/cpuinfo", machine);
    snprintf(only[1], sizeof(only[1]), "%s/sys/devices/system/node", machine);
    snprintf(only[2], sizeof(only[2]), "%s/sys/devices/system/cpu/cpu0", machine);
    snprintf(only[3], sizeof(only[3]), "%s/sys/devices/system/cpu/vulnerabilities", machine);
    snprintf(only[4], sizeof(only[4]), "%s/sys/devices/system/cpu/cpufreq", machine);
    const char *const argv[] = {"tar",   "-xzf",       archive, "--strip-components=1",
                                "-C",    f->tree.root, only[0], only[1],
                                only[2], only[3],      only[4], NULL};
    if (vt_proc_run(argv, NULL, 0, &err) < 0)
        fail_msg("%s", err.text);
    return true;
}

/* numactl there: node 0 cpus 0-5 and 24-29, size 0 MB; node 1 size 64300 MB; node 3 0 MB. */
static void nodes_without_memory(void **state)
{
    struct fixture *f = *state;
    char archive[512];
    const char *const argv[] = {"tar", "-xzf",       archive, "--strip-components=1",
                                "-C",  f->tree.root, NULL};

    if (!cases_path(archive, sizeof(archive), "own/open/topology/nps4-memoryless.tree.tar.gz"))
        skip();
    assert_int_equal(vt_proc_run(argv, NULL, 0, NULL), 0);
    host_facts_add_machine(&f->facts, f->tree.root);
    assert_fact(f, "numa.nodes", "4");
    assert_fact(f, "numa.0.memory_bytes", "0");
    assert_fact(f, "numa.0.cpulist", "0-5,24-29");
    assert_fact(f, "numa.1.memory_bytes", "67423436800");
    assert_fact(f, "numa.3.memory_bytes", "0");
}

/* lscpu there: 2 sockets of 24 cores and 2 threads; L1d 1.5 MiB in 48 instances, L1i 3 MiB in 48,
 * L2 24 MiB in 48, L3 128 MiB in 16; 8 nodes. */
static void epyc_with_eight_nodes(void **state)
{
    struct fixture *f = *state;

    if (!unpack(f, "x86_64-epyc_7451"))
        skip();
    host_facts_add_machine(&f->facts, f->tree.root);
    assert_fact(f, "cpu", "AMD EPYC 7451 24-Core Processor");
    assert_fact(f, "sockets", "2");
    assert_fact(f, "cores", "24");
    assert_fact(f, "threads", "2");
    assert_fact(f, "numa.nodes", "8");
    assert_fact(f, "cache.l1d", "32K, shared by CPUs 0,48");
    assert_fact(f, "cache.l1i", "64K, shared by CPUs 0,48");
    assert_fact(f, "cache.l2", "512K, shared by CPUs 0,48");
    assert_fact(f, "cache.l3", "8192K, shared by CPUs 0-2,48-50");
    assert_fact(f, "mitigations.l1tf", "Not affected");
    assert_fact(f, "mitigations.spectre_v1", "Mitigation: __user pointer sanitization");
    assert_fact(f, "governor", "performance (1 CPU)");
}

/* lscpu there: 1 socket, 4 cores, 2 threads; L2 5 MiB in 4 instances, L3 12 MiB. */
static void laptop_with_one_node(void **state)
{
    struct fixture *f = *state;

    if (!unpack(f, "x86_64-64cpu-linux6.2"))
        skip();
    host_facts_add_machine(&f->facts, f->tree.root);
    assert_fact(f, "cpu", "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz");
    assert_fact(f, "sockets", "1");
    assert_fact(f, "cores", "4");
    assert_fact(f, "threads", "2");
    assert_fact(f, "numa.nodes", "1");
    assert_fact(f, "cache.l2", "1280K, shared by CPUs 0,4");
    assert_fact(f, "cache.l3", "12288K, shared by CPUs 0-7");
    assert_fact(f, "mitigations.retbleed", "Not affected");
}

/* Texts of a virtual machine, whose kernel was given words that are nobody's business. */
static void kernel_tells_what_tunes(void **state)
{
    struct fixture *f = *state;
    struct tree *t = &f->tree;

    tree_put(t, "/proc/sys/kernel/osrelease", "6.18.44\n");
    tree_put(t, "/proc/sys/kernel/arch", "x86_64\n");
    tree_put(t, "/etc/os-release",
             "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    tree_put(
        t, "/proc/cmdline",
        "mitigations=auto,no_guest_host console=ttyS0 quiet secret.token=4711 psi=1 nowatchdog "
        "isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3 isolcpusx=1 "
        "kvm_intel.nested=1 -- --listen-port 1\n");
    tree_put(t, "/proc/meminfo", "MemTotal:       24731708 kB\nMemFree: 1 kB\n");
    tree_put(t, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree_put(t, "/sys/kernel/mm/ksm/run", "1\n");
    tree_put(t, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    tree_put(t, "/sys/devices/system/cpu/smt/control", "notsupported\n");
    tree_put(t, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    tree_put(t, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
    tree_put(t, "/sys/devices/system/cpu/cpu9/cpufreq/scaling_governor", "powersave\n");
    tree_put(t, "/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  24731708 kB\n");
    tree_put(t, "/sys/devices/system/node/node3/meminfo", "Node 3 MemTotal:  0 kB\n");
    host_facts_add_machine(&f->facts, t->root);
    assert_fact(f, "kernel", "6.18.44 x86_64");
    assert_fact(f, "distribution", "Debian GNU/Linux 12 (bookworm)");
    assert_fact(f, "cmdline",
                "mitigations=auto,no_guest_host psi=1 nowatchdog isolcpus=managed_irq,domain,2-3 "
                "nohz_full=2-3 rcu_nocbs=2-3 kvm_intel.nested=1");
    assert_fact(f, "memory", "24731708 kB");
    assert_fact(f, "thp", "madvise");
    assert_fact(f, "ksm", "on");
    assert_fact(f, "clocksource", "tsc");
    assert_fact(f, "smt", "notsupported");
    assert_fact(f, "governor", "powersave (2 CPUs), performance (1 CPU)");
    assert_fact(f, "numa.nodes", "2");
    assert_fact(f, "numa.0.memory_bytes", "25325268992");
    assert_fact(f, "numa.3.memory_bytes", "0");
    assert_lacks(f, "cpu", "cpuinfo");
}

static void what_is_missing_is_said(void **state)
{
    struct fixture *f = *state;
    struct host_info info = {.driver = "QEMU", .hypervisor_version = 7002000};

    host_facts_add_machine(&f->facts, f->tree.root);
    host_facts_add_info(&f->facts, &info, true);
    assert_lacks(f, "kernel", "osrelease");
    assert_lacks(f, "cmdline", "cmdline");
    assert_lacks(f, "governor", "virtual machine");
    assert_lacks(f, "thp", "no transparent huge pages");
    assert_lacks(f, "ksm", "no KSM");
    assert_lacks(f, "mitigations", "neither");
    assert_lacks(f, "machine", "neither");
    assert_lacks(f, "libvirt", "neither");
    assert_fact(f, "qemu", "7.2.0");
    assert_fact(f, "hypervisor", "tcg");
}

/* After libvirt's schema, cut from a document of QEMU's driver on a machine with two sockets. */
static void capabilities_are_read(void **state)
{
    static const char xml[] =
        "<capabilities><host><cpu><arch>x86_64</arch><model>Skylake-Server-IBRS</model>"
        "<topology sockets='1' dies='2' cores='10' threads='2'/></cpu>"
        "<topology><cells num='2'><cell id='0'><memory unit='KiB'>65843256</memory>"
        "<cpus num='40'><cpu id='0' socket_id='0' die_id='0' core_id='0' siblings='0,40'/></cpus>"
        "</cell><cell id='4'><memory unit='KiB'>66027588</memory><cpus num='40'>"
        "<cpu id='1' socket_id='1' die_id='0' core_id='0' siblings='1,41'/></cpus></cell></cells>"
        "</topology><cache><bank id='0' level='3' type='both' size='27' unit='MiB' cpus='0-39'/>"
        "<bank id='1' level='3' type='both' size='27' unit='MiB' cpus='40-79'/></cache></host>"
        "<guest><os_type>hvm</os_type><arch name='i686'><machine "
        "canonical='no'>q35</machine></arch>"
        "</guest><guest><os_type>hvm</os_type><arch name='x86_64'>"
        "<machine maxCpus='255'>pc-i440fx-7.2</machine>"
        "<machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine></arch></guest></capabilities>";
    struct fixture *f = *state;
    struct vt_error err = VT_ERROR_INIT;

    assert_int_equal(host_facts_add_capabilities(&f->facts, xml, &err), 0);
    assert_fact(f, "cpu.model", "Skylake-Server-IBRS");
    assert_fact(f, "sockets", "2");
    assert_fact(f, "cores", "20");
    assert_fact(f, "threads", "2");
    assert_fact(f, "numa.nodes", "2");
    assert_fact(f, "numa.4.memory_bytes", "67612250112");
    assert_fact(f, "numa.4.cpus", "40");
    assert_fact(f, "cache.l3", "27648 KiB x 2");
    assert_fact(f, "machine", "pc-q35-7.2");
    assert_int_equal(host_facts_add_capabilities(&f->facts, "<capabil", &err), -EBADMSG);
    f->facts.n = 0;
    assert_int_equal(host_facts_add_capabilities(&f->facts, "<capabilities/>", &err), 0);
    assert_int_equal(f->facts.n, 0);
}

static void facts_are_bounded(void **state)
{
    struct fixture *f = *state;
    char name[24];

    for (unsigned i = 0; i < 2 * HOST_FACTS_MAX; i++) {
        snprintf(name, sizeof(name), "x.%u", i);
        host_facts_put(&f->facts, name, "%01000u", i);
    }
    assert_int_equal(f->facts.n, HOST_FACTS_MAX);
    assert_int_equal(strlen(host_facts_find(&f->facts, "x.0")), sizeof(f->facts.all[0].value) - 1);
}

struct asking {
    struct fixture *f;
    int code;
};

static void on_facts(struct host *host, void *ctx, const struct host_reply *reply)
{
    struct asking *asking = ctx;

    asking->code = reply->code;
    if (reply->code == 0)
        asking->f->facts = *reply->facts;
    host_close(host, NULL, NULL);
}

static void on_opened(struct host *host, void *ctx, const struct host_reply *reply)
{
    assert_int_equal(reply->code, 0);
    assert_int_equal(host_ask_facts(host, on_facts, ctx, NULL), 0);
}

/* `virsh -c test:///default capabilities`: two cells of 2 and 4 GiB, sockets 0 and 1, 8 CPUs each.
 */
static void another_machines_host_tells_by_libvirt_alone(void **state)
{
    struct host_settings settings = {.uri = "test:///default"};
    struct asking asking = {.f = *state, .code = -1};
    struct vt_loop loop;
    struct host *host;

    assert_int_equal(vt_loop_init(&loop, NULL), 0);
    assert_int_equal(vir_loop_init(&loop, NULL), 0);
    assert_int_equal(host_open(&loop, &settings, on_opened, &asking, &host, NULL), 0);
    uv_run(&loop.uv, UV_RUN_DEFAULT);
    vir_loop_dispose();
    vt_loop_dispose(&loop);
    assert_int_equal(asking.code, 0);
    assert_fact(asking.f, "sockets", "2");
    assert_fact(asking.f, "numa.nodes", "2");
    assert_fact(asking.f, "numa.0.memory_bytes", "2147483648");
    assert_fact(asking.f, "numa.1.memory_bytes", "4294967296");
    assert_fact(asking.f, "numa.1.cpus", "8");
    assert_fact(asking.f, "hypervisor", "test");
    assert_lacks(asking.f, "kernel", "not this machine");
    assert_lacks(asking.f, "governor", "not this machine");
    assert_lacks(asking.f, "qemu", "another");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(epyc_with_eight_nodes),   T(laptop_with_one_node),
        T(nodes_without_memory),    T(kernel_tells_what_tunes),
        T(what_is_missing_is_said), T(capabilities_are_read),
        T(facts_are_bounded),       T(another_machines_host_tells_by_libvirt_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
