/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent that is in may say, and what it is asked. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "hub_rig.h"

/* --- what an agent that is in may say --- */
static void expect_lost(const char *says)
{
    run_until(&loop, &seen.lost, 1);
    if (!strstr(seen.text, says))
        fail_msg("'%s' does not say '%s'", seen.text, says);
    run_until(&loop, &one.closed, 1);
    assert_false(hub_is_up(hub, "web-1"));
}

static void test_oversized_frame(void **state)
{
    (void)state;
    static const uint8_t header[] = {0, 4, 0, 1, WIRE_EVENT, 0, 0, 0};
    hub_rig_come_up();
    vt_link_send(wire_conn_link(one.conn), header, sizeof header, NULL);
    expect_lost("262145 bytes");
}

static void test_frame_of_the_controller(void **state)
{
    (void)state;
    hub_rig_come_up();
    fake_send_json(&one, WIRE_WELCOME, 0, json_object());
    expect_lost("a frame that agents do not send");
}

static void test_flood(void **state)
{
    (void)state;
    hub_rig_come_up();
    for (int i = 0; i < 10000; i++)
        if (wire_conn_send(one.conn, WIRE_LOG, 9, "\x01x", 2, NULL) < 0)
            break;
    expect_lost("frames a second");
}

static void test_flood_of_samples(void **state)
{
    (void)state;
    hub_rig_come_up();
    for (int i = 0; i < 100; i++)
        fake_send_json(&one, WIRE_SAMPLE, 0, json_pack("{s:i,s:{}}", "t_ns", 1, "series"));
    expect_lost("too many samples");
}

static void test_event_and_sample(void **state)
{
    (void)state;
    int64_t offset_ns, rtt_ns;
    hub_rig_come_up();
    while (!hub_agent_clock(hub, "web-1", &offset_ns, &rtt_ns))
        uv_run(&loop.uv, UV_RUN_ONCE);
    fake_send_json(&one, WIRE_EVENT, 0,
                   json_pack("{s:s,s:s}", "kind", "server_died", "text", "nginx: signal 9"));
    run_until(&loop, &seen.events, 1);
    assert_string_equal(seen.kind, "server_died");
    assert_string_equal(seen.text, "nginx: signal 9");
    int64_t now_ns = vt_clock_now_ns();
    fake_send_json(&one, WIRE_SAMPLE, 0,
                   json_pack("{s:I,s:{s:f}}", "t_ns", (json_int_t)(now_ns - VT_NS_PER_S), "series",
                             "cpu.user", 0.25));
    run_until(&loop, &seen.samples, 1);
    assert_string_equal(seen.kind, "cpu.user");
    assert_true(seen.value == 0.25);
    assert_in_range(seen.sample_ns, now_ns - VT_NS_PER_S - VT_NS_PER_MS * 500,
                    now_ns - VT_NS_PER_S + VT_NS_PER_MS * 500);
    /* An impossible time is taken as now. */
    fake_send_json(&one, WIRE_SAMPLE, 0,
                   json_pack("{s:I,s:{s:f}}", "t_ns", (json_int_t)7, "series", "cpu.user", 0.5));
    run_until(&loop, &seen.samples, 2);
    assert_true(seen.sample_ns >= now_ns);
}

/* --- calls --- */
static int call(const char *op, const json_t *params, int64_t timeout_ns)
{
    return hub_call(hub, "web-1", op, params, timeout_ns, hub_rig_done, &seen, NULL);
}

static void test_call_and_reply(void **state)
{
    (void)state;
    json_t *params = json_pack("{s:i}", "seed", 7);
    hub_rig_come_up();
    assert_int_equal(call("prepare", params, VT_NS_PER_S * 10), 0);
    json_decref(params);
    run_until(&loop, &one.frames, 2);
    assert_int_equal(one.last_type, WIRE_CALL);
    assert_int_not_equal(one.last_stream, 0);
    json_t *json = json_loadb(one.last.data, one.last.len, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json, "op")), "prepare");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "params"), "seed")),
                     7);
    json_decref(json);
    /* The log of a call comes before its answer; of no call, nowhere. */
    wire_conn_send(one.conn, WIRE_LOG, one.last_stream,
                   "\x03"
                   "abctext",
                   8, NULL);
    wire_conn_send(one.conn, WIRE_LOG, (uint16_t)(one.last_stream + 1),
                   "\x03"
                   "abctext",
                   8, NULL);
    fake_send_json(&one, WIRE_REPLY, one.last_stream,
                   json_pack("{s:b,s:{s:s}}", "ok", 1, "result", "text", "fine"));
    run_until(&loop, &seen.done, 1);
    assert_string_equal(seen.result, "fine");
    assert_int_equal(seen.logs, 1);
    assert_string_equal(seen.log, "abc:text");
    /* A second answer to the same call is nothing. */
    fake_send_json(&one, WIRE_REPLY, one.last_stream, json_pack("{s:b,s:{}}", "ok", 1, "result"));
    run_turns(&loop, 50);
    assert_int_equal(seen.done, 1);
    assert_int_equal(seen.lost, 0);
}

