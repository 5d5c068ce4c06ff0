/* SPDX-License-Identifier: Apache-2.0 */
/* Specs: the built-in ones hold the published figures; what makes no sense as a whole is refused
 * where it stands. Bad input key by key is in tests/unit/orchestrator/test_bad_input.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "tiles/spec/spec.h"

#define S VT_NS_PER_S

static const struct spec_role *role_of(const struct spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->nroles; i++) {
        if (strcmp(spec->roles[i].name, name) == 0)
            return &spec->roles[i];
    }
    fail_msg("no role %s", name);
    return NULL;
}

static void load(const char *name, struct spec *spec)
{
    struct vt_error err = VT_ERROR_INIT;
    char text[2048];

    if (spec_load(name, spec, &err) < 0)
        fail_msg("%s", vt_error_print(&err, text, sizeof(text)));
}

static void check_limits(const struct spec_limit *limits, size_t n)
{
    assert_int_equal(n, 2);
    assert_int_equal(limits[0].percentile, 950000);
    assert_int_equal(limits[0].limit_ns, 3 * S);
    assert_int_equal(limits[1].percentile, 990000);
    assert_int_equal(limits[1].limit_ns, 5 * S);
}

/* Limits, think times, download rates and pages as published for the SPECweb2005 Support workload;
 * 180.9 from a published SPECvirt_sc2013 result. */
static void test_web(void **state)
{
    static const char *const pages[] = {"home",        "search", "catalog", "product",
                                        "fileCatalog", "file",   "download"};
    struct spec spec;
    const struct spec_load *l;

    (void)state;
    load("web", &spec);
    assert_string_equal(spec.name, "web");
    assert_int_equal(spec.nroles, 2);
    assert_false(role_of(&spec, "infra")->driven);
    assert_false(role_of(&spec, "infra")->scored);
    assert_true(role_of(&spec, "web")->driven);
    assert_true(role_of(&spec, "web")->scored);
    l = &role_of(&spec, "web")->load;
    assert_int_equal(l->rate, 180900000);
    assert_int_equal(l->divisor, 180900000);
    assert_int_equal(l->weight, 1000000);
    assert_int_equal(l->loop, SPEC_LOOP_OPEN);
    assert_int_equal(l->think_mean_ns, 5 * S);
    assert_int_equal(l->think_max_ns, 75 * S);
    assert_int_equal(l->think_share, 920800);
    assert_int_equal(l->expected_ns, S / 10);
    assert_int_equal(l->timeout_ns, 30 * S);
    assert_int_equal(l->connections, 64);
    assert_int_equal(l->good_limit_ns, 5 * S);
    check_limits(l->limits, l->nlimits);
    assert_int_equal(l->noperations, VT_COUNT(pages));
    for (size_t i = 0; i < VT_COUNT(pages); i++) {
        const struct spec_operation *operation = &l->operations[i];

        assert_string_equal(operation->name, pages[i]);
        if (i < 6) {
            check_limits(operation->limits, operation->nlimits);
            assert_int_equal(operation->good_limit_ns, 5 * S);
            assert_int_equal(operation->min_bytes_per_s[0], 0);
        } else {
            assert_int_equal(operation->nlimits, 0);
            assert_int_equal(operation->min_bytes_per_s[0], 99000);
            assert_int_equal(operation->min_bytes_per_s[1], 95000);
            assert_true(operation->good_limit_ns > (S << 20) / 95000);
        }
    }
}

/* An emulated VM has 128 MiB and one vCPU, but for compilers and for fio, whose libraries are
 * large. */
