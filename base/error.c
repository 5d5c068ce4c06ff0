/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Puts "..." at the end of a text that was cut, without splitting a UTF-8 sequence. */
static void mark_cut(char *text, size_t size)
{
    size_t end = size - sizeof("...");

    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", sizeof("..."));
}

__attribute__((format(printf, 3, 0))) static void format_cut(char *dst, size_t size,
                                                             const char *fmt, va_list ap)
{
    int n = vsnprintf(dst, size, fmt, ap);

    if (n < 0)
        snprintf(dst, size, "(message cannot be formatted)");
    else if ((size_t)n >= size)
        mark_cut(dst, size);
}

/* Formats aside first: an argument may point into err itself. */
__attribute__((format(printf, 4, 0))) static int fill(struct vt_error *err, enum vt_kind kind,
                                                      int code, const char *fmt, va_list ap)
{
    if (code >= 0)
        code = -EINVAL;
    if (err) {
        char text[VT_ERROR_TEXT_MAX];

        format_cut(text, sizeof(text), fmt, ap);
        vt_error_clear(err);
        err->kind = kind;
        err->code = code;
        memcpy(err->text, text, sizeof(text));
    }
    return code;
}

int(vt_error_set)(struct vt_error *err, enum vt_kind kind, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    code = fill(err, kind, code, fmt, ap);
    va_end(ap);
    return code;
}

static void append(struct vt_error *err, const char *separator, const char *tail)
{
    size_t len = strlen(err->text);
    int n = snprintf(err->text + len, sizeof(err->text) - len, "%s%s", separator, tail);

    if (n >= 0 && (size_t)n >= sizeof(err->text) - len)
        mark_cut(err->text, sizeof(err->text));
}

int(vt_error_errno)(struct vt_error *err, enum vt_kind kind, int errnum, const char *fmt, ...)
{
    va_list ap;
    int code;

    if (errnum <= 0)
        errnum = EIO;
    va_start(ap, fmt);
    code = fill(err, kind, -errnum, fmt, ap);
    va_end(ap);
    if (err) {
        char reason[128];

        append(err, ": ", strerror_r(errnum, reason, sizeof(reason)));
    }
    return code;
}

int(vt_error_no_memory)(struct vt_error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill(err, VT_KIND_INFRA, -ENOMEM, fmt, ap);
    va_end(ap);
    if (err)
        append(err, ": ", "out of memory");
    return -ENOMEM;
}

int(vt_error_refuse)(struct vt_error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill(err, VT_KIND_REFUSED, -EBADMSG, fmt, ap);
    va_end(ap);
    return -EBADMSG;
}

int(vt_error_at)(struct vt_error *err, const char *file, int line, int column, const char *fmt, ...)
{
    char kept[VT_ERROR_FILE_MAX];
    va_list ap;
    int code;

    if ((size_t)snprintf(kept, sizeof(kept), "%s", file ? file : "") >= sizeof(kept))
        mark_cut(kept, sizeof(kept));
    va_start(ap, fmt);
    code = fill(err, VT_KIND_CONFIG, -EINVAL, fmt, ap);
    va_end(ap);
    if (err) {
        memcpy(err->file, kept, sizeof(kept));
        err->line = line > 0 ? line : 0;
        err->column = column > 0 ? column : 0;
    }
    return code;
}

int(vt_error_wrap)(struct vt_error *err, const char *fmt, ...)
{
    char text[VT_ERROR_TEXT_MAX];
    va_list ap;

    if (!err)
        return -EIO;
    if (err->code >= 0) {
        /* Whoever wraps saw a failure: it must not turn into success. */
        vt_error_set(err, VT_KIND_INFRA, -EIO, "unknown reason");
    }
    va_start(ap, fmt);
    format_cut(text, sizeof(text), fmt, ap);
    va_end(ap);

    char reason[VT_ERROR_TEXT_MAX];
    memcpy(reason, err->text, sizeof(reason));
    memcpy(err->text, text, sizeof(text));
    append(err, ": ", reason);
    return err->code;
}

void vt_error_clear(struct vt_error *err)
{
    if (err)
        *err = (struct vt_error)VT_ERROR_INIT;
}

const char *vt_error_print(const struct vt_error *err, char *buf, size_t size)
{
    int n;

    if (size == 0)
        return buf;
    if (!err->file[0])
        n = snprintf(buf, size, "%s", err->text);
    else if (err->line <= 0)
        n = snprintf(buf, size, "%s: %s", err->file, err->text);
    else if (err->column <= 0)
        n = snprintf(buf, size, "%s:%d: %s", err->file, err->line, err->text);
    else
        n = snprintf(buf, size, "%s:%d:%d: %s", err->file, err->line, err->column, err->text);
    if (n >= 0 && (size_t)n >= size && size > sizeof("..."))
        mark_cut(buf, size);
    return buf;
}

int vt_error_exit_code(const struct vt_error *err)
{
    if (!err || err->code == 0)
        return 0;
    switch (err->kind) {
    case VT_KIND_USAGE:
    case VT_KIND_CONFIG:
        return 2;
    case VT_KIND_INTERRUPTED:
        return 130;
    case VT_KIND_NONE:
    case VT_KIND_INFRA:
    case VT_KIND_REFUSED:
        break;
    }
    return 4;
}
