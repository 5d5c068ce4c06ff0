/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/load/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/command.h"
#include "tiles/load/schedule_replay.h"

#define MILLION 1000000
#define RATE_MIN 1e-6
#define RATE_MAX 1e6
#define LENGTH_MAX_NS (INT64_C(86400) * VT_NS_PER_S)
#define REPLAY "replay:" /* the file's name follows */

static int take_rate(void *ctx, const char *value, struct vt_error *err)
{
    double rate = 0;
    int code = vt_text_parse_double(value, RATE_MIN, RATE_MAX, &rate, err);

    if (code == 0)
        ((struct load_options *)ctx)->rate = llround(rate * MILLION);
    return code;
}

static bool is_replay(const struct load_options *o)
{
    return o->schedule && !strncmp(o->schedule, REPLAY, strlen(REPLAY));
}

static int take_schedule(void *ctx, const char *value, struct vt_error *err)
{
    struct load_options *options = ctx;

    if (!value[0])
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "expected NAME[:ARG,...]");
    options->schedule = value;
    if (!is_replay(options))
        return shape_parse(value, &options->shape, NULL, err);
    if (!value[strlen(REPLAY)])
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "expected " REPLAY "FILE");
    options->shape = (struct shape){.kind = SHAPE_REPLAY};
    return 0;
}

static int take_closed(void *ctx, const char *value, struct vt_error *err)
{
    (void)value, (void)err;
    ((struct load_options *)ctx)->closed = true;
    return 0;
}

/* From min to max; whole: of seconds. */
static int take_time(const char *value, int64_t min_ns, int64_t max_ns, bool whole, int64_t *ret_ns,
                     struct vt_error *err)
{
    int64_t ns = 0;
    int code = vt_text_parse_duration(value, &ns, err);

    if (code < 0)
        return code;
    if (ns < min_ns || ns > max_ns)
        return vt_error_set(err, VT_KIND_USAGE, -ERANGE, "'%s': it must be %g s to %g s", value,
                            (double)min_ns / 1e9, (double)max_ns / 1e9);
    if (whole && ns % VT_NS_PER_S)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "'%s': it must be whole seconds", value);
    *ret_ns = ns;
    return 0;
}

static int take_think(void *ctx, const char *value, struct vt_error *err)
{
    struct load_options *options = ctx;

    options->has_think = true;
    return take_time(value, 0, LENGTH_MAX_NS, false, &options->think_ns, err);
}

static int take_duration(void *ctx, const char *value, struct vt_error *err)
{
    struct load_options *options = ctx;

    options->has_duration = true;
    return take_time(value, VT_NS_PER_S, LENGTH_MAX_NS, true, &options->duration_ns, err);
}

static int take_warm_up(void *ctx, const char *value, struct vt_error *err)
{
    return take_time(value, 0, LENGTH_MAX_NS, true, &((struct load_options *)ctx)->warm_up_ns, err);
}

static int take_timeout(void *ctx, const char *value, struct vt_error *err)
{
    return take_time(value, VT_NS_PER_MS, 3600 * VT_NS_PER_S, false,
                     &((struct load_options *)ctx)->timeout_ns, err);
}

static int take_wake_lag(void *ctx, const char *value, struct vt_error *err)
{
    struct load_options *options = ctx;

    options->has_wake_lag_max = true;
    return take_time(value, VT_NS_PER_US, 3600 * VT_NS_PER_S, false, &options->wake_lag_max_ns,
                     err);
}

static int take_connections(void *ctx, const char *value, struct vt_error *err)
{
    return vt_text_parse_int(value, 1, LOAD_CONNECTIONS_MAX,
                             &((struct load_options *)ctx)->connections, err);
}

static int take_threads(void *ctx, const char *value, struct vt_error *err)
{
    return vt_text_parse_int(value, 1, LOAD_THREADS_MAX, &((struct load_options *)ctx)->threads,
                             err);
}

static int take_seed(void *ctx, const char *value, struct vt_error *err)
{
    struct load_options *options = ctx;
    int64_t seed = 0;
    int code = vt_text_parse_int(value, 0, INT64_MAX, &seed, err);

    options->seed = (uint64_t)seed;
    options->has_seed = true;
    return code;
}

static int take_ca(void *ctx, const char *value, struct vt_error *err)
{
    (void)err;
    ((struct load_options *)ctx)->ca = value;
    return 0;
}

static int take_insecure(void *ctx, const char *value, struct vt_error *err)
{
    (void)value, (void)err;
    ((struct load_options *)ctx)->insecure = true;
    return 0;
}

