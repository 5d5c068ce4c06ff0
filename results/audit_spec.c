/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in force against the spec, the preset and the published tile. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "results/audit_rules.h"

#define MILLION 1000000

/* --- one role against what it must be --- */

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"rate", offsetof(struct vt_record_role, rate)},
    {"divisor", offsetof(struct vt_record_role, divisor)},
    {"weight", offsetof(struct vt_record_role, weight)},
    {"good_limit_ns", offsetof(struct vt_record_role, good_limit_ns)},
    {"error_share_max", offsetof(struct vt_record_role, error_share_max)},
    {"wake_lag_p99_max_ns", offsetof(struct vt_record_role, wake_lag_p99_max_ns)},
};

static int64_t number_at(const struct vt_record_role *role, size_t offset)
{
    int64_t value;

    memcpy(&value, (const char *)role + offset, sizeof(value));
    return value;
}

static bool same_limits(const struct vt_record_limit *a, size_t na, const struct vt_record_limit *b,
                        size_t nb)
{
    for (size_t i = 0; na == nb && i < na; i++) {
        if (a[i].percentile != b[i].percentile || a[i].limit_ns != b[i].limit_ns)
            return false;
    }
    return na == nb;
}

static bool same_operation(const struct vt_record_operation *a, const struct vt_record_operation *b)
{
    return !strcmp(a->name, b->name) && a->good_limit_ns == b->good_limit_ns &&
           a->min_bytes_per_s[0] == b->min_bytes_per_s[0] &&
           a->min_bytes_per_s[1] == b->min_bytes_per_s[1] &&
           same_limits(a->limits, a->nlimits, b->limits, b->nlimits);
}

static const char *schedule_name(const struct vt_record_role *role)
{
    return *role->schedule ? role->schedule : "poisson";
}

/* False, and what differs first. */
static bool same_role(const struct vt_record_role *is, const struct vt_record_role *must, char *saw,
                      size_t size)
{
    int n = snprintf(saw, size, "tile %u, %s: ", is->tile, is->role);

    saw += n;
    size -= (size_t)n;
    if (is->scored != must->scored || is->driven != must->driven || is->loop != must->loop) {
        snprintf(saw, size, "scored, driven or loop is not as in the spec");
        return false;
    }
    if (strcmp(is->schedule, must->schedule) != 0) {
        snprintf(saw, size, "its schedule is %.100s and not %.100s", schedule_name(is),
                 schedule_name(must));
        return false;
    }
    for (size_t i = 0; i < VT_COUNT(numbers); i++) {
        int64_t a = number_at(is, numbers[i].offset), b = number_at(must, numbers[i].offset);

        if (a != b) {
            snprintf(saw, size, "%s is %" PRId64 " and not %" PRId64, numbers[i].name, a, b);
            return false;
        }
    }
    if (!same_limits(is->limits, is->nlimits, must->limits, must->nlimits) ||
        is->noperations != must->noperations) {
        snprintf(saw, size, "its limits are not those of the spec");
        return false;
    }
    for (size_t i = 0; i < is->noperations; i++) {
        if (!same_operation(&is->operations[i], &must->operations[i])) {
            snprintf(saw, size, "limits of operation %s are not those of the spec",
                     is->operations[i].name);
            return false;
        }
    }
    return true;
}

static const struct vt_record_role *find(const struct vt_record_role *roles, size_t n,
                                         unsigned tile, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if ((tile == 0 || roles[i].tile == tile) && !strcmp(roles[i].role, name))
            return &roles[i];
    }
    return NULL;
}

static void audit_spec(struct audit_work *work, const char *rule, bool claim,
                       const struct audit_spec *spec, const char *passed)
{
    char saw[AUDIT_SAW_MAX];

    if (!spec->roles) {
        audit_add(work, rule, claim, AUDIT_FAIL, "%.390s", spec->why);
        return;
    }
    for (size_t i = 0; i < work->nroles; i++) {
        const struct vt_record_role *must = find(spec->roles, spec->nroles, 0, work->roles[i].role);

        if (!must) {
            audit_add(work, rule, claim, AUDIT_FAIL, "tile %u, %s: not a role of the spec",
                      work->roles[i].tile, work->roles[i].role);
            return;
        }
        if (!same_role(&work->roles[i], must, saw, sizeof(saw))) {
            audit_add(work, rule, claim, AUDIT_FAIL, "%s", saw);
            return;
        }
    }
    audit_add(work, rule, claim, AUDIT_PASS, "%s", passed);
}

/* --- tiles, load, preset --- */

/* A role without load may serve several tiles, as a shared database does. */
static void audit_tiles(struct audit_work *work)
{
    const struct audit_spec *spec = &work->given->text;

    if (work->ntiles < 1 || !spec->roles) {
        audit_add(work, "tiles", false, AUDIT_FAIL, "the record says '%s' tiles", work->tiles);
        return;
    }
    for (unsigned tile = 1; tile <= work->ntiles; tile++) {
        for (size_t i = 0; i < spec->nroles; i++) {
            const struct vt_record_role *must = &spec->roles[i];

            if (!find(work->roles, work->nroles, must->driven ? tile : 0, must->role)) {
                audit_add(work, "tiles", false, AUDIT_FAIL, "tile %u has no %s", tile, must->role);
                return;
            }
        }
    }
    audit_add(work, "tiles", false, AUDIT_PASS, "%" PRId64 ", each with every role of the spec",
              work->ntiles);
}

