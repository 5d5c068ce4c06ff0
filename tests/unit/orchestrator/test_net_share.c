/* SPDX-License-Identifier: Apache-2.0 */
/* A run's bridge and taps in a namespace that others use too, and who has its addresses. Each test
 * is a child in a network namespace of its own. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "orchestrator/host/net.h"
#include "orchestrator/host/rtnl.h"
#include "orchestrator/host/undo.h"

#define RUN "1a2b3c4d5e6f"
#define BRIDGE "vt-1a2b3c-br"
#define TAP "vt-1a2b3c-001w"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)

/* The child's whole life. */
static void in_namespace(void (*child)(struct vt_journal *journal))
{
    int status;

    if (geteuid() != 0 || access("/dev/net/tun", W_OK) < 0) {
        print_message("skipped: needs root and /dev/net/tun\n");
        skip();
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char path[] = "/tmp/vt-share-XXXXXX";
        struct vt_journal *journal;

        CHECK(unshare(CLONE_NEWNET) == 0);
        CHECK(close(mkstemp(path)) == 0 && unlink(path) == 0);
        CHECK(vt_journal_open(path, &journal, NULL) == 0);
        unlink(path);
        child(journal);
        vt_journal_close(journal);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int link_of(const char *name, struct rtnl_link *ret)
{
    VT_AUTO_CLOSE int fd = rtnl_open();

    return fd < 0 ? fd : rtnl_get(fd, name, ret);
}

static const struct vt_journal_entry *entry_of(const struct vt_journal *journal, const char *object)
{
    for (size_t i = 0; i < vt_journal_count(journal); i++)
        if (!strcmp(vt_journal_entry_at(journal, i)->object, object))
            return vt_journal_entry_at(journal, i);
    return NULL;
}

static bool holds_line(const char *path, const char *text)
{
    char line[512];
    bool found = false;
    VT_AUTO_FCLOSE FILE *f = fopen(path, "r");

    while (f && !found && fgets(line, sizeof(line), f))
        found = strstr(line, text) != NULL;
    return found;
}

static void make_and_take_back(struct vt_journal *journal)
{
    static const char *const taps[] = {TAP};
    const struct undo_context context = {0};
    struct rtnl_link bridge, tap;
    struct net net;

    CHECK(net_share(RUN, journal, &net, NULL) == 0);
    CHECK(net_add_taps(&net, journal, taps, 1, NULL) == 0);
    CHECK(link_of(BRIDGE, &bridge) == 0 && !strcmp(bridge.kind, "bridge"));
    CHECK(link_of(TAP, &tap) == 0 && tap.master == bridge.index);
    /* The kernel's own words for address and route: 198.18.0.1, 198.18.0.0/15. */
    CHECK(holds_line("/proc/net/fib_trie", "198.18.0.1"));
    CHECK(holds_line("/proc/net/route", BRIDGE "\t000012C6\t00000000"));
    CHECK(!holds_line("/proc/net/if_inet6", BRIDGE));
    for (size_t i = 0; i < vt_journal_count(journal); i++) {
        const struct vt_journal_entry *entry = vt_journal_entry_at(journal, i);
        CHECK(entry->state == VT_JOURNAL_APPLIED && entry->value[0] == 0);
        CHECK(undo_entry(&context, entry, NULL) == 0);
    }
    CHECK(link_of(BRIDGE, &bridge) == -ENODEV && link_of(TAP, &tap) == -ENODEV);
    CHECK(undo_entry(&context, entry_of(journal, BRIDGE), NULL) == 0); /* gone already */
    net_leave(&net);
    net_leave(&net);
}

static void bridge_and_taps_come_and_go(void **state)
{
    (void)state;
    in_namespace(make_and_take_back);
}

static void names_of_others(struct vt_journal *journal)
{
    static const char *const taps[] = {TAP};
    const uint8_t mac[6] = {2, 1, 1, 1, 1, 1};
    struct vt_error err = VT_ERROR_INIT;
    struct rtnl_link link;
    struct net net;
    VT_AUTO_CLOSE int fd = rtnl_open();

    CHECK(rtnl_add_bridge(fd, BRIDGE, mac) == 0);
    CHECK(net_share(RUN, journal, &net, &err) == -EEXIST);
    /* It is no open entry, so nobody takes it away. */
    CHECK(entry_of(journal, BRIDGE)->state == VT_JOURNAL_UNDONE);
    CHECK(net_range_holder() == 0);
    CHECK(link_of(BRIDGE, &link) == 0 && rtnl_delete(fd, link.index) == 0);

    CHECK(net_share(RUN, journal, &net, NULL) == 0);
    CHECK(rtnl_add_bridge(fd, TAP, mac) == 0);
    CHECK(net_add_taps(&net, journal, taps, 1, &err) == -EEXIST);
    CHECK(entry_of(journal, TAP)->state == VT_JOURNAL_UNDONE);
    CHECK(link_of(TAP, &link) == 0 && !strcmp(link.kind, "bridge"));
    net_leave(&net);
}

static void what_others_have_is_not_ours(void **state)
{
    (void)state;
    in_namespace(names_of_others);
}

static void one_at_a_time(struct vt_journal *journal)
{
    struct vt_error err = VT_ERROR_INIT;
    struct net net, second;
    char text[32];
    int up[2];

    CHECK(net_range_holder() == 0);
    CHECK(pipe(up) == 0);
    pid_t holder = fork();
    CHECK(holder >= 0);
    if (holder == 0) {
        int fd = net_hold_range(NULL);
        CHECK(fd >= 0 && write(up[1], "", 1) == 1);
        for (;;)
            pause();
    }
    CHECK(read(up[0], text, 1) == 1);
    CHECK(net_range_holder() == holder);
    CHECK(net_share(RUN, journal, &second, &err) == -EBUSY);
    snprintf(text, sizeof(text), "(pid %d)", (int)holder);
    CHECK(strstr(err.text, text));
    CHECK(vt_journal_count(journal) == 0);
    /* It goes with its process, however that ends. */
    CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, NULL, 0) == holder);
    CHECK(net_range_holder() == 0);
    CHECK(net_share(RUN, journal, &net, NULL) == 0);
    CHECK(net_range_holder() == getpid());
    /* Another namespace has addresses of its own. */
    CHECK(unshare(CLONE_NEWNET) == 0);
    CHECK(net_range_holder() == 0);
    net_leave(&net);
}

