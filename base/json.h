/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json: jansson reads (strict, duplicate keys refused, depth and size bounded); a small streaming
 * writer writes, so that order and digits of output are ours.
 */
#ifndef VT_BASE_JSON_H
#define VT_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

#define VT_JSON_DEPTH_MAX 16
#define VT_JSON_BYTES_MAX (16U << 20)
#define VT_JSON_VALUES_MAX 500000 /* jansson takes about 100 bytes for the smallest value */

/* Parses one whole document, an object or array, within the bounds above; NUL is refused, also
 * when escaped. name: for messages (a file or "frame from web-1"). *ret is the caller's
 * (json_decref). Error: -EBADMSG, kind as given, line, column (-ENOMEM: kind INFRA). Integers
 * above INT64_MAX are refused: write such values as text. */
int vt_json_read(const char *data, size_t len, const char *name, enum vt_kind kind, json_t **ret,
                 struct vt_error *err);

/* Typed look-up in an object; an absent key or a wrong type is -EBADMSG naming both (kind
 * REFUSED: change it where the text is the user's own). The opt forms leave *ret as it was when
 * the key is absent. Strings are borrowed from obj. */
int vt_json_get_string(const json_t *obj, const char *key, const char **ret, struct vt_error *err);
int vt_json_opt_string(const json_t *obj, const char *key, const char **ret, struct vt_error *err);
int vt_json_get_bool(const json_t *obj, const char *key, bool *ret, struct vt_error *err);
int vt_json_get_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                    struct vt_error *err);
int vt_json_opt_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                    struct vt_error *err);
int vt_json_get_object(const json_t *obj, const char *key, const json_t **ret,
                       struct vt_error *err);
int vt_json_get_array(const json_t *obj, const char *key, size_t max, const json_t **ret,
                      struct vt_error *err);

/* Writer. key may be NULL inside arrays and at the top. Text is escaped, invalid UTF-8 is
 * replaced by U+FFFD. Nesting errors, more than 31 levels and keys where none can be (or none
 * where one must be) are programming errors (assert). No white space. out is checked by the
 * caller at the end (vt_buf_check). */
struct vt_json {
    struct vt_buf *out;
    unsigned depth;
    uint32_t in_array; /* bit per depth */
    bool comma;
};

void vt_json_begin(struct vt_json *w, struct vt_buf *out);
/* Begins a message to programs, which says what it is: {"v":1,"type":type, ...; end it. */
void vt_json_message(struct vt_json *w, struct vt_buf *out, const char *type);
void vt_json_object(struct vt_json *w, const char *key);
void vt_json_array(struct vt_json *w, const char *key);
void vt_json_end(struct vt_json *w); /* closes the innermost object or array */
void vt_json_string(struct vt_json *w, const char *key, const char *value); /* NULL: null */
void vt_json_int(struct vt_json *w, const char *key, int64_t value);
void vt_json_uint(struct vt_json *w, const char *key, uint64_t value);
/* Fixed decimals, 0..9, no exponent, never "-0"; not finite: null. */
void vt_json_double(struct vt_json *w, const char *key, double value, int decimals);
void vt_json_bool(struct vt_json *w, const char *key, bool value);
void vt_json_null(struct vt_json *w, const char *key);

#endif
