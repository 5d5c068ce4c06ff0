/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan: spec -> virtual machines with names, addresses, sizes and disks. Pure: the same settings
 * and run id give the same plan, and nothing outside this process is touched.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/host/preflight.h"
#include "orchestrator/run/run.h"

/* Booting a server translates some 90 MiB of code. With 32 MiB all of it was thrown away four times
 * on the way, which cost a tenth of the CPU; QEMU's own default is 1 GiB. */
#define TB_CACHE_BYTES (64ULL << 20)

_Static_assert(PREFLIGHT_ROLES_MAX >= SPEC_ROLES_MAX && PREFLIGHT_TILES_MAX >= SPEC_TILES_MAX,
               "preflight has room for every spec");

/* The role whose VM db_share tiles have in common. */
#define SHARED_ROLE "database"

static int set_path(char *dst, size_t size, struct vt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int set_path(char *dst, size_t size, struct vt_error *err, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(dst, size, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= size)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG,
                            "path too long: %.80s...; choose a shorter VTILE_STATE", dst);
    return 0;
}

/* A file that grows with what is written; a shared database has room for each tile's data. */
static int plan_data_disk(const struct run *run, struct run_vm *vm, struct vt_error *err)
{
    const struct spec_role_size *size = &vm->spec->size[run->size];
    struct vt_disk *disk = &vm->domain.disks[vm->domain.ndisks];
    int ret;

    if (!size->disk_bytes)
        return 0;
    ret = set_path(disk->path, sizeof(disk->path), err, "%s/%s.raw", run->disk_folder, vm->agent);
    if (ret < 0)
        return ret;
    vt_text_copy(disk->serial, sizeof(disk->serial), IMAGE_SERIAL_DATA);
    vm->disk_bytes = size->disk_bytes * vm->ntiles;
    vm->data_disk = disk;
    vm->domain.ndisks++;
    return 0;
}

static int plan_disks(const struct run *run, struct run_vm *vm, struct vt_error *err)
{
    struct vt_domain *d = &vm->domain;
    const struct {
        const char *path, *serial;
    } disks[] = {{run->image.packages, IMAGE_SERIAL_PACKAGES},
                 {run->image.roles, IMAGE_SERIAL_ROLES},
                 {vm->config_path, IMAGE_SERIAL_CONFIG}};

    for (size_t i = 0; i < VT_COUNT(disks); i++) {
        struct vt_disk *disk = &d->disks[d->ndisks++];

        if (set_path(disk->path, sizeof(disk->path), err, "%s", disks[i].path) < 0)
            return err ? err->code : -ENAMETOOLONG;
        vt_text_copy(disk->serial, sizeof(disk->serial), disks[i].serial);
        disk->readonly = true;
    }
    return plan_data_disk(run, vm, err);
}

/* The same run id, tile and role give the same UUID: version 8 (free form) of RFC 9562. */
static void plan_uuid(struct vt_domain *domain, const char *run_id, unsigned tile, unsigned role)
{
    struct vt_rng rng;
    uint64_t a, b;

    vt_rng_seed(&rng, strtoull(run_id, NULL, 16), "uuid", (uint64_t)tile * SPEC_ROLES_MAX + role);
    a = (vt_rng_next(&rng) & ~UINT64_C(0xf000)) | UINT64_C(0x8000);
    b = (vt_rng_next(&rng) & ~(UINT64_C(3) << 62)) | (UINT64_C(2) << 62);
    snprintf(domain->uuid, sizeof(domain->uuid), "%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32),
             (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xffff), (unsigned)(b >> 48),
             (unsigned long long)(b & UINT64_C(0xffffffffffff)));
}

static int plan_nic(const struct run *run, struct run_vm *vm, char letter, struct vt_error *err)
{
    struct vt_nic *nic = &vm->domain.nics[0];
    unsigned try_number = 0;
    int ret = net_address(vm->tile, vm->role_index, 0, vm->address, err);

    if (ret == 0)
        ret = net_name_tap(run->id, vm->tile, letter, 0, nic->tap, err);
    if (ret < 0)
        return ret;
    for (;;) {
        bool taken = false;

        net_mac(run->id, vm->tile, vm->role_index, 0, try_number++, nic->mac);
        for (const struct run_vm *other = run->vms; other < vm && !taken; other++)
            taken = net_mac_is_taken(nic->mac, other->domain.nics, other->domain.nnics);
        if (!taken)
            break;
    }
    vm->domain.nnics = 1;
    return 0;
}

