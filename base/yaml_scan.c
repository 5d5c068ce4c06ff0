/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_scan.h"

#include <stdint.h>
#include <string.h>

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
    /* libyaml drops such a line where it belongs to a block text. */
    if (indentation && column > 1)
        return vt_error_at(err, name, line, column, "white space without a line end at the end");
    return 0;
}

static char at(const struct yaml_scan *scan, size_t offset)
{
    return offset < scan->len ? scan->data[offset] : '\n';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One character on. The text is UTF-8: yaml_scan_check has seen it. */
static void step(struct yaml_scan *scan)
{
    char c = at(scan, scan->offset);

    scan->offset++;
    while (scan->offset < scan->len && ((unsigned char)scan->data[scan->offset] & 0xc0) == 0x80)
        scan->offset++;
    scan->index++;
    scan->column++;
    scan->blank = scan->blank && c == ' ';
    if (c == '\n') {
        scan->line++;
        scan->column = 1;
        scan->blank = true;
    }
}

void yaml_scan_begin(struct yaml_scan *scan, const char *name, const char *data, size_t len)
{
    struct yaml_scan start = {
        .name = name, .data = data, .len = len, .line = 1, .column = 1, .blank = true};

    *scan = start;
    while (scan->offset < scan->len)
        step(scan);
    start.last_line = scan->line;
    start.last_column = scan->column;
    *scan = start;
}

void yaml_scan_place(const struct yaml_scan *scan, yaml_mark_t mark, int *ret_line, int *ret_column)
{
    *ret_line = (int)mark.line + 1;
    *ret_column = (int)mark.column + 1;
    if (*ret_line > scan->last_line) {
        *ret_line = scan->last_line;
        *ret_column = scan->last_column;
    }
}

static int refuse(const struct yaml_scan *scan, struct vt_error *err, const char *text)
{
    return vt_error_at(err, scan->name, scan->line, scan->column, "not YAML: %s", text);
}

/* A line's first character that counts must stand right of the block that holds it. */
static int check_indent(const struct yaml_scan *scan, int block_column, struct vt_error *err)
{
    char c = at(scan, scan->offset);

    if (!scan->blank || is_space(c) || scan->column > block_column)
        return 0;
    return refuse(scan, err, "indent this line further than the key or list it belongs to");
}

/* Between two events stand white space, comments and indicators. */
static int check_gap(struct yaml_scan *scan, size_t end, bool in_flow, int block_column,
                     struct vt_error *err)
{
    bool comment = false;
    int rc = 0;

    while (rc == 0 && scan->index < end && scan->offset < scan->len) {
        char c = at(scan, scan->offset);

        if (c == '\n')
            comment = false;
        if (c == '#' && !comment) {
            comment = true;
            if (scan->offset > 0 && !is_space(at(scan, scan->offset - 1)))
                rc = refuse(scan, err, "a comment needs a space before its #");
        } else if (c == '?' && !comment && !is_space(at(scan, scan->offset + 1))) {
            rc = refuse(scan, err, "a key that begins with ? must be quoted");
        } else if (in_flow && !comment) {
            rc = check_indent(scan, block_column, err);
        }
        step(scan);
    }
    return rc;
}

static int check_quoted(struct yaml_scan *scan, size_t end, int block_column, struct vt_error *err)
{
    int rc = 0;

    step(scan); /* the quotation mark: where it stands is libyaml's concern */
    while (rc == 0 && scan->index < end && scan->offset < scan->len) {
        rc = check_indent(scan, block_column, err);
        step(scan);
    }
    return rc;
}

static int check_block(struct yaml_scan *scan, const yaml_event_t *event, struct vt_error *err)
{
    const char *value = (const char *)event->data.scalar.value;
    bool empty = strspn(value, "\n") == strlen(value), header = true;

    while (scan->index < event->end_mark.index && scan->offset < scan->len) {
        char c = at(scan, scan->offset);

        if (header && c == '#') {
            if (!is_space(at(scan, scan->offset - 1)))
                return refuse(scan, err, "a comment needs a space before its #");
            while (at(scan, scan->offset) != '\n')
                step(scan);
            continue;
        }
        header = header && c != '\n';
        if (!header && empty && c == ' ')
            return refuse(scan, err, "a block text of nothing but white space");
        step(scan);
    }
    return 0;
}

static int check_scalar(struct yaml_scan *scan, const yaml_event_t *event, int block_column,
                        struct vt_error *err)
{
    switch (event->data.scalar.style) {
    case YAML_SINGLE_QUOTED_SCALAR_STYLE:
    case YAML_DOUBLE_QUOTED_SCALAR_STYLE:
        return check_quoted(scan, event->end_mark.index, block_column, err);
    case YAML_LITERAL_SCALAR_STYLE:
    case YAML_FOLDED_SCALAR_STYLE:
        return check_block(scan, event, err);
    default:
        if (strcmp((const char *)event->data.scalar.value, "-") == 0)
            return refuse(scan, err, "a bare - as a value");
        return 0;
    }
}

int yaml_scan_event(struct yaml_scan *scan, const yaml_event_t *event, bool in_flow,
                    int block_column, struct vt_error *err)
{
    int rc = check_gap(scan, event->start_mark.index, in_flow, block_column, err);
    /* A closing bracket may stand where its line begins: many write it so, and it is clear. */
    bool closes = event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT;

    if (rc == 0 && in_flow && !closes)
        rc = check_indent(scan, block_column, err);
    if (rc == 0 && event->type == YAML_SCALAR_EVENT)
        rc = check_scalar(scan, event, block_column, err);
    else if (rc == 0 && event->type == YAML_MAPPING_START_EVENT)
        rc = check_gap(scan, event->end_mark.index, in_flow, block_column, err);
    while (scan->index < event->end_mark.index && scan->offset < scan->len)
        step(scan);
    return rc;
}
