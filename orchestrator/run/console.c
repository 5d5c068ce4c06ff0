/* SPDX-License-Identifier: Apache-2.0 */
/*
 * console: what a VM has said on its serial console, which its emulator writes to a file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/text.h"
#include "orchestrator/run/steps.h"

#define CONSOLE_BYTES_MAX (256 * 1024)
#define START_BYTES 65536

void run_keep_console(const struct run_vm *vm)
{
    VT_AUTO_FREE char *text = malloc(CONSOLE_BYTES_MAX);
    VT_AUTO_FCLOSE FILE *in = fopen(vm->domain.console_log, "re");
    size_t n = 0;

    /* Of a long one the end: a kernel's last words stand there. */
    if (in && fseek(in, -CONSOLE_BYTES_MAX, SEEK_END) < 0)
        rewind(in);
    if (text && in)
        n = fread(text, 1, CONSOLE_BYTES_MAX, in);
    if (n > 0)
        run_emit_log(vm->run, vm, vm->agent, "console", text, n);
}

bool run_console_shows_init(const struct run_vm *vm)
{
    VT_AUTO_FREE char *text = calloc(1, START_BYTES + 1);
    VT_AUTO_FCLOSE FILE *in = fopen(vm->domain.console_log, "re");

    if (!text || !in)
        return false;
    (void)!fread(text, 1, START_BYTES, in);
    return strstr(text, "vtile-init:") != NULL;
}

const char *run_console_end(const struct run_vm *vm, char text[RUN_CONSOLE_END_MAX])
{
    VT_AUTO_FCLOSE FILE *in = fopen(vm->domain.console_log, "re");
    char *whole = text;
    size_t n = 0;

    if (in && fseek(in, -(RUN_CONSOLE_END_MAX - 1), SEEK_END) < 0)
        rewind(in);
    if (in)
        n = fread(text, 1, RUN_CONSOLE_END_MAX - 1, in);
    if (n == RUN_CONSOLE_END_MAX - 1) /* it may begin within a line */
        whole = memchr(text, '\n', n);
    while (n > 0 && strchr("\r\n", text[n - 1]))
        n--;
    text[n] = '\0';
    if (!whole || whole >= text + n)
        whole = text;
    whole += strspn(whole, "\r\n");
    for (char *at = whole; (at = strpbrk(at, "\r\n"));)
        *at = *at == '\n' ? '|' : ' ';
    vt_text_make_plain(whole);
    return *whole ? whole : "(nothing)";
}
