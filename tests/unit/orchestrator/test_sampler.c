/* SPDX-License-Identifier: Apache-2.0 */
/* The host's samples, on trees of /proc and /sys whose texts were taken from a machine with two
 * CPUs that ran emulated guests. Expected values are differences of those numbers. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/sampler.h"
#include "tests/unit/orchestrator/tree.h"

#define UUID "6b7f4c1e-9a52-4d0e-8f3b-00000a521a7d"
#define SAMPLES_MAX 20000

struct got {
    char series[64];
    const void *domain;
    double value;
    char why[128];
};
struct fixture {
    struct tree tree;
    struct host_sampler *sampler;
    struct got *all;
    unsigned n;
    int64_t now_ns;
    char domain; /* its address stands for a domain */
};

static void put(struct fixture *f, const char *path, const char *text)
{
    tree_put(&f->tree, path, text);
}

static void put_machine(struct fixture *f)
{
    put(f, "/proc/stat",
        "cpu  1257224 394609 224505 580440 2207 0 3657 5378 1 0\n"
        "cpu0 627909 198743 111653 290403 1279 0 1493 2610 1 0\n"
        "cpu1 629315 195866 112852 290036 928 0 2163 2767 0 0\n"
        "intr 12505463 0 0 0 0\nctxt 17354467\nbtime 1796035555\nprocesses 74303\n");
    put(f, "/proc/meminfo",
        "MemTotal:       24731708 kB\nMemFree:        16525048 kB\nMemAvailable:   23547236 kB\n"
        "Buffers:          350936 kB\nCached:          6577352 kB\nSwapCached:            0 kB\n");
    put(f, "/proc/vmstat", "nr_free_pages 4131262\npswpin 10\npswpout 20\nallocstall_dma 0\n");
    put(f, "/sys/kernel/mm/ksm/pages_sharing", "1234\n");
    put(f, "/proc/pressure/cpu",
        "some avg10=40.23 avg60=59.79 avg300=36.45 total=5989334223\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    put(f, "/proc/pressure/io",
        "some avg10=0.06 avg60=0.11 avg300=0.06 total=65035206\n"
        "full avg10=0.00 avg60=0.02 avg300=0.00 total=12494106\n");
}

static void put_thread(struct fixture *f, int pid, int tid, const char *comm, const char *schedstat)
{
    char path[128];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
    put(f, path, comm);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
    put(f, path, schedstat);
}

static void put_qemu(struct fixture *f, int pid)
{
    char path[128], text[256];

    snprintf(text, sizeof(text), "%d", pid); /* libvirt writes no end of line */
    put(f, "/run/qemu/vt-web.pid", text);
    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    put(f, path, "/usr/bin/qemu-system-x86_64 -name guest=vt-web,debug-threads=on -uuid " UUID);
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    snprintf(text, sizeof(text),
             "%d (qemu) (x) S 1 22636 22636 0 -1 138412416 15993 0 0 0 706 45 0 0 20 0 4 0", pid);
    put(f, path, text);
    put_thread(f, pid, pid, "qemu-system-x86\n", "369896250 6756411081 15799\n");
    put_thread(f, pid, pid + 2, "qemu-system-x86\n", "23695402 227835004 198\n");
    put_thread(f, pid, pid + 3, "IO mon_iothread\n", "135073234 18860144 1094\n");
    put_thread(f, pid, pid + 4, "CPU 0/TCG\n", "6989899061 6513433280 14898\n");
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->all = calloc(SAMPLES_MAX, sizeof(*f->all));
    assert_non_null(f->all);
    f->now_ns = 1000 * VT_NS_PER_S;
    tree_make(&f->tree);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    f->sampler = host_sampler_free(f->sampler);
    tree_dispose(&f->tree);
    free(f->all);
    free(f);
    return 0;
}

static void start(struct fixture *f, bool emulated, bool with_domain)
{
    const struct host_sampler_settings settings = {f->tree.root, "/run/qemu", emulated};

    assert_int_equal(host_sampler_new(&settings, &f->sampler, NULL), 0);
    if (with_domain)
        assert_int_equal(host_sampler_add(f->sampler, &f->domain, "vt-web", UUID, NULL), 0);
}

