/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: option > variable > file > spec > default, each with its source; refusals. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/scope.h"
#include "orchestrator/settings.h"
#include "orchestrator/settings_table.h"

static int take_app(void *ctx, const char *value, struct vt_error *err)
{
    if (strcmp(value, "bad") == 0)
        return vt_error_set(err, VT_KIND_CONFIG, -22, "expected a number, not bad");
    *(const char **)ctx = value;
    return 0;
}

static const char *app_value;
static const struct settings_option own_options[] = {
    {.name = "app", .arg = "RATE", .help = "rate of app", .take = take_app}};
static const struct settings_use run_use = {.usage = "vtile run [OPTION]...", .run = true};
static const struct settings_use other_use = {.usage = "vtile results [OPTION]... ARCHIVE",
                                              .options = own_options,
                                              .noptions = VT_COUNT(own_options),
                                              .ctx = &app_value,
                                              .operands = true};

#define ARGS_MAX 16

struct line {
    char *argv[ARGS_MAX + 1];
    int argc;
    char text[1024];
};

/* "run" and the words of args, separated by single spaces. */
static void make_line(struct line *line, const char *args)
{
    char *rest, *word;

    snprintf(line->text, sizeof(line->text), "run %s", args);
    line->argc = 0;
    for (word = strtok_r(line->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(line->argc < ARGS_MAX);
        line->argv[line->argc++] = word;
    }
    line->argv[line->argc] = NULL;
}

static int load(const char *args, struct run_settings *s, struct vt_error *err)
{
    struct line line;

    make_line(&line, args);
    return settings_load(line.argc, line.argv, &run_use, s, NULL, NULL, err);
}

static void loads(const char *args, struct run_settings *s)
{
    struct vt_error err = VT_ERROR_INIT;
    char text[2048];

    if (load(args, s, &err) < 0)
        fail_msg("%s: %s", args, vt_error_print(&err, text, sizeof(text)));
}

static void refused(const char *args, const char *expected)
{
    struct vt_error err = VT_ERROR_INIT;
    struct run_settings s;
    char text[2048];

    if (load(args, &s, &err) == 0)
        fail_msg("taken: %s", args);
    assert_string_equal(vt_error_print(&err, text, sizeof(text)), expected);
    assert_int_equal(vt_error_exit_code(&err), 2);
}

static const char *source(const struct run_settings *s, const char *name)
{
    for (size_t row = 0; row < settings_count; row++) {
        if (strcmp(settings_fields[row].key, name) == 0)
            return s->source[row];
    }
    fail_msg("no setting %s", name);
    return NULL;
}

static void write_file(const char *path, const char *text)
{
    VT_AUTO_FCLOSE FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
}

/* --- each test begins in an empty folder and without variables of ours --- */

static char folder[64];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/vtile-settings-XXXXXX");
    for (size_t row = 0; row < settings_count; row++) {
        char name[SETTINGS_VARIABLE_MAX];

        unsetenv(settings_variable(settings_fields[row].key, name));
    }
    unsetenv("SUDO_UID");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink("vtile.yaml");
    unlink("other.yaml");
    unlink("spec.yaml");
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

static void test_defaults(void **state)
{
    struct run_settings s, again;

    (void)state;
    loads("--spec origin", &s);
    assert_int_equal(s.tiles, 1);
    assert_string_equal(source(&s, "tiles"), "default");
    assert_int_equal(s.load, 1000000);
    assert_string_equal(source(&s, "load"), "default");
    assert_int_equal(s.nhosts, 1);
    assert_string_equal(s.hosts[0].uri, "auto");
    assert_int_equal(s.nclients, 0);
    assert_string_equal(s.profile, "none");
    assert_string_equal(s.state, "");
    assert_false(s.json || s.print_config || s.help);
    assert_string_equal(source(&s, "seed"), "default: drawn");
    loads("--spec origin", &again);
    assert_true(s.seed != again.seed);
    loads("", &s);
    assert_string_equal(s.spec, "specvirt");
}

/* The sources in turn, from the lowest. */
static void test_precedence(void **state)
{
    struct run_settings s;

    (void)state;
    loads("", &s);
    assert_int_equal(s.load, 50000);
    assert_string_equal(source(&s, "load"), "spec specvirt:13:9");
    assert_string_equal(spec_preset_names[s.preset], "smoke");
    assert_string_equal(source(&s, "preset"), "spec specvirt:14:11");
    write_file("vtile.yaml", "# ours\ntiles: 2\nload: 0.25\nhost: [\"test:///default\", embed]\n");
    loads("", &s);
    assert_int_equal(s.load, 250000);
    assert_string_equal(source(&s, "load"), "vtile.yaml:3:7");
    assert_string_equal(source(&s, "host"), "vtile.yaml:4:7");
    assert_int_equal(s.tiles, 2);
    assert_int_equal(s.nhosts, 2);
    assert_string_equal(s.hosts[1].uri, "embed");
    assert_string_equal(s.config, "vtile.yaml");
    setenv("VTILE_LOAD", "0.5", 1);
    setenv("VTILE_HOST", "qemu:///system xen:///  test:///default", 1);
    setenv("VTILE_TILES", "", 1);
    loads("", &s);
    assert_int_equal(s.load, 500000);
    assert_string_equal(source(&s, "load"), "VTILE_LOAD");
    assert_int_equal(s.nhosts, 3);
    assert_string_equal(s.hosts[0].uri, "qemu:///system");
    assert_string_equal(s.hosts[2].uri, "test:///default");
    assert_int_equal(s.tiles, 2);
    loads("--load=0.75 --host embed --tiles 3", &s);
    assert_int_equal(s.load, 750000);
    assert_string_equal(source(&s, "load"), "--load");
    assert_int_equal(s.nhosts, 1);
    assert_string_equal(s.hosts[0].uri, "embed");
    assert_int_equal(s.tiles, 3);
}

static void test_config_file(void **state)
{
    struct run_settings s;

    (void)state;
    write_file("vtile.yaml", "tiles: 2\n");
    write_file("other.yaml", "tiles: 5\nspec: origin\nseed: 18446744073709551615\n");
    loads("--config other.yaml", &s);
    assert_int_equal(s.tiles, 5);
    assert_string_equal(source(&s, "tiles"), "other.yaml:1:8");
    assert_string_equal(s.spec, "origin");
    assert_true(s.seed == UINT64_MAX);
    setenv("VTILE_CONFIG", "other.yaml", 1);
    loads("", &s);
    assert_int_equal(s.tiles, 5);
    loads("--config vtile.yaml", &s);
    assert_int_equal(s.tiles, 2);
    refused("--config absent.yaml", "open absent.yaml: No such file or directory");
}

static void test_file_refused(void **state)
{
    (void)state;
    write_file("vtile.yaml", "tiles: 0\n");
    refused("", "vtile.yaml:1:8: tiles: expected a whole number from 1 to 256, not \"0\"");
    refused("--tiles 1", "vtile.yaml:1:8: tiles: expected a whole number from 1 to 256, not \"0\"");
    write_file("vtile.yaml", "tiels: 1\n");
    refused("", "vtile.yaml:1:1: unknown key \"tiels\": did you mean \"tiles\"?");
    write_file("vtile.yaml", "print-config: true\n");
    refused("", "vtile.yaml:1:1: unknown key \"print-config\": known here are spec, tiles, load, "
                "preset, seed, host, client, recipient, profile, boot-timeout, state, "
                "runtime, cache");
    write_file("vtile.yaml", "host: [here]\n");
    refused("", "vtile.yaml:1:7: expected auto, embed or a URI such as qemu:///system, not "
                "\"here\"");
}

static void test_owner(void **state)
{
    struct run_settings s;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can give a file away\n");
        skip();
    }
    write_file("vtile.yaml", "tiles: 2\n");
    assert_int_equal(chown("vtile.yaml", 4321, 4321), 0);
    refused("", "vtile.yaml in this folder belongs to user 4321: name it by --config vtile.yaml to "
                "use it");
    loads("--config vtile.yaml", &s);
    assert_int_equal(s.tiles, 2);
    setenv("SUDO_UID", "4321", 1);
    loads("", &s);
    assert_int_equal(s.tiles, 2);
}

