/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/message.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"

#define VERSIONS_MAX 1000000
#define T0_LATE_NS (10 * VT_NS_PER_S)
#define T0_AHEAD_NS (3600 * VT_NS_PER_S)

bool wire_name_ok(const char *name)
{
    return vt_text_is_name(name, WIRE_NAME_MAX);
}

int wire_json_read(const struct wire_frame *frame, const char *what, json_t **ret,
                   struct vt_error *err)
{
    json_t *json;
    int rc =
        vt_json_read((const char *)frame->payload, frame->len, what, VT_KIND_REFUSED, &json, err);
    if (rc < 0)
        return rc;
    if (!json_is_object(json)) {
        json_decref(json);
        return vt_error_refuse(err, "%s: not an object", what);
    }
    *ret = json;
    return 0;
}

static void put_json(json_t **json)
{
    json_decref(*json);
}
#define AUTO_JSON __attribute__((cleanup(put_json)))

static int get_text(const json_t *json, const char *key, char *dst, size_t size,
                    struct vt_error *err)
{
    const char *text;
    int rc = vt_json_get_string(json, key, &text, err);
    if (rc == 0 && !vt_text_copy(dst, size, text))
        rc = vt_error_refuse(err, "%s: too long", key);
    return rc;
}

static int get_name(const json_t *json, const char *key, char *dst, size_t size,
                    struct vt_error *err)
{
    int rc = get_text(json, key, dst, size, err);
    if (rc == 0 && !wire_name_ok(dst))
        rc = vt_error_refuse(err, "%s: letters, digits, '-', '_' and '.' only", key);
    return rc;
}

/* --- who is there --- */
int wire_hello_write(enum wire_type type, const struct wire_hello *hello, json_t **ret,
                     struct vt_error *err)
{
    json_t *json =
        type == WIRE_ENROL
            ? json_pack("{s:I, s:I, s:s, s:s, s:s}", "v", (json_int_t)hello->v, "min",
                        (json_int_t)hello->min, "agent", hello->agent, "token", hello->token, "csr",
                        hello->csr)
            : json_pack("{s:I, s:I, s:s, s:s}", "v", (json_int_t)hello->v, "min",
                        (json_int_t)hello->min, "agent", hello->agent, "duty", hello->duty);
    if (!json)
        return vt_error_no_memory(err, "write hello");
    *ret = json;
    return 0;
}

int wire_hello_read(const struct wire_frame *frame, struct wire_hello *ret, struct vt_error *err)
{
    AUTO_JSON json_t *json = NULL;
    struct wire_hello got = {0};
    int rc = wire_json_read(frame, "hello", &json, err);
    if (rc == 0)
        rc = vt_json_get_int(json, "v", 1, VERSIONS_MAX, &got.v, err);
    if (rc == 0)
        rc = vt_json_get_int(json, "min", 1, got.v, &got.min, err);
    if (rc == 0)
        rc = get_name(json, "agent", got.agent, sizeof got.agent, err);
    if (rc == 0 && frame->type == WIRE_HELLO)
        rc = get_name(json, "duty", got.duty, sizeof got.duty, err);
    if (rc == 0 && frame->type == WIRE_ENROL)
        rc = get_text(json, "token", got.token, sizeof got.token, err);
    if (rc == 0 && frame->type == WIRE_ENROL)
        rc = get_text(json, "csr", got.csr, sizeof got.csr, err);
    if (rc == 0)
        *ret = got;
    return rc;
}

int wire_version_choose(const struct wire_hello *hello, int64_t *ret, struct vt_error *err)
{
    int64_t v = hello->v < WIRE_VERSION ? hello->v : WIRE_VERSION;
    if (v < hello->min || v < WIRE_VERSION_MIN)
        return vt_error_set(err, VT_KIND_REFUSED, -EPROTONOSUPPORT,
                            "agent %s speaks versions %" PRId64 " to %" PRId64
                            " of the protocol, the controller %d to %d: use the same release",
                            hello->agent, hello->min, hello->v, WIRE_VERSION_MIN, WIRE_VERSION);
    *ret = v;
    return 0;
}

/* --- control --- */
json_t *wire_call_write(const char *op, const json_t *params)
{
    if (!params)
        return json_pack("{s:s, s:{}}", "op", op, "params");
    return json_pack("{s:s, s:O}", "op", op, "params", params);
}

int wire_call_read(const json_t *call, const char **ret_op, const json_t **ret_params,
                   struct vt_error *err)
{
    int rc = vt_json_get_string(call, "op", ret_op, err);
    return rc < 0 ? rc : vt_json_get_object(call, "params", ret_params, err);
}

json_t *wire_reply_write(const json_t *result, const struct vt_error *failure)
{
    if (!failure && result)
        return json_pack("{s:b, s:O}", "ok", 1, "result", result);
    if (!failure)
        return json_pack("{s:b, s:{}}", "ok", 1, "result");
    json_t *text = json_string(failure->text);
    if (!text) /* not UTF-8: a server's words, perhaps */
        text = json_string("failed, and the reason cannot be told as text");
    return json_pack("{s:b, s:o, s:i, s:i}", "ok", 0, "error", text, "code", failure->code, "kind",
                     (int)failure->kind);
}

