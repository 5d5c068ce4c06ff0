/* SPDX-License-Identifier: Apache-2.0 */
/* How many tiles fit. Expected numbers were worked out by hand; the working stands beside them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "orchestrator/host/preflight.h"
#include "tests/unit/orchestrator/tree.h"

#define MIB (UINT64_C(1) << 20)

/* Five VMs a tile of 256 MiB each, a database of 512 MiB for four tiles with 1 GiB of disk a tile.
 */
static const struct preflight_role shop[] = {
    {.memory_bytes = 5 * 256 * MIB, .vcpus = 5, .share = 1},
    {.memory_bytes = 512 * MIB,
     .disk_bytes = 1024 * MIB,
     .data_bytes = 100 * MIB,
     .vcpus = 2,
     .share = 4},
};

static void sums(void **state)
{
    struct preflight_sum sum = preflight_sum(shop, VT_COUNT(shop), 5);

    (void)state;
    assert_int_equal(sum.vms, 5 + 2);                            /* ceil(5 / 4) = 2 databases */
    assert_int_equal(sum.vcpus, 5 * 5 + 2 * 2);                  /* 29 */
    assert_int_equal(sum.memory_bytes, (5 * 1280 + 1024) * MIB); /* 7424 MiB */
    assert_int_equal(sum.disk_bytes, 5 * 1024 * MIB);
    assert_int_equal(sum.data_bytes, 500 * MIB);
    assert_int_equal(preflight_sum(shop, VT_COUNT(shop), 0).memory_bytes, 0);
}

static void fits(void **state)
{
    static const struct {
        uint64_t memory_mib, disk_mib;
        unsigned tiles;
        const char *end;
    } cases[] = {
        /* 1280 + 512 = 1792 for the first */
        {1791, 9999, 0, "memory"},
        {1792, 9999, 1, "memory"},
        /* 4 x 1280 + 512 = 5632; the fifth brings a database: 5 x 1280 + 1024 = 7424 */
        {5632, 9999, 4, "memory"},
        {7423, 9999, 4, "memory"},
        {7424, 9999, 5, "memory"},
        {7424, 3 * 1024, 3, "disk"},
        {7424, 1023, 0, "disk"},
        {1 << 20, 1 << 20, 256, "names"},
    };
    const char *end;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        assert_int_equal(preflight_fit(shop, VT_COUNT(shop), cases[i].memory_mib * MIB,
                                       cases[i].disk_mib * MIB, &end),
                         cases[i].tiles);
        assert_string_equal(end, cases[i].end);
    }
}

static struct preflight found;

static const struct preflight_finding *find(const char *check, enum preflight_level level)
{
    for (unsigned i = 0; i < found.n; i++)
        if (!strcmp(found.findings[i].check, check) && found.findings[i].level == level)
            return &found.findings[i];
    return NULL;
}

/* "" where there is no such finding. */
static const char *said(const char *check, enum preflight_level level)
{
    const struct preflight_finding *finding = find(check, level);

    return finding ? finding->what : "";
}

static void look(const char *root, unsigned tiles, uint64_t disk_bytes)
{
    struct preflight_needs needs = {
        .root = root,
        .state = "/s",
        .uri = "qemu:///embed?root=/s/embed",
        .spec = "shop",
        .nroles = VT_COUNT(shop),
        .tiles = tiles,
    };

    memcpy(needs.roles, shop, sizeof(shop));
    needs.roles[1].disk_bytes = disk_bytes;
    preflight_run(&needs, &found);
}

static void it_is_told_also_when_it_is_refused(void **state)
{
    struct tree tree;
    const char *root = tree.root;

    (void)state;
    tree_make(&tree);
    tree_put(&tree, "/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 8388608 kB\n");
    tree_put(&tree, "/sys/devices/system/cpu/online", "0-3\n");
    tree_put(&tree, "/s/x", "");
    look(root, 2, MIB);
    assert_non_null(find("fit", PREFLIGHT_NOTE));
    /* 8192 MiB: 5 tiles take 7424, 6 take 8704; the first 1792 */
    assert_non_null(strstr(said("fit", PREFLIGHT_NOTE), "5 tiles of shop fit"));
    assert_non_null(strstr(said("fit", PREFLIGHT_NOTE), "memory"));
    assert_non_null(strstr(said("fit", PREFLIGHT_NOTE), "1792 MiB"));
    assert_null(find("memory", PREFLIGHT_ERROR));
    assert_null(find("cpu", PREFLIGHT_WARNING)); /* 2 x 5 + 2 = 12 vCPUs on 4 CPUs */
    look(root, 6, MIB);
    assert_non_null(strstr(said("fit", PREFLIGHT_NOTE), "5 tiles of shop fit"));
    assert_non_null(strstr(said("memory", PREFLIGHT_ERROR), "8704 MiB"));
    /* 6 x 5 + 2 x 2 = 34 on 4: 8.5 */
    assert_non_null(strstr(said("cpu", PREFLIGHT_WARNING), "34 vCPUs share 4 CPUs, 8.5"));
    /* more than any file system here has: sparse disks may be that large, their contents not */
    look(root, 1, UINT64_C(1) << 60);
    assert_non_null(find("disk", PREFLIGHT_WARNING));
    assert_null(find("disk", PREFLIGHT_ERROR));
    assert_non_null(strstr(said("fit", PREFLIGHT_NOTE), "0 tiles of shop fit"));
    assert_non_null(
        strstr(said("fit", PREFLIGHT_NOTE), "; for more there is too little disk space: "));
    tree_dispose(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(fits),
        cmocka_unit_test(it_is_told_also_when_it_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