static void on_sample(void *ctx, const struct host_sample *sample)
{
    struct fixture *f = ctx;
    struct got *got = &f->all[f->n++];

    assert_true(f->n <= SAMPLES_MAX);
    vt_text_copy(got->series, sizeof(got->series), sample->series);
    vt_text_copy(got->why, sizeof(got->why), sample->why ? sample->why : "");
    got->domain = sample->domain;
    got->value = sample->value;
    assert_true(isnan(sample->value) == (sample->why != NULL));
    for (unsigned i = 0; i + 1 < f->n; i++)
        if (f->all[i].domain == got->domain && !strcmp(f->all[i].series, got->series))
            fail_msg("%s comes twice", got->series);
}

/* One call, so many seconds after the last. */
static void take(struct fixture *f, int64_t seconds, bool tell)
{
    f->n = 0;
    f->now_ns += seconds * VT_NS_PER_S;
    host_sampler_take(f->sampler, f->now_ns, tell, on_sample, f);
}

static const struct got *find(const struct fixture *f, const char *series)
{
    for (unsigned i = 0; i < f->n; i++)
        if (!strcmp(f->all[i].series, series))
            return &f->all[i];
    return NULL;
}

static void assert_value(const struct fixture *f, const char *series, double expected)
{
    const struct got *got = find(f, series);

    if (!got) {
        fail_msg("no %s", series);
        return;
    }
    if (fabs(got->value - expected) > 1e-9 * fmax(1, fabs(expected)))
        fail_msg("%s is %.9f, not %.9f", series, got->value, expected);
}

static void assert_lacks(const struct fixture *f, const char *series, const char *why)
{
    const struct got *got = find(f, series);

    if (!got || !isnan(got->value) || !strstr(got->why, why))
        fail_msg("%s: %s", series, got ? got->why : "nothing is said");
}

static void rates_are_differences(void **state)
{
    struct fixture *f = *state;
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);

    put_machine(f);
    start(f, false, false);
    take(f, 0, true);
    assert_null(find(f, "cpu.user"));
    assert_value(f, "mem.available_bytes", 23547236.0 * 1024);
    assert_value(f, "mem.cached_bytes", 6577352.0 * 1024);
    assert_value(f, "ksm.pages_sharing", 1234);
    assert_lacks(f, "psi.memory.some", "pressure");

    put(f, "/proc/stat",
        "cpu  1257274 394619 224605 580440 2200 5 3677 5408 41 2\n"
        "cpu0 627959 198743 111653 290403 1279 0 1493 2610 41 0\n"
        "cpu1 629315 195876 112952 290036 921 5 2183 2797 0 2\nintr 12505463 0 0 0 0\n");
    put(f, "/proc/vmstat", "pswpin 12\npswpout 120\n");
    put(f, "/proc/pressure/cpu", "some avg10=40.23 avg60=59.79 avg300=36.45 total=5990334223\n");
    take(f, 2, false);
    assert_value(f, "cpu.user", 60 * tick / 2); /* with nice */
    assert_value(f, "cpu.system", 125 * tick / 2);
    assert_value(f, "cpu.irq", 25 * tick / 2);
    assert_value(f, "cpu.idle", 0);
    assert_value(f, "cpu.iowait", 0); /* a step back is none */
    assert_value(f, "cpu.steal", 30 * tick / 2);
    assert_value(f, "cpu.guest", 42 * tick / 2);
    assert_value(f, "cpu.0.user", 50 * tick / 2);
    assert_value(f, "cpu.1.user", 10 * tick / 2);
    assert_value(f, "cpu.1.steal", 30 * tick / 2);
    assert_value(f, "swap.in_bytes_s", 2.0 * (double)sysconf(_SC_PAGESIZE) / 2);
    assert_value(f, "swap.out_bytes_s", 100.0 * (double)sysconf(_SC_PAGESIZE) / 2);
    assert_value(f, "psi.cpu.some", 0.5);
    assert_value(f, "psi.io.full", 0);
    assert_null(find(f, "psi.memory.some")); /* told once is enough */
}

