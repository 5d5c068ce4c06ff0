/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledged means kept: bitmaps against each other, out of records, and what the verdict says.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"

#include "base/rng.h"
#include "base/scope.h"
#include "results/kept.h"
#include "results/record_row.h"
#include "results/result.h"

/* Steps: 80 of app (10 bytes of bitmap), 72 of mail (9). */
static const struct sample_role roles[] = {
    {.role = "app", .scored = true, .divisor = 10000000, .weight = 1000000, .good = 10},
    {.role = "mail", .scored = true, .divisor = 9000000, .weight = 1000000, .good = 9},
};
static const struct sample sample = {
    .tiles = 1, .roles = roles, .nroles = 2, .seconds = 4, .ended = "complete", .accel = "kvm"};

/* --- two bitmaps --- */

static bool bit(const uint8_t *bits, size_t n, size_t i)
{
    return i / 8 < n && (bits[i / 8] >> i % 8 & 1) != 0;
}

/* Step by step, as the words say it. */
static void test_counts(void **state)
{
    uint8_t asked[40], found[40];
    struct vt_rng rng;

    (void)state;
    vt_rng_seed(&rng, 1, "kept", 0);
    for (unsigned round = 0; round < 2000; round++) {
        size_t nasked = (size_t)vt_rng_below(&rng, 41), nfound = (size_t)vt_rng_below(&rng, 41);
        struct kept_counts want = {0}, got;

        for (size_t i = 0; i < 40; i++) {
            asked[i] = (uint8_t)vt_rng_below(&rng, 256);
            found[i] = (uint8_t)(asked[i] | vt_rng_below(&rng, 256));
            if (vt_rng_below(&rng, 8) == 0)
                found[i] = (uint8_t)vt_rng_below(&rng, 256);
        }
        for (size_t i = 0; i < 320; i++) {
            bool a = bit(asked, nasked, i), k = bit(found, nfound, i);

            want.acknowledged += a;
            want.kept += k;
            want.missing += a && !k;
            if (a && !k && want.nfirst < KEPT_FIRST_MAX)
                want.first[want.nfirst++] = (uint32_t)i;
        }
        kept_count(asked, nasked, found, nfound, &got);
        assert_int_equal(got.acknowledged, want.acknowledged);
        assert_int_equal(got.kept, want.kept);
        assert_int_equal(got.missing, want.missing);
        assert_int_equal(got.nfirst, want.nfirst);
        assert_memory_equal(got.first, want.first, sizeof want.first);
    }
    struct kept_counts none;
    kept_count(NULL, 0, NULL, 0, &none);
    assert_int_equal(none.acknowledged + none.kept + none.missing + none.nfirst, 0);
}

/* --- records --- */

struct piece {
    const char *source, *name;
    const char *data;
    size_t len;
};
#define PIECE(source_, name_, data_)             \
    {                                            \
        source_, name_, data_, sizeof(data_) - 1 \
    }

static void judge(const struct piece *pieces, size_t npieces, struct result *result)
{
    const char *path = sample_path("kept");
    struct record *record;
    struct record_reader *reader = NULL;

    remove(path);
    record = sample_record_open(path, &sample);
    for (size_t i = 0; i < npieces; i++) {
        struct vt_event event = {
            .type = VT_EVENT_LOG, .source = pieces[i].source, .series = pieces[i].name};

        record_put_log(record, &event, pieces[i].data, pieces[i].len);
    }
    assert_ok(record_close(record, OK_ERR));
    memset(result, 0, sizeof(*result));
    assert_ok(record_open_read(path, &reader, OK_ERR));
    assert_ok(result_compute(reader, result, OK_ERR));
    record_reader_close(reader);
}

static const struct verdict_reason *reason(const struct result *result, const char *code)
{
    for (size_t i = 0; i < result->verdict.nreasons; i++)
        if (!strcmp(result->verdict.reasons[i].code, code))
            return &result->verdict.reasons[i];
    return NULL;
}

static void expect_text(const struct result *result, const char *text)
{
    struct vt_buf out = VT_BUF_INIT(1U << 20);

    result_write_text(result, &out);
    if (!strstr((const char *)out.data, text))
        fail_msg("'%s' is not in:\n%s", text, (const char *)out.data);
    vt_buf_dispose(&out);
}

