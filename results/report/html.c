/* SPDX-License-Identifier: Apache-2.0 */
#include "results/report/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* Unicode 15, table 23-3 and annex 9: embeddings, overrides, isolates, marks; and C1 controls,
 * which are two bytes. */
static bool turns_or_controls(const char *at, size_t len)
{
    const unsigned char *p = (const unsigned char *)at;

    if (len == 2)
        return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c);
    if (len != 3 || p[0] != 0xe2)
        return false;
    return (p[1] == 0x80 && ((p[2] >= 0xaa && p[2] <= 0xae) || p[2] == 0x8e || p[2] == 0x8f)) ||
           (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}

static void put_character(struct vt_buf *out, const char *at, size_t len)
{
    unsigned char c = (unsigned char)*at;

    if (len == 0 || (c < ' ' && c != '\n' && c != '\t') || c == 0x7f || turns_or_controls(at, len))
        vt_buf_adds(out, REPLACEMENT);
    else if (c == '&')
        vt_buf_adds(out, "&amp;");
    else if (c == '<')
        vt_buf_adds(out, "&lt;");
    else if (c == '>')
        vt_buf_adds(out, "&gt;");
    else if (c == '"')
        vt_buf_adds(out, "&quot;");
    else if (c == '\'')
        vt_buf_adds(out, "&#39;");
    else
        vt_buf_add(out, at, len);
}

void html_text(struct vt_buf *out, const char *text, size_t max)
{
    const char *start = text;

    while (*text && (size_t)(text - start) < max) {
        size_t len = vt_text_utf8_length(text);
        put_character(out, text, len);
        text += len ? len : 1;
    }
    if (*text)
        vt_buf_adds(out, "...");
}

void html_element(struct vt_buf *out, const char *tag, const char *css, const char *text)
{
    if (css)
        vt_buf_printf(out, "<%s class=\"%s\">", tag, css);
    else
        vt_buf_printf(out, "<%s>", tag);
    html_text(out, text, HTML_CELL_MAX);
    vt_buf_printf(out, "</%s>", tag);
}

void html_cell(struct vt_buf *out, const char *text)
{
    html_element(out, "td", NULL, text);
}

void html_number(struct vt_buf *out, const char *fmt, ...)
{
    char text[96];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    html_element(out, "td", "n", text);
}

void html_table(struct vt_buf *out, const char *css, const char *const *heads)
{
    vt_buf_printf(out, "<div class=\"wide\"><table class=\"%s\"><thead><tr>", css);
    for (; *heads; heads++) {
        bool number = **heads == '#';
        vt_buf_printf(out, "<th scope=\"col\"%s>", number ? " class=\"n\"" : "");
        html_text(out, *heads + number, HTML_CELL_MAX);
        vt_buf_adds(out, "</th>");
    }
    vt_buf_adds(out, "</tr></thead><tbody>\n");
}

void html_table_end(struct vt_buf *out)
{
    vt_buf_adds(out, "</tbody></table></div>\n");
}

void html_seconds(struct vt_buf *out, double seconds)
{
    if (seconds >= 0.9995)
        vt_buf_printf(out, "%.3g s", seconds);
    else if (seconds >= 0.9995e-3)
        vt_buf_printf(out, "%.3g ms", seconds * 1e3);
    else
        vt_buf_printf(out, "%.3g \xc2\xb5s", seconds * 1e6);
}

void html_bytes(struct vt_buf *out, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;

    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(*units)) {
        bytes /= 1024;
        unit++;
    }
    vt_buf_printf(out, "%.3g %s", bytes, units[unit]);
}
