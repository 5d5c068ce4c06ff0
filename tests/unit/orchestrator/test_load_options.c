/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `vtile load`: bad ones, each refused as usage with what is wrong with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "orchestrator/load/options.h"

#define WORDS_MAX 8
#define URL "http://h/"

static int parse(const char *const words[WORDS_MAX], struct load_options *ret, struct vt_error *err)
{
    char *argv[WORDS_MAX + 2] = {(char *)"load"};
    int argc = 1;

    for (; argc <= WORDS_MAX && words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    return load_options_parse(argc, argv, ret, err);
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *words[WORDS_MAX];
        const char *why;
    } bad[] = {
        {{NULL}, "wants one URL"},
        {{"--rate", "1"}, "wants one URL"},
        {{URL, URL, "--rate", "1"}, "wants one URL"},
        {{"nonsense", "--rate", "1"}, "is no such URL"},
        {{URL}, "either --rate N, an open loop, or --closed"},
        {{URL, "--rate", "1", "--closed"}, "either --rate N, an open loop, or --closed"},
        {{URL, "--schedule", "uniform"}, "either --rate N, an open loop, or --closed"},
        {{URL, "--closed", "--schedule", "uniform"}, "--schedule: a closed loop has none"},
        {{URL, "--closed", "--schedule", "replay:x"}, "--schedule: a closed loop has none"},
        {{URL, "--rate", "1", "--schedule", "replay:x"}, "a recorded schedule has its own"},
        {{URL, "--schedule", "replay:"}, "--schedule: expected replay:FILE"},
        {{URL, "--rate", "1", "--schedule", ""}, "--schedule"},
        {{URL, "--rate", "1", "--schedule", "burst:1s,1s"}, "did you mean \"bursty\"?"},
        {{URL, "--rate", "1", "--schedule", "bursty:1s"}, "--schedule: expected bursty:ON,OFF"},
        {{URL, "--rate", "1", "--schedule", "swing:17,1s"}, "from 1 to 16, not \"17\""},
        {{URL, "--closed=yes"}, "--closed takes no value"},
        {{URL, "--rate"}, "--rate needs a value"},
        {{URL, "--rate", "0"}, "--rate: "},
        {{URL, "--rate", "0.0000001"}, "--rate: "},
        {{URL, "--rate", "-1"}, "--rate: "},
        {{URL, "--rate", "1000001"}, "--rate: "},
        {{URL, "--rate", "nan"}, "--rate: "},
        {{URL, "--rate", "1e7"}, "--rate: "},
        {{URL, "--rate", "10/s"}, "--rate: "},
        {{URL, "--rate", "0.01", "--duration", "10 s"}, "not one request is due"},
        {{URL, "--rate", "1", "--duration", "10"}, "--duration: "},
        {{URL, "--rate", "1", "--duration", "0 s"}, "--duration: "},
        {{URL, "--rate", "1", "--duration", "1500 ms"}, "whole seconds"},
        {{URL, "--rate", "1", "--duration", "86401 s"}, "--duration: "},
        {{URL, "--rate", "1", "--warm-up", "100 ms"}, "whole seconds"},
        {{URL, "--rate", "1", "--warm-up", "25 h"}, "--warm-up: "},
        {{URL, "--rate", "1", "--timeout", "0 s"}, "--timeout: "},
        {{URL, "--rate", "1", "--timeout", "2 h"}, "--timeout: "},
        {{URL, "--rate", "1", "--wake-lag-max", "0 s"}, "--wake-lag-max: "},
        {{URL, "--rate", "1", "--wake-lag-max", "2 h"}, "--wake-lag-max: "},
        {{URL, "--rate", "1", "--connections", "0"}, "--connections: "},
        {{URL, "--rate", "1", "--connections", "4097"}, "--connections: "},
        {{URL, "--rate", "1", "--connections", "1.5"}, "--connections: "},
        {{URL, "--rate", "1", "--threads", "0"}, "--threads: "},
        {{URL, "--rate", "1", "--threads", "65"}, "--threads: "},
        {{URL, "--rate", "1", "--threads", "17"}, "fewer --connections than --threads"},
        {{URL, "--rate", "1", "--seed", "-1"}, "--seed: "},
        {{URL, "--rate", "1", "--seed", "9223372036854775808"}, "--seed: "},
        {{URL, "--closed", "--seed", "1"}, "a closed loop draws nothing"},
        {{URL, "--rate", "1", "--think", "1 s"}, "--think belongs to --closed"},
        {{URL, "--rate", "1", "--think", "0 s"}, "--think belongs to --closed"},
        {{URL, "--closed", "--think", "1"}, "--think: "},
        {{URL, "--closed", "--think", "25 h"}, "--think: "},
        {{URL, "--closed", "--wake-lag-max", "1 s"}, "--wake-lag-max belongs to --rate"},
        {{URL, "--rate", "1", "--ca", "x.pem"}, "for https"},
        {{URL, "--rate", "1", "--insecure"}, "for https"},
        {{"https://h/", "--rate", "1", "--insecure", "--ca", "x.pem"}, "either --ca or --insecure"},
        {{URL, "--closed", "--rat", "1"}, "did you mean --rate"},
        {{URL, "--closed", "-c"}, "unknown option"},
    };

    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        struct load_options options = {.rate = -7};
        struct vt_error err = VT_ERROR_INIT;
        int code = parse(bad[i].words, &options, &err);

        if (code >= 0 || !strstr(err.text, bad[i].why))
            fail_msg("%zu: wanted '%s', got '%s'", i, bad[i].why, err.text);
        assert_int_equal(err.kind, VT_KIND_USAGE);
        assert_int_equal(options.rate, -7);
    }
}

