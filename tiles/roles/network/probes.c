/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/network/probes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

#define MILLION 1000000
#define LINE_MAX_BYTES 256
#define TRIP_MAX_MS 3600000.0
#define BYTES_MAX (INT64_C(1) << 50)

void probes_pace(const struct spec_jobs *jobs, const struct role_times *times,
                 enum netclient_operation operation, struct pace *ret)
{
    int64_t rate = (jobs->rate + MILLION / 2) / MILLION;

    if (operation == NETCLIENT_STREAM || rate < 1)
        rate = 1;
    if (rate > PROBES_PINGS_MAX)
        rate = PROBES_PINGS_MAX;
    *ret = (struct pace){
        .rate = rate * MILLION,
        .begin_ns = times->ramp_ns,
        .end_ns = times->ramp_ns + times->warm_ns + times->measure_ns,
    };
}

uint64_t probes_due(const struct spec_jobs *jobs, const struct role_times *times,
                    unsigned operation, int64_t from_ns, int64_t to_ns)
{
    struct pace pace;

    if (operation >= NETCLIENT_OPERATIONS)
        return 0;
    probes_pace(jobs, times, operation, &pace);
    return pace_due(&pace, from_ns, to_ns);
}

unsigned probes_stream_s(unsigned left_s)
{
    return left_s < 2 * PROBES_STREAM_S ? left_s : PROBES_STREAM_S;
}

/* --- ping --- */

/* "64 bytes from 198.18.1.10: icmp_seq=1 ttl=64 time=0.035 ms" */
static bool read_line(const char *line, unsigned long *ret_sequence, double *ret_ms)
{
    const char *sequence = strstr(line, "icmp_seq="), *trip = strstr(line, " time=");
    char *end;

    if (!sequence || !trip || !strstr(line, " bytes from ") || strstr(line, "(DUP!)"))
        return false;
    *ret_sequence = strtoul(sequence + strlen("icmp_seq="), &end, 10);
    if (*end != ' ')
        return false;
    *ret_ms = strtod(trip + strlen(" time="), &end);
    return strncmp(end, " ms", 3) == 0 && isfinite(*ret_ms) && *ret_ms >= 0 &&
           *ret_ms <= TRIP_MAX_MS;
}

unsigned ping_read(const char *text, size_t len, int64_t *ret_ns, unsigned count)
{
    unsigned answered = 0;

    for (unsigned i = 0; i < count; i++)
        ret_ns[i] = -1;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - (text + at)) : len - at;
        char line[LINE_MAX_BYTES];
        unsigned long sequence;
        double ms;

        if (line_len < sizeof(line)) {
            memcpy(line, text + at, line_len);
            line[line_len] = '\0';
            if (read_line(line, &sequence, &ms) && sequence >= 1 && sequence <= count &&
                ret_ns[sequence - 1] < 0) {
                ret_ns[sequence - 1] = (int64_t)(ms * VT_NS_PER_MS + 0.5);
                answered++;
            }
        }
        at += line_len + 1;
    }
    return answered;
}

/* --- iperf3 --- */

static int read_interval(const json_t *interval, struct iperf_second *ret, struct vt_error *err)
{
    const json_t *sum, *seconds;
    int64_t bytes = 0;
    int code = vt_json_get_object(interval, "sum", &sum, err);

    if (code == 0)
        code = vt_json_get_int(sum, "bytes", 0, BYTES_MAX, &bytes, err);
    if (code < 0)
        return code;
    seconds = json_object_get(sum, "seconds");
    if (!json_is_number(seconds) || !(json_number_value(seconds) >= 0) ||
        json_number_value(seconds) > 3600)
        return vt_error_refuse(err, "seconds of an interval");
    ret->bytes = (uint64_t)bytes;
    ret->length_ns = (int64_t)(json_number_value(seconds) * VT_NS_PER_S);
    return 0;
}

int iperf_read(const char *text, size_t len, struct iperf_second *ret, size_t max, size_t *ret_n,
               struct vt_error *err)
{
    const json_t *intervals = NULL;
    const char *failure = NULL;
    json_t *json = NULL;
    size_t n = 0;
    int code = vt_json_read(text, len, "report of iperf3", VT_KIND_REFUSED, &json, err);

    if (code < 0)
        return code;
    code = vt_json_opt_string(json, "error", &failure, err);
    if (code == 0 && failure)
        code = vt_error_set(err, VT_KIND_INFRA, -EIO, "iperf3: %.160s", failure);
    if (code == 0)
        code = vt_json_get_array(json, "intervals", max, &intervals, err);
    for (; code == 0 && n < json_array_size(intervals); n++)
        code = read_interval(json_array_get(intervals, n), &ret[n], err);
    json_decref(json);
    if (code < 0)
        return vt_error_wrap(err, "report of iperf3");
    *ret_n = n;
    return 0;
}
