/* SPDX-License-Identifier: Apache-2.0 */
/* options: how `vtile load` is to drive its URL. */
#ifndef VTILE_ORCHESTRATOR_LOAD_OPTIONS_H
#define VTILE_ORCHESTRATOR_LOAD_OPTIONS_H

#include "orchestrator/load/url.h"
#include "orchestrator/settings.h"
#include "tiles/load/shape.h"

#define LOAD_THREADS_MAX 64
#define LOAD_CONNECTIONS_MAX 4096

struct load_options {
    int64_t rate;         /* millionths of a request a second; 0: closed */
    const char *schedule; /* open only, as it was given; NULL: poisson */
    struct shape shape;   /* the same; of a replay with its times */
    int64_t *replayed_ns; /* owned */
    bool closed;
    int64_t think_ns; /* closed only */
    int64_t connections, threads;
    int64_t warm_up_ns, duration_ns; /* whole seconds */
    int64_t timeout_ns, wake_lag_max_ns;
    bool has_duration, has_think, has_wake_lag_max, has_seed; /* given */
    uint64_t seed;
    const char *ca; /* NULL: the machine's */
    bool insecure;
    /* from elsewhere */
    bool json;
    struct load_url url;
};

/* The command line without its name; 1 when help was printed. A recorded schedule is read. */
int load_options_parse(int argc, char **argv, struct load_options *ret, struct vt_error *err);
void load_options_free(struct load_options **options); /* of calloc */
#define LOAD_AUTO_OPTIONS __attribute__((cleanup(load_options_free)))

#endif
