/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/print.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "results/qos.h"

#define MILLION 1000000
/* 100 %: the slowest. */
static const int64_t percentiles[] = {500000, 750000, 900000, 950000, 990000, 999000, MILLION};

/* One percentile of all that was intended; wrong and failed requests are slower than any other. */
struct point {
    int64_t value;     /* ns; -1: among the failed */
    int64_t low, high; /* 95 % interval; -1: has no such end */
    bool supported;    /* the sample is large enough for both ends */
};

static int64_t at_rank(const struct load_tally *tally, const struct vt_hist *hist, uint64_t rank)
{
    return rank == 0 || rank > tally->good ? -1 : vt_hist_at_rank(hist, rank);
}

static struct point point_of(const struct load_tally *tally, const struct vt_hist *hist,
                             int64_t percentile)
{
    unsigned __int128 scaled = (unsigned __int128)tally->intended * (uint64_t)percentile;
    uint64_t rank = (uint64_t)((scaled + MILLION - 1) / MILLION), low = 0, high = 0;
    struct point point = {.value = at_rank(tally, hist, rank), .low = -1, .high = -1};

    if (tally->intended == 0)
        return point;
    if (percentile == MILLION) {
        point.supported = true;
        return point;
    }
    qos_interval(tally->intended, percentile, &low, &high);
    point.supported = low > 0 && high > 0;
    point.low = at_rank(tally, hist, low);
    point.high = at_rank(tally, hist, high);
    return point;
}

bool load_is_invalid(const struct load_options *options, const struct load_result *result,
                     char *why, size_t size)
{
    int64_t lag_ns = vt_hist_quantile(&result->tally.wake_lag, 990000);

    if (result->totals.early > 0)
        snprintf(why, size, "%" PRIu64 " requests were sent before their time",
                 result->totals.early);
    else if (result->tally.intended == 0)
        snprintf(why, size, "%s",
                 result->seconds > 0 ? "nothing was asked" : "no whole second was measured");
    else if (!options->closed && lag_ns > options->wake_lag_max_ns)
        snprintf(why, size,
                 "the generator was late: 99 %% of its delays within %.3f ms, %.3f ms is the most",
                 (double)lag_ns / 1e6, (double)options->wake_lag_max_ns / 1e6);
    else
        return false;
    return true;
}

int load_exit_code(const struct load_options *options, const struct load_result *result)
{
    char why[256];

    if (result->interrupted)
        return 130;
    if (load_is_invalid(options, result, why, sizeof why))
        return 3;
    return result->tally.wrong + result->tally.failed > 0 ? 1 : 0;
}

static double offered_per_s(const struct load_result *result)
{
    return result->seconds > 0 ? (double)result->tally.intended / (double)result->seconds : 0;
}

/* Over all that was driven: what came in the drain tells nothing of the server's speed. */
static double right_per_s(const struct load_result *result)
{
    return result->lasted_ns > 0
               ? (double)result->totals.right_in_window * 1e9 / (double)result->lasted_ns
               : 0;
}

static double cpu_us_per_request(const struct load_result *result)
{
    return result->totals.intended > 0
               ? (double)result->cpu_ns / 1e3 / (double)result->totals.intended
               : 0;
}

/* --- text --- */

static void put_ms(struct vt_buf *out, const struct load_tally *tally, const struct point *point)
{
    if (point->value >= 0)
        vt_buf_printf(out, " %11.3f", (double)point->value / 1e6);
    else
        vt_buf_printf(out, " %11s", tally->intended ? "failed" : "-");
}

static void put_percentile(struct vt_buf *out, const struct load_tally *tally, bool closed,
                           int64_t percentile)
{
    struct point service = point_of(tally, &tally->service, percentile);
    struct point first = closed ? service : point_of(tally, &tally->response, percentile);
    char interval[40] = "";

    if (percentile == MILLION)
        vt_buf_adds(out, "  slowest");
    else
        vt_buf_printf(out, "  %5g %%", (double)percentile / 10000);
    if (!first.supported) {
        vt_buf_printf(out, " %11s  (too few requests)\n", "-");
        return;
    }
    put_ms(out, tally, &first);
    if (first.low >= 0 && first.high >= 0)
        snprintf(interval, sizeof interval, "%.3f - %.3f", (double)first.low / 1e6,
                 (double)first.high / 1e6);
    else if (first.low >= 0)
        snprintf(interval, sizeof interval, "%.3f - failed", (double)first.low / 1e6);
    if (!closed) {
        vt_buf_printf(out, "  %-23s", interval);
        put_ms(out, tally, &service);
    } else if (interval[0]) {
        vt_buf_printf(out, "  %s", interval);
    }
    vt_buf_adds(out, "\n");
}

