/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad input made from the schemas of spec and vtile.yaml: in a file that holds every key, each key
 * in turn is missing, of a wrong type, out of range on both sides, in a wrong unit, there twice, or
 * beside an unknown one. Each must be refused at the place computed here, from the text alone, with
 * what was expected. A schema's key that the file does not hold fails the test.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/settings.h"
#include "tiles/spec/schema.h"
#include "tiles/spec/spec.h"

#define LINES_MAX 128
#define TEXT_MAX (1 << 20)

/* "  key: value", "  - key: value", "  key:" or "  - value". */
struct line {
    char text[128];
    int column;   /* 1-based, of the key, or of the value where there is no key */
    char key[48]; /* "": none */
    bool item;    /* begins with "- " */
};

struct attack {
    struct line lines[LINES_MAX];
    size_t nlines;
    int (*read)(const char *text, size_t len, struct vt_error *err);
    const char *elsewhere;
    unsigned done;
};

/* --- the file as lines --- */

static void parse_line(const char *text, size_t len, struct line *line)
{
    const char *p, *colon;

    assert_true(len < sizeof(line->text));
    memset(line, 0, sizeof(*line));
    memcpy(line->text, text, len);
    p = line->text + strspn(line->text, " ");
    line->item = p[0] == '-' && p[1] == ' ';
    p += line->item ? 2 : 0;
    line->column = (int)(p - line->text) + 1;
    colon = strchr(p, ':');
    if (colon && (colon[1] == ' ' || !colon[1])) {
        assert_true((size_t)(colon - p) < sizeof(line->key));
        memcpy(line->key, p, (size_t)(colon - p));
    }
}

static void parse(struct attack *a, const char *text)
{
    for (const char *end; *text; text = end + 1) {
        end = strchr(text, '\n');
        assert_non_null(end);
        assert_true(a->nlines < LINES_MAX);
        parse_line(text, (size_t)(end - text), &a->lines[a->nlines++]);
    }
}

/* The line behind the block that begins at line i. */
static size_t block_end(const struct attack *a, size_t i, size_t last)
{
    int column = a->lines[i].column;

    for (i++; i < last; i++) {
        const struct line *line = &a->lines[i];

        if (line->column <= column || (line->item && line->column - 2 < column))
            break;
    }
    return i;
}

static void add_lines(const struct attack *a, size_t first, size_t last, struct vt_buf *out)
{
    for (size_t i = first; i < last; i++)
        vt_buf_printf(out, "%s\n", a->lines[i].text);
}

/* The lines with a map's key of its own line each, whatever stood before it there. */
static void add_block(const struct attack *a, size_t first, size_t last, bool item,
                      struct vt_buf *out)
{
    const struct line *line = &a->lines[first];
    const char *rest = line->text + line->column - 1;

    vt_buf_printf(out, "%*s%s%s\n", line->column - 1 - (item ? 2 : 0), "", item ? "- " : "", rest);
    add_lines(a, first + 1, last, out);
}

/* --- one attack --- */

static void expect_refused(struct attack *a, const struct vt_buf *text, size_t line, int column,
                           const char *why)
{
    struct vt_error err = VT_ERROR_INIT;

    a->done++;
    assert_false(text->failed);
    if (a->read(text->data, text->len, &err) == 0)
        fail_msg("taken, expected \"%s\" at %zu:%d:\n%s", why, line, column, text->data);
    if (strcmp(err.file, "bad.yaml") != 0 || err.line != (int)line || err.column != column ||
        !strstr(err.text, why))
        fail_msg("%s:%d:%d: %s\nexpected %zu:%d with \"%s\" in\n%s", err.file, err.line, err.column,
                 err.text, line, column, why, text->data);
    assert_int_equal(vt_error_exit_code(&err), 2);
}

/* The block [i, end) becomes "key: value" on a line. */
static void replace(struct attack *a, size_t i, size_t end, const char *value, const char *why)
{
    const struct line *line = &a->lines[i];
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(TEXT_MAX);
    int column = line->column + (int)strlen(line->key) + (value[0] ? 2 : 1);

    add_lines(a, 0, i, &text);
    vt_buf_printf(&text, "%.*s%s:%s%s\n", line->column - 1, line->text, line->key,
                  value[0] ? " " : "", value);
    add_lines(a, end, a->nlines, &text);
    expect_refused(a, &text, i + 1, column, why);
}

