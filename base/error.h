/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * base: what every room may use; it includes nothing of the other rooms.
 *
 * error: an error is a value. It is built where it happens, wrapped once on the way up
 * ("what was being done, to what: why"), and printed by main() alone. No allocation.
 * A function that can fail returns 0 or a negative errno-like code and fills *err; err may be
 * NULL everywhere. Every function here that returns int returns the code, so that
 * `return vt_error_set(err, ...)` is the usual last line of a failing function.
 */
#ifndef VT_BASE_ERROR_H
#define VT_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

/* What stood in the way; decides the exit code (vt_error_exit_code). */
enum vt_kind {
    VT_KIND_NONE = 0,
    VT_KIND_USAGE,       /* command line: exit 2 */
    VT_KIND_CONFIG,      /* a file of the user, or this machine's set-up: exit 2 */
    VT_KIND_INFRA,       /* host, guest, network, disk failed: exit 4 */
    VT_KIND_INTERRUPTED, /* by the user: exit 130 */
    VT_KIND_REFUSED,     /* hostile or damaged input (archive, peer): exit 4 */
};

#define VT_ERROR_TEXT_MAX 768
#define VT_ERROR_FILE_MAX 256

struct vt_error {
    enum vt_kind kind;
    int code;                     /* negative errno-like, 0 = no error */
    char file[VT_ERROR_FILE_MAX]; /* input file, "" where there is none */
    int line, column;             /* 1-based, 0 = unknown */
    char text[VT_ERROR_TEXT_MAX]; /* without position; cut with "..." when too long */
};

#define VT_ERROR_INIT               \
    {                               \
        VT_KIND_NONE, 0, {0}, 0, 0, \
        {                           \
            0                       \
        }                           \
    }

/* Fills *err. code must be negative; a code >= 0 is stored as -EINVAL. Returns the code. */
int vt_error_set(struct vt_error *err, enum vt_kind kind, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Same, and appends ": <strerror(errnum)>"; errnum is positive. Returns -errnum. */
int vt_error_errno(struct vt_error *err, enum vt_kind kind, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Memory was refused: INFRA, and appends ": out of memory". Returns -ENOMEM. */
int vt_error_no_memory(struct vt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* What came from outside is damaged or hostile: REFUSED. Returns -EBADMSG. */
int vt_error_refuse(struct vt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* An error in an input file, kind VT_KIND_CONFIG, code -EINVAL. Returns -EINVAL. */
int vt_error_at(struct vt_error *err, const char *file, int line, int column, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Puts "<fmt>: " before the text; position, kind and code stay. Returns err->code, or -EIO
 * where err is NULL. */
int vt_error_wrap(struct vt_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* These never return 0, and neither compilers nor analyzers could know it from another file. */
static inline int vt_error_negative(int code)
{
    if (code >= 0)
        __builtin_unreachable();
    return code;
}
#define vt_error_set(...) vt_error_negative(vt_error_set(__VA_ARGS__))
#define vt_error_errno(...) vt_error_negative(vt_error_errno(__VA_ARGS__))
#define vt_error_no_memory(...) vt_error_negative(vt_error_no_memory(__VA_ARGS__))
#define vt_error_refuse(...) vt_error_negative(vt_error_refuse(__VA_ARGS__))
#define vt_error_at(...) vt_error_negative(vt_error_at(__VA_ARGS__))
#define vt_error_wrap(...) vt_error_negative(vt_error_wrap(__VA_ARGS__))

void vt_error_clear(struct vt_error *err);

/* "file:line:column: text" or "text" into buf (always terminated). Returns buf. */
const char *vt_error_print(const struct vt_error *err, char *buf, size_t size);

/* 0 for no error, else 2, 4 or 130 as at enum vt_kind. */
int vt_error_exit_code(const struct vt_error *err);

#endif
