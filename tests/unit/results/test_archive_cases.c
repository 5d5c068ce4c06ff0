/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tars that two readers read differently: public ones, and the same tricks played with an archive
 * of ours. Each is refused, and the member at fault is named.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sample.h"

#include "base/scope.h"
#include "results/archive_tar.h"
#include "tests/unit/cases.h"

#define BLOCK ARCHIVE_TAR_BLOCK

static const char *fingerprint;

static int verify(const void *data, size_t len, struct vt_error *err)
{
    struct archive_trust trust = {&fingerprint, 1};
    struct archive_report report = {0};
    int r = archive_verify_memory(data, len, &trust, &report, err);

    archive_report_dispose(&report);
    return r;
}

/* --- public tars --- */

static const char *const names_18[] = {
    "01-pax-size-before-longname",
    "02-pax-size-differs",
    "03-pax-two-paths",
    "04-member-twice",
    "05-dotdot",
    "06-absolute",
    "07-symlink-parent",
    "08-hardlink",
    "09-device",
    "10-negative-size",
    "11-base256-huge",
    "12-gnu-sparse-1tb",
    "13-data-after-end",
    "14-no-end",
    "15-escape-in-name",
    "16-case-collision",
    "17-bad-checksum",
    "18-cut-in-member",
};

static void refuse_file(const char *path)
{
    struct vt_error err = VT_ERROR_INIT;
    size_t len = 0;
    uint8_t *data = sample_read_file(path, &len);

    if (verify(data, len, &err) != -EBADMSG || err.kind != VT_KIND_REFUSED)
        fail_msg("%s: %s", path, err.text);
    if (!strstr(err.text, "member \"") && !strstr(err.text, "cut off") &&
        !strstr(err.text, "ends before") && !strstr(err.text, "does not begin with"))
        fail_msg("%s: '%s' names no member", path, err.text);
    for (const char *p = err.text; *p; p++)
        assert_in_range(*p, ' ', '~');
    free(data);
}

static void test_eighteen(void **state)
{
    char path[1024], relative[128];

    (void)state;
    for (size_t i = 0; i < VT_COUNT(names_18); i++) {
        snprintf(relative, sizeof(relative), "own/open/archive/%s.tar", names_18[i]);
        if (!cases_path(path, sizeof(path), relative))
            skip();
        refuse_file(path);
    }
}

static void test_folders(void **state)
{
    static const char *const folders[] = {"archive/go-archive-tar/archive/tar/testdata",
                                          "archive/go-archive-tar/tar/asm/testdata",
                                          "archive/tar-rs/tests/archives"};
    unsigned tried = 0;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(folders); i++) {
        char folder[1024], path[1400];
        const struct dirent *entry;
        struct stat st;
        if (!cases_path(folder, sizeof(folder), folders[i]))
            skip();
        DIR *dir = opendir(folder);
        assert_non_null(dir);
        while ((entry = readdir(dir))) {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
                continue;
            refuse_file(path);
            tried++;
        }
        closedir(dir);
    }
    print_message("%u files refused\n", tried);
    assert_true(tried > 60);
}

/* --- the same tricks, with everything else of the archive right --- */

struct archive {
    uint8_t *data;
    size_t len;
};

static size_t member_size(const struct archive *a, size_t at)
{
    return strtoull((const char *)a->data + at + 124, NULL, 8);
}

/* Offset of the header of member i; the end blocks for one behind the last. */
static size_t member_at(const struct archive *a, unsigned i)
{
    size_t at = 0;

    for (; i; i--) {
        size_t size = member_size(a, at);
        at += BLOCK + size + archive_tar_padding(size);
    }
    return at;
}

static void make_room(struct archive *a, size_t at, size_t len)
{
    a->data = realloc(a->data, a->len + len);
    assert_non_null(a->data);
    memmove(a->data + at + len, a->data + at, a->len - at);
    memset(a->data + at, 0, len);
    a->len += len;
}

