/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * text: growing buffers with a stated maximum, and numbers with units. A buffer that would pass
 * its maximum, or that memory failed for, is marked failed; later appends do nothing, so a
 * writer checks once at its end.
 */
#ifndef VT_BASE_TEXT_H
#define VT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct vt_buf {
    char *data; /* NUL-terminated after any successful append; NULL while empty */
    size_t len; /* without the NUL */
    size_t cap;
    size_t max;     /* len never passes this */
    bool failed;    /* an append was refused or memory ran out */
    bool no_memory; /* of the two, the latter */
};

#define VT_BUF_INIT(max_bytes) \
    {                          \
        .max = (max_bytes)     \
    }

void vt_buf_dispose(struct vt_buf *buf); /* frees; the buffer is empty and usable again */
void vt_buf_reset(struct vt_buf *buf);   /* empties, keeps memory, clears failed */
void vt_buf_add(struct vt_buf *buf, const void *data, size_t len);
void vt_buf_adds(struct vt_buf *buf, const char *text);
void vt_buf_printf(struct vt_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Removes n <= len bytes from the front. */
void vt_buf_consume(struct vt_buf *buf, size_t n);
/* 0, or -ENOBUFS / -ENOMEM with "<what>: ..." when an append failed. */
int vt_buf_check(const struct vt_buf *buf, const char *what, struct vt_error *err);
#define VT_AUTO_BUF __attribute__((cleanup(vt_buf_dispose)))

/* Copies with termination; returns false where it did not fit (dst then holds the cut text). */
bool vt_text_copy(char *dst, size_t size, const char *src);

/* Numbers below are whole texts: no white space around, no sign where none is meaningful, no
 * hexadecimal, nothing after. Refusals are kind CONFIG, code -EINVAL, *ret untouched. */
/* "128 MiB", "1GiB", "64KiB", "4096" (bytes). Units: B KiB MiB GiB TiB, no others. */
int vt_text_parse_bytes(const char *text, uint64_t *ret_bytes, struct vt_error *err);
/* "90 s", "250ms", "2 min", "1 h", "10us", "5ns"; a bare number is refused. Not negative. */
int vt_text_parse_duration(const char *text, int64_t *ret_ns, struct vt_error *err);
/* Whole text, decimal, range checked. */
int vt_text_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret,
                      struct vt_error *err);
int vt_text_parse_double(const char *text, double min, double max, double *ret,
                         struct vt_error *err);

/* Length of the well-formed UTF-8 sequence that a NUL-terminated text begins with (Unicode table
 * 3-7: no overlong form, no surrogate, nothing above U+10FFFF); 0 where there is none. */
size_t vt_text_utf8_length(const char *text);
bool vt_text_is_utf8(const char *text);
/* Every byte that is not printable ASCII becomes '?': of words from outside, which may be cut in
 * the middle of a character, and which JSON would not take then. */
void vt_text_make_plain(char *text);

/* Letters, digits, '-', '_', '.'; 1 to size - 1 of them: safe in paths, certificates and texts. */
bool vt_text_is_name(const char *text, size_t size);
/* An address of IPv4 or IPv6, in digits. */
bool vt_text_is_ip(const char *text);

/* Lower-case hex; out holds 2 * len + 1 bytes. */
void vt_text_hex(const void *data, size_t len, char *out);
/* Exactly len bytes from 2 * len hex digits (either case); false where text is anything else. */
bool vt_text_unhex(const char *text, void *data, size_t len);

#endif
