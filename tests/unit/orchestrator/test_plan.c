/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of one and more tiles, with databases of their own and shared ones. Numbers of VMs are
 * those of the published benchmark: five a tile, and a database for each db_share tiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/preflight.h"
#include "orchestrator/run/run.h"

#define SIZES                                                           \
    "    sizes:\n      tcg: {memory: 128 MiB, vcpus: 1, data: 1 MiB}\n" \
    "      kvm: {memory: 1 GiB, vcpus: 2, data: 1 MiB}\n"

static const char spec_format[] =
    "name: six\ndescription: six roles\ndb_share: %u\nroles:\n"
    "  infra:\n" SIZES "  web:\n" SIZES "  mail:\n" SIZES "  app:\n" SIZES "  batch:\n" SIZES
    "  database:\n"
    "    sizes:\n      tcg: {memory: 256 MiB, vcpus: 1, data: 8 MiB, disk: 1 GiB}\n"
    "      kvm: {memory: 4 GiB, vcpus: 2, data: 1 GiB, disk: 8 GiB}\n";

static struct run *plan(unsigned tiles, unsigned share, enum vt_accel accel)
{
    struct run *run = calloc(1, sizeof(*run));
    struct vt_error err = VT_ERROR_INIT;
    char text[4096];
    int n = snprintf(text, sizeof(text), spec_format, share);

