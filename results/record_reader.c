/* SPDX-License-Identifier: Apache-2.0 */
#include "results/record_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "base/text.h"
#include "results/record.h"
#include "results/record_row.h"
#include "results/record_schema.h"

static int refuse(const struct record_reader *reader, struct vt_error *err, const char *why)
{
    return vt_error_refuse(err, "record %s: %s", reader->path, why);
}

/* --- cursor --- */

int record_cursor_open(struct record_cursor *cursor, struct record_reader *reader, const char *what,
                       const char *sql, struct vt_error *err)
{
    *cursor = (struct record_cursor){.reader = reader, .what = what};
    if (sqlite3_prepare_v2(reader->db, sql, -1, &cursor->statement, NULL) != SQLITE_OK)
        return refuse(reader, err, sqlite3_errmsg(reader->db));
    return 0;
}

int record_cursor_step(struct record_cursor *cursor, struct vt_error *err)
{
    int r = sqlite3_step(cursor->statement);

    cursor->column = 0;
    cursor->fault = NULL;
    if (r == SQLITE_ROW)
        return 1;
    if (r == SQLITE_DONE)
        return 0;
    return refuse(cursor->reader, err, sqlite3_errmsg(cursor->reader->db));
}

int record_cursor_check(const struct record_cursor *cursor, struct vt_error *err)
{
    if (!cursor->fault)
        return 0;
    return vt_error_refuse(err, "record %s: table %s: %s", cursor->reader->path, cursor->what,
                           cursor->fault);
}

void record_cursor_close(struct record_cursor *cursor)
{
    sqlite3_finalize(cursor->statement);
    cursor->statement = NULL;
}

static void set_fault(struct record_cursor *cursor, const char *fault)
{
    if (!cursor->fault)
        cursor->fault = fault;
}

int64_t record_take_int(struct record_cursor *cursor, int64_t min, int64_t max)
{
    int column = cursor->column++;
    int64_t value;

    if (sqlite3_column_type(cursor->statement, column) != SQLITE_INTEGER) {
        set_fault(cursor, "an integer is missing");
        return min;
    }
    value = sqlite3_column_int64(cursor->statement, column);
    if (value < min || value > max) {
        set_fault(cursor, "an integer is out of range");
        return min;
    }
    return value;
}

double record_take_real(struct record_cursor *cursor)
{
    int column = cursor->column++;
    int type = sqlite3_column_type(cursor->statement, column);

    if (type == SQLITE_NULL)
        return (double)NAN;
    if (type != SQLITE_FLOAT)
        set_fault(cursor, "a number is of another type");
    return sqlite3_column_double(cursor->statement, column);
}

const char *record_take_opt_text(struct record_cursor *cursor, size_t max)
{
    int column = cursor->column++;
    const char *text;
    size_t len;

    if (sqlite3_column_type(cursor->statement, column) == SQLITE_NULL)
        return NULL;
    if (sqlite3_column_type(cursor->statement, column) != SQLITE_TEXT) {
        set_fault(cursor, "a text is of another type");
        return "";
    }
    text = (const char *)sqlite3_column_text(cursor->statement, column);
    len = (size_t)sqlite3_column_bytes(cursor->statement, column);
    if (!text || len > max || strlen(text) != len) {
        set_fault(cursor, "a text is too long or holds a NUL");
        return "";
    }
    return text;
}

const char *record_take_text(struct record_cursor *cursor, size_t max)
{
    const char *text = record_take_opt_text(cursor, max);

    if (!text)
        set_fault(cursor, "a text is missing");
    return text ? text : "";
}

void record_take_name(struct record_cursor *cursor, char *dst)
{
    const char *name = record_take_text(cursor, VT_RECORD_NAME_MAX - 1);

    if (!record_name_ok(name, strlen(name)))
        set_fault(cursor, "a name is empty or holds a character that names have not");
    vt_text_copy(dst, VT_RECORD_NAME_MAX, cursor->fault ? "" : name);
}

const void *record_take_blob(struct record_cursor *cursor, size_t max, size_t *ret_len)
{
    int column = cursor->column++;
    const void *data = "";

    *ret_len = 0;
    if (sqlite3_column_type(cursor->statement, column) != SQLITE_BLOB) {
        set_fault(cursor, "a blob is missing");
        return data;
    }
    if ((size_t)sqlite3_column_bytes(cursor->statement, column) > max) {
        set_fault(cursor, "a blob is too long");
        return data;
    }
    *ret_len = (size_t)sqlite3_column_bytes(cursor->statement, column);
    return *ret_len ? sqlite3_column_blob(cursor->statement, column) : data;
}

/* --- open --- */