static void duplicate(struct attack *a, size_t i, size_t end)
{
    const struct line *line = &a->lines[i];
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(TEXT_MAX);
    char why[128];

    add_lines(a, 0, end, &text);
    add_block(a, i, end, false, &text);
    add_lines(a, end, a->nlines, &text);
    snprintf(why, sizeof(why), "duplicate key \"%s\": it stands at %zu:%d already", line->key,
             i + 1, line->column);
    expect_refused(a, &text, end + 1, line->column, why);
}

static void unknown_sibling(struct attack *a, size_t i, size_t end)
{
    const struct line *line = &a->lines[i];
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(TEXT_MAX);

    add_lines(a, 0, end, &text);
    vt_buf_printf(&text, "%*sqqqqqqqqqqqq: 1\n", line->column - 1, "");
    add_lines(a, end, a->nlines, &text);
    expect_refused(a, &text, end + 1, line->column, "unknown key \"qqqqqqqqqqqq\": known here are");
}

/* A misspelling is answered with the key that was meant. */
static void misspelled_sibling(struct attack *a, size_t i, size_t end)
{
    const struct line *line = &a->lines[i];
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(TEXT_MAX);
    char why[128];

    add_lines(a, 0, end, &text);
    vt_buf_printf(&text, "%*s%sx: 1\n", line->column - 1, "", line->key);
    add_lines(a, end, a->nlines, &text);
    snprintf(why, sizeof(why), "unknown key \"%sx\": did you mean \"%s\"?", line->key, line->key);
    expect_refused(a, &text, end + 1, line->column, why);
}

/* Without the block [i, end) the map begins at its first key that is left. */
static void missing(struct attack *a, size_t first, size_t last, size_t i, size_t end)
{
    const struct line *line = &a->lines[i];
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(TEXT_MAX);
    char why[128];

    if (i == first && end == last) {
        fail_msg("give the map of \"%s\" another key", line->key);
        return;
    }
    add_lines(a, 0, i, &text);
    if (i == first && line->item) {
        add_block(a, end, end + 1, true, &text);
        end++;
    }
    add_lines(a, end, a->nlines, &text);
    snprintf(why, sizeof(why), "the key \"%s\" is missing", line->key);
    expect_refused(a, &text, first + 1, a->lines[first].column, why);
}

/* --- values that a field must refuse --- */

static void print_micro(int64_t value, int64_t scale, const char *unit, char out[64])
{
    int64_t whole = value / scale, rest = value % scale;

    snprintf(out, 64, "%s%" PRId64 ".%0*" PRId64 "%s", value < 0 ? "-" : "",
             whole < 0 ? -whole : whole, scale == 10000 ? 4 : 6, rest < 0 ? -rest : rest, unit);
}

/* value in the field's smallest unit, as it is written; INT64_MIN: none below 0. */
static void print_raw(enum vt_field_type type, int64_t value, char out[64])
{
    switch (type) {
    case VT_FIELD_FIXED:
        print_micro(value, 1000000, "", out);
        break;
    case VT_FIELD_PERCENT:
        print_micro(value, 10000, " %", out);
        break;
    case VT_FIELD_BYTES:
        snprintf(out, 64, "%" PRId64 " B", value);
        break;
    case VT_FIELD_DURATION:
        snprintf(out, 64, "%" PRId64 " ns", value);
        break;
    default:
        snprintf(out, 64, "%" PRId64, value);
        break;
    }
}

static void out_of_range(struct attack *a, const struct vt_field *field, size_t i, size_t end)
{
    char value[64];

    if (field->type == VT_FIELD_UINT) {
        replace(a, i, end, "-1", "expected a whole number from 0");
        replace(a, i, end, "18446744073709551616", "expected a whole number from 0");
        return;
    }
    print_raw(field->type, field->min - 1, value);
    replace(a, i, end, value, "expected a");
    print_raw(field->type, field->max + 1, value);
    replace(a, i, end, value, "expected a");
    replace(a, i, end, "99999999999999999999999", "expected a");
}