static void test_builtin_sizes(void **state)
{
    size_t n = 0;

    (void)state;
    for (const char *const *name = spec_builtin_names(); *name; name++, n++) {
        struct spec spec;

        load(*name, &spec);
        assert_string_equal(spec.name, *name);
        assert_non_null(spec_builtin(*name));
        for (size_t i = 0; i < spec.nroles; i++) {
            const struct spec_role_size *sizes = spec.roles[i].size;

            assert_in_range(sizes[SPEC_SIZE_TCG].memory_bytes, 128 << 20, 256 << 20);
            assert_int_equal(sizes[SPEC_SIZE_TCG].vcpus, 1);
            assert_true(sizes[SPEC_SIZE_KVM].memory_bytes >= UINT64_C(512) << 20);
        }
    }
    assert_true(n >= 2);
    assert_null(spec_builtin("absent"));
}

static void test_undriven(void **state)
{
    struct spec spec;

    (void)state;
    load("origin", &spec);
    assert_int_equal(spec.nroles, 1);
    assert_false(spec.roles[0].driven);
    assert_false(spec.roles[0].scored);
    assert_int_equal(spec.run.tiles, 0);
    assert_int_equal(spec.run.load, 0);
}

static void test_presets(void **state)
{
    size_t n;
    const struct spec_preset *presets = spec_presets(&n);

    (void)state;
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(presets[i].name, spec_preset_names[i]);
        assert_true(presets[i].drain_ns > 5 * S);
    }
    assert_null(spec_preset_names[n]);
    assert_int_equal(presets[0].measure_ns, 60 * S);
    assert_int_equal(presets[1].measure_ns, 480 * S);
    assert_int_equal(presets[2].ramp_ns, 300 * S);
    assert_int_equal(presets[2].warm_ns, 600 * S);
    assert_int_equal(presets[2].measure_ns, 7200 * S);
    assert_false(presets[0].limits_by_operation);
}

/* --- as a whole --- */

#define HEAD "name: x\ndescription: y\nroles:\n"
#define SIZE "{memory: 128 MiB, vcpus: 1, data: 0}"
#define SIZES "    sizes: {tcg: " SIZE ", kvm: " SIZE "}\n"
#define INFRA "  infra:\n" SIZES
#define WEB "  web:\n" SIZES
#define LOAD                                                                \
    "    load:\n      rate: 1\n      connections: 1\n      timeout: 30 s\n" \
    "      expected_response: 100 ms\n      error_share_max: 1 %\n      wake_lag_p99_max: 1 ms\n"

static void refused(const char *text, const char *expected)
{
    struct vt_error err = VT_ERROR_INIT;
    struct spec spec;
    char printed[2048];

    if (spec_read_text("s.yaml", text, strlen(text), &spec, &err) == 0)
        fail_msg("taken:\n%s", text);
    assert_string_equal(vt_error_print(&err, printed, sizeof(printed)), expected);
    assert_int_equal(vt_error_exit_code(&err), 2);
}

static void test_defaults(void **state)
{
    static const char text[] = HEAD INFRA WEB LOAD
        "      limits: [{share: 99 %, within: 2 s}]\n      operations:\n        file: {}\n"
        "        home: {limits: [{share: 99 %, within: 1 s}]}\n";
    struct spec spec;

    (void)state;
    assert_int_equal(spec_read_text("s.yaml", text, strlen(text), &spec, NULL), 0);
    assert_int_equal(spec.run.preset, -1);
    assert_false(spec.roles[1].scored);
    assert_int_equal(spec.roles[1].load.divisor, 1000000);
    assert_int_equal(spec.roles[1].load.weight, 1000000);
    assert_int_equal(spec.roles[1].load.good_limit_ns, 2 * S);
    assert_int_equal(spec.roles[1].load.operations[0].good_limit_ns, 2 * S);
    assert_int_equal(spec.roles[1].load.operations[1].good_limit_ns, 1 * S);
}

#define DISK(tcg, kvm)                                                                  \
    HEAD "  infra:\n    sizes:\n      tcg: {memory: 128 MiB, vcpus: 1, data: 8 MiB" tcg \
         "}\n      kvm: {memory: 1 GiB, vcpus: 1, data: 8 MiB" kvm "}\n"

