/* SPDX-License-Identifier: Apache-2.0 */
/* Names and addresses of the embedded network. The kernel's own bound is checked by asking it. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <net/if.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/net.h"

#define RUN "1a2b3c4d5e6f"

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void assert_unique(void *items, size_t n, size_t size)
{
    qsort(items, n, size, compare);
    for (size_t i = 1; i < n; i++)
        if (!strcmp((char *)items + (i - 1) * size, (char *)items + i * size))
            fail_msg("%s twice", (char *)items + i * size);
}

/* Every name of every place of two runs at once: short enough, different, ours by its beginning. */
static void names_fit_and_differ(void **state)
{
    static const char *const runs[] = {RUN, "1a2b3d4d5e6f"};
    static const char *const roles[] = {"web", "infra", "mail", "app", "batch", "db"};
    const size_t max = 2 * NET_TILES_MAX * VT_COUNT(roles) * NET_NICS_MAX + 2;
    char(*names)[VT_IFNAME_MAX] = calloc(max, sizeof(*names));
    char letters[NET_ROLES_MAX];
    size_t n = 0;

    (void)state;
    assert_int_equal(net_role_letters(roles, VT_COUNT(roles), letters, NULL), 0);
    for (size_t r = 0; r < VT_COUNT(runs); r++) {
        assert_int_equal(net_name_bridge(runs[r], names[n++], NULL), 0);
        for (unsigned tile = 1; tile <= NET_TILES_MAX; tile++)
            for (size_t role = 0; role < VT_COUNT(roles); role++)
                for (unsigned nic = 0; nic < NET_NICS_MAX; nic++)
                    assert_int_equal(
                        net_name_tap(runs[r], tile, letters[role], nic, names[n++], NULL), 0);
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(strlen(names[i]) < IFNAMSIZ);
        assert_memory_equal(names[i], "vt-", 3);
    }
    assert_unique(names, n, sizeof(*names));
    free(names);
}

static void names_are_as_written_down(void **state)
{
    char name[64], tap[VT_IFNAME_MAX];

    (void)state;
    assert_int_equal(net_name_domain(RUN, 3, "db", name, sizeof(name), NULL), 0);
    assert_string_equal(name, "vt-1a2b3c-003-db");
    assert_int_equal(net_name_tap(RUN, 3, 'd', 0, tap, NULL), 0);
    assert_string_equal(tap, "vt-1a2b3c-003d");
    assert_int_equal(net_name_tap(RUN, 3, 'd', 1, tap, NULL), 0);
    assert_string_equal(tap, "vt-1a2b3c-003d1");
    assert_int_equal(net_name_bridge(RUN, tap, NULL), 0);
    assert_string_equal(tap, "vt-1a2b3c-br");
    assert_int_equal(net_name_netns(RUN, name, sizeof(name), NULL), 0);
    assert_string_equal(name, "/run/netns/vt-1a2b3c");
}

/* A name of 40 characters, one of them not ASCII, as a run: never cut, always refused. */
static void run_that_makes_no_names_is_refused(void **state)
{
    static const char *const runs[] = {
        "",
        "1a2b3",
        "1A2B3C",
        "1a2b3c ",
        "consolidation-run-of-café-0123456789abcd",
        "1a2b3c/../../x",
    };
    struct vt_error err = VT_ERROR_INIT;
    char name[64] = "untouched", tap[VT_IFNAME_MAX] = "untouched";

    (void)state;
    for (size_t i = 0; i < VT_COUNT(runs); i++) {
        assert_int_equal(net_name_tap(runs[i], 1, 'd', 0, tap, &err), -EINVAL);
        assert_int_equal(net_name_bridge(runs[i], tap, &err), -EINVAL);
        assert_int_equal(net_name_netns(runs[i], name, sizeof(name), &err), -EINVAL);
        assert_int_equal(net_name_domain(runs[i], 1, "db", name, sizeof(name), &err), -EINVAL);
        assert_int_equal(vt_error_exit_code(&err), 2);
    }
    assert_string_equal(name, "untouched");
    assert_string_equal(tap, "untouched");
    assert_int_equal(net_name_domain(RUN, 1, "db", name, 10, &err), -ENAMETOOLONG);
}

static void place_outside_the_plan_is_refused(void **state)
{
    char tap[VT_IFNAME_MAX], address[16], name[64];

    (void)state;
    assert_int_equal(net_name_tap(RUN, 0, 'd', 0, tap, NULL), -ERANGE);
    assert_int_equal(net_name_tap(RUN, NET_TILES_MAX + 1, 'd', 0, tap, NULL), -ERANGE);
    assert_int_equal(net_name_tap(RUN, 1, 'd', NET_NICS_MAX, tap, NULL), -ERANGE);
    assert_int_equal(net_name_tap(RUN, 1, 0, 0, tap, NULL), -EINVAL);
    assert_int_equal(net_name_tap(RUN, 1, '/', 0, tap, NULL), -EINVAL);
    assert_int_equal(net_name_domain(RUN, 1, "", name, sizeof(name), NULL), -EINVAL);
    assert_int_equal(net_name_domain(RUN, 1, "d/b", name, sizeof(name), NULL), -EINVAL);
    assert_int_equal(net_address(0, 0, 0, address, NULL), -ERANGE);
    assert_int_equal(net_address(1, NET_ROLES_MAX, 0, address, NULL), -ERANGE);
}

