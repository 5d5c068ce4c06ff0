/* SPDX-License-Identifier: Apache-2.0 */
#include "results/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/scope.h"
#include "results/audit_rules.h"

const char *audit_state_name(enum audit_state state)
{
    static const char *const names[] = {"pass", "fail", "not applicable"};

    return names[state];
}

void audit_add(struct audit_work *work, const char *rule, bool claim, enum audit_state state,
               const char *fmt, ...)
{
    struct audit_line *line;
    va_list args;

    if (work->audit->n == AUDIT_LINES_MAX)
        return; /* the rules are fewer */
    line = &work->audit->lines[work->audit->n++];
    line->rule = rule;
    line->claim = claim;
    line->state = state;
    va_start(args, fmt);
    vsnprintf(line->saw, sizeof(line->saw), fmt, args);
    va_end(args);
}

size_t audit_failed(const struct audit *audit, bool claim)
{
    size_t n = 0;

    for (size_t i = 0; i < audit->n; i++)
        n += audit->lines[i].state == AUDIT_FAIL && audit->lines[i].claim == claim;
    return n;
}

/* --- reading --- */

static int read_word(struct audit_work *work, const char *key, char *dst, size_t size)
{
    VT_AUTO_FREE char *value = NULL;
    int r = record_read_meta(work->reader, key, &value, work->err);

    if (r == 0)
        vt_text_copy(dst, size, value);
    return r == -ENOENT ? 0 : r;
}

static int read_words(struct audit_work *work)
{
    const struct {
        const char *key;
        char *dst;
        size_t size;
    } words[] = {
        {RECORD_META_PRESET, work->preset, sizeof(work->preset)},
        {RECORD_META_LOAD, work->load, sizeof(work->load)},
        {RECORD_META_TILES, work->tiles, sizeof(work->tiles)},
        {RECORD_META_SPEC_NAME, work->spec, sizeof(work->spec)},
        {RECORD_META_SEED, work->seed, sizeof(work->seed)},
        {RECORD_META_BY_OPERATION, work->by_operation, sizeof(work->by_operation)},
    };
    double load;
    int r = 0;

    for (size_t i = 0; r == 0 && i < VT_COUNT(words); i++)
        r = read_word(work, words[i].key, words[i].dst, words[i].size);
    work->load_millionths = work->ntiles = -1;
    if (r == 0 && vt_text_parse_double(work->load, 0, 1, &load, NULL) == 0)
        work->load_millionths = (int64_t)(load * 1e6 + 0.5);
    if (r == 0)
        vt_text_parse_int(work->tiles, 1, VT_RECORD_TILES_MAX, &work->ntiles, NULL);
    return r < 0 ? r : record_read_roles(work->reader, &work->roles, &work->nroles, work->err);
}

/* --- archive and result --- */

static void audit_archive(struct audit_work *work)
{
    const struct audit_given *given = work->given;

    audit_add(work, "archive", false, AUDIT_PASS,
              "every byte of it: structure, signature, hashes of %u part%s%s", given->nparts,
              given->nparts == 1 ? "" : "s", given->nrecipients ? ", which were encrypted" : "");
    audit_add(work, "signer", false, AUDIT_PASS, "%.64s, %s", given->signer,
              given->own ? "this installation" : "pinned by --trust");
    if (given->compared)
        audit_add(work, "recomputed", false, AUDIT_FAIL, "%.350s", given->compared);
    else if (given->other_rules)
        audit_add(work, "recomputed", false, AUDIT_PASS, "%.*s",
                  (int)strcspn(given->other_rules, "\n"), given->other_rules);
    else
        audit_add(work, "recomputed", false, AUDIT_PASS,
                  "QoS, score and verdict come out of the record as they were sealed");
}

static void audit_verdict(struct audit_work *work)
{
    const struct verdict *verdict = &work->given->result->verdict;
    char codes[300] = "";
    size_t at = 0;

    for (size_t i = 0; i < verdict->nreasons && at < sizeof(codes) - 40; i++)
        at += (size_t)snprintf(codes + at, sizeof(codes) - at, "%s%.32s", i ? ", " : ": ",
                               verdict->reasons[i].code);
    audit_add(work, "verdict", false, verdict->grade == VERDICT_INVALID ? AUDIT_FAIL : AUDIT_PASS,
              "%s%s", verdict_grade_name(verdict->grade), codes);
    audit_add(work, "undegraded", true, verdict->grade == VERDICT_VALID ? AUDIT_PASS : AUDIT_FAIL,
              "%s", verdict_grade_name(verdict->grade));
    audit_add(work, "QoS", true,
              work->given->result->qos.state == QOS_PASS ? AUDIT_PASS : AUDIT_FAIL,
              "%s in %zu limits", qos_state_name(work->given->result->qos.state),
              work->given->result->qos.nlines);
}

int audit_record(struct record_reader *reader, const struct audit_given *given, struct audit *ret,
                 struct vt_error *err)
{
    struct audit_work work = {.reader = reader, .given = given, .audit = ret, .err = err};
    int r = read_words(&work);

    if (r == 0) {
        audit_archive(&work);
        audit_verdict(&work);
        r = audit_numbers(&work);
    }
    if (r == 0)
        r = audit_configuration(&work);
    free(work.roles);
    return r;
}

/* --- writing --- */

static const char *conclusion(const struct audit *audit)
{
    if (audit_failed(audit, false))
        return "not valid";
    return audit_failed(audit, true) ? "sound, but no full claim" : "full claim";
}

void audit_write_json(const struct audit *audit, const char *run, struct vt_buf *out)
{
    struct vt_json w;

    vt_json_message(&w, out, "audit");
    vt_json_string(&w, "run", run);
    vt_json_string(&w, "conclusion", conclusion(audit));
    vt_json_array(&w, "rules");
    for (size_t i = 0; i < audit->n; i++) {
        vt_json_object(&w, NULL);
        vt_json_string(&w, "rule", audit->lines[i].rule);
        vt_json_string(&w, "of", audit->lines[i].claim ? "claim" : "run");
        vt_json_string(&w, "state", audit_state_name(audit->lines[i].state));
        vt_json_string(&w, "saw", audit->lines[i].saw);
        vt_json_end(&w);
    }
    vt_json_end(&w);
    vt_json_string(&w, "metric", RESULT_METRIC);
    vt_json_end(&w);
}

static void write_lines(const struct audit *audit, bool claim, struct vt_buf *out)
{
    for (size_t i = 0; i < audit->n; i++) {
        if (audit->lines[i].claim != claim)
            continue;
        vt_buf_printf(out, "  %-14s  %-14s  ", audit_state_name(audit->lines[i].state),
                      audit->lines[i].rule);
        result_print_text(out, audit->lines[i].saw);
        vt_buf_adds(out, "\n");
    }
}

void audit_write_text(const struct audit *audit, struct vt_buf *out)
{
    vt_buf_adds(out, "of a sound run\n");
    write_lines(audit, false, out);
    vt_buf_adds(out, "of a full claim\n");
    write_lines(audit, true, out);
    vt_buf_printf(out, "conclusion: %s (%zu rules, %zu failed)\n", conclusion(audit), audit->n,
                  audit_failed(audit, false) + audit_failed(audit, true));
}