static void test_values_refused(void **state)
{
    (void)state;
    refused("--tiles 0", "--tiles: expected a whole number from 1 to 256, not \"0\"");
    refused("--tiles 257", "--tiles: expected a whole number from 1 to 256, not \"257\"");
    refused("--tiles 9999999999",
            "--tiles: expected a whole number from 1 to 256, not \"9999999999\"");
    refused("--tiles 99999999999999999999",
            "--tiles: expected a whole number from 1 to 256, not \"99999999999999999999\"");
    refused("--tiles 1x", "--tiles: expected a whole number from 1 to 256, not \"1x\"");
    refused("--tiles=", "--tiles: expected a whole number from 1 to 256, not \"\"");
    refused("--load 1.5", "--load: expected a number with at most six decimals from 0.000001 to 1, "
                          "not \"1.5\"");
    refused("--load -1", "--load: expected a number with at most six decimals from 0.000001 to 1, "
                         "not \"-1\"");
    refused("--load 0", "--load: expected a number with at most six decimals from 0.000001 to 1, "
                        "not \"0\"");
    refused("--load 0.0000001", "--load: expected a number with at most six decimals from 0.000001 "
                                "to 1, not \"0.0000001\"");
    refused("--seed -1", "--seed: expected a whole number from 0 to 18446744073709551615, not "
                         "\"-1\"");
    refused("--seed 18446744073709551616", "--seed: expected a whole number from 0 to "
                                           "18446744073709551615, not \"18446744073709551616\"");
    refused("--preset fast", "--preset: expected one of smoke, turbo, standard, not \"fast\"");
    refused("--host here", "--host: expected auto, embed or a URI such as qemu:///system, not "
                           "\"here\"");
    refused("--host embed --host embed", "--host: expected each URI once, not \"embed\"");
    refused("--client auto", "--client: expected a URI such as ssh://machine, not \"auto\"");
    refused("--state here", "--state: expected a path from /, not \"here\"");
    refused("--spec wbe", "spec \"wbe\": no such file or built-in spec: did you mean \"web\"?");
    setenv("VTILE_LOAD", "2", 1);
    refused("", "VTILE_LOAD: expected a number with at most six decimals from 0.000001 to 1, not "
                "\"2\"");
    refused("--load 1", "VTILE_LOAD: expected a number with at most six decimals from 0.000001 to "
                        "1, not \"2\"");
}