static void threads_are_found_by_their_names(void **state)
{
    struct fixture *f = *state;

    put_machine(f);
    put_qemu(f, 22637);
    put_thread(f, 22637, 22650, "vhost-22637\n", "1000 2000 3\n");
    put_thread(f, 22637, 22651, "vhost-22637\n", "1000 2000 3\n");
    put_thread(f, 22637, 22652, "CPU 11/KVM\n", "0 0 0\n");
    start(f, false, true);
    take(f, 0, true);
    assert_null(find(f, "vcpu.0.cpu"));
    put_thread(f, 22637, 22637, "qemu-system-x86\n", "469896250 6856411081 15799\n");
    put_thread(f, 22637, 22641, "CPU 0/TCG\n", "7489899061 6763433280 14898\n");
    put_thread(f, 22637, 22650, "vhost-22637\n", "1000 500002000 3\n");
    put_thread(f, 22637, 22651, "vhost-22637\n", "250001000 2000 3\n");
    put(f, "/proc/22637/stat", "22637 (qemu) (x) S 1 22636 22636 0 -1 1 1 0 0 0 791 60 0 0 20");
    take(f, 1, true);
    assert_ptr_equal(find(f, "vcpu.0.cpu")->domain, &f->domain);
    assert_value(f, "vcpu.0.cpu", 0.5);
    assert_value(f, "vcpu.0.run_delay", 0.25);
    assert_value(f, "vcpu.11.cpu", 0);
    assert_value(f, "vhost.0.run_delay", 0.5);
    assert_value(f, "vhost.1.cpu", 0.25);
    assert_value(f, "emulator.run_delay", 0.1);
    /* 100 ticks of the process, of which vCPU and vhost had 0.75 s. */
    assert_value(f, "emulator.cpu", 100.0 / (double)sysconf(_SC_CLK_TCK) - 0.75);
    assert_null(find(f, "emulator.0.cpu"));
}

/* Before Linux 6.4: a kernel thread beside QEMU, whose time is not QEMU's. */
static void old_vhost_threads_are_the_kernels(void **state)
{
    struct fixture *f = *state;

    put_machine(f);
    put_qemu(f, 22637);
    put_thread(f, 700, 700, "vhost-22637\n", "0 0 0\n");
    put_thread(f, 701, 701, "vhost-99\n", "0 0 0\n");
    start(f, false, true);
    take(f, 0, true);
    put_thread(f, 700, 700, "vhost-22637\n", "600000000 100000000 1\n");
    put(f, "/proc/22637/stat", "22637 (qemu) S 1 22636 22636 0 -1 1 1 0 0 0 706 55 0 0 20");
    take(f, 1, false);
    assert_value(f, "vhost.0.cpu", 0.6);
    assert_value(f, "vhost.0.run_delay", 0.1);
    assert_null(find(f, "vhost.1.cpu"));
    assert_value(f, "emulator.cpu", 10.0 / (double)sysconf(_SC_CLK_TCK));
}

static void what_emulation_lacks_is_said(void **state)
{
    struct fixture *f = *state;

    put_machine(f);
    put_qemu(f, 22637);
    start(f, true, true);
    take(f, 0, true);
    assert_lacks(f, "cpu.guest", "emulated");
    assert_lacks(f, "cpu.1.guest", "emulated");
    assert_lacks(f, "vhost.0.run_delay", "emulated");
    take(f, 1, false);
    assert_null(find(f, "cpu.guest"));
    assert_value(f, "vcpu.0.run_delay", 0);
}

static void the_vanished_are_no_error(void **state)
{
    struct fixture *f = *state;

    put_machine(f);
    start(f, true, true);
    take(f, 0, true);
    assert_lacks(f, "emulator.cpu", "pid file");
    put_qemu(f, 22637);
    for (int i = 0; i < 6 && !find(f, "vcpu.0.run_delay"); i++)
        take(f, 1, false);
    assert_value(f, "vcpu.0.run_delay", 0);

    /* A thread ends: an empty read stands for ESRCH. Then the process, then another comes. */
    put_thread(f, 22637, 22641, "CPU 0/TCG\n", "");
    take(f, 1, true);
    assert_lacks(f, "vcpu.0.run_delay", "ended");
    assert_value(f, "emulator.cpu", 0);
    put(f, "/proc/22637/stat", "");
    tree_remove(&f->tree, "/proc/22637");
    take(f, 1, true);
    assert_lacks(f, "emulator.cpu", "ended");
    put_qemu(f, 30000);
    f->n = 0;
    for (int i = 0; i < 11 && !find(f, "vcpu.0.cpu"); i++)
        take(f, 1, false);
    assert_value(f, "vcpu.0.cpu", 0);
}