/* In two pieces, with a zero byte among them: 6 of app acknowledged, all kept. */
static void test_all_is_kept(void **state)
{
    static const struct piece pieces[] = {
        PIECE("client-1", "acknowledged.app.1.bits", "\x03\x00\x81"),
        PIECE("database-1", "kept.app.1.bits", "\x0f\x00\xff\x00"),
        PIECE("client-1", "acknowledged.app.1.bits", "\x00\x00\x00\x00\x00\x00\x81"),
        PIECE("database-1", "kept.app.1.bits", "\x00\x00\x00\x00\x00\x81"),
    };
    struct result result;

    (void)state;
    judge(pieces, VT_COUNT(pieces), &result);
    assert_int_equal(result.kept.nroles, 1);
    assert_string_equal(result.kept.roles[0].role, "app");
    assert_int_equal(result.kept.roles[0].counts.acknowledged, 6);
    assert_int_equal(result.kept.roles[0].counts.kept, 14);
    assert_null(result.kept.roles[0].unknown);
    assert_int_equal(result.verdict.grade, VERDICT_VALID);
    expect_text(&result, "kept     tile 1, app: 6 acknowledged, 14 kept, 0 missing\n");
    result_dispose(&result);
}

static void test_something_is_lost(void **state)
{
    static const struct piece pieces[] = {
        PIECE("client-1", "acknowledged.app.1.bits", "\xff\xff\x00\x00\x00\x00\x00\x00\x00\x80"),
        PIECE("database-1", "kept.app.1.bits", "\xf7\xff"), /* shorter: the rest is not there */
        PIECE("client-1", "acknowledged.mail.1.bits", "\xff\xff\x00\x00\x00\x00\x00\x00\x00"),
        PIECE("mail-1", "kept.mail.1.bits", ""),
    };
    struct result result;
    const struct verdict_reason *lost;
    struct vt_buf out = VT_BUF_INIT(1U << 20);

    (void)state;
    judge(pieces, VT_COUNT(pieces), &result);
    assert_int_equal(result.kept.nroles, 2);
    assert_int_equal(result.verdict.grade, VERDICT_INVALID);
    lost = reason(&result, "lost-acknowledged");
    assert_non_null(lost);
    assert_int_equal(lost->number, 2);
    assert_string_equal(lost->text, "tile 1, app: 2 of 17 acknowledged steps are not there any "
                                    "more: 3, 79");
    assert_int_equal(lost[1].number, 16);
    assert_non_null(strstr(lost[1].text, "tile 1, mail: 16 of 16"));
    assert_non_null(strstr(lost[1].text, ": 0, 1, 2, 3, 4, 5, 6, 7, ..."));
    result_write_json(&result, NULL, &out);
    assert_non_null(strstr((const char *)out.data,
                           "\"kept\":[{\"tile\":1,\"role\":\"app\",\"acknowledged\":17,\"kept\":15,"
                           "\"missing\":2},"));
    vt_buf_dispose(&out);
    result_dispose(&result);
}

static void expect_unknown(const struct piece *pieces, size_t npieces, int64_t number,
                           const char *says)
{
    struct result result;
    const struct verdict_reason *unknown;

    judge(pieces, npieces, &result);
    assert_int_equal(result.verdict.grade, VERDICT_INVALID);
    unknown = reason(&result, "kept-unknown");
    assert_non_null(unknown);
    assert_int_equal(unknown->number, number);
    if (!strstr(unknown->text, says))
        fail_msg("'%s' does not say '%s'", unknown->text, says);
    assert_null(reason(&result, "lost-acknowledged"));
    expect_text(&result, "missing is not known");
    result_dispose(&result);
}

