/* SPDX-License-Identifier: Apache-2.0 */
/* Fields: what each type takes and refuses, with the place and the expectation in the message. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/yaml.h"
#include "tests/unit/cases.h"

enum { NAMES_MAX = 3, DISKS_MAX = 2 };

struct name {
    char text[8];
};
struct disk {
    char name[8];
    uint64_t size_bytes;
    bool seen; /* filled by the check */
};
struct load {
    int64_t rate, share, timeout_ns;
};
struct machine {
    char title[16];
    bool pin;
    int64_t cpus;
    uint64_t seed;
    int mode;
    struct load load;
    struct name names[NAMES_MAX];
    size_t nnames;
    struct disk disks[DISKS_MAX];
    size_t ndisks;
    char custom[16];
};

#define IN(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)

static const struct vt_field load_fields[] = {
    {.key = "rate",
     .type = VT_FIELD_FIXED,
     IN(load, rate),
     .min = 1,
     .max = 1000000000,
     .required = true,
     .help = "operations a second"},
    {.key = "share", .type = VT_FIELD_PERCENT, IN(load, share), .min = 0, .max = 1000000},
    {.key = "timeout",
     .type = VT_FIELD_DURATION,
     IN(load, timeout_ns),
     .min = 1000000,
     .max = INT64_C(3600000000000)},
};
static const struct vt_schema load_schema = {.name = "load",
                                             .fields = load_fields,
                                             .nfields = VT_COUNT(load_fields),
                                             .struct_size = sizeof(struct load)};

static const struct vt_field name_fields[] = {
    {.key = "", .type = VT_FIELD_TEXT, IN(name, text), .min = 1},
};
static const struct vt_schema name_schema = {
    .name = "name", .fields = name_fields, .nfields = 1, .struct_size = sizeof(struct name)};

static const struct vt_field disk_fields[] = {
    {.key = "", .type = VT_FIELD_TEXT, IN(disk, name), .min = 1},
    {.key = "size",
     .type = VT_FIELD_BYTES,
     IN(disk, size_bytes),
     .min = 4096,
     .max = INT64_C(1) << 40},
};

static int check_disk(void *object, const struct vt_yaml_node *node, const char *file,
                      struct vt_error *err)
{
    struct disk *disk = object;

    disk->seen = true;
    if (disk->size_bytes % 512 != 0)
        return vt_error_at(err, file, node->line, node->column, "not whole sectors");
    return 0;
}

static const struct disk disk_defaults = {.size_bytes = 8192};
static const struct vt_schema disk_schema = {.name = "disk",
                                             .fields = disk_fields,
                                             .nfields = VT_COUNT(disk_fields),
                                             .struct_size = sizeof(struct disk),
                                             .defaults = &disk_defaults,
                                             .check = check_disk};

static int bind_custom(const struct vt_yaml_node *node, const char *file, void *object,
                       struct vt_error *err)
{
    struct machine *machine = object;

    if (node->type != VT_YAML_SCALAR)
        return vt_error_at(err, file, node->line, node->column, "custom: no scalar");
    snprintf(machine->custom, sizeof(machine->custom), "<%.10s>", node->text);
    return 0;
}

static const char *const modes[] = {"open", "closed", NULL};
static const struct vt_field machine_fields[] = {
    {.key = "title", .type = VT_FIELD_TEXT, IN(machine, title), .min = 1},
    {.key = "pin", .type = VT_FIELD_BOOL, IN(machine, pin)},
    {.key = "cpus", .type = VT_FIELD_INT, IN(machine, cpus), .min = -2, .max = 64},
    {.key = "seed", .type = VT_FIELD_UINT, IN(machine, seed), .min = 0, .max = -1},
    {.key = "mode", .type = VT_FIELD_CHOICE, IN(machine, mode), .choices = modes},
    {.key = "load", .type = VT_FIELD_MAP, IN(machine, load), .schema = &load_schema},
    {.key = "names",
     .type = VT_FIELD_LIST,
     IN(machine, names),
     .min = 1,
     .max = NAMES_MAX,
     .schema = &name_schema,
     .count_offset = offsetof(struct machine, nnames)},
    {.key = "disks",
     .type = VT_FIELD_NAMED,
     IN(machine, disks),
     .min = 0,
     .max = DISKS_MAX,
     .schema = &disk_schema,
     .count_offset = offsetof(struct machine, ndisks)},
    {.key = "custom", .type = VT_FIELD_CUSTOM, IN(machine, custom), .bind = bind_custom},
};
static const struct vt_schema machine_schema = {.name = "machine",
                                                .fields = machine_fields,
                                                .nfields = VT_COUNT(machine_fields),
                                                .struct_size = sizeof(struct machine)};

