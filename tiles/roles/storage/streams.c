/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/roles/storage/streams.h"

#include <string.h>

#include "base/clock.h"

#define MILLION 1000000

const char *const stream_names[STREAM_KINDS] = {
    [STREAM_READ] = "read", [STREAM_WRITE] = "write", [STREAM_SEQUENTIAL] = "sequential"};

bool stream_make(const struct spec_jobs *jobs, const struct role_times *times,
                 enum stream_kind kind, struct stream *ret)
{
    int64_t reads = (int64_t)((__int128)jobs->rate * jobs->read_share / MILLION);
    int64_t rate = kind == STREAM_READ    ? reads
                   : kind == STREAM_WRITE ? jobs->rate - reads
                                          : jobs->stream_rate;

    if (rate <= 0)
        return false;
    rate = (rate + MILLION / 2) / MILLION;
    if (rate < 1)
        rate = 1;
    memset(ret, 0, offsetof(struct stream, bins));
    ret->nbins = 0;
    ret->kind = kind;
    ret->pace = (struct pace){
        .rate = rate * MILLION,
        .begin_ns = times->ramp_ns,
        .end_ns = times->ramp_ns + times->warm_ns + times->measure_ns,
    };
    ret->block_bytes = kind == STREAM_SEQUENTIAL ? jobs->stream_block_bytes : jobs->block_bytes;
    ret->total = pace_due(&ret->pace, ret->pace.begin_ns, ret->pace.end_ns);
    return true;
}

uint64_t streams_due(const struct spec_jobs *jobs, const struct role_times *times,
                     unsigned operation, int64_t from_ns, int64_t to_ns)
{
    struct stream stream;

    if (operation >= STREAM_KINDS || !stream_make(jobs, times, operation, &stream))
        return 0;
    return pace_due(&stream.pace, from_ns, to_ns);
}

/* One access more, of that latency. */
static void tell(struct stream *stream, int64_t latency_ns, const struct role_work *work)
{
    struct role_done done = {
        .operation = stream->kind,
        .intended_ns = pace_intended_ns(&stream->pace, stream->done),
        .lag_ns = stream->lag_ns,
        .response_ns = latency_ns,
        .service_ns = latency_ns,
        .bytes = (uint64_t)stream->block_bytes,
    };
    int64_t least_ns = stream->seen_ns - (done.intended_ns - stream->pace.begin_ns);

    /* What is above the total was not asked for. */
    if (stream->done++ >= stream->total)
        return;
    if (least_ns > done.response_ns)
        done.response_ns = least_ns;
    work->done(work->ctx, &done);
}

int stream_take(struct stream *stream, const struct fio_job *job, int64_t since_t0_ns,
                const struct role_work *work, struct vt_error *err)
{
    int64_t now_ns = job->runtime_ms * VT_NS_PER_MS;
    size_t old = 0;

    if (stream->done == 0 && since_t0_ns - now_ns > stream->pace.begin_ns)
        stream->lag_ns = since_t0_ns - now_ns - stream->pace.begin_ns;
    for (size_t i = 0; i < job->nbins; i++) {
        uint64_t before = 0;

        while (old < stream->nbins && stream->bins[old].value_ns < job->bins[i].value_ns)
            old++;
        if (old < stream->nbins && stream->bins[old].value_ns == job->bins[i].value_ns)
            before = stream->bins[old].count;
        if (job->bins[i].count < before)
            return vt_error_refuse(err, "fio takes back what it has counted");
        for (; before < job->bins[i].count && stream->done < stream->total; before++)
            tell(stream, job->bins[i].value_ns, work);
    }
    memcpy(stream->bins, job->bins, job->nbins * sizeof(job->bins[0]));
    stream->nbins = job->nbins;
    stream->seen_ns = now_ns;
    return 0;
}
