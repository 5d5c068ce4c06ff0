/* SPDX-License-Identifier: Apache-2.0 */
/* settings: what the run was made with: settings and their sources, machines, spec, origin. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "results/report/html.h"
#include "results/report/parts.h"

#define SETTINGS "config.settings."
#define SOURCE ".source"
#define CONFIG RECORD_META_CONFIG

static bool begins(const char *text, const char *head)
{
    return !strncmp(text, head, strlen(head));
}

static bool ends(const char *text, const char *tail)
{
    size_t len = strlen(text), n = strlen(tail);

    return len > n && !strcmp(text + len - n, tail);
}

static void put_value(const struct report *report, const char *value)
{
    vt_buf_adds(report->out, "<td>");
    html_text(report->out, value, REPORT_VALUE_MAX);
    vt_buf_adds(report->out, "</td>");
}

static void begin(const struct report *report, const char *title, bool open)
{
    vt_buf_printf(report->out, "<section><details%s><summary><h2>%s</h2></summary>\n",
                  open ? " open" : "", title);
}

static void end(const struct report *report)
{
    vt_buf_adds(report->out, "</details></section>\n");
}

void report_settings(const struct report *report)
{
    static const char *const heads[] = {"setting", "value", "from", NULL};
    char key[RECORD_META_KEY_MAX + sizeof(SOURCE)];

    begin(report, "Settings, and where each came from", false);
    html_table(report->out, "settings", heads);
    for (size_t i = 0; i < report->nmeta; i++) {
        const struct report_meta *meta = &report->meta[i];
        const char *from;
        if (!begins(meta->key, SETTINGS) || ends(meta->key, SOURCE))
            continue;
        snprintf(key, sizeof(key), "%s" SOURCE, meta->key);
        from = report_meta(report, key);
        vt_buf_adds(report->out, "<tr>");
        html_cell(report->out, meta->key + strlen(SETTINGS));
        put_value(report, meta->value);
        html_cell(report->out, from ? from : "");
        vt_buf_adds(report->out, "</tr>\n");
    }
    html_table_end(report->out);
    end(report);
}

/* Length of "<who>" in "config.<who>.<name>", where a host has a number of its own. */
static size_t who_length(const char *key)
{
    const char *who = key + strlen(CONFIG);
    size_t len = strcspn(who, ".");

    if (len == 4 && begins(who, "host."))
        len += 1 + strcspn(who + 5, ".");
    return len;
}

/* Keys are in order, so those of one machine stand together. */
void report_configuration(const struct report *report)
{
    static const char *const heads[] = {"what", "value", NULL};
    const char *last = NULL;
    size_t last_len = 0;

    begin(report, "Configuration of hosts, guests and clients", false);
    for (size_t i = 0; i < report->nmeta; i++) {
        const struct report_meta *meta = &report->meta[i];
        const char *who = meta->key + strlen(CONFIG);
        size_t len;
        if (!begins(meta->key, CONFIG) || begins(meta->key, SETTINGS))
            continue;
        len = who_length(meta->key);
        if (!last || len != last_len || memcmp(who, last, len) != 0) {
            if (last)
                html_table_end(report->out);
            vt_buf_adds(report->out, "<h3>");
            html_text(report->out, who, len);
            vt_buf_adds(report->out, "</h3>");
            html_table(report->out, "settings", heads);
            last = who;
            last_len = len;
        }
        vt_buf_adds(report->out, "<tr>");
        html_cell(report->out, who[len] ? who + len + 1 : who);
        put_value(report, meta->value);
        vt_buf_adds(report->out, "</tr>\n");
    }
    if (last)
        html_table_end(report->out);
    else
        vt_buf_adds(report->out, "<p class=\"note\">The record has none.</p>\n");
    end(report);
}

/* --- origin --- */

static void put_row(const struct report *report, const char *name, const char *value)
{
    vt_buf_adds(report->out, "<tr>");
    html_cell(report->out, name);
    put_value(report, value);
    vt_buf_adds(report->out, "</tr>\n");
}

static int put_schedules(const struct report *report)
{
    static const char *const heads[] = {"#tile",          "role",    "#steps",
                                        "#in the window", "SHA-256", NULL};
    char hash[2 * 32 + 1];
    int r = 0;

    vt_buf_adds(report->out, "<h3>Schedules, drawn ahead from the seed</h3>\n");
    html_table(report->out, "settings hashes", heads);
    for (size_t i = 0; r == 0 && i < report->nroles; i++) {
        const struct vt_record_role *role = &report->roles[i];
        struct vt_record_schedule schedule;
        r = record_read_schedule(report->reader, role->tile, role->role, &schedule, report->err);
        if (r == -ENOENT) {
            r = 0;
            continue;
        }
        if (r < 0)
            break;
        vt_text_hex(schedule.hash, sizeof(schedule.hash), hash);
        vt_buf_adds(report->out, "<tr>");
        html_number(report->out, "%u", role->tile);
        html_cell(report->out, role->role);
        html_number(report->out, "%" PRIu64, schedule.steps);
        html_number(report->out, "%" PRIu64, schedule.window_steps);
        html_element(report->out, "td", "hash", hash);
        vt_buf_adds(report->out, "</tr>\n");
    }
    html_table_end(report->out);
    return r;
}

int report_origin(const struct report *report)
{
    static const char *const heads[] = {"what", "value", NULL};
    const char *spec = report_meta(report, RECORD_META_SPEC_TEXT);
    int r;

    begin(report, "Spec, as it was read", false);
    vt_buf_adds(report->out, "<pre>");
    html_text(report->out, spec ? spec : "", REPORT_SPEC_MAX);
    vt_buf_adds(report->out, "</pre>\n");
    end(report);
    begin(report, "Where this comes from", true);
    html_table(report->out, "settings hashes", heads);
    put_row(report, "SHA-256 of the archive",
            *report->source->archive_sha256 ? report->source->archive_sha256 : "not known");
    put_row(report, "signed by (SHA-256 of the certificate)",
            *report->source->signer ? report->source->signer : "not known");
    for (size_t i = 0; i < report->nmeta; i++) {
        const char *key = report->meta[i].key;
        /* An audit compares what machines were after the load; here it would stand twice. */
        if (!begins(key, CONFIG) && !begins(key, RECORD_META_CONFIG_END) &&
            strcmp(key, RECORD_META_SPEC_TEXT) != 0)
            put_row(report, key, report->meta[i].value);
    }
    html_table_end(report->out);
    if (report->meta_more > 0)
        vt_buf_printf(report->out, "<p class=\"note\">and %zu more, which are in the record</p>\n",
                      report->meta_more);
    r = put_schedules(report);
    vt_buf_adds(report->out, "<p class=\"note\">Everything here was computed from the record alone;"
                             " <code>vtile results score</code> and <code>verify</code> do it"
                             " again.</p>\n");
    end(report);
    return r;
}
