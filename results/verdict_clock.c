/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents' clocks. Load is intended by the client's clock and samples are stamped by the guests';
 * both are brought to the controller's by an offset, which is known to half a round trip.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "results/verdict_rules.h"

/* adjtimex(2): "the kernel limits the frequency to 500 ppm", and that is the fastest that a
 * monotonic clock is slewed. Both clocks may be. */
#define SLEW_PPM 1000

struct clocks {
    struct record_reader *reader;
    struct verdict *verdict;
    int64_t run_s; /* from the first snapshot to the last, about */
    struct vt_error *err;
};

static int add_uncertain(const struct clocks *clocks, const struct vt_record_agent *agent)
{
    bool client = !strcmp(agent->duty, "client");
    int64_t bound = client ? VERDICT_CLOCK_UNCERTAIN_NS : VERDICT_CLOCK_UNCERTAIN_GUEST_NS;

    if (agent->rtt_ns / 2 <= bound)
        return 0;
    return verdict_add(clocks->verdict, VERDICT_DEGRADED, "clock-uncertain", agent->rtt_ns / 2,
                       clocks->err, "the clock of %s is known to %" PRId64 " ms only", agent->name,
                       agent->rtt_ns / 2 / VT_NS_PER_MS);
}

/* "<offset_ns> <rtt_ns>". */
static bool parse(const char *text, int64_t *ret_offset_ns, int64_t *ret_rtt_ns)
{
    char *end = NULL;

    errno = 0;
    *ret_offset_ns = strtoll(text, &end, 10);
    if (errno || end == text || *end != ' ')
        return false;
    text = end + 1;
    *ret_rtt_ns = strtoll(text, &end, 10);
    return !errno && end != text && *end == '\0' && *ret_rtt_ns >= 0;
}

/* How far apart two offsets are beyond what both round trips leave open; never overflows. */
static int64_t moved_ns(const struct vt_record_agent *agent, int64_t offset_ns, int64_t rtt_ns)
{
    __int128 moved = (__int128)agent->clock_offset_ns - offset_ns;

    if (moved < 0)
        moved = -moved;
    moved -= (__int128)agent->rtt_ns / 2 + rtt_ns / 2;
    if (moved < 0)
        return 0;
    return moved > INT64_MAX ? INT64_MAX : (int64_t)moved;
}

static int add_moved(const struct clocks *clocks, const struct vt_record_agent *agent)
{
    VT_AUTO_FREE char *text = NULL;
    int64_t offset_ns, rtt_ns, moved,
        bound = VERDICT_CLOCK_MOVED_NS + clocks->run_s * SLEW_PPM * 1000;
    char key[RECORD_META_KEY_MAX];
    int r;

    snprintf(key, sizeof(key), RECORD_META_CLOCK_BEGIN "%s", agent->name);
    r = record_read_meta(clocks->reader, key, &text, clocks->err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (!parse(text, &offset_ns, &rtt_ns))
        return vt_error_refuse(clocks->err, "meta '%s' is no offset and round trip", key);
    moved = moved_ns(agent, offset_ns, rtt_ns);
    if (moved <= bound)
        return 0;
    r = verdict_was_restarted(clocks->reader, agent->name, clocks->err);
    if (r != 0)
        return r < 0 ? r : 0;
    return verdict_add(
        clocks->verdict, VERDICT_DEGRADED, "clock-moved", moved, clocks->err,
        "the clock of %s moved by %.3f s against the controller's while load ran, at "
        "most %.3f s are allowed",
        agent->name, (double)moved / VT_NS_PER_S, (double)bound / VT_NS_PER_S);
}

static int on_agent(void *ctx, const struct vt_record_agent *agent)
{
    const struct clocks *clocks = ctx;
    int r = add_uncertain(clocks, agent);

    return r < 0 ? r : add_moved(clocks, agent);
}

/* Of the load: the last driven role's end. */
static int read_length(struct record_reader *reader, int64_t *ret_s, struct vt_error *err)
{
    VT_AUTO_FREE struct vt_record_role *roles = NULL;
    struct vt_record_schedule schedule;
    size_t n = 0;
    int r = record_read_roles(reader, &roles, &n, err);

    *ret_s = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = record_read_schedule(reader, roles[i].tile, roles[i].role, &schedule, err);
        if (r == 0 && schedule.to_s > *ret_s)
            *ret_s = schedule.to_s;
        if (r == -ENOENT)
            r = 0;
    }
    return r;
}

int verdict_add_clocks(struct verdict *verdict, struct record_reader *reader, struct vt_error *err)
{
    struct clocks clocks = {.reader = reader, .verdict = verdict, .err = err};
    int r = read_length(reader, &clocks.run_s, err);

    return r < 0 ? r : record_walk_agents(reader, on_agent, &clocks, err);
}