static int bind(const char *text, struct machine *machine, struct vt_error *err)
{
    struct vt_yaml yaml;
    int rc = vt_yaml_read_text("m.yaml", text, strlen(text), &yaml, err);

    if (rc < 0)
        fail_msg("not read: %s", text);
    rc = vt_yaml_bind(&yaml, &machine_schema, machine, err);
    vt_yaml_dispose(&yaml);
    return rc;
}

static void refused(const char *text, const char *expected)
{
    struct machine machine = {0};
    struct vt_error err = VT_ERROR_INIT;
    char printed[2048];

    if (bind(text, &machine, &err) == 0)
        fail_msg("bound: %s", text);
    assert_string_equal(vt_error_print(&err, printed, sizeof(printed)), expected);
    assert_int_equal(vt_error_exit_code(&err), 2);
}

static void test_all_types(void **state)
{
    struct machine m = {.cpus = 7};
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    assert_int_equal(bind("title: NO\npin: true\nseed: 18446744073709551615\nmode: closed\n"
                          "load: {rate: 180.9, share: 92.08 %, timeout: 30 s}\n"
                          "names: [on, \"null\", y]\n"
                          "disks:\n  data: {size: 4 GiB}\n  log: {}\ncustom: x\n",
                          &m, &err),
                     0);
    assert_string_equal(m.title, "NO");
    assert_true(m.pin);
    assert_int_equal(m.cpus, 7); /* absent: as it was */
    assert_true(m.seed == UINT64_MAX);
    assert_int_equal(m.mode, 1);
    assert_int_equal(m.load.rate, 180900000);
    assert_int_equal(m.load.share, 920800);
    assert_int_equal(m.load.timeout_ns, INT64_C(30000000000));
    assert_int_equal(m.nnames, 3);
    assert_string_equal(m.names[0].text, "on");
    assert_string_equal(m.names[1].text, "null");
    assert_int_equal(m.ndisks, 2);
    assert_string_equal(m.disks[0].name, "data");
    assert_int_equal(m.disks[0].size_bytes, INT64_C(4294967296));
    assert_string_equal(m.disks[1].name, "log");
    assert_int_equal(m.disks[1].size_bytes, 8192);
    assert_true(m.disks[1].seen);
    assert_string_equal(m.custom, "<x>");
}

static void test_keys_refused(void **state)
{
    (void)state;
    refused("titel: x\n", "m.yaml:1:1: unknown key \"titel\": did you mean \"title\"?");
    refused("load: {rate: 1, tmeout: 1 s}\n",
            "m.yaml:1:17: load: unknown key \"tmeout\": did you mean \"timeout\"?");
    refused("load: {rate: 1, zzz: 1 s}\n",
            "m.yaml:1:17: load: unknown key \"zzz\": known here are rate, share, timeout");
    refused("pin: true\nload:\n  share: 1 %\n",
            "m.yaml:3:3: load: the key \"rate\" is missing, operations a second: expected a number "
            "with at most six decimals from 0.000001 to 1000");
    refused("load: {rat: 1}\n", "m.yaml:1:8: load: unknown key \"rat\": did you mean \"rate\"?");
}

