/* SPDX-License-Identifier: Apache-2.0 */
/* What preflight finds, on trees of /proc, /sys and /etc made for the purpose. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/journal.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/embed.h"
#include "orchestrator/host/preflight.h"
#include "orchestrator/host/undo.h"

#define EMBED_URI "qemu:///embed?root=/s/embed"

struct fixture {
    char root[64];
    struct preflight found;
    struct vt_domain domains[3];
};

static const char *at(struct fixture *f, const char *path)
{
    static char full[8][256];
    static unsigned turn;
    char *out = full[turn++ % 8];

    snprintf(out, sizeof(full[0]), "%s%s", f->root, path);
    return out;
}

/* Makes the folders on the way, 0755. */
static void put(struct fixture *f, const char *path, const char *text)
{
    char full[256];

    snprintf(full, sizeof(full), "%s", at(f, path));
    for (char *slash = strchr(full + strlen(f->root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
    VT_AUTO_FCLOSE FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
}

/* A machine where all is well for an embedded host. */
static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    vt_text_copy(f->root, sizeof(f->root), "/tmp/vt-pre-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    assert_int_equal(chmod(f->root, 0755), 0);
    put(f, "/proc/meminfo", "MemTotal:  2000000 kB\nMemFree: 1 kB\nMemAvailable:  1048576 kB\n");
    put(f, "/sys/devices/system/cpu/online", "0-1,4\n");
    put(f, "/etc/passwd", "root:x:0:0::/root:/bin/sh\nlibvirt-qemu:x:64055:64056::/:/bin/false\n");
    put(f, "/dev/net/tun", "");
    put(f, "/usr/bin/qemu-system-x86_64", "");
    put(f, "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so", "");
    put(f, "/s/journal/.keep", "");
    for (int i = 0; i < 3; i++)
        f->domains[i] = (struct vt_domain){.vcpus = 1, .memory_bytes = 128 << 20};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct undo_context context = {0};
    struct vt_journal_entry all = {
        .kind = UNDO_TREE, .object = f->root, .original = "", .value = ""};

    assert_int_equal(undo_entry(&context, &all, NULL), 0);
    free(f);
    return 0;
}

static struct preflight_needs needs_of(struct fixture *f)
{
    return (struct preflight_needs){.root = f->root,
                                    .state = "/s",
                                    .uri = EMBED_URI,
                                    .embed_root = "/s/embed",
                                    .run = "1a2b3c4d5e6f",
                                    .domains = f->domains,
                                    .ndomains = 3};
}

/* The first finding of a check, NULL when it is silent. */
static const struct preflight_finding *find(struct fixture *f, const char *check)
{
    for (unsigned i = 0; i < f->found.n; i++)
        if (!strcmp(f->found.findings[i].check, check))
            return &f->found.findings[i];
    return NULL;
}

static void assert_found(struct fixture *f, const char *check, enum preflight_level level,
                         const char *what)
{
    const struct preflight_finding *finding = find(f, check);

    if (!finding) {
        fail_msg("nothing about %s", check);
        return; /* never: for readers who do not know that */
    }
    assert_int_equal(finding->level, level);
    if (!strstr(finding->what, what))
        fail_msg("'%s' is not in '%s'", what, finding->what);
    if (level != PREFLIGHT_NOTE)
        assert_true(finding->act[0] != 0);
}

static bool is_root(void)
{
    if (geteuid() == 0)
        return true;
    print_message("skipped: needs root\n");
    return false;
}

static void good_machine_has_nothing_in_the_way(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);

    if (!is_root())
        skip();
    preflight_run(&needs, &f->found);
    for (unsigned i = 0; i < f->found.n; i++)
        if (f->found.findings[i].level != PREFLIGHT_NOTE)
            fail_msg("%s: %s", f->found.findings[i].check, f->found.findings[i].what);
    assert_int_equal(f->found.errors, 0);
    assert_int_equal(preflight_error(&f->found, NULL), 0);
    assert_found(f, "accel", PREFLIGHT_NOTE, "/dev/kvm: No such file");
    assert_found(f, "cache", PREFLIGHT_NOTE, "about 5 s");
    assert_null(find(f, "user"));
    assert_null(find(f, "cpu")); /* three vCPUs on CPUs 0, 1 and 4 */
}

static void all_that_is_wrong_comes_in_one_go(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);
    struct vt_error err = VT_ERROR_INIT;

    if (!is_root())
        skip();
    put(f, "/proc/meminfo", "MemAvailable:  524288 kB\n"); /* 512 MiB for 3 x (128 + 64) */
    put(f, "/etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    put(f, "/run/netns/vt-1a2b3c", "");
    unlink(at(f, "/dev/net/tun"));
    unlink(at(f, "/usr/bin/qemu-system-x86_64"));
    unlink(at(f, "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"));
    needs.state_bytes = UINT64_MAX;
    needs.image = "/c/packages.erofs";
    f->domains[2].vcpus = 4;
    preflight_run(&needs, &f->found);
    assert_found(f, "memory", PREFLIGHT_ERROR, "3 VMs may need 576 MiB");
    assert_found(f, "memory", PREFLIGHT_ERROR, "512 MiB are available");
    assert_found(f, "names", PREFLIGHT_ERROR, "/run/netns/vt-1a2b3c");
    assert_found(f, "rights", PREFLIGHT_ERROR, "/dev/net/tun");
    assert_found(f, "emulator", PREFLIGHT_ERROR, "qemu-system-x86_64");
    assert_found(f, "driver", PREFLIGHT_ERROR, "QEMU driver");
    assert_found(f, "disk", PREFLIGHT_ERROR, "/s has ");
    assert_found(f, "image", PREFLIGHT_ERROR, "/c/packages.erofs");
    assert_found(f, "cpu", PREFLIGHT_WARNING, "a VM has 4 vCPUs, the machine 3 CPUs");
    assert_found(f, "user", PREFLIGHT_NOTE, "libvirt-qemu");
    assert_int_equal(f->found.errors, 7);
    assert_int_equal(preflight_error(&f->found, &err), -EINVAL);
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_string_equal(err.text, "7 errors, above");
}

static void translation_buffer_counts_as_memory(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);

    /* 1024 MiB are available: 3 x (128 + 64) = 576 fit, with buffers of 160 each 1056 do not. */
    for (int i = 0; i < 3; i++)
        f->domains[i].tb_cache_bytes = 160 << 20;
    preflight_run(&needs, &f->found);
    assert_found(f, "memory", PREFLIGHT_ERROR, "1056 MiB");
    for (int i = 0; i < 3; i++)
        f->domains[i].tb_cache_bytes = 120 << 20;
    preflight_run(&needs, &f->found);
    assert_found(f, "memory", PREFLIGHT_WARNING, "936 of the 1024 MiB");
}

static void holder_of_the_embedded_host_is_named(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);
    struct embed embed, second;
    struct embed_holder holder;
    struct vt_error err = VT_ERROR_INIT;
    char text[64];

    if (!is_root())
        skip();
    assert_int_equal(embed_open(at(f, "/s/embed"), "1a2b3c4d5e6f", &embed, &err), 0);
    preflight_run(&needs, &f->found);
    snprintf(text, sizeof(text), "run 1a2b3c4d5e6f (pid %d)", (int)getpid());
    assert_found(f, "host", PREFLIGHT_ERROR, text);
    /* and the second opener is told the same */
    assert_int_equal(embed_open(at(f, "/s/embed"), "ffffffffffff", &second, &err), -EBUSY);
    assert_non_null(strstr(err.text, text));
    assert_int_equal(embed_read_holder(at(f, "/s/embed"), &holder, NULL), 0);
    assert_int_equal(holder.pid, getpid());

    embed_close(&embed);
    embed_close(&embed);
    assert_int_equal(access(at(f, "/s/embed/vtile.lock"), F_OK), -1);
    preflight_run(&needs, &f->found);
    assert_null(find(f, "host"));
    assert_int_equal(embed_read_holder(at(f, "/s/embed"), &holder, NULL), 0);
    assert_int_equal(holder.pid, 0);
    assert_int_equal(embed_open(at(f, "/s/embed"), "ffffffffffff", &second, &err), 0);
    embed_close(&second);
}