static void put_head(const struct load_options *o, struct vt_buf *out)
{
    vt_buf_printf(out, "%s://%s%s at %s", o->url.tls ? "https" : "http", o->url.page.host,
                  o->url.page.path, o->url.target.address);
    if (o->closed)
        vt_buf_printf(out, "\nclosed loop, think time %g s", (double)o->think_ns / 1e9);
    else
        vt_buf_printf(out, "\nopen loop, %.15g requests a second%s%s, seed %" PRIu64,
                      (double)o->rate / MILLION, o->schedule ? ", " : "",
                      o->schedule ? o->schedule : "", o->seed);
    vt_buf_printf(out, "; %d connections, %d thread%s; %g s after %g s of warm-up\n\n",
                  (int)o->connections, (int)o->threads, o->threads == 1 ? "" : "s",
                  (double)o->duration_ns / 1e9, (double)o->warm_up_ns / 1e9);
}

static void put_generator(struct vt_buf *out, const struct load_options *o,
                          const struct load_result *result)
{
    vt_buf_printf(out, "generator  %.1f us of CPU a request", cpu_us_per_request(result));
    if (result->run_delay_ns >= 0)
        vt_buf_printf(out, ", %.2f s without a CPU", (double)result->run_delay_ns / 1e9);
    if (result->tally.wake_lag.count > 0 && !o->closed)
        vt_buf_printf(out, ", wake lag %.3f ms at 99 %%",
                      (double)vt_hist_quantile(&result->tally.wake_lag, 990000) / 1e6);
    vt_buf_adds(out, "\n");
}

void load_print_text(const struct load_options *o, const struct load_result *result,
                     struct vt_buf *out)
{
    const struct load_tally *tally = &result->tally;
    const struct engine_totals *totals = &result->totals;
    char why[256];

    put_head(o, out);
    if (o->closed)
        vt_buf_adds(out,
                    "            service ms  95 % interval (stalls are hidden: nothing is asked "
                    "meanwhile)\n");
    else
        vt_buf_adds(out, "           response ms  95 % interval           service ms\n");
    for (size_t i = 0; i < VT_COUNT(percentiles); i++)
        put_percentile(out, tally, o->closed, percentiles[i]);
    vt_buf_printf(out,
                  "\nrequests   %" PRIu64 " intended: %" PRIu64 " right, %" PRIu64
                  " wrong, %" PRIu64 " failed\nrate       ",
                  tally->intended, tally->good, tally->wrong, tally->failed);
    if (!o->closed)
        vt_buf_printf(out, "offered %.1f/s, ", offered_per_s(result));
    vt_buf_printf(out, "right %.1f/s\nopened     %" PRIu64 " connections, %" PRIu64 " could not be",
                  right_per_s(result), totals->connections_opened, totals->connections_failed);
    if (!o->closed)
        vt_buf_printf(out, "; at most %" PRIu64 " requests waited for one", totals->queue_high);
    vt_buf_adds(out, "\n");
    put_generator(out, o, result);
    if (totals->first_failure[0])
        vt_buf_printf(out, "first      %s\n", totals->first_failure);
    if (result->interrupted)
        vt_buf_printf(out, "interrupted after %" PRIu64 " s of %g\n", result->seconds,
                      (double)o->duration_ns / 1e9);
    if (load_is_invalid(o, result, why, sizeof why))
        vt_buf_printf(out, "INVALID    %s\n", why);
}

/* --- JSON --- */

