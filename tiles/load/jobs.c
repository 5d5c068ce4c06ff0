/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/jobs.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"
#include "tiles/load/order_numbers.h"

static const struct order_number numbers[] = {
    {"rate", offsetof(struct spec_jobs, rate), 1, ORDER_RATE_MAX},
    {"window_ns", offsetof(struct spec_jobs, window_ns), 0, ORDER_LENGTH_MAX_NS},
    {"late_share", offsetof(struct spec_jobs, late_share), 0, ORDER_MILLION},
    {"compress_bytes", offsetof(struct spec_jobs, compress_bytes), 0, ORDER_BYTES_MAX},
    {"compile_functions", offsetof(struct spec_jobs, compile_functions), 0, ORDER_MILLION},
    {"read_share", offsetof(struct spec_jobs, read_share), 0, ORDER_MILLION},
    {"block_bytes", offsetof(struct spec_jobs, block_bytes), 0, ORDER_BYTES_MAX},
    {"stream_rate", offsetof(struct spec_jobs, stream_rate), 0, ORDER_RATE_MAX},
    {"stream_block_bytes", offsetof(struct spec_jobs, stream_block_bytes), 0, ORDER_BYTES_MAX},
    {"bytes_per_s", offsetof(struct spec_jobs, bytes_per_s), 0, ORDER_BYTES_MAX},
};

/* A rate that --load brought to nothing would be due never, or without end. */
static int64_t scaled(int64_t rate, int64_t load)
{
    int64_t scaled = (int64_t)((__int128)rate * load / ORDER_MILLION);

    return rate > 0 && scaled == 0 ? 1 : scaled;
}

void jobs_order_make(struct jobs_order *order, unsigned tile, const struct spec_role *spec,
                     int preset, int64_t load)
{
    const struct role *role = role_find(spec->name);
    size_t npresets;
    const struct spec_preset *lengths = &spec_presets(&npresets)[preset];

    *order = (struct jobs_order){
        .tile = tile,
        .times = {lengths->ramp_ns, lengths->warm_ns, lengths->measure_ns},
        .jobs = spec->jobs,
    };
    vt_text_copy(order->role, sizeof(order->role), spec->name);
    order->jobs.rate = scaled(spec->jobs.rate, load);
    order->jobs.stream_rate = scaled(spec->jobs.stream_rate, load);
    order->jobs.bytes_per_s = scaled(spec->jobs.bytes_per_s, load);
    order->jobs.window_ns = spec->jobs.windows_ns[preset];
    for (unsigned i = 0; role && i < role->noperations && i < SPEC_OPERATIONS_MAX; i++) {
        const struct spec_operation *own = spec_find_operation(&spec->load, role->operations[i]);

        order->good_limit_ns[i] = own ? own->good_limit_ns : spec->load.good_limit_ns;
        order->rated[i] = own && (own->min_bytes_per_s[0] > 0 || own->min_bytes_per_s[1] > 0);
    }
}

static json_t *write_jobs(const struct spec_jobs *jobs)
{
    json_t *json = json_object();

    if (order_numbers_write(numbers, VT_COUNT(numbers), jobs, json))
        return json;
    json_decref(json);
    return NULL;
}

static json_t *write_operations(const struct jobs_order *order, const struct role *role)
{
    json_t *array = json_array();
    bool bad = !array;

    for (unsigned i = 0; !bad && i < role->noperations; i++)
        bad = json_array_append_new(array,
                                    json_pack("{s:s, s:I, s:b}", "name", role->operations[i],
                                              "good_limit_ns", (json_int_t)order->good_limit_ns[i],
                                              "rated", order->rated[i])) != 0;
    if (bad) {
        json_decref(array);
        array = NULL;
    }
    return array;
}

json_t *jobs_order_write(const struct jobs_order *order, struct vt_error *err)
{
    const struct role *role = role_find(order->role);
    json_t *json;

    if (!role) {
        vt_error_set(err, VT_KIND_CONFIG, -ENOENT, "role %s is not known", order->role);
        return NULL;
    }
    json = json_pack("{s:i, s:s, s:I, s:I, s:I, s:o, s:o}", "tile", (int)order->tile, "role",
                     order->role, "ramp_ns", (json_int_t)order->times.ramp_ns, "warm_ns",
                     (json_int_t)order->times.warm_ns, "measure_ns",
                     (json_int_t)order->times.measure_ns, "jobs", write_jobs(&order->jobs),
                     "operations", write_operations(order, role));
    if (!json)
        vt_error_no_memory(err, "order for %s of tile %u", order->role, order->tile);
    return json;
}

