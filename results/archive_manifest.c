/* SPDX-License-Identifier: Apache-2.0 */
#include "results/archive_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define FORMAT "vtile-archive"
#define HEX (2 * ARCHIVE_HASH_BYTES)

void archive_contents_dispose(struct archive_contents *contents)
{
    free(contents->parts);
    *contents = (struct archive_contents){0};
}

uint64_t archive_part_bytes(bool sealed)
{
    return sealed ? ARCHIVE_PART_SEALED_BYTES : ARCHIVE_PART_RECORD_BYTES;
}

void archive_part_name(size_t index, bool sealed, char name[32])
{
    snprintf(name, 32, ARCHIVE_PART_NAME "%03u%s", (unsigned)(index % 1000),
             sealed ? ARCHIVE_PART_SEALED : "");
}

/* --- SHA256SUMS --- */

static void put_sum(const uint8_t hash[ARCHIVE_HASH_BYTES], const char *name, struct vt_buf *out)
{
    char hex[HEX + 1];

    vt_text_hex(hash, ARCHIVE_HASH_BYTES, hex);
    vt_buf_printf(out, "%s  %s\n", hex, name);
}

void archive_sums_write(const struct archive_contents *contents, struct vt_buf *out)
{
    char name[32];

    put_sum(contents->manifest_hash, ARCHIVE_MANIFEST_NAME, out);
    for (size_t i = 0; i < contents->nparts; i++) {
        archive_part_name(i, contents->sealed, name);
        put_sum(contents->parts[i].hash, name, out);
    }
}

/* One line that must be exactly "<lower-case hex>  <name>\n". */
static bool take_sum(const char **at, const char *end, const char *name,
                     uint8_t hash[ARCHIVE_HASH_BYTES])
{
    char hex[HEX + 1], again[HEX + 1];
    size_t name_len = strlen(name);

    if ((size_t)(end - *at) < HEX + 2 + name_len + 1)
        return false;
    memcpy(hex, *at, HEX);
    hex[HEX] = '\0';
    if (!vt_text_unhex(hex, hash, ARCHIVE_HASH_BYTES))
        return false;
    vt_text_hex(hash, ARCHIVE_HASH_BYTES, again);
    if (strcmp(hex, again) != 0 || memcmp(*at + HEX, "  ", 2) != 0 ||
        memcmp(*at + HEX + 2, name, name_len) != 0 || (*at)[HEX + 2 + name_len] != '\n')
        return false;
    *at += HEX + 2 + name_len + 1;
    return true;
}

int archive_sums_read(const char *text, size_t len, struct archive_contents *ret,
                      struct vt_error *err)
{
    const char *at = text, *end = text + len;
    struct archive_part *parts;
    bool sealed;
    char name[32];
    size_t n;

    if (!take_sum(&at, end, ARCHIVE_MANIFEST_NAME, ret->manifest_hash))
        return vt_error_refuse(err, "its first line is not the sum of " ARCHIVE_MANIFEST_NAME);
    parts = calloc((size_t)(end - at) / (HEX + 3) + 1, sizeof(*parts));
    if (!parts)
        return vt_error_no_memory(err, "verify an archive");
    archive_part_name(0, true, name);
    sealed = take_sum(&at, end, name, parts[0].hash);
    n = sealed;
    while (at < end && n < ARCHIVE_PARTS_MAX) {
        archive_part_name(n, sealed, name);
        if (!take_sum(&at, end, name, parts[n].hash))
            break;
        n++;
    }
    if (at != end || n == 0) {
        free(parts);
        return vt_error_refuse(err, "line %zu is not the sum of the next part of the record",
                               n + 2);
    }
    ret->parts = parts;
    ret->nparts = n;
    ret->sealed = sealed;
    return 0;
}

/* --- manifest.json --- */

void archive_manifest_write(const struct archive_contents *contents, const char *result,
                            struct vt_buf *out)
{
    char name[32], hex[HEX + 1];
    struct vt_json w;

    vt_json_begin(&w, out);
    vt_json_object(&w, NULL);
    vt_json_int(&w, "v", ARCHIVE_VERSION);
    vt_json_string(&w, "format", FORMAT);
    vt_json_string(&w, "run", contents->run);
    vt_json_object(&w, "record");
    vt_json_int(&w, "v", contents->record_version);
    vt_json_uint(&w, "bytes", contents->record_bytes);
    vt_text_hex(contents->record_hash, ARCHIVE_HASH_BYTES, hex);
    vt_json_string(&w, "sha256", hex);
    vt_json_end(&w);
    if (contents->sealed) {
        vt_json_array(&w, "recipients");
        for (size_t i = 0; i < contents->nrecipients; i++)
            vt_json_string(&w, NULL, contents->recipients[i]);
        vt_json_end(&w);
    }
    vt_json_array(&w, "parts");
    for (size_t i = 0; i < contents->nparts; i++) {
        archive_part_name(i, contents->sealed, name);
        vt_json_object(&w, NULL);
        vt_json_string(&w, "name", name);
        vt_json_uint(&w, "bytes", contents->parts[i].bytes);
        vt_json_uint(&w, "record_bytes", contents->parts[i].record_bytes);
        vt_json_end(&w);
    }
    vt_json_end(&w);
    vt_json_end(&w);
    /* The result goes in as text: its digits are those of the last line of a run. */
    if (!out->failed) {
        out->data[--out->len] = '\0'; /* "}" */
        vt_buf_printf(out, ",\"result\":%s}\n", result);
    }
}

