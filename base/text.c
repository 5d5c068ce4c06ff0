/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
#include "base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define FIRST_CAP 64
#define QUOTED_MAX 64

void vt_buf_dispose(struct vt_buf *buf)
{
    if (!buf)
        return;
    free(buf->data);
    buf->data = NULL;
    buf->len = buf->cap = 0;
    buf->failed = buf->no_memory = false;
}

void vt_buf_reset(struct vt_buf *buf)
{
    buf->len = 0;
    buf->failed = buf->no_memory = false;
    if (buf->data)
        buf->data[0] = '\0';
}

/* Room for extra bytes and a NUL; marks the buffer failed where there is none. */
static bool make_room(struct vt_buf *buf, size_t extra)
{
    size_t need, cap;
    char *data;

    if (buf->failed)
        return false;
    /* The NUL needs a byte more than max, so max itself stays below SIZE_MAX. */
    if (buf->len > buf->max || extra > buf->max - buf->len || buf->max >= SIZE_MAX / 2) {
        buf->failed = true;
        return false;
    }
    need = buf->len + extra + 1;
    if (need <= buf->cap)
        return true;
    cap = buf->cap ? buf->cap : FIRST_CAP;
    while (cap < need)
        cap *= 2;
    if (cap > buf->max + 1)
        cap = buf->max + 1;
    data = realloc(buf->data, cap);
    if (!data) {
        buf->failed = buf->no_memory = true;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

void vt_buf_add(struct vt_buf *buf, const void *data, size_t len)
{
    if (!make_room(buf, len))
        return;
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void vt_buf_adds(struct vt_buf *buf, const char *text)
{
    vt_buf_add(buf, text, strlen(text));
}

void vt_buf_printf(struct vt_buf *buf, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    if (buf->failed)
        return;
    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        buf->failed = true;
    else if (make_room(buf, (size_t)n)) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
        buf->len += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

void vt_buf_consume(struct vt_buf *buf, size_t n)
{
    assert(n <= buf->len);
    if (n == 0)
        return;
    memmove(buf->data, buf->data + n, buf->len - n);
    buf->len -= n;
    buf->data[buf->len] = '\0';
}

int vt_buf_check(const struct vt_buf *buf, const char *what, struct vt_error *err)
{
    if (!buf->failed)
        return 0;
    if (buf->no_memory)
        return vt_error_no_memory(err, "%s", what);
    return vt_error_set(err, VT_KIND_INFRA, -ENOBUFS, "%s: more than the allowed %zu bytes", what,
                        buf->max);
}

bool vt_text_copy(char *dst, size_t size, const char *src)
{
    size_t len = strnlen(src, size);

    if (size == 0)
        return false;
    if (len < size) {
        memcpy(dst, src, len + 1);
        return true;
    }
    memcpy(dst, src, size - 1);
    dst[size - 1] = '\0';
    return false;
}

/* The refused text for a message: short, and without control bytes. */
static const char *quote(const char *text, char out[QUOTED_MAX + 6])
{
    size_t n = 0;

    out[n++] = '"';
    for (; *text && n < QUOTED_MAX; text++)
        out[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
    memcpy(out + n, *text ? "...\"" : "\"", *text ? 5 : 2);
    return out;
}

__attribute__((format(printf, 3, 4))) static int refuse(struct vt_error *err, const char *text,
                                                        const char *fmt, ...)
{
    char quoted[QUOTED_MAX + 6], wanted[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(wanted, sizeof(wanted), fmt, ap);
    va_end(ap);
    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "%s: expected %s",
                        quote(text ? text : "", quoted), wanted);
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* Decimal digits, at most one space, one of units. A unit named "" allows none. *ret_big: the
 * form was right but the product passes max. */
static bool parse_with_unit(const char *text, const struct unit *units, uint64_t max, uint64_t *ret,
                            bool *ret_big)
{
    uint64_t value = 0;
    bool big = false;
    const char *p = text;

    *ret_big = false;
    if (!p || *p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            big = true;
    }
    if (p[0] == ' ' && p[1] != '\0')
        p++;
    for (; units->name; units++) {
        if (strcmp(p, units->name) != 0)
            continue;
        if (big || __builtin_mul_overflow(value, units->factor, &value) || value > max) {
            *ret_big = true;
            return false;
        }
        *ret = value;
        return true;
    }
    return false;
}

int vt_text_parse_bytes(const char *text, uint64_t *ret_bytes, struct vt_error *err)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"TiB", UINT64_C(1) << 40},
        {NULL, 0},
    };
    bool big;

    if (parse_with_unit(text, units, UINT64_MAX, ret_bytes, &big))
        return 0;
    if (big)
        return refuse(err, text, "a size below 16777216 TiB (2^64 bytes)");
    return refuse(err, text,
                  "a size: a whole number of bytes, or one with B, KiB, MiB, GiB or TiB");
}

int vt_text_parse_duration(const char *text, int64_t *ret_ns, struct vt_error *err)
{
    static const struct unit units[] = {
        {"ns", 1},          {"us", VT_NS_PER_US},      {"ms", VT_NS_PER_MS},
        {"s", VT_NS_PER_S}, {"min", 60 * VT_NS_PER_S}, {"h", 3600 * VT_NS_PER_S},
        {NULL, 0},
    };
    uint64_t value;
    bool big;

    if (parse_with_unit(text, units, INT64_MAX, &value, &big)) {
        *ret_ns = (int64_t)value;
        return 0;
    }
    if (big)
        return refuse(err, text, "a duration of at most 2562047 h (2^63 ns)");
    return refuse(err, text,
                  "a duration: a whole number and a unit: ns, us, ms, s, min or h (\"90 s\")");
}

int vt_text_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret,
                      struct vt_error *err)
{
    const char *p = text ? text : "";
    bool negative = *p == '-';
    int64_t value = 0;
    bool fits = true;

    if (negative)
        p++;
    if (*p < '0' || *p > '9')
        fits = false;
    for (; fits && *p; p++) {
        /* Built downwards where negative, so that INT64_MIN is reached. */
        fits = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, negative ? '0' - *p : *p - '0', &value);
    }
    if (!fits || value < min || value > max)
        return refuse(err, text, "a whole number from %" PRId64 " to %" PRId64, min, max);
    *ret = value;
    return 0;
}

/* [-]digits[.digits][(e|E)[+-]digits] and nothing else: strtod alone takes much more. */
static bool is_decimal(const char *p)
{
    if (*p == '-')
        p++;
    if (*p < '0' || *p > '9')
        return false;
    p += strspn(p, "0123456789");
    if (*p == '.') {
        p++;
        if (*p < '0' || *p > '9')
            return false;
        p += strspn(p, "0123456789");
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-')
            p++;
        if (*p < '0' || *p > '9')
            return false;
        p += strspn(p, "0123456789");
    }
    return *p == '\0';
}

int vt_text_parse_double(const char *text, double min, double max, double *ret,
                         struct vt_error *err)
{
    if (text && is_decimal(text)) {
        /* The decimal sign must not depend on the user's locale. */
        locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);

        if (c != (locale_t)0) {
            double value = strtod_l(text, NULL, c);

            freelocale(c);
            if (isfinite(value) && value >= min && value <= max) {
                *ret = value;
                return 0;
            }
        }
    }
    return refuse(err, text, "a number from %.15g to %.15g", min, max);
}