int wire_reply_read(const json_t *reply, const json_t **ret_result, struct vt_error *err)
{
    const char *text;
    int64_t code = -EIO, kind = VT_KIND_INFRA;
    bool ok;
    int rc = vt_json_get_bool(reply, "ok", &ok, err);
    if (rc < 0)
        return rc;
    if (ok)
        return vt_json_get_object(reply, "result", ret_result, err);
    rc = vt_json_get_string(reply, "error", &text, err);
    if (rc == 0)
        rc = vt_json_opt_int(reply, "code", -4095, -1, &code, err);
    if (rc == 0)
        rc = vt_json_opt_int(reply, "kind", VT_KIND_USAGE, VT_KIND_REFUSED, &kind, err);
    if (rc < 0)
        return rc;
    return vt_error_set(err, (enum vt_kind)kind, (int)code, "%s", text);
}

int wire_sample_read(const struct wire_frame *frame, int64_t *ret_t_ns, json_t **ret,
                     struct vt_error *err)
{
    AUTO_JSON json_t *json = NULL;
    const json_t *series;
    const char *name;
    json_t *value;
    int64_t t_ns;
    int rc = wire_json_read(frame, "sample", &json, err);
    if (rc == 0)
        rc = vt_json_get_int(json, "t_ns", 0, WIRE_CLOCK_MAX_NS, &t_ns, err);
    if (rc == 0)
        rc = vt_json_get_object(json, "series", &series, err);
    if (rc != 0)
        return rc;
    if (json_object_size(series) > WIRE_SERIES_MAX)
        return vt_error_refuse(err, "sample: too many series");
    json_object_foreach((json_t *)series, name, value)
        if (!wire_name_ok(name) || !json_is_number(value) || !isfinite(json_number_value(value)))
            return vt_error_refuse(err, "sample: a series without a proper name or number");
    *ret_t_ns = t_ns;
    *ret = vt_take_ptr(json);
    return 0;
}

/* --- totals --- */
static const struct {
    const char *key;
    size_t offset;
} totals_fields[] = {
    {"intended", offsetof(struct vt_record_totals, intended)},
    {"good", offsetof(struct vt_record_totals, good)},
    {"slow", offsetof(struct vt_record_totals, slow)},
    {"wrong", offsetof(struct vt_record_totals, wrong)},
    {"failed", offsetof(struct vt_record_totals, failed)},
    {"connections_opened", offsetof(struct vt_record_totals, connections_opened)},
    {"connections_failed", offsetof(struct vt_record_totals, connections_failed)},
    {"queue_high", offsetof(struct vt_record_totals, queue_high)},
    {"early", offsetof(struct vt_record_totals, early)},
};

int wire_t0_read(const json_t *params, int64_t *ret_ns, struct vt_error *err)
{
    int64_t now_ns = vt_clock_now_ns();
    return vt_json_get_int(params, "t0_ns", now_ns > T0_LATE_NS ? now_ns - T0_LATE_NS : 0,
                           now_ns + T0_AHEAD_NS, ret_ns, err);
}

/* Work that goes on after its guest was restarted began longer ago, perhaps before that guest's
 * clock. */
int wire_work_read(const json_t *params, int64_t *ret_t0_ns, bool *ret_resumed, int64_t *ret_from_s,
                   struct vt_error *err)
{
    const int64_t now_ns = vt_clock_now_ns();
    int ret;
    *ret_from_s = 0;
    *ret_resumed = json_object_get(params, "from_s") != NULL;
    if (!*ret_resumed)
        return wire_t0_read(params, ret_t0_ns, err);
    ret = vt_json_get_int(params, "from_s", 0, VT_RECORD_SECONDS_MAX, ret_from_s, err);
    if (ret == 0)
        ret = vt_json_get_int(params, "t0_ns", now_ns - VT_RECORD_SECONDS_MAX * VT_NS_PER_S,
                              now_ns + T0_AHEAD_NS, ret_t0_ns, err);
    return ret;
}

json_t *wire_totals_write(const struct vt_record_totals *totals)
{
    json_t *json = json_pack("{s:i, s:s, s:s}", "tile", (int)totals->tile, "role", totals->role,
                             "first_failure", totals->first_failure);
    for (size_t i = 0; json && i < VT_COUNT(totals_fields); i++) {
        uint64_t value;
        memcpy(&value, (const char *)totals + totals_fields[i].offset, sizeof value);
        if (json_object_set_new(json, totals_fields[i].key, json_integer((json_int_t)value)) < 0) {
            json_decref(json);
            json = NULL;
        }
    }
    return json;
}

int wire_totals_read(const json_t *totals, struct vt_record_totals *ret, struct vt_error *err)
{
    struct vt_record_totals got = {0};
    int64_t value;
    int rc = vt_json_get_int(totals, "tile", 1, VT_RECORD_TILES_MAX, &value, err);
    got.tile = rc == 0 ? (unsigned)value : 0;
    if (rc == 0)
        rc = get_name(totals, "role", got.role, sizeof got.role, err);
    if (rc == 0)
        rc = get_text(totals, "first_failure", got.first_failure, sizeof got.first_failure, err);
    for (size_t i = 0; rc == 0 && i < VT_COUNT(totals_fields); i++) {
        rc = vt_json_get_int(totals, totals_fields[i].key, 0, INT64_C(1) << 53, &value, err);
        if (rc == 0)
            memcpy((char *)&got + totals_fields[i].offset, &(uint64_t){(uint64_t)value},
                   sizeof(uint64_t));
    }
    if (rc < 0)
        return rc;
    if (got.good + got.slow + got.wrong + got.failed != got.intended)
        return vt_error_refuse(
            err, "totals: good, slow, wrong and failed are not all that was intended");
    *ret = got;
    return 0;
}