static void roles_get_letters_of_their_own(void **state)
{
    static const char *const specvirt[] = {"web", "mail", "app", "batch", "db", "infra"};
    static const char *const alike[] = {"db", "d", "dd", "db"};
    const char *many[NET_ROLES_MAX + 1];
    char letters[NET_ROLES_MAX + 1] = "";
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(net_role_letters(specvirt, 6, letters, NULL), 0);
    assert_memory_equal(letters, "wmabdi", 6);
    assert_int_equal(net_role_letters(alike, 4, letters, NULL), 0);
    assert_memory_equal(letters, "dac", 2);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(letters[i], letters[j]);
    for (int i = 0; i <= NET_ROLES_MAX; i++)
        many[i] = "same";
    memset(letters, 0, sizeof(letters));
    assert_int_equal(net_role_letters(many, NET_ROLES_MAX, letters, NULL), 0);
    for (int i = 0; i < NET_ROLES_MAX; i++)
        assert_ptr_equal(strchr(letters, letters[i]), &letters[i]);
    assert_int_equal(net_role_letters(many, NET_ROLES_MAX + 1, letters, &err), -E2BIG);
}

/* RFC 2544 keeps 198.18.0.0/15. */
static void addresses_are_in_the_range_and_differ(void **state)
{
    const size_t n = NET_TILES_MAX * NET_ROLES_MAX * NET_NICS_MAX;
    char(*addresses)[16] = calloc(n + 1, sizeof(*addresses));
    size_t i = 0;

    (void)state;
    for (unsigned tile = 1; tile <= NET_TILES_MAX; tile++)
        for (unsigned role = 0; role < NET_ROLES_MAX; role++)
            for (unsigned nic = 0; nic < NET_NICS_MAX; nic++) {
                struct in_addr address;
                assert_int_equal(net_address(tile, role, nic, addresses[i], NULL), 0);
                assert_int_equal(inet_pton(AF_INET, addresses[i], &address), 1);
                assert_int_equal(ntohl(address.s_addr) >> 17, (198u << 24 | 18u << 16) >> 17);
                i++;
            }
    vt_text_copy(addresses[i++], sizeof(*addresses), NET_CONTROLLER);
    assert_unique(addresses, i, sizeof(*addresses));
    assert_int_equal(net_address(3, 2, 0, addresses[0], NULL), 0);
    assert_string_equal(addresses[0], "198.18.3.12");
    assert_int_equal(net_address(300, 0, 1, addresses[0], NULL), 0);
    assert_string_equal(addresses[0], "198.19.44.50");
    free(addresses);
}

static void macs_are_local_repeatable_and_differ(void **state)
{
    const size_t n = 256 * NET_ROLES_MAX;
    char(*macs)[18] = calloc(n, sizeof(*macs)), again[18];
    size_t i = 0;

    (void)state;
    for (unsigned tile = 1; tile <= 256; tile++)
        for (unsigned role = 0; role < NET_ROLES_MAX; role++) {
            unsigned first;
            net_mac(RUN, tile, role, 0, 0, macs[i]);
            assert_int_equal(strlen(macs[i]), 17);
            assert_int_equal(sscanf(macs[i], "%x:", &first), 1);
            assert_int_equal(first & 3, 2); /* locally administered, one receiver */
            i++;
        }
    net_mac(RUN, 1, 0, 0, 0, again);
    assert_string_equal(again, macs[0]);
    net_mac(RUN, 1, 0, 0, 1, again);
    assert_string_not_equal(again, macs[0]);
    net_mac(RUN, 1, 0, 1, 0, again);
    assert_string_not_equal(again, macs[0]);
    net_mac("ffffff", 1, 0, 0, 0, again);
    assert_string_not_equal(again, macs[0]);
    assert_unique(macs, n, sizeof(*macs));
    free(macs);

    struct vt_nic nics[] = {{.mac = "02:aa:bb:cc:dd:ee"}, {.mac = "02:00:00:00:00:01"}};
    assert_true(net_mac_is_taken("02:AA:bb:cc:dd:ee", nics, 2));
    assert_false(net_mac_is_taken("02:00:00:00:00:02", nics, 2));
    assert_false(net_mac_is_taken("02:00:00:00:00:02", NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_fit_and_differ),
        cmocka_unit_test(names_are_as_written_down),
        cmocka_unit_test(run_that_makes_no_names_is_refused),
        cmocka_unit_test(place_outside_the_plan_is_refused),
        cmocka_unit_test(roles_get_letters_of_their_own),
        cmocka_unit_test(addresses_are_in_the_range_and_differ),
        cmocka_unit_test(macs_are_local_repeatable_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
