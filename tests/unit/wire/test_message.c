/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile agent may not say. */
#include "wire/message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct wire_frame text_frame(enum wire_type type, const char *text)
{
    return (struct wire_frame){type, 0, (const uint8_t *)text, strlen(text)};
}

/* --- hello --- */
static int read_hello(enum wire_type type, const char *text, struct wire_hello *ret,
                      struct vt_error *err)
{
    struct wire_frame frame = text_frame(type, text);
    return wire_hello_read(&frame, ret, err);
}

static void test_hello_comes_back(void **state)
{
    (void)state;
    struct wire_hello hello = {1, 1, "web-1", "guest", "", ""}, back;
    json_t *json;
    assert_int_equal(wire_hello_write(WIRE_HELLO, &hello, &json, NULL), 0);
    char *text = json_dumps(json, 0);
    assert_int_equal(read_hello(WIRE_HELLO, text, &back, NULL), 0);
    assert_string_equal(back.agent, "web-1");
    assert_string_equal(back.duty, "guest");
    free(text);
    json_decref(json);
    struct wire_hello enrol = {1, 1, "web-1", "", "00ff", "PEM\n"};
    assert_int_equal(wire_hello_write(WIRE_ENROL, &enrol, &json, NULL), 0);
    text = json_dumps(json, 0);
    assert_int_equal(read_hello(WIRE_ENROL, text, &back, NULL), 0);
    assert_string_equal(back.token, "00ff");
    assert_string_equal(back.csr, "PEM\n");
    free(text);
    json_decref(json);
}

static void test_bad_hellos_are_refused(void **state)
{
    (void)state;
    char long_name[128] = "{\"v\":1,\"min\":1,\"duty\":\"guest\",\"agent\":\"";
    memset(long_name + strlen(long_name), 'a', WIRE_NAME_MAX);
    memcpy(long_name + strlen(long_name), "\"}", sizeof("\"}"));
    const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"v\":1,\"min\":1,\"agent\":\"a\"}",
        "{\"v\":1,\"agent\":\"a\",\"duty\":\"guest\"}",
        "{\"v\":0,\"min\":0,\"agent\":\"a\",\"duty\":\"guest\"}",
        "{\"v\":1,\"min\":2,\"agent\":\"a\",\"duty\":\"guest\"}",
        "{\"v\":1,\"min\":1,\"agent\":\"\",\"duty\":\"guest\"}",
        "{\"v\":1,\"min\":1,\"agent\":\"a/b\",\"duty\":\"guest\"}",
        "{\"v\":1,\"min\":1,\"agent\":7,\"duty\":\"guest\"}",
        "{\"v\":1,\"v\":1,\"min\":1,\"agent\":\"a\",\"duty\":\"guest\"}",
        "{\"v\":\"1\",\"min\":1,\"agent\":\"a\",\"duty\":\"guest\"}",
        "{\"v\":1,\"min\":1,\"agent\":\"a\",\"duty\":\"guest\"} x",
        long_name,
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wire_hello hello;
        struct vt_error err = VT_ERROR_INIT;
        if (read_hello(WIRE_HELLO, bad[i], &hello, &err) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.kind, VT_KIND_REFUSED);
    }
}

static void test_versions(void **state)
{
    (void)state;
    struct wire_hello hello = {.v = 9, .min = 1, .agent = "a"};
    struct vt_error err = VT_ERROR_INIT;
    int64_t v = 0;
    assert_int_equal(wire_version_choose(&hello, &v, NULL), 0);
    assert_int_equal(v, WIRE_VERSION);
    hello.min = 7;
    assert_int_equal(wire_version_choose(&hello, &v, &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.text, "7 to 9"));
    assert_non_null(strstr(err.text, "2 to 2"));
}

/* --- calls and replies --- */
static void test_failure_travels_with_kind_and_code(void **state)
{
    (void)state;
    struct vt_error sent = VT_ERROR_INIT, got = VT_ERROR_INIT;
    const json_t *result;
    vt_error_set(&sent, VT_KIND_CONFIG, -ENOENT, "no nginx here");
    json_t *reply = wire_reply_write(NULL, &sent);
    assert_int_equal(wire_reply_read(reply, &result, &got), -ENOENT);
    assert_int_equal(got.kind, VT_KIND_CONFIG);
    assert_string_equal(got.text, "no nginx here");
    json_decref(reply);
    memcpy(sent.text, "\xff\xfe", sizeof("\xff\xfe"));
    reply = wire_reply_write(NULL, &sent);
    assert_int_equal(wire_reply_read(reply, &result, &got), -ENOENT);
    json_decref(reply);
    reply = wire_reply_write(NULL, NULL);
    assert_int_equal(wire_reply_read(reply, &result, &got), 0);
    assert_int_equal(json_object_size(result), 0);
    json_decref(reply);
}

