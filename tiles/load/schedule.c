/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/schedule.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"

#define STREAM_NAME_MAX 128
/* Millionths of an operation a second times nanoseconds that make one operation. */
#define RATE_UNIT UINT64_C(1000000000000000)
/* Steps drawn to learn the mean gap: their mean is within 0.4 % for exponential gaps. */
#define CYCLE_STEPS 65536
/* A session met in mid-session has walked this many mean gaps unseen: by then neither its page nor
 * the rest of its gap tells where it started. */
#define BURN_IN_CYCLES 16
#define BURN_IN_STEPS_MAX 4096
/* Sessions passed over for one instant because their step before is too recent. */
#define PASSED_OVER_MAX 64
#define NEVER INT64_MIN
/* A driver's session that ends before its first step, again and again. */
#define EMPTY_SESSIONS_MAX 16

/* What one session wants next. */
struct session {
    uint32_t id;
    uint16_t operation;
    uint32_t argument;
    int64_t wanted_ns;
    int64_t last_ns; /* intended time of its step before, or NEVER */
    struct vt_rng rng;
};

struct draw {
    const struct driver *driver;
    const struct spec_load *load;
    uint64_t seed;
    char sessions_stream[STREAM_NAME_MAX], instants_stream[STREAM_NAME_MAX],
        cycle_stream[STREAM_NAME_MAX];
    struct session *sessions;
    uint8_t *states; /* session_bytes each, at the same index */
    uint32_t *heap;  /* indices of sessions, the one due longest first */
    uint32_t n, nheap;
    uint32_t next; /* id of the next fresh session */
};

static void free_room(struct draw *d)
{
    free(d->sessions);
    free(d->states);
    free(d->heap);
}

/* --- sessions --- */

static void *state_of(const struct draw *d, uint32_t i)
{
    return d->states + (size_t)i * d->driver->session_bytes;
}

static bool plan(const struct draw *d, uint32_t i, bool first, bool fresh, int64_t *gap_ns)
{
    struct session *s = &d->sessions[i];

    return d->driver->plan(state_of(d, i), &s->rng, d->load, first, fresh, &s->operation,
                           &s->argument, gap_ns);
}

/* Each session has a stream of its own, so its pages do not depend on when others are due. */
static bool begin_session(struct draw *d, uint32_t i, bool fresh, int64_t *gap_ns)
{
    for (unsigned tries = 0; tries < EMPTY_SESSIONS_MAX; tries++) {
        d->sessions[i].id = d->next++;
        vt_rng_seed(&d->sessions[i].rng, d->seed, d->sessions_stream, d->sessions[i].id);
        memset(state_of(d, i), 0, d->driver->session_bytes);
        d->sessions[i].last_ns = NEVER;
        if (plan(d, i, true, fresh, gap_ns))
            return true;
    }
    return false;
}

/* The step after the one at from_ns; where the session ends, a fresh one takes its place. */
static bool next_step(struct draw *d, uint32_t i, int64_t from_ns)
{
    int64_t gap_ns = 0;

    d->sessions[i].last_ns = from_ns;
    if (!plan(d, i, false, false, &gap_ns) && !begin_session(d, i, true, &gap_ns))
        return false;
    d->sessions[i].wanted_ns = from_ns + (gap_ns > 0 ? gap_ns : 0);
    return true;
}

/* Mean time from step to step, fresh sessions' first gap included; -1 where there are no steps. */
static int64_t mean_gap_ns(struct draw *d)
{
    int64_t gap_ns = 0;
    unsigned __int128 sum = 0;

    vt_rng_seed(&d->sessions[0].rng, d->seed, d->cycle_stream, 0);
    for (unsigned i = 0; i < CYCLE_STEPS; i++) {
        if (i == 0 || !plan(d, 0, false, false, &gap_ns)) {
            memset(state_of(d, 0), 0, d->driver->session_bytes);
            if (!plan(d, 0, true, true, &gap_ns))
                return -1;
        }
        sum += gap_ns > 0 ? (uint64_t)gap_ns : 0;
    }
    return (int64_t)(sum / CYCLE_STEPS);
}

