/* SPDX-License-Identifier: Apache-2.0 */
#include "base/record_generator.h"

#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "base/record_rows.h"
#include "base/scope.h"

#define FIELD(name, most)                                       \
    {                                                           \
#name, offsetof(struct vt_record_generator, name), most \
    }
#define NS_MAX (INT64_C(1000000000) * VT_RECORD_SECONDS_MAX)

static const struct {
    const char *key;
    size_t offset; /* of an int64_t */
    int64_t max;
} fields[] = {
    FIELD(connections, 1 << 20),  FIELD(pooled, 1),
    FIELD(watched_ns, NS_MAX),    FIELD(open, INT64_C(1000000) << 20),
    FIELD(waiting_ns, NS_MAX),    FIELD(gaps, INT64_C(1) << 40),
    FIELD(gap_distance, 1000000), FIELD(receive_bytes, INT32_MAX),
    FIELD(send_bytes, INT32_MAX),
};

json_t *vt_record_generator_write(const struct vt_record_generator *generator)
{
    json_t *json = json_object();

    for (size_t i = 0; json && i < VT_COUNT(fields); i++) {
        int64_t value;

        memcpy(&value, (const char *)generator + fields[i].offset, sizeof(value));
        if (json_object_set_new(json, fields[i].key, json_integer(value)) < 0) {
            json_decref(json);
            json = NULL;
        }
    }
    return json;
}

int vt_record_generator_read(const json_t *json, struct vt_record_generator *ret,
                             struct vt_error *err)
{
    struct vt_record_generator got = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < VT_COUNT(fields); i++) {
        int64_t value = 0;

        r = vt_json_get_int(json, fields[i].key, 0, fields[i].max, &value, err);
        memcpy((char *)&got + fields[i].offset, &value, sizeof(value));
    }
    if (r == 0)
        *ret = got;
    else
        vt_error_wrap(err, "generator");
    return r;
}