static void fix_checksum(uint8_t *block)
{
    unsigned sum = 0;

    memset(block + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
}

static void insert(struct archive *a, size_t at, char type, const char *name, const char *text)
{
    size_t len = strlen(text), padded = len + archive_tar_padding(len);

    make_room(a, at, BLOCK + padded);
    archive_tar_header(a->data + at, name, len);
    a->data[at + 156] = (uint8_t)type;
    fix_checksum(a->data + at);
    memcpy(a->data + at + BLOCK, text, len);
}

static void pax_size(struct archive *a)
{
    insert(a, member_at(a, 3), 'x', "PaxHeader", "19 size=00000001942\n");
}
static void pax_path(struct archive *a)
{
    insert(a, member_at(a, 2), 'x', "PaxHeader", "22 path=manifest.json\n");
}
static void global_pax(struct archive *a)
{
    insert(a, 0, 'g', "pax_global_header", "16 comment=none\n");
}
static void gnu_long_name(struct archive *a)
{
    insert(a, member_at(a, 2), 'L', "././@LongLink", "manifest.json");
}
static void member_twice(struct archive *a)
{
    insert(a, member_at(a, 3), '0', "manifest.json", "{}");
}
static void member_more(struct archive *a)
{
    insert(a, member_at(a, 4), '0', "record.sqlite.zst.001", "more");
}
static void folder_first(struct archive *a)
{
    insert(a, 0, '5', "./", "");
}
static void link_last(struct archive *a)
{
    insert(a, member_at(a, 4), '2', "link", "");
}
static void dot_name(struct archive *a)
{
    memmove(a->data + 2, a->data, 10);
    memcpy(a->data, "./", 2);
    fix_checksum(a->data);
}
static void prefix(struct archive *a)
{
    a->data[345] = 'x';
    fix_checksum(a->data);
}
static void behind_name(struct archive *a)
{
    a->data[50] = 'x'; /* a name ends at its first NUL */
    fix_checksum(a->data);
}
static void old_type(struct archive *a)
{
    a->data[156] = '\0';
    fix_checksum(a->data);
}
static void gnu_magic(struct archive *a)
{
    memcpy(a->data + 257, "ustar  ", 8);
    fix_checksum(a->data);
}
static void owner(struct archive *a)
{
    memcpy(a->data + 265, "root", 4);
    fix_checksum(a->data);
}
static void mode(struct archive *a)
{
    memcpy(a->data + 100, "0000755", 7);
    fix_checksum(a->data);
}
static void size_base256(struct archive *a)
{
    size_t size = member_size(a, 0);
    memset(a->data + 124, 0, 12);
    a->data[124] = 0x80;
    a->data[135] = (uint8_t)size;
    fix_checksum(a->data);
}
static void size_spaces(struct archive *a)
{
    a->data[124] = ' ';
    fix_checksum(a->data);
}
static void size_huge(struct archive *a)
{
    memcpy(a->data + 124, "77777777777", 11);
    fix_checksum(a->data);
}
static void part_shorter(struct archive *a)
{
    size_t at = member_at(a, 3);
    archive_tar_header(a->data + at, "record.sqlite.zst.000", member_size(a, at) - 1);
}
static void one_end_block(struct archive *a)
{
    a->len -= BLOCK;
}
static void no_end(struct archive *a)
{
    a->len -= (size_t)2 * BLOCK;
}
static void tar_blocking(struct archive *a)
{
    make_room(a, a->len, 10240 - a->len % 10240);
}
static void second_archive(struct archive *a)
{
    size_t len = a->len;
    make_room(a, len, len);
    memcpy(a->data + len, a->data, len);
}
static void escape_name(struct archive *a)
{
    insert(a, 0, '0', "\033[31mSHA256SUMS\r", "x");
}

static void test_tricks(void **state)
{
    static const struct {
        void (*play)(struct archive *a);
        const char *says;
    } tricks[] = {
        {pax_size, "member \"PaxHeader\": is a pax header"},
        {pax_path, "member \"PaxHeader\": is a pax header"},
        {global_pax, "member \"pax_global_header\": is a global pax header"},
        {gnu_long_name, "member \"././@LongLink\": is a GNU long name"},
        {member_twice, "member \"manifest.json\": does not belong here"},
        {member_more, "end of archive"},
        {folder_first, "member \"./\": is a folder"},
        {link_last, "end of archive"},
        {dot_name, "member \"./SHA256SUMS\": does not belong here"},
        {prefix, "member \"x/SHA256SUMS\": does not belong here"},
        {behind_name, "member \"SHA256SUMS\": its header is not the one"},
        {old_type, "member \"SHA256SUMS\": is a file of an old tar"},
        {gnu_magic, "member \"SHA256SUMS\": its header is not the one"},
        {owner, "member \"SHA256SUMS\": its header is not the one"},
        {mode, "member \"SHA256SUMS\": its header is not the one"},
        {size_base256, "member \"SHA256SUMS\": its size is not eleven octal digits"},
        {size_spaces, "member \"SHA256SUMS\": its size is not eleven octal digits"},
        {size_huge, "member \"SHA256SUMS\": is larger than such a member can be"},
        {part_shorter, "the manifest says"},
        {one_end_block, "end of archive: the archive is cut off"},
        {no_end, "end of archive: the archive is cut off"},
        {tar_blocking, "bytes follow it"},
        {second_archive, "bytes follow it"},
        {escape_name, "member \"\\x1b[31mSHA256SUMS\\x0d\": does not belong here"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(tricks); i++) {
        struct vt_error err = VT_ERROR_INIT;
        struct archive a;
        a.data = sample_read_file(sample_path("good.vtar"), &a.len);
        assert_int_equal(verify(a.data, a.len, NULL), 0);
        tricks[i].play(&a);
        int r = verify(a.data, a.len, &err);
        if (r != -EBADMSG || !strstr(err.text, tricks[i].says))
            fail_msg("trick %zu: %d '%s'", i, r, err.text);
        free(a.data);
    }
}

static int setup(void **state)
{
    (void)state;
    fingerprint = sample_archive(sample_path("good.vtar"), &sample_small);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eighteen),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_tricks),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