static void test_options_refused(void **state)
{
    (void)state;
    refused("--tile 1", "unknown option --tile: did you mean --tiles?");
    refused("--hepl", "unknown option --hepl: did you mean --help?");
    refused("--zzzzzzzz 1", "unknown option --zzzzzzzz; --help lists the options");
    refused("-t 1", "unknown option \"-t\"; --help lists the options");
    refused("--tiles", "--tiles needs a value: N");
    refused("--tiles --json", "--tiles needs a value: N");
    refused("--json=true", "--json takes no value");
    refused("--tiles 1 --tiles 2", "--tiles stands there twice");
    refused("here", "unexpected argument \"here\"");
    refused("-- --json", "unexpected argument \"--json\"");
    refused("--app 1", "unknown option --app; --help lists the options");
}

static void test_other_command(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct run_settings s;
    struct line line;
    int operand;

    (void)state;
    make_line(&line, "show --app 167.05 a --json -- --b");
    assert_int_equal(settings_load(line.argc, line.argv, &other_use, &s, NULL, &operand, &err), 0);
    assert_string_equal(app_value, "167.05");
    assert_true(s.json);
    assert_int_equal(line.argc - operand, 3);
    assert_string_equal(line.argv[operand], "show");
    assert_string_equal(line.argv[operand + 1], "a");
    assert_string_equal(line.argv[operand + 2], "--b");
    make_line(&line, "--app bad");
    assert_true(settings_load(line.argc, line.argv, &other_use, &s, NULL, &operand, &err) < 0);
    assert_string_equal(err.text, "--app: expected a number, not bad");
    make_line(&line, "--tiles 1");
    assert_true(settings_load(line.argc, line.argv, &other_use, &s, NULL, &operand, &err) < 0);
    assert_string_equal(err.text, "unknown option --tiles; --help lists the options");
    make_line(&line, "");
    assert_int_equal(settings_load(line.argc, line.argv, &other_use, &s, NULL, &operand, &err), 0);
    assert_int_equal(operand, line.argc);
}

static void test_folders(void **state)
{
    struct run_settings s;

    (void)state;
    write_file("vtile.yaml", "state: /tmp/a\n");
    setenv("VTILE_CACHE", "/tmp/b", 1);
    loads("--runtime /tmp/c", &s);
    assert_string_equal(s.state, "/tmp/a");
    assert_string_equal(s.cache, "/tmp/b");
    assert_int_equal(settings_export(&s, NULL), 0);
    assert_string_equal(getenv("VTILE_STATE"), "/tmp/a");
    assert_string_equal(getenv("VTILE_CACHE"), "/tmp/b");
    assert_string_equal(getenv("VTILE_RUNTIME"), "/tmp/c");
}

