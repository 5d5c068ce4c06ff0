/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded host in a child process: a whole life, deaths, and clean after them. What is there
 * is looked at through /proc, /run/netns and libvirt's own files, not through our code.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include "base/journal.h"
#include "base/scope.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/undo.h"
#include "tests/unit/orchestrator/mini_run.h"
#include "tests/unit/sanitized.h"

/* Someone's own, named like ours. */
static char other_uuid[37], other_netns[40], other_domain[32];

/* One folder for all tests: libvirt asks the emulators once. */
static char folder[64] = "/tmp/vt-emb-XXXXXX";

static int set_up_all(void **state)
{
    (void)state;
    mini_init();
    snprintf(other_uuid, sizeof(other_uuid), "%.24sffffff%06x", mini_uuid,
             (unsigned)getpid() & 0xffffff);
    snprintf(other_netns, sizeof(other_netns), "%s0", mini_netns);
    snprintf(other_domain, sizeof(other_domain), "%.9s-009-web", mini_domain);
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down_all(void **state)
{
    struct undo_context context = {0};
    struct vt_journal_entry all = {
        .kind = UNDO_TREE, .object = folder, .original = "", .value = ""};

    (void)state;
    return undo_entry(&context, &all, NULL);
}

static int set_up(void **state)
{
    (void)state;
    if (mini_skip_reason()) {
        print_message("skipped: %s\n", mini_skip_reason());
        skip();
    }
    return 0;
}

static int exit_code(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void assert_nothing_left(void)
{
    char left[256];

    if (!mini_nothing_left(folder, left, sizeof(left)))
        fail_msg("left behind: %s", left);
}

/* A run that is up; the caller ends it. */
static pid_t start_and_wait(void (*when_up)(const char *uri))
{
    int fds[2];
    char word[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct mini mini = {.state = folder, .stay = true, .fd = fds[1], .when_up = when_up};
    pid_t pid = mini_start(&mini);
    close(fds[1]);
    assert_int_equal(read(fds[0], word, 2), 2);
    close(fds[0]);
    return pid;
}

static void path_below(char *path, size_t size, const char *name)
{
    assert_true(snprintf(path, size, "%s/%s", folder, name) < (int)size);
}

static bool exists(const char *name)
{
    char path[256];

    path_below(path, sizeof(path), name);
    return access(path, F_OK) == 0;
}

static void whole_run_leaves_nothing(void **state)
{
    struct mini mini = {.state = folder};
    char root[128];
    int removed;

    (void)state;
    path_below(root, sizeof(root), "embed");
    assert_true(embed_cache_is_cold(root, "/usr/bin/qemu-system-x86_64"));
    assert_int_equal(exit_code(mini_start(&mini)), 0);
    assert_nothing_left();
    assert_false(embed_cache_is_cold(root, "/usr/bin/qemu-system-x86_64"));
    assert_true(embed_cache_is_cold(root, "/bin/sh"));
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 0);
}

static void live_run_is_left_alone(void **state)
{
    pid_t pid = start_and_wait(NULL);
    char root[128];
    int removed;
    struct mini second = {.state = folder};

    (void)state;
    path_below(root, sizeof(root), "embed");
    pid_t qemu = embed_domain_pid(root, mini_domain);
    assert_true(qemu > 0);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(kill(qemu, 0), 0);
    assert_int_equal(access(mini_netns, F_OK), 0);
    assert_int_equal(exit_code(mini_start(&second)), 1); /* it says who holds the host */
    assert_int_equal(access(mini_netns, F_OK), 0);

    kill(pid, SIGKILL);
    assert_int_equal(exit_code(pid), -SIGKILL);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 4); /* domain, tap, bridge, namespace */
    assert_nothing_left();
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 0);
}

static void fail_child(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, virGetLastErrorMessage());
    _exit(1);
}

