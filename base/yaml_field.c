/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/yaml.h"

#define FIXED_DECIMALS 6   /* of a number in millionths */
#define PERCENT_DECIMALS 4 /* 0.0001 % is a millionth */
#define NEAREST_KEY_MAX 48 /* longer texts are no misspelling of any key of ours */

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

const char *vt_yaml_show(const char *text, char out[VT_YAML_SHOW_MAX])
{
    const size_t room = VT_YAML_SHOW_MAX - sizeof("...\"");
    size_t n = 0, len = strlen(text), keep = len;

    out[n++] = '"';
    if (len > room - n) {
        keep = room - n;
        /* Not in the middle of a UTF-8 sequence. */
        while (keep > 0 && ((unsigned char)text[keep] & 0xc0) == 0x80)
            keep--;
    }
    for (size_t i = 0; i < keep; i++)
        out[n++] = is_control(text[i]) ? '?' : text[i];
    snprintf(out + n, VT_YAML_SHOW_MAX - n, "%s\"", keep < len ? "..." : "");
    return out;
}

/* Levenshtein's edit distance. Both lengths are at most NEAREST_KEY_MAX. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NEAREST_KEY_MAX + 1], lb = strlen(b);

    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}

int vt_yaml_nearest(const char *text, const char *(*name)(const void *ctx, size_t i),
                    const void *ctx, size_t n)
{
    size_t len = strlen(text), best = len / 3 + 1;
    int found = -1;

    if (len == 0 || len > NEAREST_KEY_MAX)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const char *candidate = name(ctx, i);
        size_t d;

        if (!candidate[0] || strlen(candidate) > NEAREST_KEY_MAX)
            continue;
        d = distance(text, candidate);
        if (d < best || (d == best && found < 0 && d < len)) {
            best = d;
            found = (int)i;
        }
    }
    return found;
}

/* --- numbers --- */

/* [-]digits[.digits] with at most so many decimals, in units of the last of them; *end: what
 * follows. */
static bool parse_decimal(const char *text, int decimals, int64_t *ret, const char **end)
{
    bool negative = *text == '-', point = false;
    int64_t value = 0;
    int left = decimals;
    const char *p = text + negative;

    if (*p < '0' || *p > '9')
        return false;
    for (;; p++) {
        if (*p == '.' && !point && p[1] >= '0' && p[1] <= '9') {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        if (point && left-- == 0)
            return false;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? '0' - *p : *p - '0', &value))
            return false;
    }
    for (; left > 0; left--) {
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    }
    *ret = value;
    *end = p;
    return true;
}

static bool parse_uint(const char *text, uint64_t *ret)
{
    uint64_t value = 0;

    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *ret = value;
    return true;
}

/* A number of the field's type from text, before its range is looked at. */
static bool parse_number(enum vt_field_type type, const char *text, int64_t *ret)
{
    const char *end = "";

    switch (type) {
    case VT_FIELD_INT:
        return parse_decimal(text, 0, ret, &end) && !*end;
    case VT_FIELD_FIXED:
        return parse_decimal(text, FIXED_DECIMALS, ret, &end) && !*end;
    case VT_FIELD_PERCENT:
        return parse_decimal(text, PERCENT_DECIMALS, ret, &end) &&
               (strcmp(end, "%") == 0 || strcmp(end, " %") == 0);
    default:
        return vt_text_parse_duration(text, ret, NULL) == 0;
    }
}

/* --- words --- */

struct unit {
    const char *name;
    uint64_t factor;
};

/* In the largest unit that divides value. */
static void print_unit(uint64_t value, const struct unit *units, char *out, size_t size)
{
    while (units[1].name && (value == 0 || value % units->factor != 0))
        units++;
    snprintf(out, size, "%" PRIu64 " %s", value / units->factor, units->name);
}

