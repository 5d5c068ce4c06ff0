/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"

#define MILLION 1000000

/* Divisors of the source's tile; counts give shares near those of its tile 1. */
static const struct sample_role small_roles[] = {
    {"app", VT_RECORD_LOOP_OPEN, true, 178100000, MILLION, 15, 1, 0, 0},
    {"web", VT_RECORD_LOOP_OPEN, true, 180900000, MILLION, 24, 1, 0, 0},
    {"mail", VT_RECORD_LOOP_OPEN, true, 139600000, MILLION, 10, 0, 0, 1},
};
const struct sample sample_small = {1, small_roles, VT_COUNT(small_roles), 4, "complete", "tcg"};

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *sample_folder(void)
{
    if (!folder[0]) {
        snprintf(folder, sizeof(folder), "/tmp/vtile-test-XXXXXX");
        assert_non_null(mkdtemp(folder));
        atexit(remove_folder);
    }
    return folder;
}

const char *sample_path(const char *name)
{
    static char paths[64][256];
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", sample_folder(), name);
    for (size_t i = 0; i < VT_COUNT(paths); i++) {
        if (!paths[i][0])
            memcpy(paths[i], path, sizeof(path));
        if (!strcmp(paths[i], path))
            return paths[i];
    }
    fail_msg("too many paths");
    return NULL;
}

static void put_meta(struct record *record, const struct sample *sample)
{
    const char *const pairs[][2] = {
        {RECORD_META_RUN, "0123456789ab"},
        {RECORD_META_CONTROLLER, "vtile 0.1.0"},
        {RECORD_META_SPEC_NAME, "specvirt"},
        {RECORD_META_SPEC_TEXT, "name: specvirt\n"},
        {RECORD_META_SEED, "42"},
        {RECORD_META_PRESET, "smoke"},
        {RECORD_META_STORAGE, "disk"},
        {RECORD_META_CLIENT, "remote"},
        {RECORD_META_BY_OPERATION, "0"},
        {RECORD_META_WALL_START, "2026-11-30T10:45:41Z"},
    };

    for (size_t i = 0; i < VT_COUNT(pairs); i++)
        assert_ok(record_put_meta(record, pairs[i][0], pairs[i][1], OK_ERR));
    if (sample->accel)
        assert_ok(record_put_meta(record, RECORD_META_ACCEL, sample->accel, OK_ERR));
    if (sample->ended)
        assert_ok(record_put_meta(record, RECORD_META_ENDED, sample->ended, OK_ERR));
}

static unsigned per_second(const struct sample_role *role)
{
    return role->good + role->slow + role->wrong + role->failed;
}

static void put_role(struct record *record, const struct sample *sample, unsigned tile,
                     const struct sample_role *from)
{
    struct vt_record_role role = {.tile = tile,
                                  .scored = from->scored,
                                  .driven = true,
                                  .loop = from->loop,
                                  .rate = (int64_t)per_second(from) * MILLION,
                                  .divisor = from->divisor,
                                  .weight = from->weight,
                                  .good_limit_ns = 2 * VT_NS_PER_S,
                                  .error_share_max = 10000,
                                  .wake_lag_p99_max_ns = VT_NS_PER_MS,
                                  .limits = {{950000, VT_NS_PER_S}, {990000, 2 * VT_NS_PER_S}},
                                  .nlimits = 2};
    struct vt_record_schedule schedule = {
        .tile = tile,
        .steps = per_second(from) * (uint64_t)(sample->seconds + 4),
        .window_steps = per_second(from) * (uint64_t)sample->seconds,
        .from_s = 2,
        .to_s = 2 + sample->seconds};

    vt_text_copy(role.role, sizeof(role.role), from->role);
    vt_text_copy(schedule.role, sizeof(schedule.role), from->role);
    memset(schedule.hash, 0xab, sizeof(schedule.hash));
    vt_text_copy(role.operations[0].name, VT_RECORD_NAME_MAX, "first");
    role.operations[0].good_limit_ns = 2 * VT_NS_PER_S;
    role.operations[0].limits[0] = (struct vt_record_limit){950000, VT_NS_PER_S};
    role.operations[0].nlimits = 1;
    role.operations[0].min_bytes_per_s[0] = 99000;
    role.operations[0].min_bytes_per_s[1] = 95000;
    role.noperations = 1;
    assert_ok(record_put_role(record, &role, OK_ERR));
    assert_ok(record_put_schedule(record, &schedule, OK_ERR));
}