static void test_failed_call_says_whose(void **state)
{
    (void)state;
    hub_rig_come_up();
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), 0);
    run_until(&loop, &one.frames, 2);
    fake_send_json(&one, WIRE_REPLY, one.last_stream,
                   json_pack("{s:b,s:s,s:i}", "ok", 0, "error", "nginx: no such file", "code", -2));
    run_until(&loop, &seen.done, 1);
    assert_int_equal(seen.err.code, -ENOENT);
    assert_string_equal(seen.err.text, "start of web-1: nginx: no such file");
}

static void test_call_times_out(void **state)
{
    (void)state;
    hub_rig_come_up();
    assert_int_equal(call("start", NULL, 50 * VT_NS_PER_MS), 0);
    run_until(&loop, &seen.done, 1);
    assert_int_equal(seen.err.code, -ETIMEDOUT);
    assert_true(hub_is_up(hub, "web-1"));
}

static void test_calls_fail_when_the_agent_is_lost(void **state)
{
    (void)state;
    hub_rig_come_up();
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), 0);
    assert_int_equal(call("check", NULL, VT_NS_PER_S * 10), 0);
    fake_end(&one);
    run_until(&loop, &seen.lost, 1);
    assert_int_equal(seen.done, 2);
    assert_int_equal(seen.done_when_lost, 0); /* who hears of a failed call knows what it came of */
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), -ENOTCONN);
}

static void test_calls_fail_when_the_hub_closes(void **state)
{
    (void)state;
    hub_rig_come_up();
    assert_int_equal(call("start", NULL, VT_NS_PER_S * 10), 0);
    hub_close(hub, hub_rig_closed, NULL);
    assert_int_equal(seen.done, 0);
    run_until(&loop, &seen.hub_closed, 1);
    assert_int_equal(seen.done, 1);
    /* teardown closes once more: a new hub for it */
    seen.hub_closed = 0;
    struct hub_config config = {.loop = &loop, .ca = ca, .address = "127.0.0.1"};
    assert_int_equal(hub_new(&config, &hub_rig_events, &seen, &hub, NULL), 0);
}

static void test_open_calls_are_bounded(void **state)
{
    (void)state;
    hub_rig_come_up();
    for (int i = 0; i < HUB_CALLS_MAX; i++)
        assert_int_equal(call("check", NULL, VT_NS_PER_S * 10), 0);
    assert_int_equal(call("check", NULL, VT_NS_PER_S * 10), -EBUSY);
}

/* --- load --- */
static void send_second(unsigned operation, int64_t second)
{
    static struct vt_hist h;
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(WIRE_PAYLOAD_MAX);
    vt_hist_init(&h);
    vt_hist_record(&h, VT_NS_PER_MS);
    struct vt_load_second s = {NULL, second, 1, 1, 0, 0, 0, 9000, &h, &h, &h, &h};
    assert_int_equal(wire_load_write(&out, 1, "web", operation, &s, NULL), 0);
    assert_int_equal(wire_conn_send(one.conn, WIRE_LOAD, 0, out.data, out.len, NULL), 0);
}

static void order_load(void)
{
    assert_int_equal(hub_admit_load(hub, "client", 1, "web", NULL), 0);
}

static void test_load_comes_through(void **state)
{
    (void)state;
    hub_rig_client_comes_up();
    order_load();
    send_second(0, 0);
    send_second(1, 0);
    send_second(0, 1);
    run_until(&loop, &seen.loads, 3);
    assert_int_equal(seen.intended, 3);
    assert_string_equal(seen.operation, "home"); /* the first page of the web role */
}