static void test_values_refused(void **state)
{
    (void)state;
    refused("title: \n", "m.yaml:1:7: title: expected text of 1 to 15 bytes on one line, not an "
                         "empty value");
    refused("title: ~\n", "m.yaml:1:8: title: expected text of 1 to 15 bytes on one line, not an "
                          "empty value: ~");
    refused("title: null\n", "m.yaml:1:8: title: expected text of 1 to 15 bytes on one line, not "
                             "an empty value: null");
    refused("title: 0123456789abcdef\n",
            "m.yaml:1:8: title: expected text of 1 to 15 bytes on one line, not "
            "\"0123456789abcdef\"");
    refused("title: \"a\\e[31m\"\n", "m.yaml:1:8: title: expected text of 1 to 15 bytes on one "
                                     "line, not \"a?[31m\"");
    refused("title: [a]\n",
            "m.yaml:1:8: title: expected text of 1 to 15 bytes on one line, not a list");
    refused("pin: no\n", "m.yaml:1:6: pin: expected true or false, not \"no\"");
    refused("pin: True\n", "m.yaml:1:6: pin: expected true or false, not \"True\"");
    refused("cpus: 65\n", "m.yaml:1:7: cpus: expected a whole number from -2 to 64, not \"65\"");
    refused("cpus: 1.0\n", "m.yaml:1:7: cpus: expected a whole number from -2 to 64, not \"1.0\"");
    refused("mode: Open\n", "m.yaml:1:7: mode: expected one of open, closed, not \"Open\"");
    refused("load: 5\n", "m.yaml:1:7: load: expected a map, not \"5\"");
    refused("load:\n", "m.yaml:1:6: load: expected a map, not an empty value");
    refused("load: {rate: 1, timeout: 30}\n",
            "m.yaml:1:26: load.timeout: expected a duration with its unit (ns us ms s min h) from "
            "1 ms to 1 h, not \"30\"");
    refused("load: {rate: 1, share: 101 %}\n",
            "m.yaml:1:24: load.share: expected a share with % from 0 % to 100 %, not \"101 %\"");
    refused("[]\n", "m.yaml:1:1: expected a map, not a list");
}

static void test_entries_refused(void **state)
{
    (void)state;
    refused("names: [a, b, c, d]\n", "m.yaml:1:18: names: expected at most 3 entries");
    refused("names: []\n", "m.yaml:1:8: names: expected at least 1 entry");
    refused("names: a\n", "m.yaml:1:8: names: expected a list, not \"a\"");
    refused("names: [a, ~]\n", "m.yaml:1:12: names[2]: expected text of 1 to 7 bytes on one line, "
                               "not an empty value: ~");
    refused("disks: [a]\n", "m.yaml:1:8: disks: expected a map, not a list");
    refused("disks: {a: {}, b: {}, c: {}}\n", "m.yaml:1:23: disks: expected at most 2 entries");
    refused("disks: {a: }\n", "m.yaml:1:12: disks.a: expected a map, not an empty value");
    refused("disks: {a: {size: 5 MB}}\n",
            "m.yaml:1:19: disks.a.size: expected a size with its unit (B KiB MiB GiB TiB) from "
            "4 KiB to 1 TiB, not \"5 MB\"");
    refused("disks: {a: {size: 4097}}\n", "m.yaml:1:12: not whole sectors");
    refused("disks: {toolongname: {}}\n", "m.yaml:1:9: disks.toolongname: expected text of 1 to 7 "
                                          "bytes on one line, not \"toolongname\"");
    refused("disks: {\"a\\tb\": {size: 1}}\n",
            "m.yaml:1:9: disks.\"a?b\": expected text of 1 to 7 bytes on one line, not \"a?b\"");
    refused("custom: []\n", "m.yaml:1:9: custom: no scalar");
}

static void test_without_error(void **state)
{
    struct machine m = {0};

    (void)state;
    assert_true(bind("pin: maybe\n", &m, NULL) < 0);
}

/* --- one scalar --- */

struct number {
    int64_t value;
};

static void number_is(enum vt_field_type type, const char *text, int64_t expected,
                      const char *printed)
{
    struct vt_field field = {
        .key = "n", .type = type, IN(number, value), .min = INT64_MIN, .max = INT64_MAX};
    struct number n = {0};
    char words[VT_FIELD_WORDS_MAX];

    if (type == VT_FIELD_UINT || type == VT_FIELD_BYTES)
        field.min = 0;
    if (type == VT_FIELD_UINT)
        field.max = -1;
    if (vt_field_parse(&field, text, true, &n, NULL) < 0)
        fail_msg("refused: %s", text);
    if (n.value != expected)
        fail_msg("%s became %" PRId64, text, n.value);
    assert_string_equal(vt_field_print(&field, &n, words), printed);
}

