/* SPDX-License-Identifier: Apache-2.0 */
/* What batch works on, against gcc and sha256sum; and how a child's end is told. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/scope.h"
#include "tiles/roles/batch/contents.h"
#include "tiles/roles/child.h"

static char folder[] = "/tmp/vt-batch-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    const char *const argv[] = {"rm", "-rf", folder, NULL};

    (void)state;
    return chdir("/") == 0 ? vt_proc_run(argv, NULL, 0, NULL) : -1;
}

static void run(const char *const *argv, char *text, size_t size)
{
    VT_AUTO_BUF struct vt_buf out = VT_BUF_INIT(4096);
    struct vt_error err = VT_ERROR_INIT;

    if (vt_proc_run(argv, &out, 120 * VT_NS_PER_S, &err) < 0)
        fail_msg("%s", err.text);
    vt_text_copy(text, size, out.len ? out.data : "");
}

/* The answer does not depend on what an optimizer makes of the program. */
static void test_programs(void **state)
{
    static const char *const levels[] = {"-O0", "-O2"};

    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        char wanted[16], text[4096];
        uint32_t answer;

        assert_int_equal(contents_write_program("p.c", seed, 12, &answer, NULL), 0);
        snprintf(wanted, sizeof(wanted), "%u\n", answer);
        for (size_t i = 0; i < VT_COUNT(levels); i++) {
            const char *const build[] = {
                "gcc", levels[i], "-Wall", "-Werror", "-fsanitize=undefined",
                "-o",  "p",       "p.c",   NULL};
            const char *const try_it[] = {"./p", NULL};

            run(build, text, sizeof(text));
            run(try_it, text, sizeof(text));
            assert_string_equal(text, wanted);
        }
    }
}

static void test_tables(void **state)
{
    static const uint64_t sizes[] = {0, 1, 79, 100000};

    (void)state;
    for (size_t i = 0; i < VT_COUNT(sizes); i++) {
        const char *const argv[] = {"sha256sum", "table", NULL};
        char text[4096], hex[65];
        uint8_t hash[32];
        struct stat st;

        assert_int_equal(contents_write_table("table", 9, sizes[i], hash, NULL), 0);
        assert_int_equal(stat("table", &st), 0);
        assert_int_equal(st.st_size, sizes[i]);
        run(argv, text, sizeof(text));
        vt_text_hex(hash, sizeof(hash), hex);
        assert_memory_equal(text, hex, 64);
    }
}

static bool asked(void *ctx)
{
    return *(bool *)ctx;
}

static void end_of(const char *script, int64_t limit_ns, bool stop, char *why, size_t size)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct role_work work = {.stopping = asked, .ctx = &stop};
    struct child child = {.argv = argv, .work = &work, .until_ns = vt_clock_now_ns() + limit_ns};

    assert_int_equal(child_run(&child, NULL), 0);
    child_explain(&child, why, size);
}

static void test_ends_of_a_child(void **state)
{
    static const struct {
        const char *script;
        int64_t limit_ns;
        bool stop;
        const char *why;
    } cases[] = {
        {"true", 60 * VT_NS_PER_S, false, ""},
        {"yes | head -c 1000000", 60 * VT_NS_PER_S, false, ""},
        {"echo first >&2; echo the last line >&2; exit 3", 60 * VT_NS_PER_S, false,
         "sh ended with 3: the last line"},
        {"kill -9 $$", 60 * VT_NS_PER_S, false, "sh was killed by signal 9"},
        {"sleep 1000 & wait", 100 * VT_NS_PER_MS, false, "late: it was not done by its deadline"},
        {"exec >&- 2>&-; sleep 1000", 100 * VT_NS_PER_MS, false,
         "late: it was not done by its deadline"},
        {"sleep 1000", 60 * VT_NS_PER_S, true, "stopped"},
    };

    (void)state;
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        int64_t begun_ns = vt_clock_now_ns();
        char why[240];

        end_of(cases[i].script, cases[i].limit_ns, cases[i].stop, why, sizeof(why));
        assert_string_equal(why, cases[i].why);
        assert_true(vt_clock_now_ns() - begun_ns < 30 * VT_NS_PER_S);
    }
}

static void test_a_program_that_is_not_there(void **state)
{
    const char *const argv[] = {"vtile-no-such-program", NULL};
    struct child child = {.argv = argv, .until_ns = vt_clock_now_ns() + VT_NS_PER_S};

    (void)state;
    assert_int_equal(child_run(&child, NULL), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_ends_of_a_child),
        cmocka_unit_test(test_a_program_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
