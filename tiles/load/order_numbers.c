/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/order_numbers.h"

#include "base/json.h"

bool order_numbers_write(const struct order_number *numbers, size_t n, const void *structure,
                         json_t *json)
{
    bool bad = !json;

    for (size_t i = 0; !bad && i < n; i++) {
        const int64_t *value =
            (const int64_t *)(const void *)((const char *)structure + numbers[i].offset);

        bad = json_object_set_new(json, numbers[i].key, json_integer(*value)) != 0;
    }
    return !bad;
}

int order_numbers_read(const struct order_number *numbers, size_t n, const json_t *json,
                       void *structure, struct vt_error *err)
{
    int ret = 0;

    for (size_t i = 0; ret == 0 && i < n; i++)
        ret = vt_json_get_int(json, numbers[i].key, numbers[i].min, numbers[i].max,
                              (int64_t *)(void *)((char *)structure + numbers[i].offset), err);
    return ret;
}