static int read_operations(const json_t *json, const struct role *role, struct jobs_order *order,
                           struct vt_error *err)
{
    const json_t *array;
    int ret = vt_json_get_array(json, "operations", SPEC_OPERATIONS_MAX, &array, err);

    if (ret == 0 && json_array_size(array) != role->noperations)
        ret = vt_error_refuse(err, "%s has %u operations, not %zu", role->name, role->noperations,
                              json_array_size(array));
    for (unsigned i = 0; ret == 0 && i < role->noperations; i++) {
        const json_t *item = json_array_get(array, i);
        const char *name = NULL;

        ret = vt_json_get_string(item, "name", &name, err);
        if (ret == 0 && strcmp(name, role->operations[i]) != 0)
            ret = vt_error_refuse(err, "operation %u of %s is %s, not '%.40s'", i, role->name,
                                  role->operations[i], name);
        if (ret == 0)
            ret = vt_json_get_int(item, "good_limit_ns", 1, ORDER_HOUR_NS, &order->good_limit_ns[i],
                                  err);
        if (ret == 0)
            ret = vt_json_get_bool(item, "rated", &order->rated[i], err);
    }
    return ret;
}

static int read_order(const json_t *json, struct jobs_order *order, struct vt_error *err)
{
    const struct role *role;
    const char *name = NULL, *missing;
    const json_t *jobs = NULL;
    int64_t tile = 0;
    int ret = vt_json_get_int(json, "tile", 1, SPEC_TILES_MAX, &tile, err);

    if (ret == 0)
        ret = vt_json_get_string(json, "role", &name, err);
    if (ret < 0)
        return ret;
    role = role_find(name);
    if (!role || !role->guest || !role->guest->work ||
        !vt_text_copy(order->role, sizeof(order->role), name))
        return vt_error_refuse(err, "no role '%.40s' that makes load for itself", name);
    order->tile = (unsigned)tile;
    ret = vt_json_get_int(json, "ramp_ns", 0, ORDER_LENGTH_MAX_NS, &order->times.ramp_ns, err);
    if (ret == 0)
        ret = vt_json_get_int(json, "warm_ns", 0, ORDER_LENGTH_MAX_NS, &order->times.warm_ns, err);
    if (ret == 0)
        ret = vt_json_get_int(json, "measure_ns", 1, ORDER_LENGTH_MAX_NS, &order->times.measure_ns,
                              err);
    if (ret == 0)
        ret = vt_json_get_object(json, "jobs", &jobs, err);
    if (ret == 0)
        ret = order_numbers_read(numbers, VT_COUNT(numbers), jobs, &order->jobs, err);
    if (ret < 0)
        return ret;
    missing = role->check_jobs ? role->check_jobs(&order->jobs) : NULL;
    if (missing)
        return vt_error_refuse(err, "jobs of %s: %s", role->name, missing);
    return read_operations(json, role, order, err);
}

int jobs_order_read(const json_t *json, struct jobs_order *ret, struct vt_error *err)
{
    struct jobs_order order = {0};
    int code = read_order(json, &order, err);

    if (code < 0)
        return vt_error_wrap(err, "order of jobs");
    *ret = order;
    return 0;
}

uint64_t jobs_order_due(const struct jobs_order *order, int64_t from_ns, int64_t to_ns)
{
    const struct role *role = role_find(order->role);
    uint64_t due = 0;

    for (unsigned i = 0; role && role->due && i < role->noperations; i++)
        due += role->due(&order->jobs, &order->times, i, from_ns, to_ns);
    return due;
}

int jobs_order_hash(const struct jobs_order *order, uint8_t hash[32], struct vt_error *err)
{
    json_t *json = jobs_order_write(order, err);
    VT_AUTO_FREE char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    bool bad = json && (!text || !EVP_Digest(text, strlen(text), hash, NULL, EVP_sha256(), NULL));

    json_decref(json);
    if (!json)
        return err ? err->code : -ENOMEM;
    return bad ? vt_error_no_memory(err, "hash of an order") : 0;
}