static void wrong_units(struct attack *a, const struct vt_field *field, size_t i, size_t end)
{
    static const char *const wrong[][6] = {
        [VT_FIELD_INT] = {"1 B", "1 s", "1.0", "0x1", "1e0", NULL},
        [VT_FIELD_UINT] = {"1 B", "1 s", "1.0", "0x1", "1e0", NULL},
        [VT_FIELD_FIXED] = {"1 s", "50 %", "1/s", "1e-1", ".5", NULL},
        [VT_FIELD_PERCENT] = {"95", "0.95", "95 s", "9.5e1 %", "'%'", NULL},
        [VT_FIELD_BYTES] = {"1 MB", "128 mib", "1.5 GiB", "90 s", "1 M", NULL},
        [VT_FIELD_DURATION] = {"30", "30 sec", "1.5 s", "64 MiB", "30 S", NULL},
    };

    for (const char *const *value = wrong[field->type]; *value; value++)
        replace(a, i, end, *value, "expected a");
}

static void attack_text(struct attack *a, const struct vt_field *field, size_t i, size_t end)
{
    VT_AUTO_BUF struct vt_buf longer = VT_BUF_INIT(TEXT_MAX);

    for (size_t n = 0; n < field->size; n++)
        vt_buf_adds(&longer, "x");
    replace(a, i, end, longer.data, "expected text of");
    replace(a, i, end, "\"\"", "expected text of");
    replace(a, i, end, "~", "expected text of");
    replace(a, i, end, "null", "expected text of");
    replace(a, i, end, "\"a\\nb\"", "expected text of");
}

static void attack_words(struct attack *a, const struct vt_field *field, size_t i, size_t end)
{
    static const char *const words[] = {"yes", "no", "on", "1", "True", "FALSE", "\"\""};

    for (size_t w = 0; w < VT_COUNT(words); w++)
        replace(a, i, end, words[w],
                field->type == VT_FIELD_BOOL ? "expected true or false" : "expected one of");
}

static void attack_scalar(struct attack *a, const struct vt_field *field, size_t i, size_t end)
{
    replace(a, i, end, "[1]", "expected ");
    replace(a, i, end, "{a: 1}", "expected ");
    replace(a, i, end, "", "not an empty value");
    if (field->type == VT_FIELD_TEXT) {
        attack_text(a, field, i, end);
    } else if (field->type == VT_FIELD_BOOL || field->type == VT_FIELD_CHOICE) {
        attack_words(a, field, i, end);
    } else {
        replace(a, i, end, "much", "expected a");
        out_of_range(a, field, i, end);
        wrong_units(a, field, i, end);
    }
}

/* --- lists and maps --- */

static void attack_count(struct attack *a, const struct vt_field *field, size_t i, size_t end)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(TEXT_MAX);
    size_t item_end = i + 2, extra;
    char why[64];

    while (item_end < end && !a->lines[item_end].item)
        item_end++;
    extra = (size_t)field->max - 1;
    add_lines(a, 0, i + 1, &text);
    for (size_t n = 0; n <= extra + 1; n++)
        add_lines(a, i + 1, item_end, &text);
    add_lines(a, end, a->nlines, &text);
    snprintf(why, sizeof(why), "expected at most %" PRId64 " entries", field->max);
    expect_refused(a, &text, i + 2 + (extra + 1) * (item_end - i - 1), a->lines[i + 1].column, why);
    if (field->min > 0)
        replace(a, i, end, "[]", "expected at least");
}

static void attack_section(struct attack *a, const struct vt_field *field, size_t i, size_t end)
{
    bool list = field->type == VT_FIELD_LIST;

    replace(a, i, end, "much", list ? "expected a list" : "expected a map");
    replace(a, i, end, "", list ? "expected a list" : "expected a map");
    replace(a, i, end, list ? "{a: 1}" : "[1]", list ? "expected a list" : "expected a map");
    if (list)
        attack_count(a, field, i, end);
    if (field->type == VT_FIELD_NAMED && field->min > 0)
        replace(a, i, end, "{}", "expected at least");
}

static void attack_map(struct attack *a, const struct vt_schema *schema, size_t first, size_t last);

