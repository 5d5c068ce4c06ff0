/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static const char *log_program = "vtile";
static enum vt_log_level log_level = VT_LOG_INFO;

void vt_log_init(const char *program, enum vt_log_level level)
{
    log_program = program;
    log_level = level;
}

static const char *level_text(enum vt_log_level level)
{
    switch (level) {
    case VT_LOG_ERROR:
        return "error: ";
    case VT_LOG_WARNING:
        return "warning: ";
    case VT_LOG_DEBUG:
        return "debug: ";
    case VT_LOG_INFO:
        break;
    }
    return "";
}

/* A message may quote what a guest or a file said: control bytes are made harmless, and lines
 * after the first are indented, so that none can pass for a message of ours. */
static size_t make_printable(char *out, size_t size, const char *in)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;

    for (; *in && n + 8 < size; in++) {
        unsigned char c = (unsigned char)*in;

        if (c == '\n') {
            memcpy(out + n, "\n    ", 5);
            n += 5;
        } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
            out[n++] = '\\';
            out[n++] = 'x';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        } else {
            out[n++] = (char)c;
        }
    }
    return n;
}

/* One write a line, so that lines of several processes do not mix. */
static void write_line(enum vt_log_level level, const char *text)
{
    char line[LINE_MAX_BYTES];
    int n = snprintf(line, 128, "%s: %s", log_program, level_text(level));
    size_t len = n < 0 ? 0 : (n > 127 ? 127 : (size_t)n);
    int saved = errno;

    len += make_printable(line + len, sizeof(line) - len - 1, text);
    line[len++] = '\n';
    for (size_t done = 0; done < len;) {
        ssize_t w = write(STDERR_FILENO, line + done, len - done);

        if (w > 0)
            done += (size_t)w;
        else if (w == 0 || errno != EINTR)
            break;
    }
    errno = saved;
}

void vt_log(enum vt_log_level level, const char *fmt, ...)
{
    char text[LINE_MAX_BYTES - 256];
    va_list ap;

    if (level > log_level)
        return;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    write_line(level, text);
}

void vt_log_error(const struct vt_error *err)
{
    char text[VT_ERROR_FILE_MAX + VT_ERROR_TEXT_MAX + 32];

    write_line(VT_LOG_ERROR, vt_error_print(err, text, sizeof(text)));
}
