/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes: numbers as they travel: big endian, in as many bytes as the message says.
 */
#ifndef VTILE_WIRE_BYTES_H
#define VTILE_WIRE_BYTES_H

#include <stdint.h>

static inline void wire_put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i-- > 0; value >>= 8)
        at[i] = (uint8_t)value;
}

static inline uint64_t wire_get(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

#endif
