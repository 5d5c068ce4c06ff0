/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/settings_table.h"

#define CONFIG_FILE "vtile.yaml"
#define ARGUMENTS_MAX 4096

struct loader {
    const struct settings_use *use;
    struct run_settings settings;
    /* Values of the command line by row, in order; of LIST rows several. */
    const char *given[SETTINGS_MAX][SETTINGS_URIS_MAX];
    size_t ngiven[SETTINGS_MAX];
};

static void set_source(struct run_settings *settings, size_t row, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void set_source(struct run_settings *settings, size_t row, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(settings->source[row], SETTINGS_SOURCE_MAX, fmt, ap);
    va_end(ap);
}

static size_t row_of(const char *name)
{
    size_t row = 0;

    while (row < settings_count && strcmp(settings_fields[row].key, name) != 0)
        row++;
    return row;
}

/* --- one value from text; a LIST's begins anew with the first --- */

static int set_entry(struct run_settings *settings, const struct vt_field *field, size_t i,
                     const char *text, struct vt_error *err)
{
    char *array = (char *)settings + field->offset;

    if (i >= (size_t)field->max)
        return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "expected at most %lld",
                            (long long)field->max);
    *(size_t *)(void *)((char *)settings + field->count_offset) = i + 1;
    return vt_field_parse(&field->schema->fields[0], text, true,
                          array + i * field->schema->struct_size, err);
}

static int set_value(struct run_settings *settings, size_t row, size_t i, const char *text,
                     struct vt_error *err)
{
    const struct vt_field *field = &settings_fields[row];

    if (field->type == VT_FIELD_LIST)
        return set_entry(settings, field, i, text, err);
    return vt_field_parse(field, text, true, settings, err);
}

/* --- the command line --- */

struct option_name {
    char text[64];
};

/* The i-th option there is: rows of the table, then the command's own, then help. */
static const char *option_name(const struct settings_use *use, size_t i)
{
    if (i < settings_count)
        return settings_has(use, i) ? settings_fields[i].key : "";
    i -= settings_count;
    return i < use->noptions ? use->options[i].name : "help";
}

static const char *option_name_at(const void *ctx, size_t i)
{
    return option_name(ctx, i);
}

static int refuse_option(const struct settings_use *use, const char *name, struct vt_error *err)
{
    size_t n = settings_count + use->noptions + 1;
    char shown[VT_YAML_SHOW_MAX];
    int nearest = vt_yaml_nearest(name, option_name_at, use, n);

    vt_yaml_show(name, shown);
    if (nearest >= 0)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "unknown option --%.*s: did you mean --%s?", (int)strlen(shown) - 2,
                            shown + 1, option_name(use, (size_t)nearest));
    return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                        "unknown option --%.*s; --help lists the options", (int)strlen(shown) - 2,
                        shown + 1);
}

static int take_setting(struct loader *l, size_t row, const char *value, struct vt_error *err)
{
    const struct vt_field *field = &settings_fields[row];
    size_t most = field->type == VT_FIELD_LIST ? (size_t)field->max : 1;

    if (l->ngiven[row] >= most)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            most == 1 ? "--%s stands there twice"
                                      : "--%s stands there more than %zu times",
                            field->key, most);
    l->given[row][l->ngiven[row]++] = value ? value : "true";
    return 0;
}

static int take_own(const struct settings_use *use, const struct settings_option *option,
                    const char *value, struct vt_error *err)
{
    int rc = option->take(use->ctx, value, err);

    if (rc < 0) {
        vt_error_wrap(err, "--%s", option->name);
        if (err)
            err->kind = VT_KIND_USAGE;
    }
    return rc;
}