/* An agent cannot turn its failure into success, nor into a code that is none. */
static void test_odd_replies_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{\"ok\":1}",
        "{\"ok\":true}",
        "{\"ok\":true,\"result\":[]}",
        "{\"ok\":false}",
        "{\"ok\":false,\"error\":\"x\",\"code\":0}",
        "{\"ok\":false,\"error\":\"x\",\"code\":-99999}",
        "{\"ok\":false,\"error\":\"x\",\"kind\":0}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const json_t *result;
        json_t *json = json_loads(bad[i], 0, NULL);
        assert_true(wire_reply_read(json, &result, NULL) < 0);
        json_decref(json);
    }
}

static void test_samples(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"t_ns\":1}",
        "{\"t_ns\":-1,\"series\":{}}",
        "{\"t_ns\":1,\"series\":[]}",
        "{\"t_ns\":1,\"series\":{\"a b\":1}}",
        "{\"t_ns\":1,\"series\":{\"a\":\"1\"}}",
        "{\"t_ns\":1,\"series\":{\"a\":null}}",
        "{\"t_ns\":1,\"series\":{\"a\":1e999}}",
    };
    struct wire_frame frame =
        text_frame(WIRE_SAMPLE, "{\"t_ns\":5,\"series\":{\"cpu.user\":0.25}}");
    int64_t t_ns;
    json_t *json;
    assert_int_equal(wire_sample_read(&frame, &t_ns, &json, NULL), 0);
    assert_int_equal(t_ns, 5);
    json_decref(json);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        frame = text_frame(WIRE_SAMPLE, bad[i]);
        if (wire_sample_read(&frame, &t_ns, &json, NULL) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
    }
}

/* --- load --- */
static struct vt_hist response, service, wake_lag, rate;
static struct wire_load back;

static struct vt_load_second good_second(void)
{
    struct vt_load_second s = {"home", 17,     6,         3,        1,         1,
                               1,      123456, &response, &service, &wake_lag, &rate};
    vt_hist_init(&response);
    vt_hist_init(&service);
    vt_hist_init(&wake_lag);
    vt_hist_init(&rate);
    for (int i = 0; i < 6; i++)
        vt_hist_record(&response, 1000000 * (i + 1));
    for (int i = 0; i < 5; i++)
        vt_hist_record(&service, 900000 * (i + 1));
    vt_hist_record(&wake_lag, 70000);
    for (int i = 0; i < 4; i++)
        vt_hist_record(&rate, 95000 + i);
    return s;
}

static int pass(const struct vt_load_second *second, unsigned tile, const char *role,
                unsigned operation, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    assert_int_equal(wire_load_write(&out, tile, role, operation, second, NULL), 0);
    struct wire_frame frame = {WIRE_LOAD, 0, (uint8_t *)out.data, out.len};
    return wire_load_read(&frame, &back, err);
}

static void test_a_second_comes_back(void **state)
{
    (void)state;
    struct vt_load_second s = good_second();
    assert_int_equal(pass(&s, 3, "web", 2, NULL), 0);
    assert_int_equal(back.tile, 3);
    assert_string_equal(back.role, "web");
    assert_int_equal(back.operation, 2);
    assert_int_equal(back.second.second, 17);
    assert_int_equal(back.second.intended, 6);
    assert_int_equal(back.second.slow, 1);
    assert_int_equal(back.second.bytes, 123456);
    assert_int_equal(back.second.response->count, 6);
    assert_int_equal(back.second.response->max, 6000000);
    assert_int_equal(back.second.service->count, 5);
    assert_int_equal(back.second.wake_lag->count, 1);
    assert_int_equal(back.second.rate->count, 4);
    assert_int_equal(back.second.rate->min, 95000);
    assert_int_equal(back.second.rate->max, 95003);
    assert_memory_equal(back.response.bucket, response.bucket, sizeof response.bucket);
}

static void test_counts_must_add_up(void **state)
{
    (void)state;
    struct vt_error err = VT_ERROR_INIT;
    struct vt_load_second s = good_second();
    s.good++;
    assert_int_equal(pass(&s, 1, "web", 0, &err), -EBADMSG);
    assert_int_equal(err.kind, VT_KIND_REFUSED);
    s = good_second();
    s.good = UINT64_C(1) << 63; /* a sum that wraps around to the right one */
    s.slow = (UINT64_C(1) << 63) + 4;
    assert_int_equal(pass(&s, 1, "web", 0, NULL), -EBADMSG);
    s = good_second();
    s.intended = s.good = UINT64_C(1) << 40;
    s.slow = s.wrong = s.failed = 0;
    assert_int_equal(pass(&s, 1, "web", 0, NULL), -EBADMSG);
    s = good_second();
    vt_hist_record(&response, 5);
    assert_int_equal(pass(&s, 1, "web", 0, NULL), -EBADMSG);
    s = good_second(); /* four answers, three times of them */
    vt_hist_init(&response);
    for (int i = 0; i < 3; i++)
        vt_hist_record(&response, 5);
    assert_int_equal(pass(&s, 1, "web", 0, NULL), -EBADMSG);
    s = good_second();
    for (int i = 0; i < 6; i++)
        vt_hist_record(&wake_lag, 5);
    assert_int_equal(pass(&s, 1, "web", 0, NULL), -EBADMSG);
}

