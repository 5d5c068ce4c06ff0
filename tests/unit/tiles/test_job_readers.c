/* SPDX-License-Identifier: Apache-2.0 */
/* What fio, iperf3 and ping print, as real ones printed it, and as nobody should. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/roles/network/probes.h"
#include "tiles/roles/storage/streams.h"

#define S VT_NS_PER_S

/* --- fio --- */

#define JOB(name, error, runtime, read, write)                                                  \
    "{\"jobname\":\"" name "\",\"error\":" error ",\"job_runtime\":" runtime ",\"read\":{" read \
    "},\"write\":{" write "}}"
#define NONE "\"total_ios\":0,\"io_bytes\":0,\"clat_ns\":{\"min\":0}"
#define SOME(ios, bytes, bins) \
    "\"total_ios\":" ios ",\"io_bytes\":" bytes ",\"clat_ns\":{\"bins\":{" bins "}}"
#define REPORT(jobs) "{\"fio version\":\"fio-3.33\",\"jobs\":[" jobs "]}\n"

static const char two_reports[] =
    REPORT(JOB("read", "0", "1000", SOME("2", "8192", "\"86528\":1,\"105984\":1"),
               NONE)) "fio: a line with a { \"brace\" never comes; this } is "
                      "one\n" REPORT(JOB("read", "0", "2000",
                                         SOME("4", "16384",
                                              "\"86528\":2,\"90624\":1,\"105984\":"
                                              "1"),
                                         NONE));

struct seen {
    unsigned reports;
    size_t bins;
    uint64_t ios;
    int64_t runtime_ms;
};

static void take(void *ctx, const struct fio_report *report)
{
    struct seen *seen = ctx;

    seen->reports++;
    assert_int_equal(report->njobs, 1);
    seen->bins = report->jobs[0].nbins;
    seen->ios = report->jobs[0].ios;
    seen->runtime_ms = report->jobs[0].runtime_ms;
}

static int feed(const char *text, size_t piece, struct seen *seen, struct vt_error *err)
{
    struct fio_reader reader = {.report = take, .ctx = seen};
    size_t len = strlen(text);
    int ret;

    memset(seen, 0, sizeof(*seen));
    assert_int_equal(fio_reader_init(&reader, NULL), 0);
    ret = 0;
    for (size_t at = 0; ret == 0 && at < len; at += piece)
        ret = fio_read(&reader, text + at, len - at < piece ? len - at : piece, err);
    fio_reader_dispose(&reader);
    return ret;
}

static void test_fio_reports_cut_anywhere(void **state)
{
    /* The line between is one that opens no object. */
    char text[sizeof(two_reports)];
    struct seen seen;

    (void)state;
    memcpy(text, two_reports, sizeof(text));
    *strstr(text, "a { ") = 'a';
    memcpy(strstr(text, "a { "), "a | ", 4);
    for (size_t piece = 1; piece < 80; piece += 3) {
        assert_int_equal(feed(text, piece, &seen, NULL), 0);
        assert_int_equal(seen.reports, 2);
        assert_int_equal(seen.bins, 3);
        assert_int_equal(seen.ios, 4);
        assert_int_equal(seen.runtime_ms, 2000);
    }
}

static void test_fio_refuses_what_is_out_of_bounds(void **state)
{
    static const char *const bad[] = {
        REPORT(JOB("read", "0", "-1", NONE, NONE)),
        REPORT(JOB("read", "0", "1", SOME("-1", "0", ""), NONE)),
        REPORT(JOB("read", "0", "1", SOME("1", "1", "\"x\":1"), NONE)),
        REPORT(JOB("read", "0", "1", SOME("1", "1", "\"-5\":1"), NONE)),
        REPORT(JOB("read", "0", "1", SOME("1", "1", "\"5\":-1"), NONE)),
        REPORT(JOB("read", "0", "1", SOME("1", "1", "\"5\":1.5"), NONE)),
        REPORT(JOB("read", "0", "1", SOME("1", "1", "\"5\":1"), SOME("1", "1", "\"5\":1"))),
        REPORT(JOB("a-name-of-far-too-many-letters", "0", "1", NONE, NONE)),
        "{\"jobs\":{}}",
        "{\"jobs\":[1,2,3,4,5]}",
        "{\"jobs\":[1]}",
        "{\"nothing\":1}",
        "{[}",
    };
    struct seen seen;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        struct vt_error err = VT_ERROR_INIT;

        if (feed(bad[i], 1000, &seen, &err) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(seen.reports, 0);
    }
}