static void print_decimal(int64_t value, int decimals, const char *unit, char *out, size_t size)
{
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value, scale = 1;
    char fraction[FIXED_DECIMALS + 2] = "";

    for (int i = 0; i < decimals; i++)
        scale *= 10;
    if (magnitude % scale != 0) {
        int n = snprintf(fraction, sizeof(fraction), ".%0*" PRIu64, decimals, magnitude % scale);

        while (n > 0 && fraction[n - 1] == '0')
            fraction[--n] = '\0';
    }
    snprintf(out, size, "%s%" PRIu64 "%s%s", value < 0 ? "-" : "", magnitude / scale, fraction,
             unit);
}

static void print_number(enum vt_field_type type, int64_t value, char *out, size_t size)
{
    static const struct unit bytes[] = {{"TiB", UINT64_C(1) << 40},
                                        {"GiB", UINT64_C(1) << 30},
                                        {"MiB", UINT64_C(1) << 20},
                                        {"KiB", UINT64_C(1) << 10},
                                        {"B", 1},
                                        {NULL, 0}};
    static const struct unit times[] = {{"h", 3600 * (uint64_t)VT_NS_PER_S},
                                        {"min", 60 * (uint64_t)VT_NS_PER_S},
                                        {"s", VT_NS_PER_S},
                                        {"ms", VT_NS_PER_MS},
                                        {"us", VT_NS_PER_US},
                                        {"ns", 1},
                                        {NULL, 0}};

    switch (type) {
    case VT_FIELD_UINT:
        snprintf(out, size, "%" PRIu64, (uint64_t)value);
        break;
    case VT_FIELD_FIXED:
        print_decimal(value, FIXED_DECIMALS, "", out, size);
        break;
    case VT_FIELD_PERCENT:
        print_decimal(value, PERCENT_DECIMALS, " %", out, size);
        break;
    case VT_FIELD_BYTES:
        print_unit((uint64_t)value, bytes, out, size);
        break;
    case VT_FIELD_DURATION:
        print_unit((uint64_t)value, times, out, size);
        break;
    default:
        snprintf(out, size, "%" PRId64, value);
        break;
    }
}

static int64_t text_max(const struct vt_field *field)
{
    return field->max > 0 ? field->max : (int64_t)field->size - 1;
}

const char *vt_field_expect(const struct vt_field *field, char out[VT_FIELD_WORDS_MAX])
{
    static const char *const forms[] = {
        [VT_FIELD_INT] = "a whole number",
        [VT_FIELD_UINT] = "a whole number",
        [VT_FIELD_FIXED] = "a number with at most six decimals",
        [VT_FIELD_PERCENT] = "a share with %",
        [VT_FIELD_BYTES] = "a size with its unit (B KiB MiB GiB TiB)",
        [VT_FIELD_DURATION] = "a duration with its unit (ns us ms s min h)",
    };
    char low[48], high[48];
    size_t n;

    switch (field->type) {
    case VT_FIELD_TEXT:
        snprintf(out, VT_FIELD_WORDS_MAX, "text of %" PRId64 " to %" PRId64 " bytes on one line",
                 field->min, text_max(field));
        break;
    case VT_FIELD_BOOL:
        snprintf(out, VT_FIELD_WORDS_MAX, "true or false");
        break;
    case VT_FIELD_CHOICE:
        n = (size_t)snprintf(out, VT_FIELD_WORDS_MAX, "one of");
        for (size_t i = 0; field->choices[i] && n < VT_FIELD_WORDS_MAX; i++)
            n += (size_t)snprintf(out + n, VT_FIELD_WORDS_MAX - n, "%s %s", i ? "," : "",
                                  field->choices[i]);
        break;
    case VT_FIELD_MAP:
    case VT_FIELD_NAMED:
        snprintf(out, VT_FIELD_WORDS_MAX, "a map");
        break;
    case VT_FIELD_LIST:
        snprintf(out, VT_FIELD_WORDS_MAX, "a list");
        break;
    case VT_FIELD_CUSTOM:
        snprintf(out, VT_FIELD_WORDS_MAX, "%s", field->help ? field->help : "another value");
        break;
    default:
        print_number(field->type, field->min, low, sizeof(low));
        print_number(field->type, field->max, high, sizeof(high));
        snprintf(out, VT_FIELD_WORDS_MAX, "%s from %s to %s", forms[field->type], low, high);
        break;
    }
    return out;
}