/* The pid file of a dead QEMU names a process that has nothing to do with it. */
static void a_stale_pid_file_is_not_believed(void **state)
{
    struct fixture *f = *state;

    put_machine(f);
    put_qemu(f, 22637);
    put(f, "/proc/22637/cmdline", "/usr/sbin/sshd -D -uuid 6b7f4c1e-9a52-4d0e-8f3b-00000a521a7e");
    start(f, true, true);
    take(f, 0, true);
    take(f, 1, true);
    assert_lacks(f, "emulator.cpu", "ended");
    assert_null(find(f, "vcpu.0.cpu"));
    put(f, "/run/qemu/vt-web.pid", "-1\n");
    for (int i = 0; i < 6; i++)
        take(f, 1, true);
    assert_lacks(f, "emulator.cpu", "pid file");
}

static void a_machine_that_tells_nothing(void **state)
{
    struct fixture *f = *state;

    start(f, false, true);
    take(f, 0, true);
    take(f, 1, true);
    assert_lacks(f, "cpu.user", "cannot be read");
    assert_lacks(f, "mem.available_bytes", "does not tell");
    assert_lacks(f, "swap.in_bytes_s", "does not count");
    assert_lacks(f, "ksm.pages_sharing", "no KSM");
    assert_lacks(f, "psi.cpu.some", "pressure");
    take(f, 1, false);
    assert_int_equal(f->n, 0);
}

/* 1,024 CPUs and files of 1 MiB; what is beyond is left out. */
static void bounds_hold(void **state)
{
    struct fixture *f = *state;
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(4U << 20);

    put_machine(f);
    vt_buf_adds(&text, "cpu  1 2 3 4 5 6 7 8 9 10\n");
    for (unsigned i = 0; i < 1100; i++)
        vt_buf_printf(&text, "cpu%u 1 2 3 4 5 6 7 8 9 10\n", i);
    vt_buf_adds(&text, "intr");
    while (text.len < 2U << 20)
        vt_buf_adds(&text, " 18446744073709551615");
    put(f, "/proc/stat", text.data);
    start(f, false, false);
    take(f, 0, false);
    take(f, 1, false);
    assert_value(f, "cpu.user", 0);
    assert_value(f, "cpu.1023.steal", 0);
    assert_null(find(f, "cpu.1024.steal"));
    for (int i = 0; i < HOST_SAMPLER_DOMAINS_MAX; i++)
        assert_int_equal(host_sampler_add(f->sampler, NULL, "vt-x", UUID, NULL), 0);
    assert_int_equal(host_sampler_add(f->sampler, NULL, "vt-x", UUID, NULL), -E2BIG);
}

/* Where descriptors are scarce files are opened each time; the numbers are the same. */
static void few_descriptors_are_enough(void **state)
{
    struct fixture *f = *state;
    struct rlimit before, few;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 3; /* a quarter of it: none */
    put_machine(f);
    put_qemu(f, 22637);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct host_sampler_settings settings = {f->tree.root, "/run/qemu", true};
    int code = host_sampler_new(&settings, &f->sampler, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(code, 0);
    assert_int_equal(host_sampler_add(f->sampler, &f->domain, "vt-web", UUID, NULL), 0);
    take(f, 0, false);
    put_thread(f, 22637, 22641, "CPU 0/TCG\n", "7989899061 6763433280 14898\n");
    take(f, 1, false);
    assert_value(f, "vcpu.0.cpu", 1);
    assert_value(f, "vcpu.0.run_delay", 0.25);
    tree_remove(&f->tree, "/proc/22637");
    take(f, 1, true);
    assert_lacks(f, "emulator.cpu", "ended");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(rates_are_differences),
        T(threads_are_found_by_their_names),
        T(old_vhost_threads_are_the_kernels),
        T(what_emulation_lacks_is_said),
        T(the_vanished_are_no_error),
        T(a_stale_pid_file_is_not_believed),
        T(a_machine_that_tells_nothing),
        T(bounds_hold),
        T(few_descriptors_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