static void test_good(void **state)
{
    (void)state;
    const char *const open_loop[WORDS_MAX] = {
        URL, "--rate", "0.5", "--seed", "12345", "--duration", "2 min", "--schedule=swing:4,10s"};
    const char *const closed_loop[WORDS_MAX] = {"--closed", "--think=20ms", "--threads=2", URL,
                                                "--json"};
    struct load_options options;
    struct vt_error err = VT_ERROR_INIT;

    if (parse(open_loop, &options, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(options.rate, 500000);
    assert_int_equal(options.seed, 12345);
    assert_int_equal(options.duration_ns, 120 * VT_NS_PER_S);
    assert_int_equal(options.warm_up_ns, VT_NS_PER_S);
    assert_int_equal(options.connections, 16);
    assert_false(options.closed || options.json);
    assert_int_equal(options.shape.kind, SHAPE_SWING);
    assert_string_equal(options.schedule, "swing:4,10s");
    if (parse(closed_loop, &options, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(options.closed && options.json);
    assert_int_equal(options.rate, 0);
    assert_int_equal(options.think_ns, 20 * VT_NS_PER_MS);
    assert_int_equal(options.threads, 2);
}

static void write_times(const char *path, const char *text)
{
    assert_int_equal(vt_file_write(path, text, strlen(text), 0600, NULL), 0);
}

/* Rate and duration follow from a recorded schedule; what does not fit is refused. */
static void test_replay(void **state)
{
    (void)state;
    char path[] = "/tmp/vtile-times-XXXXXX", option[64];
    const char *const words[WORDS_MAX] = {URL, "--schedule", option};
    const char *const longer[WORDS_MAX] = {URL, "--schedule", option, "--duration", "6 s"};
    const char *const shorter[WORDS_MAX] = {URL, "--schedule", option, "--duration", "2 s"};
    struct load_options options = {0};
    struct vt_error err = VT_ERROR_INIT;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    snprintf(option, sizeof option, "replay:%s", path);
    write_times(path, "0\n1.5\n2000000000\n");
    if (parse(words, &options, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(options.duration_ns, 3 * VT_NS_PER_S);
    assert_int_equal(options.rate, 1000000);
    assert_int_equal(options.shape.nreplayed, 3);
    assert_int_equal(options.shape.replayed_ns[1], 1500000000);
    free(options.replayed_ns);
    assert_int_equal(parse(longer, &options, &err), 0);
    assert_int_equal(options.duration_ns, 6 * VT_NS_PER_S);
    assert_int_equal(options.rate, 500000);
    free(options.replayed_ns);
    options.replayed_ns = NULL;
    assert_true(parse(shorter, &options, &err) < 0);
    assert_non_null(strstr(err.text, "its last time, 2 s, is not before 2 s, the --duration"));
    write_times(path, "1\n86400.0\n");
    assert_true(parse(words, &options, &err) < 0);
    assert_non_null(strstr(err.text, "is not before 86400 s, the longest duration"));
    write_times(path, "1\n2x\n");
    assert_true(parse(words, &options, &err) < 0);
    assert_string_equal(err.file, path);
    assert_int_equal(err.line, 2);
    assert_int_equal(err.column, 2);
    assert_int_equal(vt_error_exit_code(&err), 2);
    assert_null(options.replayed_ns);
    unlink(path);
}

/* Without --seed each call draws one; it can be given again as it was printed. */
static void test_seed(void **state)
{
    (void)state;
    const char *const words[WORDS_MAX] = {URL, "--rate", "1"};
    struct load_options one, two;

    assert_int_equal(parse(words, &one, NULL), 0);
    assert_int_equal(parse(words, &two, NULL), 0);
    assert_true(one.seed != two.seed);
    assert_true(one.seed <= UINT32_MAX && two.seed <= UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_replay),
    };

    return cmocka_run_group_tests_name("load_options", tests, NULL, NULL);
}
