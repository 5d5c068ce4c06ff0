/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "tiles/embedded.h"
#include "tiles/roles/role.h"

#define BUILTIN_FOLDER "tiles/spec/specs/"
#define BUILTIN_SUFFIX ".yaml"
#define BUILTINS_MAX 16

/* --- built-in specs --- */

/* The name of an embedded file that is a spec, into name; false for other files. */
static bool builtin_name(const struct tiles_embedded_file *file, char *name, size_t size)
{
    const char *base = file->path + strlen(BUILTIN_FOLDER), *end;

    if (strncmp(file->path, BUILTIN_FOLDER, strlen(BUILTIN_FOLDER)) != 0)
        return false;
    end = strstr(base, BUILTIN_SUFFIX);
    if (!end || end[strlen(BUILTIN_SUFFIX)] || (size_t)(end - base) >= size)
        return false;
    memcpy(name, base, (size_t)(end - base));
    name[end - base] = '\0';
    return true;
}

static const struct tiles_embedded_file *builtin_find(const char *name)
{
    char found[sizeof(((struct spec *)0)->name)];

    for (size_t i = 0; i < tiles_embedded_count; i++) {
        if (builtin_name(&tiles_embedded[i], found, sizeof(found)) && strcmp(found, name) == 0)
            return &tiles_embedded[i];
    }
    return NULL;
}

const char *spec_builtin(const char *name)
{
    const struct tiles_embedded_file *file = builtin_find(name);

    return file ? file->data : NULL;
}

const char *const *spec_builtin_names(void)
{
    static char names[BUILTINS_MAX][sizeof(((struct spec *)0)->name)];
    static const char *list[BUILTINS_MAX + 1];
    size_t n = 0;

    /* The same bytes each time, so that a second caller disturbs nobody. */
    for (size_t i = 0; i < tiles_embedded_count && n < BUILTINS_MAX; i++) {
        char name[sizeof(names[0])];

        if (!builtin_name(&tiles_embedded[i], name, sizeof(name)))
            continue;
        memcpy(names[n], name, sizeof(name));
        list[n] = names[n];
        n++;
    }
    list[n] = NULL;
    return list;
}

/* --- checks of a spec as a whole --- */

static const char *role_name(const void *ctx, size_t i)
{
    return ((const struct role *const *)ctx)[i]->name;
}

static const char *operation_name(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

/* Appends ": did you mean ..." or ": known are ..." to a text about an unknown name. */
static int refuse_name(const struct vt_yaml_node *key, const char *file, const char *what,
                       const char *(*name)(const void *ctx, size_t i), const void *ctx, size_t n,
                       struct vt_error *err)
{
    char shown[VT_YAML_SHOW_MAX], known[256] = "";
    int nearest = vt_yaml_nearest(key->text, name, ctx, n);
    size_t len = 0;

    vt_yaml_show(key->text, shown);
    if (nearest >= 0)
        return vt_error_at(err, file, key->line, key->column, "unknown %s %s: did you mean \"%s\"?",
                           what, shown, name(ctx, (size_t)nearest));
    for (size_t i = 0; i < n && len < sizeof(known); i++)
        len +=
            (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "", name(ctx, i));
    return vt_error_at(err, file, key->line, key->column, "unknown %s %s: expected one of %s", what,
                       shown, known);
}

static bool has_role(const struct spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->nroles; i++) {
        if (strcmp(spec->roles[i].name, name) == 0)
            return true;
    }
    return false;
}

/* load: or jobs. */
static int check_operations(const struct spec_role *role, const struct role *known,
                            const struct vt_yaml_node *load, const char *file, struct vt_error *err)
{
    const struct vt_yaml_node *map = vt_yaml_find(load, "operations");
    unsigned noperations;
    const char *const *operations = role_operations(known, &noperations);

    for (size_t i = 0; i < role->load.noperations; i++) {
        unsigned k = 0;

        while (k < noperations && strcmp(operations[k], role->load.operations[i].name) != 0)
            k++;
        if (k == noperations)
            return refuse_name(map->keys[i], file, "operation", operation_name, operations,
                               noperations, err);
    }
    return 0;
}

/* A database that is driven by itself takes the place of its application, and no tile shares it:
 * the steps of two loads would have the same numbers in it. */
static int check_alone(const struct spec *spec, const struct spec_role *role,
                       const struct vt_yaml_node *load, const char *file, struct vt_error *err)
{
    for (size_t i = 0; i < spec->nroles; i++) {
        const struct role *other = role_find(spec->roles[i].name);

        for (const char *const *peer = other ? other->peers : NULL; peer && *peer; peer++)
            if (strcmp(*peer, role->name) == 0)
                return vt_error_at(err, file, load->line, load->column,
                                   "role \"%s\" works for role \"%s\" of the tile: expected no "
                                   "load",
                                   role->name, other->name);
    }
    if (spec->db_share > 1 && strcmp(role->name, "database") == 0)
        return vt_error_at(err, file, load->line, load->column,
                           "role \"database\" is shared by tiles (db_share): expected no load");
    return 0;
}

