/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of docs/audit.md: a record that keeps all of them, and one fault at a time. */
#include <stdio.h>
#include <string.h>

#include "sample.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "results/audit.h"

#define WINDOW_S 4

/* Published: 100 points for 178.1, 180.9 and 139.6 operations a second. Rates that are whole in a
 * window of 4 s are near enough to those. */
static const struct sample_role roles[] = {
    {"app", VT_RECORD_LOOP_OPEN, true, 178100000, 1000000, 178, 0, 0, 0},
    {"web", VT_RECORD_LOOP_OPEN, true, 180900000, 1000000, 181, 0, 0, 0},
};
static const struct sample full = {2, roles, VT_COUNT(roles), WINDOW_S, "complete", "kvm"};
static const struct audit_divisor divisors[] = {
    {"app", 178100000}, {"web", 180900000}, {"mail", 139600000}};
static const struct audit_preset presets[] = {{"smoke", 1, 1, WINDOW_S, false},
                                              {"standard", 300, 600, 7200, true}};

static void put_machines(struct record *record)
{
    static const char *const facts[] = {"kernel", "cpu", "cpus", "memory", "hypervisor"};
    static const char *const machines[] = {"host.1", "web-1", "client-1"};
    struct vt_record_agent agents[] = {{"web-1", "guest", 1, 0, 1000},
                                       {"client-1", "client", 0, 0, 1000}};
    char key[RECORD_META_KEY_MAX];

    for (size_t m = 0; m < VT_COUNT(machines); m++) {
        for (size_t i = 0; i < VT_COUNT(facts); i++) {
            for (int end = 0; end < 2; end++) {
                snprintf(key, sizeof(key), "config%s.%s.%s", end ? "_end" : "", machines[m],
                         facts[i]);
                assert_ok(record_put_meta(record, key, "as it is", OK_ERR));
            }
        }
    }
    /* Clocks move. */
    assert_ok(record_put_meta(record, "config.web-1.wall_offset_ns", "100", OK_ERR));
    assert_ok(record_put_meta(record, "config_end.web-1.wall_offset_ns", "105", OK_ERR));
    assert_ok(record_put_meta(record, "config.settings.load", "1", OK_ERR));
    assert_ok(record_put_meta(record, "config.settings.load.source", "--load", OK_ERR));
    for (size_t i = 0; i < VT_COUNT(agents); i++)
        assert_ok(record_put_agent(record, &agents[i], OK_ERR));
}

struct fault {
    const char *key, *value; /* of meta */
    const char *compared;
    const struct audit_divisor *divisors;
    const char *full_preset;
    const char *schedule; /* of the spec's first role */
    int64_t rate_more;    /* of it too */
    int64_t limit_more;   /* of its first operation */
    bool less_roles;      /* the spec does not know the last one */
    bool more_roles;      /* or one more, that no tile has */
};

/* What the spec says: the rows of the first tile, as they were read back. */
static void make_spec(struct record_reader *reader, const struct fault *fault,
                      struct audit_spec *ret)
{
    struct vt_record_role *all = NULL;
    size_t n = 0;

    assert_ok(record_read_roles(reader, &all, &n, OK_ERR));
    assert_int_equal(n, 2 * VT_COUNT(roles));
    ret->roles = all;
    ret->nroles = VT_COUNT(roles) - fault->less_roles;
    if (fault->schedule)
        vt_text_copy(all[0].schedule, sizeof(all[0].schedule), fault->schedule);
    all[0].rate += fault->rate_more;
    all[0].operations[0].limits[0].limit_ns += fault->limit_more;
    if (fault->more_roles) {
        all[2] = all[0];
        vt_text_copy(all[2].role, sizeof(all[2].role), "mail");
        ret->nroles++;
    }
}

static void judge(const struct fault *fault, struct audit *audit)
{
    static unsigned number;
    struct record_reader *reader = NULL;
    struct result result = {0};
    struct audit_given given = {.signer = "00",
                                .own = true,
                                .nparts = 1,
                                .compared = fault->compared,
                                .result = &result,
                                .same_text = true,
                                .presets = presets,
                                .npresets = VT_COUNT(presets),
                                .full_preset = fault->full_preset ? fault->full_preset : "smoke",
                                .divisors = fault->divisors ? fault->divisors : divisors,
                                .ndivisors = VT_COUNT(divisors)};
    char name[32];
    struct record *record;
    const char *path;

    snprintf(name, sizeof(name), "audit-%u", number++);
    path = sample_path(name);
    record = sample_record_open(path, &full);
    put_machines(record);
    assert_ok(record_put_meta(record, RECORD_META_LOAD, "1.000000", OK_ERR));
    assert_ok(record_put_meta(record, RECORD_META_TILES, "2", OK_ERR));
    if (fault->key)
        assert_ok(record_put_meta(record, fault->key, fault->value, OK_ERR));
    assert_ok(record_close(record, OK_ERR));
    assert_ok(record_open_read(path, &reader, OK_ERR));
    assert_ok(result_compute(reader, &result, OK_ERR));
    /* Of the sample's short window most limits are undecided; that is another rule's test. */
    result.qos.state = QOS_PASS;
    make_spec(reader, fault, &given.text);
    *audit = (struct audit){0};
    assert_ok(audit_record(reader, &given, audit, OK_ERR));
    free(given.text.roles);
    result_dispose(&result);
    record_reader_close(reader);
}

static const struct audit_line *find(const struct audit *audit, const char *rule)
{
    for (size_t i = 0; i < audit->n; i++) {
        if (!strcmp(audit->lines[i].rule, rule))
            return &audit->lines[i];
    }
    fail_msg("no rule '%s'", rule);
    return NULL;
}

