/* SPDX-License-Identifier: Apache-2.0 */
/* A client's agent in a process of its own drives the web role against a small site. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agents/duty.h"
#include "base/clock.h"
#include "rig.h"
#include "site.h"
#include "tiles/load/order.h"
#include "tiles/roles/web/pages.h"
#include "wire/message.h"

static struct rig rig;

static int run_client(const char *variant, const struct vt_confdisk *conf)
{
    (void)variant;
    return duty_client(conf, NULL);
}

static int setup(void **state)
{
    (void)state;
    rig_start(&rig, "client", "client", HUB_CLIENT);
    assert_int_equal(hub_admit_load(rig.hub, "client", 1, "web", NULL), 0);
    rig_run_agent(&rig, "");
    rig_run_until(&rig, &rig.up, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_finish(&rig);
    return 0;
}

static void expect_ok(void)
{
    if (rig.err.code != 0)
        fail_msg("%s", rig.err.text);
}

/* Two seconds at 40 requests a second, half a second of it ramp. */
static void fill_order(struct load_order *order)
{
    *order = (struct load_order){
        .tile = 1,
        .role = "web",
        .seed = UINT64_MAX, /* all of its bits must travel */
        .rate = 40000000,
        .segments = {{.length_ns = VT_NS_PER_S / 2, .ramp = true},
                     {.length_ns = VT_NS_PER_S / 2},
                     {.length_ns = VT_NS_PER_S}},
        .nsegments = 3,
        .drain_ns = 5 * VT_NS_PER_S,
        .window_from_ns = VT_NS_PER_S,
        .load = {.connections = 8,
                 .timeout_ns = 5 * VT_NS_PER_S,
                 .expected_ns = 50 * VT_NS_PER_MS,
                 .good_limit_ns = 5 * VT_NS_PER_S,
                 .noperations = 1,
                 .operations = {{.name = "download",
                                 .good_limit_ns = 5 * VT_NS_PER_S,
                                 .min_bytes_per_s = {99000, 95000}}}},
    };
    vt_text_copy(order->address, sizeof order->address, site_address());
    vt_text_copy(order->server_name, sizeof order->server_name, site_address());
}

static json_t *order_json(const struct load_order *order)
{
    json_t *json = load_order_write(order, NULL);
    assert_non_null(json);
    return json;
}

static json_t *web_1(void)
{
    return json_pack("{s:i,s:s}", "tile", 1, "role", "web");
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? text : "";
}

static void test_drives_a_schedule(void **state)
{
    (void)state;
    struct load_order order;
    struct schedule schedule;
    struct vt_record_totals totals;
    char hash[65];
    if (!site_start(rig.ca, 1)) {
        print_message("port 443 of %s cannot be had\n", site_address());
        skip();
    }
    fill_order(&order);
    rig_call(&rig, "load.prepare", order_json(&order));
    expect_ok();
    /* Whoever has the order draws the same schedule. */
    assert_int_equal(load_order_draw(&order, &schedule, NULL, NULL), 0);
    vt_text_hex(schedule.hash, sizeof schedule.hash, hash);
    assert_string_equal(text_of(rig.result, "hash"), hash);
    assert_int_equal(json_integer_value(json_object_get(rig.result, "steps")), schedule.nsteps);
    rig_call(&rig, "load.open", web_1());
    expect_ok();

    json_t *start = web_1();
    json_object_set_new(start, "t0_ns", json_integer(vt_clock_now_ns() + 100 * VT_NS_PER_MS));
    rig_call(&rig, "load.start", start);
    expect_ok();
    assert_true(json_is_boolean(json_object_get(rig.result, "fifo")));
    while (rig.events == 0 || strcmp(rig.kind, "load.finished") != 0)
        rig_run_until(&rig, &rig.events, rig.events + 1);
    assert_int_equal(wire_totals_read(json_object_get(rig.event_data, "totals"), &totals, NULL), 0);
    if (totals.good != schedule.nsteps)
        fail_msg("%llu of %zu good: %s", (unsigned long long)totals.good, schedule.nsteps,
                 totals.first_failure);
    assert_int_equal(totals.early, 0);
    assert_int_equal(totals.connections_opened, 8);
    assert_string_equal(text_of(rig.event_data, "hash"), hash);
    /* The seconds add up to the totals, and the site saw as many. */
    assert_int_equal(rig.intended, totals.intended);
    assert_int_equal(rig.good, totals.good);
    assert_int_equal(site_requests(), totals.good);
    uint64_t bytes = 0, downloads = 0;
    for (size_t i = 0; i < schedule.nsteps; i++)
        bytes += web_page_bytes(schedule.steps[i].operation, schedule.steps[i].argument);
    assert_int_equal(rig.bytes, bytes);
    /* Only downloads have a limit of rate. */
    for (size_t i = 0; i < schedule.nsteps; i++)
        downloads += schedule.steps[i].operation == WEB_DOWNLOAD;
    assert_true(downloads > 0);
    assert_int_equal(rig.rates, downloads);
    assert_non_null(json_object_get(rig.seen_series, "agent.run_delay"));
    schedule_dispose(&schedule);
    rig_end_agent(&rig);
}

