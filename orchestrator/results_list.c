/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/results_archive.h"
#include "orchestrator/state.h"
#include "results/result.h"

#define LIST_MAX 100000

struct row {
    char name[NAME_MAX + 1];
    char run[64], started[32], spec[64], verdict[16], qos[16];
    double score, load; /* load < 0: not known */
    size_t tiles;
    char refused[VT_ERROR_TEXT_MAX]; /* "" where the archive is good as far as it was read */
};

static bool is_archive(const char *name)
{
    size_t len = strlen(name), suffix = strlen(ARCHIVE_SUFFIX);

    return name[0] != '.' && len > suffix && !strcmp(name + len - suffix, ARCHIVE_SUFFIX);
}

static void copy_string(const json_t *object, const char *key, char *dst, size_t size)
{
    const char *value = json_string_value(json_object_get(object, key));

    vt_text_copy(dst, size, value ? value : "");
}

/* Structure, signature and manifest; parts are not read, which is what `verify` is for. */
static int read_row(const char *folder, const struct archive_trust *trust, struct row *row,
                    struct vt_error *err)
{
    struct archive_report report = {0};
    struct vt_error why = VT_ERROR_INIT;
    char path[VT_PATH_MAX + NAME_MAX + 2];
    json_t *json = NULL;
    const json_t *result;
    int r;

    snprintf(path, sizeof(path), "%s/%s", folder, row->name);
    r = archive_verify_front(path, trust, &report, &why);
    if (r == 0)
        r = vt_json_read(report.manifest.data, report.manifest.len, row->name, VT_KIND_REFUSED,
                         &json, &why);
    archive_report_dispose(&report);
    if (r < 0) {
        vt_text_copy(row->refused, sizeof(row->refused), why.text);
        vt_text_copy(row->run, sizeof(row->run), row->name);
        return r == -ENOMEM ? vt_error_no_memory(err, "list results") : 0;
    }
    result = json_object_get(json, "result");
    copy_string(result, "run", row->run, sizeof(row->run));
    copy_string(result, "started", row->started, sizeof(row->started));
    copy_string(result, "spec", row->spec, sizeof(row->spec));
    copy_string(result, "verdict", row->verdict, sizeof(row->verdict));
    copy_string(result, "qos", row->qos, sizeof(row->qos));
    row->score = json_number_value(json_object_get(result, "score"));
    row->load = json_is_number(json_object_get(result, "load"))
                    ? json_number_value(json_object_get(result, "load"))
                    : -1;
    row->tiles = json_array_size(json_object_get(result, "tiles"));
    json_decref(json);
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->started, y->started);

    return order ? order : strcmp(x->name, y->name);
}

static int read_rows(const char *folder, const struct archive_trust *trust, struct row **ret,
                     size_t *ret_n, struct vt_error *err)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    struct row *rows = NULL, *grown;
    size_t n = 0;
    int r = 0;

    if (!dir && errno != ENOENT)
        return vt_error_errno(err, VT_KIND_INFRA, errno, "list %s", folder);
    while (r == 0 && dir && n < LIST_MAX && (entry = readdir(dir))) {
        if (!is_archive(entry->d_name))
            continue;
        grown = realloc(rows, (n + 1) * sizeof(*rows));
        if (!grown) {
            r = vt_error_no_memory(err, "list results");
            break;
        }
        rows = grown;
        rows[n] = (struct row){0};
        vt_text_copy(rows[n].name, sizeof(rows[n].name), entry->d_name);
        r = read_row(folder, trust, &rows[n++], err);
    }
    if (dir)
        closedir(dir);
    if (r < 0) {
        free(rows);
        return r;
    }
    if (n)
        qsort(rows, n, sizeof(*rows), by_start);
    *ret = rows;
    *ret_n = n;
    return 0;
}

static void print_json(const char *folder, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 16);
        char path[VT_PATH_MAX + NAME_MAX + 2];
        const struct row *row = &rows[i];
        struct vt_json w;

        snprintf(path, sizeof(path), "%s/%s", folder, row->name);
        vt_json_message(&w, &out, "archive");
        vt_json_string(&w, "archive", path);
        if (row->refused[0]) {
            vt_json_string(&w, "refused", row->refused);
        } else {
            vt_json_string(&w, "run", row->run);
            vt_json_string(&w, "started", row->started);
            vt_json_string(&w, "spec", row->spec);
            vt_json_string(&w, "verdict", row->verdict);
            vt_json_string(&w, "qos", row->qos);
            vt_json_double(&w, "score", row->score, 2);
            vt_json_uint(&w, "tiles", row->tiles);
            if (row->load >= 0)
                vt_json_double(&w, "load", row->load, 6);
        }
        vt_json_end(&w);
        if (!out.failed)
            puts(out.data);
    }
}

static int print_table(const struct row *rows, size_t n, struct vt_error *err)
{
    static const char *const heads[] = {"RUN",  "STARTED", "SPEC", "TILES",
                                        "LOAD", "VERDICT", "QOS",  "SCORE"};
    struct libscols_table *table = scols_new_table();
    int r = table ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < VT_COUNT(heads); i++)
        r = scols_table_new_column(table, heads[i], 0,
                                   i == 3 || i == 4 || i == 7 ? SCOLS_FL_RIGHT : 0)
                ? 0
                : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct row *row = &rows[i];
        const char *verdict = row->refused[0] ? "refused" : row->verdict;
        char tiles[24], load[32] = "-", score[32];
        const char *cells[] = {row->run, row->started, row->spec, tiles,
                               load,     verdict,      row->qos,  score};
        struct libscols_line *line = scols_table_new_line(table, NULL);

        snprintf(tiles, sizeof(tiles), "%zu", row->tiles);
        if (!row->refused[0] && row->load >= 0)
            snprintf(load, sizeof(load), "%g", row->load);
        snprintf(score, sizeof(score), "%.2f", row->score);
        for (size_t k = 0; line && k < VT_COUNT(cells); k++)
            r |= scols_line_set_data(line, k, cells[k]);
        r = line ? r : -ENOMEM;
    }
    if (r == 0)
        r = scols_print_table(table);
    scols_unref_table(table);
    if (r != 0)
        return vt_error_no_memory(err, "print the list");
    for (size_t i = 0; i < n; i++) {
        VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(8 * VT_ERROR_TEXT_MAX);

        result_print_text(&text, rows[i].refused); /* it holds the file's name */
        if (text.len)
            puts(text.data);
    }
    return 0;
}

struct list {
    const char *folder;
    bool json;
};

static int list_with(const struct archive_trust *trust, void *ctx, struct vt_error *err)
{
    const struct list *list = ctx;
    struct row *rows = NULL;
    size_t n = 0;
    int r = read_rows(list->folder, trust, &rows, &n, err);

    if (r == 0 && list->json)
        print_json(list->folder, rows, n);
    else if (r == 0 && n)
        r = print_table(rows, n, err);
    else if (r == 0)
        printf("no results in %s yet\n", list->folder);
    free(rows);
    return r;
}

int results_list(const char *const *trusted, size_t ntrusted, bool json, struct vt_error *err)
{
    char folder[VT_PATH_MAX + 16];
    struct list list = {folder, json};
    struct state state;
    int r = state_locate(&state, err);

    if (r < 0)
        return r;
    snprintf(folder, sizeof(folder), "%s/results", state.folder);
    return results_archive_trust(trusted, ntrusted, list_with, &list, err);
}