static void test_full_claim(void **state)
{
    VT_AUTO_BUF struct vt_buf text = VT_BUF_INIT(1 << 16);
    VT_AUTO_BUF struct vt_buf json = VT_BUF_INIT(1 << 16);
    struct audit audit;
    json_t *read;

    (void)state;
    judge(&(struct fault){0}, &audit);
    for (size_t i = 0; i < audit.n; i++) {
        if (audit.lines[i].state != AUDIT_PASS)
            fail_msg("%s: %s", audit.lines[i].rule, audit.lines[i].saw);
    }
    assert_int_equal(audit.n, 19);
    audit_write_text(&audit, &text);
    assert_non_null(strstr(text.data, "conclusion: full claim (19 rules, 0 failed)"));
    audit_write_json(&audit, "0123456789ab", &json);
    read = json_loads(json.data, 0, NULL);
    assert_non_null(read);
    assert_string_equal(json_string_value(json_object_get(read, "conclusion")), "full claim");
    assert_int_equal(json_array_size(json_object_get(read, "rules")), 19);
    json_decref(read);
}

/* That rule alone, of that kind, fails; words stand in what it saw. */
static void check(const struct fault *fault, const char *rule, bool claim, const char *words)
{
    struct audit audit;
    const struct audit_line *line;

    judge(fault, &audit);
    line = find(&audit, rule);
    assert_int_equal(line->claim, claim);
    if (line->state != AUDIT_FAIL || !strstr(line->saw, words))
        fail_msg("%s: %s: %s", rule, audit_state_name(line->state), line->saw);
    for (size_t i = 0; i < audit.n; i++) {
        if (&audit.lines[i] != line && audit.lines[i].state == AUDIT_FAIL)
            fail_msg("%s fails besides %s: %s", audit.lines[i].rule, rule, audit.lines[i].saw);
    }
}

static void test_faults(void **state)
{
    static const struct audit_divisor other[] = {{"app", 178100001}, {"web", 1}, {"mail", 1}};

    (void)state;
    check(&(struct fault){.compared = "another score"}, "recomputed", false, "another score");
    check(&(struct fault){.rate_more = 1}, "spec text", false,
          "tile 1, app: rate is 178000000 and not 178000001");
    check(&(struct fault){.schedule = "swing:16,60s"}, "spec text", false,
          "tile 1, app: its schedule is poisson and not swing:16,60s");
    check(&(struct fault){.limit_more = 1}, "spec text", false, "operation first");
    check(&(struct fault){.less_roles = true}, "spec text", false, "web: not a role");
    check(&(struct fault){.more_roles = true}, "tiles", false, "tile 1 has no mail");
    check(&(struct fault){.divisors = other}, "published", true, "app: divisor 178.1");
    check(&(struct fault){.full_preset = "standard"}, "length", true, "'smoke'");
    check(&(struct fault){.key = RECORD_META_SEED, .value = ""}, "seed", false, "not said");
    check(&(struct fault){.key = RECORD_META_BY_OPERATION, .value = "1"}, "limits by", false,
          "by operation");
    check(&(struct fault){.key = "config_end.host.1.memory", .value = "less"}, "unchanged", false,
          "1 of 15 facts changed, the first: host.1.memory was 'as it is', then 'less'");
    check(&(struct fault){.key = "config.web-1.extra", .value = "gone"}, "unchanged", false,
          "web-1.extra was 'gone', then ''");
}

/* These change more than one rule. */
static void test_wider_faults(void **state)
{
    struct audit audit;

    (void)state;
    judge(&(struct fault){.key = "config.client-1.kernel", .value = "not available, because"},
          &audit);
    assert_int_equal(find(&audit, "disclosure")->state, AUDIT_FAIL);
    assert_non_null(strstr(find(&audit, "disclosure")->saw, "client-1: kernel is not disclosed"));
    judge(&(struct fault){.key = "config.host.1.hypervisor",
                          .value = "not available, because libvirt does not say"},
          &audit);
    assert_non_null(strstr(find(&audit, "disclosure")->saw, "host.1: hypervisor"));
    assert_int_equal(find(&audit, "unchanged")->state, AUDIT_FAIL);
    judge(&(struct fault){.key = RECORD_META_ACCEL, .value = "tcg"}, &audit);
    assert_int_equal(find(&audit, "verdict")->state, AUDIT_PASS);
    assert_int_equal(find(&audit, "undegraded")->state, AUDIT_FAIL);
    assert_int_equal(audit_failed(&audit, false), 0);
    assert_int_equal(audit_failed(&audit, true), 1);
    judge(&(struct fault){.key = RECORD_META_ENDED, .value = "interrupted"}, &audit);
    assert_int_equal(find(&audit, "verdict")->state, AUDIT_FAIL);
    assert_non_null(strstr(find(&audit, "verdict")->saw, "INVALID: interrupted"));
    judge(&(struct fault){.key = RECORD_META_LOAD, .value = "0.5"}, &audit);
    assert_int_equal(find(&audit, "full load")->state, AUDIT_FAIL);
    assert_int_equal(find(&audit, "published")->state, AUDIT_FAIL);
    judge(&(struct fault){.key = RECORD_META_PRESET, .value = "standard"}, &audit);
    assert_int_equal(find(&audit, "preset")->state, AUDIT_FAIL);
    assert_non_null(strstr(find(&audit, "preset")->saw, "window is not that of the preset"));
    judge(&(struct fault){.key = RECORD_META_TILES, .value = "3"}, &audit);
    assert_non_null(strstr(find(&audit, "tiles")->saw, "tile 3 has no app"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_claim),
                                       cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_wider_faults)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