static void test_storage(void **state)
{
    static const char *const texts[] = {
        DISK("", ""),
        DISK(", storage: disk", ", storage: memory"),
        DISK(", disk: 64 MiB", ", storage: disk, disk: 2 GiB"),
    };
    static const uint64_t disks[][SPEC_SIZES] = {
        {0, 4ULL << 30}, {4ULL << 30, 0}, {64ULL << 20, 2ULL << 30}};
    struct spec spec;

    (void)state;
    for (size_t i = 0; i < VT_COUNT(texts); i++) {
        assert_int_equal(spec_read_text("s.yaml", texts[i], strlen(texts[i]), &spec, NULL), 0);
        assert_int_equal(spec.db_share, 1);
        for (int size = 0; size < SPEC_SIZES; size++) {
            assert_int_equal(spec.roles[0].size[size].disk_bytes, disks[i][size]);
            assert_int_equal(spec.roles[0].size[size].storage,
                             disks[i][size] ? SPEC_STORAGE_DISK : SPEC_STORAGE_MEMORY);
        }
    }
    refused(DISK(", storage: memory, disk: 1 GiB", ""),
            "s.yaml:6:76: disk: expected storage: disk with it");
    refused(DISK(", disk: 63 MiB", ""),
            "s.yaml:6:59: roles.infra.sizes.tcg.disk: expected a size with its unit (B KiB MiB GiB "
            "TiB) from 64 MiB to 4 TiB, not \"63 MiB\"");
    refused("name: x\ndescription: y\ndb_share: 5\nroles:\n" INFRA,
            "s.yaml:3:11: db_share: expected a whole number from 1 to 4, not \"5\"");
}

/* A guest's own file system in memory is half of it. */
static void test_data_in_memory(void **state)
{
    static const char half[] = HEAD "  infra:\n    sizes:\n"
                                    "      tcg: {memory: 128 MiB, vcpus: 1, data: 64 MiB}\n"
                                    "      kvm: {memory: 1 GiB, vcpus: 1, data: 0}\n";
    struct spec spec;

    (void)state;
    assert_int_equal(spec_read_text("s.yaml", half, strlen(half), &spec, NULL), 0);
    refused(HEAD "  infra:\n    sizes:\n      tcg: {memory: 128 MiB, vcpus: 1, data: 65 MiB}\n"
                 "      kvm: {memory: 1 GiB, vcpus: 1, data: 0}\n",
            "s.yaml:6:46: data: expected at most half of memory, where it lies; give more memory, "
            "or storage: disk");
    refused(HEAD "  infra:\n    sizes:\n      tcg: {memory: 128 MiB, vcpus: 1, data: 0}\n"
                 "      kvm: {memory: 1 GiB, vcpus: 1, data: 4 TiB, storage: memory}\n",
            "s.yaml:7:44: data: expected at most half of memory, where it lies; give more memory, "
            "or storage: disk");
}

static void test_roles_refused(void **state)
{
    (void)state;
    refused(HEAD "  wbe:\n" SIZES, "s.yaml:4:3: unknown role \"wbe\": did you mean \"web\"?");
    refused(HEAD "  quantum:\n" SIZES,
            "s.yaml:4:3: unknown role \"quantum\": expected one of infra, web, app, database, "
            "mail, batch, storage, netserver, netclient");
    refused(HEAD WEB, "s.yaml:4:3: role \"web\" needs a role \"infra\" in the same tile");
    refused(HEAD INFRA LOAD "      limits: [{share: 99 %, within: 2 s}]\n",
            "s.yaml:7:7: role \"infra\" is not driven from outside: expected no load");
    refused(HEAD "  database:\n" SIZES LOAD "      limits: [{share: 99 %, within: 2 s}]\n"
                 "  app:\n" SIZES,
            "s.yaml:7:7: role \"database\" works for role \"app\" of the tile: expected no load");
    refused("name: x\ndescription: y\ndb_share: 2\nroles:\n  database:\n" SIZES LOAD
            "      limits: [{share: 99 %, within: 2 s}]\n",
            "s.yaml:8:7: role \"database\" is shared by tiles (db_share): expected no load");
    refused(HEAD INFRA WEB "    scored: true\n",
            "s.yaml:8:13: scored: expected false, for a role without load has nothing to score");
    refused(HEAD INFRA INFRA, "s.yaml:6:3: duplicate key \"infra\": it stands at 4:3 already");
    refused("name: Web\ndescription: y\nroles:\n" INFRA,
            "s.yaml:1:7: name: expected lower-case letters, digits and -, a letter first");
    refused("name: 2\ndescription: y\nroles:\n" INFRA,
            "s.yaml:1:7: name: expected lower-case letters, digits and -, a letter first");
    refused("name: x\ndescription: y\nroles: {}\n", "s.yaml:3:8: roles: expected at least 1 entry");
}