static void long_path_is_refused_before_a_socket_is_made(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);
    struct vt_error err = VT_ERROR_INIT;
    struct embed embed = {0};
    char path[80] = "/";

    memset(path + 1, 'x', EMBED_ROOT_MAX);
    needs.embed_root = path;
    preflight_run(&needs, &f->found);
    assert_found(f, "path", PREFLIGHT_ERROR, "has 51 bytes, at most 50");
    assert_int_equal(embed_open(path, "x", &embed, &err), -ENAMETOOLONG);
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_int_equal(access(path, F_OK), -1);
    embed_close(&embed); /* on zeroes */
    path[EMBED_ROOT_MAX] = 0;
    preflight_run(&needs, &f->found);
    assert_null(find(f, "path"));
    assert_int_equal(embed_open("relative", "x", &embed, &err), -ENAMETOOLONG);
    assert_int_equal(embed_open("/a?b", "x", &embed, &err), -ENAMETOOLONG);
}

static void leftovers_of_dead_runs_are_told(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);
    struct vt_journal *journal;

    put(f, "/s/journal/aaaaaaaaaaaa.journal", "");
    assert_int_equal(vt_journal_open(at(f, "/s/journal/bbbbbbbbbbbb.journal"), &journal, NULL), 0);
    preflight_run(&needs, &f->found);
    assert_found(f, "leftovers", PREFLIGHT_WARNING, "1 dead run (aaaaaaaaaaaa)");
    unlink(at(f, "/s/journal/aaaaaaaaaaaa.journal"));
    preflight_run(&needs, &f->found);
    assert_null(find(f, "leftovers"));
    vt_journal_close(journal);
}

