/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings_table: one row a setting. The row i is described by settings_fields[i], which is also
 * the key's description in vtile.yaml, and settings_rows[i].
 */
#ifndef VTILE_ORCHESTRATOR_SETTINGS_TABLE_H
#define VTILE_ORCHESTRATOR_SETTINGS_TABLE_H

#include "orchestrator/settings.h"

struct setting_row {
    const char *arg;      /* what help calls the value; NULL: an option without one */
    const char *fallback; /* the default, parsed as the option's value is; NULL: as zeroed */
    const char *shown;    /* how help and --print-config call the default; NULL: fallback */
    bool run;             /* only commands that make a run have it */
    bool variable;        /* VTILE_<NAME> sets it too */
};

extern const struct vt_field settings_fields[];
extern const struct setting_row settings_rows[];
extern const size_t settings_count;
#define SETTINGS_FILE_COUNT 13 /* the first rows are keys of vtile.yaml */

/* "VTILE_PRINT_CONFIG" of "print-config". Returns out. */
#define SETTINGS_VARIABLE_MAX 48
const char *settings_variable(const char *name, char out[SETTINGS_VARIABLE_MAX]);
/* Takes the row's value from the spec; false where the spec says nothing of it. */
bool settings_take_spec(struct run_settings *settings, size_t row, const struct spec *spec,
                        struct spec_place *ret_place);
/* Has a command of this use the row? */
bool settings_has(const struct settings_use *use, size_t row);

#endif