const char *vt_field_print(const struct vt_field *field, const void *object,
                           char out[VT_FIELD_WORDS_MAX])
{
    const char *member = (const char *)object + field->offset;

    switch (field->type) {
    case VT_FIELD_TEXT:
        snprintf(out, VT_FIELD_WORDS_MAX, "%s", member);
        break;
    case VT_FIELD_BOOL:
        snprintf(out, VT_FIELD_WORDS_MAX, "%s", *(const bool *)member ? "true" : "false");
        break;
    case VT_FIELD_CHOICE:
        snprintf(out, VT_FIELD_WORDS_MAX, "%s", field->choices[*(const int *)member]);
        break;
    case VT_FIELD_INT:
    case VT_FIELD_UINT:
    case VT_FIELD_FIXED:
    case VT_FIELD_PERCENT:
    case VT_FIELD_BYTES:
    case VT_FIELD_DURATION:
        print_number(field->type, *(const int64_t *)member, out, VT_FIELD_WORDS_MAX);
        break;
    default:
        out[0] = '\0';
        break;
    }
    return out;
}

/* --- one scalar into its member --- */

static bool store_text(const struct vt_field *field, const char *text, char *member)
{
    size_t len = strlen(text);

    if ((int64_t)len < field->min || (int64_t)len > text_max(field))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (is_control(text[i]))
            return false;
    }
    memcpy(member, text, len + 1);
    return true;
}

static bool store_choice(const struct vt_field *field, const char *text, int *member)
{
    for (int i = 0; field->choices[i]; i++) {
        if (strcmp(field->choices[i], text) == 0) {
            *member = i;
            return true;
        }
    }
    return false;
}

static bool store_bool(const char *text, bool *member)
{
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return false;
    *member = text[0] == 't';
    return true;
}

static bool store_unsigned(const struct vt_field *field, const char *text, uint64_t *member)
{
    uint64_t value;

    if (field->type == VT_FIELD_UINT ? !parse_uint(text, &value)
                                     : vt_text_parse_bytes(text, &value, NULL) < 0)
        return false;
    if (value < (uint64_t)field->min || value > (uint64_t)field->max)
        return false;
    *member = value;
    return true;
}

static bool store_number(const struct vt_field *field, const char *text, int64_t *member)
{
    int64_t value;

    if (!parse_number(field->type, text, &value) || value < field->min || value > field->max)
        return false;
    *member = value;
    return true;
}

static bool store(const struct vt_field *field, const char *text, void *member)
{
    switch (field->type) {
    case VT_FIELD_TEXT:
        return store_text(field, text, member);
    case VT_FIELD_BOOL:
        return store_bool(text, member);
    case VT_FIELD_CHOICE:
        return store_choice(field, text, member);
    case VT_FIELD_UINT:
    case VT_FIELD_BYTES:
        return store_unsigned(field, text, member);
    case VT_FIELD_INT:
    case VT_FIELD_FIXED:
    case VT_FIELD_PERCENT:
    case VT_FIELD_DURATION:
        return store_number(field, text, member);
    default:
        return false; /* not a scalar's field */
    }
}

static bool is_null(const char *text)
{
    static const char *const spellings[] = {"", "~", "null", "Null", "NULL"};

    for (size_t i = 0; i < VT_COUNT(spellings); i++) {
        if (strcmp(text, spellings[i]) == 0)
            return true;
    }
    return false;
}

int vt_field_parse(const struct vt_field *field, const char *text, bool quoted, void *object,
                   struct vt_error *err)
{
    char expected[VT_FIELD_WORDS_MAX], shown[VT_YAML_SHOW_MAX];
    bool null = !quoted && is_null(text);

    if (!null && store(field, text, (char *)object + field->offset))
        return 0;
    if (null)
        snprintf(shown, sizeof(shown), "an empty value%s%s", text[0] ? ": " : "", text);
    else
        vt_yaml_show(text, shown);
    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "expected %s, not %s",
                        vt_field_expect(field, expected), shown);
}
