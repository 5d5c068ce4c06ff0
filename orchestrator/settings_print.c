/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/settings_table.h"

#define VALUE_MAX (SETTINGS_URIS_MAX * (VT_PATH_MAX + 1))
#define HELP_COLUMN 26
#define HELP_WIDTH 100
#define JSON_MAX (1U << 20)

/* The row's value as text: entries of a LIST with spaces between, a default by its name. */
static void print_value(const struct run_settings *settings, size_t row, char out[VALUE_MAX])
{
    const struct vt_field *field = &settings_fields[row];
    char words[VT_FIELD_WORDS_MAX];
    size_t n = 0, count;

    out[0] = '\0';
    if (field->type == VT_FIELD_TEXT) {
        snprintf(out, VALUE_MAX, "%s", (const char *)settings + field->offset);
    } else if (field->type == VT_FIELD_LIST) {
        const char *entries = (const char *)settings + field->offset;

        memcpy(&count, (const char *)settings + field->count_offset, sizeof(count));
        for (size_t i = 0; i < count; i++)
            n += (size_t)snprintf(out + n, VALUE_MAX - n, "%s%s", i ? " " : "",
                                  entries + i * field->schema->struct_size);
    } else {
        snprintf(out, VALUE_MAX, "%s", vt_field_print(field, settings, words));
    }
    if (!out[0] && settings_rows[row].shown)
        snprintf(out, VALUE_MAX, "(%s)", settings_rows[row].shown);
}

static int print_json(const struct run_settings *settings, const struct settings_use *use,
                      FILE *out, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(JSON_MAX);
    struct vt_json w;
    char value[VALUE_MAX];
    int rc;

    vt_json_message(&w, &text, "config");
    vt_json_array(&w, "settings");
    for (size_t row = 0; row < settings_count; row++) {
        if (!settings_has(use, row))
            continue;
        print_value(settings, row, value);
        vt_json_object(&w, NULL);
        vt_json_string(&w, "name", settings_fields[row].key);
        vt_json_string(&w, "value", value);
        vt_json_string(&w, "from", settings->source[row]);
        vt_json_end(&w);
    }
    vt_json_end(&w);
    vt_json_end(&w);
    rc = vt_buf_check(&text, "print settings", err);
    if (rc == 0)
        fprintf(out, "%s\n", text.data);
    return rc;
}

int settings_print(const struct run_settings *settings, const struct settings_use *use, FILE *out,
                   struct vt_error *err)
{
    char value[VALUE_MAX];

    if (settings->json)
        return print_json(settings, use, out, err);
    for (size_t row = 0; row < settings_count; row++) {
        if (!settings_has(use, row))
            continue;
        print_value(settings, row, value);
        fprintf(out, "%-13s %-26s %s\n", settings_fields[row].key, value, settings->source[row]);
    }
    if (ferror(out))
        return vt_error_set(err, VT_KIND_INFRA, -EIO, "print settings: cannot write");
    return 0;
}

void settings_walk(const struct run_settings *settings, const struct settings_use *use,
                   void (*row)(void *ctx, const char *name, const char *value, const char *source),
                   void *ctx)
{
    char value[VALUE_MAX];

    for (size_t i = 0; i < settings_count; i++) {
        if (!settings_has(use, i))
            continue;
        print_value(settings, i, value);
        row(ctx, settings_fields[i].key, value, settings->source[i]);
    }
}

/* --- help --- */

/* fallback: the default, on a line of its own where the first has no room; NULL: none. */
static void help_line(FILE *out, const char *name, const char *arg, const char *help,
                      const char *range, const char *fallback)
{
    char head[64];
    int n = snprintf(head, sizeof(head), "  --%s%s%s", name, arg ? " " : "", arg ? arg : "");
    size_t width = HELP_COLUMN + strlen(help) + strlen(range);

    if (n >= HELP_COLUMN)
        fprintf(out, "%s\n%*s%s%s", head, HELP_COLUMN, "", help, range);
    else
        fprintf(out, "%-*s%s%s", HELP_COLUMN, head, help, range);
    if (fallback && width + strlen(fallback) + strlen(" ()") > HELP_WIDTH)
        fprintf(out, "\n%*s(%s)\n", HELP_COLUMN, "", fallback);
    else if (fallback)
        fprintf(out, " (%s)\n", fallback);
    else
        fputs("\n", out);
}

static bool is_number(enum vt_field_type type)
{
    return type == VT_FIELD_INT || type == VT_FIELD_FIXED;
}

/* What a plain run is made of: the values of its spec, over the table's defaults. */
struct plain_run {
    struct spec spec;
    struct run_settings settings;
};

/* plain: NULL where the command makes no run. */
static void help_row(FILE *out, size_t row, struct plain_run *plain)
{
    const struct vt_field *field = &settings_fields[row];
    const struct setting_row *r = &settings_rows[row];
    const char *fallback = r->shown ? r->shown : r->fallback;
    char words[VT_FIELD_WORDS_MAX] = "", range[VT_FIELD_WORDS_MAX + 4] = "";
    char value[VT_FIELD_WORDS_MAX], said[2 * VT_FIELD_WORDS_MAX];
    struct spec_place at;

    if (plain && settings_take_spec(&plain->settings, row, &plain->spec, &at)) {
        snprintf(said, sizeof(said), "the spec's; %s: %s", plain->spec.name,
                 vt_field_print(field, &plain->settings, value));
        fallback = said;
    }
    if (is_number(field->type)) {
        const char *from = strstr(vt_field_expect(field, words), "from ");

        snprintf(range, sizeof(range), "; %s", from ? from : words);
    }
    help_line(out, field->key, r->arg, field->help, range, fallback);
}

static void help_specs(FILE *out, struct plain_run *room)
{
    fputs("\nBuilt-in specs:\n", out);
    for (const char *const *name = spec_builtin_names(); *name; name++) {
        if (spec_load(*name, &room->spec, NULL) == 0)
            fprintf(out, "  %-9s %s\n", *name, room->spec.description);
    }
}

void settings_help(const struct settings_use *use, FILE *out)
{
    VT_AUTO_FREE struct plain_run *plain = use->run ? calloc(1, sizeof(*plain)) : NULL;

    if (plain && spec_load(settings_rows[0].fallback, &plain->spec, NULL) < 0)
        *plain = (struct plain_run){.spec.run.preset = -1};
    fprintf(out, "Usage: %s\n\nOptions:\n", use->usage);
    for (size_t i = 0; i < use->noptions; i++)
        help_line(out, use->options[i].name, use->options[i].arg, use->options[i].help, "", NULL);
    for (size_t row = 0; row < settings_count; row++) {
        if (settings_has(use, row))
            help_row(out, row, plain);
    }
    help_line(out, "help", NULL, "print this", "", NULL);
    fputs("\nAn option counts before the variable VTILE_<OPTION>, that before the key of the same\n"
          "name in vtile.yaml",
          out);
    fputs(use->run ? ", that before what the spec says; the default stands in brackets.\n"
                   : "; the default stands in brackets.\n",
          out);
    if (plain)
        help_specs(out, plain);
}
