/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept: what servers acknowledged, held against what was found again after the window. Both are
 * bitmaps among the record's logs, a bit a step of the role's schedule (of byte i / 8, from the
 * lowest): acknowledged.<role>.<tile>.bits of the load client, kept.<role>.<tile>.bits of the guest
 * that keeps it. Pure.
 */
#ifndef VTILE_RESULTS_KEPT_H
#define VTILE_RESULTS_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/record_rows.h"
#include "results/record.h"

#define KEPT_BYTES_MAX ((size_t)2 << 20) /* of one bitmap: 16,777,216 steps */
/* Of all in one record: 26 tiles of two such roles over two hours need 35 MiB. */
#define KEPT_ALL_BYTES_MAX ((size_t)512 << 20)
#define KEPT_FIRST_MAX 8

struct kept_counts {
    uint64_t acknowledged, kept, missing; /* missing: acknowledged and not kept */
    uint32_t first[KEPT_FIRST_MAX];       /* sequence numbers of the first that are missing */
    unsigned nfirst;
};
/* One role that has a bitmap of what was acknowledged. */
struct kept_role {
    unsigned tile;
    char role[VT_RECORD_NAME_MAX];
    struct kept_counts counts;
    const char *unknown; /* why missing cannot be told, NULL: it can */
};
struct kept {
    struct kept_role *roles;
    size_t nroles;
};

/* Bitmaps may differ in length: what one does not reach is not set. */
void kept_count(const uint8_t *acknowledged, size_t nacknowledged, const uint8_t *kept,
                size_t nkept, struct kept_counts *ret);
/* Of the roles of the record, in their order. Zeroed *ret is filled; dispose also after an error.
 */
int kept_compute(struct record_reader *reader, const struct vt_record_role *roles, size_t nroles,
                 struct kept *ret, struct vt_error *err);
void kept_dispose(struct kept *kept);

#endif
