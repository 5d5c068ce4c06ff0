/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams: what storage is offered: each stream of accesses at a constant rate of its own, whole
 * accesses a second, evenly spaced, from the ramp's end on. (fio draws Poisson gaps in whole
 * microseconds and cuts them: 300,000 a second become 333,333. Its even gaps are taken from the
 * bytes done so far and do not drift, so what is offered is exactly what is due.)
 *
 * Access i of a stream is due i / rate after fio began. fio tells once a second what it has done:
 * an access that stands first in the report at `now` was not done at the report before, so its
 * response time is at least that report's time less its due time. The response time is that or
 * the latency that fio measured, whichever is more: too short by a second at most, and only where
 * storage lags behind.
 */
#ifndef VTILE_TILES_ROLES_STORAGE_STREAMS_H
#define VTILE_TILES_ROLES_STORAGE_STREAMS_H

#include "tiles/roles/pace.h"
#include "tiles/roles/role.h"
#include "tiles/roles/storage/fio.h"

enum stream_kind { STREAM_READ, STREAM_WRITE, STREAM_SEQUENTIAL, STREAM_KINDS };

struct stream {
    enum stream_kind kind;
    struct pace pace; /* since T0 */
    int64_t block_bytes;
    uint64_t total; /* accesses */
    /* so far */
    uint64_t done;
    int64_t seen_ns; /* of fio's time: the last report */
    int64_t lag_ns;  /* how late fio began */
    struct fio_bin bins[FIO_BINS_MAX];
    size_t nbins;
};

extern const char *const stream_names[STREAM_KINDS]; /* operations and fio's jobs */

/* False where the spec has none of that kind. */
bool stream_make(const struct spec_jobs *jobs, const struct role_times *times,
                 enum stream_kind kind, struct stream *ret);
uint64_t streams_due(const struct spec_jobs *jobs, const struct role_times *times,
                     unsigned operation, int64_t from_ns, int64_t to_ns);
/* Tells what is new in a report; since_t0_ns: when it came. */
int stream_take(struct stream *stream, const struct fio_job *job, int64_t since_t0_ns,
                const struct role_work *work, struct vt_error *err);

#endif
