/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results: what archives hold. An archive is named by its path or by the id of a run of this
 * installation; it is believed when this installation signed it, or whoever --trust names.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/scope.h"
#include "orchestrator/command.h"
#include "orchestrator/results_archive.h"
#include "orchestrator/results_audit.h"
#include "orchestrator/results_compare.h"
#include "orchestrator/results_report.h"
#include "orchestrator/settings.h"
#include "results/result.h"
#include "results/score.h"

#define MILLION 1000000

struct options {
    struct results_access access;
    double rates[RESULTS_PUBLISHED];
    unsigned nrates;
    const char *output; /* of report */
    bool json;
};

static int usage(struct vt_error *err, const char *what)
{
    return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "%s; see `vtile results --help`", what);
}

static int add_trust(struct options *options, const char *fingerprint, struct vt_error *err)
{
    size_t digits = 0;

    for (const char *p = fingerprint; *p; p++) {
        if (*p != ':' && !strchr("0123456789abcdefABCDEF", *p))
            return usage(err, "expected a SHA-256 in hex");
        digits += *p != ':';
    }
    if (digits != 2 * ARCHIVE_FINGERPRINT_BYTES)
        return usage(err, "expected a SHA-256: 64 hex digits");
    if (options->access.ntrusted == RESULTS_TRUST_MAX)
        return usage(err, "it is given too often");
    options->access.trusted[options->access.ntrusted++] = fingerprint;
    return 0;
}

static int add_rate(struct options *options, size_t index, const char *text, struct vt_error *err)
{
    int r;

    if (options->nrates & 1U << index)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "stands there twice");
    r = vt_text_parse_double(text, 0, 1e9, &options->rates[index], err);

    if (r < 0)
        return r;
    options->nrates |= 1U << index;
    return 0;
}

static int take_trust(void *ctx, const char *value, struct vt_error *err)
{
    return add_trust(ctx, value, err);
}

static int take_key(void *ctx, const char *value, struct vt_error *err)
{
    struct results_access *access = &((struct options *)ctx)->access;

    if (access->nkeys == RESULTS_KEYS_MAX)
        return vt_error_set(err, VT_KIND_USAGE, -E2BIG, "more than %d keys", RESULTS_KEYS_MAX);
    access->keys[access->nkeys++] = value;
    return 0;
}

static int take_output(void *ctx, const char *value, struct vt_error *err)
{
    struct options *options = ctx;

    (void)err;
    options->output = value;
    return 0;
}

static int take_app(void *ctx, const char *value, struct vt_error *err)
{
    return add_rate(ctx, 0, value, err);
}

static int take_web(void *ctx, const char *value, struct vt_error *err)
{
    return add_rate(ctx, 1, value, err);
}

static int take_mail(void *ctx, const char *value, struct vt_error *err)
{
    return add_rate(ctx, 2, value, err);
}

static const struct settings_option own[] = {
    {"trust", "FINGERPRINT",
     "believe this signer too (SHA-256 of the certificate, hex); repeatable", take_trust},
    {"key", "KEY.pem", "read what was encrypted for the owner of this key; repeatable", take_key},
    {"output", "FILE", "write the report there; -: to standard output", take_output},
    {"app", "RATE", "operations a second", take_app},
    {"web", "RATE", "operations a second", take_web},
    {"mail", "RATE", "operations a second", take_mail},
};
const struct settings_use results_use = {
    .usage =
        "vtile results list [OPTION]...\n"
        "       vtile results show|verify|score|audit|report [OPTION]... RUN|ARCHIVE\n"
        "       vtile results decrypt [OPTION]... RUN|ARCHIVE FILE\n"
        "       vtile results score --app RATE --web RATE --mail RATE\n\n"
        "list    the archives of this installation\n"
        "show    verdict, QoS and score of an archive, and what it was made with\n"
        "verify  every byte of an archive: structure, signature, signer, hashes\n"
        "audit   judges from the archive alone whether the run is a valid claim, rule by rule\n"
        "report  one HTML file with all of it, for any browser: beside the archive, or --output\n"
        "decrypt writes the record, an SQLite file, to FILE\n"
        "score   verdict, QoS and score, computed again from the raw data and held against\n"
        "        what was sealed (which other rules than this vtile's may tell otherwise); or "
        "points for three rates, operations a second, as a\n"
        "        SPECvirt_sc2013-style tile counts them\n"
        "        (" RESULT_METRIC ")\n\n"
        "RUN is a run's id or the beginning of it, ARCHIVE a path.",
    .options = own,
    .noptions = VT_COUNT(own),
    .operands = true};

