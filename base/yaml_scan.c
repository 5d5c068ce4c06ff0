/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_scan.h"

#include <stdbool.h>
#include <stdint.h>

/* Length of the UTF-8 sequence at p and its code point; 0 where it is none (RFC 3629: shortest
 * form only, no surrogates, at most U+10FFFF). */
static size_t decode(const unsigned char *p, size_t len, uint32_t *ret)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t need;
    uint32_t c;

    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    need = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (len < need)
        return 0;
    c = p[0] & (0x7fU >> need);
    for (size_t i = 1; i < need; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fU);
    }
    if (c < smallest[need] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return need;
}

/* Why a code point may not stand in a configuration file; NULL where it may. */
static const char *refusal(uint32_t c, bool indentation, bool line_feed_follows)
{
    if (c == '\t')
        return indentation ? "a tab in the indentation: use spaces" : NULL;
    if (c == '\r')
        return line_feed_follows ? NULL : "a carriage return without a line feed";
    if (c == '\n')
        return NULL;
    if (c == 0xfeff)
        return "a byte order mark: save the file as plain UTF-8";
    /* YAML 1.1 takes these for line ends, editors do not: lines would be counted differently. */
    if (c == 0x85 || c == 0x2028 || c == 0x2029)
        return "a line end other than LF or CR LF";
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff)
        return "a control character";
    return NULL;
}

int yaml_scan_check(const char *name, const char *data, size_t len, struct vt_error *err)
{
    const unsigned char *p = (const unsigned char *)data;
    int line = 1, column = 1;
    bool indentation = true;

    if (len >= 2 && ((p[0] == 0xfe && p[1] == 0xff) || (p[0] == 0xff && p[1] == 0xfe)))
        return vt_error_at(err, name, 1, 1, "UTF-16: save the file as plain UTF-8");
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t n = decode(p + i, len - i, &c);
        const char *why;

        if (n == 0)
            return vt_error_at(err, name, line, column, "byte 0x%02x is no UTF-8", p[i]);
        why = refusal(c, indentation, i + 1 < len && p[i + 1] == '\n');
        if (why)
            return vt_error_at(err, name, line, column, "%s (U+%04X)", why, (unsigned)c);
        if (c == '\n') {
            line++;
            column = 1;
            indentation = true;
        } else {
            column++;
            indentation = indentation && c == ' ';
        }
        i += n;
    }
    return 0;
}