static void test_calls_out_of_order(void **state)
{
    (void)state;
    struct load_order order;
    fill_order(&order);
    rig_call(&rig, "load.open", web_1());
    assert_int_equal(rig.err.code, -ENOENT);
    json_t *start = web_1();
    json_object_set_new(start, "t0_ns", json_integer(vt_clock_now_ns()));
    rig_call(&rig, "load.prepare", order_json(&order));
    expect_ok();
    rig_call(&rig, "load.start", json_incref(start));
    assert_int_equal(rig.err.code, -EBUSY);
    json_object_set_new(start, "t0_ns", json_integer(1));
    rig_call(&rig, "load.start", start);
    assert_int_equal(rig.err.code, -EBADMSG);           /* a T0 of another clock */
    rig_call(&rig, "load.prepare", order_json(&order)); /* again, while nothing runs */
    expect_ok();
    rig_call(&rig, "prepare", NULL);
    assert_int_equal(rig.err.code, -ENOSYS);
    rig_end_agent(&rig);
}

static void test_no_server_fails_the_opening(void **state)
{
    (void)state;
    struct load_order order;
    fill_order(&order);
    vt_text_copy(order.address, sizeof order.address, "127.0.0.3");
    rig_call(&rig, "load.prepare", order_json(&order));
    expect_ok();
    rig_call(&rig, "load.open", web_1());
    assert_true(rig.err.code < 0);
    assert_non_null(strstr(rig.err.text, "refused"));
    rig_end_agent(&rig);
}

/* A bit for each step of a role that acknowledges; here none was ever sent. */
static void test_acknowledged_bits(void **state)
{
    (void)state;
    struct load_order order;
    json_t *app = json_pack("{s:i,s:s}", "tile", 1, "role", "app");
    fill_order(&order);
    vt_text_copy(order.role, sizeof order.role, "app");
    vt_text_copy(order.address, sizeof order.address, "127.0.0.3");
    order.load.noperations = 0;
    rig_call(&rig, "load.prepare", order_json(&order));
    expect_ok();
    json_int_t steps = json_integer_value(json_object_get(rig.result, "steps"));
    assert_true(steps > 16);
    rig_call(&rig, "load.acknowledged", json_incref(app));
    assert_int_equal(rig.err.code, -EBUSY); /* it has not finished */
    rig_call(&rig, "load.open", json_incref(app));
    assert_true(rig.err.code < 0);
    rig_call(&rig, "load.acknowledged", app);
    expect_ok();
    assert_int_equal(json_integer_value(json_object_get(rig.result, "bytes")), (steps + 7) / 8);
    assert_string_equal(rig.log_name, "acknowledged.app.1.bits");
    assert_int_equal(rig.log.len, (steps + 7) / 8);
    for (size_t i = 0; i < rig.log.len; i++)
        assert_int_equal(rig.log.data[i], 0);
    rig_end_agent(&rig);
}

static void test_wrong_server_is_found_out(void **state)
{
    (void)state;
    struct load_order order;
    if (site_requests() == 0)
        skip(); /* no site: see the first test */
    fill_order(&order);
    rig_call(&rig, "load.prepare", order_json(&order));
    expect_ok();
    /* The site's certificate is of the first test's CA, this client trusts another. */
    rig_call(&rig, "load.open", web_1());
    assert_true(rig.err.code < 0);
    assert_non_null(strstr(rig.err.text, "certificate"));
    rig_end_agent(&rig);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
    if (argc == 4)
        return rig_agent_main(argv, run_client);
    const struct CMUnitTest tests[] = {
        T(test_drives_a_schedule),           T(test_calls_out_of_order),
        T(test_no_server_fails_the_opening), T(test_acknowledged_bits),
        T(test_wrong_server_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
