/* SPDX-License-Identifier: Apache-2.0 */
#include "results/archive_tar.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"

/* Offsets of fields, from the format's table. */
enum {
    AT_NAME = 0,
    AT_MODE = 100,
    AT_UID = 108,
    AT_GID = 116,
    AT_SIZE = 124,
    AT_MTIME = 136,
    AT_CHECKSUM = 148,
    AT_TYPE = 156,
    AT_MAGIC = ARCHIVE_TAR_MAGIC_AT,
    AT_DEVMAJOR = 329,
    AT_DEVMINOR = 337,
    AT_PREFIX = 345,
    PREFIX_BYTES = 155,
};

/* width bytes: octal digits and a NUL. */
static void put_octal(uint8_t *at, int width, uint64_t value)
{
    at[width - 1] = '\0';
    for (int i = width - 2; i >= 0; i--) {
        at[i] = (uint8_t)('0' + (value & 7));
        value >>= 3;
    }
}

/* Sum of all bytes, those of the checksum itself taken as spaces. */
static unsigned checksum(const uint8_t *block)
{
    unsigned sum = 0;

    for (int i = 0; i < ARCHIVE_TAR_BLOCK; i++)
        sum += i >= AT_CHECKSUM && i < AT_TYPE ? ' ' : block[i];
    return sum;
}

void archive_tar_header(uint8_t block[ARCHIVE_TAR_BLOCK], const char *name, uint64_t size)
{
    memset(block, 0, ARCHIVE_TAR_BLOCK);
    memcpy(block + AT_NAME, name, strlen(name));
    put_octal(block + AT_MODE, 8, 0644);
    put_octal(block + AT_UID, 8, 0);
    put_octal(block + AT_GID, 8, 0);
    put_octal(block + AT_SIZE, 12, size);
    put_octal(block + AT_MTIME, 12, ARCHIVE_TAR_MTIME);
    block[AT_TYPE] = '0';
    memcpy(block + AT_MAGIC, "ustar\00000", 8); /* magic with its NUL, version "00" */
    put_octal(block + AT_DEVMAJOR, 8, 0);
    put_octal(block + AT_DEVMINOR, 8, 0);
    /* Six digits, NUL, space: as every tar writes it. */
    put_octal(block + AT_CHECKSUM, 7, checksum(block));
    block[AT_CHECKSUM + 7] = ' ';
}

uint64_t archive_tar_padding(uint64_t size)
{
    return (ARCHIVE_TAR_BLOCK - size % ARCHIVE_TAR_BLOCK) % ARCHIVE_TAR_BLOCK;
}

/* --- what stands there instead --- */

static bool get_octal(const uint8_t *at, int width, uint64_t *ret)
{
    uint64_t value = 0;

    for (int i = 0; i < width - 1; i++) {
        if (at[i] < '0' || at[i] > '7')
            return false;
        value = value << 3 | (uint64_t)(at[i] - '0');
    }
    *ret = value;
    return at[width - 1] == '\0';
}

static bool checksum_fits(const uint8_t *block)
{
    unsigned value = 0;

    for (int i = AT_CHECKSUM; i < AT_TYPE; i++) {
        if (block[i] >= '0' && block[i] <= '7')
            value = value << 3 | (unsigned)(block[i] - '0');
    }
    return value == checksum(block);
}

static const char *type_name(uint8_t type)
{
    static const struct {
        char type;
        const char *name;
    } names[] = {{'1', "a hard link"},        {'2', "a symbolic link"},
                 {'3', "a character device"}, {'4', "a block device"},
                 {'5', "a folder"},           {'6', "a FIFO"},
                 {'x', "a pax header"},       {'g', "a global pax header"},
                 {'L', "a GNU long name"},    {'K', "a GNU long link"},
                 {'S', "a GNU sparse file"},  {'\0', "a file of an old tar"}};

    for (size_t i = 0; i < VT_COUNT(names); i++) {
        if ((uint8_t)names[i].type == type)
            return names[i].name;
    }
    return "of an unknown type";
}

static size_t escape(const uint8_t *from, size_t max, char *to, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; i < max && from[i] && len + 5 < size; i++) {
        if (from[i] < ' ' || from[i] > '~' || from[i] == '"' || from[i] == '\\')
            len += (size_t)snprintf(to + len, size - len, "\\x%02x", from[i]);
        else
            to[len++] = (char)from[i];
    }
    to[len] = '\0';
    return len;
}

/* The name as a reader of ustar would put it together. */
static void found_name(const uint8_t *block, char *name, size_t size)
{
    size_t len = 0;

    if (block[AT_PREFIX]) {
        len = escape(block + AT_PREFIX, PREFIX_BYTES, name, size - 8);
        name[len++] = '/';
    }
    escape(block + AT_NAME, 100, name + len, size - len);
}

static int refuse(struct vt_error *err, const uint8_t *block, const char *why)
{
    char name[400];

    found_name(block, name, sizeof(name));
    return vt_error_refuse(err, "member \"%s\": %s", name, why);
}

static int explain(const uint8_t *block, const char *name, uint64_t max, uint64_t expected,
                   struct vt_error *err)
{
    static const uint8_t zero[ARCHIVE_TAR_BLOCK];
    char why[160];
    uint64_t size;

    if (!memcmp(block, zero, sizeof(zero)))
        return vt_error_refuse(err, "the archive ends before %s", name);
    if (!checksum_fits(block))
        return refuse(err, block, "the checksum of its header is wrong");
    if (block[AT_TYPE] != '0') {
        snprintf(why, sizeof(why), "is %s; an archive has plain files only",
                 type_name(block[AT_TYPE]));
        return refuse(err, block, why);
    }
    if (strncmp((const char *)block, name, ARCHIVE_TAR_NAME_MAX) != 0 || block[AT_PREFIX]) {
        snprintf(why, sizeof(why), "does not belong here; %s does", name);
        return refuse(err, block, why);
    }
    if (!get_octal(block + AT_SIZE, 12, &size))
        return refuse(err, block, "its size is not eleven octal digits");
    if (expected != ARCHIVE_TAR_ANY_SIZE && size != expected) {
        snprintf(why, sizeof(why), "has %" PRIu64 " bytes, the manifest says %" PRIu64, size,
                 expected);
        return refuse(err, block, why);
    }
    if (size > max)
        return refuse(err, block, "is larger than such a member can be");
    return refuse(err, block, "its header is not the one that vtile writes");
}

int archive_tar_check(const uint8_t block[ARCHIVE_TAR_BLOCK], const char *name, uint64_t max,
                      uint64_t *size, struct vt_error *err)
{
    uint8_t right[ARCHIVE_TAR_BLOCK];
    uint64_t found = *size;

    if (found == ARCHIVE_TAR_ANY_SIZE && !get_octal(block + AT_SIZE, 12, &found))
        return explain(block, name, max, *size, err);
    archive_tar_header(right, name, found);
    if (found > max || memcmp(block, right, sizeof(right)) != 0)
        return explain(block, name, max, *size, err);
    *size = found;
    return 0;
}