/* The arguments after the options are argv[*ret_first] and on. 1: help was asked for and given. */
static int parse(int argc, char **argv, struct options *options, int *ret_first,
                 struct vt_error *err)
{
    struct settings_use use = results_use;
    VT_AUTO_FREE struct run_settings *settings = calloc(1, sizeof(*settings));
    int r;

    if (!settings)
        return vt_error_no_memory(err, "results");
    use.ctx = options;
    r = settings_begin(argc, argv, &use, settings, ret_first, err);
    options->json = settings->json;
    return r;
}

static int put_out(const struct vt_buf *out, struct vt_error *err)
{
    int r = vt_buf_check(out, "print results", err);

    if (r == 0 && out->len)
        fwrite(out->data, 1, out->len, stdout);
    return r;
}

/* --- score of three rates --- */

static int score_rates(const struct options *options, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    int64_t points[RESULTS_PUBLISHED], weights[RESULTS_PUBLISHED], score;
    struct vt_json w;

    for (size_t i = 0; i < RESULTS_PUBLISHED; i++) {
        points[i] = score_closed_role(llround(options->rates[i] * MILLION),
                                      results_published[i].divisor, NULL);
        weights[i] = MILLION;
    }
    score = score_mean(points, weights, RESULTS_PUBLISHED);
    if (!options->json) {
        score_print_points(score, &out);
        vt_buf_adds(&out, "\n");
        return put_out(&out, err);
    }
    vt_json_message(&w, &out, "score");
    vt_json_double(&w, "score", (double)score_hundredths(score, SCORE_POINT) / 100, 2);
    for (size_t i = 0; i < RESULTS_PUBLISHED; i++)
        vt_json_double(&w, results_published[i].role,
                       (double)score_hundredths(points[i], SCORE_POINT) / 100, 2);
    vt_json_string(&w, "loop", "closed");
    vt_json_string(&w, "metric", RESULT_METRIC);
    vt_json_end(&w);
    vt_buf_adds(&out, "\n");
    return put_out(&out, err);
}

/* --- an archive --- */

static int verify(const struct options *options, const char *name, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(1U << 16);
    struct results_archive archive;
    struct vt_json w;
    int r = results_archive_verify(&archive, name, &options->access, err);

    if (r < 0) {
        results_archive_dispose(&archive);
        return r;
    }
    if (options->json) {
        vt_json_message(&w, &out, "verified");
        vt_json_string(&w, "archive", archive.path);
        vt_json_string(&w, "run", archive.report.run);
        vt_json_string(&w, "signer", archive.report.fingerprint);
        vt_json_bool(&w, "own", archive.own);
        vt_json_uint(&w, "parts", archive.report.nparts);
        vt_json_uint(&w, "record_bytes", archive.report.record_bytes);
        vt_json_uint(&w, "recipients", archive.report.nrecipients);
        vt_json_end(&w);
    } else {
        result_print_text(&out, archive.path);
        vt_buf_adds(&out, ": good; run ");
        result_print_text(&out, archive.report.run);
        vt_buf_printf(&out, ", %u part%s, signed by %s%s", archive.report.nparts,
                      archive.report.nparts == 1 ? "" : "s", archive.report.fingerprint,
                      archive.own ? " (this installation)" : "");
        if (archive.report.nrecipients)
            vt_buf_printf(&out, ", encrypted for %u recipient%s", archive.report.nrecipients,
                          archive.report.nrecipients == 1 ? "" : "s");
    }
    vt_buf_adds(&out, "\n");
    results_archive_dispose(&archive);
    return put_out(&out, err);
}