#define STORAGE "  storage:\n" SIZES
#define JOBS "    jobs:\n      rate: 2\n      error_share_max: 1 %\n"
#define BLOCKS "      read_share: 70 %\n      block: 4 KiB\n"
#define BYTES "      compress: 1 MiB\n      compile: 3\n"

static void test_jobs(void **state)
{
    static const char text[] =
        HEAD "  batch:\n" SIZES JOBS BYTES
             "      windows: {smoke: 30 s, turbo: 2 min, standard: 15 min}\n" STORAGE JOBS BLOCKS
             "      limits: [{share: 99 %, within: 2 s}]\n"
             "      operations: {write: {good_limit: 3 s}}\n";
    struct spec spec;

    (void)state;
    assert_int_equal(spec_read_text("s.yaml", text, strlen(text), &spec, NULL), 0);
    assert_true(spec.roles[0].works && spec.roles[0].driven && !spec.roles[0].scored);
    assert_int_equal(spec.roles[0].jobs.rate, 2000000);
    assert_int_equal(spec.roles[0].jobs.compress_bytes, 1 << 20);
    assert_int_equal(spec.roles[0].jobs.windows_ns[2], 900 * S);
    /* Its jobs are judged by their windows. */
    assert_int_equal(spec.roles[0].load.good_limit_ns, 900 * S);
    assert_int_equal(spec.roles[1].load.good_limit_ns, 2 * S);
    assert_int_equal(spec.roles[1].load.operations[0].good_limit_ns, 3 * S);
    assert_int_equal(spec.roles[1].load.error_share_max, 10000);
}

static void test_jobs_refused(void **state)
{
    (void)state;
    refused(HEAD INFRA JOBS "      good_limit: 1 s\n",
            "s.yaml:7:7: role \"infra\" makes no load for itself: expected no jobs");
    refused(HEAD STORAGE JOBS "      good_limit: 1 s\n",
            "s.yaml:7:7: jobs of role \"storage\": expected read_share, the share of reads among "
            "random accesses");
    refused(HEAD STORAGE JOBS BLOCKS,
            "s.yaml:7:7: good_limit: expected, since there are neither windows nor a limit for 99 "
            "%");
    refused(HEAD STORAGE JOBS BLOCKS
            "      good_limit: 1 s\n      operations: {reed: {good_limit: 1 s}}\n",
            "s.yaml:12:20: unknown operation \"reed\": did you mean \"read\"?");
    refused(HEAD INFRA WEB JOBS "      good_limit: 1 s\n" LOAD
                                "      limits: [{share: 99 %, within: 2 s}]\n",
            "s.yaml:9:7: jobs: expected nothing, for there is a load");
}

/* A share is written with its unit, so that 0.5 is never taken for 50 (wazuh/wazuh#38977,
 * transithq/tropel#64, redis/redis#15352, HdrHistogram/HdrHistogram_c#5: percentiles beyond what
 * there is). */