static int plan_vm(const struct run *run, struct run_vm *vm, char letter, struct vt_error *err)
{
    const struct spec_role_size *size = &vm->spec->size[run->size];
    struct vt_domain *d = &vm->domain;
    int ret;

    d->tile = vm->tile;
    d->accel = run->accel;
    d->vcpus = (unsigned)size->vcpus;
    d->memory_bytes = size->memory_bytes;
    d->tb_cache_bytes = run->accel == VT_ACCEL_TCG ? TB_CACHE_BYTES : 0;
    vt_text_copy(d->run, sizeof(d->run), run->id);
    vt_text_copy(d->controller, sizeof(d->controller), run->state.controller);
    vt_text_copy(d->role, sizeof(d->role), vm->role->name);
    vt_text_copy(d->cmdline, sizeof(d->cmdline),
                 run->accel == VT_ACCEL_TCG ? IMAGE_CMDLINE : IMAGE_CMDLINE_KVM);
    plan_uuid(d, run->id, vm->tile, vm->role_index);
    snprintf(vm->agent, sizeof(vm->agent), "%s-%u", vm->role->name, vm->tile);
    ret = net_name_domain(run->id, vm->tile, vm->role->short_name, d->name, sizeof(d->name), err);
    if (ret == 0)
        ret = plan_nic(run, vm, letter, err);
    if (ret == 0)
        ret = set_path(d->kernel, sizeof(d->kernel), err, "%s", run->image.kernel);
    if (ret == 0)
        ret = set_path(d->initrd, sizeof(d->initrd), err, "%s", run->image.initrd);
    if (ret == 0)
        ret = set_path(vm->config_path, sizeof(vm->config_path), err, "%s/%s.conf", run->folder,
                       vm->agent);
    if (ret == 0)
        ret = set_path(d->console_log, sizeof(d->console_log), err, "%s/%s.console", run->folder,
                       vm->agent);
    return ret < 0 ? ret : plan_disks(run, vm, err);
}

static int plan_folders(struct run *run, struct vt_error *err)
{
    int ret = set_path(run->folder, sizeof(run->folder), err, "%s/%s", run->state.runtime, run->id);

    if (ret == 0)
        ret = set_path(run->client_config, sizeof(run->client_config), err, "%s/client.conf",
                       run->folder);
    if (ret == 0)
        ret = set_path(run->results, sizeof(run->results), err, "%s/results", run->state.folder);
    if (ret == 0)
        ret = set_path(run->disk_folder, sizeof(run->disk_folder), err, "%s/disks/%s",
                       run->state.folder, run->id);
    /* A folder, since SQLite has files beside its own while a record is written. */
    if (ret == 0)
        ret = set_path(run->record_folder, sizeof(run->record_folder), err, "%s/.%s", run->results,
                       run->id);
    if (ret == 0)
        ret = set_path(run->record_path, sizeof(run->record_path), err, "%s/record.sqlite",
                       run->record_folder);
    if (ret == 0)
        ret = set_path(run->archive_path, sizeof(run->archive_path), err, "%s/%s%s", run->results,
                       run->id, ARCHIVE_SUFFIX);
    return ret;
}

/* The VM of that role that serves the tile: for a shared database the first of its tiles'. */
static bool has_vm(const struct run *run, const struct spec_role *role, unsigned tile)
{
    return strcmp(role->name, SHARED_ROLE) != 0 || (tile - 1) % (unsigned)run->spec.db_share == 0;
}

static unsigned tiles_of(const struct run *run, const struct run_vm *vm, unsigned tiles)
{
    unsigned share = (unsigned)run->spec.db_share, left = tiles - vm->tile + 1;

    if (strcmp(vm->spec->name, SHARED_ROLE) != 0)
        return 1;
    return left < share ? left : share;
}

