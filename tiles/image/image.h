/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image: what guests boot. Four parts, each in a folder of the cache named by the SHA-256 of all
 * that went into it, so that a part made from something else can never serve:
 *   packages  erofs of Debian packages, made by mmdebstrap from this machine's own apt set-up;
 *             keyed by the resolved versions, the recipe and what roles add to it
 *   kernel    vmlinux (PVH) and modules from the kernel's package; keyed by its version
 *   initrd    vtile-init and the modules; keyed by kernel and vtile-init
 *   roles     erofs of vtile-agent and role files; keyed by their content; a second to build
 * The guest's root is roles over packages, with memory on top. A part is made in a temporary
 * folder and renamed when it is complete and on disk. Nothing here logs; progress is told by a
 * callback. The files of files/ are the recipes.
 */
#ifndef VTILE_TILES_IMAGE_IMAGE_H
#define VTILE_TILES_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/domain.h"
#include "base/error.h"

/* vtile-init finds its disks by these; the config disk is base/confdisk.h. */
#define IMAGE_SERIAL_PACKAGES "vt-packages"
#define IMAGE_SERIAL_ROLES "vt-roles"
#define IMAGE_SERIAL_CONFIG "vt-config"
#define IMAGE_SERIAL_DATA "vt-data"

/* A param of the config disk: "1" where the guest has a data disk. */
#define IMAGE_PARAM_DATA "data_disk"
/* In the guest: what a role keeps. The file system of the data disk is mounted there. */
#define IMAGE_DATA_DIR "/var/lib/vtile/data"

/* In the guest: a role's files/ are IMAGE_ROLES_DIR/<role>/. */
#define IMAGE_ROLES_DIR "/usr/share/vtile/roles"

/* Kernel command lines. What is left out for emulated CPUs costs CPU time there: the crypto
 * self-tests half a second a boot, mitigations each system call. tsc=reliable: with the counter
 * under watch a busy host makes the guest fall back to the HPET, an exit a clock reading.
 * noreplace-smp: on one CPU 9000 lock prefixes would be patched away, each through an address space
 * of its own, which is a twentieth of the boot; emulated, one CPU's locked accesses are plain ones.
 * Not acpi=noirq, although it saves a second a boot on machine "pc" (whose _PRT is a loop in byte
 * code, 0.2 s a virtio device; q35 has a table): a guest without I/O APIC has neither MSI-X nor
 * a second CPU. */
#define IMAGE_CMDLINE_KVM "console=ttyS0 quiet panic=-1 nowatchdog"
#define IMAGE_CMDLINE                                                                           \
    IMAGE_CMDLINE_KVM " mitigations=off no_timer_check tsc=reliable cryptomgr.notests audit=0 " \
                      "lsm= noreplace-smp"

#define IMAGE_KEY_MAX 65 /* 64 hex digits and NUL */

struct image {
    char kernel[VT_PATH_MAX];
    char initrd[VT_PATH_MAX];
    char packages[VT_PATH_MAX];
    char roles[VT_PATH_MAX];
    char kernel_version[128]; /* package and version */
    char key[IMAGE_KEY_MAX];  /* of the four together: for the record */
};

struct image_options {
    /* NULL: $VTILE_CACHE, else /var/cache/vtile for root (system daemons must be able to read
     * it, which /root does not allow), else $XDG_CACHE_HOME/vtile, else ~/.cache/vtile. */
    const char *cache;
    /* Folder of vtile-agent and vtile-init. NULL: $VTILE_GUEST_PROGRAMS, else that of this
     * program. */
    const char *programs;
    /* Told before each step that takes time; may be NULL. */
    void (*progress)(void *ctx, const char *step);
    void *ctx;
};

/* Makes what is missing; waits where another build holds the cache. Removes what killed builds
 * left, and all but the newest parts of each kind. Needs root for the packages part.
 * ret_built: how many parts had to be made; may be NULL. */
int image_build(const struct image_options *options, struct image *ret, unsigned *ret_built,
                struct vt_error *err);

/* The image for the packages, programs and role files as they are now. -ENOENT, kind CONFIG, says
 * which part is missing and to run `vtile image build`. */
int image_find(const struct image_options *options, struct image *ret, struct vt_error *err);

struct image_entry {
    char part[16]; /* "packages" ... */
    char key[IMAGE_KEY_MAX];
    uint64_t bytes;  /* allocated on disk */
    int64_t used_ns; /* last built or found, since 1970; builds take less than a second */
    bool current;    /* image_find would use it */
};
/* All parts in the cache, by part and newest first; free() the array. Empty is no error. */
int image_list(const struct image_options *options, struct image_entry **ret, size_t *ret_count,
               struct vt_error *err);

/* Removes what killed builds left, unless a build is at work; adds the number of half-made parts
 * to *removed. A cache that is not there is not made. */
int image_clean(const struct image_options *options, size_t *removed, struct vt_error *err);

/* The cache's folder as the options and the environment say. */
int image_cache_folder(const struct image_options *options, char *ret, size_t size,
                       struct vt_error *err);

#endif