/* One option at argv[*i]; a value of its own may follow as the next argument. */
static int take_option(struct loader *l, int argc, char **argv, int *i, struct vt_error *err)
{
    const struct settings_use *use = l->use;
    const char *text = argv[*i] + 2, *equals = strchr(text, '='), *value = NULL, *arg;
    size_t n = settings_count + use->noptions, k = 0;
    struct option_name name;
    size_t len = equals ? (size_t)(equals - text) : strlen(text);

    if (len == 0 || len >= sizeof(name.text))
        return refuse_option(use, text, err);
    memcpy(name.text, text, len);
    name.text[len] = '\0';
    while (k < n && strcmp(option_name(use, k), name.text) != 0)
        k++;
    if (k == n)
        return refuse_option(use, name.text, err);
    arg = k < settings_count ? settings_rows[k].arg : use->options[k - settings_count].arg;
    if (!arg && equals)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "--%s takes no value", name.text);
    if (arg) {
        if (equals)
            value = equals + 1;
        else if (*i + 1 < argc && strncmp(argv[*i + 1], "--", 2) != 0)
            value = argv[++*i];
        if (!value)
            return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "--%s needs a value: %s", name.text,
                                arg);
    }
    if (k < settings_count)
        return take_setting(l, k, value, err);
    return take_own(use, &use->options[k - settings_count], value, err);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

static int take_arguments(struct loader *l, int argc, char **argv, int *ret_operand,
                          struct vt_error *err)
{
    VT_AUTO_FREE char **operands = calloc((size_t)argc + 1, sizeof(char *));
    int noperands = 0, noptions = 1;
    bool options = true;

    if (!operands)
        return vt_error_no_memory(err, "read the command line");
    for (int i = 1; i < argc; i++) {
        int first = i, rc;

        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1] == '-') {
            rc = take_option(l, argc, argv, &i, err);
            if (rc < 0)
                return rc;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            char shown[VT_YAML_SHOW_MAX];

            return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                                "unknown option %s; --help lists the options",
                                vt_yaml_show(argv[i], shown));
        } else {
            operands[noperands++] = argv[i];
            continue;
        }
        while (first <= i)
            argv[noptions++] = argv[first++];
    }
    if (noperands > 0 && !l->use->operands) {
        char shown[VT_YAML_SHOW_MAX];

        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "unexpected argument %s",
                            vt_yaml_show(operands[0], shown));
    }
    for (int i = 0; i < noperands; i++)
        argv[noptions + i] = operands[i];
    *ret_operand = noptions;
    return 0;
}

static int apply_options(struct loader *l, struct vt_error *err)
{
    for (size_t row = 0; row < settings_count; row++) {
        const char *key = settings_fields[row].key;

        for (size_t i = 0; i < l->ngiven[row]; i++) {
            if (set_value(&l->settings, row, i, l->given[row][i], err) < 0) {
                vt_error_wrap(err, "--%s", key);
                if (err)
                    err->kind = VT_KIND_USAGE;
                return -EINVAL;
            }
            set_source(&l->settings, row, "--%s", key);
        }
    }
    return 0;
}

/* --- variables --- */

static const char *variable_of(const struct loader *l, size_t row, char name[SETTINGS_VARIABLE_MAX])
{
    const char *value;

    settings_variable(settings_fields[row].key, name);
    if (!settings_rows[row].variable || !settings_has(l->use, row))
        return NULL;
    value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* Of a LIST, a variable holds the entries separated by spaces. */
static int apply_variable(struct loader *l, size_t row, const char *value, struct vt_error *err)
{
    VT_AUTO_FREE char *copy = NULL;
    char *rest, *word;
    size_t i = 0;
    int rc = 0;

    if (settings_fields[row].type != VT_FIELD_LIST)
        return set_value(&l->settings, row, 0, value, err);
    copy = strdup(value);
    if (!copy)
        return vt_error_no_memory(err, "list of URIs");
    for (word = strtok_r(copy, " ", &rest); rc == 0 && word; word = strtok_r(NULL, " ", &rest))
        rc = set_value(&l->settings, row, i++, word, err);
    if (rc == 0 && i == 0)
        rc = vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "expected a URI");
    return rc;
}

static int apply_variables(struct loader *l, struct vt_error *err)
{
    for (size_t row = 0; row < settings_count; row++) {
        char name[SETTINGS_VARIABLE_MAX];
        const char *value = variable_of(l, row, name);
        int rc;

        if (!value)
            continue;
        rc = apply_variable(l, row, value, err);
        if (rc < 0) {
            vt_error_wrap(err, "%s", name);
            return rc;
        }
        set_source(&l->settings, row, "%s", name);
    }
    return 0;
}

