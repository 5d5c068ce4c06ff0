/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept_bits: which steps' effects a guest has found after the window, as role.h says.
 */
#ifndef VTILE_TILES_ROLES_KEPT_BITS_H
#define VTILE_TILES_ROLES_KEPT_BITS_H

#include "tiles/roles/role.h"

struct kept_bits {
    uint8_t *bits; /* SCHEDULE_STEPS_MAX of them */
    size_t len;    /* bytes up to the last that is set */
};

int kept_bits_init(struct kept_bits *kept, struct vt_error *err);
void kept_bits_dispose(struct kept_bits *kept);
/* 1; 0 where it was set before; -ERANGE: no step has that number. */
int kept_bits_set(struct kept_bits *kept, uint64_t sequence);
/* run_dir/kept.<role>.<tile>.bits */
void kept_bits_path(const struct role_guest *guest, const char *role, unsigned tile, char *path,
                    size_t size);
int kept_bits_write(const struct kept_bits *kept, const char *path, struct vt_error *err);
#define KEPT_BITS_AUTO __attribute__((cleanup(kept_bits_dispose)))

#endif