static void attack_field(struct attack *a, const struct vt_field *field, size_t first, size_t last)
{
    size_t i = first, end;

    while (i < last && (strcmp(a->lines[i].key, field->key) != 0 ||
                        a->lines[i].column != a->lines[first].column))
        i++;
    if (i == last)
        fail_msg("the file has no key \"%s\"", field->key);
    end = block_end(a, i, last);
    duplicate(a, i, end);
    unknown_sibling(a, i, end);
    misspelled_sibling(a, i, end);
    if (field->required)
        missing(a, first, last, i, end);
    if (field->type == VT_FIELD_MAP) {
        attack_section(a, field, i, end);
        attack_map(a, field->schema, i + 1, end);
    } else if (field->type == VT_FIELD_NAMED) {
        attack_section(a, field, i, end);
        attack_map(a, field->schema, i + 2, block_end(a, i + 1, end));
    } else if (field->type == VT_FIELD_LIST) {
        attack_section(a, field, i, end);
        if (field->schema->fields[0].key[0])
            attack_map(a, field->schema, i + 1, i + 1 + field->schema->nfields);
    } else {
        assert_int_not_equal(field->type, VT_FIELD_CUSTOM);
        attack_scalar(a, field, i, end);
    }
}

/* The map whose keys stand in [first, last), at the column of the first. */
static void attack_map(struct attack *a, const struct vt_schema *schema, size_t first, size_t last)
{
    assert_true(first < last);
    for (size_t f = 0; f < schema->nfields; f++) {
        if (schema->fields[f].key[0] && strcmp(schema->fields[f].key, a->elsewhere) != 0)
            attack_field(a, &schema->fields[f], first, last);
    }
}

/* The schema is that of the section of that name, of the whole file where that is NULL. elsewhere:
 * a key that cannot stand beside another of this file's. */
static void attack_file(const char *text, const char *section, const char *elsewhere,
                        const struct vt_schema *schema,
                        int (*read)(const char *text, size_t len, struct vt_error *err),
                        unsigned least)
{
    VT_AUTO_FREE struct attack *a = calloc(1, sizeof(*a));
    struct vt_error err = VT_ERROR_INIT;
    size_t first = 0, last;

    assert_non_null(a);
    a->read = read;
    a->elsewhere = elsewhere;
    if (read(text, strlen(text), &err) < 0)
        fail_msg("the good file: %d:%d: %s", err.line, err.column, err.text);
    parse(a, text);
    if (section) {
        while (first < a->nlines && strcmp(a->lines[first].key, section) != 0)
            first++;
        last = block_end(a, first++, a->nlines);
    } else {
        last = a->nlines;
    }
    attack_map(a, schema, first, last);
    print_message("%s: %u bad files refused\n", schema->name, a->done);
    assert_true(a->done >= least);
}

/* --- the two files --- */

static const char spec_text[] = "name: x\n"
                                "description: every key there is\n"
                                "run:\n"
                                "  tiles: 2\n"
                                "  load: 0.5\n"
                                "  preset: turbo\n"
                                "db_share: 2\n"
                                "roles:\n"
                                "  web:\n"
                                "    sizes:\n"
                                "      tcg:\n"
                                "        memory: 128 MiB\n"
                                "        vcpus: 1\n"
                                "        data: 4 MiB\n"
                                "        storage: disk\n"
                                "        disk: 1 GiB\n"
                                "      kvm:\n"
                                "        memory: 2 GiB\n"
                                "        vcpus: 2\n"
                                "        data: 0\n"
                                "        storage: disk\n"
                                "        disk: 64 MiB\n"
                                "    scored: true\n"
                                "    load:\n"
                                "      rate: 180.9\n"
                                "      divisor: 180.9\n"
                                "      weight: 1\n"
                                "      loop: open\n"
                                "      schedule: swing:16,60s\n"
                                "      connections: 64\n"
                                "      timeout: 30 s\n"
                                "      think:\n"
                                "        mean: 5 s\n"
                                "        max: 75 s\n"
                                "        share: 92.08 %\n"
                                "      expected_response: 100 ms\n"
                                "      good_limit: 5 s\n"
                                "      limits:\n"
                                "        - share: 95 %\n"
                                "          within: 3 s\n"
                                "        - share: 99 %\n"
                                "          within: 5 s\n"
                                "      operations:\n"
                                "        download:\n"
                                "          limits:\n"
                                "            - share: 95 %\n"
                                "              within: 3 s\n"
                                "          good_limit: 12 s\n"
                                "          min_bytes_per_s_95: 99000\n"
                                "          min_bytes_per_s_99: 95000\n"
                                "      error_share_max: 1 %\n"
                                "      wake_lag_p99_max: 250 ms\n"
                                "  infra:\n"
                                "    sizes:\n"
                                "      tcg: {memory: 128 MiB, vcpus: 1, data: 9 MiB}\n"
                                "      kvm: {memory: 1 GiB, vcpus: 1, data: 9 MiB}\n";

