/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include <errno.h>

#include "wire/bytes.h"

static void write_header(uint8_t header[WIRE_HEADER_BYTES], enum wire_type type, uint16_t stream,
                         size_t len)
{
    wire_put(header, len, 4);
    header[4] = (uint8_t)type;
    header[5] = 0;
    wire_put(header + 6, stream, 2);
}

int wire_frame_write(struct vt_buf *out, enum wire_type type, uint16_t stream, const void *payload,
                     size_t len, struct vt_error *err)
{
    uint8_t header[WIRE_HEADER_BYTES];
    if (len > WIRE_PAYLOAD_MAX)
        return vt_error_set(err, VT_KIND_INFRA, -EMSGSIZE,
                            "frame of type %d: %zu bytes, at most %u can be sent", (int)type, len,
                            WIRE_PAYLOAD_MAX);
    write_header(header, type, stream, len);
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
    uint32_t payload = (uint32_t)wire_get(at, 4);
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
