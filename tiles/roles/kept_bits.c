/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/kept_bits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/record_rows.h"
#include "tiles/load/schedule.h"

int kept_bits_init(struct kept_bits *kept, struct vt_error *err)
{
    *kept = (struct kept_bits){.bits = calloc(1, SCHEDULE_STEPS_MAX / 8)};
    return kept->bits ? 0 : vt_error_no_memory(err, "bits of what is kept");
}

void kept_bits_dispose(struct kept_bits *kept)
{
    free(kept->bits);
    kept->bits = NULL;
}

int kept_bits_set(struct kept_bits *kept, uint64_t sequence)
{
    uint8_t bit = (uint8_t)(1U << sequence % 8);
    size_t at = (size_t)(sequence / 8);

    if (sequence >= SCHEDULE_STEPS_MAX)
        return -ERANGE;
    if (kept->bits[at] & bit)
        return 0;
    kept->bits[at] |= bit;
    if (kept->len <= at)
        kept->len = at + 1;
    return 1;
}

void kept_bits_path(const struct role_guest *guest, const char *role, unsigned tile, char *path,
                    size_t size)
{
    snprintf(path, size, "%s/" VT_RECORD_KEPT "%s.%u" VT_RECORD_BITS, guest->run_dir, role, tile);
}

int kept_bits_write(const struct kept_bits *kept, const char *path, struct vt_error *err)
{
    return vt_file_write(path, kept->bits, kept->len, 0644, err);
}