static void test_help_comes_first(void **state)
{
    struct run_settings s;

    (void)state;
    write_file("vtile.yaml", "tiles: 0\n");
    loads("--help", &s);
    assert_true(s.help);
    loads("--tiles 0 -h", &s);
    assert_true(s.help);
}

/* --- what is printed --- */

static char *printed(const struct run_settings *s, const struct settings_use *use)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    if (s)
        assert_int_equal(settings_print(s, use, out, NULL), 0);
    else
        settings_help(use, out);
    fclose(out);
    return text;
}

/* Every setting is shown, and what is shown can be given again as an option. */
static void test_print_config(void **state)
{
    VT_AUTO_FREE char *text = NULL;
    struct run_settings s;

    (void)state;
    write_file("vtile.yaml", "tiles: 2\nhost: [\"qemu:///system\", \"xen:///\"]\n");
    setenv("VTILE_SEED", "18446744073709551615", 1);
    loads("--load 0.05 --print-config", &s);
    assert_true(s.print_config);
    text = printed(&s, &run_use);
    assert_non_null(strstr(text, "spec          specvirt                   default\n"));
    assert_non_null(strstr(text, "tiles         2                          vtile.yaml:1:8\n"));
    assert_non_null(strstr(text, "load          0.05                       --load\n"));
    assert_non_null(strstr(text, "preset        smoke                      spec specvirt:14:11\n"));
    assert_non_null(strstr(text, "seed          18446744073709551615       VTILE_SEED\n"));
    assert_non_null(strstr(text, "host          qemu:///system xen:///     vtile.yaml:2:7\n"));
    assert_non_null(strstr(text, "client        (this machine)             default\n"));
    for (size_t row = 0; row < settings_count; row++)
        assert_non_null(strstr(text, settings_fields[row].key));
}

static void test_print_json(void **state)
{
    VT_AUTO_FREE char *text = NULL;
    struct run_settings s;
    json_t *root, *item;
    size_t i;

    (void)state;
    loads("--json --print-config --load 0.5", &s);
    text = printed(&s, &run_use);
    root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "v")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "settings")), settings_count);
    json_array_foreach(json_object_get(root, "settings"), i, item) {
        if (strcmp(json_string_value(json_object_get(item, "name")), "load") != 0)
            continue;
        assert_string_equal(json_string_value(json_object_get(item, "value")), "0.5");
        assert_string_equal(json_string_value(json_object_get(item, "from")), "--load");
    }
    json_decref(root);
}

static void test_help(void **state)
{
    VT_AUTO_FREE char *run = printed(NULL, &run_use), *other = printed(NULL, &other_use);

    (void)state;
    assert_non_null(strstr(run, "Usage: vtile run [OPTION]...\n"));
    assert_non_null(strstr(run, "\n  --load SHARE            share of a tile's full load to offer; "
                                "from 0.000001 to 1\n"
                                "                          (the spec's; specvirt: 0.05)\n"));
    assert_non_null(
        strstr(run, " standard 2 h\n                          (the spec's; specvirt: smoke)\n"));
    assert_non_null(strstr(run, "; from 1 to 256 (1)\n")); /* the spec says nothing of it */
    for (const char *const *name = spec_builtin_names(); *name; name++) {
        char line[64];

        snprintf(line, sizeof(line), "\n  %s ", *name);
        assert_non_null(strstr(run, line));
        assert_null(strstr(other, line));
    }
    assert_non_null(strstr(other, "\n  --app RATE              rate of app\n"));
    assert_null(strstr(other, "--tiles"));
    for (size_t row = 0; row < settings_count; row++) {
        char option[64];

        snprintf(option, sizeof(option), "\n  --%s ", settings_fields[row].key);
        assert_non_null(strstr(run, option));
    }
    for (const char *line = run, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        if (end - line > 100)
            fail_msg("too long: %.*s", (int)(end - line), line);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_defaults),
        CASE(test_precedence),
        CASE(test_config_file),
        CASE(test_file_refused),
        CASE(test_owner),
        CASE(test_values_refused),
        CASE(test_options_refused),
        CASE(test_other_command),
        CASE(test_folders),
        CASE(test_help_comes_first),
        CASE(test_print_config),
        CASE(test_print_json),
        CASE(test_help),
    };

    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