static const struct settings_option own[] = {
    {"rate", "N", "open loop: requests a second, whatever the server does", take_rate},
    {"schedule", "NAME[:ARG,...]",
     "poisson, uniform, bursty, step, ramp, swing or replay (poisson)", take_schedule},
    {"closed", NULL, "closed loop: each connection asks again when it has its answer", take_closed},
    {"think", "TIME", "with --closed: wait so long before asking again (0 s)", take_think},
    {"connections", "N", "kept connections, all opened beforehand (16)", take_connections},
    {"threads", "N", "threads that share connections and rate (1)", take_threads},
    {"duration", "TIME", "what is measured, whole seconds (10 s)", take_duration},
    {"warm-up", "TIME", "driven before that and not counted (1 s)", take_warm_up},
    {"timeout", "TIME", "a request without a whole answer has failed then (10 s)", take_timeout},
    {"wake-lag-max", "TIME", "99 % of the generator's own delays, else invalid (10 ms)",
     take_wake_lag},
    {"seed", "N", "of the times of an open loop (drawn)", take_seed},
    {"ca", "FILE", "trust this CA, PEM, not the machine's", take_ca},
    {"insecure", NULL, "do not check the server's certificate", take_insecure},
};
const struct settings_use load_use = {
    .usage = "vtile load URL --rate N [OPTION]...\n"
             "       vtile load URL --closed [OPTION]...\n\n"
             "Asks for one page over and over, and says how long that takes. --rate sends each\n"
             "request at its own time, drawn beforehand (a Poisson process, or as --schedule has\n"
             "it), and counts its response time from then: a server that stalls is seen to stall. "
             "--closed asks\n"
             "again after each answer; it finds the most that a server can do, and its\n"
             "percentiles hide stalls.",
    .options = own,
    .noptions = VT_COUNT(own),
    .operands = true};

static int check(const struct load_options *o, struct vt_error *err)
{
    const char *why = NULL;

    if (is_replay(o) && o->rate > 0)
        why = "--rate: a recorded schedule has its own";
    else if (o->closed && o->schedule)
        why = "--schedule: a closed loop has none";
    else if (o->closed == (o->rate > 0 || is_replay(o)))
        why = "either --rate N, an open loop, or --closed";
    else if (o->rate > 0 && o->rate * (o->duration_ns / VT_NS_PER_S) < MILLION)
        why = "not one request is due at that --rate in that --duration";
    else if (o->has_think && !o->closed)
        why = "--think belongs to --closed";
    else if (o->has_wake_lag_max && o->closed)
        why = "--wake-lag-max belongs to --rate";
    else if (o->has_seed && o->closed)
        why = "--seed: a closed loop draws nothing";
    else if (o->connections < o->threads)
        why = "fewer --connections than --threads";
    else if ((o->ca || o->insecure) && !o->url.tls)
        why = "--ca and --insecure are for https";
    else if (o->ca && o->insecure)
        why = "either --ca or --insecure";
    return why ? vt_error_set(err, VT_KIND_USAGE, -EINVAL, "%s; see `vtile load --help`", why) : 0;
}

/* Rate and, where it is not said, duration follow from the times. */
static int read_replay(struct load_options *o, struct vt_error *err)
{
    const char *path = o->schedule + strlen(REPLAY);
    struct shape *shape = &o->shape;
    int64_t last_ns;
    int code = schedule_replay_read(path, &o->replayed_ns, &shape->nreplayed, err);

    if (code < 0)
        return code;
    shape->replayed_ns = o->replayed_ns;
    last_ns = shape->replayed_ns[shape->nreplayed - 1];
    if (!o->has_duration)
        o->duration_ns = (last_ns / VT_NS_PER_S + 1) * VT_NS_PER_S;
    if (last_ns >= o->duration_ns || o->duration_ns > LENGTH_MAX_NS)
        return vt_error_set(err, VT_KIND_USAGE, -ERANGE,
                            "%s: its last time, %.9g s, is not before %g s, the %s", path,
                            (double)last_ns / 1e9,
                            (double)(o->has_duration ? o->duration_ns : LENGTH_MAX_NS) / 1e9,
                            o->has_duration ? "--duration" : "longest duration");
    o->rate = shape_rate_of(shape->nreplayed, o->duration_ns);
    if (o->rate > (int64_t)RATE_MAX * MILLION)
        return vt_error_set(err, VT_KIND_USAGE, -ERANGE, "%s: more than %g times a second", path,
                            RATE_MAX);
    return 0;
}

static void dispose(struct load_options *o)
{
    free(o->replayed_ns);
    o->replayed_ns = NULL;
}

void load_options_free(struct load_options **options)
{
    if (*options)
        dispose(*options);
    free(*options);
}

int load_options_parse(int argc, char **argv, struct load_options *ret, struct vt_error *err)
{
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof *settings);
    struct settings_use use = load_use;
    struct load_options options = {
        .connections = 16,
        .threads = 1,
        .duration_ns = 10 * VT_NS_PER_S,
        .warm_up_ns = VT_NS_PER_S,
        .timeout_ns = 10 * VT_NS_PER_S,
        .wake_lag_max_ns = 10 * VT_NS_PER_MS,
    };
    uint32_t seed; /* short enough to be typed again, and for readers of JSON with 53 bits */
    int first = argc, code;

    if (!settings)
        return vt_error_no_memory(err, "load");
    use.ctx = &options;
    if ((code = settings_begin(argc, argv, &use, settings, &first, err)) != 0)
        return code;
    options.json = settings->json;
    if (argc - first != 1)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "`vtile load` wants one URL; see `vtile load --help`");
    if ((code = load_url_parse(argv[first], &options.url, err)) < 0 ||
        (code = check(&options, err)) < 0)
        return code;
    if (getrandom(&seed, sizeof seed, 0) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "draw a seed");
    if (!options.has_seed)
        options.seed = seed;
    if (is_replay(&options) && (code = read_replay(&options, err)) < 0) {
        dispose(&options);
        return code;
    }
    *ret = options;
    return 0;
}