size_t vt_text_utf8_length(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;
    size_t n;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        n = 2;
    else if ((p[0] & 0xf0) == 0xe0) {
        n = 3;
        if (p[0] == 0xe0)
            low = 0xa0;
        else if (p[0] == 0xed)
            high = 0x9f;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        n = 4;
        if (p[0] == 0xf0)
            low = 0x90;
        else if (p[0] == 0xf4)
            high = 0x8f;
    } else
        return 0;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    }
    return n;
}

bool vt_text_is_utf8(const char *text)
{
    while (*text) {
        size_t n = vt_text_utf8_length(text);

        if (n == 0)
            return false;
        text += n;
    }
    return true;
}

void vt_text_make_plain(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

bool vt_text_is_name(const char *text, size_t size)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

    return len > 0 && len < size && text[len] == '\0';
}

bool vt_text_is_ip(const char *text)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

void vt_text_hex(const void *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = data;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[2 * len] = '\0';
}

#define NO_DIGIT 16U

static unsigned hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    return NO_DIGIT;
}

bool vt_text_unhex(const char *text, void *data, size_t len)
{
    uint8_t *out = data;

    /* Checked whole before the first byte is written. */
    for (size_t i = 0; i < 2 * len; i++) {
        if (hex_digit(text[i]) == NO_DIGIT)
            return false;
    }
    if (text[2 * len] != '\0')
        return false;
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
    return true;
}