/* A member of the stationary population at time at_ns: its next step is the first after that of a
 * session that has run since long before. */
static bool meet_session(struct draw *d, uint32_t i, int64_t at_ns, int64_t gap_mean_ns)
{
    int64_t gap_ns = 0;

    if (!begin_session(d, i, false, &gap_ns))
        return false;
    d->sessions[i].wanted_ns = at_ns - BURN_IN_CYCLES * gap_mean_ns + gap_ns;
    for (unsigned n = 0; d->sessions[i].wanted_ns < at_ns && n < BURN_IN_STEPS_MAX; n++)
        if (!next_step(d, i, d->sessions[i].wanted_ns))
            return false;
    d->sessions[i].last_ns = NEVER; /* unseen */
    return true;
}

/* --- heap of what is due longest; ties go to the older session, so the order is total --- */

static bool sooner(const struct draw *d, uint32_t a, uint32_t b)
{
    const struct session *x = &d->sessions[a], *y = &d->sessions[b];

    return x->wanted_ns != y->wanted_ns ? x->wanted_ns < y->wanted_ns : x->id < y->id;
}

static void sift_down(struct draw *d, uint32_t at)
{
    uint32_t moved = d->heap[at];

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= d->nheap)
            break;
        if (child + 1 < d->nheap && sooner(d, d->heap[child + 1], d->heap[child]))
            child++;
        if (!sooner(d, d->heap[child], moved))
            break;
        d->heap[at] = d->heap[child];
        at = child;
    }
    d->heap[at] = moved;
}

static uint32_t pop(struct draw *d)
{
    uint32_t first = d->heap[0];

    d->heap[0] = d->heap[--d->nheap];
    if (d->nheap > 0)
        sift_down(d, 0);
    return first;
}

static void push(struct draw *d, uint32_t i)
{
    uint32_t at = d->nheap++;

    for (; at > 0 && sooner(d, i, d->heap[(at - 1) / 2]); at = (at - 1) / 2)
        d->heap[at] = d->heap[(at - 1) / 2];
    d->heap[at] = i;
}

static bool too_soon(const struct draw *d, uint32_t i, int64_t at_ns)
{
    const struct session *s = &d->sessions[i];

    return s->last_ns != NEVER && at_ns - s->last_ns < d->load->expected_ns;
}

/* The session due longest, taken off the heap. One whose step before was intended less than an
 * expected response ago is passed over, for the step would only wait for that response; where
 * all are such (a tiny population), it is the one due longest all the same. */
static uint32_t take_session(struct draw *d, int64_t at_ns)
{
    uint32_t passed[PASSED_OVER_MAX], n = 0, first = 0;
    uint32_t taken;

    while (n < PASSED_OVER_MAX && d->nheap > 0 && too_soon(d, d->heap[0], at_ns))
        passed[n++] = pop(d);
    if (n > 0 && (n == PASSED_OVER_MAX || d->nheap == 0))
        taken = passed[first++];
    else
        taken = pop(d);
    while (n > first)
        push(d, passed[--n]);
    return taken;
}

/* --- instants --- */

/* round(rate x length), half of that for a ramp. */
static uint64_t segment_count(int64_t rate, const struct schedule_segment *segment)
{
    unsigned __int128 n = (unsigned __int128)rate * (uint64_t)segment->length_ns;
    uint64_t unit = segment->ramp ? 2 * RATE_UNIT : RATE_UNIT;

    return (uint64_t)((n + unit / 2) / unit);
}

static const struct shape poisson = {.kind = SHAPE_POISSON};

