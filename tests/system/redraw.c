/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redraw RECORD TILE ROLE: draws the schedule again from what the record says (spec, seed, preset,
 * load), refuses when its hash is not the one that the load client reported, and prints a line a
 * step: sequence, intended time in ns since T0, operation.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/scope.h"
#include "results/record.h"
#include "tiles/load/order.h"
#include "tiles/roles/role.h"

static struct spec spec;
static struct load_order order;

static int read_text(struct record_reader *reader, const char *key, char **ret,
                     struct vt_error *err)
{
    int code = record_read_meta(reader, key, ret, err);

    return code < 0 ? vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "record has no %s", key) : 0;
}

/* "0.050000" -> 50000 */
static int64_t millionths(const char *text)
{
    long long whole = 0, part = 0;

    sscanf(text, "%lld.%6lld", &whole, &part);
    return whole * 1000000 + part;
}

static const struct spec_preset *find_preset(const char *name)
{
    size_t n;
    const struct spec_preset *presets = spec_presets(&n);

    for (size_t i = 0; i < n; i++)
        if (!strcmp(presets[i].name, name))
            return &presets[i];
    return NULL;
}

static int fill_order(struct record_reader *reader, unsigned tile, const char *role,
                      struct vt_error *err)
{
    VT_AUTO_FREE char *text = NULL, *seed = NULL, *preset = NULL, *load = NULL;
    const struct spec_role *spec_role = NULL;
    int code = read_text(reader, RECORD_META_SPEC_TEXT, &text, err);

    if (code == 0)
        code = read_text(reader, RECORD_META_SEED, &seed, err);
    if (code == 0)
        code = read_text(reader, RECORD_META_PRESET, &preset, err);
    if (code == 0)
        code = read_text(reader, RECORD_META_LOAD, &load, err);
    if (code == 0)
        code = spec_read_text("record", text, strlen(text), &spec, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < spec.nroles; i++)
        if (!strcmp(spec.roles[i].name, role) && spec.roles[i].driven)
            spec_role = &spec.roles[i];
    if (!spec_role || !find_preset(preset))
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "no driven role %s, or no preset %s",
                            role, preset);
    order.tile = tile;
    vt_text_copy(order.role, sizeof(order.role), role);
    order.seed = strtoull(seed, NULL, 10);
    order.load = spec_role->load;
    order.rate = (int64_t)((__int128)spec_role->load.rate * millionths(load) / 1000000);
    load_order_segments(&order, find_preset(preset));
    return 0;
}

static int redraw(const char *path, unsigned tile, const char *role, struct vt_error *err)
{
    struct record_reader *reader = NULL;
    struct vt_record_schedule recorded = {0};
    struct schedule schedule = {0};
    uint64_t window_steps = 0;
    int code = record_open_read(path, &reader, err);

    if (code == 0)
        code = fill_order(reader, tile, role, err);
    if (code == 0)
        code = record_read_schedule(reader, tile, role, &recorded, err);
    if (code == 0)
        code = load_order_draw(&order, &schedule, &window_steps, err);
    record_reader_close(reader);
    if (code < 0)
        return code;
    for (size_t i = 0; i < schedule.nsteps; i++)
        printf("%u %lld %s\n", schedule.steps[i].sequence, (long long)schedule.steps[i].intended_ns,
               role_find(role)->driver->operations[schedule.steps[i].operation]);
    if (memcmp(schedule.hash, recorded.hash, sizeof(recorded.hash)) != 0 ||
        recorded.steps != schedule.nsteps || recorded.window_steps != window_steps)
        code = vt_error_set(err, VT_KIND_CONFIG, -EBADMSG,
                            "the schedule drawn is not the one in the record");
    schedule_dispose(&schedule);
    return code;
}

int main(int argc, char **argv)
{
    struct vt_error err = VT_ERROR_INIT;

    vt_log_init("redraw", VT_LOG_INFO);
    if (argc != 4)
        return 2;
    if (redraw(argv[1], (unsigned)strtoul(argv[2], NULL, 10), argv[3], &err) == 0)
        return 0;
    vt_log_error(&err);
    return 1;
}
