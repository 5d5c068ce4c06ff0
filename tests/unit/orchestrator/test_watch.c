/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of a run, where a guest may have said it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/event.h"
#include "orchestrator/watch/terminal.h"

static void texts_are_no_orders_to_the_terminal(void **state)
{
    static const struct {
        const char *said, *shown;
    } cases[] = {
        {"plain, \xc3\xa4 too", "plain, \xc3\xa4 too\n"},
        {"\033]0;title\007", "\\x1b]0;title\\x07\n"},
        {"two\nlines\r", "two\\x0alines\\x0d\n"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\x9b"
         "31m\n"},
        {"", "\n"},
        {NULL, "\n"},
    };
    static struct spec spec;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct watch_terminal terminal;
        struct vt_event event = {.type = VT_EVENT_AGENT, .source = "web-1", .text = cases[i].said};
        char *out = NULL;
        size_t len = 0;
        FILE *stream = open_memstream(&out, &len);

        assert_non_null(stream);
        assert_int_equal(watch_terminal_init(&terminal, stream, &spec, NULL), 0);
        event.time_ns = terminal.start_ns;
        terminal.sink.take(&terminal.sink, &event);
        watch_terminal_dispose(&terminal);
        fclose(stream);
        assert_non_null(strstr(out, "web-1: "));
        assert_string_equal(strstr(out, "web-1: ") + strlen("web-1: "), cases[i].shown);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_no_orders_to_the_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