/* --- the file --- */

/* Which file to read, "" for none: by option, by variable, or the one that lies here. */
static int choose_file(struct loader *l, struct vt_error *err)
{
    size_t row = row_of("config");
    char name[SETTINGS_VARIABLE_MAX], *config = l->settings.config;
    const char *value = l->ngiven[row] ? l->given[row][0] : variable_of(l, row, name);
    struct stat st;

    if (value) {
        int rc = set_value(&l->settings, row, 0, value, err);

        return rc < 0 ? vt_error_wrap(err, "%s", l->ngiven[row] ? "--config" : name) : 0;
    }
    if (stat(CONFIG_FILE, &st) < 0) {
        if (errno != ENOENT)
            return vt_error_errno(err, VT_KIND_CONFIG, errno, "read " CONFIG_FILE);
        return 0;
    }
    /* Whoever can write to the current folder shall not decide for root what is run where. */
    const char *sudo = getenv("SUDO_UID");
    char owner[24];
    snprintf(owner, sizeof(owner), "%u", (unsigned)st.st_uid);
    if (st.st_uid != 0 && st.st_uid != geteuid() && !(sudo && strcmp(sudo, owner) == 0))
        return vt_error_set(err, VT_KIND_CONFIG, -EPERM,
                            CONFIG_FILE " in this folder belongs to user %s: name it by "
                                        "--config " CONFIG_FILE " to use it",
                            owner);
    vt_text_copy(config, sizeof(l->settings.config), CONFIG_FILE);
    return 0;
}

static int apply_file(struct loader *l, struct vt_error *err)
{
    struct vt_yaml yaml;
    int rc = choose_file(l, err);

    if (rc < 0 || !l->settings.config[0])
        return rc;
    rc = vt_yaml_read_file(l->settings.config, &yaml, err);
    if (rc < 0)
        return rc;
    rc = vt_yaml_bind(&yaml, &settings_schema, &l->settings, err);
    for (size_t row = 0; rc == 0 && row < SETTINGS_FILE_COUNT; row++) {
        const struct vt_yaml_node *node = vt_yaml_find(yaml.root, settings_fields[row].key);

        if (node)
            set_source(&l->settings, row, "%.250s:%d:%d", l->settings.config, node->line,
                       node->column);
    }
    vt_yaml_dispose(&yaml);
    return rc;
}

/* --- defaults and the spec --- */

static int apply_defaults(struct loader *l, struct vt_error *err)
{
    for (size_t row = 0; row < settings_count; row++) {
        const char *fallback = settings_rows[row].fallback;

        set_source(&l->settings, row, "default");
        if (fallback && set_value(&l->settings, row, 0, fallback, err) < 0)
            return vt_error_wrap(err, "default of %s", settings_fields[row].key);
    }
    return 0;
}

static bool is_default(const struct run_settings *settings, size_t row)
{
    return strcmp(settings->source[row], "default") == 0;
}

static int apply_spec(struct loader *l, struct spec *ret, struct vt_error *err)
{
    int rc = spec_load(l->settings.spec, ret, err);

    for (size_t row = 0; rc == 0 && row < settings_count; row++) {
        struct spec_place at;

        if (is_default(&l->settings, row) && settings_take_spec(&l->settings, row, ret, &at))
            set_source(&l->settings, row, "spec %s:%d:%d", ret->name, at.line, at.column);
    }
    return rc;
}

static int draw_seed(struct run_settings *settings, struct vt_error *err)
{
    size_t row = row_of("seed");

    if (!is_default(settings, row))
        return 0;
    if (getrandom(&settings->seed, sizeof(settings->seed), 0) != sizeof(settings->seed))
        return vt_error_errno(err, VT_KIND_INFRA, errno, "draw a seed");
    set_source(settings, row, "default: drawn");
    return 0;
}

/* --- checks of values, whatever their source --- */

static int refuse(const struct run_settings *settings, size_t row, const char *value,
                  const char *expected, struct vt_error *err)
{
    char shown[VT_YAML_SHOW_MAX];

    return vt_error_set(err, VT_KIND_CONFIG, -EINVAL, "%s: expected %s, not %s",
                        settings->source[row], expected, vt_yaml_show(value, shown));
}