static void one_run_at_a_time_has_the_addresses(void **state)
{
    (void)state;
    in_namespace(one_at_a_time);
}

/* Lines of /proc/net/route as Linux prints them on a little-endian machine. */
static void route_in_the_range_is_seen(void **state)
{
    static const struct {
        const char *line;
        const char *interface; /* NULL: not in the range */
    } lines[] = {
        {"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
         NULL},
        {"eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0", NULL}, /* default */
        {"eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0", NULL}, /* 192.168/16 */
        {"tun0\t00000080\t0102A8C0\t0003\t0\t0\t0\t00000080\t0\t0\t0", NULL},   /* 128.0.0.0/1 */
        {"eth0\t000012C6\t00000000\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0", "eth0"}, /* 198.18/15 */
        {"eth1\t000013C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0", "eth1"}, /* 198.19/16 */
        {"eth2\t010012C6\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0", "eth2"}, /* 198.18.0.1 */
        {"eth3\t000014C6\t00000000\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0", NULL},   /* 198.20/15 */
        {"eth4\t000011C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0", NULL},   /* 198.17/16 */
        {"eth5\t000012C6", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(lines); i++) {
        char interface[VT_IFNAME_MAX] = "";
        assert_int_equal(net_route_is_in_range(lines[i].line, interface), !!lines[i].interface);
        assert_string_equal(interface, lines[i].interface ? lines[i].interface : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bridge_and_taps_come_and_go),
        cmocka_unit_test(what_others_have_is_not_ours),
        cmocka_unit_test(one_run_at_a_time_has_the_addresses),
        cmocka_unit_test(route_in_the_range_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