/* Someone's own things beside the run, some with names like ours. */
static void start_bystanders(const char *uri)
{
    char running[512], defined[512];
    virConnectPtr conn = virConnectOpen(uri);

    snprintf(running, sizeof(running),
             "<domain type='qemu'><name>vt-x</name><uuid>%s</uuid><memory unit='MiB'>32</memory>"
             "<os><type machine='pc'>hvm</type></os><devices><memballoon model='none'/></devices>"
             "</domain>",
             other_uuid);
    snprintf(defined, sizeof(defined),
             "<domain type='qemu'><name>%s</name><memory unit='MiB'>32</memory>"
             "<os><type machine='pc'>hvm</type></os></domain>",
             other_domain);
    if (!virDomainCreateXML(conn, running, 0) || !virDomainDefineXML(conn, defined))
        fail_child("start bystanders");
}

static void end_bystanders(const char *uri)
{
    virConnectPtr conn = virConnectOpen(uri);
    virDomainPtr running = virDomainLookupByUUIDString(conn, other_uuid);
    virDomainPtr defined = virDomainLookupByName(conn, other_domain);

    /* Both survived the clean. */
    if (!running || virDomainDestroy(running) < 0 || !defined || virDomainUndefine(defined) < 0)
        fail_child("end bystanders");
    virDomainFree(running);
    virDomainFree(defined);
    virConnectClose(conn);
}

static void clean_touches_nothing_else(void **state)
{
    struct mini later = {.state = folder, .when_up = end_bystanders};
    char root[128];
    int removed;

    (void)state;
    path_below(root, sizeof(root), "embed");
    pid_t pid = start_and_wait(start_bystanders);
    pid_t other = embed_domain_pid(root, "vt-x");
    assert_true(other > 0);
    int fd = open(other_netns, O_CREAT | O_RDONLY | O_CLOEXEC, 0444);
    assert_true(fd >= 0);
    close(fd);
    kill(pid, SIGKILL);
    exit_code(pid);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 4);
    assert_int_equal(kill(other, 0), 0);
    char path[256];
    snprintf(path, sizeof(path), "embed/etc/qemu/%s.xml", other_domain);
    assert_true(exists(path));
    assert_int_equal(access(other_netns, F_OK), 0);
    assert_int_equal(unlink(other_netns), 0);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(exit_code(mini_start(&later)), 0);
    assert_nothing_left();
}

/* Without state only the mark on the domains is left. */
static void lost_state_is_made_up_for_by_the_mark(void **state)
{
    pid_t pid = start_and_wait(NULL);
    char path[256];
    int removed;

    (void)state;
    kill(pid, SIGKILL);
    exit_code(pid);
    snprintf(path, sizeof(path), "%s/journal/%s.journal", folder, mini_run);
    assert_int_equal(unlink(path), 0);
    path_below(path, sizeof(path), "controller");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 1);
    /* The name of the namespace carries no mark: it is not clean's to remove. */
    assert_int_equal(access(mini_netns, F_OK), 0);
    assert_int_equal(umount2(mini_netns, MNT_DETACH), 0);
    assert_int_equal(unlink(mini_netns), 0);
    assert_nothing_left();
}

/* A domain of a dead run with a managed save, one with NVRAM; a user's own beside them. */
static virDomainPtr define(virConnectPtr conn, const char *name, bool marked, const char *nvram)
{
    char xml[1024], mark[256] = "", firmware[256] = "";

    if (marked)
        snprintf(mark, sizeof(mark),
                 "<metadata><v:run xmlns:v='https://vtile.dev/ns/1' run='%s' controller='c' "
                 "tile='1' role='db'/></metadata>",
                 mini_run);
    if (nvram)
        snprintf(firmware, sizeof(firmware),
                 "<loader readonly='yes' type='pflash'>/nonexistent.fd</loader><nvram>%s</nvram>",
                 nvram);
    snprintf(xml, sizeof(xml),
             "<domain type='qemu'><name>%s</name>%s<memory unit='MiB'>32</memory><os>"
             "<type machine='pc'>hvm</type>%s</os><features><acpi/></features></domain>",
             name, mark, firmware);
    virDomainPtr domain = virDomainDefineXML(conn, xml);
    if (!domain)
        fail_child(name);
    return domain;
}

static void define_awkward_domains(const char *uri)
{
    virConnectPtr conn = virConnectOpen(uri);
    char path[128];

    path_below(path, sizeof(path), "nvram.fd");
    FILE *f = fopen(path, "w");
    if (!f || fputs("variables", f) < 0 || fclose(f) != 0)
        fail_child("write");
    virDomainPtr saved = define(conn, "vt-saved", true, NULL);
    if (virDomainCreate(saved) < 0 || virDomainManagedSave(saved, 0) < 0)
        fail_child("save a domain");
    if (virDomainUndefine(saved) == 0)
        fail_child("undefined in spite of its managed save");
    define(conn, "vt-nvram", true, path);
    define(conn, "vt-x", false, NULL);
}