static void equal_macs_are_refused(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);

    for (int i = 0; i < 3; i++) {
        f->domains[i].nnics = 1;
        snprintf(f->domains[i].name, sizeof(f->domains[i].name), "vm%d", i);
        snprintf(f->domains[i].nics[0].mac, 18, "02:00:00:00:00:0%d", i % 2);
    }
    preflight_run(&needs, &f->found);
    assert_found(f, "names", PREFLIGHT_ERROR, "vm0 and vm2 have the MAC 02:00:00:00:00:00");
}

/* ---- Docker's firewall and bridged frames ---- */

static void default_drop_is_read_from_both_tools(void **state)
{
    static const char nft[] =
        "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy "
        "accept;\n\t}\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy "
        "drop;\n\t}\n}\n";

    (void)state;
    assert_true(preflight_chain_drops("-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n", "FORWARD"));
    assert_false(preflight_chain_drops("-P FORWARD ACCEPT\n-A FORWARD -j DROP\n", "FORWARD"));
    assert_true(preflight_chain_drops("-P INPUT DROP\n-P FORWARD ACCEPT\n", "INPUT"));
    assert_false(preflight_chain_drops("-P INPUT DROP\n-P FORWARD ACCEPT\n", "FORWARD"));
    assert_true(preflight_chain_drops(nft, "FORWARD"));
    assert_false(preflight_chain_drops(nft, "INPUT"));
    assert_false(preflight_chain_drops("", "FORWARD"));
    assert_false(preflight_chain_drops(NULL, "FORWARD"));
}

static void firewall_that_eats_bridged_frames_is_warned_of(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);

    needs.uri = "qemu:///system";
    put(f, "/proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
    put(f, "/iptables-S-FORWARD", "-P FORWARD DROP\n");
    preflight_run(&needs, &f->found);
    assert_found(f, "firewall", PREFLIGHT_WARNING, "FORWARD chain drops");
    /* the embedded bridge has tables of its own */
    needs.uri = EMBED_URI;
    preflight_run(&needs, &f->found);
    assert_found(f, "firewall", PREFLIGHT_NOTE, "embedded host are not concerned");
    needs.uri = "qemu:///system";
    put(f, "/iptables-S-FORWARD", "-P FORWARD ACCEPT\n");
    preflight_run(&needs, &f->found);
    assert_null(find(f, "firewall"));
    put(f, "/iptables-S-FORWARD", "-P FORWARD DROP\n");
    put(f, "/proc/sys/net/bridge/bridge-nf-call-iptables", "0\n");
    preflight_run(&needs, &f->found);
    assert_null(find(f, "firewall"));
    unlink(at(f, "/proc/sys/net/bridge/bridge-nf-call-iptables")); /* no br_netfilter */
    preflight_run(&needs, &f->found);
    assert_null(find(f, "firewall"));
}

/* ---- a system daemon ---- */

