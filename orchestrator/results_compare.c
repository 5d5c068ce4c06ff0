/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/results_compare.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"
#include "results/archive.h"

struct compared {
    json_t *manifest, *again;
    const json_t *sealed;
    int64_t rules; /* by which the sealed one was judged */
};

/* The first value of sealed that again has not; its key is where. Depth is bounded by the reader
 * of JSON. NOLINTNEXTLINE(misc-no-recursion) */
static bool contains(const json_t *again, const json_t *sealed, const char **where)
{
    const char *key;
    json_t *value;
    size_t i;

    if (json_is_object(sealed)) {
        json_object_foreach((json_t *)sealed, key, value) {
            const json_t *other = json_object_get(again, key);
            if (!other || !contains(other, value, where)) {
                if (!*where)
                    *where = key;
                return false;
            }
        }
        return json_is_object(again);
    }
    if (json_is_array(sealed)) {
        if (!json_is_array(again) || json_array_size(again) != json_array_size(sealed))
            return false;
        json_array_foreach(sealed, i, value) {
            if (!contains(json_array_get(again, i), value, where))
                return false;
        }
        return true;
    }
    return json_equal(again, sealed);
}

static int read_both(const struct vt_buf *manifest, const struct result *result,
                     struct compared *ret, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(ARCHIVE_MANIFEST_MAX);
    int r;

    result_write_json(result, NULL, &text);
    r = vt_buf_check(&text, "recomputed result", err);
    if (r == 0)
        r = vt_json_read(text.data, text.len, "recomputed result", VT_KIND_INFRA, &ret->again, err);
    if (r == 0)
        r = vt_json_read(manifest->data, manifest->len, "manifest.json", VT_KIND_REFUSED,
                         &ret->manifest, err);
    if (r == 0)
        r = vt_json_get_object(ret->manifest, "result", &ret->sealed, err);
    if (r == 0)
        r = vt_json_opt_int(ret->sealed, "rules", 0, INT_MAX, &ret->rules, err);
    return r;
}

/* What no rule decides. */
static bool same_run(const struct compared *compared, const char **where)
{
    static const char *const keys[] = {"run", "started", "spec", "preset"};

    for (size_t i = 0; i < VT_COUNT(keys); i++) {
        const json_t *sealed = json_object_get(compared->sealed, keys[i]);

        if (sealed && !json_equal((json_t *)sealed, json_object_get(compared->again, keys[i]))) {
            *where = keys[i];
            return false;
        }
    }
    return true;
}

/* A text of a result, "" where there is none. */
static const char *word(const json_t *result, const char *key)
{
    const char *text = json_string_value(json_object_get(result, key));

    return text ? text : "";
}

static bool has_reason(const json_t *result, const json_t *reason)
{
    const json_t *other;
    size_t i;

    json_array_foreach(json_object_get(result, "reasons"), i, other)
        if (!strcmp(word(other, "code"), word(reason, "code")) &&
            !strcmp(word(other, "grade"), word(reason, "grade")) &&
            !strcmp(word(other, "text"), word(reason, "text")))
            return true;
    return false;
}

/* Reasons of one result that the other has not. */
static void tell_reasons(const json_t *of, const json_t *other, const char *what,
                         struct vt_buf *told)
{
    const json_t *reason;
    size_t i;

    json_array_foreach(json_object_get(of, "reasons"), i, reason) {
        if (has_reason(other, reason))
            continue;
        vt_buf_printf(told, "  %s ", what);
        result_print_text(told, word(reason, "grade"));
        vt_buf_adds(told, " ");
        result_print_text(told, word(reason, "code"));
        vt_buf_adds(told, ": ");
        result_print_text(told, word(reason, "text"));
        vt_buf_adds(told, "\n");
    }
}

static void tell_text(const struct compared *compared, struct vt_buf *told)
{
    vt_buf_printf(told,
                  "sealed   by rules %" PRId64 " for verdict, QoS and score: ", compared->rules);
    result_print_text(told, word(compared->sealed, "verdict"));
    vt_buf_adds(told, ", QoS ");
    result_print_text(told, word(compared->sealed, "qos"));
    vt_buf_printf(told, ", score %.2f\n",
                  json_number_value(json_object_get(compared->sealed, "score")));
    tell_reasons(compared->again, compared->sealed, "now also", told);
    tell_reasons(compared->sealed, compared->again, "no more ", told);
    vt_buf_printf(told, "now      by rules %d, those of this vtile:\n", RESULT_RULES);
}

static void write_reasons(const json_t *of, const json_t *other, const char *key, struct vt_json *w)
{
    const json_t *reason;
    size_t i;

    vt_json_array(w, key);
    json_array_foreach(json_object_get(of, "reasons"), i, reason) {
        if (has_reason(other, reason))
            continue;
        vt_json_object(w, NULL);
        vt_json_string(w, "code", word(reason, "code"));
        vt_json_string(w, "grade", word(reason, "grade"));
        vt_json_string(w, "text", word(reason, "text"));
        vt_json_end(w);
    }
    vt_json_end(w);
}

static void tell_json(const struct compared *compared, struct vt_buf *told)
{
    struct vt_json w;

    vt_json_message(&w, told, "sealed");
    vt_json_string(&w, "run", word(compared->sealed, "run"));
    vt_json_int(&w, "rules", compared->rules);
    vt_json_string(&w, "verdict", word(compared->sealed, "verdict"));
    vt_json_string(&w, "qos", word(compared->sealed, "qos"));
    vt_json_double(&w, "score", json_number_value(json_object_get(compared->sealed, "score")), 2);
    write_reasons(compared->again, compared->sealed, "added", &w);
    write_reasons(compared->sealed, compared->again, "dropped", &w);
    vt_json_end(&w);
    vt_buf_adds(told, "\n");
}

static int compare(struct compared *compared, bool json, struct vt_buf *told, struct vt_error *err)
{
    const char *where = NULL;
    int r = 0;

    if (compared->rules == RESULT_RULES) {
        if (!contains(compared->again, compared->sealed, &where))
            r = vt_error_refuse(err, "the record gives another '%s' than was sealed",
                                where ? where : "result");
        return r;
    }
    if (!same_run(compared, &where))
        return vt_error_refuse(err, "the record is of another '%s' than was sealed", where);
    if (json_object_get(compared->sealed, "rules"))
        json_object_set(compared->again, "rules", json_object_get(compared->sealed, "rules"));
    if (contains(compared->again, compared->sealed, &where))
        return 0;
    if (json)
        tell_json(compared, told);
    else
        tell_text(compared, told);
    return vt_buf_check(told, "compare with what was sealed", err);
}

int results_compare(const struct vt_buf *manifest, const struct result *result, bool json,
                    struct vt_buf *told, struct vt_error *err)
{
    struct compared compared = {0};
    int r = read_both(manifest, result, &compared, err);

    if (r == 0)
        r = compare(&compared, json, told, err);
    json_decref(compared.again);
    json_decref(compared.manifest);
    return r;
}
