/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order_numbers: the numbers that an order carries, in one table for both ways: written to JSON by
 * who gives the order, read back within bounds by who gets it.
 */
#ifndef VTILE_TILES_LOAD_ORDER_NUMBERS_H
#define VTILE_TILES_LOAD_ORDER_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

/* Bounds of what any order holds. */
#define ORDER_MILLION 1000000
#define ORDER_HOUR_NS (3600 * VT_NS_PER_S)
#define ORDER_LENGTH_MAX_NS (24 * 11 * ORDER_HOUR_NS) /* VT_RECORD_SECONDS_MAX and some */
#define ORDER_RATE_MAX INT64_C(1000000000000)         /* a million a second, in millionths */
#define ORDER_BYTES_MAX (INT64_C(1) << 40)

struct order_number {
    const char *key;
    size_t offset; /* of an int64_t in the structure */
    int64_t min, max;
};

/* Sets them in json, in the table's order. False: no memory. */
bool order_numbers_write(const struct order_number *numbers, size_t n, const void *structure,
                         json_t *json);
/* Those read before one that is missing or out of bounds are set already. */
int order_numbers_read(const struct order_number *numbers, size_t n, const json_t *json,
                       void *structure, struct vt_error *err);

#endif