static void names_and_addresses_must_be_free_on_a_system_daemon(void **state)
{
    static const char head[] =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);
    char text[512];

    needs.uri = "qemu:///system";
    f->domains[1].nnics = 1;
    f->domains[1].nics[0] = (struct vt_nic){"02:00:00:00:00:01", "vt-1a2b3c-001w", ""};
    put(f, "/run/netns/vt-1a2b3c", ""); /* concerns embedded hosts only */
    put(f, "/proc/net/route", head);
    put(f, "/proc/net/dev", "Inter-|\n    lo: 0 0\nvt-1a2b3c-0010: 0\nxvt-1a2b3c-br: 0\n");
    preflight_run(&needs, &f->found);
    assert_null(find(f, "names"));
    assert_null(find(f, "host"));

    put(f, "/proc/net/dev", "Inter-|\n    lo: 0 0\nvt-1a2b3c-001w: 0\n");
    preflight_run(&needs, &f->found);
    assert_found(f, "names", PREFLIGHT_ERROR, "interface vt-1a2b3c-001w");
    put(f, "/proc/net/dev", "Inter-|\n    lo: 0 0\nvt-1a2b3c-br: 0\n");
    preflight_run(&needs, &f->found);
    assert_found(f, "names", PREFLIGHT_ERROR, "interface vt-1a2b3c-br");

    snprintf(text, sizeof(text), "%swg0\t000013C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n",
             head);
    put(f, "/proc/net/route", text);
    preflight_run(&needs, &f->found);
    assert_found(f, "host", PREFLIGHT_ERROR, "are routed to wg0");
    snprintf(text, sizeof(text),
             "%svt-999999-br\t000012C6\t00000000\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0\n", head);
    put(f, "/proc/net/route", text);
    preflight_run(&needs, &f->found);
    assert_found(f, "host", PREFLIGHT_ERROR, "a dead run 999999 left its bridge");

    /* An embedded host has all of that to itself. */
    needs.uri = EMBED_URI;
    unlink(at(f, "/run/netns/vt-1a2b3c"));
    preflight_run(&needs, &f->found);
    assert_null(find(f, "names"));
    assert_null(find(f, "host"));
}

static void input_that_is_dropped_is_warned_of(void **state)
{
    struct fixture *f = *state;
    struct preflight_needs needs = needs_of(f);

    put(f, "/iptables-S-INPUT", "-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n");
    preflight_run(&needs, &f->found);
    assert_null(find(f, "firewall"));
    needs.uri = "qemu:///system";
    preflight_run(&needs, &f->found);
    assert_found(f, "firewall", PREFLIGHT_WARNING, "INPUT chain drops");
    put(f, "/iptables-S-INPUT", "-P INPUT ACCEPT\n");
    preflight_run(&needs, &f->found);
    assert_null(find(f, "firewall"));
}

/* ---- "Permission denied" has two doors ---- */