/* Sorted instants of a segment that begins at from_ns. */
static void draw_instants(const struct draw *d, const struct schedule_segment *segment,
                          unsigned index, int64_t from_ns, int64_t *instants, size_t n)
{
    struct vt_rng rng;

    vt_rng_seed(&rng, d->seed, d->instants_stream, index);
    if (segment->ramp)
        shape_draw_start(&rng, segment->length_ns, instants, n);
    else
        shape_draw(segment->shape ? segment->shape : &poisson, &rng, segment->length_ns, instants,
                   n);
    for (size_t i = 0; i < n; i++)
        instants[i] += from_ns;
}

/* --- putting them together --- */

static int check_segment(const struct driver *driver, int64_t rate,
                         const struct schedule_segment *segment, unsigned index,
                         uint64_t *ret_count, struct vt_error *err)
{
    /* A year: far above any run, far below where sums of nanoseconds would overflow. */
    if (segment->length_ns < 0 || segment->length_ns > INT64_C(366) * 86400 * 1000000000)
        return vt_error_set(err, VT_KIND_CONFIG, -ERANGE,
                            "schedule of %s: the length of segment %u is out of range",
                            driver->name, index);
    *ret_count = segment_count(rate, segment);
    if (segment->shape && !segment->ramp &&
        shape_check(segment->shape, segment->length_ns, *ret_count, err) < 0)
        return vt_error_wrap(err, "schedule of %s", driver->name);
    return 0;
}

static int check_arguments(const struct driver *driver, int64_t rate,
                           const struct schedule_segment *segments, unsigned nsegments,
                           const char *stream, size_t *ret_steps, struct vt_error *err)
{
    uint64_t total = 0;

    if (rate < 0 || rate > INT64_C(1000000) * 1000000)
        return vt_error_set(err, VT_KIND_CONFIG, -ERANGE,
                            "schedule of %s: a rate of %lld millionths a second is out of range",
                            driver->name, (long long)rate);
    if (strlen(stream) >= STREAM_NAME_MAX - 16)
        return vt_error_set(err, VT_KIND_CONFIG, -ENAMETOOLONG, "schedule of %s: stream %s",
                            driver->name, stream);
    for (unsigned i = 0; i < nsegments; i++) {
        uint64_t count = 0;
        int code = check_segment(driver, rate, &segments[i], i, &count, err);

        if (code < 0)
            return code;
        total += count;
    }
    if (total > SCHEDULE_STEPS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG,
                            "schedule of %s: %llu operations, at most %u can be planned; lower "
                            "the rate or the length",
                            driver->name, (unsigned long long)total, SCHEDULE_STEPS_MAX);
    *ret_steps = (size_t)total;
    return 0;
}

static int out_of_memory(const struct draw *d, struct vt_error *err)
{
    return vt_error_no_memory(err, "schedule of %s", d->driver->name);
}

static int no_steps(const struct draw *d, struct vt_error *err)
{
    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "schedule of %s: its sessions have no steps",
                        d->driver->name);
}

static int make_room(struct draw *d, uint32_t n, struct vt_error *err)
{
    size_t state_bytes = d->driver->session_bytes > 0 ? d->driver->session_bytes : 1;

    free_room(d);
    d->sessions = calloc(n, sizeof *d->sessions);
    d->states = calloc(n, state_bytes);
    d->heap = calloc(n, sizeof *d->heap);
    return d->sessions && d->states && d->heap ? 0 : out_of_memory(d, err);
}

/* By Little's law n sessions at a mean gap of g make n / g steps a second, so n = rate x g makes
 * the population want as many as there are instants. Where the rate changes it is the most
 * operations within any g: fewer would be called before they have thought, and before they have
 * their answer. */