/* Neither an endless object nor endless buckets take more than their bound. */
static void test_fio_refuses_what_is_endless(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(8U << 20);
    struct vt_error err = VT_ERROR_INIT;
    struct seen seen;

    (void)state;
    vt_buf_adds(&text, "{\"jobs\":[{\"jobname\":\"");
    while (text.len < FIO_REPORT_BYTES_MAX + 10)
        vt_buf_adds(&text, "}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{");
    assert_int_equal(feed(text.data, 65536, &seen, &err), -ENOBUFS);
    vt_buf_reset(&text);
    vt_buf_adds(&text, "{\"jobs\":[{\"jobname\":\"read\",\"error\":0,\"job_runtime\":1,\"read\":"
                       "{\"total_ios\":0,\"io_bytes\":0,\"clat_ns\":{\"bins\":{\"0\":1");
    for (int i = 1; i <= FIO_BINS_MAX; i++)
        vt_buf_printf(&text, ",\"%d\":1", i);
    vt_buf_adds(&text, "}}},\"write\":{" NONE "}}]}");
    assert_true(feed(text.data, 65536, &seen, &err) < 0);
}

/* --- streams --- */

struct told {
    unsigned n, slow;
    int64_t response_ns[64], intended_ns[64];
};

static bool go_on(void *ctx)
{
    (void)ctx;
    return false;
}

static void keep(void *ctx, const struct role_done *done)
{
    struct told *told = ctx;

    told->response_ns[told->n] = done->response_ns;
    told->intended_ns[told->n++] = done->intended_ns;
}

/* Ten a second; fio does 10 in the first second, 2 in the next (it stalls), 18 in the third. */
static void test_a_stall_is_told_as_response_time(void **state)
{
    const struct spec_jobs jobs = {.rate = 20000000, .read_share = 500000, .block_bytes = 4096};
    const struct role_times times = {5 * S, S, 2 * S};
    struct told told = {0};
    const struct role_work work = {.stopping = go_on, .done = keep, .ctx = &told};
    static struct stream stream;
    static struct fio_job job;

    (void)state;
    assert_true(stream_make(&jobs, &times, STREAM_READ, &stream));
    assert_int_equal(stream.total, 30);
    for (int second = 1; second <= 3; second++) {
        static const uint64_t done[] = {0, 10, 12, 33};

        job.runtime_ms = second * 1000;
        job.nbins = 1;
        job.bins[0] = (struct fio_bin){2 * VT_NS_PER_MS, done[second]};
        assert_int_equal(stream_take(&stream, &job, (5 + second) * S, &work, NULL), 0);
    }
    assert_int_equal(told.n, 30); /* the three above the total were not asked for */
    assert_int_equal(told.intended_ns[0], 5 * S);
    assert_int_equal(told.intended_ns[12], 5 * S + 1200 * VT_NS_PER_MS);
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(told.response_ns[i], 2 * VT_NS_PER_MS);
    /* Number 12 was due at 1.2 s and not done at 2 s: at least 0.8 s. Number 20 was due at 2 s. */
    assert_int_equal(told.response_ns[12], 800 * VT_NS_PER_MS);
    assert_int_equal(told.response_ns[19], 100 * VT_NS_PER_MS);
    assert_int_equal(told.response_ns[20], 2 * VT_NS_PER_MS);
    job.bins[0].count = 3;
    assert_true(stream_take(&stream, &job, 9 * S, &work, NULL) < 0);
}

/* --- ping --- */