static void folder_that_qemu_cannot_pass_is_named(void **state)
{
    struct fixture *f = *state;
    const char *paths[] = {"/home/u/.cache/vtile/image/packages.erofs", NULL};
    struct preflight_needs needs = needs_of(f);

    needs.uri = "qemu:///system";
    needs.qemu_paths = paths;
    put(f, paths[0], "image");
    assert_int_equal(chmod(at(f, paths[0]), 0644), 0);
    preflight_run(&needs, &f->found);
    assert_null(find(f, "access"));

    assert_int_equal(chmod(at(f, "/home/u"), 0700), 0);
    preflight_run(&needs, &f->found);
    assert_found(f, "access", PREFLIGHT_ERROR,
                 "QEMU's user (uid 64055) cannot search the folder /home/u,");
    /* the first one, not the last */
    assert_int_equal(chmod(at(f, "/home/u/.cache/vtile"), 0700), 0);
    preflight_run(&needs, &f->found);
    assert_found(f, "access", PREFLIGHT_ERROR, "the folder /home/u,");
    assert_int_equal(chmod(at(f, "/home/u"), 0711), 0);
    preflight_run(&needs, &f->found);
    assert_found(f, "access", PREFLIGHT_ERROR, "the folder /home/u/.cache/vtile,");
    assert_int_equal(chmod(at(f, "/home/u/.cache/vtile"), 0755), 0);
    assert_int_equal(chmod(at(f, paths[0]), 0600), 0);
    preflight_run(&needs, &f->found);
    assert_found(f, "access", PREFLIGHT_ERROR, "cannot read /home/u/.cache/vtile/image/packages");

    /* Nobody's modes were changed. */
    struct stat info;
    assert_int_equal(stat(at(f, "/home/u"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0711);
    /* QEMU as root passes, and the embedded host's QEMUs are ours. */
    put(f, "/etc/libvirt/qemu.conf", "#user = \"x\"\nuser = \"root\"\n");
    preflight_run(&needs, &f->found);
    assert_null(find(f, "access"));
    unlink(at(f, "/etc/libvirt/qemu.conf"));
    needs.uri = EMBED_URI;
    preflight_run(&needs, &f->found);
    assert_null(find(f, "access"));
}

static void owner_and_group_bits_count(void **state)
{
    struct fixture *f = *state;
    char blocked[256];

    if (!is_root())
        skip();
    put(f, "/d/x", "");
    assert_int_equal(chown(at(f, "/d"), 1000, 2000), 0);
    assert_int_equal(chmod(at(f, "/d"), 0710), 0);
    assert_int_equal(chmod(at(f, "/d/x"), 0644), 0);
#define BLOCKED(uid, gid) \
    preflight_first_blocked(f->root, "/d/x", uid, gid, blocked, sizeof(blocked))
    assert_int_equal(BLOCKED(1000, 1), 0);
    assert_int_equal(BLOCKED(1, 2000), 0);
    assert_int_equal(BLOCKED(1, 1), 1);
    assert_string_equal(blocked, "/d");
    assert_int_equal(BLOCKED(0, 0), 0);
    assert_int_equal(chmod(at(f, "/d"), 0071), 0); /* the owner's own bits, not the wider ones */
    assert_int_equal(BLOCKED(1000, 2000), 1);
    assert_int_equal(BLOCKED(1, 1), 0);
    assert_int_equal(preflight_first_blocked(f->root, "/none/x", 1, 1, blocked, sizeof(blocked)),
                     -ENOENT);
    assert_true(preflight_first_blocked(f->root, "d/x", 1, 1, blocked, sizeof(blocked)) < 0);
}

static void hidden_folder_of_a_home_is_warned_of_under_apparmor(void **state)
{
    struct fixture *f = *state;
    const char *paths[] = {"/home/u/.cache/vtile/packages.erofs", "/srv/.x/packages.erofs", NULL};
    struct preflight_needs needs = needs_of(f);
    unsigned n = 0;

    needs.uri = "qemu:///system";
    needs.qemu_paths = paths;
    put(f, paths[0], "");
    put(f, paths[1], "");
    chmod(at(f, paths[0]), 0644);
    chmod(at(f, paths[1]), 0644);
    preflight_run(&needs, &f->found);
    assert_null(find(f, "apparmor"));
    put(f, "/sys/module/apparmor/parameters/enabled", "Y\n");
    preflight_run(&needs, &f->found);
    assert_found(f, "apparmor", PREFLIGHT_WARNING, "/home/u/.cache/vtile/packages.erofs");
    for (unsigned i = 0; i < f->found.n; i++)
        n += !strcmp(f->found.findings[i].check, "apparmor");
    assert_int_equal(n, 1);
}

static void table_of_findings_is_bounded(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 2 * PREFLIGHT_FINDINGS_MAX; i++)
        preflight_add(&f->found, PREFLIGHT_ERROR, "x", "y", "z");
    assert_int_equal(f->found.n, PREFLIGHT_FINDINGS_MAX);
    assert_int_equal(f->found.errors, 2 * PREFLIGHT_FINDINGS_MAX);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(good_machine_has_nothing_in_the_way),
        T(all_that_is_wrong_comes_in_one_go),
        T(translation_buffer_counts_as_memory),
        T(holder_of_the_embedded_host_is_named),
        T(long_path_is_refused_before_a_socket_is_made),
        T(leftovers_of_dead_runs_are_told),
        T(equal_macs_are_refused),
        cmocka_unit_test(default_drop_is_read_from_both_tools),
        T(firewall_that_eats_bridged_frames_is_warned_of),
        T(names_and_addresses_must_be_free_on_a_system_daemon),
        T(input_that_is_dropped_is_warned_of),
        T(folder_that_qemu_cannot_pass_is_named),
        T(owner_and_group_bits_count),
        T(hidden_folder_of_a_home_is_warned_of_under_apparmor),
        T(table_of_findings_is_bounded),
    };
    /* Modes of the trees are what the tests say. */
    umask(022);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