/* SQLite wants a URI for immutable=1; all but plain characters of the path are escaped. */
static char *make_uri(const char *path)
{
    static const char plain[] = "/.-_~";
    VT_AUTO_BUF struct vt_buf uri = VT_BUF_INIT(4 * 4096);

    vt_buf_adds(&uri, "file:");
    if (*path != '/')
        vt_buf_adds(&uri, "./");
    for (const char *p = path; *p; p++) {
        bool alnum =
            (*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z');
        if (alnum || strchr(plain, *p))
            vt_buf_add(&uri, p, 1);
        else
            vt_buf_printf(&uri, "%%%02X", (unsigned)(unsigned char)*p);
    }
    vt_buf_adds(&uri, "?mode=ro&immutable=1");
    return uri.failed ? NULL : vt_take_ptr(uri.data);
}

/* https://www.sqlite.org/security.html: what to switch off before a stranger's file is read. */
static int harden(struct record_reader *reader, struct vt_error *err)
{
    static const int off[] = {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                              SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_WRITABLE_SCHEMA,
                              SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION};

    sqlite3_extended_result_codes(reader->db, 1);
    sqlite3_db_config(reader->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    for (size_t i = 0; i < VT_COUNT(off); i++)
        sqlite3_db_config(reader->db, off[i], 0, NULL);
    sqlite3_limit(reader->db, SQLITE_LIMIT_LENGTH, 2 * RECORD_BLOB_MAX);
    sqlite3_limit(reader->db, SQLITE_LIMIT_SQL_LENGTH, 16384);
    sqlite3_limit(reader->db, SQLITE_LIMIT_ATTACHED, 0);
    if (sqlite3_exec(reader->db,
                     "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
                     " PRAGMA query_only=ON; PRAGMA temp_store=MEMORY",
                     NULL, NULL, NULL) != SQLITE_OK)
        return refuse(reader, err, sqlite3_errmsg(reader->db));
    return 0;
}

/* fault: what is wrong with a number that is not in [min, max]. */
static int read_number(struct record_reader *reader, const char *sql, int64_t min, int64_t max,
                       const char *fault, int64_t *ret, struct vt_error *err)
{
    int64_t value;
    struct record_cursor cursor;
    int r = record_cursor_open(&cursor, reader, "pragma", sql, err);

    if (r < 0)
        return r;
    r = record_cursor_step(&cursor, err);
    if (r == 1) {
        value = record_take_int(&cursor, INT64_MIN, INT64_MAX);
        r = value >= min && value <= max ? 0 : refuse(reader, err, fault);
        if (r == 0)
            *ret = value;
    } else if (r == 0) {
        r = refuse(reader, err, fault);
    }
    record_cursor_close(&cursor);
    return r;
}

/* Exactly our tables, in our order, and nothing beside them. */
static int check_schema(struct record_reader *reader, struct vt_error *err)
{
    struct record_cursor cursor;
    size_t n = 0;
    int r = record_cursor_open(&cursor, reader, "sqlite_schema",
                               "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid",
                               err);

    while (r == 0 && (r = record_cursor_step(&cursor, err)) == 1) {
        const char *type = record_take_text(&cursor, RECORD_TEXT_MAX);
        const char *name = record_take_text(&cursor, RECORD_TEXT_MAX);
        const char *table = record_take_text(&cursor, RECORD_TEXT_MAX);
        const char *sql = record_take_text(&cursor, RECORD_TEXT_MAX);
        r = record_cursor_check(&cursor, err);
        if (r == 0 &&
            (n == record_ntables || strcmp(type, "table") || strcmp(name, record_tables[n].name) ||
             strcmp(table, name) || strcmp(sql, record_tables[n].sql)))
            r = refuse(reader, err, "its tables are not those of a record of this version");
        n++;
    }
    record_cursor_close(&cursor);
    if (r == 0 && n != record_ntables)
        r = refuse(reader, err, "tables are missing");
    return r;
}

/* Walks every page; STRICT types are checked too. */
static int check_pages(struct record_reader *reader, struct vt_error *err)
{
    struct record_cursor cursor;
    int r = record_cursor_open(&cursor, reader, "pragma", "PRAGMA quick_check(1)", err);

    if (r < 0)
        return r;
    r = record_cursor_step(&cursor, err);
    if (r == 1) {
        const char *answer = record_take_text(&cursor, RECORD_TEXT_MAX);
        r = strcmp(answer, "ok") ? refuse(reader, err, *answer ? answer : "damaged") : 0;
    }
    record_cursor_close(&cursor);
    return r;
}

static int check_file(struct record_reader *reader, const char *path, struct vt_error *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "open record %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return refuse(reader, err, "not a record: no plain file, or empty");
    return 0;
}

int record_open_read(const char *path, struct record_reader **ret, struct vt_error *err)
{
    struct record_reader *reader = calloc(1, sizeof(*reader));
    VT_AUTO_FREE char *uri = make_uri(path);
    int64_t number = 0;
    int r;

    if (!reader || !uri) {
        free(reader);
        return vt_error_no_memory(err, "open record %s", path);
    }
    vt_text_copy(reader->path, sizeof(reader->path), path);
    r = check_file(reader, path, err);
    if (r == 0 && sqlite3_open_v2(uri, &reader->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) !=
                      SQLITE_OK)
        r = refuse(reader, err, reader->db ? sqlite3_errmsg(reader->db) : "out of memory");
    if (r == 0)
        r = harden(reader, err);
    if (r == 0)
        r = read_number(reader, "PRAGMA application_id", RECORD_APPLICATION_ID,
                        RECORD_APPLICATION_ID, "not a record", &number, err);
    if (r == 0)
        r = read_number(reader, "PRAGMA user_version", RECORD_VERSION_MIN, RECORD_VERSION,
                        "a version that this program does not know", &number, err);
    reader->version = (int)number;
    if (r == 0)
        r = check_schema(reader, err);
    if (r == 0)
        r = check_pages(reader, err);
    if (r < 0) {
        record_reader_close(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

int record_reader_version(const struct record_reader *reader)
{
    return reader->version;
}

struct record_reader *record_reader_close(struct record_reader *reader)
{
    if (reader) {
        sqlite3_close(reader->db);
        free(reader->keys);
        free(reader);
    }
    return NULL;
}