/* Negative: there is none. */
static void put_time(struct vt_json *w, const char *key, int64_t ns)
{
    if (ns >= 0)
        vt_json_int(w, key, ns);
    else
        vt_json_null(w, key);
}

static void put_points(struct vt_json *w, const char *key, const struct load_tally *tally,
                       const struct vt_hist *hist)
{
    vt_json_array(w, key);
    for (size_t i = 0; i < VT_COUNT(percentiles); i++) {
        struct point point = point_of(tally, hist, percentiles[i]);

        vt_json_object(w, NULL);
        vt_json_double(w, "percentile", (double)percentiles[i] / 10000, 1);
        vt_json_bool(w, "supported", point.supported);
        put_time(w, "ns", point.value);
        if (point.low >= 0)
            vt_json_int(w, "low_ns", point.low);
        if (point.high >= 0)
            vt_json_int(w, "high_ns", point.high);
        vt_json_end(w);
    }
    vt_json_end(w);
}

static void put_settings(struct vt_json *w, const struct load_options *o)
{
    vt_json_string(w, "host", o->url.page.host);
    vt_json_string(w, "path", o->url.page.path);
    vt_json_string(w, "address", o->url.target.address);
    vt_json_int(w, "port", o->url.target.port);
    vt_json_bool(w, "tls", o->url.tls);
    vt_json_string(w, "loop", o->closed ? "closed" : "open");
    if (o->closed) {
        vt_json_int(w, "think_ns", o->think_ns);
    } else {
        vt_json_double(w, "rate", (double)o->rate / MILLION, 6);
        vt_json_string(w, "shape", o->schedule ? o->schedule : "poisson");
        vt_json_uint(w, "seed", o->seed);
        vt_json_int(w, "wake_lag_max_ns", o->wake_lag_max_ns);
    }
    vt_json_int(w, "connections", o->connections);
    vt_json_int(w, "threads", o->threads);
    vt_json_int(w, "warm_up_ns", o->warm_up_ns);
    vt_json_int(w, "duration_ns", o->duration_ns);
    vt_json_int(w, "timeout_ns", o->timeout_ns);
}

void load_print_json(const struct load_options *o, const struct load_result *result,
                     struct vt_buf *out)
{
    const struct load_tally *tally = &result->tally;
    const struct engine_totals *totals = &result->totals;
    char why[256];
    bool invalid = load_is_invalid(o, result, why, sizeof why);
    struct vt_json w;

    vt_json_message(&w, out, "load");
    put_settings(&w, o);
    if (!o->closed)
        vt_json_string(&w, "schedule", result->schedule_hash);
    vt_json_bool(&w, "valid", !invalid);
    if (invalid)
        vt_json_string(&w, "why", why);
    vt_json_bool(&w, "interrupted", result->interrupted);
    vt_json_uint(&w, "seconds", result->seconds);
    vt_json_uint(&w, "intended", tally->intended);
    vt_json_uint(&w, "right", tally->good);
    vt_json_uint(&w, "wrong", tally->wrong);
    vt_json_uint(&w, "failed", tally->failed);
    vt_json_uint(&w, "bytes", tally->bytes);
    if (!o->closed)
        vt_json_double(&w, "offered_per_s", offered_per_s(result), 3);
    vt_json_double(&w, "right_per_s", right_per_s(result), 3);
    if (totals->first_failure[0])
        vt_json_string(&w, "first_failure", totals->first_failure);
    if (!o->closed)
        put_points(&w, "response", tally, &tally->response);
    put_points(&w, "service", tally, &tally->service);
    if (!o->closed) {
        put_time(&w, "wake_lag_p99_ns", vt_hist_quantile(&tally->wake_lag, 990000));
        vt_json_uint(&w, "queue_high", totals->queue_high);
    }
    vt_json_uint(&w, "connections_opened", totals->connections_opened);
    vt_json_uint(&w, "connections_failed", totals->connections_failed);
    vt_json_uint(&w, "all_requests", totals->intended);
    vt_json_uint(&w, "all_right", totals->good + totals->slow);
    vt_json_int(&w, "cpu_ns", result->cpu_ns);
    put_time(&w, "run_delay_ns", result->run_delay_ns);
    vt_json_end(&w);
}