static void test_shares_of_limits(void **state)
{
    static const struct {
        const char *share;
        int64_t percentile; /* millionths; 0: refused */
    } cases[] = {
        {"0.5 %", 5000}, {"50 %", 500000}, {"99.9 %", 999000}, {"100 %", 0}, {"101 %", 0},
        {"-1 %", 0},     {"0 %", 0},       {"0.5", 0},         {"50", 0},    {"nan %", 0},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        VT_AUTO_FREE struct spec *spec = calloc(1, sizeof(*spec));
        struct vt_error err = VT_ERROR_INIT;
        char text[4096];
        int n = snprintf(text, sizeof(text), "%s%s%s",
                         HEAD INFRA WEB LOAD "      limits: [{share: ", cases[i].share,
                         ", within: 3 s}]\n      good_limit: 5 s\n");
        int ret = spec_read_text("s.yaml", text, (size_t)n, spec, &err);

        assert_non_null(spec);
        if (cases[i].percentile == 0) {
            assert_true(ret < 0);
            assert_non_null(strstr(err.text, "share: expected"));
        } else if (ret < 0) {
            fail_msg("%s: %s", cases[i].share, err.text);
        } else {
            assert_int_equal(spec->roles[1].load.limits[0].percentile, cases[i].percentile);
        }
    }
}

static void test_load_refused(void **state)
{
    (void)state;
    refused(HEAD INFRA WEB LOAD
            "      limits:\n        - {share: 99 %, within: 2 s}\n        - {share: 95 %, within: "
            "3 s}\n",
            "s.yaml:17:19: share: expected a larger share than that of the limit before");
    refused(HEAD INFRA WEB LOAD
            "      limits:\n        - {share: 95 %, within: 3 s}\n        - {share: 99 %, within: "
            "2 s}\n",
            "s.yaml:17:33: within: expected at least the duration of the limit before");
    refused(HEAD INFRA WEB LOAD "      limits: [{share: 95 %, within: 3 s}]\n",
            "s.yaml:9:7: good_limit: expected, since the limits have none for 99 %");
    refused(HEAD INFRA WEB LOAD "      limits: [{share: 99 %, within: 31 s}]\n",
            "s.yaml:11:16: timeout: expected at least good_limit, the 99 % limit");
    refused(HEAD INFRA WEB LOAD
            "      limits: [{share: 99 %, within: 2 s}]\n      think: {mean: 5 s, max: 4 s, share: "
            "1 %}\n",
            "s.yaml:16:31: max: expected at least the mean");
    refused(HEAD INFRA WEB LOAD
            "      limits: [{share: 99 %, within: 2 s}]\n      operations: {hom: {}}\n",
            "s.yaml:16:20: unknown operation \"hom\": did you mean \"home\"?");
    refused(HEAD INFRA WEB LOAD
            "      limits: [{share: 99 %, within: 2 s}]\n      operations:\n        home: "
            "{min_bytes_per_s_95: 5, min_bytes_per_s_99: 6}\n",
            "s.yaml:17:59: min_bytes_per_s_99: expected at most min_bytes_per_s_95");
    refused(HEAD INFRA WEB LOAD
            "      limits: [{share: 99 %, within: 2 s}]\n      operations: {home: {good_limit: 31 "
            "s}}\n",
            "s.yaml:11:16: timeout: expected at least the good_limit of each operation");
}

static void test_not_found(void **state)
{
    struct vt_error err = VT_ERROR_INIT;
    struct spec spec;

    (void)state;
    assert_true(spec_load("wen", &spec, &err) < 0);
    assert_string_equal(err.text,
                        "spec \"wen\": no such file or built-in spec: did you mean \"web\"?");
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_true(spec_load("./absent.yaml", &spec, &err) < 0);
    assert_non_null(strstr(err.text, "open ./absent.yaml: No such file"));
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_true(spec_load("", &spec, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_web),
        cmocka_unit_test(test_builtin_sizes),
        cmocka_unit_test(test_undriven),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_storage),
        cmocka_unit_test(test_data_in_memory),
        cmocka_unit_test(test_roles_refused),
        cmocka_unit_test(test_load_refused),
        cmocka_unit_test(test_shares_of_limits),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_jobs_refused),
    };

    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