static void number_refused(enum vt_field_type type, const char *text)
{
    struct vt_field field = {
        .key = "n", .type = type, IN(number, value), .min = INT64_MIN, .max = INT64_MAX};
    struct number n = {-77};

    if (type == VT_FIELD_UINT || type == VT_FIELD_BYTES) {
        field.min = 0;
        field.max = -1;
    }
    if (vt_field_parse(&field, text, true, &n, NULL) == 0)
        fail_msg("taken: \"%s\" as %" PRId64, text, n.value);
    assert_int_equal(n.value, -77);
}

static void test_numbers(void **state)
{
    (void)state;
    number_is(VT_FIELD_INT, "0", 0, "0");
    number_is(VT_FIELD_INT, "-9223372036854775808", INT64_MIN, "-9223372036854775808");
    number_is(VT_FIELD_INT, "9223372036854775807", INT64_MAX, "9223372036854775807");
    number_is(VT_FIELD_UINT, "18446744073709551615", -1, "18446744073709551615");
    number_is(VT_FIELD_FIXED, "0.05", 50000, "0.05");
    number_is(VT_FIELD_FIXED, "180.9", 180900000, "180.9");
    number_is(VT_FIELD_FIXED, "-0.000001", -1, "-0.000001");
    number_is(VT_FIELD_FIXED, "9223372036854.775807", INT64_MAX, "9223372036854.775807");
    number_is(VT_FIELD_FIXED, "1", 1000000, "1");
    number_is(VT_FIELD_PERCENT, "92.08 %", 920800, "92.08 %");
    number_is(VT_FIELD_PERCENT, "100%", 1000000, "100 %");
    number_is(VT_FIELD_PERCENT, "0.5 %", 5000, "0.5 %");
    number_is(VT_FIELD_BYTES, "128 MiB", 134217728, "128 MiB");
    number_is(VT_FIELD_BYTES, "1025 KiB", 1049600, "1025 KiB");
    number_is(VT_FIELD_BYTES, "0", 0, "0 B");
    number_is(VT_FIELD_DURATION, "90 s", INT64_C(90000000000), "90 s");
    number_is(VT_FIELD_DURATION, "2 min", INT64_C(120000000000), "2 min");
    number_is(VT_FIELD_DURATION, "7200 s", INT64_C(7200000000000), "2 h");
    number_is(VT_FIELD_DURATION, "1500 us", 1500000, "1500 us");
}