void run_fill_needs(const struct spec *spec, enum vt_accel accel, unsigned tiles,
                    struct preflight_needs *needs)
{
    bool tcg = accel == VT_ACCEL_TCG;

    needs->spec = spec->name;
    needs->tiles = tiles;
    for (size_t r = 0; r < spec->nroles; r++) {
        const struct spec_role *role = &spec->roles[r];
        const struct spec_role_size *size = &role->size[tcg ? SPEC_SIZE_TCG : SPEC_SIZE_KVM];

        needs->roles[needs->nroles++] = (struct preflight_role){
            .memory_bytes = size->memory_bytes + (tcg ? TB_CACHE_BYTES : 0) + PREFLIGHT_VM_OVERHEAD,
            .disk_bytes = size->disk_bytes,
            .data_bytes = size->data_bytes,
            .vcpus = (unsigned)size->vcpus,
            .share = strcmp(role->name, SHARED_ROLE) == 0 ? (unsigned)spec->db_share : 1,
        };
    }
}

static int plan_tile(struct run *run, unsigned tile, unsigned tiles, const char *letters,
                     struct vt_error *err)
{
    for (unsigned r = 0; r < run->spec.nroles; r++) {
        struct run_vm *vm = &run->vms[run->nvms];
        int ret;

        if (!has_vm(run, &run->spec.roles[r], tile))
            continue;
        vm->run = run;
        vm->spec = &run->spec.roles[r];
        vm->role = role_find(vm->spec->name);
        vm->tile = tile;
        vm->ntiles = tiles_of(run, vm, tiles);
        vm->role_index = r;
        ret = plan_vm(run, vm, letters[r], err);
        if (ret < 0)
            return vt_error_wrap(err, "plan %s of tile %u", vm->spec->name, tile);
        run->nvms++;
        if (vm->spec->driven)
            run->loads[run->nloads++].vm = vm;
    }
    return 0;
}

static int plan_vms(struct run *run, unsigned tiles, struct vt_error *err)
{
    const char *short_names[SPEC_ROLES_MAX] = {NULL};
    char letters[SPEC_ROLES_MAX];
    unsigned ndriven = 0;
    int ret;

    for (size_t r = 0; r < run->spec.nroles; r++) {
        short_names[r] = role_find(run->spec.roles[r].name)->short_name;
        ndriven += run->spec.roles[r].driven;
    }
    ret = net_role_letters(short_names, run->spec.nroles, letters, err);
    if (ret < 0)
        return ret;
    run->vms = calloc(tiles * run->spec.nroles + 1, sizeof(*run->vms));
    run->loads = calloc(tiles * ndriven + 1, sizeof(*run->loads));
    if (!run->vms || !run->loads)
        return vt_error_no_memory(err, "plan of %u tiles", tiles);
    for (unsigned tile = 1; ret == 0 && tile <= tiles; tile++)
        ret = plan_tile(run, tile, tiles, letters, err);
    return ret;
}

bool run_vm_serves(const struct run_vm *vm, unsigned tile)
{
    return tile >= vm->tile && tile < vm->tile + vm->ntiles;
}

static bool needs(const struct role *role, const struct role *other)
{
    for (const char *const *peer = role->peers; *peer; peer++)
        if (strcmp(*peer, other->name) == 0)
            return true;
    return false;
}

bool run_vm_knows(const struct run_vm *vm, const struct run_vm *peer)
{
    return run_vm_serves(peer, vm->tile) ||
           (run_vm_serves(vm, peer->tile) && needs(peer->role, vm->role));
}

int run_plan(struct run *run, struct vt_error *err)
{
    int ret = plan_folders(run, err);

    return ret < 0 ? ret : plan_vms(run, (unsigned)run->settings.tiles, err);
}

struct run_vm *run_find_vm(struct run *run, const char *agent)
{
    for (unsigned i = 0; i < run->nvms; i++)
        if (!strcmp(run->vms[i].agent, agent))
            return &run->vms[i];
    return NULL;
}