static void undefine_own(const char *uri)
{
    virConnectPtr conn = virConnectOpen(uri);
    virDomainPtr own = virDomainLookupByName(conn, "vt-x");

    if (!own || virDomainUndefine(own) < 0)
        fail_child("undefine");
    virDomainFree(own);
    virConnectClose(conn);
}

static void managed_save_and_nvram_do_not_stop_clean(void **state)
{
    struct mini later = {.state = folder, .when_up = undefine_own};
    int removed;

    (void)state;
    pid_t pid = start_and_wait(define_awkward_domains);
    assert_true(exists("embed/lib/qemu/save/vt-saved.save"));
    assert_true(exists("nvram.fd"));
    kill(pid, SIGKILL);
    exit_code(pid);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 6);
    assert_false(exists("embed/lib/qemu/save/vt-saved.save"));
    assert_false(exists("nvram.fd"));
    assert_false(exists("embed/etc/qemu/vt-saved.xml"));
    assert_false(exists("embed/etc/qemu/vt-nvram.xml"));
    assert_true(exists("embed/etc/qemu/vt-x.xml"));
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(exit_code(mini_start(&later)), 0);
    assert_nothing_left();
}

/* A child between fork and exec, as libvirt makes them, outlives its killed parent with the locks
 * of journal and folder. */
static void locks_of_a_dead_run_are_waited_for(void **state)
{
    struct vt_journal *journal;
    struct embed embed;
    char path[256], root[128];
    int removed;

    (void)state;
    snprintf(path, sizeof(path), "%s/journal/%s.journal", folder, mini_run);
    path_below(root, sizeof(root), "embed");
    pid_t pid = fork();
    if (pid == 0) {
        if (vt_journal_open(path, &journal, NULL) < 0 || embed_open(root, "x", &embed, NULL) < 0)
            _exit(1);
        if (fork() == 0) {
            poll(NULL, 0, 300); /* so long do the locks live */
            _exit(0);
        }
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(exit_code(pid), -SIGKILL);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_nothing_left(); /* nor the journal */
}

/* One that has closed what it inherited and has not called exec yet. */
static pid_t *orphan;

static void fork_orphan(const char *uri)
{
    (void)uri;
    *orphan = fork();
    if (*orphan == 0) {
        closefrom(0);
        pause();
        _exit(0);
    }
}

static void orphans_of_a_dead_run_are_ended(void **state)
{
    char path[64], line[512] = "";
    int removed;

    (void)state;
    orphan = mmap(NULL, sizeof(*orphan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(orphan, MAP_FAILED);
    pid_t pid = start_and_wait(fork_orphan);
    path_below(line, sizeof(line), "embed/run/qemu/vt-gone.pid");
    int fd = open(line, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "1\n", 2), 2); /* not an emulator */
    close(fd);
    path_below(line, sizeof(line), "embed/run/qemu/vt-gone.xml.new");
    fd = open(line, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    kill(pid, SIGKILL);
    exit_code(pid);
    assert_int_equal(mini_clean(folder, &removed, false), 0);
    assert_int_equal(removed, 4);
    assert_nothing_left(); /* nor that pid file */
    assert_false(exists("embed/run/qemu/vt-gone.xml.new"));
    /* gone, or dead and not yet reaped by init */
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)*orphan);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof(line), f))
        assert_non_null(strstr(line, ") Z "));
    if (f)
        fclose(f);
    munmap(orphan, sizeof(*orphan));
}

/* What is on disk when a driver is killed between its first note of a domain and the pid: as
 * libvirt 9.0 writes it. Read again, it would be a domain that can never be destroyed. */
