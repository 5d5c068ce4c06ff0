/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 6, 7))) static int refuse_at(struct vt_error *err, enum vt_kind kind,
                                                           const char *name, int line, int column,
                                                           const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vt_error_at(err, name, line, column, "%s", text);
    if (err) {
        err->kind = kind;
        err->code = -EBADMSG;
    }
    return -EBADMSG;
}

/* Bounds depth and number of values before jansson recurses and allocates. Knows strings only as
 * far as brackets in them must not count; jansson judges the rest. */
static int check_bounds(const char *data, size_t len, const char *name, enum vt_kind kind,
                        struct vt_error *err)
{
    bool in_string = false;
    unsigned depth = 0, values = 1;
    int line = 1;
    size_t line_start = 0;

    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        int column = (int)(i - line_start) + 1;

        if (c == '\0')
            return refuse_at(err, kind, name, line, column, "JSON: a NUL byte");
        if (c == '\n') {
            line++;
            line_start = i + 1;
        }
        if (in_string) {
            if (c == '\\' && i + 1 < len && data[i + 1] != '\n' && data[i + 1] != '\0')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        if (c == '"')
            in_string = true;
        else if (c == '[' || c == '{') {
            values++;
            if (++depth > VT_JSON_DEPTH_MAX)
                return refuse_at(err, kind, name, line, column, "JSON: deeper than %d levels",
                                 VT_JSON_DEPTH_MAX);
        } else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        else if (c == ',')
            values++;
        if (values > VT_JSON_VALUES_MAX)
            return refuse_at(err, kind, name, line, column, "JSON: more than %d values",
                             VT_JSON_VALUES_MAX);
    }
    return 0;
}

int vt_json_read(const char *data, size_t len, const char *name, enum vt_kind kind, json_t **ret,
                 struct vt_error *err)
{
    json_error_t why;
    json_t *root;
    int r;

    if (len > VT_JSON_BYTES_MAX)
        return refuse_at(err, kind, name, 0, 0, "JSON: more than %u bytes", VT_JSON_BYTES_MAX);
    r = check_bounds(data, len, name, kind, err);
    if (r < 0)
        return r;
    root = json_loadb(len ? data : "", len, JSON_REJECT_DUPLICATES, &why);
    /* jansson says nothing where memory failed (and sometimes "invalid token"). */
    if (!root && (!why.text[0] || json_error_code(&why) == json_error_out_of_memory))
        return vt_error_no_memory(err, "%s", name);
    if (!root)
        return refuse_at(err, kind, name, why.line, why.column, "JSON: %s", why.text);
    *ret = root;
    return 0;
}

static const char *type_text(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "?";
}

static int refuse_value(const json_t *value, const char *key, const char *wanted,
                        struct vt_error *err)
{
    if (!value)
        return vt_error_refuse(err, "key \"%s\" is missing: expected %s", key, wanted);
    return vt_error_refuse(err, "key \"%s\": expected %s, found %s", key, wanted, type_text(value));
}

int vt_json_get_string(const json_t *obj, const char *key, const char **ret, struct vt_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_string(value))
        return refuse_value(value, key, "text", err);
    *ret = json_string_value(value);
    return 0;
}

int vt_json_opt_string(const json_t *obj, const char *key, const char **ret, struct vt_error *err)
{
    return json_object_get(obj, key) ? vt_json_get_string(obj, key, ret, err) : 0;
}

int vt_json_get_bool(const json_t *obj, const char *key, bool *ret, struct vt_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_boolean(value))
        return refuse_value(value, key, "true or false", err);
    *ret = json_is_true(value);
    return 0;
}

int vt_json_get_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                    struct vt_error *err)
{
    const json_t *value = json_object_get(obj, key);
    int64_t number;

    if (!json_is_integer(value))
        return refuse_value(value, key, "an integer", err);
    number = json_integer_value(value);
    if (number < min || number > max)
        return vt_error_refuse(
            err, "key \"%s\": expected an integer from %" PRId64 " to %" PRId64 ", found %" PRId64,
            key, min, max, number);
    *ret = number;
    return 0;
}

int vt_json_opt_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                    struct vt_error *err)
{
    return json_object_get(obj, key) ? vt_json_get_int(obj, key, min, max, ret, err) : 0;
}

int vt_json_get_object(const json_t *obj, const char *key, const json_t **ret, struct vt_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_object(value))
        return refuse_value(value, key, "an object", err);
    *ret = value;
    return 0;
}

int vt_json_get_array(const json_t *obj, const char *key, size_t max, const json_t **ret,
                      struct vt_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_array(value))
        return refuse_value(value, key, "an array", err);
    if (json_array_size(value) > max)
        return vt_error_refuse(err, "key \"%s\": expected at most %zu entries, found %zu", key, max,
                               json_array_size(value));
    *ret = value;
    return 0;
}