static int print_result(const struct options *options, const char *path,
                        const struct result *result, struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(8U << 20);

    if (options->json) {
        result_write_json(result, path, &out);
        vt_buf_adds(&out, "\n");
    } else {
        result_write_text(result, &out);
    }
    return put_out(&out, err);
}

struct meta_walk {
    struct vt_buf *out;
    struct vt_json *json; /* NULL: text */
    struct vt_buf *settings;
};

static void pad(struct vt_buf *out, const char *text, size_t width)
{
    result_print_text(out, text);
    for (size_t i = strlen(text); i < width; i++)
        vt_buf_adds(out, " ");
}

/* A setting's key comes before that of its source: a row of name, value and source is made of
 * both. */
static void add_setting(struct vt_buf *out, const char *name, const char *value)
{
    size_t len = strlen(name), tail = strlen(SETTINGS_META_SOURCE);

    if (len > tail && !strcmp(name + len - tail, SETTINGS_META_SOURCE)) {
        vt_buf_adds(out, " ");
        result_print_text(out, value);
        return;
    }
    vt_buf_adds(out, out->len ? "\n  " : "  ");
    pad(out, name, 13);
    vt_buf_adds(out, " ");
    pad(out, value, 26);
}

static int on_meta(void *ctx, const char *key, const char *value)
{
    const struct meta_walk *walk = ctx;

    if (walk->json) {
        vt_json_string(walk->json, key, value);
        return 0;
    }
    if (!strncmp(key, SETTINGS_META, strlen(SETTINGS_META))) {
        add_setting(walk->settings, key + strlen(SETTINGS_META), value);
        return 0;
    }
    /* An audit compares it with what stands there of the begin: no need to see it twice. */
    if (!strncmp(key, RECORD_META_CONFIG_END, strlen(RECORD_META_CONFIG_END)))
        return 0;
    vt_buf_adds(walk->out, "  ");
    pad(walk->out, key, 20);
    if (strlen(value) > 200)
        vt_buf_printf(walk->out, " (%zu bytes; --json shows them)", strlen(value));
    else {
        vt_buf_adds(walk->out, " ");
        result_print_text(walk->out, value);
    }
    vt_buf_adds(walk->out, "\n");
    return 0;
}

/* What the run was made with: keys of meta, with --json all of them. */
static int print_meta(const struct options *options, struct record_reader *reader,
                      struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(16U << 20);
    VT_AUTO_BUF struct vt_buf settings = VT_BUF_INIT(1U << 20);
    struct vt_json w;
    struct meta_walk walk = {&out, options->json ? &w : NULL, &settings};
    int r;

    if (options->json) {
        vt_json_message(&w, &out, "meta");
        vt_json_object(&w, "meta");
    } else {
        vt_buf_adds(&out, "made with\n");
    }
    r = record_walk_meta(reader, on_meta, &walk, err);
    if (r < 0)
        return r;
    if (options->json) {
        vt_json_end(&w);
        vt_json_end(&w);
        vt_buf_adds(&out, "\n");
    } else if (settings.len) {
        vt_buf_printf(&out, "settings, and where each came from\n%s\n", settings.data);
    }
    r = vt_buf_check(&settings, "print settings", err);
    return r < 0 ? r : put_out(&out, err);
}

/* The same figures; what other rules said of them stands above. show tells more, score holds them
 * against the sealed ones. */
static int show_or_score(const struct options *options, const char *name, bool show,
                         struct vt_error *err)
{
    VT_AUTO_BUF struct vt_buf told = VT_BUF_INIT(8U << 20);
    struct results_archive archive;
    struct record_reader *reader = NULL;
    struct result result = {0};
    int r = results_archive_open(&archive, name, &options->access, &reader, err);