static void test_ping(void **state)
{
    /* iputils 20221126. */
    static const char text[] = "PING 198.18.1.10 (198.18.1.10) 56(84) bytes of data.\n"
                               "64 bytes from 198.18.1.10: icmp_seq=1 ttl=64 time=0.035 ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=3 ttl=64 time=12.5 ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=3 ttl=64 time=99 ms (DUP!)\n"
                               "From 198.18.1.1 icmp_seq=4 Destination Host Unreachable\n"
                               "64 bytes from 198.18.1.10: icmp_seq=9 ttl=64 time=1 ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=0 ttl=64 time=1 ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=2 ttl=64 time=nan ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=2 ttl=64 time=-1 ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=2 ttl=64 time=1e300 ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=2x ttl=64 time=1 ms\n"
                               "\n--- 198.18.1.10 ping statistics ---\n"
                               "5 packets transmitted, 2 received, 60% packet loss, time 614ms\n"
                               "64 bytes from 198.18.1.10: icmp_seq=5 ttl=64 time=2 ms";
    int64_t trips_ns[5];

    (void)state;
    assert_int_equal(ping_read(text, sizeof(text) - 1, trips_ns, 5), 3);
    assert_int_equal(trips_ns[0], 35000);
    assert_int_equal(trips_ns[1], -1);
    assert_int_equal(trips_ns[2], 12500000);
    assert_int_equal(trips_ns[3], -1);
    assert_int_equal(trips_ns[4], 2000000);
    assert_int_equal(ping_read("", 0, trips_ns, 5), 0);
}

/* --- iperf3 --- */

static int read_iperf(const char *text, struct iperf_second *seconds, size_t max, size_t *n,
                      struct vt_error *err)
{
    return iperf_read(text, strlen(text), seconds, max, n, err);
}

static void test_iperf(void **state)
{
    /* iperf 3.12, without what is not read. */
    static const char text[] =
        "{\"start\":{\"version\":\"iperf 3.12\"},\"intervals\":["
        "{\"streams\":[{\"socket\":5}],\"sum\":{\"start\":0,\"end\":1.000062,"
        "\"seconds\":1.0000619888305664,\"bytes\":2621440,\"retransmits\":0}},"
        "{\"streams\":[],\"sum\":{\"seconds\":1,\"bytes\":0}}],\"end\":{}}";
    static const char *const bad[] = {
        "{\"intervals\":[{\"sum\":{\"seconds\":-1,\"bytes\":0}}]}",
        "{\"intervals\":[{\"sum\":{\"seconds\":1e9,\"bytes\":0}}]}",
        "{\"intervals\":[{\"sum\":{\"seconds\":1,\"bytes\":-1}}]}",
        "{\"intervals\":[{\"sum\":{\"seconds\":\"1\",\"bytes\":1}}]}",
        "{\"intervals\":[{}]}",
        "{\"intervals\":[1,2,3]}",
        "{}",
        "iperf3: error",
        "",
    };
    struct iperf_second seconds[2];
    struct vt_error err = VT_ERROR_INIT;
    size_t n = 0;

    (void)state;
    assert_int_equal(read_iperf(text, seconds, 2, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(seconds[0].bytes, 2621440);
    assert_int_equal(seconds[0].length_ns, 1000061988);
    assert_int_equal(seconds[1].length_ns, S);
    assert_true(read_iperf(text, seconds, 1, &n, &err) < 0);
    for (size_t i = 0; i < VT_COUNT(bad); i++)
        if (read_iperf(bad[i], seconds, 2, &n, NULL) == 0)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(
        read_iperf("{\"start\":{},\"intervals\":[],\"end\":{},\"error\":\"error - unable to "
                   "connect to server: Connection refused\"}",
                   seconds, 2, &n, &err),
        -EIO);
    assert_non_null(strstr(err.text, "Connection refused"));
}

static void test_streams_are_cut(void **state)
{
    unsigned total = 0, n = 0;

    (void)state;
    assert_int_equal(probes_stream_s(65), 65);
    assert_int_equal(probes_stream_s(119), 119);
    assert_int_equal(probes_stream_s(120), 60);
    for (unsigned left = 7800; left > 0; left -= n) {
        n = probes_stream_s(left);
        assert_in_range(n, 1, PROBES_SECONDS_MAX);
        total += n;
    }
    assert_int_equal(total, 7800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fio_reports_cut_anywhere),
        cmocka_unit_test(test_fio_refuses_what_is_out_of_bounds),
        cmocka_unit_test(test_fio_refuses_what_is_endless),
        cmocka_unit_test(test_a_stall_is_told_as_response_time),
        cmocka_unit_test(test_ping),
        cmocka_unit_test(test_iperf),
        cmocka_unit_test(test_streams_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
