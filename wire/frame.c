/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include <errno.h>

static void put_u32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void wire_header_write(uint8_t header[WIRE_HEADER_BYTES], enum wire_type type, uint16_t stream,
                       size_t len)
{
    put_u32(header, (uint32_t)len);
    header[4] = (uint8_t)type;
    header[5] = 0;
    header[6] = (uint8_t)(stream >> 8);
    header[7] = (uint8_t)stream;
}

int wire_frame_write(struct vt_buf *out, enum wire_type type, uint16_t stream, const void *payload,
                     size_t len, struct vt_error *err)
{
    uint8_t header[WIRE_HEADER_BYTES];
    if (len > WIRE_PAYLOAD_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -EMSGSIZE,
                            "frame of type %d: %zu bytes, at most %u can be sent", (int)type, len,
                            WIRE_PAYLOAD_MAX);
    wire_header_write(header, type, stream, len);
    vt_buf_add(out, header, sizeof header);
    vt_buf_add(out, payload, len);
    return vt_buf_check(out, "frame", err);
}

int wire_frame_read(const void *data, size_t len, size_t payload_max, struct wire_frame *ret,
                    size_t *ret_used, struct vt_error *err)
{
    const uint8_t *at = data;
    if (len < WIRE_HEADER_BYTES)
        return 0;
    uint32_t payload = get_u32(at);
    unsigned type = at[4];
    if (payload > payload_max)
        return vt_error_refuse(err, "frame of %u bytes, at most %zu are allowed", payload,
                               payload_max);
    if (type == 0 || type >= WIRE_TYPE_END)
        return vt_error_refuse(err, "frame of unknown type %u", type);
    if (at[5] != 0)
        return vt_error_refuse(err, "frame with unknown flags 0x%02x", at[5]);
    if (len - WIRE_HEADER_BYTES < payload)
        return 0;
    *ret = (struct wire_frame){
        .type = (enum wire_type)type,
        .stream = (uint16_t)(at[6] << 8 | at[7]),
        .payload = at + WIRE_HEADER_BYTES,
        .len = payload,
    };
    *ret_used = WIRE_HEADER_BYTES + payload;
    return 1;
}