static void test_unknown(void **state)
{
    static const struct piece nobody[] = {
        PIECE("client-1", "acknowledged.app.1.bits", "\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
        PIECE("database-1", "kept.app.2.bits", "\x07"), /* of another tile */
        PIECE("database-1", "kept.apps.1.bits", "\x07"),
    };
    static const struct piece too_short[] = {
        PIECE("client-1", "acknowledged.app.1.bits", "\x07\x00\x00"),
        PIECE("database-1", "kept.app.1.bits", "\x07"),
    };
    static const struct piece two[] = {
        PIECE("client-1", "acknowledged.app.1.bits", "\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
        PIECE("database-1", "kept.app.1.bits", "\x01"),
        PIECE("web-1", "kept.app.1.bits", "\x07"),
    };

    (void)state;
    expect_unknown(nobody, VT_COUNT(nobody), 3, "no guest told what it has kept");
    expect_unknown(too_short, VT_COUNT(too_short), 3, "does not fit its schedule");
    expect_unknown(two, VT_COUNT(two), 3, "more than one agent tells of it");
}

/* Nothing acknowledged: nothing must be kept. Names of nothing known are passed over. */
static void test_nothing_to_keep(void **state)
{
    static const struct piece pieces[] = {
        PIECE("client-1", "acknowledged.app.1.bits", "\0\0\0\0\0\0\0\0\0\0"),
        PIECE("client-1", "acknowledged.app.bits", "\xff"),
        PIECE("client-1", "acknowledged..bits", "\xff"),
        PIECE("client-1", "acknowledged.app.99999999999999999999.bits", "\xff"),
        PIECE("client-1", "acknowledged.app.-1.bits", "\xff"),
        PIECE("client-1", "acknowledged.app.1.bits.gz", "\xff"),
        PIECE("mail-1", "kept.mail.1.bits", "\xff"),
    };
    struct result result;

    (void)state;
    judge(pieces, VT_COUNT(pieces), &result);
    assert_int_equal(result.kept.nroles, 1);
    assert_int_equal(result.verdict.grade, VERDICT_VALID);
    result_dispose(&result);
}

/* More than any schedule has steps: not read on, and told. */
static void test_hostile_sizes(void **state)
{
    const size_t piece_bytes = 1U << 20;
    char *zeros = calloc(1, piece_bytes);
    struct piece pieces[4];

    (void)state;
    assert_non_null(zeros);
    zeros[0] = 1;
    for (size_t i = 0; i < 3; i++)
        pieces[i] = (struct piece){"client-1", "acknowledged.app.1.bits", zeros, piece_bytes};
    pieces[3] = (struct piece){"database-1", "kept.app.1.bits", zeros, 1};
    expect_unknown(pieces, 4, 2, "a bitmap is too long");
    pieces[0].len = 10;
    for (size_t i = 1; i < 4; i++)
        pieces[i] = (struct piece){"database-1", "kept.app.1.bits", zeros, piece_bytes};
    expect_unknown(pieces, 4, 1, "a bitmap is too long");
    free(zeros);
}

/* --- facts that must be zero --- */

static void test_wrong_facts(void **state)
{
    static const struct {
        const char *key, *value;
        int64_t number; /* 0: it is none */
    } facts[] = {
        {"check.database-1.wrong.stock", "7", 7},
        {"check.mail-1.wrong.order", "-1", -1},
        {"check.web-1.wrong.odd", "false", 1},
        {"check.app-1.wrong.none", "0", 0},
        {"check.app-1.requests", "7", 0},
        {"check.wrong.app", "7", 0}, /* of an agent called "wrong" */
        {"config.app-1.wrong.stock", "7", 0},
    };
    const char *path = sample_path("wrong");
    struct record *record = sample_record_open(path, &sample);
    struct record_reader *reader = NULL;
    struct result result = {0};
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(facts); i++)
        assert_ok(record_put_meta(record, facts[i].key, facts[i].value, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    assert_ok(record_open_read(path, &reader, OK_ERR));
    assert_ok(result_compute(reader, &result, OK_ERR));
    for (size_t i = 0; i < result.verdict.nreasons; i++)
        n += !strcmp(result.verdict.reasons[i].code, "wrong-contents");
    assert_int_equal(n, 3);
    assert_int_equal(result.verdict.grade, VERDICT_INVALID);
    assert_int_equal(reason(&result, "wrong-contents")->number, 7);
    assert_string_equal(reason(&result, "wrong-contents")->text,
                        "database-1: wrong.stock is 7, it must be 0");
    record_reader_close(reader);
    result_dispose(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_all_is_kept),
        cmocka_unit_test(test_something_is_lost),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_nothing_to_keep),
        cmocka_unit_test(test_hostile_sizes),
        cmocka_unit_test(test_wrong_facts),
    };
    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
