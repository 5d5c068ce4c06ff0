/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict_case.h"

#include <stdio.h>
#include <string.h>

#include "base/scope.h"

static const struct sample_role roles[] = {
    {"web", VT_RECORD_LOOP_OPEN, true, 9000000, 1000000, 9, 0, 0, 0},
};
const char verdict_generator_whole[] =
    "{\"connections\":64,\"pooled\":1,\"watched_ns\":200000000000,\"open\":64000000,"
    "\"waiting_ns\":0,\"gaps\":1799,\"gap_distance\":2000,\"receive_bytes\":131072,"
    "\"send_bytes\":87040}";
static const struct sample whole = {1, roles, VT_COUNT(roles), WINDOW_S, "complete", "kvm"};

static void put_samples(struct vt_sink *sink, const char *source, unsigned tile, int missing)
{
    for (int64_t second = 0; second < WINDOW_S + 4; second++) {
        struct vt_event event = {.type = VT_EVENT_SAMPLE,
                                 .time_ns = T0_NS + second * VT_NS_PER_S + VT_NS_PER_MS,
                                 .tile = tile,
                                 .source = source,
                                 .series = "cpu.user",
                                 .value = 0.5};
        if (second >= 2 && second < 2 + missing)
            continue;
        sink->take(sink, &event);
    }
}

/* 2 CPUs; of them half a one is used. */
static void put_client(struct vt_sink *sink, const struct fault *fault)
{
    for (int64_t second = 0; second < WINDOW_S + 4; second++) {
        bool beyond = second >= 2 && second < 2 + fault->seconds;
        const struct {
            const char *name;
            double value;
        } series[] = {
            {"agent.cpu", beyond ? fault->cpu : 0.01},
            {"agent.run_delay", beyond ? fault->delay : 0.0},
            {"cpu.user", 0.3},
            {"cpu.system", 0.2},
            {"cpu.iowait", 0.1},
            {"cpu.idle", 1.4 - fault->steal},
            {"cpu.steal", fault->steal},
        };

        for (size_t i = 0; i < VT_COUNT(series); i++) {
            struct vt_event event = {.type = VT_EVENT_SAMPLE,
                                     .time_ns = T0_NS + second * VT_NS_PER_S + VT_NS_PER_MS,
                                     .source = "client-1",
                                     .series = series[i].name,
                                     .value = series[i].value};

            if (second < 2 || second >= 2 + fault->client_missing)
                sink->take(sink, &event);
        }
    }
}

static void put_clocks(struct record *record, const struct fault *fault)
{
    struct vt_record_agent client = {"client-1", "client", 0, 1000 + fault->client_moved_ns,
                                     fault->rtt_ns};
    struct vt_record_agent guest = {"web-1", "guest", 1, -5000000 + fault->guest_moved_ns,
                                    fault->rtt_ns};
    char text[64];

    snprintf(text, sizeof(text), "1000 %lld", (long long)fault->rtt_ns);
    assert_ok(record_put_meta(record, RECORD_META_CLOCK_BEGIN "client-1", text, OK_ERR));
    snprintf(text, sizeof(text), "-5000000 %lld", (long long)fault->rtt_ns);
    assert_ok(record_put_meta(record, RECORD_META_CLOCK_BEGIN "web-1", text, OK_ERR));
    assert_ok(record_put_agent(record, &client, OK_ERR));
    assert_ok(record_put_agent(record, &guest, OK_ERR));
}

const char *verdict_record(const struct fault *fault)
{
    static unsigned number;
    char name[32];
    struct record *record;
    const char *path;

    snprintf(name, sizeof(name), "verdict-%u", number++);
    path = sample_path(name);
    record = sample_record_open(path, &whole);
    assert_ok(record_put_meta(record, RECORD_META_T0, "1000000000000", OK_ERR));
    assert_ok(record_put_meta(record, RECORD_META_GENERATOR "web.1",
                              fault->generator ? fault->generator : verdict_generator_whole,
                              OK_ERR));
    if (fault->meta)
        assert_ok(record_put_meta(record, fault->meta, fault->value, OK_ERR));
    put_clocks(record, fault);
    put_samples(record_sink(record), "web-1", 1, fault->guest_missing);
    put_samples(record_sink(record), "host.1", 0, fault->host_missing);
    put_client(record_sink(record), fault);
    if (fault->event.text)
        record_sink(record)->take(record_sink(record), &fault->event);
    if (fault->second) {
        struct vt_event event = fault->event;

        event.text = fault->second;
        record_sink(record)->take(record_sink(record), &event);
    }
    assert_ok(record_close(record, OK_ERR));
    return path;
}

void verdict_judge(const struct fault *fault, struct result *result)
{
    struct record_reader *reader = NULL;

    assert_ok(record_open_read(verdict_record(fault), &reader, OK_ERR));
    *result = (struct result){0};
    assert_ok(result_compute(reader, result, OK_ERR));
    record_reader_close(reader);
}

void assert_nothing(const struct fault *fault)
{
    struct result result;

    verdict_judge(fault, &result);
    if (result.verdict.nreasons)
        fail_msg("%s: %s", result.verdict.reasons[0].code, result.verdict.reasons[0].text);
    assert_int_equal(result.verdict.grade, VERDICT_VALID);
    result_dispose(&result);
}

void assert_reason(const struct fault *fault, enum verdict_grade grade, const char *code,
                   int64_t number, const char *words)
{
    const struct verdict_reason *reason;
    struct result result;

    verdict_judge(fault, &result);
    assert_int_equal(result.verdict.nreasons, 1);
    reason = &result.verdict.reasons[0];
    assert_string_equal(reason->code, code);
    assert_int_equal(reason->grade, grade);
    assert_int_equal(result.verdict.grade, grade);
    assert_int_equal(reason->number, number);
    if (!strstr(reason->text, words))
        fail_msg("'%s' does not say '%s'", reason->text, words);
    result_dispose(&result);
}