    if (r == 0)
        r = result_compute(reader, &result, err);
    if (r == 0)
        r = results_compare(&archive.report.manifest, &result, options->json, &told, err);
    if (r == -EBADMSG)
        vt_error_wrap(err, "archive %s", archive.path);
    if (r == 0 && show)
        r = print_meta(options, reader, err);
    if (r == 0)
        r = put_out(&told, err);
    if (r == 0)
        r = print_result(options, archive.path, &result, err);
    result_dispose(&result);
    record_reader_close(reader);
    results_archive_dispose(&archive);
    return r;
}

/* --- verbs --- */

static int do_list(const struct options *options, char **argv, struct vt_error *err)
{
    (void)argv;
    return results_list(options->access.trusted, options->access.ntrusted, options->json, err);
}

static int do_show(const struct options *options, char **argv, struct vt_error *err)
{
    return show_or_score(options, argv[0], true, err);
}

static int do_score(const struct options *options, char **argv, struct vt_error *err)
{
    return show_or_score(options, argv[0], false, err);
}

static int do_verify(const struct options *options, char **argv, struct vt_error *err)
{
    return verify(options, argv[0], err);
}

static int do_audit(const struct options *options, char **argv, struct vt_error *err)
{
    return results_audit(argv[0], &options->access, options->json, err);
}

static int do_report(const struct options *options, char **argv, struct vt_error *err)
{
    return results_report(argv[0], &options->access, options->output, options->json, err);
}

static int do_decrypt(const struct options *options, char **argv, struct vt_error *err)
{
    struct results_archive archive;
    int r = results_archive_unpack(&archive, argv[0], &options->access, argv[1], err);

    results_archive_dispose(&archive);
    return r;
}

/* Each returns the exit code, or a negative code. */
static const struct verb {
    const char *name;
    int (*act)(const struct options *options, char **argv, struct vt_error *err);
    int nargs;
    const char *wanted;
} verbs[] = {
    {"list", do_list, 0, "list takes no archive"},
    {"show", do_show, 1, "one run or archive is wanted"},
    {"verify", do_verify, 1, "one run or archive is wanted"},
    {"score", do_score, 1, "one run or archive is wanted"},
    {"audit", do_audit, 1, "one run or archive is wanted"},
    {"report", do_report, 1, "one run or archive is wanted"},
    {"decrypt", do_decrypt, 2, "a run or archive is wanted, and a file to write"},
};

static const char *verb_name(const void *ctx, size_t i)
{
    (void)ctx;
    return verbs[i].name;
}

static int refuse_verb(const char *word, struct vt_error *err)
{
    int nearest = vt_yaml_nearest(word, verb_name, NULL, VT_COUNT(verbs));
    char shown[VT_YAML_SHOW_MAX];

    vt_yaml_show(word, shown);
    if (nearest >= 0)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "unknown verb %s: did you mean %s?", shown,
                            verbs[nearest].name);
    return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "unknown verb %s; see `vtile results --help`",
                        shown);
}

static int act(const struct options *options, int argc, char **argv, struct vt_error *err)
{
    for (size_t i = 0; i < VT_COUNT(verbs); i++) {
        if (strcmp(verbs[i].name, argv[0]) != 0)
            continue;
        if (argc != 1 + verbs[i].nargs)
            return usage(err, verbs[i].wanted);
        return verbs[i].act(options, argv + 1, err);
    }
    return refuse_verb(argv[0], err);
}

int command_results(int argc, char **argv, struct vt_error *err)
{
    struct options options = {0};
    int at = argc, r = parse(argc, argv, &options, &at, err);

    if (r != 0)
        return r < 0 ? r : 0;
    if (at == argc)
        return usage(err, "list, show, verify, score, audit, report or decrypt is missing");
    if (options.nrates && (strcmp(argv[at], "score") != 0 || at + 1 < argc))
        return usage(err, "--app, --web and --mail belong to `score` without an archive");
    if (options.nrates && options.nrates != (1U << RESULTS_PUBLISHED) - 1)
        return usage(err, "--app, --web and --mail belong together");
    if (options.nrates)
        return score_rates(&options, err);
    if (options.output && strcmp(argv[at], "report") != 0)
        return usage(err, "--output belongs to `report`");
    return act(&options, argc - at, argv + at, err);
}
