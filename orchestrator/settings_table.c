/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/settings_table.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"

#define AT(member)                                   \
    .offset = offsetof(struct run_settings, member), \
    .size = sizeof(((struct run_settings *)0)->member)

static const struct vt_field uri_fields[] = {
    {.key = "",
     .type = VT_FIELD_TEXT,
     .size = sizeof(struct settings_uri),
     .min = 1,
     .help = "a libvirt URI"},
};
static const struct vt_schema uri_schema = {.name = "URI",
                                            .fields = uri_fields,
                                            .nfields = VT_COUNT(uri_fields),
                                            .struct_size = sizeof(struct settings_uri)};

static const struct vt_field path_fields[] = {
    {.key = "",
     .type = VT_FIELD_TEXT,
     .size = sizeof(struct settings_path),
     .min = 1,
     .help = "a file"},
};
static const struct vt_schema path_schema = {.name = "file",
                                             .fields = path_fields,
                                             .nfields = VT_COUNT(path_fields),
                                             .struct_size = sizeof(struct settings_path)};

const struct vt_field settings_fields[] = {
    {.key = "spec",
     .type = VT_FIELD_TEXT,
     AT(spec),
     .min = 1,
     .help = "what a tile is made of: a built-in spec's name or a file"},
    {.key = "tiles",
     .type = VT_FIELD_INT,
     AT(tiles),
     .min = 1,
     .max = SPEC_TILES_MAX,
     .help = "how many tiles to deploy"},
    {.key = "load",
     .type = VT_FIELD_FIXED,
     AT(load),
     .min = 1,
     .max = 1000000,
     .help = "share of a tile's full load to offer"},
    {.key = "preset",
     .type = VT_FIELD_CHOICE,
     AT(preset),
     .choices = spec_preset_names,
     .help = "how long to measure: smoke 1 min, turbo 8 min, standard 2 h"},
    {.key = "seed",
     .type = VT_FIELD_UINT,
     AT(seed),
     .min = 0,
     .max = -1,
     .help = "of all that is drawn: the same seed draws the same requests"},
    {.key = "host",
     .type = VT_FIELD_LIST,
     AT(hosts),
     .min = 1,
     .max = SETTINGS_URIS_MAX,
     .schema = &uri_schema,
     .count_offset = offsetof(struct run_settings, nhosts),
     .help = "libvirt URI to deploy on, or auto, or embed; may be repeated"},
    {.key = "client",
     .type = VT_FIELD_LIST,
     AT(clients),
     .max = SETTINGS_URIS_MAX,
     .schema = &uri_schema,
     .count_offset = offsetof(struct run_settings, nclients),
     .help = "machine that drives load; may be repeated"},
    {.key = "recipient",
     .type = VT_FIELD_LIST,
     AT(recipients),
     .max = SETTINGS_RECIPIENTS_MAX,
     .schema = &path_schema,
     .count_offset = offsetof(struct run_settings, nrecipients),
     .help = "encrypt the record for this certificate's owner; repeatable"},
    {.key = "profile",
     .type = VT_FIELD_TEXT,
     AT(profile),
     .min = 1,
     .help = "tuning of the host for this run; only \"none\" so far"},
    {.key = "boot-timeout",
     .type = VT_FIELD_DURATION,
     AT(boot_timeout_ns),
     .min = VT_NS_PER_S,
     .max = 3600 * VT_NS_PER_S,
     .help = "how long the agents of all VMs may take to come"},
    {.key = "state",
     .type = VT_FIELD_TEXT,
     AT(state),
     .min = 1,
     .help = "folder of results, keys and journals"},
    {.key = "runtime",
     .type = VT_FIELD_TEXT,
     AT(runtime),
     .min = 1,
     .help = "folder of what lives only while vtile does"},
    {.key = "cache", .type = VT_FIELD_TEXT, AT(cache), .min = 1, .help = "folder of guest images"},
    {.key = "json",
     .type = VT_FIELD_BOOL,
     AT(json),
     .help = "print JSON objects, one a line, instead of text"},
    {.key = "config",
     .type = VT_FIELD_TEXT,
     AT(config),
     .min = 1,
     .help = "read settings from this file"},
    {.key = "print-config",
     .type = VT_FIELD_BOOL,
     AT(print_config),
     .help = "print every setting and where it came from; do nothing else"},
};

const struct setting_row settings_rows[] = {
    {.arg = "SPEC", .fallback = "specvirt", .run = true, .variable = true},
    {.arg = "N", .fallback = "1", .run = true, .variable = true},
    {.arg = "SHARE", .fallback = "1", .run = true, .variable = true},
    {.arg = "PRESET", .fallback = "standard", .run = true, .variable = true},
    {.arg = "SEED", .shown = "drawn", .run = true, .variable = true},
    {.arg = "URI", .fallback = "auto", .run = true, .variable = true},
    {.arg = "URI", .shown = "this machine", .run = true, .variable = true},
    {.arg = "CERT.pem", .shown = "all may read", .run = true, .variable = true},
    {.arg = "PROFILE", .fallback = "none", .run = true, .variable = true},
    {.arg = "TIME", .shown = "3 min, 30 s more a VM", .run = true, .variable = true},
    {.arg = "FOLDER", .shown = "/var/lib/vtile for root", .variable = true},
    {.arg = "FOLDER", .shown = "/run/vtile for root", .variable = true},
    {.arg = "FOLDER", .shown = "/var/cache/vtile for root", .variable = true},
    {.variable = true},
    {.arg = "FILE", .shown = "vtile.yaml", .variable = true},
    {.run = true},
};

const size_t settings_count = VT_COUNT(settings_rows);

_Static_assert(VT_COUNT(settings_rows) == VT_COUNT(settings_fields), "a row each");
_Static_assert(VT_COUNT(settings_rows) <= SETTINGS_MAX, "a source each");

const struct vt_schema settings_schema = {.name = "vtile.yaml",
                                          .fields = settings_fields,
                                          .nfields = SETTINGS_FILE_COUNT,
                                          .struct_size = sizeof(struct run_settings)};

const char *settings_variable(const char *name, char out[SETTINGS_VARIABLE_MAX])
{
    size_t n = (size_t)snprintf(out, SETTINGS_VARIABLE_MAX, "VTILE_");

    for (; *name && n < SETTINGS_VARIABLE_MAX - 1; name++)
        out[n++] = *name == '-' ? '_' : (char)(*name >= 'a' && *name <= 'z' ? *name - 32 : *name);
    out[n] = '\0';
    return out;
}

bool settings_has(const struct settings_use *use, size_t row)
{
    return use->run || !settings_rows[row].run;
}

bool settings_take_spec(struct run_settings *settings, size_t row, const struct spec *spec,
                        struct spec_place *ret_place)
{
    const char *key = settings_fields[row].key;
    const struct spec_run *run = &spec->run;

    if (run->tiles > 0 && strcmp(key, "tiles") == 0) {
        settings->tiles = run->tiles;
        *ret_place = run->at[SPEC_RUN_TILES];
    } else if (run->load > 0 && strcmp(key, "load") == 0) {
        settings->load = run->load;
        *ret_place = run->at[SPEC_RUN_LOAD];
    } else if (run->preset >= 0 && strcmp(key, "preset") == 0) {
        settings->preset = run->preset;
        *ret_place = run->at[SPEC_RUN_PRESET];
    } else {
        return false;
    }
    return true;
}