static void expect_load_refused(const char *says)
{
    run_until(&loop, &seen.lost, 1);
    if (!strstr(seen.text, says))
        fail_msg("'%s' does not say '%s'", seen.text, says);
}

static void test_load_nobody_asked_for(void **state)
{
    (void)state;
    hub_rig_client_comes_up();
    send_second(0, 0);
    expect_load_refused("was not asked for");
    assert_int_equal(seen.loads, 0);
}

static void test_load_of_no_operation(void **state)
{
    (void)state;
    hub_rig_client_comes_up();
    order_load();
    send_second(15, 0);
    expect_load_refused("does not exist");
}

static void test_a_second_twice(void **state)
{
    (void)state;
    hub_rig_client_comes_up();
    order_load();
    send_second(0, 5);
    send_second(0, 5);
    expect_load_refused("twice");
    assert_int_equal(seen.loads, 1);
}

/* A new order begins its seconds anew. */
static void test_load_ordered_again(void **state)
{
    (void)state;
    hub_rig_client_comes_up();
    order_load();
    send_second(0, 5);
    run_until(&loop, &seen.loads, 1);
    order_load();
    send_second(0, 0);
    run_until(&loop, &seen.loads, 2);
    assert_int_equal(seen.lost, 0);
}

static void test_load_from_a_guest(void **state)
{
    (void)state;
    hub_rig_come_up();
    send_second(0, 0);
    expect_load_refused("was not asked for");
}

static void test_load_of_a_working_guest(void **state)
{
    (void)state;
    hub_rig_come_up();
    assert_int_equal(hub_admit_load(hub, "web-1", 1, "web", NULL), 0);
    send_second(0, 0);
    run_until(&loop, &seen.loads, 1);
    assert_int_equal(seen.lost, 0);
}

static void test_working_guest_tells_of_another_tile(void **state)
{
    (void)state;
    hub_rig_come_up();
    assert_int_equal(hub_admit_load(hub, "web-1", 2, "web", NULL), 0);
    send_second(0, 0);
    expect_load_refused("was not asked for");
    assert_int_equal(seen.loads, 0);
}

static void test_bad_admissions(void **state)
{
    (void)state;
    assert_int_equal(hub_admit_load(hub, "nobody", 1, "web", NULL), -ENOENT);
    assert_int_equal(hub_admit_load(hub, "client", 0, "web", NULL), -EINVAL);
    assert_int_equal(hub_admit_load(hub, "client", VT_RECORD_TILES_MAX + 1, "web", NULL), -EINVAL);
    assert_int_equal(hub_admit_load(hub, "client", 1,
                                    "a-role-with-a-name-that-is-far-too-long-to-be-kept", NULL),
                     -EINVAL);
}

static void test_bad_expectations(void **state)
{
    (void)state;
    struct hub_expected twice = {"web-1", HUB_GUEST, token, "127.0.0.1", NULL};
    struct hub_expected bad_name = {"web 1", HUB_GUEST, token, "127.0.0.1", NULL};
    struct hub_expected bad_address = {"web-9", HUB_GUEST, token, "somewhere", NULL};
    assert_int_equal(hub_expect(hub, &twice, NULL), -EEXIST);
    assert_int_equal(hub_expect(hub, &bad_name, NULL), -EINVAL);
    assert_int_equal(hub_expect(hub, &bad_address, NULL), -EINVAL);
}

#define T(test) cmocka_unit_test_setup_teardown(test, hub_rig_setup, hub_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_oversized_frame),
        T(test_frame_of_the_controller),
        T(test_flood),
        T(test_flood_of_samples),
        T(test_event_and_sample),
        T(test_call_and_reply),
        T(test_failed_call_says_whose),
        T(test_call_times_out),
        T(test_calls_fail_when_the_agent_is_lost),
        T(test_calls_fail_when_the_hub_closes),
        T(test_open_calls_are_bounded),
        T(test_load_comes_through),
        T(test_load_nobody_asked_for),
        T(test_load_of_no_operation),
        T(test_a_second_twice),
        T(test_load_ordered_again),
        T(test_load_from_a_guest),
        T(test_load_of_a_working_guest),
        T(test_working_guest_tells_of_another_tile),
        T(test_bad_admissions),
        T(test_bad_expectations),
    };
    return cmocka_run_group_tests(tests, hub_rig_setup_all, hub_rig_teardown_all);
}