/* The number due is drawn ahead: round(rate x T), whatever the seed. */
static bool offered_right(const struct vt_record_role *role,
                          const struct vt_record_schedule *schedule)
{
    __int128 wanted = (__int128)role->rate * (schedule->to_s - schedule->from_s);
    __int128 off = (__int128)schedule->window_steps * MILLION - wanted;

    return off <= MILLION && off >= -MILLION;
}

static int audit_windows(struct audit_work *work, const struct audit_preset *preset)
{
    struct vt_record_schedule schedule;
    size_t driven = 0;

    for (size_t i = 0; i < work->nroles; i++) {
        const struct vt_record_role *role = &work->roles[i];
        int r;

        if (!role->driven)
            continue;
        r = record_read_schedule(work->reader, role->tile, role->role, &schedule, work->err);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r == -ENOENT || schedule.from_s != preset->ramp_s + preset->warm_s ||
            schedule.to_s != schedule.from_s + preset->measure_s) {
            audit_add(work, "preset", false, AUDIT_FAIL, "tile %u, %s: %s", role->tile, role->role,
                      r ? "has no schedule" : "its window is not that of the preset");
            return 0;
        }
        if (!offered_right(role, &schedule)) {
            audit_add(work, "offered", false, AUDIT_FAIL,
                      "tile %u, %s: %" PRIu64 " were due in the window, its rate is %.6f/s",
                      role->tile, role->role, schedule.window_steps, (double)role->rate / MILLION);
            return 0;
        }
        driven++;
    }
    audit_add(work, "preset", false, AUDIT_PASS,
              "%s: %" PRId64 " s measured after %" PRId64 " s, of %zu schedules", preset->name,
              preset->measure_s, preset->ramp_s + preset->warm_s, driven);
    audit_add(work, "offered", false, AUDIT_PASS,
              "in each of %zu windows as many were due as rate and length give", driven);
    return 0;
}

static int audit_preset(struct audit_work *work)
{
    const struct audit_given *given = work->given;
    const struct audit_preset *preset = NULL;

    for (size_t i = 0; i < given->npresets; i++) {
        if (!strcmp(given->presets[i].name, work->preset))
            preset = &given->presets[i];
    }
    audit_add(work, "length", true,
              !strcmp(work->preset, given->full_preset) ? AUDIT_PASS : AUDIT_FAIL,
              "preset '%s'; a claim is measured by '%s'", work->preset, given->full_preset);
    if (!preset) {
        audit_add(work, "preset", false, AUDIT_FAIL, "'%s' is not known", work->preset);
        return 0;
    }
    audit_add(work, "limits by", false,
              !strcmp(work->by_operation, preset->by_operation ? "1" : "0") ? AUDIT_PASS
                                                                            : AUDIT_FAIL,
              "limits were judged by %s",
              !strcmp(work->by_operation, "1") ? "role and by operation" : "role");
    return audit_windows(work, preset);
}

static void audit_load(struct audit_work *work)
{
    audit_add(work, "full load", true, work->load_millionths == MILLION ? AUDIT_PASS : AUDIT_FAIL,
              "load %s of a tile's", *work->load ? work->load : "(not said)");
}

/* Of roles that a published tile scores; others have no published figure. */
static void audit_divisors(struct audit_work *work)
{
    const struct audit_given *given = work->given;
    char seen[AUDIT_SAW_MAX] = "";
    size_t at = 0;

    for (size_t i = 0; i < given->ndivisors; i++) {
        const struct vt_record_role *role =
            find(work->roles, work->nroles, 0, given->divisors[i].role);
        int64_t full = given->divisors[i].divisor;

        if (!role || !role->scored || work->load_millionths < 0)
            continue;
        if (role->divisor != (int64_t)((__int128)full * work->load_millionths / MILLION)) {
            audit_add(work, "published", true, AUDIT_FAIL,
                      "%s: divisor %.6f, published %.6f x load", role->role,
                      (double)role->divisor / MILLION, (double)full / MILLION);
            return;
        }
        if (at < sizeof(seen) - 64)
            at += (size_t)snprintf(seen + at, sizeof(seen) - at, "%s%s %.6f", at ? ", " : "",
                                   role->role, (double)role->divisor / MILLION);
    }
    audit_add(work, "published", true, at ? AUDIT_PASS : AUDIT_NOT_APPLICABLE, "%s",
              at ? seen : "no scored role has a published figure");
}

int audit_numbers(struct audit_work *work)
{
    const struct audit_given *given = work->given;
    int r;

    audit_spec(work, "spec text", false, &given->text,
               "schedules, rates, limits and divisors in force follow from the spec in the record");
    if (given->same_text)
        audit_add(work, "spec", true, AUDIT_PASS, "'%s' is the built-in one, to the letter",
                  work->spec);
    else
        audit_spec(work, "spec", true, &given->builtin,
                   "not the built-in one's text, but its numbers");
    audit_divisors(work);
    audit_tiles(work);
    audit_load(work);
    r = audit_preset(work);
    if (r == 0)
        audit_add(work, "seed", false, *work->seed ? AUDIT_PASS : AUDIT_FAIL, "%s",
                  *work->seed ? work->seed : "not said");
    return r;
}
