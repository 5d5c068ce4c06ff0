/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/image/bzimage.h"
#include "tiles/image/cache.h"
#include "tiles/image/initrd.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/vt-image-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return image_cache_remove(folder, NULL);
}

/* Good until the fourth next call. */
static const char *in_folder(const char *name)
{
    static char path[4][256];
    static int next;

    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static void write_new(const char *name, const void *data, size_t len)
{
    assert_int_equal(image_file_write(in_folder(name), data, len, 0644, NULL), 0);
}

/* --- vmlinux --- */

/* An ELF file that has one note segment with a note of GNU and then Xen's PVH entry, laid out by
 * hand as the ELF specification and xen/include/public/elfnote.h say. */
struct tiny_vmlinux {
    Elf64_Ehdr head;
    Elf64_Phdr load, note;
    uint32_t gnu[8];
    uint32_t xen[6];
};

static struct tiny_vmlinux tiny(void)
{
    struct tiny_vmlinux t;

    memset(&t, 0, sizeof t);
    memcpy(t.head.e_ident, ELFMAG, SELFMAG);
    t.head.e_ident[EI_CLASS] = ELFCLASS64;
    t.head.e_ident[EI_DATA] = ELFDATA2LSB;
    t.head.e_phoff = offsetof(struct tiny_vmlinux, load);
    t.head.e_phentsize = sizeof(Elf64_Phdr);
    t.head.e_phnum = 2;
    t.load.p_type = PT_LOAD;
    t.note.p_type = PT_NOTE;
    t.note.p_offset = offsetof(struct tiny_vmlinux, gnu);
    t.note.p_filesz = sizeof t.gnu + sizeof t.xen;
    memcpy(t.gnu, (const uint32_t[8]){4, 16, 3, 0x00554e47, 1, 2, 3, 4}, sizeof t.gnu);
    memcpy(t.xen, (const uint32_t[5]){4, 4, 18, 0x006e6558, 0x1000850}, sizeof t.xen - 4);
    t.note.p_filesz -= 4;
    return t;
}

static int check(const void *data, size_t len)
{
    /* In memory of exactly that size, so that a sanitizer sees a read past it. */
    VT_AUTO_FREE uint8_t *copy = malloc(len ? len : 1);

    memcpy(copy, data, len);
    return image_vmlinux_check(copy, len, NULL);
}

static void a_kernel_needs_the_pvh_note(void **state)
{
    struct tiny_vmlinux t = tiny();

    (void)state;
    assert_int_equal(check(&t, sizeof t), 0);
    t.xen[2] = 17;
    assert_int_equal(check(&t, sizeof t), -ENOTSUP);
    t = tiny();
    t.xen[3] = 0x006e6559;
    assert_int_equal(check(&t, sizeof t), -ENOTSUP);
    t = tiny();
    t.note.p_type = PT_LOAD;
    assert_int_equal(check(&t, sizeof t), -ENOTSUP);
}

static void a_damaged_elf_is_refused(void **state)
{
    struct tiny_vmlinux t = tiny();

    (void)state;
    for (size_t len = 0; len < sizeof t - 4; len++)
        assert_true(check(&t, len) < 0);
    t.head.e_phoff = UINT64_MAX - 8;
    assert_int_equal(check(&t, sizeof t), -EBADMSG);
    t = tiny();
    t.head.e_phnum = 0xffff;
    assert_int_equal(check(&t, sizeof t), -EBADMSG);
    t = tiny();
    t.note.p_filesz = UINT64_MAX;
    assert_int_equal(check(&t, sizeof t), -EBADMSG);
    t = tiny();
    t.note.p_offset = UINT64_MAX;
    assert_int_equal(check(&t, sizeof t), -EBADMSG);
    t = tiny();
    t.gnu[0] = 0xffffffff; /* the note's name ends outside: what follows is not looked at */
    assert_int_equal(check(&t, sizeof t), -ENOTSUP);
    t = tiny();
    t.gnu[1] = 0xfffffffc;
    assert_int_equal(check(&t, sizeof t), -ENOTSUP);
}

/* --- bzImage --- */

#define SETUP_BYTES (5 * 512)

/* Fields as in Linux' Documentation/arch/x86/boot.rst. */
static size_t make_bzimage(uint8_t *image, const void *payload, size_t len)
{
    memset(image, 0, SETUP_BYTES);
    image[0x1f1] = 4;
    image[0x1fe] = 0x55;
    image[0x1ff] = 0xaa;
    memcpy(image + 0x202, "HdrS", 4);
    image[0x206] = 0x0f;
    image[0x207] = 0x02;
    memcpy(image + 0x248, &(uint32_t){16}, 4);
    memcpy(image + 0x24c, &(uint32_t){(uint32_t)len}, 4);
    memset(image + SETUP_BYTES, 0x90, 16);
    memcpy(image + SETUP_BYTES + 16, payload, len);
    memset(image + SETUP_BYTES + 16 + len, 0xcc, 100);
    return SETUP_BYTES + 16 + len + 100;
}

static int payload_of(const uint8_t *image, size_t len, size_t *at, size_t *size)
{
    VT_AUTO_FREE uint8_t *copy = malloc(len ? len : 1);

    memcpy(copy, image, len);
    return image_bzimage_payload(copy, len, at, size, NULL);
}

static void the_payload_of_a_bzimage_is_found(void **state)
{
    static uint8_t image[8192];
    size_t len = make_bzimage(image, "0123456789abcdef", 16), at, size;

    (void)state;
    assert_int_equal(payload_of(image, len, &at, &size), 0);
    assert_int_equal(at, SETUP_BYTES + 16);
    assert_int_equal(size, 16);
    image[0x1f1] = 0; /* an old way to say 4 */
    assert_int_equal(payload_of(image, len, &at, &size), 0);
    assert_int_equal(at, SETUP_BYTES + 16);
    for (size_t cut = 0; cut < SETUP_BYTES + 32; cut++)
        assert_int_equal(payload_of(image, cut, &at, &size), -EBADMSG);
}

static void a_bzimage_that_points_outside_is_refused(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
    } edits[] = {{0x248, 0xffffffff}, {0x24c, 0xffffffff}, {0x24c, 0},      {0x24c, 7},
                 {0x202, 0},          {0x1fc, 0},          {0x206, 0x0207}, {0x248, 0x7fffffff}};
    static uint8_t image[8192];
    size_t at, size;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(edits); i++) {
        size_t len = make_bzimage(image, "0123456789abcdef", 16);

        memcpy(image + edits[i].at, &edits[i].value, 4);
        assert_int_equal(payload_of(image, len, &at, &size), -EBADMSG);
    }
}