static int check_role(const struct spec *spec, const struct spec_role *role,
                      const struct vt_yaml_node *key, const struct vt_yaml_node *node,
                      const char *file, struct vt_error *err)
{
    const struct vt_yaml_node *load = vt_yaml_find(node, "load");
    const struct vt_yaml_node *jobs = vt_yaml_find(node, "jobs");
    const struct role *known = role_find(role->name);
    size_t n = 0;
    int rc;

    if (!known) {
        while (role_all()[n])
            n++;
        return refuse_name(key, file, "role", role_name, role_all(), n, err);
    }
    for (const char *const *peer = known->peers; *peer; peer++) {
        if (!has_role(spec, *peer))
            return vt_error_at(err, file, key->line, key->column,
                               "role \"%s\" needs a role \"%s\" in the same tile", role->name,
                               *peer);
    }
    if (load && !known->driver)
        return vt_error_at(err, file, load->line, load->column,
                           "role \"%s\" is not driven from outside: expected no load", role->name);
    if (jobs && !known->guest->work)
        return vt_error_at(err, file, jobs->line, jobs->column,
                           "role \"%s\" makes no load for itself: expected no jobs", role->name);
    if (jobs && known->check_jobs) {
        const char *why = known->check_jobs(&role->jobs);

        if (why)
            return vt_error_at(err, file, jobs->line, jobs->column, "jobs of role \"%s\": %s",
                               role->name, why);
    }
    if (load && (rc = check_alone(spec, role, load, file, err)) < 0)
        return rc;
    if (load)
        return check_operations(role, known, load, file, err);
    return jobs ? check_operations(role, known, jobs, file, err) : 0;
}

/* Where the values of a run stand. */
static void note_places(const struct vt_yaml_node *run, struct spec_run *ret)
{
    static const char *const keys[SPEC_RUN_KEYS] = {"tiles", "load", "preset"};

    for (size_t i = 0; run && i < SPEC_RUN_KEYS; i++) {
        const struct vt_yaml_node *node = vt_yaml_find(run, keys[i]);

        if (node)
            ret->at[i] = (struct spec_place){node->line, node->column};
    }
}

static int read_yaml(const struct vt_yaml *yaml, struct spec *ret, struct vt_error *err)
{
    VT_AUTO_FREE struct spec *spec = calloc(1, sizeof(*spec));
    const struct vt_yaml_node *roles;
    int rc;

    if (!spec)
        return vt_error_no_memory(err, "read %s", yaml->file);
    spec->run.preset = -1;
    spec->db_share = 1;
    rc = vt_yaml_bind(yaml, &spec_schema, spec, err);
    if (rc < 0)
        return rc;
    note_places(vt_yaml_find(yaml->root, "run"), &spec->run);
    roles = vt_yaml_find(yaml->root, "roles");
    for (size_t i = 0; i < spec->nroles; i++) {
        rc = check_role(spec, &spec->roles[i], roles->keys[i], roles->items[i], yaml->file, err);
        if (rc < 0)
            return rc;
    }
    *ret = *spec;
    return 0;
}

/* --- reading --- */

int spec_read_text(const char *file, const char *text, size_t len, struct spec *ret,
                   struct vt_error *err)
{
    struct vt_yaml yaml;
    int rc = vt_yaml_read_text(file, text, len, &yaml, err);

    if (rc < 0)
        return rc;
    rc = read_yaml(&yaml, ret, err);
    vt_yaml_dispose(&yaml);
    return rc;
}

static const char *builtin_at(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

static int refuse_unknown(const char *name, struct vt_error *err)
{
    const char *const *names = spec_builtin_names();
    char shown[VT_YAML_SHOW_MAX], known[256] = "";
    size_t n = 0, len = 0;
    int nearest;

    for (; names[n] && len < sizeof(known); n++)
        len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", n ? ", " : "", names[n]);
    vt_yaml_show(name, shown);
    nearest = vt_yaml_nearest(name, builtin_at, names, n);
    if (nearest >= 0)
        return vt_error_set(err, VT_KIND_CONFIG, -ENOENT,
                            "spec %s: no such file or built-in spec: did you mean \"%s\"?", shown,
                            names[nearest]);
    return vt_error_set(err, VT_KIND_CONFIG, -ENOENT,
                        "spec %s: no such file or built-in spec (built in are %s)", shown, known);
}

int spec_load(const char *name_or_path, struct spec *ret, struct vt_error *err)
{
    const struct tiles_embedded_file *builtin = builtin_find(name_or_path);
    struct vt_yaml yaml;
    int rc;

    if (builtin)
        return spec_read_text(builtin->path + strlen(BUILTIN_FOLDER), builtin->data,
                              (size_t)(builtin->end - builtin->data), ret, err);
    /* A word without a slash that names no file was meant as a built-in. */
    if (!strchr(name_or_path, '/') && access(name_or_path, F_OK) != 0)
        return refuse_unknown(name_or_path, err);
    rc = vt_yaml_read_file(name_or_path, &yaml, err);
    if (rc < 0)
        return rc;
    rc = read_yaml(&yaml, ret, err);
    vt_yaml_dispose(&yaml);
    return rc;
}
