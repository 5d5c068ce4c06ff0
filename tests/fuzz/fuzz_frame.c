/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-seconds: 45 */
/* A stream of frames from a hostile peer, and what each type of frame may carry. */
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void read_load(const struct wire_frame *frame)
{
    static struct wire_load load;
    if (wire_load_read(frame, &load, NULL) < 0)
        return;
    const struct vt_load_second *s = &load.second;
    must(s->good + s->slow + s->wrong + s->failed == s->intended);
    must(s->intended <= (uint64_t)WIRE_COUNT_MAX && s->response->count <= s->intended);
    must(s->response->count >= s->good + s->slow);
    must(s->service->count <= s->intended && s->wake_lag->count <= s->intended);
    must(s->rate->count == 0 || s->rate->count == s->good + s->slow);
    must(load.tile >= 1 && load.tile <= VT_RECORD_TILES_MAX);
    must(load.operation < VT_RECORD_OPERATIONS_MAX && s->second < WIRE_SECOND_MAX);
    must(wire_name_ok(load.role) && memchr(load.role, '\0', sizeof load.role));
    /* What was read can be written, and is then the same bytes. */
    struct vt_buf out = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    must(wire_load_write(&out, load.tile, load.role, load.operation, s, NULL) == 0);
    must(out.len == frame->len && memcmp(out.data, frame->payload, out.len) == 0);
    vt_buf_dispose(&out);
}

static void read_hello(const struct wire_frame *frame)
{
    static struct wire_hello hello;
    int64_t v;
    if (wire_hello_read(frame, &hello, NULL) < 0)
        return;
    must(wire_name_ok(hello.agent) && hello.min >= 1 && hello.min <= hello.v);
    if (wire_version_choose(&hello, &v, NULL) == 0)
        must(v >= hello.min && v <= hello.v && v >= WIRE_VERSION_MIN && v <= WIRE_VERSION);
}

static void read_control(const struct wire_frame *frame)
{
    json_t *json = NULL;
    const json_t *object;
    const char *op;
    struct vt_record_totals totals;
    if (wire_json_read(frame, "fuzz", &json, NULL) < 0)
        return;
    if (frame->type == WIRE_CALL && wire_call_read(json, &op, &object, NULL) == 0)
        must(op && json_is_object(object));
    struct vt_error err = VT_ERROR_INIT;
    if (frame->type == WIRE_REPLY && wire_reply_read(json, &object, &err) == 0)
        must(json_is_object(object));
    else if (frame->type == WIRE_REPLY)
        must(err.code < 0);
    if (frame->type == WIRE_EVENT && wire_totals_read(json, &totals, NULL) == 0)
        must(totals.good + totals.slow + totals.wrong + totals.failed == totals.intended);
    json_decref(json);
}

static void read_sample(const struct wire_frame *frame)
{
    json_t *json = NULL;
    int64_t t_ns;
    if (wire_sample_read(frame, &t_ns, &json, NULL) < 0)
        return;
    must(t_ns >= 0 && json_is_object(json_object_get(json, "series")));
    json_decref(json);
}

static void read_log(const struct wire_frame *frame)
{
    char name[WIRE_NAME_MAX];
    const uint8_t *data;
    size_t len;
    if (wire_log_read(frame, name, &data, &len, NULL) < 0)
        return;
    must(wire_name_ok(name) && data + len == frame->payload + frame->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    while (size > 0) {
        struct wire_frame frame;
        size_t used = 0;
        int rc = wire_frame_read(data, size, WIRE_PAYLOAD_MAX, &frame, &used, NULL);
        if (rc <= 0)
            break;
        must(used >= WIRE_HEADER_BYTES && used <= size);
        must(frame.payload + frame.len == data + used);
        switch (frame.type) {
        case WIRE_ENROL:
        case WIRE_HELLO:
            read_hello(&frame);
            break;
        case WIRE_LOAD:
            read_load(&frame);
            break;
        case WIRE_SAMPLE:
            read_sample(&frame);
            break;
        case WIRE_LOG:
            read_log(&frame);
            break;
        default:
            read_control(&frame);
        }
        data += used;
        size -= used;
    }
    return 0;
}