static size_t gzip_with(const void *data, size_t len, uint8_t *out, size_t size)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)len;
    z.next_out = out;
    z.avail_out = (uInt)size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

/* By the machine's own tool, as Linux' scripts/Makefile.lib calls it, and the size behind it. */
static size_t pack_with(const char *const *argv, const void *data, size_t len, uint8_t *out,
                        size_t size)
{
    VT_AUTO_BUF struct vt_buf packed = VT_BUF_INIT(size - 4);

    unlink(in_folder("plain"));
    write_new("plain", data, len);
    assert_int_equal(vt_proc_run(argv, &packed, 0, NULL), 0);
    memcpy(out, packed.data, packed.len);
    memcpy(out + packed.len, &(uint32_t){(uint32_t)len}, 4);
    return packed.len + 4;
}

static void expect_extracted(const uint8_t *payload, size_t len, const struct tiny_vmlinux *t)
{
    static uint8_t image[8192];
    VT_AUTO_BUF struct vt_buf got = VT_BUF_INIT(65536);
    struct vt_error err = VT_ERROR_INIT;

    unlink(in_folder("vmlinuz"));
    unlink(in_folder("vmlinux"));
    write_new("vmlinuz", image, make_bzimage(image, payload, len));
    if (image_vmlinux_extract(in_folder("vmlinuz"), in_folder("vmlinux"), &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(vt_file_read(in_folder("vmlinux"), VT_KIND_CONFIG, &got, NULL), 0);
    assert_int_equal(got.len, sizeof *t);
    assert_memory_equal(got.data, t, sizeof *t);
}

static void every_compression_of_a_kernel_is_undone(void **state)
{
    struct tiny_vmlinux t = tiny();
    char plain[128];
    const char *const xz[] = {"xz", "--check=crc32", "-c", plain, NULL};
    const char *const lz4[] = {"lz4", "-l", "-9", "-c", plain, NULL};
    const char *const zstd[] = {"zstd", "-q", "-c", plain, NULL};
    const char *const *const tools[] = {xz, lz4, zstd};
    uint8_t payload[4096];

    (void)state;
    vt_text_copy(plain, sizeof plain, in_folder("plain"));
    expect_extracted(payload, gzip_with(&t, sizeof t, payload, sizeof payload), &t);
    for (size_t i = 0; i < VT_COUNT(tools); i++) {
        char path[64];

        snprintf(path, sizeof path, "/usr/bin/%s", tools[i][0]);
        if (access(path, X_OK) < 0)
            continue; /* gzip above is always there */
        expect_extracted(payload, pack_with(tools[i], &t, sizeof t, payload, sizeof payload), &t);
    }
}

static void a_kernel_that_does_not_unpack_leaves_no_file(void **state)
{
    static uint8_t image[8192];
    struct tiny_vmlinux t = tiny();
    uint8_t payload[4096];
    size_t len = gzip_with(&t, sizeof t, payload, sizeof payload);
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    for (size_t cut = 8; cut < len; cut++) {
        unlink(in_folder("vmlinuz"));
        write_new("vmlinuz", image, make_bzimage(image, payload, cut));
        assert_true(image_vmlinux_extract(in_folder("vmlinuz"), in_folder("none"), NULL) < 0);
        assert_int_equal(access(in_folder("none"), F_OK), -1);
    }
    /* A right gzip stream of something that is no kernel. */
    len = gzip_with("not a kernel", 12, payload, sizeof payload);
    unlink(in_folder("vmlinuz"));
    write_new("vmlinuz", image, make_bzimage(image, payload, len));
    assert_int_equal(image_vmlinux_extract(in_folder("vmlinuz"), in_folder("none"), &err),
                     -EBADMSG);
    assert_int_equal(access(in_folder("none"), F_OK), -1);
}

static void decompression_stops_at_its_bound(void **state)
{
    static uint8_t zeros[1 << 20], packed[4096];
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100000);
    size_t len = gzip_with(zeros, sizeof zeros, packed, sizeof packed);

    (void)state;
    assert_int_equal(image_decompress(packed, len, &out, NULL), -ENOBUFS);
}

/* --- modules --- */

static void what_a_module_depends_on_is_read(void **state)
{
    static const uint8_t with[] =
        "\177ELF\0xdepends=no\0license=GPL\0depends=virtio,virtio_ring\0x";
    static const uint8_t without[] = "\177ELF\0license=GPL\0depends";
    static const uint8_t open_end[] = {0, 'd', 'e', 'p', 'e', 'n', 'd', 's', '=', 'a'};
    char got[32];

    (void)state;
    assert_true(image_module_depends(with, sizeof with, got, sizeof got));
    assert_string_equal(got, "virtio,virtio_ring");
    assert_false(image_module_depends(with, sizeof with, got, 8));
    assert_false(image_module_depends(without, sizeof without, got, sizeof got));
    assert_false(image_module_depends(open_end, sizeof open_end, got, sizeof got));
    assert_false(image_module_depends(open_end, 0, got, sizeof got));
}

static void put_module(const char *name, const char *depends)
{
    char path[128], data[256] = "\177ELF";
    int n = 5 + snprintf(data + 5, sizeof data - 5, "depends=%s", depends) + 1;

    snprintf(path, sizeof path, "tree/%s.ko", name);
    write_new(path, data, (size_t)n);
}

static void modules_come_in_load_order(void **state)
{
    static const char *const expected[] = {"00-virtio.ko", "01-virtio_ring.ko", "02-virtio_pci.ko",
                                           "03-erofs.ko"};
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(mkdir(in_folder("tree"), 0755), 0);
    assert_int_equal(mkdir(in_folder("out"), 0755), 0);
    put_module("virtio_pci", "virtio_ring,virtio");
    put_module("virtio_ring", "virtio");
    put_module("virtio", "");
    put_module("erofs", "libcrc32c");
    put_module("loop-a", "loop-b");
    put_module("loop-b", "loop-a");
    put_module("unused", "missing");
    write_new("tree/modules.builtin", "kernel/lib/libcrc32c.ko\n", 24);
    assert_int_equal(image_modules_extract(in_folder("tree"),
                                           "# first\nvirtio_pci\n\nerofs\nvirtio", in_folder("out"),
                                           &err),
                     0);
    for (size_t i = 0; i < VT_COUNT(expected); i++) {
        char path[64];

        snprintf(path, sizeof path, "out/%s", expected[i]);
        assert_int_equal(unlink(in_folder(path)), 0);
    }
    assert_int_equal(rmdir(in_folder("out")), 0); /* nothing else was in it */
    assert_int_equal(mkdir(in_folder("out"), 0755), 0);
    assert_int_equal(image_modules_extract(in_folder("tree"), "unused", in_folder("out"), &err),
                     -ENOENT);
    assert_non_null(strstr(err.text, "missing"));
    assert_int_equal(image_modules_extract(in_folder("tree"), "loop_a", in_folder("out"), &err),
                     -ELOOP);
}

/* cpio(1) is the judge. */
static void the_initramfs_is_a_cpio_archive(void **state)
{
    char path[128];
    const char *const argv[] = {"cpio",      "--quiet", "--extract", "--list",
                                "--verbose", "--file",  path,        NULL};
    VT_AUTO_BUF struct vt_buf list = VT_BUF_INIT(65536);

    (void)state;
    vt_text_copy(path, sizeof path, in_folder("initrd"));
    if (access("/usr/bin/cpio", X_OK) < 0)
        skip();
    assert_int_equal(mkdir(in_folder("modules"), 0755), 0);
    write_new("modules/00-a.ko", "aaaa", 4);
    write_new("modules/01-b.ko", "b", 1);
    write_new("init", "#!", 2);
    assert_int_equal(
        image_initrd_write(in_folder("initrd"), in_folder("init"), in_folder("modules"), NULL), 0);
    assert_int_equal(vt_proc_run(argv, &list, 0, NULL), 0);
    assert_non_null(
        strstr(list.data, "-rwxr-xr-x   1 root     root            2 Jan  1  1970 init"));
    assert_non_null(strstr(list.data, "modules/00-a.ko\n"));
    assert_true(strstr(list.data, "modules/00-a.ko") < strstr(list.data, "modules/01-b.ko"));
    assert_non_null(strstr(list.data, "drwxr-xr-x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_needs_the_pvh_note),
        cmocka_unit_test(a_damaged_elf_is_refused),
        cmocka_unit_test(the_payload_of_a_bzimage_is_found),
        cmocka_unit_test(a_bzimage_that_points_outside_is_refused),
        cmocka_unit_test_setup_teardown(every_compression_of_a_kernel_is_undone, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_kernel_that_does_not_unpack_leaves_no_file, make_folder,
                                        remove_folder),
        cmocka_unit_test(decompression_stops_at_its_bound),
        cmocka_unit_test(what_a_module_depends_on_is_read),
        cmocka_unit_test_setup_teardown(modules_come_in_load_order, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_initramfs_is_a_cpio_archive, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