/* What a role has that makes its load by itself; the rest stands above. */
static const char jobs_text[] = "name: x\n"
                                "description: every key of jobs\n"
                                "roles:\n"
                                "  storage:\n"
                                "    sizes:\n"
                                "      tcg: {memory: 128 MiB, vcpus: 1, data: 9 MiB}\n"
                                "      kvm: {memory: 1 GiB, vcpus: 1, data: 9 MiB}\n"
                                "    scored: true\n"
                                "    jobs:\n"
                                "      rate: 100\n"
                                "      windows:\n"
                                "        smoke: 60 s\n"
                                "        turbo: 2 min\n"
                                "        standard: 15 min\n"
                                "      late_workers: 75 %\n"
                                "      compress: 1 MiB\n"
                                "      compile: 20\n"
                                "      read_share: 70 %\n"
                                "      block: 4 KiB\n"
                                "      stream_rate: 10\n"
                                "      stream_block: 64 KiB\n"
                                "      bytes_per_s: 1 MiB\n"
                                "      weight: 1\n"
                                "      good_limit: 5 s\n"
                                "      limits:\n"
                                "        - share: 95 %\n"
                                "          within: 3 s\n"
                                "        - share: 99 %\n"
                                "          within: 5 s\n"
                                "      operations:\n"
                                "        read:\n"
                                "          limits:\n"
                                "            - share: 95 %\n"
                                "              within: 3 s\n"
                                "          good_limit: 12 s\n"
                                "          min_bytes_per_s_95: 99000\n"
                                "          min_bytes_per_s_99: 95000\n"
                                "      error_share_max: 1 %\n";

static int read_spec(const char *text, size_t len, struct vt_error *err)
{
    struct spec spec;

    return spec_read_text("bad.yaml", text, len, &spec, err);
}

static const char settings_text[] = "spec: web\n"
                                    "tiles: 2\n"
                                    "load: 0.5\n"
                                    "preset: smoke\n"
                                    "seed: 7\n"
                                    "host:\n"
                                    "  - embed\n"
                                    "  - qemu:///system\n"
                                    "client:\n"
                                    "  - ssh://machine\n"
                                    "recipient:\n"
                                    "  - /etc/reviewer.pem\n"
                                    "profile: none\n"
                                    "boot-timeout: 2 min\n"
                                    "state: /var/lib/vtile\n"
                                    "runtime: /run/vtile\n"
                                    "cache: /var/cache/vtile\n";

static int read_settings(const char *text, size_t len, struct vt_error *err)
{
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof(*settings));
    struct vt_yaml yaml;
    int rc;

    assert_non_null(settings);
    rc = vt_yaml_read_text("bad.yaml", text, len, &yaml, err);
    if (rc < 0)
        return rc;
    rc = vt_yaml_bind(&yaml, &settings_schema, settings, err);
    vt_yaml_dispose(&yaml);
    return rc;
}

static void test_spec(void **state)
{
    (void)state;
    attack_file(spec_text, NULL, "jobs", &spec_schema, read_spec, 400);
}

static void test_jobs(void **state)
{
    (void)state;
    attack_file(jobs_text, "jobs", "", &spec_jobs_schema, read_spec, 100);
}

static void test_settings(void **state)
{
    (void)state;
    attack_file(settings_text, NULL, "", &settings_schema, read_settings, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_settings),
    };

    return cmocka_run_group_tests_name("bad_input", tests, NULL, NULL);
}
