/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/schedule_replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "tiles/load/schedule.h"
#include "tiles/load/shape.h"

#define DECIMALS 9
#define DIGITS_MAX 16 /* far below 64 bits, above the greatest length in nanoseconds */

#define TOO_LATE "expected a time below 1000000 s"

struct replay {
    FILE *file; /* borrowed */
    const char *path;
    int line, column; /* of the byte taken last */
    int64_t *times_ns;
    size_t n, room;
    struct vt_error *err;
};

static int take(struct replay *r)
{
    r->column++;
    return getc_unlocked(r->file);
}

static int refuse(const struct replay *r, int column, const char *why)
{
    return vt_error_at(r->err, r->path, r->line, column, "%s", why);
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* At most so many digits into *value; *c is what follows them. */
static int take_digits(struct replay *r, int most, const char *why, int *c, int64_t *value,
                       int *ret_n)
{
    for (*ret_n = 0; is_digit(*c); ++*ret_n) {
        if (*ret_n == most)
            return refuse(r, r->column, why);
        *value = *value * 10 + (*c - '0');
        *c = take(r);
    }
    return 0;
}

/* Behind the point; the value is then in nanoseconds. */
static int take_decimals(struct replay *r, int *c, int64_t *value)
{
    int n, code;

    if (*value > SHAPE_LENGTH_MAX_NS / VT_NS_PER_S)
        return refuse(r, 1, TOO_LATE);
    *c = take(r);
    code = take_digits(r, DECIMALS, "expected at most nine decimals", c, value, &n);
    if (code < 0)
        return code;
    if (n == 0)
        return refuse(r, r->column, "expected a digit behind the point");
    for (; n < DECIMALS; n++)
        *value *= 10;
    return 0;
}

static int keep(struct replay *r, int64_t time_ns)
{
    if (time_ns >= SHAPE_LENGTH_MAX_NS)
        return refuse(r, 1, TOO_LATE);
    if (r->n > 0 && time_ns < r->times_ns[r->n - 1])
        return refuse(r, 1, "earlier than the line before: expected times in order");
    if (r->n == SCHEDULE_STEPS_MAX)
        return vt_error_at(r->err, r->path, r->line, 1, "expected at most %u times",
                           SCHEDULE_STEPS_MAX);
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 1024;
        int64_t *grown = realloc(r->times_ns, room * sizeof *grown);

        if (!grown)
            return vt_error_no_memory(r->err, "read %s", r->path);
        r->times_ns = grown;
        r->room = room;
    }
    r->times_ns[r->n++] = time_ns;
    return 0;
}

/* c: the line's first byte. */
static int take_line(struct replay *r, int c)
{
    int64_t value = 0;
    int n, code = take_digits(r, DIGITS_MAX, "expected at most 16 digits", &c, &value, &n);

    if (code < 0)
        return code;
    if (n == 0)
        return refuse(r, 1, "expected a time: nanoseconds, or seconds with a point");
    if (c == '.')
        code = take_decimals(r, &c, &value);
    if (code < 0)
        return code;
    if (c != '\n' && c != EOF)
        return refuse(r, r->column, "expected a digit, a point or the line's end");
    return keep(r, value);
}

static int take_lines(struct replay *r)
{
    int code = 0;

    for (r->line = 1; code == 0; r->line++) {
        int c;

        r->column = 0;
        c = take(r);
        if (c == EOF)
            break;
        code = take_line(r, c);
    }
    if (ferror(r->file))
        return vt_error_errno(r->err, VT_KIND_CONFIG, EIO, "read %s", r->path);
    return code == 0 && r->n == 0 ? refuse(r, 1, "expected at least one time") : code;
}

int schedule_replay_read(const char *path, int64_t **ret_ns, size_t *ret_n, struct vt_error *err)
{
    VT_AUTO_CLOSE int fd = -1;
    VT_AUTO_FCLOSE FILE *file = NULL;
    struct replay r = {.path = path, .err = err};
    int code = vt_file_open(path, VT_KIND_CONFIG, &fd, err);

    if (code < 0)
        return code;
    file = fdopen(fd, "r");
    if (!file)
        return vt_error_no_memory(err, "read %s", path);
    fd = -1;
    r.file = file;
    code = take_lines(&r);
    if (code < 0) {
        free(r.times_ns);
        return code;
    }
    *ret_ns = r.times_ns;
    *ret_n = r.n;
    return 0;
}
