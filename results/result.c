/* SPDX-License-Identifier: Apache-2.0 */
#include "results/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "results/cpu_use.h"
#include "results/qos_batches.h"

/* A text of meta, "" when absent. */
static int read_word(struct record_reader *reader, const char *key, char *dst, size_t size,
                     struct vt_error *err)
{
    VT_AUTO_FREE char *value = NULL;
    int r = record_read_meta(reader, key, &value, err);

    if (r == -ENOENT)
        return 0;
    if (r == 0)
        vt_text_copy(dst, size, value);
    return r;
}

static int read_head(struct record_reader *reader, struct result *result, bool *ret_by_operation,
                     struct vt_error *err)
{
    char by_operation[8] = "";
    const struct {
        const char *key;
        char *dst;
        size_t size;
    } words[] = {
        {RECORD_META_RUN, result->run, sizeof(result->run)},
        {RECORD_META_WALL_START, result->wall_start, sizeof(result->wall_start)},
        {RECORD_META_SPEC_NAME, result->spec, sizeof(result->spec)},
        {RECORD_META_PRESET, result->preset, sizeof(result->preset)},
        {RECORD_META_LOAD, result->load, sizeof(result->load)},
        {RECORD_META_TILES, result->tiles, sizeof(result->tiles)},
        {RECORD_META_HOST, result->host, sizeof(result->host)},
        {RECORD_META_BY_OPERATION, by_operation, sizeof(by_operation)},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < VT_COUNT(words); i++)
        r = read_word(reader, words[i].key, words[i].dst, words[i].size, err);
    *ret_by_operation = !strcmp(by_operation, "1");
    return r;
}

static int add_role(struct record_reader *reader, const struct vt_record_role *role,
                    bool by_operation, struct result *result, struct vt_error *err)
{
    struct vt_record_schedule schedule = {0};
    struct vt_record_totals totals;
    struct record_sum *sum;
    bool has_schedule, has_totals;
    size_t first;
    int r = record_read_schedule(reader, role->tile, role->role, &schedule, err);

    if (r < 0 && r != -ENOENT)
        return r;
    has_schedule = r == 0;
    r = record_read_totals(reader, role->tile, role->role, &totals, err);
    if (r < 0 && r != -ENOENT)
        return r;
    has_totals = r == 0;
    sum = malloc(sizeof(*sum)); /* 100 KiB and more */
    if (!sum)
        return vt_error_no_memory(err, "compute the result");
    r = record_sum_load(reader, role->tile, role->role, schedule.from_s, schedule.to_s, sum, err);
    if (r < 0) {
        free(sum);
        return r;
    }
    first = result->qos.nlines;
    r = qos_add_role(&result->qos, role, sum, by_operation, err);
    if (r == 0)
        r = qos_widen(&result->qos, first, reader, &schedule, sum, err);
    if (r == 0)
        r = score_add_role(&result->score, role, sum, schedule.to_s - schedule.from_s,
                           schedule.window_steps, err);
    if (r == 0)
        r = verdict_add_role(&result->verdict, role, sum, has_schedule ? &schedule : NULL,
                             has_totals ? &totals : NULL, err);
    if (r == 0)
        r = verdict_add_generator(&result->verdict, reader, role, sum, &schedule, err);
    record_sum_dispose(sum);
    free(sum);
    return r;
}

/* The window is one for all roles. */
static int add_samples(struct record_reader *reader, const struct vt_record_role *roles,
                       size_t nroles, struct result *result, struct vt_error *err)
{
    struct vt_record_schedule schedule;

    for (size_t i = 0; i < nroles; i++) {
        int r = record_read_schedule(reader, roles[i].tile, roles[i].role, &schedule, err);

        if (r == 0)
            return verdict_add_samples(&result->verdict, reader, &schedule, err);
        if (r != -ENOENT)
            return r;
    }
    return 0;
}

static int find_window(struct record_reader *reader, const struct vt_record_role *roles,
                       size_t nroles, struct samples_axis *axis, struct vt_error *err)
{
    char t0[24] = "";
    int r = read_word(reader, RECORD_META_T0, t0, sizeof(t0), err);

    if (r < 0 || vt_text_parse_int(t0, INT64_MIN, INT64_MAX, &axis->t0_ns, NULL) < 0)
        return r;
    for (size_t i = 0; i < nroles && axis->to_s == 0; i++) {
        struct vt_record_schedule schedule;

        r = record_read_schedule(reader, roles[i].tile, roles[i].role, &schedule, err);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r < 0)
            continue;
        axis->from_s = schedule.from_s;
        axis->to_s = axis->end_s = schedule.to_s;
    }
    samples_axis_cut(axis, SAMPLES_BINS_MAX);
    return 0;
}

/* Beside a limit that is broken: who filled the host, if it was full. */
static int add_busy(struct record_reader *reader, const struct vt_record_role *roles, size_t nroles,
                    struct result *result, struct vt_error *err)
{
    struct samples samples = {0};
    struct cpu_use *use = calloc(1, sizeof(*use));
    int r = use ? find_window(reader, roles, nroles, &samples.axis, err)
                : vt_error_no_memory(err, "find who filled the host");

    if (r == 0)
        r = samples_read(&samples, reader, err);
    result->busy = (struct vt_buf)VT_BUF_INIT(16384);
    if (r == 0 && cpu_use_find(&samples, use) && use->busy > CPU_USE_FULL * use->cpus) {
        cpu_use_write_text(use, &result->busy);
        r = vt_buf_check(&result->busy, "find who filled the host", err);
    }
    samples_dispose(&samples);
    free(use);
    return r;
}

int result_compute(struct record_reader *reader, struct result *ret, struct vt_error *err)
{
    VT_AUTO_FREE struct vt_record_role *roles = NULL;
    bool by_operation;
    size_t nroles = 0;
    int r = read_head(reader, ret, &by_operation, err);

    ret->qos.state = QOS_UNDECIDED;
    if (r == 0)
        r = verdict_add_record(&ret->verdict, reader, err);
    if (r == 0)
        r = record_read_roles(reader, &roles, &nroles, err);
    if (r == 0)
        r = add_samples(reader, roles, nroles, ret, err);
    for (size_t i = 0; r == 0 && i < nroles; i++) {
        if (roles[i].driven)
            r = add_role(reader, &roles[i], by_operation, ret, err);
    }
    if (r == 0)
        r = kept_compute(reader, roles, nroles, &ret->kept, err);
    if (r == 0)
        r = verdict_add_kept(&ret->verdict, &ret->kept, err);
    if (r == 0)
        r = score_finish(&ret->score, err);
    if (r == 0 && !ret->score.nroles)
        r = verdict_add_no_load(&ret->verdict, err);
    if (r == 0 && ret->qos.state == QOS_FAIL)
        r = add_busy(reader, roles, nroles, ret, err);
    return r;
}

void result_dispose(struct result *result)
{
    qos_dispose(&result->qos);
    score_dispose(&result->score);
    verdict_dispose(&result->verdict);
    kept_dispose(&result->kept);
    vt_buf_dispose(&result->busy);
}
