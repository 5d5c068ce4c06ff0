/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/image/bzimage.h"

#include <archive.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/scope.h"

#define SECTOR_BYTES 512
#define SETUP_SECTS 0x1f1
#define BOOT_FLAG 0x1fe
#define HEADER_MAGIC 0x202
#define PROTOCOL 0x206
#define PAYLOAD_OFFSET 0x248
#define PAYLOAD_LENGTH 0x24c
#define HEADER_END 0x250

#define XEN_NOTE_PHYS32_ENTRY 18

static uint32_t le16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t le32(const uint8_t *p)
{
    return le16(p) | le16(p + 2) << 16;
}

int image_bzimage_payload(const uint8_t *data, size_t len, size_t *ret_offset, size_t *ret_len,
                          struct vt_error *err)
{
    size_t sectors, offset, size;

    if (len < HEADER_END || le16(data + BOOT_FLAG) != 0xaa55 ||
        memcmp(data + HEADER_MAGIC, "HdrS", 4) != 0)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "not a Linux kernel (bzImage)");
    if (le16(data + PROTOCOL) < 0x208)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG,
                            "boot protocol %#x, expected 0x208 or later", le16(data + PROTOCOL));
    sectors = data[SETUP_SECTS] ? data[SETUP_SECTS] : 4;
    offset = (sectors + 1) * SECTOR_BYTES + le32(data + PAYLOAD_OFFSET);
    size = le32(data + PAYLOAD_LENGTH);
    if (offset > len || size > len - offset || size < 8)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG,
                            "compressed kernel at %zu+%zu lies outside of the file's %zu bytes",
                            offset, size, len);
    *ret_offset = offset;
    *ret_len = size;
    return 0;
}

static int read_stream(struct archive *a, struct vt_buf *out, struct vt_error *err)
{
    struct archive_entry *entry;
    char chunk[65536];
    la_ssize_t n;

    if (archive_read_next_header(a, &entry) != ARCHIVE_OK)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "decompress: %s",
                            archive_error_string(a) ? archive_error_string(a) : "empty");
    while ((n = archive_read_data(a, chunk, sizeof chunk)) > 0 && !out->failed)
        vt_buf_add(out, chunk, (size_t)n);
    if (n < 0)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "decompress: %s",
                            archive_error_string(a) ? archive_error_string(a) : "damaged");
    return vt_buf_check(out, "decompress", err);
}

int image_decompress(const uint8_t *data, size_t len, struct vt_buf *out, struct vt_error *err)
{
    struct archive *a = archive_read_new();
    int r;

    if (!a)
        return vt_error_no_memory(err, "decompress");
    archive_read_support_filter_all(a);
    archive_read_support_format_raw(a);
    if (archive_read_open_memory(a, data, len) != ARCHIVE_OK)
        r = vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "decompress: %s", archive_error_string(a));
    else
        r = read_stream(a, out, err);
    archive_read_free(a);
    return r;
}

/* One note at p; false at the end or where it would leave the segment. */
static bool next_note(const uint8_t *data, size_t *at, size_t end, bool *ret_pvh)
{
    size_t name, desc, total;

    if (end - *at < sizeof(Elf64_Nhdr))
        return false;
    name = le32(data + *at);
    desc = le32(data + *at + 4);
    /* Both below 2^32 in size_t of 64 bits: the sums cannot wrap. */
    total = sizeof(Elf64_Nhdr) + ((name + 3) & ~(size_t)3) + ((desc + 3) & ~(size_t)3);
    if (total > end - *at)
        return false;
    *ret_pvh = le32(data + *at + 8) == XEN_NOTE_PHYS32_ENTRY && name == 4 &&
               memcmp(data + *at + sizeof(Elf64_Nhdr), "Xen", 4) == 0;
    *at += total;
    return true;
}

int image_vmlinux_check(const uint8_t *data, size_t len, struct vt_error *err)
{
    Elf64_Ehdr head;

    if (len < sizeof head || memcmp(data, ELFMAG, SELFMAG) != 0 || data[EI_CLASS] != ELFCLASS64)
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "no 64-bit ELF file");
    memcpy(&head, data, sizeof head);
    if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phoff > len ||
        head.e_phnum > (len - head.e_phoff) / sizeof(Elf64_Phdr))
        return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "its program headers lie outside of it");
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        bool pvh = false;

        memcpy(&segment, data + head.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type != PT_NOTE)
            continue;
        if (segment.p_offset > len || segment.p_filesz > len - segment.p_offset)
            return vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "its notes lie outside of it");
        for (size_t at = segment.p_offset, end = at + segment.p_filesz;
             !pvh && next_note(data, &at, end, &pvh);)
            ;
        if (pvh)
            return 0;
    }
    return vt_error_set(err, VT_KIND_CONFIG, -ENOTSUP, "it has no PVH entry (CONFIG_PVH)");
}

int image_file_write(const char *path, const void *data, size_t len, unsigned mode,
                     struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int r;

    if (fd < 0 || fchmod(fd, mode) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "create %s", path);
    r = vt_file_write_all(fd, data, len);
    return r < 0 ? vt_error_errno(err, VT_KIND_INFRA, -r, "write %s", path) : 0;
}

int image_vmlinux_extract(const char *vmlinuz, const char *vmlinux, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf in = VT_BUF_INIT(IMAGE_VMLINUZ_MAX);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(IMAGE_VMLINUX_MAX);
    const uint8_t *payload;
    size_t offset = 0, len = 0;
    uint32_t stated;
    int r = vt_file_read(vmlinuz, VT_KIND_CONFIG, &in, err);

    if (r < 0)
        return r;
    r = image_bzimage_payload((const uint8_t *)in.data, in.len, &offset, &len, err);
    if (r < 0)
        return vt_error_wrap(err, "kernel %s", vmlinuz);
    /* The build appends the uncompressed size, little endian; gzip has it in its own trailer. */
    payload = (const uint8_t *)in.data + offset;
    stated = le32(payload + len - 4);
    if (le16(payload) != 0x8b1f)
        len -= 4;
    r = image_decompress(payload, len, &out, err);
    if (r == 0 && out.len != stated)
        r = vt_error_set(err, VT_KIND_CONFIG, -EBADMSG, "%zu bytes came out, expected %u", out.len,
                         stated);
    if (r == 0)
        r = image_vmlinux_check((const uint8_t *)out.data, out.len, err);
    if (r < 0)
        return vt_error_wrap(err, "kernel %s", vmlinuz);
    return image_file_write(vmlinux, out.data, out.len, 0644, err);
}
