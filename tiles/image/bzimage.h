/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bzimage: Debian ships vmlinuz; QEMU starts an uncompressed vmlinux with a PVH note directly,
 * which saves the guest the decompression: seconds under emulation. Format: Linux,
 * Documentation/arch/x86/boot.rst (payload_offset, payload_length, protocol 2.08).
 */
#ifndef VTILE_TILES_IMAGE_BZIMAGE_H
#define VTILE_TILES_IMAGE_BZIMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

#define IMAGE_VMLINUZ_MAX (64u << 20)
#define IMAGE_VMLINUX_MAX (256u << 20)

/* Where the compressed kernel stands inside a bzImage. -EBADMSG where it is none. */
int image_bzimage_payload(const uint8_t *data, size_t len, size_t *ret_offset, size_t *ret_len,
                          struct vt_error *err);
/* gzip, bzip2, xz, lzma, lz4 and zstd, by their magic; at most out->max bytes. */
int image_decompress(const uint8_t *data, size_t len, struct vt_buf *out, struct vt_error *err);
/* 0 where this is an ELF file with a PVH entry (Xen note 18, XEN_ELFNOTE_PHYS32_ENTRY). */
int image_vmlinux_check(const uint8_t *data, size_t len, struct vt_error *err);
/* vmlinuz to an uncompressed ELF file that QEMU and Xen start. */
int image_vmlinux_extract(const char *vmlinuz, const char *vmlinux, struct vt_error *err);

/* A new file, mode as given whatever the umask. */
int image_file_write(const char *path, const void *data, size_t len, unsigned mode,
                     struct vt_error *err);

#endif