static void half_started_domain_is_forgotten(void **state)
{
    static const char status[] =
        "<!-- generated -->\n"
        "<domstatus state='paused' reason='starting up' pid='%d'>\n"
        "<monitor path='%s/embed/lib/qemu/domain-1-%s/monitor.sock' type='unix'/>\n"
        "<job type='none' async='start' flags='0x10' asyncStarted='1796040865523'/>\n"
        "<domain type='qemu' id='1'><name>%s</name><uuid>%s</uuid>%s<memory unit='KiB'>32768"
        "</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='pc'>hvm</type></os></domain>\n"
        "</domstatus>\n";
    static const char marked[] = "<metadata><v:run xmlns:v='https://vtile.dev/ns/1' run='r' "
                                 "controller='c' tile='1' role='web'/></metadata>";
    char root[128], ours[256], others[256], folder_name[256];

    (void)state;
    path_below(root, sizeof(root), "embed");
    snprintf(ours, sizeof(ours), "%s/run/qemu/%s.xml", root, mini_domain);
    snprintf(others, sizeof(others), "%s/run/qemu/vt-x.xml", root);
    snprintf(folder_name, sizeof(folder_name), "%s/lib/qemu/domain-1-%s", root, mini_domain);
    assert_int_equal(mkdir(folder_name, 0700), 0);
    FILE *f = fopen(ours, "w");
    assert_non_null(f);
    fprintf(f, status, 0, folder, mini_domain, mini_domain, mini_uuid, marked);
    fclose(f);
    f = fopen(others, "w");
    assert_non_null(f);
    fprintf(f, status, 0, folder, "vt-x", "vt-x", other_uuid, "");
    fclose(f);
    assert_int_equal(embed_forget_unstarted(root), 1);
    assert_int_equal(access(ours, F_OK), -1);
    assert_int_equal(access(folder_name, F_OK), -1);
    assert_int_equal(access(others, F_OK), 0); /* without our mark it is not ours */
    assert_int_equal(unlink(others), 0);
    f = fopen(ours, "w"); /* a domain with a pid is the driver's to take up */
    assert_non_null(f);
    fprintf(f, status, 77, folder, mini_domain, mini_domain, mini_uuid, marked);
    fclose(f);
    assert_int_equal(embed_forget_unstarted(root), 0);
    assert_int_equal(unlink(ours), 0);
}

/* Some of the points of a run, spread; the laboratory tries them all on the real program. */
static void killed_anywhere_clean_leaves_nothing(void **state)
{
    const int tries = SANITIZED ? 4 : 12;
    int points = mini_points(folder), removed;

    (void)state;
    assert_true(points > 50);
    for (int i = 1; i <= tries; i++) {
        struct mini mini = {.state = folder, .die_at = i * points / (tries + 1)};
        assert_int_equal(exit_code(mini_start(&mini)), -SIGKILL);
        if (mini_clean(folder, &removed, false) != 0)
            fail_msg("clean failed after point %d of %d", mini.die_at, points);
        char left[256];
        if (!mini_nothing_left(folder, left, sizeof(left)))
            fail_msg("killed at point %d of %d: %s is left", mini.die_at, points, left);
        assert_int_equal(mini_clean(folder, &removed, false), 0);
        assert_int_equal(removed, 0);
    }
}

/* libvirt waits until an emulator that it has ended is gone, that is reaped, and looks each 200 ms.
 * Its emulators are nobody's children, and where process 1 is slow to reap that takes seconds each:
 * so a parent of the tests does it at once. Returns in the child; the parent ends with its status.
 */
static int begin_below_a_reaper(void)
{
    pid_t tests, ended;
    int status;

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || (tests = fork()) < 0)
        return -1;
    if (tests == 0)
        return prctl(PR_SET_PDEATHSIG, SIGKILL);
    do
        ended = waitpid(-1, &status, 0);
    while (ended != tests && (ended > 0 || errno == EINTR));
    _exit(ended == tests && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, set_up)
    const struct CMUnitTest tests[] = {
        T(whole_run_leaves_nothing),
        T(live_run_is_left_alone),
        T(clean_touches_nothing_else),
        T(lost_state_is_made_up_for_by_the_mark),
        T(managed_save_and_nvram_do_not_stop_clean),
        T(locks_of_a_dead_run_are_waited_for),
        T(orphans_of_a_dead_run_are_ended),
        T(half_started_domain_is_forgotten),
        T(killed_anywhere_clean_leaves_nothing),
    };
    if (begin_below_a_reaper() < 0)
        return 1;
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