static unsigned __int128 sessions_wanted(int64_t rate, const struct schedule_segment *segments,
                                         unsigned nsegments, int64_t gap_ns)
{
    unsigned __int128 n = ((unsigned __int128)rate * (uint64_t)gap_ns + RATE_UNIT / 2) / RATE_UNIT;

    for (unsigned i = 0; i < nsegments; i++) {
        const struct schedule_segment *segment = &segments[i];
        uint64_t busiest = 0;

        if (segment->shape && segment->shape->kind != SHAPE_POISSON && !segment->ramp)
            busiest = shape_busiest(segment->shape, segment->length_ns,
                                    segment_count(rate, segment), gap_ns);
        n = busiest > n ? busiest : n;
    }
    return n;
}

/* In a leading ramp the population grows with the rate. */
static int populate(struct draw *d, int64_t rate, const struct schedule_segment *segments,
                    unsigned nsegments, struct vt_error *err)
{
    int64_t ramp_ns = nsegments > 0 && segments[0].ramp ? segments[0].length_ns : 0;
    int64_t gap_ns;
    unsigned __int128 n;
    int code = make_room(d, 1, err);

    if (code < 0)
        return code;
    gap_ns = mean_gap_ns(d);
    if (gap_ns < 0)
        return no_steps(d, err);
    n = sessions_wanted(rate, segments, nsegments, gap_ns);
    if (n > SCHEDULE_SESSIONS_MAX)
        return vt_error_set(err, VT_KIND_CONFIG, -E2BIG,
                            "schedule of %s: more than %u sessions at once; lower the rate or the "
                            "think time",
                            d->driver->name, SCHEDULE_SESSIONS_MAX);
    d->n = n < 1 ? 1 : (uint32_t)n;
    code = make_room(d, d->n, err);
    if (code < 0)
        return code;
    for (uint32_t i = 0; i < d->n; i++) {
        if (!meet_session(d, i, (int64_t)((__int128)ramp_ns * i / d->n), gap_ns))
            return no_steps(d, err);
        push(d, i);
    }
    return 0;
}

static int assign(struct draw *d, const int64_t *instants, size_t n, struct driver_step *steps,
                  struct vt_error *err)
{
    for (size_t k = 0; k < n; k++) {
        uint32_t i = take_session(d, instants[k]);
        const struct session *s = &d->sessions[i];

        steps[k] = (struct driver_step){
            .sequence = (uint32_t)k,
            .session = s->id,
            .operation = s->operation,
            .argument = s->argument,
            .intended_ns = instants[k],
        };
        if (!next_step(d, i, instants[k]))
            return no_steps(d, err);
        push(d, i);
    }
    return 0;
}

static void put_le(uint8_t **at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *(*at)++ = (uint8_t)(value >> 8 * i);
}

static int hash_steps(const struct schedule *schedule, uint8_t hash[32], struct vt_error *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; good && i < schedule->nsteps; i++) {
        const struct driver_step *step = &schedule->steps[i];
        uint8_t bytes[22], *at = bytes;

        put_le(&at, step->sequence, 4);
        put_le(&at, step->session, 4);
        put_le(&at, step->operation, 2);
        put_le(&at, step->argument, 4);
        put_le(&at, (uint64_t)step->intended_ns, 8);
        good = EVP_DigestUpdate(ctx, bytes, sizeof bytes) == 1;
    }
    good = good && EVP_DigestFinal_ex(ctx, hash, NULL) == 1;
    EVP_MD_CTX_free(ctx);
    return good ? 0
                : vt_error_set(err, VT_KIND_INFRA, -EIO, "hash of the schedule: OpenSSL failed");
}

/* Of all segments, one behind the other. The caller's (free); NULL without memory. */
static int64_t *all_instants(const struct draw *d, int64_t rate,
                             const struct schedule_segment *segments, unsigned nsegments,
                             size_t nsteps)
{
    int64_t *instants = calloc(nsteps + 1, sizeof *instants);
    int64_t from_ns = 0;
    size_t at = 0;

    for (unsigned i = 0; instants && i < nsegments; i++) {
        size_t n = (size_t)segment_count(rate, &segments[i]);

        draw_instants(d, &segments[i], i, from_ns, instants + at, n);
        from_ns += segments[i].length_ns;
        at += n;
    }
    return instants;
}