/* A rate of each correct answer (3 good, 1 slow), or none at all. */
static void test_rates_must_add_up(void **state)
{
    (void)state;
    struct vt_error err = VT_ERROR_INIT;
    for (unsigned n = 0; n <= 7; n++) {
        struct vt_load_second s = good_second();
        vt_hist_init(&rate);
        for (unsigned i = 0; i < n; i++)
            vt_hist_record(&rate, 99000);
        assert_int_equal(pass(&s, 1, "web", 0, &err), n == 0 || n == 4 ? 0 : -EBADMSG);
    }
    assert_non_null(strstr(err.text, "rates"));
}

static void test_ranges_of_a_second(void **state)
{
    (void)state;
    struct vt_load_second s = good_second();
    assert_int_equal(pass(&s, 0, "web", 0, NULL), -EBADMSG);
    assert_int_equal(pass(&s, VT_RECORD_TILES_MAX + 1, "web", 0, NULL), -EBADMSG);
    assert_int_equal(pass(&s, 1, "", 0, NULL), -EBADMSG);
    assert_int_equal(pass(&s, 1, "we b", 0, NULL), -EBADMSG);
    assert_int_equal(pass(&s, 1, "web", VT_RECORD_OPERATIONS_MAX, NULL), -EBADMSG);
}

/* Every cut and every changed byte: refused, or still a second whose sums hold. */
static void test_damage(void **state)
{
    (void)state;
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    struct vt_load_second s = good_second();
    assert_int_equal(wire_load_write(&out, 1, "web", 0, &s, NULL), 0);
    for (size_t len = 0; len < out.len; len++) {
        struct wire_frame frame = {WIRE_LOAD, 0, (uint8_t *)out.data, len};
        assert_int_equal(wire_load_read(&frame, &back, NULL), -EBADMSG);
    }
    vt_buf_add(&out, "", 1);
    struct wire_frame longer = {WIRE_LOAD, 0, (uint8_t *)out.data, out.len};
    assert_int_equal(wire_load_read(&longer, &back, NULL), -EBADMSG);
    for (size_t i = 0; i < out.len - 1; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct wire_frame frame = {WIRE_LOAD, 0, (uint8_t *)out.data, out.len - 1};
            out.data[i] = (char)(out.data[i] ^ 1 << bit);
            if (wire_load_read(&frame, &back, NULL) == 0) {
                const struct vt_load_second *b = &back.second;
                assert_int_equal(b->good + b->slow + b->wrong + b->failed, b->intended);
                assert_true(b->response->count <= b->intended);
                assert_true(b->response->count >= b->good + b->slow);
                assert_true(b->rate->count == 0 || b->rate->count == b->good + b->slow);
            }
            out.data[i] = (char)(out.data[i] ^ 1 << bit);
        }
    }
}

static void test_logs(void **state)
{
    (void)state;
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1000);
    char name[WIRE_NAME_MAX];
    const uint8_t *data;
    size_t len;
    assert_int_equal(wire_log_write(&out, "nginx.error", "line\n", 5, NULL), 0);
    struct wire_frame frame = {WIRE_LOG, 0, (uint8_t *)out.data, out.len};
    assert_int_equal(wire_log_read(&frame, name, &data, &len, NULL), 0);
    assert_string_equal(name, "nginx.error");
    assert_int_equal(len, 5);
    assert_memory_equal(data, "line\n", 5);
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {{"", 0},
               {"\0x", 2},
               {"\x05"
                "abc",
                4},
               {"\xff", 1},
               {"\x03"
                "a\0b",
                4},
               {"\x02./", 3}};
    for (size_t i = 0; i < 6; i++) {
        struct wire_frame f = {WIRE_LOG, 0, (const uint8_t *)bad[i].bytes, bad[i].len};
        assert_int_equal(wire_log_read(&f, name, &data, &len, NULL), -EBADMSG);
    }
}

static void test_totals(void **state)
{
    (void)state;
    struct vt_record_totals t = {1, "web", 10, 7, 1, 1, 1, 16, 0, 3, 0, "status 500"}, got;
    json_t *json = wire_totals_write(&t);
    assert_int_equal(wire_totals_read(json, &got, NULL), 0);
    assert_int_equal(got.good, 7);
    assert_int_equal(got.queue_high, 3);
    assert_string_equal(got.first_failure, "status 500");
    json_object_set_new(json, "good", json_integer(8));
    assert_int_equal(wire_totals_read(json, &got, NULL), -EBADMSG);
    json_object_set_new(json, "good", json_integer(-1));
    assert_int_equal(wire_totals_read(json, &got, NULL), -EBADMSG);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_comes_back),
        cmocka_unit_test(test_bad_hellos_are_refused),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_failure_travels_with_kind_and_code),
        cmocka_unit_test(test_odd_replies_are_refused),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_a_second_comes_back),
        cmocka_unit_test(test_counts_must_add_up),
        cmocka_unit_test(test_rates_must_add_up),
        cmocka_unit_test(test_ranges_of_a_second),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_logs),
        cmocka_unit_test(test_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