static int read_part(const json_t *json, size_t index, bool sealed, uint64_t record_left,
                     struct archive_part *part, struct vt_error *err)
{
    uint64_t whole = archive_part_bytes(sealed);
    uint64_t most = sealed ? whole + ARCHIVE_ENVELOPE_BYTES_MAX : ARCHIVE_PART_BYTES_MAX;
    const char *name;
    char right[32];
    int64_t bytes = 0, record_bytes = 0;
    int r = vt_json_get_string(json, "name", &name, err);

    archive_part_name(index, sealed, right);
    if (r == 0)
        r = vt_json_get_int(json, "bytes", 1, (int64_t)most, &bytes, err);
    if (r == 0)
        r = vt_json_get_int(json, "record_bytes", 1, (int64_t)whole, &record_bytes, err);
    if (r < 0) {
        vt_error_wrap(err, "part %zu", index);
        return r;
    }
    if (strcmp(name, right) != 0)
        return vt_error_refuse(err, "part %zu is not called %s", index, right);
    if ((uint64_t)record_bytes != (record_left < whole ? record_left : whole))
        return vt_error_refuse(err, "part %zu does not hold its share of the record", index);
    part->bytes = (uint64_t)bytes;
    part->record_bytes = (uint64_t)record_bytes;
    return 0;
}

static int read_parts(const json_t *json, struct archive_contents *contents, struct vt_error *err)
{
    const json_t *parts;
    uint64_t left = contents->record_bytes;
    int r = vt_json_get_array(json, "parts", ARCHIVE_PARTS_MAX, &parts, err);

    if (r < 0)
        return r;
    if (json_array_size(parts) != contents->nparts)
        return vt_error_refuse(err, "has not the parts that " ARCHIVE_SUMS_NAME " has");
    for (size_t i = 0; i < contents->nparts; i++) {
        r = read_part(json_array_get(parts, i), i, contents->sealed, left, &contents->parts[i],
                      err);
        if (r < 0)
            return r;
        left -= contents->parts[i].record_bytes;
    }
    return left ? vt_error_refuse(err, "its parts are not the whole record") : 0;
}

/* Of lower-case hex, as many as there are; absent where nothing is encrypted. */
static int read_recipients(const json_t *json, struct archive_contents *contents,
                           struct vt_error *err)
{
    uint8_t bytes[ARCHIVE_FINGERPRINT_BYTES];
    const json_t *list = NULL;
    int r;

    if (!contents->sealed)
        return json_object_get(json, "recipients")
                   ? vt_error_refuse(err, "names recipients, but no part is encrypted")
                   : 0;
    r = vt_json_get_array(json, "recipients", ARCHIVE_RECIPIENTS_MAX, &list, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        char *copy = contents->recipients[i];

        if (!text || !vt_text_unhex(text, bytes, sizeof(bytes)))
            return vt_error_refuse(err, "recipient %zu is no SHA-256", i);
        vt_text_hex(bytes, sizeof(bytes), copy);
    }
    contents->nrecipients = json_array_size(list);
    return contents->nrecipients ? 0 : vt_error_refuse(err, "is encrypted to nobody");
}

static int read_record(const json_t *json, struct archive_contents *contents, struct vt_error *err)
{
    const json_t *record;
    const char *hash;
    int64_t bytes = 0, version = 0;
    int r = vt_json_get_object(json, "record", &record, err);

    if (r == 0)
        r = vt_json_get_int(record, "v", RECORD_VERSION_MIN, RECORD_VERSION, &version, err);
    if (r == 0)
        r = vt_json_get_int(record, "bytes", 1,
                            (int64_t)(ARCHIVE_PARTS_MAX * ARCHIVE_PART_RECORD_BYTES), &bytes, err);
    if (r == 0)
        r = vt_json_get_string(record, "sha256", &hash, err);
    if (r != 0)
        return r;
    if (!vt_text_unhex(hash, contents->record_hash, ARCHIVE_HASH_BYTES))
        return vt_error_refuse(err, "the record's sha256 is no SHA-256");
    contents->record_version = (int)version;
    contents->record_bytes = (uint64_t)bytes;
    return 0;
}

int archive_manifest_read(const char *text, size_t len, struct archive_contents *contents,
                          json_t **ret_json, struct vt_error *err)
{
    const char *format = "", *run = "";
    const json_t *result;
    json_t *json = NULL;
    int64_t version = 0;
    int r = vt_json_read(text, len, ARCHIVE_MANIFEST_NAME, VT_KIND_REFUSED, &json, err);

    if (r < 0)
        return r;
    r = vt_json_get_int(json, "v", 1, INT64_MAX, &version, err);
    if (r == 0 && version != ARCHIVE_VERSION)
        r = vt_error_refuse(err, "of a version that this program does not know");
    if (r == 0)
        r = vt_json_get_string(json, "format", &format, err);
    if (r == 0 && strcmp(format, FORMAT) != 0)
        r = vt_error_refuse(err, "its format is not " FORMAT);
    if (r == 0)
        r = vt_json_get_string(json, "run", &run, err);
    if (r == 0 && !vt_text_copy(contents->run, sizeof(contents->run), run))
        r = vt_error_refuse(err, "the run's name is too long");
    if (r == 0)
        r = read_record(json, contents, err);
    if (r == 0)
        r = read_recipients(json, contents, err);
    if (r == 0)
        r = read_parts(json, contents, err);
    if (r == 0)
        r = vt_json_get_object(json, "result", &result, err);
    if (r == 0 && ret_json)
        *ret_json = json;
    else
        json_decref(json);
    return r;
}
