/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"
#include "tiles/load/order_numbers.h"
#include "tiles/roles/role.h"

#define CONNECTIONS_MAX 65536

static const struct order_number load_numbers[] = {
    {"connections", offsetof(struct spec_load, connections), 1, CONNECTIONS_MAX},
    {"timeout_ns", offsetof(struct spec_load, timeout_ns), 1, ORDER_HOUR_NS},
    {"think_mean_ns", offsetof(struct spec_load, think_mean_ns), 0, ORDER_HOUR_NS},
    {"think_max_ns", offsetof(struct spec_load, think_max_ns), 0, ORDER_HOUR_NS},
    {"think_share", offsetof(struct spec_load, think_share), 0, ORDER_MILLION},
    {"expected_ns", offsetof(struct spec_load, expected_ns), 0, ORDER_HOUR_NS},
    {"good_limit_ns", offsetof(struct spec_load, good_limit_ns), 1, ORDER_HOUR_NS},
};
static const struct order_number operation_numbers[] = {
    {"good_limit_ns", offsetof(struct spec_operation, good_limit_ns), 1, ORDER_HOUR_NS},
    {"min_bytes_per_s_95", offsetof(struct spec_operation, min_bytes_per_s[0]), 0, ORDER_BYTES_MAX},
    {"min_bytes_per_s_99", offsetof(struct spec_operation, min_bytes_per_s[1]), 0, ORDER_BYTES_MAX},
};

void load_order_segments(struct load_order *order, const struct spec_preset *preset)
{
    order->segments[0] = (struct schedule_segment){.length_ns = preset->ramp_ns, .ramp = true};
    order->segments[1] = (struct schedule_segment){.length_ns = preset->warm_ns};
    order->segments[2] = (struct schedule_segment){.length_ns = preset->measure_ns};
    order->nsegments = 3;
    order->drain_ns = preset->drain_ns;
    order->window_from_ns = preset->ramp_ns + preset->warm_ns;
}

static json_t *write_operation(const struct spec_operation *operation)
{
    json_t *json = json_pack("{s:s}", "name", operation->name);

    if (order_numbers_write(operation_numbers, VT_COUNT(operation_numbers), operation, json))
        return json;
    json_decref(json);
    return NULL;
}

static json_t *write_load(const struct spec_load *load)
{
    json_t *json = json_pack("{s:i, s:s}", "loop", load->loop, "schedule", load->schedule);
    json_t *operations = json_array();
    bool bad =
        !operations || !order_numbers_write(load_numbers, VT_COUNT(load_numbers), load, json);

    for (size_t i = 0; !bad && i < load->noperations; i++)
        bad = json_array_append_new(operations, write_operation(&load->operations[i])) != 0;
    if (bad || json_object_set(json, "operations", operations) != 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(operations);
    return json;
}

json_t *load_order_write(const struct load_order *order, struct vt_error *err)
{
    char seed[24];
    json_t *segments = json_array();
    json_t *json;
    bool bad = !segments;

    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)order->seed);
    for (unsigned i = 0; !bad && i < order->nsegments; i++)
        bad = json_array_append_new(segments, json_pack("{s:I, s:b}", "length_ns",
                                                        (json_int_t)order->segments[i].length_ns,
                                                        "ramp", order->segments[i].ramp)) != 0;
    json = bad ? NULL
               : json_pack("{s:i, s:s, s:s, s:I, s:O, s:I, s:I, s:{s:s, s:s}, s:o}", "tile",
                           (int)order->tile, "role", order->role, "seed", seed, "rate",
                           (json_int_t)order->rate, "segments", segments, "drain_ns",
                           (json_int_t)order->drain_ns, "window_from_ns",
                           (json_int_t)order->window_from_ns, "target", "address", order->address,
                           "server_name", order->server_name, "load", write_load(&order->load));
    json_decref(segments);
    if (!json)
        vt_error_no_memory(err, "order for %s of tile %u", order->role, order->tile);
    return json;
}

static int read_text(const json_t *json, const char *key, char *dst, size_t size,
                     struct vt_error *err)
{
    const char *text;
    int ret = vt_json_get_string(json, key, &text, err);

    if (ret == 0 && !vt_text_copy(dst, size, text))
        ret = vt_error_refuse(err, "%s: longer than %zu bytes", key, size - 1);
    return ret;
}

static int read_operations(const json_t *json, const struct driver *driver, struct spec_load *load,
                           struct vt_error *err)
{
    const json_t *array;
    int ret = vt_json_get_array(json, "operations", SPEC_OPERATIONS_MAX, &array, err);

    if (ret < 0)
        return ret;
    for (size_t i = 0; ret == 0 && i < json_array_size(array); i++) {
        struct spec_operation *operation = &load->operations[load->noperations++];
        const json_t *item = json_array_get(array, i);
        bool known = false;

        ret = read_text(item, "name", operation->name, sizeof(operation->name), err);
        if (ret == 0)
            ret = order_numbers_read(operation_numbers, VT_COUNT(operation_numbers), item,
                                     operation, err);
        for (unsigned o = 0; ret == 0 && o < driver->noperations; o++)
            known |= !strcmp(driver->operations[o], operation->name);
        if (ret == 0 && !known)
            ret = vt_error_refuse(err, "%s has no operation '%s'", driver->name, operation->name);
    }
    return ret;
}