/* The first half of the good answers is operation "first", the rest is "second". The first one has
 * limits of rate: 1,024 bytes in i / 2 ms are 2,048,000 / i bytes a second. */
static void emit_second(struct record *record, unsigned tile, const struct sample_role *role,
                        int64_t second)
{
    struct vt_hist *hist = calloc(4, sizeof(*hist));
    struct vt_sink *sink = record_sink(record);
    unsigned half = role->good / 2;

    assert_non_null(hist);
    for (int part = 0; part < 2; part++) {
        struct vt_load_second load = {.operation = part ? "second" : "first",
                                      .second = second,
                                      .good = part ? role->good - half : half,
                                      .slow = part ? role->slow : 0,
                                      .wrong = part ? role->wrong : 0,
                                      .failed = part ? role->failed : 0,
                                      .response = &hist[0],
                                      .service = &hist[1],
                                      .wake_lag = &hist[2],
                                      .rate = &hist[3]};
        struct vt_event event = {
            .type = VT_EVENT_LOAD, .tile = tile, .role = role->role, .load = &load};
        load.intended = load.good + load.slow + load.wrong + load.failed;
        load.bytes = load.good * 1024;
        for (int i = 0; i < 4; i++)
            vt_hist_init(&hist[i]);
        for (unsigned i = part ? half : 0; i < (part ? role->good : half); i++) {
            vt_hist_record(&hist[0], (int64_t)(i + 1) * VT_NS_PER_MS);
            vt_hist_record(&hist[1], (int64_t)(i + 1) * VT_NS_PER_MS / 2);
            if (part == 0)
                vt_hist_record(&hist[3], 2048000 / (i + 1));
        }
        for (unsigned i = 0; i < load.slow; i++) {
            vt_hist_record(&hist[0], 3 * VT_NS_PER_S);
            vt_hist_record(&hist[1], 3 * VT_NS_PER_S / 2);
        }
        for (unsigned i = 0; i < load.intended; i++)
            vt_hist_record(&hist[2], 100 * VT_NS_PER_US);
        sink->take(sink, &event);
    }
    free(hist);
}

void sample_record_fill(struct record *record, const struct sample *sample)
{
    struct vt_event phase = {.type = VT_EVENT_PHASE, .phase = "measure", .source = "controller"};

    put_meta(record, sample);
    record_sink(record)->take(record_sink(record), &phase);
    for (unsigned tile = 1; tile <= sample->tiles; tile++) {
        for (size_t i = 0; i < sample->nroles; i++)
            put_role(record, sample, tile, &sample->roles[i]);
    }
    for (int64_t second = 0; second < sample->seconds + 4; second++) {
        for (unsigned tile = 1; tile <= sample->tiles; tile++) {
            for (size_t i = 0; i < sample->nroles; i++)
                emit_second(record, tile, &sample->roles[i], second);
        }
    }
}

struct record *sample_record_open(const char *path, const struct sample *sample)
{
    struct record *record = NULL;

    assert_ok(record_create(path, &record, OK_ERR));
    sample_record_fill(record, sample);
    return record;
}

void sample_record_write(const char *path, const struct sample *sample)
{
    struct record *record = sample_record_open(path, sample);

    assert_ok(record_close(record, OK_ERR));
}

const char *sample_archive(const char *path, const struct sample *sample)
{
    static char fingerprint[ARCHIVE_FINGERPRINT_TEXT];
    struct archive_key *key = NULL;
    char record[300];

    snprintf(record, sizeof(record), "%s.record", path);
    sample_record_write(record, sample);
    assert_ok(archive_key_load(sample_path("keys"), true, &key, OK_ERR));
    assert_ok(archive_seal(record, path, key, NULL, OK_ERR));
    memcpy(fingerprint, archive_key_fingerprint(key), sizeof(fingerprint));
    archive_key_free(key);
    return fingerprint;
}

uint8_t *sample_read_file(const char *path, size_t *ret_len)
{
    VT_AUTO_FCLOSE FILE *file = fopen(path, "re");
    struct stat st;
    uint8_t *data;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    data = malloc((size_t)st.st_size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)st.st_size, file), st.st_size);
    *ret_len = (size_t)st.st_size;
    return data;
}

void sample_write_file(const char *path, const void *data, size_t len)
{
    VT_AUTO_FCLOSE FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
}
