/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probes: what netclient is to do when, and readers of what ping and iperf3 print.
 *
 * From the ramp's end on a stream runs, one of its seconds being an operation, and each second a
 * ping of so many probes is started. A stream longer than PROBES_STREAM_S is cut into several,
 * since iperf3 tells of a stream once it has ended.
 */
#ifndef VTILE_TILES_ROLES_NETWORK_PROBES_H
#define VTILE_TILES_ROLES_NETWORK_PROBES_H

#include "base/clock.h"
#include "base/text.h"
#include "tiles/roles/pace.h"
#include "tiles/roles/role.h"

enum netclient_operation { NETCLIENT_PING, NETCLIENT_STREAM, NETCLIENT_OPERATIONS };

#define PROBES_PINGS_MAX 100 /* a second */
#define PROBES_STREAM_S 60   /* at least; the last one is shorter than twice that */
#define PROBES_SECONDS_MAX (2 * PROBES_STREAM_S)
#define PROBES_IPERF_BYTES_MAX (1U << 20)
#define PROBES_READY_NS (20 * VT_NS_PER_S) /* that a try before the load may take */

/* What is due of an operation. Whole pings a second, at least one. */
void probes_pace(const struct spec_jobs *jobs, const struct role_times *times,
                 enum netclient_operation operation, struct pace *ret);
uint64_t probes_due(const struct spec_jobs *jobs, const struct role_times *times,
                    unsigned operation, int64_t from_ns, int64_t to_ns);
/* Seconds of the next stream when so many are left. */
unsigned probes_stream_s(unsigned left_s);

/* Round trip of each probe of `ping -n -c COUNT`, by icmp_seq from 1; -1: no answer. Lines that are
 * not answers, double ones and numbers beyond are passed over. Returns how many answered. */
unsigned ping_read(const char *text, size_t len, int64_t *ret_ns, unsigned count);

struct iperf_second {
    int64_t length_ns;
    uint64_t bytes;
};
/* Intervals of `iperf3 -J`; -EIO with iperf3's own words when it failed. */
int iperf_read(const char *text, size_t len, struct iperf_second *ret, size_t max, size_t *ret_n,
               struct vt_error *err);

#endif
