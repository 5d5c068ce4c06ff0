/* SPDX-License-Identifier: Apache-2.0 */
/* Frames by the bytes that wire/frame.h promises. */
#include "wire/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_layout(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0, 0, 0, 5, 8, 0, 0x12, 0x34, 'h', 'e', 'l', 'l', 'o'};
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(100);
    assert_int_equal(wire_frame_write(&out, WIRE_CALL, 0x1234, "hello", 5, NULL), 0);
    assert_int_equal(out.len, sizeof expected);
    assert_memory_equal(out.data, expected, sizeof expected);
}

static void test_every_cut_waits_for_more(void **state)
{
    (void)state;
    static const uint8_t data[] = {0, 0, 0, 3, 9, 0, 0, 7, 'a', 'b', 'c', 0, 0};
    struct wire_frame frame;
    size_t used;
    for (size_t len = 0; len < 11; len++)
        assert_int_equal(wire_frame_read(data, len, WIRE_PAYLOAD_MAX, &frame, &used, NULL), 0);
    for (size_t len = 11; len <= sizeof data; len++) {
        assert_int_equal(wire_frame_read(data, len, WIRE_PAYLOAD_MAX, &frame, &used, NULL), 1);
        assert_int_equal(used, 11);
        assert_int_equal(frame.type, WIRE_REPLY);
        assert_int_equal(frame.stream, 7);
        assert_int_equal(frame.len, 3);
        assert_memory_equal(frame.payload, "abc", 3);
    }
}

/* Refused from the header alone: nobody waits for, or makes room for, 4 GiB. */
static void test_bad_headers_are_refused_at_once(void **state)
{
    (void)state;
    static const uint8_t bad[][8] = {
        {0, 4, 0, 1, 8, 0, 0, 0},             /* one byte too many */
        {0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0}, /* 4 GiB */
        {0, 0, 0, 0, 0, 0, 0, 0},             /* type 0 */
        {0, 0, 0, 0, WIRE_TYPE_END, 0, 0, 0}, /* type unknown */
        {0, 0, 0, 0, 255, 0, 0, 0},           /* type unknown */
        {0, 0, 0, 0, 8, 1, 0, 0},             /* a flag */
    };
    for (size_t i = 0; i < 6; i++) {
        struct wire_frame frame;
        size_t used;
        struct vt_error err = VT_ERROR_INIT;
        assert_int_equal(wire_frame_read(bad[i], 8, WIRE_PAYLOAD_MAX, &frame, &used, &err),
                         -EBADMSG);
        assert_int_equal(err.kind, VT_KIND_REFUSED);
    }
}

static void test_largest_payload(void **state)
{
    (void)state;
    char *payload = calloc(1, WIRE_PAYLOAD_MAX + 1);
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(WIRE_PAYLOAD_MAX + WIRE_HEADER_BYTES);
    struct wire_frame frame;
    size_t used;
    assert_non_null(payload);
    assert_int_equal(wire_frame_write(&out, WIRE_LOG, 1, payload, WIRE_PAYLOAD_MAX + 1, NULL),
                     -EMSGSIZE);
    assert_int_equal(out.len, 0);
    assert_int_equal(wire_frame_write(&out, WIRE_LOG, 1, payload, WIRE_PAYLOAD_MAX, NULL), 0);
    assert_int_equal(wire_frame_read(out.data, out.len, WIRE_PAYLOAD_MAX, &frame, &used, NULL), 1);
    assert_int_equal(frame.len, WIRE_PAYLOAD_MAX);
    free(payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_every_cut_waits_for_more),
        cmocka_unit_test(test_bad_headers_are_refused_at_once),
        cmocka_unit_test(test_largest_payload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