static void test_numbers_refused(void **state)
{
    static const struct {
        enum vt_field_type type;
        const char *text;
    } wrong[] = {
        {VT_FIELD_INT, ""},
        {VT_FIELD_INT, " 1"},
        {VT_FIELD_INT, "1 "},
        {VT_FIELD_INT, "+1"},
        {VT_FIELD_INT, "0x10"},
        {VT_FIELD_INT, "1_000"},
        {VT_FIELD_INT, "1e3"},
        {VT_FIELD_INT, "1.0"},
        {VT_FIELD_INT, "9223372036854775808"},
        {VT_FIELD_INT, "-9223372036854775809"},
        {VT_FIELD_UINT, "-1"},
        {VT_FIELD_UINT, "18446744073709551616"},
        {VT_FIELD_UINT, ""},
        {VT_FIELD_FIXED, "0.0000001"},
        {VT_FIELD_FIXED, ".5"},
        {VT_FIELD_FIXED, "1."},
        {VT_FIELD_FIXED, "1.2.3"},
        {VT_FIELD_FIXED, "1e-2"},
        {VT_FIELD_FIXED, "0,05"},
        {VT_FIELD_FIXED, "nan"},
        {VT_FIELD_FIXED, "inf"},
        {VT_FIELD_FIXED, "--1"},
        {VT_FIELD_FIXED, "9223372036854.775808"},
        {VT_FIELD_FIXED, "99999999999999999999"},
        {VT_FIELD_PERCENT, "92.08"},
        {VT_FIELD_PERCENT, "92.08  %"},
        {VT_FIELD_PERCENT, "0.9208e2 %"},
        {VT_FIELD_PERCENT, "1.00001 %"},
        {VT_FIELD_PERCENT, "%"},
        {VT_FIELD_BYTES, "1 MB"},
        {VT_FIELD_BYTES, "-1"},
        {VT_FIELD_BYTES, "1.5 GiB"},
        {VT_FIELD_DURATION, "30"},
        {VT_FIELD_DURATION, "30 S"},
        {VT_FIELD_DURATION, "-1 s"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(wrong); i++)
        number_refused(wrong[i].type, wrong[i].text);
}

static void test_show(void **state)
{
    char out[VT_YAML_SHOW_MAX], text[200];

    (void)state;
    assert_string_equal(vt_yaml_show("a\x1b\nb\x7f", out), "\"a??b?\"");
    assert_string_equal(vt_yaml_show("", out), "\"\"");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(strlen(vt_yaml_show(text, out)), VT_YAML_SHOW_MAX - 1);
    assert_string_equal(out + VT_YAML_SHOW_MAX - 6, "x...\"");
    /* Two-byte characters are not cut in half, wherever the cut falls. */
    for (size_t shift = 0; shift < 2; shift++) {
        for (size_t i = 0; i < sizeof(text) - 1; i++)
            text[i] = i < shift ? 'x' : (i - shift) % 2 ? '\xa4' : '\xc3';
        vt_yaml_show(text, out);
        assert_int_equal((unsigned char)out[strlen(out) - 5], 0xa4);
        assert_string_equal(out + strlen(out) - 4, "...\"");
    }
}

/* --- the public cases --- */

struct norway {
    struct name countries[NAMES_MAX], roles[4];
    size_t ncountries, nroles;
    bool pin;
    char profile[16], spec[16], host[16];
};
static const struct vt_field norway_fields[] = {
    {.key = "countries",
     .type = VT_FIELD_LIST,
     IN(norway, countries),
     .max = NAMES_MAX,
     .schema = &name_schema,
     .count_offset = offsetof(struct norway, ncountries)},
    {.key = "roles",
     .type = VT_FIELD_LIST,
     IN(norway, roles),
     .max = 4,
     .schema = &name_schema,
     .count_offset = offsetof(struct norway, nroles)},
    {.key = "pin", .type = VT_FIELD_BOOL, IN(norway, pin)},
    {.key = "profile", .type = VT_FIELD_TEXT, IN(norway, profile), .min = 1},
    {.key = "spec", .type = VT_FIELD_TEXT, IN(norway, spec), .min = 1},
    {.key = "host", .type = VT_FIELD_TEXT, IN(norway, host), .min = 1},
};
static const struct vt_schema norway_schema = {.name = "norway",
                                               .fields = norway_fields,
                                               .nfields = VT_COUNT(norway_fields),
                                               .struct_size = sizeof(struct norway)};

static void test_public_cases(void **state)
{
    struct norway norway = {0};
    struct vt_error err = VT_ERROR_INIT;
    struct vt_yaml yaml;
    char folder[400], path[500];

    (void)state;
    if (!cases_path(folder, sizeof(folder), "own/open/yaml"))
        skip();
    snprintf(path, sizeof(path), "%s/11-norway.yaml", folder);
    assert_int_equal(vt_yaml_read_file(path, &yaml, NULL), 0);
    assert_true(vt_yaml_bind(&yaml, &norway_schema, &norway, &err) < 0);
    vt_yaml_dispose(&yaml);
    assert_int_equal(norway.ncountries, 3);
    assert_string_equal(norway.countries[0].text, "NO");
    assert_int_equal(norway.nroles, 4);
    assert_string_equal(norway.roles[0].text, "on");
    assert_string_equal(norway.roles[1].text, "off");
    assert_string_equal(norway.roles[2].text, "y");
    assert_int_equal(err.line, 3);
    assert_int_equal(err.column, 6);
    assert_string_equal(err.text, "pin: expected true or false, not \"no\"");

    snprintf(path, sizeof(path), "%s/12-null.yaml", folder);
    assert_int_equal(vt_yaml_read_file(path, &yaml, NULL), 0);
    assert_true(vt_yaml_bind(&yaml, &norway_schema, &norway, &err) < 0);
    vt_yaml_dispose(&yaml);
    assert_int_equal(err.line, 1);
    assert_int_equal(err.column, 9);
    assert_non_null(strstr(err.text, "profile: expected text of 1 to 15 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_types),       cmocka_unit_test(test_keys_refused),
        cmocka_unit_test(test_values_refused),  cmocka_unit_test(test_entries_refused),
        cmocka_unit_test(test_without_error),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_refused), cmocka_unit_test(test_show),
        cmocka_unit_test(test_public_cases),
    };

    return cmocka_run_group_tests_name("yaml_bind", tests, NULL, NULL);
}