static int walk_sessions(struct draw *d, int64_t rate, const struct schedule_segment *segments,
                         unsigned nsegments, const int64_t *instants, struct schedule *schedule,
                         struct vt_error *err)
{
    int code = populate(d, rate, segments, nsegments, err);

    if (code == 0)
        code = assign(d, instants, schedule->nsteps, schedule->steps, err);
    schedule->nsessions = d->next;
    return code;
}

static void each_apart(const int64_t *instants, struct schedule *schedule)
{
    for (size_t i = 0; i < schedule->nsteps; i++)
        schedule->steps[i] = (struct driver_step){
            .sequence = (uint32_t)i, .session = (uint32_t)i, .intended_ns = instants[i]};
    schedule->nsessions = (uint32_t)schedule->nsteps;
}

/* load NULL: each step apart. */
static int draw(const struct driver *driver, const struct spec_load *load, int64_t rate,
                const struct schedule_segment *segments, unsigned nsegments, uint64_t seed,
                const char *stream, struct schedule *ret, struct vt_error *err)
{
    struct draw d = {.driver = driver, .load = load, .seed = seed};
    struct schedule schedule = {0};
    int code = check_arguments(driver, rate, segments, nsegments, stream, &schedule.nsteps, err);

    if (code < 0)
        return code;
    snprintf(d.sessions_stream, sizeof d.sessions_stream, "%s/sessions", stream);
    snprintf(d.instants_stream, sizeof d.instants_stream, "%s/instants", stream);
    snprintf(d.cycle_stream, sizeof d.cycle_stream, "%s/cycle", stream);
    VT_AUTO_FREE int64_t *instants = all_instants(&d, rate, segments, nsegments, schedule.nsteps);
    schedule.steps = calloc(schedule.nsteps + 1, sizeof *schedule.steps);
    if (!instants || !schedule.steps)
        code = out_of_memory(&d, err);
    else if (load)
        code = walk_sessions(&d, rate, segments, nsegments, instants, &schedule, err);
    else
        each_apart(instants, &schedule);
    if (code == 0)
        code = hash_steps(&schedule, schedule.hash, err);
    free_room(&d);
    if (code < 0)
        schedule_dispose(&schedule);
    else
        *ret = schedule;
    return code;
}

int schedule_draw(const struct driver *driver, const struct spec_load *load, int64_t rate,
                  const struct schedule_segment *segments, unsigned nsegments, uint64_t seed,
                  const char *stream, struct schedule *ret, struct vt_error *err)
{
    return draw(driver, load, rate, segments, nsegments, seed, stream, ret, err);
}

int schedule_draw_apart(const struct driver *driver, int64_t rate,
                        const struct schedule_segment *segments, unsigned nsegments, uint64_t seed,
                        const char *stream, struct schedule *ret, struct vt_error *err)
{
    return draw(driver, NULL, rate, segments, nsegments, seed, stream, ret, err);
}

int schedule_part(const struct schedule *schedule, uint32_t i, uint32_t n, struct schedule *ret,
                  struct vt_error *err)
{
    size_t nsteps = schedule->nsteps > i ? (schedule->nsteps - i - 1) / n + 1 : 0;
    struct schedule part = {.nsteps = nsteps, .nsessions = (uint32_t)nsteps};

    part.steps = calloc(nsteps + 1, sizeof *part.steps);
    if (!part.steps)
        return vt_error_no_memory(err, "part of a schedule");
    for (size_t k = 0; k < nsteps; k++) {
        part.steps[k] = schedule->steps[i + k * n];
        part.steps[k].sequence = part.steps[k].session = (uint32_t)k;
    }
    *ret = part;
    return 0;
}

void schedule_dispose(struct schedule *schedule)
{
    free(schedule->steps);
    *schedule = (struct schedule){0};
}