/* <scheme>://..., RFC 3986's scheme in lower case. */
static bool is_uri(const char *text)
{
    size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+.-");

    return text[0] >= 'a' && text[0] <= 'z' && strncmp(text + scheme, "://", 3) == 0;
}

static int check_uris(const struct run_settings *settings, size_t row,
                      const struct settings_uri *uris, size_t n, bool words, struct vt_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *uri = uris[i].uri;
        bool word = words && (strcmp(uri, "auto") == 0 || strcmp(uri, "embed") == 0);

        if (!word && !is_uri(uri))
            return refuse(settings, row, uri,
                          words ? "auto, embed or a URI such as qemu:///system"
                                : "a URI such as ssh://machine",
                          err);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(uris[k].uri, uri) == 0)
                return refuse(settings, row, uri, "each URI once", err);
        }
    }
    return 0;
}

static int check_values(const struct run_settings *s, struct vt_error *err)
{
    const char *folders[] = {s->state, s->runtime, s->cache};
    static const char *const names[] = {"state", "runtime", "cache"};
    int rc = check_uris(s, row_of("host"), s->hosts, s->nhosts, true, err);

    if (rc == 0)
        rc = check_uris(s, row_of("client"), s->clients, s->nclients, false, err);
    for (size_t i = 0; rc == 0 && i < VT_COUNT(folders); i++) {
        if (folders[i][0] && folders[i][0] != '/')
            rc = refuse(s, row_of(names[i]), folders[i], "a path from /", err);
    }
    return rc;
}

static int load(struct loader *l, int argc, char **argv, struct spec *spec, int *ret_operand,
                struct vt_error *err)
{
    int rc = take_arguments(l, argc, argv, ret_operand, err);

    if (rc == 0)
        rc = apply_defaults(l, err);
    if (rc == 0)
        rc = apply_file(l, err);
    if (rc == 0)
        rc = apply_variables(l, err);
    if (rc == 0)
        rc = apply_options(l, err);
    if (rc == 0)
        rc = check_values(&l->settings, err);
    if (rc == 0 && l->use->run)
        rc = apply_spec(l, spec, err);
    if (rc == 0 && l->use->run)
        rc = draw_seed(&l->settings, err);
    return rc;
}

int settings_load(int argc, char **argv, const struct settings_use *use, struct run_settings *ret,
                  struct spec *ret_spec, int *ret_operand, struct vt_error *err)
{
    VT_AUTO_FREE struct loader *l = calloc(1, sizeof(*l));
    VT_AUTO_FREE struct spec *spec = calloc(1, sizeof(*spec));
    int operand = argc, rc;

    if (!l || !spec)
        return vt_error_no_memory(err, "read the settings");
    if (asks_for_help(argc, argv)) {
        memset(ret, 0, sizeof(*ret));
        ret->help = true;
        return 0;
    }
    l->use = use;
    rc = load(l, argc, argv, spec, &operand, err);
    if (rc < 0)
        return rc;
    *ret = l->settings;
    if (ret_spec && use->run)
        *ret_spec = *spec;
    if (ret_operand)
        *ret_operand = operand;
    return 0;
}

int settings_export(const struct run_settings *settings, struct vt_error *err)
{
    const char *const folders[] = {settings->state, settings->runtime, settings->cache};
    static const char *const names[] = {"VTILE_STATE", "VTILE_RUNTIME", "VTILE_CACHE"};

    for (size_t i = 0; i < VT_COUNT(folders); i++) {
        if (folders[i][0] && setenv(names[i], folders[i], 1) < 0)
            return vt_error_errno(err, VT_KIND_INFRA, errno, "set %s", names[i]);
    }
    return 0;
}

int settings_begin(int argc, char **argv, const struct settings_use *use, struct run_settings *ret,
                   int *ret_operand, struct vt_error *err)
{
    int rc = settings_load(argc, argv, use, ret, NULL, ret_operand, err);

    if (rc < 0)
        return rc;
    if (ret->help) {
        settings_help(use, stdout);
        return 1;
    }
    return settings_export(ret, err);
}
