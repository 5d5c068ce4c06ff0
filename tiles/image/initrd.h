/* SPDX-License-Identifier: Apache-2.0 */
/*
 * initrd: the kernel modules a guest needs before it has a disk, and the initramfs that carries
 * them and vtile-init.
 */
#ifndef VTILE_TILES_IMAGE_INITRD_H
#define VTILE_TILES_IMAGE_INITRD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define IMAGE_MODULES_MAX 64
#define IMAGE_MODULE_BYTES_MAX (16u << 20)

/* The value of "depends=" (names with commas) in a module's information, as text into ret. Scans
 * the file's bytes: that is how the build writes it, NUL-terminated. False where there is none. */
bool image_module_depends(const uint8_t *data, size_t len, char *ret, size_t size);

/* From the unpacked kernel package at `tree`, the modules named in `wanted` (a line each, '#'
 * comments) and all they depend on, to `folder`/<nn>-<name>.ko: uncompressed, in load order.
 * What is built into the kernel is left out. */
int image_modules_extract(const char *tree, const char *wanted, const char *folder,
                          struct vt_error *err);

/* cpio (newc), uncompressed: under emulation unpacking costs more than reading. */
int image_initrd_write(const char *path, const char *init, const char *modules,
                       struct vt_error *err);

#endif
