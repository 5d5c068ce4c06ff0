/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/json.h"
#include "base/scope.h"

struct counting_sink {
    struct vt_sink sink;
    unsigned taken, order;
    struct vt_event last;
    char text[2048];
};

static unsigned turns;

static void take(struct vt_sink *sink, const struct vt_event *event)
{
    struct counting_sink *self = (struct counting_sink *)sink;

    self->taken++;
    self->order = turns++;
    self->last = *event;
    vt_text_copy(self->text, sizeof(self->text), event->text ? event->text : "");
}

static void sinks_take_in_the_order_they_were_added(void **state)
{
    struct vt_bus bus = {NULL};
    struct counting_sink sinks[3] = {
        {.sink = {.take = take}}, {.sink = {.take = take}}, {.sink = {.take = take}}};
    struct vt_event event = {.type = VT_EVENT_PHASE, .phase = "ramp"};

    (void)state;
    vt_bus_emit(&bus, &event);
    for (int i = 0; i < 3; i++)
        vt_bus_add(&bus, &sinks[i].sink);
    turns = 0;
    vt_bus_emit(&bus, &event);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(sinks[i].taken, 1);
        assert_int_equal(sinks[i].order, i);
        assert_string_equal(sinks[i].last.phase, "ramp");
    }
}

static void notes_are_stamped_and_cut(void **state)
{
    struct vt_bus bus = {NULL};
    struct counting_sink sink = {.sink = {.take = take}};
    int64_t before = vt_clock_now_ns();
    static char large[5000];

    (void)state;
    vt_bus_add(&bus, &sink.sink);
    vt_bus_note(&bus, VT_LEVEL_WARNING, "host %s is slow", "a");
    assert_int_equal(sink.last.type, VT_EVENT_NOTE);
    assert_int_equal(sink.last.level, VT_LEVEL_WARNING);
    assert_string_equal(sink.text, "host a is slow");
    assert_true(sink.last.time_ns >= before && sink.last.time_ns <= vt_clock_now_ns());
    memset(large, 'x', sizeof(large) - 1);
    vt_bus_note(&bus, VT_LEVEL_INFO, "%s", large);
    assert_int_equal(strlen(sink.text), 1023);
}

/* --- lines --- */

static const char *line_of(const struct vt_event *event, struct vt_buf *out)
{
    json_t *root;

    vt_buf_reset(out);
    vt_event_write_json(event, out);
    assert_false(out->failed);
    assert_null(strchr(out->data, '\n'));
    assert_int_equal(vt_json_read(out->data, out->len, "line", VT_KIND_REFUSED, &root, NULL), 0);
    json_decref(root);
    return out->data;
}

static void each_type_has_its_line(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(10000);
    struct vt_event e = {.type = VT_EVENT_PHASE, .time_ns = 5, .phase = "ramp", .planned_ns = 7};

    (void)state;
    assert_string_equal(
        line_of(&e, &out),
        "{\"v\":1,\"type\":\"phase\",\"time_ns\":5,\"phase\":\"ramp\",\"planned_ns\":7}");
    e = (struct vt_event){
        .type = VT_EVENT_NOTE, .level = VT_LEVEL_ERROR, .source = "web-1", .text = "a\n\"b\""};
    assert_string_equal(line_of(&e, &out),
                        "{\"v\":1,\"type\":\"note\",\"time_ns\":0,\"source\":\"web-1\","
                        "\"level\":\"error\",\"text\":\"a\\n\\\"b\\\"\"}");
    e = (struct vt_event){.type = VT_EVENT_AGENT, .tile = 2, .role = "web", .text = "lost"};
    assert_string_equal(line_of(&e, &out),
                        "{\"v\":1,\"type\":\"agent\",\"time_ns\":0,\"tile\":2,\"role\":\"web\","
                        "\"level\":\"info\",\"text\":\"lost\"}");
    e = (struct vt_event){.type = VT_EVENT_VERDICT,
                          .level = VT_LEVEL_WARNING,
                          .series = "agent-lost",
                          .text = "slow"};
    assert_string_equal(line_of(&e, &out),
                        "{\"v\":1,\"type\":\"verdict\",\"time_ns\":0,\"code\":\"agent-lost\","
                        "\"level\":\"warning\",\"text\":\"slow\"}");
    e = (struct vt_event){.type = VT_EVENT_LOG, .series = "nginx.access", .text = "GET \xff"};
    assert_string_equal(line_of(&e, &out), "{\"v\":1,\"type\":\"log\",\"time_ns\":0,\"series\":"
                                           "\"nginx.access\",\"text\":\"GET \xef\xbf\xbd\"}");
}

static void samples_without_a_value_say_why(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(10000);
    struct vt_event e = {.type = VT_EVENT_SAMPLE, .series = "cpu.user", .value = 0.25};

    (void)state;
    assert_string_equal(
        line_of(&e, &out),
        "{\"v\":1,\"type\":\"sample\",\"time_ns\":0,\"series\":\"cpu.user\",\"value\":0.250000}");
    e.value = NAN;
    e.text = "no counter here";
    assert_string_equal(line_of(&e, &out),
                        "{\"v\":1,\"type\":\"sample\",\"time_ns\":0,\"series\":\"cpu.user\","
                        "\"value\":null,\"why\":\"no counter here\"}");
    e.text = NULL;
    assert_non_null(strstr(line_of(&e, &out), "\"value\":null,\"why\":\"not available\""));
}

static void load_shows_counters_and_times(void **state)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(10000);
    VT_AUTO_FREE struct vt_hist *h = malloc(3 * sizeof(*h));
    struct vt_load_second load = {.operation = "home",
                                  .second = 3,
                                  .intended = 10,
                                  .good = 5,
                                  .slow = 3,
                                  .wrong = 1,
                                  .failed = 1,
                                  .bytes = 999};
    struct vt_event e = {.type = VT_EVENT_LOAD, .tile = 1, .role = "web", .load = &load};

    (void)state;
    assert_non_null(h);
    vt_hist_init(&h[0]);
    vt_hist_init(&h[1]);
    vt_hist_record(&h[0], 100);
    vt_hist_record(&h[0], 200);
    load.response = &h[0];
    load.service = &h[1];
    assert_string_equal(
        line_of(&e, &out),
        "{\"v\":1,\"type\":\"load\",\"time_ns\":0,\"tile\":1,\"role\":\"web\",\"operation\":"
        "\"home\",\"second\":3,\"intended\":10,\"good\":5,\"slow\":3,\"wrong\":1,\"failed\":1,"
        "\"bytes\":999,\"response\":{\"count\":2,\"p50_ns\":100,\"p95_ns\":200,\"p99_ns\":200,"
        "\"max_ns\":200,\"clipped\":0},\"service\":{\"count\":0}}");
    /* 190,000 B/s: in buckets of 1,024, [189,440, 190,464), whose middle is 189,952. */
    vt_hist_init(&h[2]);
    load.rate = &h[2];
    assert_null(strstr(line_of(&e, &out), "rate"));
    vt_hist_record(&h[2], 99001);
    vt_hist_record(&h[2], 190000);
    vt_hist_record(&h[2], 400000);
    assert_non_null(strstr(line_of(&e, &out), ",\"rate\":{\"count\":3,\"min_bytes_per_s\":99001,"
                                              "\"p50_bytes_per_s\":189952,\"clipped\":0}}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sinks_take_in_the_order_they_were_added),
        cmocka_unit_test(notes_are_stamped_and_cut),
        cmocka_unit_test(each_type_has_its_line),
        cmocka_unit_test(samples_without_a_value_say_why),
        cmocka_unit_test(load_shows_counters_and_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