/* --- writer --- */

static void add_escaped(struct vt_buf *out, unsigned char c)
{
    switch (c) {
    case '"':
        vt_buf_add(out, "\\\"", 2);
        return;
    case '\\':
        vt_buf_add(out, "\\\\", 2);
        return;
    case '\n':
        vt_buf_add(out, "\\n", 2);
        return;
    case '\r':
        vt_buf_add(out, "\\r", 2);
        return;
    case '\t':
        vt_buf_add(out, "\\t", 2);
        return;
    default:
        vt_buf_printf(out, "\\u%04x", c);
    }
}

static void add_string(struct vt_buf *out, const char *text)
{
    const char *p = text;
    const char *plain = p; /* start of what can be copied as it is */

    vt_buf_add(out, "\"", 1);
    while (*p) {
        size_t n = vt_text_utf8_length(p);

        if (n > 0 && (unsigned char)*p >= 0x20 && *p != 0x7f && *p != '"' && *p != '\\') {
            p += n;
            continue;
        }
        vt_buf_add(out, plain, (size_t)(p - plain));
        if (n == 0)
            vt_buf_add(out, "\xef\xbf\xbd", 3);
        else
            add_escaped(out, (unsigned char)*p);
        plain = ++p;
    }
    vt_buf_add(out, plain, (size_t)(p - plain));
    vt_buf_add(out, "\"", 1);
}

/* What stands before any value: comma and key. */
static void before_value(struct vt_json *w, const char *key)
{
    /* A key in an object, and nowhere else. */
    assert((w->depth > 0 && !(w->in_array >> w->depth & 1)) == (key != NULL));
    assert(w->depth > 0 || !w->comma); /* one value at the top */
    if (w->comma)
        vt_buf_add(w->out, ",", 1);
    w->comma = true;
    if (key) {
        add_string(w->out, key);
        vt_buf_add(w->out, ":", 1);
    }
}

static void open_level(struct vt_json *w, const char *key, bool array)
{
    before_value(w, key);
    assert(w->depth < 31);
    w->depth++;
    w->in_array &= ~(UINT32_C(1) << w->depth);
    w->in_array |= (uint32_t)array << w->depth;
    w->comma = false;
    vt_buf_add(w->out, array ? "[" : "{", 1);
}

void vt_json_begin(struct vt_json *w, struct vt_buf *out)
{
    *w = (struct vt_json){out, 0, 0, false};
}

void vt_json_object(struct vt_json *w, const char *key)
{
    open_level(w, key, false);
}

void vt_json_array(struct vt_json *w, const char *key)
{
    open_level(w, key, true);
}

void vt_json_message(struct vt_json *w, struct vt_buf *out, const char *type)
{
    vt_json_begin(w, out);
    vt_json_object(w, NULL);
    vt_json_int(w, "v", 1);
    vt_json_string(w, "type", type);
}

void vt_json_end(struct vt_json *w)
{
    assert(w->depth > 0);
    vt_buf_add(w->out, w->in_array >> w->depth & 1 ? "]" : "}", 1);
    w->depth--;
    w->comma = true;
}

void vt_json_string(struct vt_json *w, const char *key, const char *value)
{
    before_value(w, key);
    if (value)
        add_string(w->out, value);
    else
        vt_buf_add(w->out, "null", 4);
}

void vt_json_int(struct vt_json *w, const char *key, int64_t value)
{
    before_value(w, key);
    vt_buf_printf(w->out, "%" PRId64, value);
}

void vt_json_uint(struct vt_json *w, const char *key, uint64_t value)
{
    before_value(w, key);
    vt_buf_printf(w->out, "%" PRIu64, value);
}

void vt_json_double(struct vt_json *w, const char *key, double value, int decimals)
{
    char text[340]; /* 309 digits before the point, sign, point, 9 decimals */
    const char *start = text;
    locale_t c, before;

    assert(decimals >= 0 && decimals <= 9);
    if (!isfinite(value)) {
        vt_json_null(w, key);
        return;
    }
    before_value(w, key);
    /* The decimal sign must not depend on the user's locale. */
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    before = uselocale(c);
    snprintf(text, sizeof(text), "%.*f", decimals, value);
    uselocale(before);
    freelocale(c);
    if (text[0] == '-' && strspn(text + 1, "0.") == strlen(text + 1))
        start++;
    vt_buf_adds(w->out, start);
}

void vt_json_bool(struct vt_json *w, const char *key, bool value)
{
    before_value(w, key);
    vt_buf_adds(w->out, value ? "true" : "false");
}

void vt_json_null(struct vt_json *w, const char *key)
{
    before_value(w, key);
    vt_buf_add(w->out, "null", 4);
}
