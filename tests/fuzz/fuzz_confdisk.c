/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The config disk's reader on any text. Length and sum are made right, or the checksum would keep
 * nearly everything out; what it accepts must come back the same after writing and reading.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/confdisk.h"

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static uint8_t disk[VT_CONFDISK_BYTES];
    static struct vt_confdisk conf, back;
    struct vt_error err = VT_ERROR_INIT;

    if (len > sizeof disk - 16)
        return 0;
    memset(disk, 0, sizeof disk);
    memcpy(disk, "VTCONF1\n", 8);
    put_u32(disk + 8, (uint32_t)len);
    put_u32(disk + 12, (uint32_t)crc32(0, data, (uInt)len));
    if (len > 0)
        memcpy(disk + 16, data, len);
    if (vt_confdisk_decode(disk, sizeof disk, &conf, &err) < 0) {
        if (err.kind != VT_KIND_REFUSED || !err.text[0])
            abort();
        return 0;
    }
    if (vt_confdisk_encode(&conf, disk, &err) < 0 ||
        vt_confdisk_decode(disk, sizeof disk, &back, &err) < 0 ||
        memcmp(&conf, &back, sizeof conf) != 0)
        abort();
    return 0;
}
