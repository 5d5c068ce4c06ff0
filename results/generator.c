/* SPDX-License-Identifier: Apache-2.0 */
#include "results/generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"

static void make_key(char key[RECORD_META_KEY_MAX], unsigned tile, const char *role)
{
    snprintf(key, RECORD_META_KEY_MAX, RECORD_META_GENERATOR "%s.%u", role, tile);
}

int generator_put(struct record *record, unsigned tile, const char *role,
                  const struct vt_record_generator *generator, struct vt_error *err)
{
    json_t *json = vt_record_generator_write(generator);
    VT_AUTO_FREE char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    char key[RECORD_META_KEY_MAX];

    json_decref(json);
    if (!text)
        return vt_error_no_memory(err, "record the generator of %s", role);
    make_key(key, tile, role);
    return record_put_meta(record, key, text, err);
}

int generator_read(struct record_reader *reader, unsigned tile, const char *role,
                   struct vt_record_generator *ret, struct vt_error *err)
{
    VT_AUTO_FREE char *text = NULL;
    char key[RECORD_META_KEY_MAX];
    json_t *json = NULL;
    int r;

    make_key(key, tile, role);
    r = record_read_meta(reader, key, &text, err);
    if (r < 0)
        return r;
    r = vt_json_read(text, strlen(text), key, VT_KIND_REFUSED, &json, err);
    if (r == 0) {
        r = vt_record_generator_read(json, ret, err);
        json_decref(json);
    }
    if (r < 0)
        vt_error_wrap(err, "meta '%s'", key);
    return r;
}