static int read_shape(const json_t *json, struct spec_load *load, struct vt_error *err)
{
    struct shape shape;
    int ret = read_text(json, "schedule", load->schedule, sizeof(load->schedule), err);

    if (ret == 0 && shape_parse(load->schedule, &shape, NULL, err) < 0)
        ret = vt_error_refuse(err, "schedule: not a shape's text");
    return ret;
}

static int read_load(const json_t *order, const struct driver *driver, struct spec_load *load,
                     struct vt_error *err)
{
    const json_t *json;
    int64_t loop = 0;
    int ret = vt_json_get_object(order, "load", &json, err);

    if (ret == 0)
        ret = vt_json_get_int(json, "loop", SPEC_LOOP_OPEN, SPEC_LOOP_CLOSED, &loop, err);
    if (ret < 0)
        return ret;
    load->loop = (int)loop;
    ret = read_shape(json, load, err);
    if (ret == 0)
        ret = order_numbers_read(load_numbers, VT_COUNT(load_numbers), json, load, err);
    return ret < 0 ? ret : read_operations(json, driver, load, err);
}

static int read_segments(const json_t *json, struct load_order *order, struct vt_error *err)
{
    const json_t *array;
    int64_t sum_ns = 0;
    int ret = vt_json_get_array(json, "segments", ORDER_SEGMENTS_MAX, &array, err);

    if (ret < 0)
        return ret;
    for (size_t i = 0; ret == 0 && i < json_array_size(array); i++) {
        struct schedule_segment *segment = &order->segments[order->nsegments++];
        const json_t *item = json_array_get(array, i);

        ret = vt_json_get_int(item, "length_ns", 0, ORDER_LENGTH_MAX_NS, &segment->length_ns, err);
        segment->ramp = json_is_true(json_object_get(item, "ramp"));
        sum_ns += segment->length_ns;
    }
    if (ret == 0)
        ret = vt_json_get_int(json, "window_from_ns", 0, sum_ns, &order->window_from_ns, err);
    return ret;
}

static int read_seed(const json_t *json, uint64_t *ret_seed, struct vt_error *err)
{
    const char *text;
    char *end;
    int ret = vt_json_get_string(json, "seed", &text, err);

    if (ret < 0)
        return ret;
    errno = 0;
    *ret_seed = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return vt_error_refuse(err, "seed: not a number of 64 bits");
    return 0;
}

static const struct driver *driver_of(const char *name)
{
    const struct role *role = role_find(name);

    return role ? role->driver : NULL;
}

int load_order_read(const json_t *json, struct load_order *ret, struct vt_error *err)
{
    const struct driver *driver = NULL;
    const json_t *target;
    struct load_order order;
    int64_t tile = 0;
    int code;

    memset(&order, 0, sizeof(order));
    code = vt_json_get_int(json, "tile", 1, SPEC_TILES_MAX, &tile, err);
    if (code == 0)
        code = read_text(json, "role", order.role, sizeof(order.role), err);
    if (code == 0 && !(driver = driver_of(order.role)))
        code = vt_error_refuse(err, "no role '%s' that can be driven", order.role);
    if (code == 0)
        code = read_seed(json, &order.seed, err);
    if (code == 0)
        code = vt_json_get_int(json, "rate", 1, ORDER_RATE_MAX, &order.rate, err);
    if (code == 0)
        code = read_segments(json, &order, err);
    if (code == 0)
        code = vt_json_get_int(json, "drain_ns", 0, ORDER_HOUR_NS, &order.drain_ns, err);
    if (code == 0)
        code = vt_json_get_object(json, "target", &target, err);
    if (code == 0)
        code = read_text(target, "address", order.address, sizeof(order.address), err);
    if (code == 0)
        code = read_text(target, "server_name", order.server_name, sizeof(order.server_name), err);
    if (code == 0)
        code = read_load(json, driver, &order.load, err);
    if (code < 0)
        return vt_error_wrap(err, "order of a load");
    order.tile = (unsigned)tile;
    *ret = order;
    return 0;
}

/* What is measured has the load's shape; what comes before is poisson. */
static unsigned shape_segments(const struct load_order *order, const struct shape *shape,
                               struct schedule_segment segments[ORDER_SEGMENTS_MAX])
{
    int64_t from_ns = 0;
    unsigned n = 0;

    for (; n < order->nsegments && n < ORDER_SEGMENTS_MAX; n++) {
        segments[n] = order->segments[n];
        if (from_ns >= order->window_from_ns && !segments[n].ramp)
            segments[n].shape = shape;
        from_ns += segments[n].length_ns;
    }
    return n;
}

int load_order_draw(const struct load_order *order, struct schedule *ret,
                    uint64_t *ret_window_steps, struct vt_error *err)
{
    const struct driver *driver = driver_of(order->role);
    struct schedule_segment segments[ORDER_SEGMENTS_MAX];
    struct shape shape;
    char stream[48];
    int code;

    if (!driver)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "role %s is not driven", order->role);
    snprintf(stream, sizeof(stream), "tile-%u/%s", order->tile, order->role);
    code = shape_parse(order->load.schedule, &shape, NULL, err);
    if (code == 0)
        code =
            schedule_draw(driver, &order->load, order->rate, segments,
                          shape_segments(order, &shape, segments), order->seed, stream, ret, err);
    if (code < 0)
        return vt_error_wrap(err, "schedule of %s of tile %u", order->role, order->tile);
    if (ret_window_steps) {
        size_t first = 0;

        while (first < ret->nsteps && ret->steps[first].intended_ns < order->window_from_ns)
            first++;
        *ret_window_steps = ret->nsteps - first;
    }
    return 0;
}