    assert_non_null(run);
    if (spec_read_text("six.yaml", text, (size_t)n, &run->spec, &err) < 0)
        fail_msg("%s", err.text);
    run->settings.tiles = tiles;
    run->accel = accel;
    run->size = accel == VT_ACCEL_TCG ? SPEC_SIZE_TCG : SPEC_SIZE_KVM;
    vt_text_copy(run->id, sizeof(run->id), "1a2b3c4d5e6f");
    vt_text_copy(run->state.folder, sizeof(run->state.folder), "/s");
    vt_text_copy(run->state.runtime, sizeof(run->state.runtime), "/r");
    if (run_plan(run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static void drop(struct run *run)
{
    free(run->vms);
    free(run->loads);
    free(run);
}

static bool is(const struct run_vm *vm, const char *role)
{
    return !strcmp(vm->role->name, role);
}

/* The only VM of that role that serves the tile. */
static const struct run_vm *serving(const struct run *run, const char *role, unsigned tile)
{
    const struct run_vm *found = NULL;

    for (unsigned i = 0; i < run->nvms; i++)
        if (is(&run->vms[i], role) && run_vm_serves(&run->vms[i], tile)) {
            assert_null(found);
            found = &run->vms[i];
        }
    assert_non_null(found);
    return found;
}

/* Every name, address and file is one VM's alone. */
static void all_differ(const struct run *run)
{
    for (unsigned i = 0; i < run->nvms; i++)
        for (unsigned j = 0; j < i; j++) {
            const struct run_vm *a = &run->vms[i], *b = &run->vms[j];

            assert_string_not_equal(a->domain.name, b->domain.name);
            assert_string_not_equal(a->domain.uuid, b->domain.uuid);
            assert_string_not_equal(a->domain.nics[0].mac, b->domain.nics[0].mac);
            assert_string_not_equal(a->domain.nics[0].tap, b->domain.nics[0].tap);
            assert_string_not_equal(a->address, b->address);
            assert_string_not_equal(a->agent, b->agent);
            assert_string_not_equal(a->config_path, b->config_path);
            if (a->data_disk && b->data_disk)
                assert_string_not_equal(a->data_disk->path, b->data_disk->path);
        }
}

static void numbers_of_vms(void **state)
{
    static const struct {
        unsigned tiles, share, vms, databases;
        unsigned first[5], serves[5]; /* of tile 1 to 5: its database's first tile, and its share */
    } cases[] = {
        {1, 1, 6, 1, {1}, {1}},
        {1, 4, 6, 1, {1}, {1}},
        {2, 1, 12, 2, {1, 2}, {1, 1}},
        {2, 2, 11, 1, {1, 1}, {2, 2}},
        {2, 3, 11, 1, {1, 1}, {2, 2}},
        {5, 1, 30, 5, {1, 2, 3, 4, 5}, {1, 1, 1, 1, 1}},
        {5, 2, 28, 3, {1, 1, 3, 3, 5}, {2, 2, 2, 2, 1}},
        {5, 3, 27, 2, {1, 1, 1, 4, 4}, {3, 3, 3, 2, 2}},
        {5, 4, 27, 2, {1, 1, 1, 1, 5}, {4, 4, 4, 4, 1}},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        struct run *run = plan(cases[i].tiles, cases[i].share, VT_ACCEL_TCG);
        unsigned databases = 0;

        assert_int_equal(run->nvms, cases[i].vms);
        for (unsigned n = 0; n < run->nvms; n++)
            databases += is(&run->vms[n], "database");
        assert_int_equal(databases, cases[i].databases);
        for (unsigned tile = 1; tile <= cases[i].tiles; tile++) {
            const struct run_vm *db = serving(run, "database", tile);

            assert_int_equal(db->tile, cases[i].first[tile - 1]);
            assert_int_equal(db->ntiles, cases[i].serves[tile - 1]);
            assert_int_equal(serving(run, "app", tile)->tile, tile);
            assert_int_equal(serving(run, "app", tile)->ntiles, 1);
        }
        all_differ(run);
        drop(run);
    }
}

/* A database lets in whom it was told of: the applications of all its tiles, and of no other. */
static void a_shared_database_knows_its_applications(void **state)
{
    (void)state;
    for (unsigned share = 1; share <= 4; share++) {
        struct run *run = plan(5, share, VT_ACCEL_TCG);

        for (unsigned i = 0; i < run->nvms; i++) {
            const struct run_vm *vm = &run->vms[i];
            unsigned n = 0;

            for (unsigned j = 0; j < run->nvms; j++) {
                const struct run_vm *peer = &run->vms[j];
                bool knows = run_vm_knows(vm, peer);

                n += knows;
                if (is(vm, "database") && is(peer, "app"))
                    assert_int_equal(knows, run_vm_serves(vm, peer->tile));
                else if (is(peer, "database"))
                    assert_int_equal(knows, run_vm_serves(peer, vm->tile));
                else
                    assert_int_equal(knows, peer->tile == vm->tile);
            }
            assert_true(n <= ROLE_PEERS_MAX);
            if (is(vm, "app"))
                assert_int_equal(n, 6);
        }
        drop(run);
    }
}

static void a_published_run_has_156_vms_without_sharing_and_137_with(void **state)
{
    struct run *own = plan(26, 1, VT_ACCEL_KVM), *shared = plan(26, 4, VT_ACCEL_KVM);

    (void)state;
    assert_int_equal(own->nvms, 156);    /* the published record's */
    assert_int_equal(shared->nvms, 137); /* 5 x 26 + 7 */
    all_differ(own);
    drop(own);
    drop(shared);
}

static void data_disks(void **state)
{
    struct run *run = plan(5, 4, VT_ACCEL_TCG);
    const struct run_vm *four = serving(run, "database", 2), *one = serving(run, "database", 5);

    (void)state;
    /* memory by default under emulation, a disk where one was asked for */
    assert_null(serving(run, "web", 1)->data_disk);
    assert_int_equal(serving(run, "web", 1)->domain.ndisks, 3);
    assert_int_equal(four->domain.ndisks, 4);
    assert_ptr_equal(four->data_disk, &four->domain.disks[3]);
    assert_string_equal(four->data_disk->path, "/s/disks/1a2b3c4d5e6f/database-1.raw");
    assert_string_equal(four->data_disk->serial, "vt-data");
    assert_false(four->data_disk->readonly);
    assert_int_equal(four->disk_bytes, 4ULL << 30);
    assert_int_equal(one->disk_bytes, 1ULL << 30);
    drop(run);
    run = plan(1, 1, VT_ACCEL_KVM);
    for (unsigned i = 0; i < run->nvms; i++)
        assert_int_equal(run->vms[i].disk_bytes,
                         is(&run->vms[i], "database") ? 8ULL << 30 : 4ULL << 30);
    drop(run);
}

static void the_same_run_gives_the_same_plan(void **state)
{
    struct run *a = plan(5, 3, VT_ACCEL_TCG), *b = plan(5, 3, VT_ACCEL_TCG);

    (void)state;
    assert_int_equal(a->nvms, b->nvms);
    for (unsigned i = 0; i < a->nvms; i++)
        assert_memory_equal(&a->vms[i].domain, &b->vms[i].domain, sizeof(a->vms[i].domain));
    drop(a);
    drop(b);
}

/* [ours] 64 MiB of emulator and 64 MiB of translated code a VM. */
static void what_a_tile_takes(void **state)
{
    struct run *run = plan(1, 4, VT_ACCEL_TCG);
    struct preflight_needs needs = {0};
    struct preflight_sum sum;

    (void)state;
    run_fill_needs(&run->spec, VT_ACCEL_TCG, 5, &needs);
    assert_int_equal(needs.nroles, 6);
    sum = preflight_sum(needs.roles, needs.nroles, 5);
    assert_int_equal(sum.vms, 27);
    assert_int_equal(sum.vcpus, 27);
    /* 25 x (128 + 128) + 2 x (256 + 128) */
    assert_int_equal(sum.memory_bytes, 7168ULL << 20);
    assert_int_equal(sum.disk_bytes, 5ULL << 30);
    assert_int_equal(sum.data_bytes, 40ULL << 20);
    drop(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_vms),
        cmocka_unit_test(a_shared_database_knows_its_applications),
        cmocka_unit_test(a_published_run_has_156_vms_without_sharing_and_137_with),
        cmocka_unit_test(data_disks),
        cmocka_unit_test(the_same_run_gives_the_same_plan),
        cmocka_unit_test(what_a_tile_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
