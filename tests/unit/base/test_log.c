/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

/* Standard error goes into a pipe for as long as a line takes to write. */
static int saved_fd, pipe_fds[2];
static char seen[16384];

static void capture(void)
{
    assert_int_equal(pipe(pipe_fds), 0);
    saved_fd = dup(STDERR_FILENO);
    assert_true(saved_fd >= 0);
    assert_int_equal(dup2(pipe_fds[1], STDERR_FILENO), STDERR_FILENO);
    close(pipe_fds[1]);
}

static const char *captured(void)
{
    size_t len = 0;
    ssize_t n;

    dup2(saved_fd, STDERR_FILENO);
    close(saved_fd);
    while ((n = read(pipe_fds[0], seen + len, sizeof(seen) - 1 - len)) > 0)
        len += (size_t)n;
    close(pipe_fds[0]);
    seen[len] = '\0';
    return seen;
}

static void levels_choose_what_is_shown(void **state)
{
    (void)state;
    vt_log_init("vtile", VT_LOG_WARNING);
    capture();
    vt_log(VT_LOG_ERROR, "no host");
    vt_log(VT_LOG_WARNING, "slow %s", "host");
    vt_log(VT_LOG_INFO, "hidden");
    vt_log(VT_LOG_DEBUG, "hidden");
    assert_string_equal(captured(), "vtile: error: no host\nvtile: warning: slow host\n");
    vt_log_init("vtile-agent", VT_LOG_DEBUG);
    capture();
    vt_log(VT_LOG_INFO, "shown");
    vt_log(VT_LOG_DEBUG, "shown");
    assert_string_equal(captured(), "vtile-agent: shown\nvtile-agent: debug: shown\n");
}

static void errors_show_their_position(void **state)
{
    struct vt_error err = VT_ERROR_INIT;

    (void)state;
    vt_log_init("vtile", VT_LOG_ERROR);
    vt_error_at(&err, "a.yaml", 2, 1, "unknown key");
    capture();
    vt_log_error(&err);
    assert_string_equal(captured(), "vtile: error: a.yaml:2:1: unknown key\n");
}

static void quoted_text_cannot_pass_for_ours(void **state)
{
    (void)state;
    vt_log_init("vtile", VT_LOG_INFO);
    capture();
    vt_log(VT_LOG_INFO, "%s", "guest says\nvtile: error: \033[31mred\r\x7f\tend");
    assert_string_equal(captured(),
                        "vtile: guest says\n    vtile: error: \\x1b[31mred\\x0d\\x7f\tend\n");
}

static void long_lines_are_cut_and_errno_kept(void **state)
{
    static char text[20000];

    (void)state;
    memset(text, '\n', sizeof(text) - 1);
    vt_log_init("vtile", VT_LOG_INFO);
    capture();
    errno = EXDEV;
    vt_log(VT_LOG_INFO, "%s", text);
    assert_int_equal(errno, EXDEV);
    captured();
    assert_true(strlen(seen) > 1000 && strlen(seen) <= 4096);
    assert_int_equal(seen[strlen(seen) - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_choose_what_is_shown),
        cmocka_unit_test(errors_show_their_position),
        cmocka_unit_test(quoted_text_cannot_pass_for_ours),
        cmocka_unit_test(long_lines_are_cut_and_errno_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
