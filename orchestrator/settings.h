/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings: what the user asked for, from one table: option > VTILE_* > vtile.yaml > spec >
 * default. Each row is an option of the command line, a variable and a key at once; where a value
 * came from is kept for --print-config.
 *
 * The file is the one named by --config or VTILE_CONFIG, else vtile.yaml in the current folder
 * where there is one. A variable that is empty counts as unset. What a lower source holds is
 * checked even where a higher one overrides it.
 */
#ifndef VTILE_ORCHESTRATOR_SETTINGS_H
#define VTILE_ORCHESTRATOR_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/domain.h"
#include "base/error.h"
#include "base/yaml.h"
#include "tiles/spec/spec.h"

#define SETTINGS_URIS_MAX 16
#define SETTINGS_RECIPIENTS_MAX 15 /* and this installation itself */
#define SETTINGS_MAX 24            /* rows of the table */
#define SETTINGS_SOURCE_MAX 320
/* Keys of a record's meta: SETTINGS_META "load" has the value, with SETTINGS_META_SOURCE behind it
 * where that came from. */
#define SETTINGS_META "config.settings."
#define SETTINGS_META_SOURCE ".source"

struct settings_uri {
    char uri[256];
};

struct settings_path {
    char path[VT_PATH_MAX];
};

struct run_settings {
    char spec[VT_PATH_MAX]; /* as given: a built-in's name or a path */
    int64_t tiles;
    int64_t load;                                 /* share of the full load, millionths */
    int preset;                                   /* index into spec_presets() */
    uint64_t seed;                                /* drawn where nothing gave it */
    struct settings_uri hosts[SETTINGS_URIS_MAX]; /* "auto", "embed" or a libvirt URI */
    size_t nhosts;
    struct settings_uri clients[SETTINGS_URIS_MAX];
    size_t nclients;
    struct settings_path recipients[SETTINGS_RECIPIENTS_MAX]; /* certificates of readers */
    size_t nrecipients;
    char profile[64];        /* of tuning; "none" */
    int64_t boot_timeout_ns; /* 0: by the number of VMs */
    /* Folders; "": the default of state.h and image.h. */
    char state[VT_PATH_MAX], runtime[VT_PATH_MAX], cache[VT_PATH_MAX];
    bool json, print_config, help;
    char config[VT_PATH_MAX]; /* the file that was read, "": none */
    /* "--load", "VTILE_LOAD", "vtile.yaml:3:7", "spec web:12:9", "default"; by row of the table. */
    char source[SETTINGS_MAX][SETTINGS_SOURCE_MAX];
};

/* Options that only one command has; not settings. */
struct settings_option {
    const char *name; /* without dashes */
    const char *arg;  /* what help calls the value; NULL: takes none */
    const char *help;
    /* May be called more than once. value: NULL without arg. An error gets "--name: " in front. */
    int (*take)(void *ctx, const char *value, struct vt_error *err);
};

struct settings_use {
    const char *usage; /* "vtile run [OPTION]..." */
    bool run;          /* with the settings of a run and its spec; else folders, --json only */
    const struct settings_option *options;
    size_t noptions;
    void *ctx;     /* of take */
    bool operands; /* arguments that are no options are allowed */
};

/* argv[0] is the command's name. Options may stand before and after operands; argv is reordered so
 * that these come last, argv[*ret_operand] being the first (== argc: none). ret_operand and
 * ret_spec may be NULL; *ret_spec is filled where use->run. With --help nothing but help is set.
 * Errors: kind USAGE or CONFIG, naming the option, variable or place. */
int settings_load(int argc, char **argv, const struct settings_use *use, struct run_settings *ret,
                  struct spec *ret_spec, int *ret_operand, struct vt_error *err);

/* Puts state, runtime and cache into the environment, where state.h and image.h look for them.
 * Before any thread is started. */
int settings_export(const struct run_settings *settings, struct vt_error *err);

/* For commands other than run: settings_load, --help printed, folders exported. Returns 1 when help
 * was printed and nothing else is to be done. */
int settings_begin(int argc, char **argv, const struct settings_use *use, struct run_settings *ret,
                   int *ret_operand, struct vt_error *err);

/* --print-config: each setting, its value and its source; with settings->json one JSON object. */
int settings_print(const struct run_settings *settings, const struct settings_use *use, FILE *out,
                   struct vt_error *err);

/* The same one by one: value as --print-config shows it. */
void settings_walk(const struct run_settings *settings, const struct settings_use *use,
                   void (*row)(void *ctx, const char *name, const char *value, const char *source),
                   void *ctx);

/* Usage and options, aligned. */
void settings_help(const struct settings_use *use, FILE *out);

/* The keys of vtile.yaml. */
extern const struct vt_schema settings_schema;

#endif
